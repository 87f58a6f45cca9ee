//! COM_QUERY: reads the text's shape, answers what is the router's own, runs the rest.

pub(crate) mod by_rules;

use farm::error;
use mysql_wire::relay::Expect;
use sqltext::{Class, Facts, MsHint};

use crate::client::answer::Answers;
use crate::client::end::End;
use crate::client::sink::ReplySink;
use crate::execution::exec::text_shape::{has_attributes, identify, query_shape};
use crate::execution::exec::{Job, Shape};
use crate::introspection::{listing, local, processlist};
use crate::session::Session;
use crate::variables::{self, own_variables, shown};

impl Session {
    /// Runs the text of the client's command.
    pub(crate) async fn query(&mut self) -> Result<(), End> {
        if has_attributes(&self.client) && self.client.request.take_attributes().is_err() {
            return malformed_attributes(&mut self.client).await;
        }
        let mut shape = query_shape(&self.core, &self.client.request, &self.variables);
        // Whoever asks each server wants what that server lists.
        if shape.hint != Some(MsHint::All)
            && listing::may_list(&self.variables, &shape)
            && !Box::pin(self.list_in_query(&mut shape)).await?
        {
            return Ok(());
        }
        if shape.facts.contains(Facts::CONNECTION_ID) {
            identify(
                &self.core,
                &self.handle,
                &mut self.client.request,
                &self.variables,
                &mut shape,
            );
        }
        self.run_query(shape).await
    }

    /// Answers the current text, or has it answered.
    #[inline]
    pub(crate) async fn run_query(&mut self, shape: Shape) -> Result<(), End> {
        match (shape.class, shape.verb) {
            (Class::Local, _) => Box::pin(self.local()).await,
            _ if shape.facts.intersects(Facts::KILL | Facts::SHUTDOWN) => {
                let job = Job::Frame(Expect::Results);
                Box::pin(self.kill_statement(shape, job)).await
            }
            _ if own_variables::names_own(&self.client.request, &shape) => {
                match Box::pin(own_variables::own_variables(self, &shape)).await {
                    Some(answered) => answered,
                    None => by_rules::run_command(self, shape, Job::Frame(Expect::Results)).await,
                }
            }
            (Class::Show, _) => {
                let job = Job::Frame(Expect::Results);
                if let Some(full) = processlist::asks_processlist(
                    &self.client.request,
                    &self.variables,
                    &self.prepared,
                    &shape,
                    job,
                ) {
                    return Box::pin(processlist::show_processlist(self, full, job)).await;
                }
                match variables::shown::shows_values(
                    &self.client.request,
                    &self.variables,
                    &self.prepared,
                    &shape,
                    job,
                ) {
                    Some(show) => Box::pin(self.show_values(show, shape, job)).await,
                    None => by_rules::run_command(self, shape, job).await,
                }
            }
            _ if shape.facts.contains(Facts::ACCOUNTS)
                && shown::flushes_status(&self.client.request, &self.variables, &shape) =>
            {
                match Box::pin(self.hold_for_status(&shape)).await? {
                    true => by_rules::run_command(self, shape, Job::Frame(Expect::Results)).await,
                    false => Ok(()),
                }
            }
            _ if local::asks_version_comment(&self.client.request, &shape) => {
                Box::pin(local::version_comment(
                    &self.core,
                    &mut self.client,
                    &self.variables,
                    &self.transaction,
                ))
                .await
            }
            _ => by_rules::run_command(self, shape, Job::Frame(Expect::Results)).await,
        }
    }
}

#[cold]
pub(crate) async fn malformed_attributes(client: &mut impl ReplySink) -> Result<(), End> {
    let details = ["query attributes"];
    client.error(&error::MALFORMED_PACKET, &details).await
}
