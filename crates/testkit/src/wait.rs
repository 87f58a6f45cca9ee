//! Waiting for conditions, and saying that a test cannot run here.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

/// Short enough that a test loses nothing by it.
const POLL: Duration = Duration::from_millis(5);

/// A condition that takes long, such as one that runs a program, is asked again after as long, up to this: those who are
/// waited for need the CPU.
const POLL_MAX: Duration = Duration::from_millis(100);

/// No wait is given up sooner, whatever seemed enough to its author on a machine that had nothing else to do. Time that is
/// not needed is not spent.
const PATIENCE_MIN: Duration = Duration::from_secs(60);

/// Calls `condition` until it is true.
///
/// # Panics
/// After `deadline`, or a minute if that is longer, naming `what` was waited for.
#[track_caller]
pub fn wait_until(deadline: Duration, what: &str, condition: impl FnMut() -> bool) {
    wait(deadline.max(PATIENCE_MIN), what, condition);
}

#[track_caller]
fn wait(deadline: Duration, what: &str, condition: impl FnMut() -> bool) {
    assert!(
        holds_within(deadline, condition),
        "after {deadline:?} still not true: {what}"
    );
}

/// The same for what is read from INNODB_TRX and its like: the engine makes these lists anew only when
/// nobody asked for them in the last 0.1 s.
#[track_caller]
pub fn wait_until_listed(deadline: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    const IDLE: Duration = Duration::from_millis(150);
    wait_until(deadline, what, || {
        let is_listed = condition();
        if !is_listed {
            thread::sleep(IDLE);
        }
        is_listed
    });
}

/// Calls `condition` until it is true, or `deadline` has passed; says which.
pub fn holds_within(deadline: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    loop {
        let asked = Instant::now();
        if condition() {
            return true;
        }
        if begin.elapsed() >= deadline {
            return false;
        }
        thread::sleep(asked.elapsed().clamp(POLL, POLL_MAX));
    }
}

/// Says on stderr why a test does nothing here.
///
/// # Panics
/// When `HEDDLE_TEST_NO_SKIP` is set: where everything is installed, nothing may be skipped.
#[track_caller]
pub fn skip(reason: &dyn std::fmt::Display) {
    assert!(
        std::env::var_os("HEDDLE_TEST_NO_SKIP").is_none(),
        "may not be skipped: {reason}"
    );
    // Not a print macro: the test runner would swallow it.
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_until_the_condition_holds() {
        let mut calls = 0;
        wait_until(Duration::from_secs(5), "three calls", || {
            calls += 1;
            calls == 3
        });
        assert_eq!(calls, 3);
    }

    #[test]
    #[should_panic(expected = "still not true: never")]
    fn names_what_did_not_happen() {
        wait(Duration::from_millis(10), "never", || false);
    }
}
