//! What the client hears in the end of a statement on several groups.

use backend::Target;
use execute::client::Client;
use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::refuse::ServerRefusal;
use execute::client::sink::ReplySink;
use execute::connections::hold::wait::hold;
use execute::connections::hold::{Cause, Turn};
use execute::counters::count;
use execute::execution::exec::{Loss, Run, Tried};
use execute::execution::statement_run::StatementRun;
use execute::per_core::operator::Fault;
use execute::session::{self, Session};
use execute::transaction::loss;
use execute::transaction::state::Transaction;
use execute::variables::session_variables::SessionVariables;
use farm::{ServerId, error};
use mysql_wire::relay::Outcome;
use mysql_wire::reply::OkPacket;
use mysql_wire::status::Status;
use sqltext::Facts;

use super::Word;
use super::parts::Done;
use super::result_writer::ResultWriter;
use super::rows::Trouble;
use crate::scatter::rows;

/// Columns that are not grouped, or not ordered by, by the names of their databases and tables.
const NAME_COLUMNS: [u16; 4] = [1055, 1140, 3065, 3066];

/// Gathered tables bear the statement's names, but are in another database: errors about their columns name
/// the session's.
pub(super) fn say_where(refusal: &mut ServerRefusal, database: &[u8]) {
    const SCRATCH: &[u8] = b"'heddle.";
    if !NAME_COLUMNS.contains(&refusal.number) {
        return;
    }
    let message = &mut refusal.message;
    let found = message.windows(SCRATCH.len()).position(|it| it == SCRATCH);
    if let Some(at) = found {
        let place = at + 1..at + SCRATCH.len() - 1;
        message.splice(place, database.iter().copied());
    }
}

/// A part's connection broke; `undone`: nothing of the statement is left anywhere. True when the
/// statement is to be tried again; else the client has been answered.
pub(super) async fn scatter_lost(
    session: &mut Session,
    run: &mut Run,
    avoid: &mut Vec<ServerId>,
    tried: &Tried,
    result_writer: &ResultWriter,
    undone: bool,
) -> Result<bool, End> {
    let loss = Loss {
        forwarded: result_writer.begun,
        file: result_writer.begun && run.shape.facts.contains(Facts::LOCAL_INFILE),
        ..Loss::within(Some(result_writer.sequence), None)
    };
    if run.shape.writes && undone && !result_writer.begun {
        loss::suspect(&session.core, &session.handle, tried.plan.server, Fault::Reset);
        match Box::pin(hold(session, run, Cause::Failure)).await? {
            Turn::Again => {
                count(&session.core.counters.retries);
                avoid.clear();
                return Ok(true);
            }
            Turn::Answered => return Ok(false),
            Turn::Over { .. } => {}
        }
    }
    if run.shape.writes {
        // What the other groups did of it is undone, with the transaction that it was in.
        let told = session.variables.status.contains(Status::IN_TRANS).then(|| {
            let Target { host, port, .. } = &tried.target;
            let why = format!("the connection to server {host}:{port} was lost");
            (error::DIST_TXN_UNDONE, why)
        });
        Box::pin(loss::tell_loss(session, run, &tried.target, loss, told)).await?;
        return Ok(false);
    }
    Box::pin(loss::after_loss(session, run, avoid, tried, loss)).await
}

/// What the whole statement did.
pub(super) fn scatter_outcome(
    variables: &SessionVariables,
    done: &Done,
    result_writer: &ResultWriter,
    word: &Word<'_>,
) -> Outcome {
    let mut outcome = Outcome {
        status: Some(variables.status),
        ..Outcome::default()
    };
    match word {
        Word::Rows { warnings } => {
            (outcome.has_rows, outcome.rows) = (true, result_writer.rows);
            outcome.warnings = *warnings;
        }
        Word::Counted(counts) => {
            outcome.affected_rows = counts.affected_rows;
            outcome.last_insert_id = counts.insert_id;
            outcome.warnings = counts.warnings;
        }
        Word::Trouble(Trouble::Refused(at)) => {
            let refusal = done.parts[*at].refusal.as_ref();
            outcome.error = refusal.map(|refusal| refusal.number);
        }
        Word::Trouble(Trouble::Uncommitted(error, _) | Trouble::Unfit(error, _)) => {
            outcome.error = Some(error.number);
        }
        Word::Trouble(Trouble::Odd(_) | Trouble::TooLong) => {
            outcome.error = Some(error::PARTS_DIFFER.number)
        }
        Word::Trouble(Trouble::Lost(_)) => outcome.error = Some(error::SERVER_LOST.number),
    }
    outcome
}

/// Says it.
pub(super) async fn tell_scatter(
    client: &mut Client,
    variables: &SessionVariables,
    transaction: &Transaction,
    run: &mut StatementRun,
    mut result_writer: ResultWriter,
    word: Word<'_>,
    refusal: Option<ServerRefusal>,
) -> Result<(), End> {
    match word {
        Word::Rows { warnings } => {
            result_writer.end(session::status_now(variables, transaction), warnings);
            rows::flush(client, run, &mut result_writer).await
        }
        Word::Counted(counts) => {
            let mut ok = OkPacket::new(session::status_now(variables, transaction));
            ok.affected_rows = counts.affected_rows;
            ok.last_insert_id = counts.insert_id;
            ok.warnings = counts.warnings;
            ok.info = &counts.info;
            client.answer_ok(&ok).await
        }
        Word::Trouble(trouble) => {
            rows::flush(client, run, &mut result_writer).await?;
            client.sequence = result_writer.sequence;
            match (trouble, refusal) {
                (Trouble::Odd(text), _) => client.error(&error::PARTS_DIFFER, &[&text]).await,
                (Trouble::Uncommitted(error, why) | Trouble::Unfit(error, why), _) => {
                    client.error(&error, &[&why]).await
                }
                (_, Some(refusal)) => client.pass_refusal(&refusal).await,
                (_, None) => client.error(&error::SERVER_LOST, &["of a group"]).await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_session_s_database() {
        let said = |number, message: &str| {
            let mut refusal = ServerRefusal {
                number,
                sqlstate: *b"42000",
                message: message.as_bytes().to_vec(),
            };
            say_where(&mut refusal, b"shop");
            String::from_utf8_lossy(&refusal.message).into_owned()
        };
        let text = "nonaggregated column 'heddle.t.id' which is not";
        assert_eq!(said(1055, text), "nonaggregated column 'shop.t.id' which is not");
        assert_eq!(said(1064, text), text);
        assert_eq!(said(1055, "column 't.id'"), "column 't.id'");
    }
}
