//! The time of a core as it costs nothing: read once between two looks at the kernel.

use std::cell::Cell;
use std::sync::LazyLock;
use std::time::Instant;

static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

thread_local! {
    static TURN_US: Cell<u64> = const { Cell::new(0) };
}

/// Microseconds since the process first asked, on any thread.
pub fn since_origin_us() -> u64 {
    u64::try_from(ORIGIN.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// The same on a core, as it was when its tasks began to run after the last look at the kernel.
#[inline]
pub fn turn_us() -> u64 {
    TURN_US.get()
}

/// The core has looked at the kernel.
pub(crate) fn turned(now: Instant) {
    let since = now.saturating_duration_since(*ORIGIN);
    TURN_US.set(u64::try_from(since.as_micros()).unwrap_or(u64::MAX));
}
