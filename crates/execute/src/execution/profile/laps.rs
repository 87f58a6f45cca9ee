//! What a traced statement spent its time on, part by part with moments.
//!
//! Invariants: no more than [`LAPS_MAX`] parts are kept; a part stands behind what it is a part of.
//!
//! Must not know: sessions and their parts, how a trace is written.

use std::time::Instant;

use farm::ServerId;
use statistics::{Failed, Stage};

use super::Step;

/// Later parts are left out.
const LAPS_MAX: usize = 512;

/// A part of a statement's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lap {
    pub stage: Stage,
    pub began: Instant,
    pub ended: Instant,
    pub server: Option<ServerId>,
    /// The place of what it is a part of.
    pub within: Option<usize>,
    pub failed: Option<Failed>,
    pub rows: Option<u64>,
}

/// The parts of one statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Laps {
    all: Vec<Lap>,
    /// The server that was chosen last.
    chosen: Option<ServerId>,
    /// No connection to it is there yet.
    connecting: bool,
    /// It is to be waited for, since it may not have what the session's reads need.
    waits: bool,
    /// Where the statement was sent, until the answer is there.
    on: Option<ServerId>,
    /// Why the server that was chosen gave no connection.
    trouble: Option<&'static str>,
}

impl Laps {
    /// Those of a statement that waits behind another one at this server; without one, of one that has no server yet.
    pub fn of(on: Option<ServerId>) -> Laps {
        Laps {
            chosen: on,
            on,
            ..Laps::default()
        }
    }

    /// A server was chosen for the whole statement.
    pub fn chosen(&mut self, server: ServerId, waits: bool) {
        (self.chosen, self.connecting, self.waits) = (Some(server), true, waits);
    }

    /// The statement is sent to this server.
    pub fn goes_to(&mut self, server: ServerId) {
        self.on = Some(server);
    }

    /// The server that was chosen last did not do it.
    pub fn failed(&mut self, why: &'static str) {
        if self.connecting {
            self.trouble = Some(why);
        } else if let Some(lap) = self.last_served() {
            lap.failed.get_or_insert(Failed::Retried(why));
        }
    }

    /// A step is over that began at the end of the one before.
    pub fn lap(&mut self, step: Step, began: Instant, ended: Instant) {
        let connecting = std::mem::take(&mut self.connecting);
        let (stage, server) = match step {
            Step::Connect => {
                // The connection is taken now, or the server is only chosen.
                (Stage::Connection, self.chosen)
            }
            Step::Wait if connecting => (Stage::Connection, self.chosen),
            Step::Wait if std::mem::take(&mut self.waits) => (Stage::Position, self.chosen),
            // There was nothing to wait for.
            Step::Wait => return self.lengthen(ended),
            Step::Hold => (Stage::Primary, None),
            Step::Serve => match self.on.take() {
                Some(server) => (Stage::Server, Some(server)),
                None => (Stage::End, None),
            },
        };
        let trouble = self.trouble.take();
        if let Some(last) = self.all.last_mut()
            && (last.stage, last.ended) == (stage, began)
            && stage == Stage::Connection
            && last.failed.is_none()
        {
            (last.ended, last.server) = (ended, server);
            last.failed = trouble.map(Failed::Retried);
            return;
        }
        self.put(Lap {
            stage,
            began,
            ended,
            server,
            within: None,
            failed: trouble.map(Failed::Retried),
            rows: None,
        });
    }

    /// What a server did of a statement that several have worked on, until this moment or that of the last of them.
    pub fn part(
        &mut self,
        server: ServerId,
        ended: Option<Instant>,
        failed: Option<Failed>,
        rows: u64,
    ) {
        let whole =
            |lap: &Lap| lap.within.is_none() && matches!(lap.stage, Stage::Server | Stage::Groups);
        let Some(at) = self.all.iter().rposition(whole) else {
            return;
        };
        let lap = &mut self.all[at];
        (lap.stage, lap.server) = (Stage::Groups, None);
        let (began, last) = (lap.began, lap.ended);
        self.put(Lap {
            stage: Stage::Server,
            began,
            ended: ended.map_or(last, |ended| ended.clamp(began, last)),
            server: Some(server),
            within: Some(at),
            failed,
            rows: Some(rows),
        });
    }

    /// All parts; the last server's answer ended with this error, and had so many rows.
    pub fn end(mut self, error: Option<u16>, rows: u64) -> Vec<Lap> {
        if let Some(lap) = self.last_served() {
            if let Some(error) = error {
                lap.failed.get_or_insert(Failed::Error(error));
            }
            if lap.stage == Stage::Server && lap.within.is_none() && lap.failed.is_none() {
                lap.rows = Some(rows);
            }
        }
        self.all
    }

    /// The last time that servers worked on the whole.
    fn last_served(&mut self) -> Option<&mut Lap> {
        let mut laps = self.all.iter_mut().rev();
        laps.find(|lap| lap.within.is_none() && matches!(lap.stage, Stage::Server | Stage::Groups))
    }

    /// The part before took until now.
    fn lengthen(&mut self, ended: Instant) {
        if let Some(last) = self.all.last_mut().filter(|lap| lap.stage == Stage::Connection) {
            last.ended = ended;
        }
    }

    fn put(&mut self, lap: Lap) {
        if self.all.len() < LAPS_MAX {
            self.all.push(lap);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Steps of a millisecond each.
    struct Clock(Instant);

    impl Clock {
        fn lap(&mut self, laps: &mut Laps, step: Step) {
            let began = self.0;
            self.0 += Duration::from_millis(1);
            laps.lap(step, began, self.0);
        }
    }

    type Told = (Stage, u128, Option<u32>, Option<usize>, Option<Failed>);

    fn told(laps: Laps, error: Option<u16>) -> Vec<Told> {
        let all = laps.end(error, 3).into_iter();
        let told = all.map(|lap| {
            let took = lap.ended.duration_since(lap.began).as_millis();
            (lap.stage, took, lap.server.map(|it| it.0), lap.within, lap.failed)
        });
        told.collect()
    }

    #[test]
    fn a_plain_statement_has_a_connection_and_a_server() {
        let (mut laps, mut clock) = (Laps::default(), Clock(Instant::now()));
        clock.lap(&mut laps, Step::Connect);
        laps.chosen(ServerId(7), false);
        clock.lap(&mut laps, Step::Connect);
        clock.lap(&mut laps, Step::Wait);
        laps.goes_to(ServerId(7));
        clock.lap(&mut laps, Step::Serve);
        let expected = [
            (Stage::Connection, 3, Some(7), None, None),
            (Stage::Server, 1, Some(7), None, Some(Failed::Error(1062))),
        ];
        assert_eq!(told(laps, Some(1062)), expected);
    }

    #[test]
    fn what_was_waited_for_and_tried_in_vain_is_told() {
        let (mut laps, mut clock) = (Laps::default(), Clock(Instant::now()));
        clock.lap(&mut laps, Step::Connect);
        laps.chosen(ServerId(1), false);
        laps.failed("connection_refused");
        clock.lap(&mut laps, Step::Wait);
        laps.chosen(ServerId(2), true);
        clock.lap(&mut laps, Step::Connect);
        clock.lap(&mut laps, Step::Wait);
        laps.goes_to(ServerId(2));
        clock.lap(&mut laps, Step::Serve);
        laps.failed("connection_lost");
        clock.lap(&mut laps, Step::Hold);
        laps.chosen(ServerId(3), false);
        clock.lap(&mut laps, Step::Connect);
        laps.goes_to(ServerId(3));
        clock.lap(&mut laps, Step::Serve);
        let why = |why| Some(Failed::Retried(why));
        let expected = [
            (Stage::Connection, 2, Some(1), None, why("connection_refused")),
            (Stage::Connection, 1, Some(2), None, None),
            (Stage::Position, 1, Some(2), None, None),
            (Stage::Server, 1, Some(2), None, why("connection_lost")),
            (Stage::Primary, 1, None, None, None),
            (Stage::Connection, 1, Some(3), None, None),
            (Stage::Server, 1, Some(3), None, None),
        ];
        assert_eq!(told(laps, None), expected);
    }

    #[test]
    fn parts_stand_within_the_whole() {
        let (mut laps, mut clock) = (Laps::default(), Clock(Instant::now()));
        clock.lap(&mut laps, Step::Connect);
        laps.goes_to(ServerId(1));
        let began = clock.0;
        clock.lap(&mut laps, Step::Serve);
        laps.part(ServerId(1), None, None, 5);
        laps.part(ServerId(2), Some(began), Some(Failed::Error(1054)), 0);
        clock.lap(&mut laps, Step::Serve);
        let expected = [
            (Stage::Connection, 1, None, None, None),
            (Stage::Groups, 1, None, None, Some(Failed::Error(1054))),
            (Stage::Server, 1, Some(1), Some(1), None),
            (Stage::Server, 0, Some(2), Some(1), Some(Failed::Error(1054))),
            (Stage::End, 1, None, None, None),
        ];
        assert_eq!(told(laps, Some(1054)), expected);
    }

    #[test]
    fn there_are_no_more_than_fit() {
        let (mut laps, mut clock) = (Laps::default(), Clock(Instant::now()));
        for _ in 0..2 * LAPS_MAX {
            clock.lap(&mut laps, Step::Hold);
        }
        assert_eq!(told(laps, None).len(), LAPS_MAX);
    }
}
