//! Keeping what the router knows of the accounts in step with what its own clients do to them. The
//! control plane reads the accounts every second; these are the two moments that must not wait so
//! long: after a client changed an account, and before a client is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use farm::Accounts;
use futures_channel::oneshot;

use crate::per_core::Shared;

/// How many changes of accounts went through this router, and how many of them the accounts that are
/// published show.
#[derive(Debug, Default)]
pub struct Changes {
    told: AtomicU64,
    read: Arc<AtomicU64>,
}

impl Shared {
    /// A client's statement may have changed an account: reads the accounts anew.
    pub(crate) fn accounts_changed(&self) {
        let change = self.changes.told.fetch_add(1, Ordering::AcqRel) + 1;
        let read = Arc::clone(&self.changes.read);
        self.operator.read_accounts(Box::new(move || {
            read.fetch_max(change, Ordering::AcqRel);
        }));
    }

    /// The accounts with everything that clients of this router did to them.
    pub(crate) async fn accounts_as_told(&self) -> Arc<Accounts> {
        let told = self.changes.told.load(Ordering::Acquire);
        if self.changes.read.load(Ordering::Acquire) < told {
            return self.accounts_anew().await;
        }
        self.accounts()
    }

    /// The accounts as a server has them now; the last known ones when none answers.
    pub(crate) async fn accounts_anew(&self) -> Arc<Accounts> {
        let (tell, told) = oneshot::channel();
        self.operator.read_accounts(Box::new(move || {
            // The client may have gone away meanwhile.
            let _ = tell.send(());
        }));
        // Dropped untold when the router ends: then the old accounts have to do.
        let _ = told.await;
        self.accounts()
    }

    fn accounts(&self) -> Arc<Accounts> {
        self.published.load().accounts.clone()
    }
}
