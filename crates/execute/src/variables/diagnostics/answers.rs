//! Answering what a client asks about its statement before, and keeping the connection that can.

use backend::{Connection, Lease, Warning};
use farm::error;
use mysql_wire::command::Command;
use mysql_wire::relay::Outcome;
use mysql_wire::result::{ColumnKind, Value, ValueKind, encode_binary_row, encode_text_row};
use sqltext::{Class, Facts, ShowDiagnostics, Verb};

use crate::client::Client;
use crate::client::answer::Answers;
use crate::client::end::End;
use crate::client::request::Request;
use crate::client::sink::ReplySink;
use crate::execution::exec::{Job, Shape};
use crate::execution::statement_run;
use crate::execution::statement_run::StatementRun;
use crate::per_core::handle::Handle;
use crate::session;
use crate::transaction::state::Transaction;
use crate::variables::session_variables::SessionVariables;

/// Leaves no warnings on either engine: it has a table, though an empty one.
const FORGET_WARNINGS: &[u8] = b"SELECT 1 FROM (SELECT 1) one LIMIT 0";

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
        && !matches!(shape.verb, Verb::GetDiagnostics)
        && !variables.diagnostics.any
        && ![0, handle.id].contains(&connection.owner.warned);
    let told = variables.diagnostics.told()
        && shape.facts.contains(Facts::WARNINGS)
        && !matches!(shape.verb, Verb::GetDiagnostics);
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

pub async fn say_gone(client: &mut impl ReplySink) -> Result<(), End> {
    let details = ["the diagnostics"];
    client.error(&error::DIAGNOSTICS_GONE, &details).await
}

pub async fn say_diagnostics(
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
pub fn chosen(rows: &[Warning], show: &ShowDiagnostics) -> Vec<Warning> {
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
