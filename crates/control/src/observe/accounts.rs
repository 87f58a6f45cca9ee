//! Accounts that a server takes for each other, because it sees the router where the client should be.
//!
//! Of two accounts with one name and different hosts, a server that sees the router takes every client for
//! the one that fits the router's address. Where they may do different things such clients are refused; here
//! it is told before anybody tries, with the cure.

use crate::context::supervision::Queue;
use crate::links::reach::Place;
use engine::Error;
use farm::Container;
use faults::Chore;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::time::Instant;

use engine::Link;
use farm::Accounts;

use crate::context::Context;
use crate::links::Links;
use crate::observe::early_writes::{EarlyNews, tell_losses};
use catalog::command::CommandError;
use catalog::event::Event;

/// Called when the accounts have been read, or could not be, on the control thread; must not block.
pub type Read = Box<dyn FnOnce() + Send>;

/// Least time between two readings of the accounts that were asked for.
const ASKED_INTERVAL: Duration = Duration::from_millis(20);

const CURE: &str = "set proxy_protocol_servers and the servers' proxy_protocol_networks (MariaDB), give \
                    both the same privileges, or drop one";

/// What was told of and is there still: pairs of accounts.
#[derive(Debug, Default)]
pub(crate) struct Mistaken(Mutex<BTreeSet<String>>);

impl Mistaken {
    /// What is new among these pairs.
    fn news(&self, pairs: BTreeSet<String>) -> Vec<String> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *known, pairs);
        known.difference(&before).cloned().collect()
    }
}

/// Reads the accounts of clients from the servers.
pub(crate) struct AccountsReader {
    context: Arc<Context>,
    links: Arc<Links>,
    mistaken: Mistaken,
    early: EarlyNews,
}

impl AccountsReader {
    pub(crate) fn new(context: &Arc<Context>, links: &Arc<Links>) -> AccountsReader {
        AccountsReader {
            context: Arc::clone(context),
            links: Arc::clone(links),
            mistaken: Mistaken::default(),
            early: EarlyNews::default(),
        }
    }
}

impl AccountsReader {
    /// Refuses a server that does not take the PROXY headers which clients' connections begin with.
    pub(crate) async fn takes_headers(
        &self,
        host: &str,
        port: u16,
        timeout_ms: u64,
    ) -> Result<(), CommandError> {
        let Some(version) = self.context.settings().observation.proxy else {
            return Ok(());
        };
        let login = self.links.login_asked(host, port);
        let objection = engine::proxy_objection(&login, version, timeout_ms).await?;
        match objection {
            None => Ok(()),
            Some(why) => Err(CommandError::Refused(format!(
                "server {host}:{port} does not take PROXY headers from this router ({why}), which \
                 proxy_protocol_servers is set for; name the router's address in its \
                 proxy_protocol_networks (MariaDB), or set proxy_protocol_servers to off; MySQL has no \
                 PROXY protocol"
            ))),
        }
    }

    /// Tells which of a server's accounts it takes for others when clients come through this router.
    pub(crate) async fn look_for_mistaken(
        &self,
        link: &mut Link,
        accounts: &Accounts,
        timeout_ms: u64,
    ) -> Result<(), engine::Error> {
        let seen = match self.context.settings().observation.proxy {
            Some(_) => None,
            None => engine::seen_as(link, timeout_ms).await?,
        };
        let pairs = seen.map_or_else(BTreeSet::new, |seen| pairs(accounts, seen));
        for detail in self.mistaken.news(pairs) {
            self.context
                .happened(Event::now("account_mistaken", "", detail));
        }
        Ok(())
    }

    /// Reads the accounts from the home group's primary, again and again, and at once when somebody
    /// asks.
    pub(crate) async fn refresh_accounts(self: Arc<Self>, askers: Queue<Read>) {
        let mut askers = askers.lock().await;
        let mut link: Option<Link> = None;
        let mut told = String::new();
        let mut asked: Vec<Read> = Vec::new();
        loop {
            while let Ok(done) = askers.try_recv() {
                asked.push(done);
            }
            let read = Instant::now();
            Chore::Accounts.pass();
            tell_losses(&self.context);
            match self.read_accounts(&mut link).await {
                Ok(Some((accounts, containers))) => {
                    self.context.set_accounts(accounts, containers);
                    told.clear();
                }
                Ok(None) => {}
                // A server that is away is told by its probes; what else is wrong is told once.
                Err(error) if error.number().is_some() => {
                    let error = error.to_string();
                    if error != told {
                        self.context
                            .happened(Event::now("accounts_unreadable", "", error.clone()));
                        told = error;
                    }
                }
                Err(_) => {}
            }
            asked.drain(..).for_each(|done| done());
            let known = !self.context.snapshot().accounts.is_empty();
            let interval_ms = self.context.settings().observation.accounts_interval_ms;
            // Until the first accounts are there nobody can log in: look more often.
            let pause_ms = if known { interval_ms } else { interval_ms / 10 };
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(pause_ms.max(1))) => {}
                Some(done) = askers.recv() => asked.push(done),
            }
            // Clients with wrong passwords ask, too: so often, and no more, is a server bothered.
            if !asked.is_empty() && read.elapsed() < ASKED_INTERVAL {
                tokio::time::sleep(ASKED_INTERVAL - read.elapsed()).await;
            }
        }
    }

    async fn read_accounts(
        &self,
        link: &mut Option<Link>,
    ) -> Result<Option<(Accounts, Vec<Container>)>, Error> {
        let primary = {
            let state = self.context.state();
            let home = state.records.groups.keys().next();
            let primary = home.and_then(|home| state.records.primary(home));
            primary.map(|(_, record)| (Place::from(record), record.address()))
        };
        let Some((place, address)) = primary else {
            return Ok(None);
        };
        let timeout_ms = self.context.settings().observation.probe_timeout_ms;
        if let Some(mut open) = link.take().filter(|link| link.address() == address)
            && let Ok(read) = self.accounts_and_containers(&mut open, timeout_ms).await
        {
            *link = Some(open);
            return Ok(Some(read));
        }
        // There was no connection, or it broke: the server may have been restarted since.
        let mut open = Link::open(&self.links.login(place), timeout_ms).await?;
        let read = self.accounts_and_containers(&mut open, timeout_ms).await?;
        *link = Some(open);
        Ok(Some(read))
    }

    /// The accounts, and the containers of the memcached plugin that the server had.
    async fn accounts_and_containers(
        &self,
        link: &mut Link,
        timeout_ms: u64,
    ) -> Result<(Accounts, Vec<Container>), Error> {
        let accounts = engine::accounts(link, timeout_ms).await?;
        self.look_for_mistaken(link, &accounts, timeout_ms).await?;
        let plugin = engine::memcached::plugin(link, timeout_ms).await?;
        let unread = plugin.unread_batch.as_deref();
        self.early.tell(&self.context, &plugin.containers, unread);
        Ok((accounts, plugin.containers))
    }
}

fn pairs(accounts: &Accounts, seen: IpAddr) -> BTreeSet<String> {
    let pairs = accounts.mistaken(seen).into_iter();
    let text = |(one, other): (&farm::Account, &farm::Account)| {
        format!(
            "clients of '{}'@'{}' are refused: the servers see this router at {seen} and take it for \
             '{}'@'{}', whose privileges differ; {CURE}",
            one.user, one.host, other.user, other.host
        )
    };
    pairs.map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_still_is_told_once() {
        let mistaken = Mistaken::default();
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        assert_eq!(mistaken.news(set(&["a", "b"])), ["a", "b"]);
        assert_eq!(mistaken.news(set(&["a", "b", "c"])), ["c"]);
        assert!(mistaken.news(set(&["c"])).is_empty());
        assert_eq!(mistaken.news(set(&["a", "c"])), ["a"]);
    }
}
