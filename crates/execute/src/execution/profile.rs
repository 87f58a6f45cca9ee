//! What became of a statement that went to servers: for `HEDDLE PROFILE`, for digests and for the slow log.
//!
//! Counts are kept always, they cost a few stores. While statements are counted by digest, waiting and serving are told
//! apart: the end of a statement costs a clock's reading, and other moments are those of the core's turn, which cost
//! none. From the session's first question for its profile on every step is timed, each by a reading of its own.
//!
//! Must not know: sessions and their parts, how a profile is shown.

pub mod commands;
pub(crate) mod laps;
pub mod server_counters;

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backend::Connection;
use farm::{Server, ServerId, Snapshot};
use mysql_wire::relay::Outcome;
use mysql_wire::reply::OkPacket;
use mysql_wire::status::Status;
use routing::{Level, Plan};
use statistics::Failed;

use self::laps::Laps;

/// Of so many parts of a statement it is known where they ran.
const PARTS_MAX: usize = 256;

/// On several groups.
const SEVERAL: &str = "*";

/// What a statement's time is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Choosing a server and getting a connection to it in the session's state.
    Connect,
    /// Waiting for a replica to have what the session's reads need.
    Wait,
    /// The server's work, and the way of its reply to the client.
    Serve,
    /// Waiting for a primary.
    Hold,
}

/// How much of each statement a session wants to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    #[default]
    Off,
    /// The time of each step.
    Steps,
    /// Also what the server counted, by questions of Heddle's own around the statement.
    Server,
}

impl Detail {
    pub const NAMES: &str = "off, steps, server";

    pub fn named(text: &str) -> Option<Detail> {
        let all = [Detail::Off, Detail::Steps, Detail::Server];
        all.into_iter().find(|it| text.eq_ignore_ascii_case(it.name()))
    }

    pub fn name(self) -> &'static str {
        match self {
            Detail::Off => "off",
            Detail::Steps => "steps",
            Detail::Server => "server",
        }
    }
}

/// The last statement.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// It is about the session's newest statement, which went to a server.
    pub begun: bool,
    /// The last server that was chosen for it, and the session's level for it.
    pub plan: Option<(Plan, Level)>,
    /// The server's id of the connection that answered; 0 when none did.
    pub connection: u32,
    /// Times that a server was chosen for the whole of it.
    attempts: u32,
    /// Times that its parts were sent again.
    again: u32,
    /// Times that a replica was to be waited for.
    pub waits: u32,
    pub rows: u64,
    pub affected_rows: u64,
    last_insert_id: u64,
    warnings: u16,
    /// The server's, or that of the part that failed.
    pub error: Option<u16>,
    /// What was sent to the client. Wraps around below 0 while bytes of the statement in front, in a pipeline, are
    /// still to be sent.
    bytes: u64,
    /// What ran on each of several groups.
    pub parts: Vec<PartProfile>,
    /// What its server counted for it, where somebody wanted to know and could.
    pub counters: Option<Rc<server_counters::Values>>,
    /// What servers sent for it, in rows and in their bytes, wherever they went.
    pub moved: (u64, u64),
    /// What was fetched for it, while somebody watches.
    fetches: Option<Vec<FetchProfile>>,
    /// It was to be answered by tables that are sent to groups, and is gathered instead.
    pub turned_back: bool,
    /// Its time with moments, while it is traced.
    laps: Option<Box<Laps>>,
    clock: Clock,
}

/// One fetch of a statement that is gathered.
#[derive(Clone, Debug)]
pub struct FetchProfile {
    /// Its place among the fragments of the plan.
    pub fragment: usize,
    /// Which of the parts of the profile are its groups'.
    pub parts: Range<usize>,
    pub time: Duration,
}

/// What one group did of a statement.
#[derive(Clone, Debug)]
pub struct PartProfile {
    pub group: Arc<str>,
    pub server: ServerId,
    /// The server's id of the connection.
    pub connection: u32,
    pub read_only: bool,
    pub rows: u64,
    /// Of the rows.
    pub bytes: u64,
    pub affected_rows: u64,
}

/// What the time is spent on.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    /// When the step before was over; `None` while nobody wants to know.
    last: Option<Instant>,
    /// Every step is timed; else what comes before a server's work is one.
    fine: bool,
    steps: [Duration; 4],
}

impl Profile {
    /// The session's next statement goes to a server. It began at this moment, where that is known. What runs for
    /// the sake of a statement is a part of it.
    pub fn begin(&mut self, began: Option<Instant>) {
        if self.begun {
            return;
        }
        let fine = self.clock.fine;
        let last = began.or_else(|| fine.then(Instant::now));
        let watched = self.fetches.is_some();
        *self = Profile {
            begun: true,
            clock: Clock {
                last,
                fine,
                ..Clock::default()
            },
            ..Profile::default()
        };
        self.watch(watched);
    }

    /// The statement is traced. Where it has a server already, it waits there behind another one.
    pub fn trace(&mut self) {
        let on = self.plan.map(|(plan, _)| plan.server);
        self.laps.get_or_insert_with(|| Box::new(Laps::of(on)));
    }

    /// What it spent its time on, where it was traced.
    pub(crate) fn take_laps(&mut self) -> Option<Laps> {
        self.laps.take().map(|laps| *laps)
    }

    /// From now on what is fetched is kept apart, or no longer.
    pub fn watch(&mut self, watched: bool) {
        self.fetches = watched.then(Vec::new);
    }

    /// What was fetched while somebody watched.
    pub fn fetches(&self) -> &[FetchProfile] {
        self.fetches.as_deref().unwrap_or_default()
    }

    /// A fragment is fetched: by the parts from this one on, since this moment.
    pub fn fetched(&mut self, fragment: usize, first_part: usize, began: Instant) {
        if let Some(fetches) = &mut self.fetches {
            fetches.push(FetchProfile {
                fragment,
                parts: first_part..self.parts.len(),
                time: began.elapsed(),
            });
        }
    }

    /// The profile of the next statement of a pipeline: it runs where this one did, and `pending` bytes in front of
    /// its reply are still to be sent.
    pub fn follower(&self, pending: u64) -> Profile {
        Profile {
            begun: true,
            plan: self.plan,
            attempts: 1,
            bytes: 0u64.wrapping_sub(pending),
            clock: Clock {
                steps: Default::default(),
                ..self.clock
            },
            ..Profile::default()
        }
    }

    /// A server was chosen.
    pub fn chosen(&mut self, plan: Plan, level: Level) {
        // What has passed since the server before was chosen was spent on waiting for it.
        self.lap(match self.attempts {
            0 => Step::Connect,
            _ => Step::Wait,
        });
        self.attempts += 1;
        self.chosen_for_part(plan, level);
        if let Some(laps) = &mut self.laps {
            laps.chosen(plan.server, plan.wait);
        }
    }

    /// It is sent to this server.
    #[inline]
    pub(crate) fn goes_to(&mut self, server: ServerId) {
        if let Some(laps) = &mut self.laps {
            laps.goes_to(server);
        }
    }

    /// The server that was chosen last did not do it: why.
    pub fn failed(&mut self, why: &'static str) {
        if let Some(laps) = &mut self.laps {
            laps.failed(why);
        }
    }

    /// The same for one of several parts.
    pub fn chosen_for_part(&mut self, plan: Plan, level: Level) {
        self.plan = Some((plan, level));
        self.waits += u32::from(plan.wait);
    }

    /// What was fetched to be sent is gathered instead, as the fragments of these places; with `anew` it is fetched once
    /// more.
    pub fn turn_back(&mut self, places: &[usize], anew: bool) {
        self.turned_back = true;
        if anew {
            self.once_more();
        }
        for fetch in self.fetches.iter_mut().flatten() {
            fetch.fragment = places.get(fetch.fragment).copied().unwrap_or(fetch.fragment);
        }
    }

    /// All parts are to be sent again.
    pub fn once_more(&mut self) {
        self.again += 1;
        self.parts.clear();
        if let Some(fetches) = &mut self.fetches {
            fetches.clear();
        }
    }

    /// Times that it was sent again.
    pub fn retries(&self) -> u32 {
        self.attempts.saturating_sub(1) + self.again
    }

    /// A step is over.
    #[inline]
    pub fn lap(&mut self, step: Step) {
        let clock = &mut self.clock;
        let Some(last) = clock.last else {
            return;
        };
        let exact = clock.fine || self.laps.is_some();
        if exact || step != Step::Connect {
            // What was waited for has woken the task in this turn; where nothing was, no time has passed.
            let now = match exact || step == Step::Serve {
                true => Instant::now(),
                false => reactor::turn().max(last),
            };
            // Within a turn there is nothing to add.
            if now != last {
                clock.steps[step as usize] += now.saturating_duration_since(last);
                clock.last = Some(now);
            }
            if let Some(laps) = &mut self.laps {
                laps.lap(step, last, now);
            }
        }
    }

    /// The reply is complete.
    pub fn done(&mut self, connection: &Connection, outcome: &Outcome) {
        self.connection = connection.thread_id;
        self.told(outcome);
    }

    /// What the client was told at the end.
    pub fn told(&mut self, outcome: &Outcome) {
        self.rows = outcome.rows;
        self.affected_rows = outcome.affected_rows;
        self.last_insert_id = outcome.last_insert_id;
        self.warnings = outcome.warnings;
        self.error = outcome.error;
    }

    /// One of the servers that it is sent to has answered at this moment, or broken its connection.
    pub fn served(
        &mut self,
        server: ServerId,
        ended: Option<Instant>,
        outcome: &Outcome,
        lost: bool,
    ) {
        if let Some(laps) = &mut self.laps {
            let failed = match lost {
                true => Some(Failed::Retried("connection_lost")),
                false => outcome.error.map(Failed::Error),
            };
            laps.part(server, ended, failed, outcome.rows);
        }
    }

    /// The reply of one group is complete, with so many bytes of rows.
    pub fn part_done(
        &mut self,
        group: &Arc<str>,
        connection: &Connection,
        outcome: &Outcome,
        bytes: u64,
    ) {
        self.moved = (self.moved.0 + outcome.rows, self.moved.1 + bytes);
        if self.parts.len() >= PARTS_MAX {
            return;
        }
        self.parts.push(PartProfile {
            group: Arc::clone(group),
            server: connection.server,
            connection: connection.thread_id,
            read_only: connection.is_guarded(),
            rows: outcome.rows,
            bytes,
            affected_rows: outcome.affected_rows,
        });
    }

    /// So many bytes go to the client.
    #[inline]
    pub fn sent(&mut self, bytes: usize) {
        self.bytes = self.bytes.wrapping_add(bytes as u64);
    }

    /// What was sent to the client, and `pending` bytes that are still to be sent.
    pub fn bytes(&self, pending: u64) -> u64 {
        let bytes = self.bytes.wrapping_add(pending);
        // A client that has gone leaves bytes of statements in front unsent.
        if bytes > u64::MAX / 2 { 0 } else { bytes }
    }

    /// How many groups did something of it.
    pub fn shards(&self) -> usize {
        let mut groups: Vec<&str> = self.parts.iter().map(|part| &*part.group).collect();
        groups.sort_unstable();
        groups.dedup();
        groups.len().max(usize::from(self.plan.is_some()))
    }

    /// Where it ran: a group's name, `*` for several, empty where none was asked.
    pub fn group<'a>(&'a self, snapshot: &'a Snapshot) -> &'a str {
        match self.parts.first().filter(|_| self.begun) {
            Some(_) if self.shards() > 1 => SEVERAL,
            Some(part) => &part.group,
            None => self.planned(snapshot).map_or("", |server| &*server.group),
        }
    }

    /// The server that was chosen for it last.
    pub fn planned<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a Server> {
        let (plan, _) = self.plan.filter(|_| self.begun)?;
        snapshot.server(plan.server).map(|server| &**server)
    }

    /// It ran on the one server that was chosen for it, or nowhere.
    pub(crate) fn is_whole(&self) -> bool {
        self.parts.is_empty()
    }

    /// What it spent its time on, in the order of [`Step`]; `None` where not every step was timed.
    pub fn steps(&self) -> Option<&[Duration; 4]> {
        self.clock.fine.then_some(&self.clock.steps)
    }

    /// Every step is timed from the next statement on. False where that was so already.
    pub fn time_steps(&mut self) -> bool {
        !std::mem::replace(&mut self.clock.fine, true)
    }

    /// No step is timed from the next statement on, but what everybody's are.
    pub(crate) fn time_no_steps(&mut self) {
        self.clock.fine = false;
    }

    /// Where nothing else ended the time, it ends now.
    pub fn end_clock(&mut self) {
        if self.clock.steps[Step::Serve as usize].is_zero() {
            self.lap(Step::Wait);
        }
    }

    /// The time until it went to a server, that of its servers, and when that was over; `None` where nobody wanted
    /// to know.
    pub fn times(&self) -> Option<(Duration, Duration, Instant)> {
        let served = self.clock.steps[Step::Serve as usize];
        let all: Duration = self.clock.steps.iter().sum();
        Some((all - served, served, self.clock.last?))
    }

    /// The statement's OK once more.
    pub fn ok(&self, status: Status) -> OkPacket<'static> {
        OkPacket {
            affected_rows: self.affected_rows.max(self.rows),
            last_insert_id: self.last_insert_id,
            warnings: self.warnings,
            ..OkPacket::new(status)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_for_a_statement_is_a_part_of_it() {
        let mut profile = Profile::default();
        profile.begin(Some(Instant::now()));
        profile.sent(5);
        profile.begin(None);
        assert_eq!(profile.bytes(0), 5);
        profile.begun = false;
        profile.begin(None);
        assert_eq!((profile.bytes(0), profile.times().is_none()), (0, true));
    }

    #[test]
    fn bytes_of_a_pipeline_are_each_statements_own() {
        let mut first = Profile::default();
        first.sent(10);
        // Seven of its bytes go out with the next statement's.
        assert_eq!(first.bytes(7), 17);
        let mut second = first.follower(7);
        assert_eq!(second.bytes(0), 0, "the client has gone");
        second.sent(27);
        assert_eq!(second.bytes(0), 20);
    }

    #[test]
    fn steps_are_timed_once_somebody_asked() {
        let mut profile = Profile::default();
        profile.begin(Some(Instant::now()));
        for step in [Step::Connect, Step::Wait, Step::Serve] {
            profile.lap(step);
        }
        assert!(profile.steps().is_none() && profile.times().is_some());
        assert!(profile.clock.steps[Step::Connect as usize].is_zero());
        assert!(profile.time_steps() && !profile.time_steps());
        profile.begun = false;
        profile.begin(None);
        profile.lap(Step::Connect);
        assert!(profile.steps().is_some());
    }
}
