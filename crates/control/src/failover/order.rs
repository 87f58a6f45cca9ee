//! Operators' orders to a group's machine, and the calm before a switch-over.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use engine::exchange::{self, Client};
use engine::{Error, Link};
use farm::ServerId;
use machines::failover::{Answer, Failed, Order};
use tokio::sync::oneshot;

use super::done;
use crate::SessionInfo;
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
        let mut calm = Calm::new(lead.number().is_none());
        let outcome = loop {
            match self.is_calm(&mut link, server, &mut calm, timeout_ms).await {
                Ok(false) if begin.elapsed() < patience => tokio::time::sleep(LOOK_AGAIN).await,
                Ok(_) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        link.keep(outcome).map_err(failed)?;
        done()
    }

    /// True when nobody is inside a statement or a transaction who began it before the calm.
    async fn is_calm(
        &self,
        link: &mut Link,
        server: ServerId,
        calm: &mut Calm,
        timeout_ms: u64,
    ) -> Result<bool, Error> {
        let clients = exchange::clients(link, timeout_ms).await?;
        if !calm.have_ended(&clients) || !self.holds_nothing(server.0).await {
            return Ok(false);
        }
        // This list is stale when it is asked for often: only the look at a quiet server counts.
        let open = exchange::in_transactions(link, timeout_ms).await?;
        let mut open = clients.iter().filter(|client| open.contains(&client.id));
        Ok(open.all(|client| calm.goes_on(client.id)))
    }

    /// No session of this router is inside a transaction or a statement on this server. What else keeps a connection, such as a
    /// temporary table, does not end by itself.
    async fn holds_nothing(&self, id: u32) -> bool {
        let address = self.context.record_of(id).map(|record| record.address());
        let holds = move |session: &SessionInfo| {
            let runs = session.running.is_some_and(|(server, _)| server == id);
            let is_here = Some(&session.server) == address.as_ref();
            runs || is_here && session.pinned_for_work
        };
        let held = self
            .background
            .aside(move |sessions| sessions.list().iter().any(holds));
        held.await == Ok(false)
    }
}

/// What was seen of a server's clients since new work is held.
///
/// Clients past Heddle are not held: one that begins statement after statement would never let a server be calm. What it was at when
/// the calm began is waited for, and nothing else.
struct Calm {
    /// No other router has clients there: whoever goes on is past Heddle.
    alone: bool,
    busy: BTreeSet<u64>,
    idle: BTreeSet<u64>,
}

impl Calm {
    fn new(alone: bool) -> Calm {
        Calm {
            alone,
            busy: BTreeSet::new(),
            idle: BTreeSet::new(),
        }
    }

    /// Takes a look. True when no statement runs that may have begun before the calm.
    fn have_ended(&mut self, clients: &[Client]) -> bool {
        for client in clients {
            match client.is_busy() {
                true => self.busy.insert(client.id),
                false => self.idle.insert(client.id),
            };
        }
        let ended = |client: &Client| self.alone && self.idle.contains(&client.id);
        clients
            .iter()
            .all(|client| !client.is_busy() || ended(client))
    }

    /// It has ended a statement and begun another one, or the other way round.
    fn goes_on(&self, id: u64) -> bool {
        self.alone && self.busy.contains(&id) && self.idle.contains(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients(busy: &[u64], idle: &[u64]) -> Vec<Client> {
        let client = |command: &str, id: u64| Client {
            id,
            user: "app".to_owned(),
            command: command.to_owned(),
            time_s: 0,
        };
        let busy = busy.iter().map(|&id| client("Query", id));
        busy.chain(idle.iter().map(|&id| client("Sleep", id)))
            .collect()
    }

    #[test]
    fn who_goes_on_past_heddle_is_waited_for_once() {
        let mut calm = Calm::new(true);
        assert!(!calm.have_ended(&clients(&[1, 2], &[3])));
        assert!(
            !calm.have_ended(&clients(&[2], &[1, 3])),
            "2 is at it still"
        );
        assert!(!calm.goes_on(2) && calm.goes_on(1));
        assert!(
            calm.have_ended(&clients(&[1], &[2, 3])),
            "1 is at another one"
        );
        // It may have had its transaction before.
        assert!(!calm.goes_on(3));
        assert!(!calm.have_ended(&clients(&[1, 4], &[2])), "4 is new");
        assert!(calm.have_ended(&[]));
    }

    #[test]
    fn clients_of_other_routers_are_waited_for() {
        let mut calm = Calm::new(false);
        assert!(!calm.have_ended(&clients(&[1], &[2])));
        assert!(!calm.have_ended(&clients(&[2], &[1])));
        assert!(calm.have_ended(&clients(&[], &[1, 2])));
        assert!(!calm.goes_on(1));
    }
}
