//! Leases of etcd: whole seconds, and never shorter than one and a half elections of the cluster.

use std::sync::Arc;
use std::time::Duration;

use super::{Inner, PATIENCE};
use crate::{Answer, Error, Lease, LeaseId};

struct EtcdLease {
    inner: Arc<Inner>,
    id: i64,
    ttl: Duration,
}

pub(super) async fn grant(inner: Arc<Inner>, ttl: Duration) -> Result<Box<dyn Lease>, Error> {
    let seconds = i64::try_from(ttl.as_millis().div_ceil(1000)).unwrap_or(i64::MAX);
    let granted = inner.members.ask(PATIENCE, |client| async move {
        client.lease_grant(seconds.max(1)).await
    });
    // A try without an answer may have left a lease too; nobody keeps it, so it runs out.
    let granted = granted.await?;
    let ttl = Duration::from_secs(u64::try_from(granted.ttl).unwrap_or(0));
    let id = granted.id;
    Ok(Box::new(EtcdLease { inner, id, ttl }))
}

impl Lease for EtcdLease {
    fn id(&self) -> LeaseId {
        LeaseId(self.id.cast_unsigned())
    }

    fn ttl(&self) -> Duration {
        self.ttl
    }

    fn keep(&self) -> Answer<'_, ()> {
        let id = self.id;
        Box::pin(async move {
            // Nobody who waited longer could still count on it.
            let kept = self.inner.members.ask(self.ttl, |client| async move {
                client.lease_keep_alive(id).await
            });
            kept.await.map(drop)
        })
    }

    fn revoke(&self) -> Answer<'_, ()> {
        let id = self.id;
        Box::pin(async move {
            let revoked =
                self.inner.members.ask(
                    PATIENCE,
                    |client| async move { client.lease_revoke(id).await },
                );
            match revoked.await {
                Ok(_) | Err(Error::LeaseLost) => Ok(()),
                Err(error) => Err(error),
            }
        })
    }
}
