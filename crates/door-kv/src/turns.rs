//! Whose turn it is to make an item: who asked with `N` for an item that was missing, or with `R` for one
//! that expires soon, is told so, and the others are told that somebody is at it. This is kept by the
//! router, not in the table: another router gives turns of its own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// More turns than these are not remembered; then several clients may be told that it is theirs.
const TURNS_MAX: usize = 100_000;

/// A turn of an item that does not expire ends after this.
const TURN_MAX: Duration = Duration::from_secs(60);

/// The turns of one router. Its lock is taken by requests with `N` and `R`, and by others only while
/// there are turns.
#[derive(Default)]
pub(crate) struct Turns {
    taken: Mutex<HashMap<Box<[u8]>, Instant>>,
    count: AtomicUsize,
}

impl Turns {
    /// Takes the turn for an item that somebody else will not make for `ttl_s`. False when it is taken.
    pub fn take(&self, container: &str, key: &[u8], ttl_s: Option<u64>) -> bool {
        let now = Instant::now();
        let lasts = ttl_s.map_or(TURN_MAX, |s| Duration::from_secs(s.max(1)).min(TURN_MAX));
        let mut taken = self.lock();
        if taken.len() >= TURNS_MAX {
            taken.retain(|_, until| *until > now);
        }
        if taken.len() >= TURNS_MAX {
            return true;
        }
        let until = taken.entry(name(container, key)).or_insert(now);
        let free = *until <= now;
        if free {
            *until = now + lasts;
        }
        self.count.store(taken.len(), Ordering::Relaxed);
        free
    }

    /// Somebody is making it.
    pub fn is_taken(&self, container: &str, key: &[u8]) -> bool {
        if self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let until = self.lock().get(&*name(container, key)).copied();
        until.is_some_and(|until| until > Instant::now())
    }

    /// It is made, or gone.
    pub fn end(&self, container: &str, key: &[u8]) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut taken = self.lock();
        taken.remove(&*name(container, key));
        self.count.store(taken.len(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, Instant>> {
        // Every use is one call on the map, which a panic cannot leave half done.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn name(container: &str, key: &[u8]) -> Box<[u8]> {
    [container.as_bytes(), b"\0", key].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_one_clients_until_the_item_is_made() {
        let turns = Turns::default();
        assert!(!turns.is_taken("c", b"k"));
        assert!(turns.take("c", b"k", Some(30)));
        assert!(!turns.take("c", b"k", Some(30)));
        assert!(turns.is_taken("c", b"k"));
        assert!(turns.take("d", b"k", None) && turns.take("c", b"l", None));
        turns.end("c", b"k");
        assert!(!turns.is_taken("c", b"k"));
        assert!(turns.take("c", b"k", Some(30)));
    }
}
