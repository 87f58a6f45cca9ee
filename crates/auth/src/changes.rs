//! Which changes of accounts by this router's clients are published by now. The control plane reads the accounts
//! every second. A login neither waits for that nor uses accounts from before a change: it asks for a new reading.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_channel::oneshot;

/// To be called when the accounts have been read, or cannot be.
pub type Done = Box<dyn FnOnce() + Send>;

/// How many changes of accounts went through this router, and how many of them the accounts that are
/// published show.
#[derive(Debug, Default)]
pub struct Changes {
    told: AtomicU64,
    read: Arc<AtomicU64>,
}

impl Changes {
    /// A client's statement may have changed an account: `read` has the accounts read anew.
    pub fn tell(&self, read: impl FnOnce(Done)) {
        let change = self.told.fetch_add(1, Ordering::AcqRel) + 1;
        let shown = Arc::clone(&self.read);
        read(Box::new(move || {
            shown.fetch_max(change, Ordering::AcqRel);
        }));
    }

    /// False while the accounts that are published may lack what a client did.
    pub fn are_shown(&self) -> bool {
        self.read.load(Ordering::Acquire) >= self.told.load(Ordering::Acquire)
    }
}

/// Has the accounts read, and waits until they were or cannot be.
pub async fn anew(read: impl FnOnce(Done)) {
    let (tell, told) = oneshot::channel();
    read(Box::new(move || {
        // The client may have gone away meanwhile.
        let _ = tell.send(());
    }));
    // Dropped untold when the router ends: then the old accounts have to do.
    let _ = told.await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_shown_once_a_reading_after_them_is_done() {
        let (changes, mut readings) = (Changes::default(), Vec::new());
        assert!(changes.are_shown());
        changes.tell(|done| readings.push(done));
        changes.tell(|done| readings.push(done));
        let [first, second] = <[Done; 2]>::try_from(readings).ok().expect("two readings");
        first();
        assert!(!changes.are_shown(), "the second change is not read");
        second();
        assert!(changes.are_shown());
        changes.tell(|done| done());
        assert!(changes.are_shown());
    }
}
