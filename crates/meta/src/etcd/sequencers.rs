//! A transaction is applied once, though it is sent until an answer comes.
//!
//! A try without an answer may have been applied, or may be applied later. So every transaction also
//! writes a key of the router's own, its sequencer, and compares that the sequencer still has the version that
//! it had before. A second try finds the version grown by one, and then the first was applied; a
//! try that arrives late finds it grown too, and changes nothing. A sequencer serves one transaction at a
//! time; one whose transaction had no answer at all is not used again.
//!
//! Sequencers go with a lease of their own, so that nothing is left of a router that is gone.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::api::messages::{
    Compare as RawCompare, CompareTarget, DeleteRangeRequest, PutRequest, RangeRequest, Request,
    RequestOp, Response, TargetUnion, TxnRequest,
};
use super::{Inner, PATIENCE, revision_of};
use crate::{Change, Compare, Error, Outcome, Transaction};

/// The lease of the sequencers, in seconds. It is not kept: new sequencers come with a new one.
const LEASE_S: i64 = 3600;

/// When new sequencers are made; early enough that no try under way outlives the lease.
const SEQUENCERS_AGE: Duration = Duration::from_secs(1800);

pub(super) struct Sequencers {
    prefix: String,
    set: Mutex<Option<Set>>,
}

/// The sequencers of one lease that are not in use.
struct Set {
    lease: i64,
    since: Instant,
    free: Vec<Sequencer>,
    made: u32,
}

struct Sequencer {
    key: String,
    /// How often the key was written; 0: it does not exist.
    version: i64,
    lease: i64,
}

/// What became of a transaction in a sequencer.
enum Passed {
    Done(Outcome),
    /// The sequencer's key is gone, with its lease.
    NoSequencer,
}

impl Sequencers {
    /// Beside the farm's keys, under the same prefix, so that an account for the one can do the
    /// other, and no reader of the farm sees it.
    pub(super) fn new(prefix: &str) -> Sequencers {
        Sequencers {
            prefix: format!("{prefix}-commits/"),
            set: Mutex::new(None),
        }
    }

    async fn take(&self, inner: &Inner) -> Result<Sequencer, Error> {
        if let Some(sequencer) = self.pick() {
            return Ok(sequencer);
        }
        let granted = inner.members.ask(PATIENCE, |client| async move {
            client.lease_grant(LEASE_S).await
        });
        let lease = granted.await?.id;
        *self.lock() = Some(Set {
            lease,
            since: Instant::now(),
            free: Vec::new(),
            made: 0,
        });
        Ok(self.pick().unwrap_or_else(|| self.sequencer(lease, 0)))
    }

    fn pick(&self) -> Option<Sequencer> {
        let mut set = self.lock();
        let set = set
            .as_mut()
            .filter(|set| set.since.elapsed() < SEQUENCERS_AGE)?;
        let free = set.free.pop();
        Some(free.unwrap_or_else(|| {
            set.made += 1;
            self.sequencer(set.lease, set.made)
        }))
    }

    fn sequencer(&self, lease: i64, number: u32) -> Sequencer {
        Sequencer {
            key: format!("{}{lease:x}/{number}", self.prefix),
            version: 0,
            lease,
        }
    }

    fn give_back(&self, sequencer: Sequencer) {
        if let Some(set) = self
            .lock()
            .as_mut()
            .filter(|set| set.lease == sequencer.lease)
        {
            set.free.push(sequencer);
        }
    }

    /// The lease of this sequencer has ended; others of it are of no use either.
    fn close(&self, sequencer: &Sequencer) {
        let mut set = self.lock();
        if set.as_ref().is_some_and(|set| set.lease == sequencer.lease) {
            *set = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Set>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Applies a transaction, once.
pub(super) async fn commit(inner: &Inner, wanted: &Transaction) -> Result<Outcome, Error> {
    // A second round is needed only when etcd lost the lease of the sequencers, as after a restore.
    for _ in 0..2 {
        let mut sequencer = inner.sequencers.take(inner).await?;
        match pass(inner, &sequencer, wanted).await {
            Ok(Passed::Done(outcome)) => {
                sequencer.version += i64::from(matches!(outcome, Outcome::Applied(_)));
                inner.sequencers.give_back(sequencer);
                return Ok(outcome);
            }
            Ok(Passed::NoSequencer) => inner.sequencers.close(&sequencer),
            Err(Error::LeaseLost) if sequencer_is_lost(inner, &sequencer).await? => {
                inner.sequencers.close(&sequencer);
            }
            Err(error) => return Err(error),
        }
    }
    Err(super::failure::other("a lease of one hour ended at once"))
}

async fn pass(inner: &Inner, sequencer: &Sequencer, wanted: &Transaction) -> Result<Passed, Error> {
    let txn = request(inner, sequencer, wanted);
    let answer = inner.members.ask(PATIENCE, |client| {
        let txn = txn.clone();
        async move { client.txn(txn).await }
    });
    let answer = answer.await?;
    if answer.succeeded {
        let revision = inner.revision(revision_of(answer.header.as_ref()));
        return Ok(Passed::Done(Outcome::Applied(revision)));
    }
    let first = answer.responses.into_iter().next();
    let Some(Response::Range(found)) = first.and_then(|first| first.response) else {
        return Err(super::failure::other("a transaction without an answer"));
    };
    Ok(match found.kvs.first() {
        Some(mark) if mark.version > sequencer.version => {
            Passed::Done(Outcome::Applied(inner.revision(mark.mod_revision)))
        }
        None if sequencer.version > 0 => Passed::NoSequencer,
        _ => Passed::Done(Outcome::Stale),
    })
}

fn request(inner: &Inner, sequencer: &Sequencer, wanted: &Transaction) -> TxnRequest {
    let compares = wanted.compares.iter().map(|compare| match compare {
        Compare::Absent(key) => is_at(inner.full(key), 0),
        // A key that does not exist has the revision 0, which must not count as known.
        Compare::Revision(key, revision) => {
            let raw = inner.raw(*revision);
            is_at(inner.full(key), if raw == 0 { -1 } else { raw })
        }
    });
    let fresh = RawCompare {
        target: CompareTarget::Version.into(),
        key: sequencer.key.clone().into(),
        target_union: Some(TargetUnion::Version(sequencer.version)),
    };
    let changes = wanted.changes.iter().map(|change| match change {
        Change::Put { key, value, lease } => {
            let lease = lease.map_or(0, |lease| lease.0.cast_signed());
            put(inner.full(key), value, lease)
        }
        Change::Delete { key } => Request::DeleteRange(DeleteRangeRequest {
            key: inner.full(key).into(),
        }),
    });
    let mark = put(sequencer.key.clone(), "", sequencer.lease);
    let look = Request::Range(RangeRequest::key(sequencer.key.clone()));
    TxnRequest {
        compare: compares.chain([fresh]).collect(),
        success: changes.chain([mark]).map(op).collect(),
        failure: vec![op(look)],
    }
}

/// The condition that a key was written last at this revision.
fn is_at(key: String, revision: i64) -> RawCompare {
    RawCompare {
        target: CompareTarget::ModRevision.into(),
        key: key.into(),
        target_union: Some(TargetUnion::ModRevision(revision)),
    }
}

/// A lease of 0 is none.
fn put(key: String, value: &str, lease: i64) -> Request {
    Request::Put(PutRequest {
        key: key.into(),
        value: value.into(),
        lease,
    })
}

fn op(request: Request) -> RequestOp {
    RequestOp {
        request: Some(request),
    }
}

async fn sequencer_is_lost(inner: &Inner, sequencer: &Sequencer) -> Result<bool, Error> {
    let lease = sequencer.lease;
    let asked = inner.members.ask(PATIENCE, |client| async move {
        client.lease_time_to_live(lease).await
    });
    match asked.await {
        Ok(answer) => Ok(answer.ttl <= 0),
        Err(Error::LeaseLost) => Ok(true),
        Err(error) => Err(error),
    }
}
