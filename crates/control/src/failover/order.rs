//! Operators' orders to a group's machine, and the calm before a switch-over.

use std::time::{Duration, Instant};

use engine::exchange;
use engine::{Error, Link};
use farm::ServerId;
use machines::failover::{Answer, Failed, Order};
use tokio::sync::oneshot;

use super::done;
use crate::context::drivers::Told;
use crate::failover::FailoverDrivers;
use crate::leadership::lead::Lead;
use crate::observe::fault::failed;
use catalog::command::CommandError;

/// Between two looks at what still runs on the old primary.
const LOOK_AGAIN: Duration = Duration::from_millis(3);

impl FailoverDrivers {
    /// Gives an order to a group's machine and waits for its outcome.
    pub(crate) async fn order(&self, group: &str, what: Order) -> Result<String, CommandError> {
        let (waiter, outcome) = oneshot::channel();
        self.context.drivers.tell(group, Told::Order(what, waiter));
        match outcome.await {
            Ok(Ok(text)) => Ok(text),
            Ok(Err(why)) => Err(CommandError::Refused(format!("group {group}: {why}"))),
            Err(_) => Err(CommandError::Internal(format!(
                "group {group} has no failover machine now; try again"
            ))),
        }
    }

    /// Holds new work for the primary and waits until nothing runs there: for `switchover_drain_ms`
    /// politely, then what is left is ended; sessions repeat it on the new primary.
    pub(super) async fn quiesce(
        &self,
        lead: &Lead,
        group: &str,
        server: ServerId,
    ) -> Result<Answer, Failed> {
        self.context.pause(group);
        let timeout_ms = self.context.settings().step_timeout_ms;
        let patience = Duration::from_millis(self.context.settings().failover.switchover_drain_ms);
        let mut link = self
            .links
            .lend_to_act(lead, server.0)
            .await
            .map_err(failed)?;
        let begin = Instant::now();
        let outcome = loop {
            match self.is_calm(&mut link, server, timeout_ms).await {
                Ok(false) if begin.elapsed() < patience => tokio::time::sleep(LOOK_AGAIN).await,
                Ok(_) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        link.keep(outcome).map_err(failed)?;
        done()
    }

    /// True when no client is inside a statement or a transaction.
    async fn is_calm(
        &self,
        link: &mut Link,
        server: ServerId,
        timeout_ms: u64,
    ) -> Result<bool, Error> {
        let clients = exchange::clients(link, timeout_ms).await?;
        if clients.iter().any(exchange::Client::is_busy) || !self.holds_nothing(server.0).await {
            return Ok(false);
        }
        // This list is stale when it is asked for often: only the look at a quiet server counts.
        let open = exchange::in_transactions(link, timeout_ms).await?;
        Ok(!clients.iter().any(|client| open.contains(&client.id)))
    }

    /// No session of this router is inside a transaction or a statement on this server.
    async fn holds_nothing(&self, id: u32) -> bool {
        let address = self.context.record_of(id).map(|record| record.address());
        let holds = move |session: &crate::SessionInfo| {
            Some(&session.server) == address.as_ref() && !session.pins.is_empty()
        };
        let held = self
            .background
            .aside(move |sessions| sessions.list().iter().any(holds));
        held.await == Ok(false)
    }
}
