//! `HEDDLE PROFILE`: what became of the session's last statement that went to a server.
//!
//! Counts are kept always, they cost a few stores. Times cost a clock's reading each, so they are
//! taken from the first question for them on.

use std::time::{Duration, Instant};

use backend::Connection;
use mysql_wire::relay::Outcome;
use mysql_wire::reply::OkPacket;
use mysql_wire::status::Status;
use routing::{Level, Plan};

use crate::client::Client;
use crate::client::end::End;

/// What a statement's time is spent on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Choosing a server and getting a connection to it in the session's state.
    Connect,
    /// Waiting for a replica to have what the session's reads need.
    Wait,
    /// The server's work, and the way of its reply to the client.
    Serve,
    /// Waiting for a primary.
    Hold,
}

/// The last statement.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    /// The last server that was chosen for it, and the session's level for it.
    pub plan: Option<(Plan, Level)>,
    /// The server's id of the connection that answered; 0 when none did.
    pub connection: u32,
    /// Times that a server was chosen.
    pub attempts: u32,
    /// Times that a replica was to be waited for.
    pub waits: u32,
    pub rows: u64,
    pub affected_rows: u64,
    pub last_insert_id: u64,
    pub warnings: u16,
    /// What was sent to the client; with a pipeline of statements, for all of them.
    pub bytes: u64,
    pub times: Option<Box<Times>>,
}

#[derive(Debug)]
pub(crate) struct Times {
    /// When the step before was over.
    last: Instant,
    pub steps: [Duration; 4],
}

impl Profile {
    /// A statement begins.
    pub fn begin(&mut self) {
        let times = self.times.take().map(|mut times| {
            *times = Times::now();
            times
        });
        *self = Profile {
            times,
            ..Profile::default()
        };
    }

    /// A server was chosen.
    pub fn chosen(&mut self, plan: Plan, level: Level) {
        // What has passed since the server before was chosen was spent on waiting for it.
        self.lap(match self.attempts {
            0 => Step::Connect,
            _ => Step::Wait,
        });
        self.plan = Some((plan, level));
        self.attempts += 1;
        self.waits += u32::from(plan.wait);
    }

    /// A step is over.
    #[inline]
    pub fn lap(&mut self, step: Step) {
        if let Some(times) = &mut self.times {
            let now = Instant::now();
            times.steps[step as usize] += now - times.last;
            times.last = now;
        }
    }

    /// The reply is complete.
    pub fn done(&mut self, connection: &Connection, outcome: &Outcome) {
        self.connection = connection.thread_id;
        self.rows = outcome.rows;
        self.affected_rows = outcome.affected_rows;
        self.last_insert_id = outcome.last_insert_id;
        self.warnings = outcome.warnings;
    }
}

impl Times {
    pub fn now() -> Times {
        Times {
            last: Instant::now(),
            steps: Default::default(),
        }
    }
}

impl Profile {
    /// The last statement's OK once more.
    pub(crate) async fn repeat(&self, client: &mut Client, status: Status) -> Result<(), End> {
        let ok = OkPacket {
            affected_rows: self.affected_rows.max(self.rows),
            last_insert_id: self.last_insert_id,
            warnings: self.warnings,
            ..OkPacket::new(status)
        };
        client.ok_with(&ok).await
    }
}
