//! Statements that Heddle runs for a client's own: they are placed, merged and made a part of its transaction
//! like any other, but their answers come here.

use execute::client::end::End;
use execute::client::heard::Heard;
use execute::client::request::Request;
use execute::execution::exec::{Job, text_shape};
use execute::session::Session;
use mysql_wire::relay::Expect;
use planner::Answer;

use crate::place::run;

/// Runs a statement of Heddle's own for the client's command, in the client's transaction.
pub(super) async fn inner(session: &mut Session, text: &[u8]) -> Result<Heard, End> {
    inner_as(session, text, None).await
}

/// The same; a query is answered in this way, where one is given.
pub(super) async fn inner_as(
    session: &mut Session,
    text: &[u8],
    answer: Option<Answer>,
) -> Result<Heard, End> {
    let interrupted = session.client.begin_heard(Request::query(text));
    let shape = text_shape::query_shape(&session.core, &session.client.request, &session.variables);
    let job = Job::Frame(Expect::Results);
    let done = match answer {
        Some(answer) => Box::pin(run::answer_rows(session, answer, shape, job)).await,
        None => Box::pin(run::run_free(session, shape, job)).await,
    };
    let heard = session.client.end_heard(interrupted);
    done?;
    Ok(heard.heard(session.client.capabilities))
}
