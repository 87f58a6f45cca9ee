//! Leases of the embedded store.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::{Inner, file, lock};
use crate::{Answer, Error, Lease, LeaseId};

/// Between two tries to delete what a lease left, while the disk refuses.
const RETRY: Duration = Duration::from_secs(1);

/// The leases that live, with the time at which each ends.
#[derive(Default)]
pub(super) struct Leases {
    ends: HashMap<LeaseId, Instant>,
    newest: u64,
}

impl Leases {
    /// Whether none of them has ended. One whose time is up has ended, though its task may not have
    /// woken yet.
    pub(super) fn all_live(&self, wanted: &[LeaseId]) -> bool {
        let live = |lease| {
            self.ends
                .get(lease)
                .is_some_and(|&end| end > Instant::now())
        };
        wanted.iter().all(live)
    }

    /// Another process has had the file, and has deleted their keys.
    pub(super) fn end_all(&mut self) {
        self.ends.clear();
    }
}

struct EmbeddedLease {
    inner: Arc<Inner>,
    id: LeaseId,
    ttl: Duration,
}

/// Grants a lease, and starts the task that ends it.
pub(super) fn grant(inner: Arc<Inner>, ttl: Duration) -> Box<dyn Lease> {
    let mut leases = lock(&inner.leases);
    leases.newest += 1;
    let id = LeaseId(leases.newest);
    leases.ends.insert(id, Instant::now() + ttl);
    drop(leases);
    tokio::spawn(end_in_time(Arc::downgrade(&inner), id));
    Box::new(EmbeddedLease { inner, id, ttl })
}

impl Lease for EmbeddedLease {
    fn id(&self) -> LeaseId {
        self.id
    }

    fn ttl(&self) -> Duration {
        self.ttl
    }

    fn keep(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            let mut leases = lock(&self.inner.leases);
            let now = Instant::now();
            match leases.ends.get_mut(&self.id) {
                Some(end) if *end > now => *end = now + self.ttl,
                _ => return Err(Error::LeaseLost),
            }
            Ok(())
        })
    }

    fn revoke(&self) -> Answer<'_, ()> {
        lock(&self.inner.leases).ends.remove(&self.id);
        let (inner, id) = (Arc::clone(&self.inner), self.id);
        Box::pin(async move { delete_keys(inner, id).await })
    }
}

/// Sleeps until the lease is over, then deletes its keys. Holds no store open.
async fn end_in_time(inner: Weak<Inner>, id: LeaseId) {
    loop {
        let Some(inner) = inner.upgrade() else { return };
        let end = {
            let mut leases = lock(&inner.leases);
            match leases.ends.get(&id).copied() {
                Some(end) if end <= Instant::now() => {
                    leases.ends.remove(&id);
                    None
                }
                Some(end) => Some(end),
                // It was revoked.
                None => return,
            }
        };
        drop(inner);
        match end {
            Some(end) => sleep_until(end).await,
            None => break,
        }
    }
    while let Some(inner) = inner.upgrade() {
        if delete_keys(inner, id).await.is_ok() {
            return;
        }
        sleep(RETRY).await;
    }
}

async fn delete_keys(inner: Arc<Inner>, id: LeaseId) -> Result<(), Error> {
    let deleted = tokio::task::spawn_blocking(move || {
        inner.with_file("write", |open| {
            // Still under the file's lock, so the history is in the order of the revisions.
            if let Some(update) = file::delete_leased(open, Some(id))? {
                inner.remember(update);
            }
            Ok(())
        })
    });
    deleted.await.unwrap_or(Err(Error::Closed))
}
