//! All sessions of the router by their ids, for KILL and for lists. Touched when a session begins
//! and ends and by those two; never by a statement.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// What is known of a session from outside its core.
#[derive(Clone, Debug)]
pub struct Entry {
    pub id: u32,
    pub core: usize,
    pub user: String,
    pub peer: SocketAddr,
}

/// The sessions of one router.
#[derive(Debug, Default)]
pub struct Registry {
    last_id: AtomicU32,
    sessions: Mutex<HashMap<u32, Entry>>,
}

impl Registry {
    /// An id for a new connection: never 0, and free even after 2^32 connections.
    pub fn next_id(&self) -> u32 {
        loop {
            let id = self.last_id.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            if id != 0 && !self.lock().contains_key(&id) {
                return id;
            }
        }
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

    /// Removes a session.
    pub fn leave(&self, id: u32) {
        self.lock().remove(&id);
    }

    /// The session with this id.
    pub fn find(&self, id: u32) -> Option<Entry> {
        self.lock().get(&id).cloned()
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

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u32, Entry>> {
        // A panic while the map is locked cannot leave it half changed: every use is one call.
        self.sessions
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
