//! Which connections of the servers are this process's own links.
//!
//! Invariant: the id of each living link is here, so no link is taken for a client's connection.
//!
//! Must not know: what links are for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The ids of this process's links, by server, so that it does not take them for clients'.
static OWN: Mutex<BTreeMap<String, BTreeSet<u64>>> = Mutex::new(BTreeMap::new());

fn own() -> MutexGuard<'static, BTreeMap<String, BTreeSet<u64>>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A link's place among this process's own.
pub(super) struct OwnId {
    address: String,
    /// The server's id of the connection.
    pub(super) id: u64,
}

impl OwnId {
    pub(super) fn new(address: &str, id: u64) -> OwnId {
        let address = address.to_owned();
        own().entry(address.clone()).or_default().insert(id);
        OwnId { address, id }
    }
}

impl Drop for OwnId {
    fn drop(&mut self) {
        if let Some(ids) = own().get_mut(&self.address) {
            ids.remove(&self.id);
        }
    }
}

/// The ids of this process's links to a server.
pub(super) fn ids(address: &str) -> BTreeSet<u64> {
    own().get(address).cloned().unwrap_or_default()
}
