//! Answering what a client asks about its statement before, and keeping the connection that can.

use backend::{Connection, Lease, Warning};
use farm::error;
use mysql_wire::command::Command;
use mysql_wire::relay::Outcome;
use mysql_wire::result::{ColumnKind, Value, ValueKind, encode_binary_row, encode_text_row};
use sqltext::{Ask, Class, Facts, ShowDiagnostics, Verb};

use crate::client::Client;
use crate::client::answer::Answers;
use crate::client::end::End;
use crate::client::request::Request;
use crate::client::sink::ReplySink;
use crate::execution::exec::{Job, Shape};
use crate::execution::statement_run;
use crate::execution::statement_run::StatementRun;
use crate::per_core::handle::Handle;
use crate::session::{self, Session};
use crate::transaction::state::Transaction;
use crate::variables::diagnostics::only_asks;
use crate::variables::session_variables::SessionVariables;
use crate::variables::{self, user_variables};

/// Leaves no warnings on either engine: it has a table, though an empty one.
const FORGET_WARNINGS: &[u8] = b"SELECT 1 FROM (SELECT 1) one LIMIT 0";

impl Session {
    /// Runs a statement that asks for diagnostics whose connection is gone.
    pub(crate) async fn recall(&mut self, shape: Shape, job: Job) -> Result<(), End> {
        self.variables.gets_diagnostics |= shape.verb == Verb::GetDiagnostics;
        let text = variables::user_variables::text(&self.client.request, &self.prepared, job);
        let warnings = self.variables.diagnostics.rows.as_deref();
        if let (Some(show), Some(all)) =
            (sqltext::show_diagnostics(text, &self.variables.mode), warnings)
        {
            let rows = chosen(&all.rows, &show);
            if !show.count {
                let columns = all.columns.clone();
                return say_diagnostics(
                    &mut self.client,
                    &self.variables,
                    &self.transaction,
                    columns,
                    rows,
                    job,
                )
                .await;
            }
            let (what, ask) = match show.errors {
                true => ("error", Ask::ErrorCount),
                false => ("warning", Ask::WarningCount),
            };
            let count = self.variables.diagnostics.value(ask).unwrap_or_default();
            let text = format!("SELECT {count} AS `@@session.{what}_count`");
            return self.run_recalled(shape, job, text.into_bytes()).await;
        }
        let mut all = true;
        let value = |ask| {
            let value = self.variables.diagnostics.value(ask);
            all &= value.is_some()
                || matches!(ask, Ask::ConnectionId | Ask::PseudoThreadId | Ask::Socket);
            value
        };
        let text = sqltext::replace(text, &self.variables.mode, value);
        match text.filter(|_| all) {
            Some(text) => self.run_recalled(shape, job, text).await,
            None => say_gone(&mut self.client).await,
        }
    }

    /// Runs a statement with another text.
    async fn run_recalled(&mut self, mut shape: Shape, job: Job, text: Vec<u8>) -> Result<(), End> {
        let before = match only_asks(&shape, self.variables.mode.dialect) {
            true => (self.variables.diagnostics.any, self.variables.diagnostics.rows.take()),
            false => (false, None),
        };
        shape.facts -= Facts::FOUND_ROWS | Facts::ROW_COUNT | Facts::WARNINGS;
        user_variables::leave_text(
            &self.core,
            &self.variables,
            &mut shape,
            variables::user_variables::text(&self.client.request, &self.prepared, job),
        );
        let done = match job {
            Job::Frame(_) if !self.client.request.is_split() => {
                self.client.request.replace_text(&text);
                Box::pin(self.run_free(shape, job)).await
            }
            Job::Execute(id) => {
                let text = self.core.text(&text);
                let own = self.prepared.exchange_text(id, text);
                let done = Box::pin(self.run_free(shape, job)).await;
                if let Some(own) = own {
                    self.prepared.exchange_text(id, own);
                }
                done
            }
            _ => say_gone(&mut self.client).await,
        };
        if before.0 && !self.variables.diagnostics.any {
            (self.variables.diagnostics.any, self.variables.diagnostics.rows) = before;
        }
        done
    }
}

/// Takes note of the reply to the current command.
pub(crate) fn note_diagnostics(
    request: &Request,
    variables: &mut SessionVariables,
    shape: &Shape,
    outcome: &Outcome,
) {
    let dialect = variables.mode.dialect;
    match uses_tables(request, shape) {
        true => variables.diagnostics.note(shape, outcome, dialect),
        false => {
            let diagnostics = &mut variables.diagnostics;
            diagnostics.note_without_tables(shape, outcome, dialect);
        }
    }
}

/// False when the current command surely uses no table. It is known of those only that run between others all
/// the time: SET, USE, and what begins and ends transactions.
fn uses_tables(request: &Request, shape: &Shape) -> bool {
    if shape.facts.contains(Facts::MULTIPLE) {
        return true;
    }
    match shape.class {
        Class::Use | Class::Transaction | Class::Empty => false,
        Class::Set => {
            let text = request.payload();
            let word = |part: &[u8]| part.eq_ignore_ascii_case(b"select");
            text.first() != Some(&(Command::Query as u8)) || text.windows(6).any(word)
        }
        _ => true,
    }
}

/// True when the connection cannot answer a question about the session's last statement. Even
/// the right one cannot when that left no warnings and those before are another session's.
pub(crate) fn must_recall(
    handle: &Handle,
    variables: &SessionVariables,
    run: &StatementRun,
    connection: &Connection,
    shape: &Shape,
) -> bool {
    let nothing = shape.facts.contains(Facts::WARNINGS)
        && shape.verb != Verb::GetDiagnostics
        && !variables.diagnostics.any
        && ![0, handle.id].contains(&connection.owner.warned);
    let told = variables.diagnostics.told()
        && shape.facts.contains(Facts::WARNINGS)
        && shape.verb != Verb::GetDiagnostics;
    nothing || told || !statement_run::still_knows(handle, run, connection)
}

/// Makes a connection say what the last statement left when that was nothing. False when
/// there was something, or when other values are asked for too.
pub(crate) async fn leave_nothing(
    handle: &Handle,
    variables: &SessionVariables,
    lease: &mut Lease,
    shape: &Shape,
) -> bool {
    let numbers = Facts::FOUND_ROWS | Facts::ROW_COUNT;
    let barred = handle.killed.get()
        || variables.user_variables.as_ref().is_some_and(|own| own.lost())
        || shape.facts.intersects(numbers)
        || variables.diagnostics.any;
    if barred {
        return false;
    }
    let connection = lease.connection_mut();
    let forgotten = connection.run(&[(Command::Query, FORGET_WARNINGS)]).await;
    connection.owner.warned = 0;
    forgotten.is_ok()
}

async fn say_gone(client: &mut impl ReplySink) -> Result<(), End> {
    let details = ["the diagnostics"];
    client.error(&error::DIAGNOSTICS_GONE, &details).await
}

async fn say_diagnostics(
    client: &mut Client,
    variables: &SessionVariables,
    transaction: &Transaction,
    columns: Vec<Box<[u8]>>,
    rows: Vec<Warning>,
    job: Job,
) -> Result<(), End> {
    let status = session::status_now(variables, transaction);
    let binary = matches!(job, Job::Execute(_));
    let rows: Vec<_> = rows.iter().map(|row| encoded(row, binary)).collect();
    client.raw_rows(&columns, &rows, status).await
}

/// A row as the client's protocol has it.
fn encoded(row: &Warning, binary: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(row.message.len() + 16);
    if !binary {
        let values = [&row.level, &row.code, &row.message].map(|value| Some(&**value));
        encode_text_row(&mut out, &values);
        return out;
    }
    let kind = |column| ValueKind {
        column,
        unsigned: true,
    };
    let text = kind(ColumnKind::VarString);
    let kinds = [text, kind(ColumnKind::Long), text];
    let code = String::from_utf8_lossy(&row.code).parse().unwrap_or(0);
    let values = [
        Value::Bytes(&row.level),
        Value::UInt(code),
        Value::Bytes(&row.message),
    ];
    // The values are of these kinds; a row that is not would be left out.
    let _ = encode_binary_row(&mut out, &kinds, &values);
    out
}

/// The rows that a SHOW wants.
fn chosen(rows: &[Warning], show: &ShowDiagnostics) -> Vec<Warning> {
    let wanted = rows.iter().filter(|row| !show.errors || row.level == b"Error");
    let (offset, count) = match show.count {
        true => (0, usize::MAX),
        false => (
            usize::try_from(show.offset).unwrap_or(usize::MAX),
            usize::try_from(show.rows).unwrap_or(usize::MAX),
        ),
    };
    wanted.skip(offset).take(count).cloned().collect()
}
