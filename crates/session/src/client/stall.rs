//! Clients that stand still: one that does not take its result, one that stops within a packet, and
//! statements that run for too long.
//!
//! The hot path only leaves notes: who waits for what, and since when. A core's tick reads them, so
//! limits in seconds are kept to a second, and no statement pays for a timer.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::counters::count;
use crate::introspection::kill::How;
use crate::per_core::{Core, Handle};
use crate::settings::Settings;

/// What a session waits for from its client, in the middle of something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wait {
    #[default]
    Nothing,
    /// The rest of a packet.
    Receive,
    /// That it takes what was sent to it.
    Send,
}

/// A client's progress, noted by its session and read by the core's tick.
#[derive(Debug, Default)]
pub(crate) struct Progress {
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
pub(crate) struct Running {
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

impl Core {
    /// Once a second, for one session: ends it when its client stands still. Its server connection
    /// closes with it, for the reply on it is unread.
    pub(crate) fn end_stalled(&self, handle: &Handle) {
        let Settings {
            client_read_timeout_s,
            client_write_timeout_s,
            ..
        } = self.settings();
        let progress = &handle.progress;
        match progress.overdue(client_read_timeout_s, client_write_timeout_s) {
            Wait::Nothing => {}
            // It may hear why.
            Wait::Receive => {
                count(&self.counters.clients_stopped_sending);
                progress.over.set(true);
                handle.closer.close_receive();
            }
            Wait::Send => {
                count(&self.counters.clients_stopped_reading);
                progress.over.set(true);
                handle.closer.close();
            }
        }
    }

    /// Once a second: ends reads, and waits for user locks, whose clients are gone. Statements that
    /// change data run to their end, as on a server.
    pub(crate) fn end_abandoned(self: &Rc<Self>) {
        let abandoned: Vec<u32> = {
            let handles = self.handles.borrow();
            let idle = handles.values().filter(|handle| {
                let harmless = handle.running.get().is_some() && handle.ends_with_client.get();
                // Who waits for a primary has done nothing yet.
                harmless || handle.waiting.get() != 0
            });
            let gone = idle.filter(|handle| handle.closer.peer_is_gone());
            gone.map(|handle| handle.id).collect()
        };
        for id in abandoned {
            count(&self.counters.statements_abandoned);
            self.kill(id, How::CONNECTION);
        }
    }

    /// The limit for one statement, if there is one.
    pub fn statement_limit(&self) -> Option<Duration> {
        let limit_ms = self.settings().statement_timeout_ms;
        (limit_ms > 0).then(|| Duration::from_millis(limit_ms))
    }

    /// Ends the statements that have been running for `limit`, by KILL QUERY at their servers: what
    /// the client hears is the server's own word.
    pub fn end_late_statements(self: &Rc<Self>, limit: Duration) {
        let late: Vec<u32> = {
            let handles = self.handles.borrow();
            let late = handles.values().filter(|h| h.started.take_late(limit));
            late.map(|handle| handle.id).collect()
        };
        for id in late {
            self.end_late(id);
        }
    }

    /// Ends a session's statement, whose time is over.
    pub(crate) fn end_late(self: &Rc<Self>, id: u32) {
        count(&self.counters.statements_timed_out);
        self.kill(id, How::QUERY);
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
