//! How far a group's binlog has been read, and what servers hold of it.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;

use farm::Position;
use farm::ServerId;

/// A lock whose data are whole after each step, whatever its holder did.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How far a group's binlog has been read, by the numbers of its transactions. They grow for as long as
/// the router runs, also when a reader begins anew.
#[derive(Debug, Default)]
pub struct Feed {
    reached: AtomicU64,
    /// Of all that was read; `None` while there is no reader.
    position: ArcSwapOption<Position>,
    /// The server that is read.
    server: AtomicU32,
    /// Everything that was committed before this moment has been read.
    current_us: AtomicU64,
    /// For each server the last number up to which it is known to hold everything.
    held: Mutex<Vec<(ServerId, u64)>>,
}

impl Feed {
    /// A reader begins at a position that its server shows to everybody.
    pub fn open(&self, server: ServerId, position: Position) {
        let number = self.reached.load(Relaxed) + 1;
        self.reached.store(number, Release);
        *lock(&self.held) = vec![(server, number)];
        self.server.store(server.0, Release);
        self.position.store(Some(Arc::new(position)));
    }

    /// The reader is gone: nothing is known any more.
    pub fn close(&self) {
        self.position.store(None);
        self.current_us.store(0, Release);
        lock(&self.held).clear();
    }

    /// The number of the transaction that is being read.
    pub fn number(&self) -> u64 {
        self.reached.load(Acquire) + 1
    }

    /// The number of the last transaction that was read.
    pub fn reached(&self) -> u64 {
        self.reached.load(Acquire)
    }

    /// The transaction that was being read is over, and what it changed is void.
    pub fn end(&self, position: Position) {
        self.reached.fetch_add(1, Release);
        self.position.store(Some(Arc::new(position)));
    }

    /// Everything that was committed before this moment has been read.
    pub fn is_current(&self, since_us: u64) {
        self.current_us.fetch_max(since_us, Release);
    }

    /// The server holds, and shows, everything up to this number.
    pub fn hold(&self, server: ServerId, number: u64) {
        let mut held = lock(&self.held);
        match held.iter_mut().find(|(id, _)| *id == server) {
            Some((_, known)) => *known = number.max(*known),
            None => held.push((server, number)),
        }
    }

    /// Nothing is known of the server any more.
    pub fn lose(&self, server: ServerId) {
        lock(&self.held).retain(|(id, _)| *id != server);
    }

    /// True while rows may be shown that are as this server has them, and not older than `bound_us`.
    pub fn answers(&self, primary: ServerId, now_us: u64, bound_us: u64) -> bool {
        let current_us = self.current_us.load(Acquire);
        self.server.load(Acquire) == primary.0
            && current_us > 0
            && now_us.saturating_sub(current_us) <= bound_us
    }

    /// True when everything that was committed before this moment has been read.
    pub fn has_read_until(&self, moment_us: u64) -> bool {
        self.current_us.load(Acquire) >= moment_us
    }

    /// True when all of this position has been read.
    pub fn covers(&self, position: &Position) -> bool {
        let known = self.position.load();
        known.as_ref().is_some_and(|known| known.covers(position))
    }

    pub(crate) fn held(&self) -> Vec<(ServerId, u64)> {
        lock(&self.held).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farm::Engine;

    const PRIMARY: ServerId = ServerId(1);
    const REPLICA: ServerId = ServerId(2);

    fn at(sequence: u64) -> Position {
        Position::parse(Engine::MariaDb, &format!("0-1-{sequence}")).expect("a position")
    }

    #[test]
    fn feeds_answer_while_they_are_up_to_date() {
        let feed = Feed::default();
        assert!(!feed.answers(PRIMARY, 5, 10) && !feed.covers(&at(1)));
        feed.open(PRIMARY, at(1));
        assert!(
            !feed.answers(PRIMARY, 5, 10),
            "it has not been heard of yet"
        );
        feed.is_current(100);
        assert!(feed.answers(PRIMARY, 110, 10) && !feed.answers(PRIMARY, 111, 10));
        assert!(
            !feed.answers(REPLICA, 100, 10),
            "another server takes the writes"
        );
        assert!(feed.covers(&at(1)) && !feed.covers(&at(2)));
        feed.end(at(2));
        assert!(feed.covers(&at(2)));
        feed.close();
        assert!(!feed.covers(&at(1)) && !feed.answers(PRIMARY, 100, 10));
    }
}
