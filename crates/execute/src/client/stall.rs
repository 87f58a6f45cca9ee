//! Clients that stand still: one that does not take its result, one that stops within a packet, and
//! statements that run for too long.
//!
//! The hot path only leaves notes: who waits for what, and since when. A core's tick reads them, so
//! limits in seconds are kept to a second, and no statement pays for a timer.

pub mod watch;

use std::cell::Cell;
use std::time::{Duration, Instant};

/// What a session waits for from its client, in the middle of something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    #[default]
    Nothing,
    /// The rest of a packet.
    Receive,
    /// That it takes what was sent to it.
    Send,
}

/// A client's progress, noted by its session and read by the core's tick.
#[derive(Debug, Default)]
pub struct Progress {
    wait: Cell<Wait>,
    /// Goes up with every step.
    steps: Cell<u32>,
    /// The steps at the last tick, and for how many ticks there was none.
    seen: Cell<u32>,
    still_s: Cell<u64>,
    /// The limit has passed: the connection is being ended.
    pub over: Cell<bool>,
}

impl Progress {
    /// The session begins to wait.
    pub fn begin(&self, wait: Wait) {
        self.wait.set(wait);
    }

    /// The wait is over.
    pub fn end(&self) {
        self.wait.set(Wait::Nothing);
        self.steps.set(self.steps.get().wrapping_add(1));
    }

    /// Once a second: what the client has been waited for in vain longer than it may.
    fn overdue(&self, receive_s: u64, send_s: u64) -> Wait {
        let wait = self.wait.get();
        if wait == Wait::Nothing || self.seen.replace(self.steps.get()) != self.steps.get() {
            self.still_s.set(0);
            return Wait::Nothing;
        }
        self.still_s.set(self.still_s.get() + 1);
        let limit_s = match wait {
            Wait::Send => send_s,
            _ => receive_s,
        };
        match self.still_s.get() > limit_s {
            true => wait,
            false => Wait::Nothing,
        }
    }
}

/// How long the statement under way has been running; nothing while statements have no limit.
#[derive(Debug, Default)]
pub struct Running {
    since: Cell<Option<Instant>>,
}

impl Running {
    /// A statement goes to its server, or has been answered by it.
    pub fn set(&self, since: Option<Instant>) {
        self.since.set(since);
    }

    /// True once for a statement that has been running for `limit`.
    fn take_late(&self, limit: Duration) -> bool {
        let late = self.since.get().is_some_and(|since| since.elapsed() >= limit);
        if late {
            self.since.set(None);
        }
        late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_wait_without_a_step_is_overdue() {
        let progress = Progress::default();
        for _ in 0..100 {
            assert_eq!(progress.overdue(3, 5), Wait::Nothing);
        }
        progress.begin(Wait::Send);
        let ticks: Vec<Wait> = (0..7).map(|_| progress.overdue(3, 5)).collect();
        assert_eq!(ticks.iter().filter(|w| **w == Wait::Send).count(), 2);
        progress.end();
        progress.begin(Wait::Receive);
        assert_eq!(progress.overdue(3, 5), Wait::Nothing);
        let ticks: Vec<Wait> = (0..4).map(|_| progress.overdue(3, 5)).collect();
        assert_eq!(ticks[3], Wait::Receive);
        assert_eq!(ticks[2], Wait::Nothing);
    }

    #[test]
    fn a_statement_is_late_once() {
        let running = Running::default();
        assert!(!running.take_late(Duration::ZERO));
        running.set(Some(Instant::now()));
        assert!(!running.take_late(Duration::from_secs(3600)));
        assert!(running.take_late(Duration::ZERO));
        assert!(!running.take_late(Duration::ZERO));
    }
}
