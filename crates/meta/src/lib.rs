//! The state store: the few keys in which a farm outlives its routers.
//!
//! Job: keep keys with JSON values, change several of them in one transaction that compares first,
//! list a prefix, tell what changed since a revision, and delete the keys of a router that is no
//! longer heard. One trait, [`Store`]; [`Embedded`] keeps a file for a farm of one router, [`Etcd`]
//! keeps the same keys where several routers share them.
//!
//! Invariants: a transaction is applied whole or not at all, and is on disk when it returns; every
//! transaction that changed something has its own revision, and revisions grow; a watch misses
//! nothing or says so; what expires is told to watches as deletions.
//!
//! Elections need nothing more: who writes a key by `when_absent` with its lease leads, the revision
//! of that key is a number that grows with every leadership, and a write that carries
//! `when_revision` of it is refused once the leadership is over.
//!
//! Must not know: what the keys mean. `control` gives them their meaning.

mod embedded;
mod error;
mod etcd;
pub mod private;
#[cfg(test)]
mod suite;

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

pub use embedded::Embedded;
pub use error::Error;
pub use etcd::{Access, Etcd};

/// The future of a store's answer; boxed, so that a store can be chosen at run time.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// One key as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    /// JSON text.
    pub value: String,
    /// The revision of the transaction that wrote it.
    pub revision: u64,
    /// The lease that the key ends with.
    pub lease: Option<LeaseId>,
}

/// The number of a lease, unique in its store while the lease lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseId(pub u64);

/// All keys under a prefix, in the order of their bytes, at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    pub entries: Vec<Entry>,
    /// The newest revision that the listing includes; a watch from here on misses nothing.
    pub revision: u64,
}

/// What must hold for a transaction to be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The key does not exist.
    Absent(String),
    /// The key exists as this revision wrote it.
    Revision(String, u64),
}

/// One change of a transaction. A key may be changed once in a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Put {
        key: String,
        value: String,
        /// The key is deleted when this lease ends. A put without a lease makes the key stay.
        lease: Option<LeaseId>,
    },
    Delete {
        key: String,
    },
}

impl Change {
    /// The key that it changes.
    pub fn key(&self) -> &str {
        match self {
            Change::Put { key, .. } | Change::Delete { key } => key,
        }
    }

    /// The lease that it binds its key to.
    pub fn lease(&self) -> Option<LeaseId> {
        match self {
            Change::Put { lease, .. } => *lease,
            Change::Delete { .. } => None,
        }
    }
}

/// Comparisons, and what to change when all of them hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    pub compares: Vec<Compare>,
    pub changes: Vec<Change>,
}

impl Transaction {
    /// An empty transaction.
    pub fn new() -> Transaction {
        Transaction::default()
    }

    /// Applies only if the key does not exist.
    pub fn when_absent(mut self, key: &str) -> Transaction {
        self.compares.push(Compare::Absent(key.to_owned()));
        self
    }

    /// Applies only if the key still is as this revision wrote it.
    pub fn when_revision(mut self, key: &str, revision: u64) -> Transaction {
        self.compares
            .push(Compare::Revision(key.to_owned(), revision));
        self
    }

    /// Writes a key, which stays.
    pub fn put(mut self, key: &str, value: &str) -> Transaction {
        self.changes.push(Change::Put {
            key: key.to_owned(),
            value: value.to_owned(),
            lease: None,
        });
        self
    }

    /// Writes a key that is deleted when the lease ends.
    pub fn put_leased(mut self, key: &str, value: &str, lease: LeaseId) -> Transaction {
        self.changes.push(Change::Put {
            key: key.to_owned(),
            value: value.to_owned(),
            lease: Some(lease),
        });
        self
    }

    /// Removes a key; one that does not exist stays so.
    pub fn delete(mut self, key: &str) -> Transaction {
        self.changes.push(Change::Delete {
            key: key.to_owned(),
        });
        self
    }

    /// A key that it changes more than once.
    fn key_twice(&self) -> Option<&str> {
        let mut keys = BTreeSet::new();
        let mut changed = self.changes.iter().map(Change::key);
        changed.find(|&key| !keys.insert(key))
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Applied and on disk, as this revision.
    Applied(u64),
    /// A comparison did not hold; nothing was changed.
    Stale,
}

/// One applied transaction, as far as a watched prefix sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    pub revision: u64,
    pub changes: Vec<Change>,
}

/// A state store. Keys are UTF-8 paths; values are JSON text.
pub trait Store: Send + Sync {
    /// One key, or `None`.
    fn get(&self, key: &str) -> Answer<'_, Option<Entry>>;
    /// All keys that begin with `prefix`.
    fn scan(&self, prefix: &str) -> Answer<'_, Listing>;
    /// Applies a transaction if its comparisons hold. Once begun it ends, even when the future is
    /// dropped, and it is applied once at most. [`Error::LeaseLost`], with nothing changed, when it
    /// binds a key to a lease that has ended. After [`Error::Unreachable`] it may or may not have been
    /// applied, or may be a little later.
    fn commit(&self, transaction: Transaction) -> Answer<'_, Outcome>;
    /// Everything that changes under `prefix` after revision `after`.
    fn watch(&self, prefix: &str, after: u64) -> Answer<'_, Box<dyn Watch>>;
    /// The store, where it is a file of this process.
    fn embedded(&self) -> Option<&Embedded> {
        None
    }
    /// A new lease. It ends `ttl` after it was last extended, or later where the store grants no
    /// lease as short as that.
    fn lease(&self, ttl: Duration) -> Answer<'_, Box<dyn Lease>>;
}

/// A promise to be there: the keys bound to it are deleted when it is no longer kept.
///
/// Whoever acts on a lease counts its validity by its own monotonic clock, from before the request
/// that granted or last extended it: the store counts from when that request arrived, which is
/// never earlier. Dropping the value ends nothing; the lease then runs out.
pub trait Lease: Send + Sync {
    fn id(&self) -> LeaseId;
    /// How long it lives after it was extended, as granted.
    fn ttl(&self) -> Duration;
    /// Extends it by its whole length, once. [`Error::LeaseLost`] when it has ended; after any other
    /// error it may or may not have been extended.
    fn keep(&self) -> Answer<'_, ()>;
    /// Ends it now; its keys are gone when this returns. One that has ended stays so.
    fn revoke(&self) -> Answer<'_, ()>;
}

/// A running watch; dropped to end it.
pub trait Watch: Send {
    /// Waits for the next update. [`Error::Gap`] when updates were lost: scan again and watch anew.
    /// Dropping the future loses nothing.
    fn next(&mut self) -> Answer<'_, Update>;
}
