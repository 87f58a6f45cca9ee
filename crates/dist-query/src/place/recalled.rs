//! Statements that ask for diagnostics, a count or an id of the statement before, where the connection that
//! knew them is gone: they are answered from what the session remembers.

use execute::client::end::End;
use execute::execution::exec::{Job, Ran, Shape};
use execute::execution::servers;
use execute::session::Session;
use execute::variables::diagnostics::answers::{chosen, say_diagnostics, say_gone};
use execute::variables::diagnostics::only_asks;
use execute::variables::user_variables;
use reactor::rarely;
use sqltext::{Ask, Facts, Verb};

use crate::place::run;

/// Runs a statement on the current group; what nobody there knows any more is recalled.
pub(crate) async fn answer_here(session: &mut Session, shape: Shape, job: Job) -> Result<(), End> {
    match servers::run_here(session, shape, job).await? {
        Ran::Answered => Ok(()),
        Ran::Recalls(shape) => rarely(recall(session, shape, job)).await,
    }
}

/// Runs a statement that asks for diagnostics whose connection is gone.
async fn recall(session: &mut Session, shape: Shape, job: Job) -> Result<(), End> {
    session.variables.gets_diagnostics |= shape.verb == Verb::GetDiagnostics;
    let text = user_variables::text(&session.client.request, &session.prepared, job);
    let warnings = session.variables.diagnostics.rows.as_deref();
    if let (Some(show), Some(all)) =
        (sqltext::show_diagnostics(text, &session.variables.mode), warnings)
    {
        let rows = chosen(&all.rows, &show);
        if !show.count {
            let columns = all.columns.clone();
            return say_diagnostics(
                &mut session.client,
                &session.variables,
                &session.transaction,
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
        let count = session.variables.diagnostics.value(ask).unwrap_or_default();
        let text = format!("SELECT {count} AS `@@session.{what}_count`");
        return run_recalled(session, shape, job, text.into_bytes()).await;
    }
    let mut all = true;
    let value = |ask| {
        let value = session.variables.diagnostics.value(ask);
        all &=
            value.is_some() || matches!(ask, Ask::ConnectionId | Ask::PseudoThreadId | Ask::Socket);
        value
    };
    let text = sqltext::replace(text, &session.variables.mode, value);
    match text.filter(|_| all) {
        Some(text) => run_recalled(session, shape, job, text).await,
        None => say_gone(&mut session.client).await,
    }
}

/// Runs a statement with another text.
async fn run_recalled(
    session: &mut Session,
    mut shape: Shape,
    job: Job,
    text: Vec<u8>,
) -> Result<(), End> {
    let before = match only_asks(&shape, session.variables.mode.dialect) {
        true => (session.variables.diagnostics.any, session.variables.diagnostics.rows.take()),
        false => (false, None),
    };
    shape.facts -= Facts::FOUND_ROWS | Facts::ROW_COUNT | Facts::WARNINGS;
    user_variables::leave_text(
        &session.core,
        &session.variables,
        &mut shape,
        user_variables::text(&session.client.request, &session.prepared, job),
    );
    let done = match job {
        Job::Frame(_) if !session.client.request.is_split() => {
            session.client.request.replace_text(&text);
            rarely(run::run_free(session, shape, job)).await
        }
        Job::Execute(id) => {
            let text = session.core.text(&text);
            let own = session.prepared.exchange_text(id, text);
            let done = rarely(run::run_free(session, shape, job)).await;
            if let Some(own) = own {
                session.prepared.exchange_text(id, own);
            }
            done
        }
        _ => say_gone(&mut session.client).await,
    };
    if before.0 && !session.variables.diagnostics.any {
        (session.variables.diagnostics.any, session.variables.diagnostics.rows) = before;
    }
    done
}
