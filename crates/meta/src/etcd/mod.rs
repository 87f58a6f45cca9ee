//! The state store of a farm of several routers: keys in an etcd cluster.
//!
//! Keys stand under a prefix, so that several farms, or anything else, may use one etcd. A request
//! goes to one member; when that one is slow or gone it goes to the others too, and the first answer
//! counts ([`members`]). A transaction is applied once though it may be sent several times
//! ([`sequencers`]). Every request has a deadline; a watch has none and goes on for ever.
//!
//! etcd 3.4 and newer. What is asked of it: reads through a majority, transactions, leases, watches
//! that say when history was compacted.

mod api;
mod failure;
mod lease;
mod members;
mod sequencers;
#[cfg(test)]
mod tests;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use self::api::messages::{Header, KeyValue, PutRequest, RangeRequest};
use self::members::Members;
use self::sequencers::Sequencers;
use crate::{Answer, Entry, Error, Lease, LeaseId, Listing, Outcome, Store, Transaction, Watch};

/// How long a request is tried before the store counts as out of reach. An etcd whose leader died
/// elects a new one within two or three seconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where an etcd is, and how to be let in.
#[derive(Clone)]
pub struct Access {
    /// The client URLs of the members, with `http://` or `https://`; all of one cluster.
    pub urls: Vec<String>,
    /// What stands before every key: `/heddle`.
    pub prefix: String,
    /// Name and password, where etcd has accounts.
    pub account: Option<(String, String)>,
    /// The PEM file of the authority that signed the members' certificates; needed for `https://`.
    pub authority: Option<PathBuf>,
    /// The PEM files of the certificate and its key that members are shown.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// A state store in etcd.
pub struct Etcd {
    inner: Arc<Inner>,
}

struct Inner {
    members: Members,
    prefix: String,
    sequencers: Sequencers,
    /// Added to etcd's own revisions, so that they go on where those of the store that the farm came
    /// from ended; what servers were told of earlier leaders counts on that.
    base: u64,
}

impl Etcd {
    /// Looks for the cluster and reads from it. The error says which of the URLs, the certificates,
    /// the account or the cluster is at fault.
    pub async fn connect(access: Access) -> Result<Etcd, Error> {
        let prefix = access.prefix.clone();
        let members = Members::new(access)?;
        let key = base_key(&prefix);
        let answer = members.ask(PATIENCE, |client| {
            let key = key.clone();
            async move { client.range(RangeRequest::key(key)).await }
        });
        let base = match answer.await?.kvs.first() {
            None => 0,
            Some(found) => {
                let base = value(found)?.parse();
                base.map_err(|_| failure::foreign(&found.key))?
            }
        };
        let sequencers = Sequencers::new(&prefix);
        Ok(Etcd {
            inner: Arc::new(Inner {
                members,
                prefix,
                sequencers,
                base,
            }),
        })
    }

    /// Makes all later revisions greater than this one, for who opens the store from now on; this
    /// handle counts as before. For stores that nobody uses: a farm that moves.
    pub async fn raise_revisions(&self, above: u64) -> Result<(), Error> {
        let reached = self.scan("/farm/").await?.revision;
        if reached > above {
            return Ok(());
        }
        let base = self.inner.base + (above - reached);
        let key = base_key(&self.inner.prefix);
        let put = self.inner.members.ask(PATIENCE, |client| {
            let put = PutRequest {
                key: key.clone().into(),
                value: base.to_string().into(),
                lease: 0,
            };
            async move { client.put(put).await }
        });
        put.await.map(drop)
    }
}

/// Beside the farm's keys, as the sequencers are.
fn base_key(prefix: &str) -> String {
    format!("{prefix}-revisions")
}

impl Store for Etcd {
    fn get(&self, key: &str) -> Answer<'_, Option<Entry>> {
        let key = self.inner.full(key);
        Box::pin(async move {
            let answer = self.inner.members.ask(PATIENCE, |client| {
                let key = key.clone();
                async move { client.range(RangeRequest::key(key)).await }
            });
            let answer = answer.await?;
            let found = answer.kvs.first();
            found.map(|found| self.inner.entry(found)).transpose()
        })
    }

    fn scan(&self, prefix: &str) -> Answer<'_, Listing> {
        let prefix = self.inner.full(prefix);
        Box::pin(async move {
            let answer = self.inner.members.ask(PATIENCE, |client| {
                let request = RangeRequest::prefix(prefix.clone());
                async move { client.range(request).await }
            });
            let answer = answer.await?;
            let entries = answer.kvs.iter().map(|found| self.inner.entry(found));
            Ok(Listing {
                entries: entries.collect::<Result<_, _>>()?,
                revision: self.inner.revision(revision_of(answer.header.as_ref())),
            })
        })
    }

    fn commit(&self, transaction: Transaction) -> Answer<'_, Outcome> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            if let Some(twice) = transaction.key_twice() {
                return Err(Error::KeyTwice(twice.to_owned()));
            }
            // A task of its own, since it must end even when this future is dropped.
            let task = tokio::spawn(async move { sequencers::commit(&inner, &transaction).await });
            task.await.unwrap_or(Err(Error::Closed))
        })
    }

    fn watch(&self, prefix: &str, after: u64) -> Answer<'_, Box<dyn Watch>> {
        let watch = watch::EtcdWatch::new(Arc::clone(&self.inner), prefix, after);
        Box::pin(async move { Ok(Box::new(watch) as Box<dyn Watch>) })
    }

    fn lease(&self, ttl: Duration) -> Answer<'_, Box<dyn Lease>> {
        Box::pin(lease::grant(Arc::clone(&self.inner), ttl))
    }
}

impl Inner {
    fn full(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// A revision as the farm knows it. They are signed in etcd's protocol, and never negative.
    fn revision(&self, raw: i64) -> u64 {
        raw.cast_unsigned().saturating_add(self.base)
    }

    /// The same for etcd; one from before the farm came here is none of its, as 0.
    fn raw(&self, revision: u64) -> i64 {
        revision.saturating_sub(self.base).cast_signed()
    }

    /// The key as the farm knows it, without the prefix.
    fn own<'a>(&self, full: &'a [u8]) -> Result<&'a str, Error> {
        let own = std::str::from_utf8(full).ok();
        own.and_then(|key| key.strip_prefix(&self.prefix))
            .ok_or_else(|| failure::foreign(full))
    }

    fn entry(&self, found: &KeyValue) -> Result<Entry, Error> {
        Ok(Entry {
            key: self.own(&found.key)?.to_owned(),
            value: value(found)?,
            revision: self.revision(found.mod_revision),
            lease: lease_of(found),
        })
    }
}

/// The store's revision when a member answered, as etcd counts.
fn revision_of(header: Option<&Header>) -> i64 {
    header.map_or(0, |header| header.revision)
}

fn value(found: &KeyValue) -> Result<String, Error> {
    let text = std::str::from_utf8(&found.value);
    Ok(text.map_err(|_| failure::foreign(&found.key))?.to_owned())
}

fn lease_of(found: &KeyValue) -> Option<LeaseId> {
    (found.lease != 0).then(|| LeaseId(found.lease.cast_unsigned()))
}
