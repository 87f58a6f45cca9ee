//! Accounts that a server takes for each other, because it sees the router where the client should be.
//!
//! Of two accounts with one name and different hosts, a server that sees the router takes every client for
//! the one that fits the router's address. Where they may do different things such clients are refused; here
//! it is told before anybody tries, with the cure.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use engine::Link;
use farm::Accounts;

use crate::admission::Newcomer;
use crate::commands::CommandError;
use crate::events::Event;
use crate::runtime::Control;

const CURE: &str = "set proxy_protocol_servers and the servers' proxy_protocol_networks (MariaDB), give \
                    both the same privileges, or drop one";

/// The pairs that were told of and are there still.
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

impl Control {
    /// Refuses a server that does not take the PROXY headers which clients' connections begin with.
    pub(crate) async fn takes_headers(&self, newcomer: &Newcomer) -> Result<(), CommandError> {
        let Some(version) = self.settings().proxy else {
            return Ok(());
        };
        let login = self.login_asked(&newcomer.host, newcomer.port);
        let objection = engine::proxy_objection(&login, version, newcomer.timeout_ms).await?;
        match objection {
            None => Ok(()),
            Some(why) => Err(CommandError::Refused(format!(
                "server {} does not take PROXY headers from this router ({why}), which \
                 proxy_protocol_servers is set for; name the router's address in its \
                 proxy_protocol_networks (MariaDB), or set proxy_protocol_servers to off; MySQL has no \
                 PROXY protocol",
                newcomer.address()
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
        let seen = match self.settings().proxy {
            Some(_) => None,
            None => engine::seen_as(link, timeout_ms).await?,
        };
        let pairs = seen.map_or_else(BTreeSet::new, |seen| pairs(accounts, seen));
        for detail in self.mistaken.news(pairs) {
            self.happened(Event::now("account_mistaken", "", detail));
        }
        Ok(())
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
