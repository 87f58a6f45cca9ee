//! The transaction of a session as far as it is more than what one connection has: its part in a
//! distributed transaction, what recovery still has to end, what its client was told is written.
//!
//! The log of the open transaction on a group's connection is that connection's
//! ([`crate::connections::group_connections`]). Must not know: how a statement gets to a server.

use std::sync::Arc;

use rowcache::ClientWrites;

use crate::transaction::distributed::{DistTxn, Own, Unfinished, XaState};

/// What a session knows of its transaction.
pub struct Transaction {
    /// The open transaction, in a farm with several groups.
    pub dist_txn: Option<Box<DistTxn>>,
    /// What recovery has to end of the last ones before they are read.
    pub unfinished: Vec<Unfinished>,
    /// What its client has had acknowledged.
    pub writes: Arc<ClientWrites>,
}

impl Transaction {
    /// None is open.
    pub fn new(writes: Arc<ClientWrites>) -> Transaction {
        Transaction {
            dist_txn: None,
            unfinished: Vec::new(),
            writes,
        }
    }

    /// The open transaction has touched several groups.
    pub fn is_dist_txn(&self) -> bool {
        self.dist_txn.as_ref().is_some_and(|it| it.has_crossed())
    }

    /// A statement of the open transaction failed with this error.
    pub fn note_failure(&mut self, number: Option<u16>) {
        if let Some(dist_txn) = &mut self.dist_txn {
            dist_txn.failed = number;
        }
    }

    /// The first part waits so from here on, or as before.
    pub fn hurry(&mut self, hurried: bool) {
        let dist_txn = self.dist_txn.as_mut();
        if let Some(coordinator) = dist_txn.and_then(|it| it.parts.first_mut()) {
            coordinator.hurried = hurried;
        }
    }

    /// The transaction's only group begins another one.
    pub fn renew_part(&mut self) {
        if let Some(dist_txn) = &mut self.dist_txn {
            dist_txn.savepoints.clear();
            for part in &mut dist_txn.parts {
                part.work = Default::default();
            }
        }
    }

    /// The open transaction, where it is the client's own.
    pub fn own(&self) -> Option<&Own> {
        self.dist_txn.as_ref()?.own.as_deref()
    }

    /// The open transaction is the client's own, and takes statements for groups no more: its state.
    pub fn own_is_closed(&self) -> Option<&'static str> {
        let own = self.own()?;
        (own.state != XaState::Active).then(|| own.state.name())
    }

    /// The open transaction is the client's own and has been prepared.
    pub fn own_is_prepared(&self) -> bool {
        self.own().is_some_and(|own| own.state == XaState::Prepared)
    }

    /// The client's own transaction could not begin on its first group.
    pub fn own_refused(&self) -> Option<u16> {
        let dist_txn = self.dist_txn.as_ref().filter(|it| it.own.is_some());
        dist_txn.and_then(|it| it.failed)
    }
}

/// For tests: none is open, and the client has written nothing.
pub fn none() -> Transaction {
    let snapshot = farm::Snapshot::empty("farm", std::time::Instant::now());
    Transaction::new(rowcache::WritesByClient::default().of(1, &snapshot))
}
