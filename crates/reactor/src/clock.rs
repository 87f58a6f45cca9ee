//! The time of a core as it costs nothing: read once between two looks at the kernel.
//!
//! Microseconds are read of the kernel's clock without a moment between: to subtract two of these takes longer than to
//! read one.

#![expect(unsafe_code, reason = "the kernel's clock, as a number")]

use std::cell::Cell;
use std::sync::LazyLock;
use std::time::Instant;

static ORIGIN_US: LazyLock<u64> = LazyLock::new(monotonic_us);

thread_local! {
    static TURN_US: Cell<u64> = const { Cell::new(0) };
    static TURN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Microseconds since the process first asked, on any thread.
pub fn since_origin_us() -> u64 {
    // The origin first: the first to ask reads both.
    let origin_us = *ORIGIN_US;
    monotonic_us().saturating_sub(origin_us)
}

/// The clock that [`Instant`] reads.
fn monotonic_us() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes one time there and keeps nothing. It fails only for clocks that the kernel does not have.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}

/// The same on a core, as it was when its tasks began to run after the last look at the kernel.
#[inline]
pub fn turn_us() -> u64 {
    TURN_US.get()
}

/// The same as a moment. It is this moment on a thread that is no core.
#[inline]
pub fn turn() -> Instant {
    TURN.get().unwrap_or_else(Instant::now)
}

/// The core has looked at the kernel: what time it is now, for [`turn_us`] and [`turn`].
pub(crate) fn turned() -> u64 {
    let now_us = since_origin_us();
    TURN_US.set(now_us);
    TURN.set(Some(Instant::now()));
    now_us
}
