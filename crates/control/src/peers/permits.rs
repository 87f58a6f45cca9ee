//! Limits of accounts that hold over the farm: how many of an account's clients each router may have.
//!
//! The store keeps, per account, what each router holds (`/permits/USER@HOST`); a router takes a few at
//! a time by a transaction that only applies if nobody else changed the key since it was added up. So
//! the sum never passes the limit. What is not used goes back after a while, or at once when another
//! router asks for it. What a router held that lives no more is everybody's again: whoever adds up
//! reads the key first and the living routers after it, and a router registers before it takes any.
//!
//! Without the store a router goes on with what it holds. One that the store takes for dead while its
//! clients are still connected (paused, or cut off for longer than its lease) has clients that nobody
//! counts, until it is back.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use farm::Permits;
use meta::{Outcome, Transaction};
use serde_json::Value;

use crate::context::Context;
use crate::leadership::election::Election;
use crate::leadership::presence::ROUTER;
use crate::peers::questions::{GROUP, RELEASE};
use crate::peers::routers::PeerRouters;
use catalog::command::{Call, CommandError, Table};

/// A login waits so long for a permit.
const WAIT: Duration = Duration::from_secs(2);

/// Between two rounds in which unused permits go back.
const ROUND: Duration = Duration::from_secs(5);

/// Other routers change the same key at the same moment; so often it is tried again.
const TRIES: u32 = 16;

/// A limit is given out in so many parts per router, so that few logins need the store and no router
/// hoards.
const PARTS: u32 = 8;

/// What the store was last known to say of this router, per account. Held over each change.
pub(crate) type Written = HashMap<String, u32>;

/// Of one account: what each router holds, by the id of its process, and the key's revision.
struct Shares {
    held: BTreeMap<String, u32>,
    revision: Option<u64>,
    /// The routers that live, by id.
    living: HashSet<String>,
}

/// This router's share of the permits that hold over the farm.
pub(crate) struct PermitShares {
    context: Arc<Context>,
    election: Arc<Election>,
    peers: Arc<PeerRouters>,
    permits: Arc<Permits>,
    permits_written: tokio::sync::Mutex<Written>,
}

impl PermitShares {
    pub(crate) fn new(
        context: &Arc<Context>,
        election: &Arc<Election>,
        peers: &Arc<PeerRouters>,
        permits: &Arc<Permits>,
    ) -> PermitShares {
        PermitShares {
            context: Arc::clone(context),
            election: Arc::clone(election),
            peers: Arc::clone(peers),
            permits: Arc::clone(permits),
            permits_written: tokio::sync::Mutex::default(),
        }
    }
}

impl PermitShares {
    /// Gets a permit for a client of this account, out of `limit` over the farm; false when there is
    /// none, or when that cannot be found out in time.
    pub(crate) async fn permit(&self, account: &str, limit: u32) -> bool {
        let got = tokio::time::timeout(WAIT, self.take_permits(account, limit)).await;
        match got {
            Ok(Ok(got)) => got,
            Ok(Err(error)) => {
                tracing::warn!(account, %error, "no permit for a login");
                false
            }
            Err(_) => {
                tracing::warn!(account, "no permit for a login in time");
                false
            }
        }
    }

    async fn take_permits(&self, account: &str, limit: u32) -> Result<bool, meta::Error> {
        let mut asked = false;
        for _ in 0..TRIES {
            match self.take_some(account, limit).await? {
                Some(true) => return Ok(true),
                Some(false) if asked => return Ok(false),
                Some(false) => {
                    asked = true;
                    if !self.ask_back(account).await {
                        return Ok(false);
                    }
                }
                None => {}
            }
        }
        Ok(false)
    }

    /// One try: `Some(false)` when the limit is given out, `None` when somebody else was faster.
    async fn take_some(&self, account: &str, limit: u32) -> Result<Option<bool>, meta::Error> {
        let mut written = self.permits_written.lock().await;
        let permits = &self.permits;
        // Another login may have brought some.
        if permits.has_free(account) {
            return Ok(Some(true));
        }
        let own = self.election.roster().own.id.clone();
        let shares = self.shares(account).await?;
        let held = permits.held(account);
        let others = shares.of_others(&own);
        let routers = u32::try_from(shares.living.len()).unwrap_or(u32::MAX);
        let free = limit.saturating_sub(others.saturating_add(held));
        // What an unregistered router takes would be everybody's again at once.
        if free == 0 || !shares.living.contains(&own) {
            return Ok(Some(false));
        }
        let more = free.min((limit / PARTS / routers.max(1)).max(1));
        if !self
            .write_share(account, shares, held + more, &mut written)
            .await?
        {
            return Ok(None);
        }
        permits.add(account, more);
        Ok(Some(true))
    }

    /// Asks the others to give back what they do not use; whether anybody did.
    async fn ask_back(&self, account: &str) -> bool {
        let call = Call::new(GROUP, RELEASE, &[account]);
        let others = self.election.roster().others.clone();
        let answers = self.peers.ask_these(others, &call).await;
        let given = |table: &Table| {
            table
                .rows
                .iter()
                .flatten()
                .filter_map(Value::as_u64)
                .sum::<u64>()
        };
        let given: u64 = answers
            .iter()
            .filter_map(|(_, table)| table.as_ref().ok().map(given))
            .sum();
        given > 0
    }

    /// Another router needs what this one does not use.
    pub(crate) async fn release_permits(&self, account: &str) -> Result<u32, CommandError> {
        let mut written = self.permits_written.lock().await;
        let given = self.permits.give_up(account, false);
        if given > 0 {
            self.say_held(account, &mut written).await?;
        }
        Ok(given)
    }

    /// Gives back what has not been used for a while, and says again what a failed store missed.
    pub(crate) async fn return_permits(self: Arc<Self>) {
        if self.context.leadership.is_alone() {
            return;
        }
        let mut seat = self.context.leadership.seat();
        loop {
            tokio::time::sleep(ROUND).await;
            let mut written = self.permits_written.lock().await;
            let now = self.context.leadership.seat();
            if now != seat {
                // Registered anew: the others may have taken this router for dead.
                written.clear();
                seat = now;
            }
            let permits = &self.permits;
            let mut accounts: HashSet<String> = permits.accounts().into_iter().collect();
            accounts.extend(written.keys().cloned());
            for account in accounts {
                permits.give_up(&account, true);
                if written.get(&account) == Some(&permits.held(&account)) {
                    continue;
                }
                if let Err(error) = self.say_held(&account, &mut written).await {
                    tracing::debug!(account, %error, "permits are given back later");
                }
            }
        }
    }

    /// Writes what this router holds of an account now.
    async fn say_held(&self, account: &str, written: &mut Written) -> Result<(), meta::Error> {
        let held = self.permits.held(account);
        for _ in 0..TRIES {
            let shares = self.shares(account).await?;
            if self.write_share(account, shares, held, written).await? {
                return Ok(());
            }
        }
        // The next round tries again.
        Ok(())
    }

    /// False when somebody else was faster.
    async fn write_share(
        &self,
        account: &str,
        mut shares: Shares,
        held: u32,
        written: &mut Written,
    ) -> Result<bool, meta::Error> {
        let own = self.election.roster().own.id.clone();
        match held {
            0 => drop(shares.held.remove(&own)),
            held => drop(shares.held.insert(own, held)),
        }
        let key = key(account);
        let transaction = match shares.revision {
            None => Transaction::new().when_absent(&key),
            Some(revision) => Transaction::new().when_revision(&key, revision),
        };
        let text = Value::from_iter(shares.held.clone()).to_string();
        let transaction = match shares.held.is_empty() {
            true => transaction.delete(&key),
            false => transaction.put(&key, &text),
        };
        // Should the answer be lost, nobody knows what the store says.
        written.remove(account);
        let outcome = self.context.store().commit(transaction).await?;
        let applied = matches!(outcome, Outcome::Applied(_));
        if applied && held > 0 {
            written.insert(account.to_owned(), held);
        }
        Ok(applied)
    }

    /// What the routers that live hold of an account.
    async fn shares(&self, account: &str) -> Result<Shares, meta::Error> {
        let entry = self.context.store().get(&key(account)).await?;
        // After the key: who is not there now has lived when it wrote its share, and lives no more.
        let routers = self.context.store().scan(ROUTER).await?;
        let id = |entry: &meta::Entry| {
            let record: Value = serde_json::from_str(&entry.value).unwrap_or_default();
            record["id"].as_str().map(str::to_owned)
        };
        let living: HashSet<String> = routers.entries.iter().filter_map(id).collect();
        let text = entry.as_ref().map_or("{}", |entry| entry.value.as_str());
        let mut held: BTreeMap<String, u32> = serde_json::from_str(text).unwrap_or_default();
        held.retain(|id, _| living.contains(id));
        Ok(Shares {
            held,
            revision: entry.map(|entry| entry.revision),
            living,
        })
    }
}

impl Shares {
    fn of_others(&self, own: &str) -> u32 {
        let others = self.held.iter().filter(|(id, _)| *id != own);
        others.fold(0, |sum, (_, held)| sum.saturating_add(*held))
    }
}

fn key(account: &str) -> String {
    format!("/permits/{account}")
}
