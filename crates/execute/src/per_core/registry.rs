//! All sessions of the router by their ids, which are unique over the farm, for KILL and for lists. Touched when a session begins
//! and ends and by those two; never by a statement.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use farm::Victim;
use farm::account::host_matches;
use rustc_hash::{FxHashMap, FxHashSet};

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
    sessions: Mutex<Sessions>,
}

#[derive(Debug, Default)]
struct Sessions {
    by_id: FxHashMap<u32, Known>,
    /// The names that sessions have, each once.
    users: FxHashSet<Arc<str>>,
}

/// An entry as it is kept: there are as many as clients.
#[derive(Debug)]
struct Known {
    core: u32,
    user: Arc<str>,
    peer: (IpAddr, u16),
}

impl Known {
    fn entry(&self, id: u32) -> Entry {
        Entry {
            id,
            core: self.core as usize,
            user: self.user.to_string(),
            peer: self.peer.into(),
        }
    }
}

impl Sessions {
    /// The name as sessions share it.
    fn user(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.users.get(name) {
            return known.clone();
        }
        let new: Arc<str> = name.into();
        self.users.insert(new.clone());
        new
    }

    /// A session does not have this name any more.
    fn give_up(&mut self, user: Arc<str>) {
        // Its own, and that of the set.
        if Arc::strong_count(&user) == 2 {
            self.users.remove(&user);
        }
    }
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
            if number != 0 && !self.lock().by_id.contains_key(&id) {
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

    /// Enters a session on this core.
    pub fn enter(&self, id: u32, core: usize, user: &[u8], peer: SocketAddr) {
        let user = String::from_utf8_lossy(user);
        let sessions = &mut *self.lock();
        let known = Known {
            core: core as u32,
            user: sessions.user(&user),
            peer: (peer.ip(), peer.port()),
        };
        sessions.by_id.insert(id, known);
    }

    /// The session belongs to another user from now on.
    pub fn rename(&self, id: u32, user: &[u8]) {
        let name = String::from_utf8_lossy(user);
        let sessions = &mut *self.lock();
        let user = sessions.user(&name);
        let before = match sessions.by_id.get_mut(&id) {
            Some(known) => std::mem::replace(&mut known.user, user),
            None => user,
        };
        sessions.give_up(before);
    }

    /// The session's client is elsewhere than its connection said.
    pub(crate) fn relocate(&self, id: u32, peer: SocketAddr) {
        if let Some(known) = self.lock().by_id.get_mut(&id) {
            known.peer = (peer.ip(), peer.port());
        }
    }

    /// Removes a session.
    pub fn leave(&self, id: u32) {
        let sessions = &mut *self.lock();
        if let Some(known) = sessions.by_id.remove(&id) {
            sessions.give_up(known.user);
        }
    }

    /// The session with this id.
    pub fn find(&self, id: u32) -> Option<Entry> {
        Some(self.lock().by_id.get(&id)?.entry(id))
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
        let sessions = self.lock();
        let known = sessions.by_id.iter();
        let mut all: Vec<Entry> = known.map(|(id, known)| known.entry(*id)).collect();
        drop(sessions);
        all.sort_by_key(|entry| entry.id);
        all
    }

    /// How many sessions there are.
    pub fn len(&self) -> usize {
        self.lock().by_id.len()
    }

    /// True when nobody is connected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Sessions> {
        // Nothing that is done under the lock can panic halfway.
        self.sessions.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(registry: &Registry, id: u32, user: &str) {
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        registry.enter(id, 3, user.as_bytes(), peer);
    }

    #[test]
    fn names_are_kept_once_and_as_long_as_sessions_have_them() {
        let registry = Registry::default();
        (1..4).for_each(|id| enter(&registry, id, "app"));
        registry.rename(3, b"root");
        registry.rename(4, b"nobody");
        let entry = registry.find(2).expect("it is there");
        assert_eq!((entry.id, entry.core, &*entry.user, entry.peer.port()), (2, 3, "app", 1));
        let names = || registry.lock().users.len();
        assert_eq!((registry.len(), names()), (3, 2));
        registry.leave(1);
        registry.leave(3);
        assert_eq!((registry.list().len(), names()), (1, 1));
        registry.leave(2);
        assert_eq!((registry.is_empty(), names()), (true, 0));
    }

    #[test]
    fn ids_are_the_routers_own_and_free() {
        let registry = Registry::default();
        assert_eq!([registry.next_id(), registry.next_id()], [1, 2]);
        registry.place(3);
        assert_eq!(registry.next_id(), 3 << 24 | 3);
        // The numbers begin again without 0, and without those in use.
        enter(&registry, 3 << 24 | 1, "");
        registry.last_id.store((1 << 24) - 2, Ordering::Relaxed);
        let ids = [registry.next_id(), registry.next_id()];
        assert_eq!(ids, [3 << 24 | 0xFF_FFFF, 3 << 24 | 2]);
        registry.place(255);
        assert_eq!(registry.next_id() >> 24, 255);
    }
}
