//! Texts of several statements: one group runs a text that is for it alone; else they run one after the
//! other, each where its tables are, and their answers are sent as those to one text.

use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::request::Request;
use execute::execution::exec::{Shape, text_shape};
use execute::session::Session;
use mysql_wire::packet;
use sqltext::{Facts, Verb};

/// Runs the statements of the client's text one after the other, up to the first that fails.
pub(super) async fn run_several(session: &mut Session) -> Result<(), End> {
    let text = packet::joined(session.client.request.frame()).split_off(1);
    let statements = sqltext::statements(&text, &session.variables.mode);
    let interrupted = session.client.begin_series();
    let mut done = Ok(());
    for (at, span) in statements.iter().enumerate() {
        let request = Request::query(span.of(&text));
        session.client.play_next(request, at + 1 < statements.len());
        done = run_one(session).await;
        if done.is_err() || session.client.series_failed() {
            break;
        }
    }
    session.client.end_series(interrupted);
    done
}

/// Runs a text in place of the client's command: what it answers is the command's answer.
pub(super) async fn run_instead(session: &mut Session, text: &[u8]) -> Result<(), End> {
    let interrupted = session.client.begin_series();
    session.client.play_next(Request::query(text), false);
    let done = Box::pin(run_one(session)).await;
    session.client.end_series(interrupted);
    done
}

async fn run_one(session: &mut Session) -> Result<(), End> {
    let mut shape: Shape =
        text_shape::query_shape(&session.core, &session.client.request, &session.variables);
    if shape.facts.contains(Facts::CONNECTION_ID) {
        text_shape::identify(
            &session.core,
            &session.handle,
            &mut session.client.request,
            &session.variables,
            &mut shape,
        );
    }
    if shape.verb == Verb::LoadData && shape.facts.contains(Facts::LOCAL_INFILE) {
        let why = "LOAD DATA LOCAL cannot stand in a text of statements for several groups: send it by itself";
        let error = farm::error::NOT_OVER_GROUPS;
        return session.client.error(&error, &[why]).await;
    }
    let run_text = session.run_text;
    run_text(session, shape).await
}
