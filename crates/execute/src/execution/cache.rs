//! The result cache of one core: replies of eventual reads, for as long as their sessions allow.
//!
//! A read may be answered from here when it asks for it (`/*heddle cache_ttl_s=5*/`,
//! `heddle_cache_ttl_s`). The same text has the same reply only for the same account, session state
//! and kind of client, so all of that is the key. A reply lives for the time asked less the age of the
//! data it was read from: what a client gets is never older than its time, lag included. Replies that
//! are long, failed, or left warnings are not kept. Cached answers are exempt from the rule that reads
//! of a session do not go back in time; whoever asks for them has said how old they may be.

pub(crate) mod recall;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use backend::{Key as Profile, SessionState};
use farm::ServerId;
use mysql_wire::relay::Outcome;
use rustc_hash::FxHashMap;

use crate::client::Client;
use crate::execution::point::Vouched;
use crate::per_core::Core;
use crate::session::user::SessionUser;
use crate::variables::session_variables::SessionVariables;

/// Longer replies are not kept.
pub(crate) const REPLY_BYTES_MAX: usize = 262_144;

/// What an entry costs beside its text and reply.
const ENTRY_BYTES: usize = 256;

/// What a reply depends on.
#[derive(Clone)]
pub struct Key {
    text: Rc<[u8]>,
    profile: Profile,
    state: Rc<SessionState>,
    capabilities: u64,
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.text == other.text
            && self.profile == other.profile
            && self.capabilities == other.capabilities
            && SessionState::same(&self.state, &other.state)
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.text.hash(hasher);
        self.state.hash().hash(hasher);
    }
}

pub(crate) struct Entry {
    reply: Rc<[u8]>,
    outcome: Outcome,
    /// Everything committed before this moment is in it.
    complete_us: u64,
    /// What it costs to keep.
    bytes: usize,
    /// The row cache vouches for it; else it lives for a time.
    pub vouched: Option<Vouched>,
}

/// The replies of one core, the oldest first out.
pub struct Cache<K = Key>(RefCell<Inner<K>>);

struct Inner<K> {
    /// With numbers that tell an entry from older ones of its key in the line.
    entries: FxHashMap<K, (Entry, u64)>,
    line: VecDeque<(K, u64)>,
    bytes: usize,
    next: u64,
}

impl<K> Default for Cache<K> {
    fn default() -> Cache<K> {
        Cache(RefCell::default())
    }
}

impl<K> Default for Inner<K> {
    fn default() -> Inner<K> {
        Inner {
            entries: FxHashMap::default(),
            line: VecDeque::new(),
            bytes: 0,
            next: 0,
        }
    }
}

impl<K: Clone + Eq + Hash> Inner<K> {
    fn remove(&mut self, key: &K) {
        if let Some((entry, _)) = self.entries.remove(key) {
            self.bytes -= entry.bytes;
        }
    }

    fn is_current(&self, key: &K, number: u64) -> bool {
        let kept = self.entries.get(key);
        kept.is_some_and(|(_, current)| *current == number)
    }
}

impl<K: Clone + Eq + Hash> Cache<K> {
    /// A reply whose data are younger than `ttl_us`.
    fn get(&self, key: &K, ttl_us: u64, now_us: u64) -> Option<(Rc<[u8]>, Outcome)> {
        let inner = self.0.borrow();
        let (entry, _) = inner.entries.get(key)?;
        let young = now_us.saturating_sub(entry.complete_us) < ttl_us;
        young.then(|| (entry.reply.clone(), entry.outcome.clone()))
    }

    /// What its entries cost to keep, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.borrow().bytes
    }

    /// A reply that the row cache vouches for.
    pub(crate) fn vouched(&self, key: &K) -> Option<(Rc<[u8]>, Outcome)> {
        let inner = self.0.borrow();
        let (entry, _) = inner.entries.get(key)?;
        let good = entry.vouched.as_ref().is_some_and(Vouched::is_good);
        good.then(|| (entry.reply.clone(), entry.outcome.clone()))
    }

    /// Keeps such a reply. The same again is as good as when it was kept first.
    pub(crate) fn put_vouched(&self, key: K, entry: Entry, bytes_max: usize) {
        let same = self.0.borrow().entries.get(&key).is_some_and(|(there, _)| {
            let unchanged = there.vouched.as_ref().is_some_and(Vouched::is_unchanged);
            unchanged && there.reply == entry.reply
        });
        if !same {
            self.put(key, entry, bytes_max);
        }
    }

    fn put(&self, key: K, entry: Entry, bytes_max: usize) {
        let mut inner = self.0.borrow_mut();
        inner.remove(&key);
        inner.next += 1;
        inner.bytes += entry.bytes;
        let number = inner.next;
        inner.line.push_back((key.clone(), number));
        inner.entries.insert(key, (entry, number));
        while inner.bytes > bytes_max {
            let Some((oldest, number)) = inner.line.pop_front() else {
                return;
            };
            if inner.is_current(&oldest, number) {
                inner.remove(&oldest);
            }
        }
        // Entries that were replaced stay in the line until they come to its front.
        if inner.line.len() > 2 * inner.entries.len() + 64 {
            let line = std::mem::take(&mut inner.line);
            let current = line.into_iter().filter(|(key, n)| inner.is_current(key, *n));
            let line = current.collect();
            inner.line = line;
        }
    }

    /// Forgets everything: accounts have changed, and with them what anybody may see.
    pub fn clear(&self) {
        *self.0.borrow_mut() = Inner::default();
    }
}

pub(crate) fn cache_key(
    core: &Core,
    user: &SessionUser,
    client: &Client,
    variables: &SessionVariables,
) -> Key {
    cache_key_of(core, user, client, variables, &client.request.payload()[1..])
}

pub(crate) fn cache_key_of(
    core: &Core,
    user: &SessionUser,
    client: &Client,
    variables: &SessionVariables,
    text: &[u8],
) -> Key {
    let pools = &core.pools;
    Key {
        text: text.into(),
        profile: pools.key(ServerId(0), true, &user.identity.pass),
        state: Rc::clone(&variables.state),
        capabilities: client.capabilities.bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(complete_us: u64, reply: &[u8]) -> Entry {
        Entry {
            reply: reply.into(),
            outcome: Outcome::default(),
            complete_us,
            bytes: reply.len() + ENTRY_BYTES,
            vouched: None,
        }
    }

    #[test]
    fn a_reply_lives_from_the_moment_its_data_were_whole() {
        let cache = Cache::default();
        cache.put("a", entry(1_000, b"reply"), 10_000);
        let found = |now_us| cache.get(&"a", 500, now_us).is_some();
        assert!(found(1_499) && !found(1_500));
        assert!(cache.get(&"b", 500, 1_000).is_none());
    }

    #[test]
    fn the_oldest_go_first_and_the_bytes_stay_bounded() {
        let cache = Cache::default();
        for number in 0..100 {
            cache.put(number.to_string(), entry(1, &[0; 100]), 4_000);
            cache.put("hot".to_owned(), entry(1, &[0; 100]), 4_000);
        }
        assert!(cache.0.borrow().bytes <= 4_000);
        assert!(cache.get(&"hot".to_owned(), 10, 1).is_some());
        assert!(cache.get(&"99".to_owned(), 10, 1).is_some());
        assert!(cache.get(&"1".to_owned(), 10, 1).is_none());
        assert!(cache.0.borrow().line.len() <= 2 * cache.0.borrow().entries.len() + 64);
        cache.clear();
        assert_eq!(cache.0.borrow().bytes, 0);
    }
}
