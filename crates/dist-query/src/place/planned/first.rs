//! Scalar subqueries that are asked before the statement around them is planned, which has their values then.
//!
//! Invariants: only of a statement that would be gathered, outside transactions and snapshots, so that a question sees what a
//! fetch of the gather might have seen; whatever comes of a question but one row without a warning, the statement is
//! answered as it is written.
//!
//! Must not know: which subqueries can be asked so.

use std::rc::Rc;
use std::time::Instant;

use execute::client::end::End;
use execute::client::heard::Heard;
use execute::execution::exec::{Job, Shape};
use execute::per_core::Core;
use execute::per_core::answers::Kept;
use execute::session::{Session, is_free};
use execute::variables::session_variables::SessionVariables;
use planner::{Finish, Scalar};
use sqltext::Class;

use super::{kept, planned_as};
use crate::place::inner;

/// What questions fetch is no fragment's of the statement.
const NO_FRAGMENT: usize = usize::MAX;

/// The text, with the values of the subqueries that are asked first.
pub(in crate::place) async fn with_asked_first(
    session: &mut Session,
    text: Vec<u8>,
    shape: &Shape,
    job: Job,
) -> Result<Vec<u8>, End> {
    if !may_ask(session, shape, job) {
        return Ok(text);
    }
    let scalars = asked_first(&session.core, &session.variables, &text);
    let mut rows = Vec::with_capacity(scalars.len());
    for scalar in scalars.iter() {
        let profile = &session.run.profile;
        // Until the statement has begun, those are of the one before.
        let first_part = if profile.begun {
            profile.parts.len()
        } else {
            0
        };
        let began = Instant::now();
        let heard = inner::inner(session, scalar.question.as_bytes()).await?;
        session.run.profile.fetched(NO_FRAGMENT, first_part, began);
        match heard {
            Heard::Rows(mut sheet)
                if sheet.rows.len() == 1 && !session.variables.diagnostics.any =>
            {
                let cell =
                    |it: Option<Vec<u8>>| it.map(|it| String::from_utf8_lossy(&it).into_owned());
                rows.push(sheet.rows.remove(0).into_iter().map(cell).collect());
            }
            _ => return Ok(text),
        }
    }
    Ok(written(&text, &scalars, &rows).unwrap_or(text))
}

/// The same where nobody is asked: NULL stands for each value. With it come the questions.
pub(in crate::place) fn with_unknown(
    core: &Core,
    variables: &SessionVariables,
    text: Vec<u8>,
) -> (Vec<u8>, Vec<String>) {
    let scalars = asked_first(core, variables, &text);
    let rows: Vec<Vec<Option<String>>> = scalars.iter().map(Scalar::unknown).collect();
    match written(&text, &scalars, &rows) {
        Some(written) => (written, scalars.iter().map(|it| it.question.clone()).collect()),
        None => (text, Vec::new()),
    }
}

/// `None` where no value is put in.
fn written(text: &[u8], scalars: &[Scalar], rows: &[Vec<Option<String>>]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok().filter(|_| !scalars.is_empty())?;
    planner::with_scalars(text, scalars, rows).map(String::into_bytes)
}

/// The subqueries of a text that are asked first; none where that saves nothing.
fn asked_first(core: &Core, variables: &SessionVariables, text: &[u8]) -> Rc<[Scalar]> {
    let snapshots = core.settings().dist_txns.snapshot_reads;
    let kept = match snapshots || !is_free(variables.status) {
        true => None,
        false => kept(core, variables, text).ok(),
    };
    let Some(kept) = kept.filter(|it| is_gathered(it)) else {
        return Rc::new([]);
    };
    kept.scalars(|| {
        let placeholder = core.statements.answers.placeholder();
        let found = |text: &str, asked: &planner::Asked<'_>| Ok(planner::scalars(text, asked));
        planned_as(core, placeholder, variables, text, found).unwrap_or_default()
    })
}

fn is_gathered(kept: &Kept) -> bool {
    matches!(kept.answer.finish, Finish::Scratch(_)) && !kept.answer.locks
}

/// Questions run as the statement does: no hint or rule sends it elsewhere, and nothing of the client's is on a connection.
fn may_ask(session: &Session, shape: &Shape, job: Job) -> bool {
    let connections = &session.connections;
    let holds =
        connections.current.held.is_some() || connections.others.iter().any(|it| it.held.is_some());
    let ruled = session.run.ruled.as_ref().is_some_and(|rule| rule.servers.is_some());
    let reads = shape.class == Class::Read && !shape.writes;
    let hinted = shape.hint.is_some() || shape.level.is_some() || shape.cache_ttl_s > 0;
    let prepares = matches!(job, Job::Prepare(_));
    let apart = session.transaction.dist_txn.is_none();
    reads && apart && !hinted && !holds && !ruled && !prepares
}
