//! `HEDDLE PROFILE`: what became of the session's last statement that went to a server.
//!
//! Counts are kept always, they cost a few stores. Times cost a clock's reading each, so they are
//! taken from the first question for them on.

use std::time::{Duration, Instant};

use backend::Connection;
use farm::error;
use mysql_wire::relay::Outcome;
use mysql_wire::reply::OkPacket;
use mysql_wire::status::Status;
use routing::{Level, Plan};

use crate::client::Client;
use crate::client::end::End;
use crate::execution::statement_run::StatementRun;
use crate::introspection::local;
use crate::introspection::operator::Answer;
use crate::per_core::Core;
use crate::session;
use crate::transaction::state::Transaction;
use crate::variables::session_variables::SessionVariables;

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
    plan: Option<(Plan, Level)>,
    /// The server's id of the connection that answered; 0 when none did.
    connection: u32,
    /// Times that a server was chosen.
    attempts: u32,
    /// Times that a replica was to be waited for.
    waits: u32,
    rows: u64,
    affected_rows: u64,
    last_insert_id: u64,
    warnings: u16,
    /// What was sent to the client; with a pipeline of statements, for all of them.
    pub bytes: u64,
    times: Option<Box<Times>>,
}

#[derive(Debug)]
struct Times {
    /// When the step before was over.
    last: Instant,
    steps: [Duration; 4],
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
    fn now() -> Times {
        Times {
            last: Instant::now(),
            steps: Default::default(),
        }
    }
}

/// `HEDDLE PROFILE`: one row, or none before the first statement. `HEDDLE PROFILE REPEAT`: the
/// last statement's OK once more, for client libraries that keep its numbers from the last reply:
/// who asked Heddle something in between has them back.
pub(crate) async fn show_profile(
    core: &Core,
    client: &mut Client,
    variables: &SessionVariables,
    transaction: &Transaction,
    run: &mut StatementRun,
    words: &[String],
) -> Result<(), End> {
    match words {
        [] => {}
        [word] if word.eq_ignore_ascii_case("repeat") => {
            let status = session::status_now(variables, transaction);
            return run.profile.repeat(client, status).await;
        }
        _ => {
            let text = "usage: HEDDLE PROFILE [REPEAT]";
            return client.error(&error::COMMAND_REFUSED, &[text]).await;
        }
    }
    let timed = run.profile.times.is_some();
    let row = run.profile.plan.map(|(plan, level)| profiled(core, variables, run, plan, level));
    if !timed {
        run.profile.times = Some(Box::new(Times::now()));
    }
    let columns = [
        "server",
        "name",
        "group",
        "role",
        "connection_id",
        "level",
        "reason",
        "shards",
        "rows",
        "bytes",
        "waits",
        "retries",
        "in_transaction",
        "connect_us",
        "wait_us",
        "serve_us",
        "hold_us",
        "total_us",
    ];
    local::send_answer(
        client,
        variables,
        transaction,
        Answer {
            columns: columns.map(str::to_owned).to_vec(),
            rows: row.into_iter().collect(),
        },
    )
    .await
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

fn profiled(
    core: &Core,
    variables: &SessionVariables,
    run: &StatementRun,
    plan: Plan,
    level: Level,
) -> Vec<Option<String>> {
    let profile = &run.profile;
    let snapshot = core.snapshot();
    let server = snapshot.server(plan.server);
    let number = |value: u64| Some(value.to_string());
    let connection = Some(profile.connection).filter(|&id| id != 0);
    let mut row = vec![
        server.map(|s| format!("{}:{}", s.host, s.port)),
        server.map(|s| s.name.to_string()),
        server.map(|s| s.group.to_string()),
        Some(if plan.read_only { "replica" } else { "primary" }.to_owned()),
        connection.map(|id| id.to_string()),
        Some(level.name().to_owned()),
        Some(format!("{:?}", plan.reason)),
        number(1),
        number(profile.rows),
        number(profile.bytes),
        number(profile.waits.into()),
        number(profile.attempts.saturating_sub(1).into()),
        number(u64::from(variables.status.contains(Status::IN_TRANS))),
    ];
    let micros = |time: &Duration| Some(time.as_micros().to_string());
    match &profile.times {
        Some(times) => {
            row.extend(times.steps.iter().map(micros));
            row.push(micros(&times.steps.iter().sum()));
        }
        None => row.extend([const { None }; 5]),
    }
    row
}
