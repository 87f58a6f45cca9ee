//! What the probes last learnt of a server, and what an answer or a failure makes of it.
//!
//! Pure: whoever asks the servers hands in what they said, and tells of the turn that comes back.

use std::sync::Arc;

use engine::{Error, Observation, Thread, ThreadError};
use farm::{Freshness, Health};
use tokio::sync::Notify;

/// What is known of a server beyond its record.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) health: Health,
    /// The last answer.
    pub(crate) observation: Option<Observation>,
    /// Grows with each answer and each promotion: a probe that was asked before is older than they are.
    pub(crate) news: u64,
    /// Failed probes in a row.
    failures: u32,
    /// Whether it was ever found alive or dead; before that there is nothing to tell.
    known: bool,
    /// How far its data reach.
    pub(crate) fresh: Arc<Freshness>,
    /// Ends the pause before the next probe.
    pub(crate) wake: Arc<Notify>,
    /// The last sign of life on a connection of the detector.
    pub(crate) heard_us: u64,
    /// Somebody has cast doubt on it since the detector asked it last.
    pub(crate) doubted: bool,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen {
            health: Health::unknown(),
            observation: None,
            news: 0,
            failures: 0,
            known: false,
            fresh: Arc::default(),
            wake: Arc::default(),
            heard_us: 0,
            doubted: false,
        }
    }
}

/// What a probe's result changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Died,
    CameAlive,
    /// Commits of this primary no longer wait for a replica, though they should.
    AcksLost,
    AcksBack,
}

impl Seen {
    /// Found dead, not just never asked.
    pub(crate) fn is_dead(&self) -> bool {
        self.known && !self.health.alive
    }

    /// Both of its replication threads run.
    pub(crate) fn replicates(&self) -> bool {
        let replica = self.observation.as_ref().and_then(|it| it.replica.as_ref());
        replica.is_some_and(|it| (it.io, it.sql) == (Thread::Running, Thread::Running))
    }

    /// It takes the writes from now on.
    pub(crate) fn promoted(&mut self) {
        (self.health.alive, self.health.read_only) = (true, false);
        (self.health.io_running, self.health.sql_running) = (None, None);
        self.health.error.clear();
        self.news += 1;
    }

    /// Takes over the answer to a probe, unless there is other news than when it was asked.
    pub(crate) fn probed(&mut self, asked: u64, observation: Observation) -> Option<Turn> {
        match asked == self.news {
            true => self.answered(observation),
            false => None,
        }
    }

    /// Takes over an answer.
    pub(crate) fn answered(&mut self, observation: Observation) -> Option<Turn> {
        let active = |seen: &Option<Observation>| {
            seen.as_ref()
                .and_then(|o| o.acks)
                .filter(|acks| acks.enabled)
                .map(|acks| acks.active)
        };
        let (acks_before, acks_now) = (
            active(&self.observation),
            active(&Some(observation.clone())),
        );
        let turn = match (acks_before, acks_now) {
            _ if self.is_dead() => {
                // A server that was away may come back with less than it had.
                self.fresh.forget();
                Some(Turn::CameAlive)
            }
            (Some(true), Some(false)) => Some(Turn::AcksLost),
            (Some(false), Some(true)) => Some(Turn::AcksBack),
            _ => None,
        };
        self.health = healthy(&observation);
        self.observation = Some(observation);
        self.news += 1;
        self.failures = 0;
        self.known = true;
        turn
    }

    /// Takes over a failure; the server is dead after `failures_max` in a row.
    pub(crate) fn failed(&mut self, error: &Error, failures_max: u32) -> Option<Turn> {
        self.failures = self.failures.saturating_add(1);
        if self.failures < failures_max.max(1) {
            return None;
        }
        self.died(error.to_string())
    }

    /// True at the failure with which a server is dead by its probes alone, and not at those that come behind it.
    pub(crate) fn just_failed_often(&self, failures_max: u32) -> bool {
        self.failures == failures_max.max(1)
    }

    /// It is dead, for this reason.
    pub(crate) fn died(&mut self, reason: String) -> Option<Turn> {
        let turn = (self.health.alive || !self.known).then_some(Turn::Died);
        self.health.alive = false;
        self.health.error = reason;
        self.known = true;
        turn
    }
}

/// The health of a server that answered.
fn healthy(observation: &Observation) -> Health {
    let replica = observation.replica.as_ref();
    let said =
        |error: Option<&ThreadError>| error.map_or(String::new(), |error| error.text.clone());
    Health {
        alive: true,
        read_only: observation.read_only,
        sql_mode: observation.sql_mode.clone(),
        logins_set_mode: observation.logins_set_mode,
        io_running: replica.map(|replica| replica.io == Thread::Running),
        sql_running: replica.map(|replica| replica.sql == Thread::Running),
        io_error: said(replica.and_then(|replica| replica.io_error.as_ref())),
        sql_error: said(replica.and_then(|replica| replica.sql_error.as_ref())),
        gtid: observation.gtid.clone(),
        error: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use engine::Acks;

    use super::*;
    use crate::observe::samples::observation;

    fn of_primary(acks_active: bool) -> Observation {
        Observation {
            read_only: false,
            acks: Some(Acks {
                enabled: true,
                active: acks_active,
                replicas: 1,
            }),
            ..observation()
        }
    }

    fn silent() -> Error {
        Error::Timeout {
            operation: "probe",
            server: "h:1".to_owned(),
            timeout_ms: 1000,
        }
    }

    #[test]
    fn two_failures_make_a_server_dead_and_one_answer_alive() {
        let mut seen = Seen::default();
        assert_eq!(
            seen.answered(of_primary(true)),
            None,
            "the first answer is no news"
        );
        assert!(seen.health.alive);
        assert_eq!(seen.failed(&silent(), 2), None);
        assert!(seen.health.alive, "one failure may be the network's");
        assert!(!seen.just_failed_often(2));
        assert_eq!(seen.failed(&silent(), 2), Some(Turn::Died));
        assert!(!seen.health.alive && seen.health.error.contains("1000 ms"));
        assert!(seen.just_failed_often(2));
        assert_eq!(seen.failed(&silent(), 2), None, "told once");
        assert!(!seen.just_failed_often(2), "at one of them only");
        assert_eq!(seen.answered(of_primary(true)), Some(Turn::CameAlive));
        assert_eq!(seen.health.error, "");
        assert_eq!(
            seen.failed(&silent(), 2),
            None,
            "failures must come in a row"
        );
    }

    #[test]
    fn a_probe_that_was_asked_before_a_promotion_says_nothing_of_it() {
        let mut seen = Seen::default();
        seen.answered(observation());
        let asked = seen.news;
        seen.promoted();
        assert_eq!(seen.probed(asked, observation()), None);
        assert!(!seen.health.read_only);
        seen.probed(seen.news, observation());
        assert!(seen.health.read_only, "somebody closed it since");
    }

    #[test]
    fn a_server_that_never_answered_is_told_as_dead_once() {
        let mut seen = Seen::default();
        assert_eq!(seen.failed(&silent(), 2), None);
        assert_eq!(seen.failed(&silent(), 2), Some(Turn::Died));
        assert_eq!(seen.failed(&silent(), 2), None);
    }

    #[test]
    fn a_primary_that_answers_alone_is_told() {
        let mut seen = Seen::default();
        seen.answered(of_primary(true));
        assert_eq!(seen.answered(of_primary(false)), Some(Turn::AcksLost));
        assert_eq!(seen.answered(of_primary(false)), None);
        assert_eq!(seen.answered(of_primary(true)), Some(Turn::AcksBack));
    }

    #[test]
    fn what_replication_says_is_shown() {
        let said = |sql, number: u32, text: &str| {
            let error = ThreadError {
                number,
                text: text.to_owned(),
            };
            Observation {
                replica: Some(engine::Replica {
                    primary_host: "h".to_owned(),
                    primary_port: 1,
                    by_gtid: true,
                    io: Thread::Running,
                    sql,
                    io_error: None,
                    sql_error: (number != 0).then_some(error),
                    received: String::new(),
                }),
                ..of_primary(true)
            }
        };
        let mut seen = Seen::default();
        assert!(!seen.replicates(), "nobody asked it");
        seen.answered(said(Thread::Running, 0, ""));
        assert!(seen.replicates());
        seen.answered(said(Thread::Stopped, 1062, "Duplicate entry"));
        assert!(!seen.replicates() && seen.health.alive);
        assert_eq!(seen.health.io_running, Some(true));
        assert_eq!(seen.health.sql_running, Some(false));
        assert_eq!(seen.health.sql_error, "Duplicate entry");
    }
}
