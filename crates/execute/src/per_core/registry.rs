//! All sessions of the router by their ids, which are unique over the farm, for KILL and for lists. Touched when a session begins
//! and ends and by those two; never by a statement.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use farm::Victim;
use farm::account::host_matches;
use rustc_hash::FxHashMap;

/// What is known of a session from outside its core.
#[derive(Clone, Debug)]
pub struct Entry {
    pub id: u32,
    pub core: usize,
    pub user: String,
    pub peer: SocketAddr,
}

/// In a farm of several routers an id is the router's slot, and below it so many bits of a number.
const NUMBER_BITS: u32 = 24;

/// The sessions of one router.
#[derive(Debug, Default)]
pub struct Registry {
    /// The router's slot, moved to where it stands in an id.
    prefix: AtomicU32,
    last_id: AtomicU32,
    sessions: Mutex<FxHashMap<u32, Entry>>,
}

impl Registry {
    /// An id for a new connection: never 0, and free even when all have been given away.
    pub fn next_id(&self) -> u32 {
        let prefix = self.prefix.load(Ordering::Relaxed);
        loop {
            let mut number = self.last_id.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            // A router that is alone has all 32 bits for itself.
            if prefix != 0 {
                number %= 1 << NUMBER_BITS;
            }
            let id = prefix | number;
            if number != 0 && !self.lock().contains_key(&id) {
                return id;
            }
        }
    }

    /// The ids of new sessions belong to this slot from now on; those that are there keep theirs.
    pub fn place(&self, slot: u8) {
        let prefix = u32::from(slot) << NUMBER_BITS;
        self.prefix.store(prefix, Ordering::Relaxed);
    }

    /// The id that was given last.
    pub fn last_id(&self) -> u32 {
        self.last_id.load(Ordering::Relaxed)
    }

    /// Ids up to this one may be those of another process' clients; given before the first client.
    pub fn begin_after(&self, id: u32) {
        self.last_id.store(id, Ordering::Relaxed);
    }

    /// Enters a session.
    pub fn enter(&self, entry: Entry) {
        self.lock().insert(entry.id, entry);
    }

    /// The session belongs to another user from now on.
    pub fn rename(&self, id: u32, user: &[u8]) {
        if let Some(entry) = self.lock().get_mut(&id) {
            entry.user = String::from_utf8_lossy(user).into_owned();
        }
    }

    /// The session's client is elsewhere than its connection said.
    pub(crate) fn relocate(&self, id: u32, peer: SocketAddr) {
        if let Some(entry) = self.lock().get_mut(&id) {
            entry.peer = peer;
        }
    }

    /// Removes a session.
    pub fn leave(&self, id: u32) {
        self.lock().remove(&id);
    }

    /// The session with this id.
    pub fn find(&self, id: u32) -> Option<Entry> {
        self.lock().get(&id).cloned()
    }

    /// Whom a KILL means.
    pub fn victims(&self, victim: &Victim) -> Vec<Entry> {
        match victim {
            Victim::Session(id) => self.find(*id).into_iter().collect(),
            Victim::User { user, host } => {
                let mut victims = self.list();
                victims.retain(|entry| entry.user == *user && host_matches(host, entry.peer.ip()));
                victims
            }
        }
    }

    /// All sessions, ordered by id.
    pub fn list(&self) -> Vec<Entry> {
        let mut all: Vec<Entry> = self.lock().values().cloned().collect();
        all.sort_by_key(|entry| entry.id);
        all
    }

    /// How many sessions there are.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// True when nobody is connected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, FxHashMap<u32, Entry>> {
        // A panic while the map is locked cannot leave it half changed: every use is one call.
        self.sessions.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: u32) -> Entry {
        Entry {
            id,
            core: 0,
            user: String::new(),
            peer: SocketAddr::from(([127, 0, 0, 1], 1)),
        }
    }

    #[test]
    fn ids_are_the_routers_own_and_free() {
        let registry = Registry::default();
        assert_eq!([registry.next_id(), registry.next_id()], [1, 2]);
        registry.place(3);
        assert_eq!(registry.next_id(), 3 << 24 | 3);
        // The numbers begin again without 0, and without those in use.
        registry.enter(entry(3 << 24 | 1));
        registry.last_id.store((1 << 24) - 2, Ordering::Relaxed);
        let ids = [registry.next_id(), registry.next_id()];
        assert_eq!(ids, [3 << 24 | 0xFF_FFFF, 3 << 24 | 2]);
        registry.place(255);
        assert_eq!(registry.next_id() >> 24, 255);
    }
}
