//! The transaction of a session as far as it is more than what one connection has: its part in a
//! distributed transaction, what recovery still has to end, what its client was told is written.
//!
//! The log of the open transaction on a group's connection is that connection's
//! ([`crate::connections::group_connections`]). Must not know: how a statement gets to a server.

use std::sync::Arc;

use rowcache::ClientWrites;

use crate::dist_txn::{DistTxn, Unfinished};

/// What a session knows of its transaction.
pub(crate) struct Transaction {
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
}

/// For tests: none is open, and the client has written nothing.
#[cfg(test)]
pub(crate) fn none() -> Transaction {
    let snapshot = farm::Snapshot::empty("farm", std::time::Instant::now());
    Transaction::new(rowcache::WritesByClient::default().of(1, &snapshot))
}
