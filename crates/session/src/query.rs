//! COM_QUERY: reads the text's shape, answers what is the router's own, runs the rest.

pub(crate) mod by_rules;

use std::pin::Pin;

use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::sink::ReplySink;
use execute::execution::exec::text_shape::{has_attributes, identify, query_shape};
use execute::execution::exec::{Job, Shape};
use execute::session::Session;
use execute::variables::own_variables;
use farm::error;
use mysql_wire::relay::Expect;
use reactor::rarely;
use sqltext::{Class, Facts, MsHint};

use crate::introspection::kill;
use crate::introspection::{listing, local, processlist, shown};

/// Runs the text of the client's command.
pub(crate) async fn query(session: &mut Session) -> Result<(), End> {
    if has_attributes(&session.client) && session.client.request.take_attributes().is_err() {
        return malformed_attributes(&mut session.client).await;
    }
    let mut shape = query_shape(&session.core, &session.client.request, &session.variables);
    // Whoever asks each server wants what that server lists.
    if shape.hint != Some(MsHint::All)
        && listing::may_list(&session.variables, &shape)
        && !rarely(listing::list_in_query(session, &mut shape)).await?
    {
        return Ok(());
    }
    if shape.facts.contains(Facts::CONNECTION_ID) {
        identify(
            &session.core,
            &session.handle,
            &mut session.client.request,
            &session.variables,
            &mut shape,
        );
    }
    run_query(session, shape).await
}

/// Answers the current text, or has it answered.
#[inline]
pub(crate) async fn run_query(session: &mut Session, shape: Shape) -> Result<(), End> {
    match (shape.class, shape.verb) {
        (Class::Local, _) => rarely(local::local(session)).await,
        _ if shape.facts.intersects(Facts::KILL | Facts::SHUTDOWN) => {
            let job = Job::Frame(Expect::Results);
            rarely(kill::kill_statement(session, shape, job)).await
        }
        _ if own_variables::names_own(&session.client.request, &shape) => {
            match rarely(own_variables::own_variables(session, &shape)).await {
                Some(answered) => answered,
                None => by_rules::run_command(session, shape, Job::Frame(Expect::Results)).await,
            }
        }
        (Class::Show, _) => {
            let job = Job::Frame(Expect::Results);
            if let Some(full) = processlist::asks_processlist(
                &session.client.request,
                &session.variables,
                &session.prepared,
                &shape,
                job,
            ) {
                return rarely(processlist::show_processlist(session, full, job)).await;
            }
            match shown::shows_values(
                &session.client.request,
                &session.variables,
                &session.prepared,
                &shape,
                job,
            ) {
                Some(show) => rarely(shown::show_values(session, show, shape, job)).await,
                None => by_rules::run_command(session, shape, job).await,
            }
        }
        _ if shape.facts.contains(Facts::ACCOUNTS)
            && shown::flushes_status(&session.client.request, &session.variables, &shape) =>
        {
            match rarely(shown::hold_for_status(session, &shape)).await? {
                true => by_rules::run_command(session, shape, Job::Frame(Expect::Results)).await,
                false => Ok(()),
            }
        }
        _ if local::asks_version_comment(&session.client.request, &shape) => {
            rarely(local::version_comment(
                &session.core,
                &mut session.client,
                &session.variables,
                &session.transaction,
            ))
            .await
        }
        _ => by_rules::run_command(session, shape, Job::Frame(Expect::Results)).await,
    }
}

/// The same for whoever knows no more than that there is a front.
pub(crate) fn run_text<'s>(
    session: &'s mut Session,
    shape: Shape,
) -> Pin<Box<dyn Future<Output = Result<(), End>> + 's>> {
    Box::pin(run_query(session, shape))
}

#[cold]
pub(crate) async fn malformed_attributes(client: &mut impl ReplySink) -> Result<(), End> {
    let details = ["query attributes"];
    client.error(&error::MALFORMED_PACKET, &details).await
}
