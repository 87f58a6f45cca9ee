//! The time of a core as it costs nothing: read once between two looks at the kernel.

use std::cell::Cell;
use std::sync::LazyLock;
use std::time::Instant;

static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

thread_local! {
    static TURN_US: Cell<u64> = const { Cell::new(0) };
    static TURN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Microseconds since the process first asked, on any thread.
pub fn since_origin_us() -> u64 {
    let since = ORIGIN.elapsed();
    since.as_secs() * 1_000_000 + u64::from(since.subsec_micros())
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
    let now = Instant::now();
    let since = now.saturating_duration_since(*ORIGIN);
    let now_us = since.as_secs() * 1_000_000 + u64::from(since.subsec_micros());
    TURN_US.set(now_us);
    TURN.set(Some(now));
    now_us
}
