//! The row cache: rows by key that a router remembers, and when they may be shown.
//!
//! The control plane reads a group's binlog and voids what it sees changed ([`Feed`]); the data plane
//! puts rows in and takes them out ([`Space`], one per container and group). Transactions are counted
//! as they are read, and everything is said by these numbers:
//!
//! - A row is put in only if the server that it was read from was known, before the read, to hold every
//!   transaction that ever changed the key. An event may come before its server shows the change, so
//!   having read of it is no such knowledge; and a change during the read is read of later, so that the
//!   row is refused or voided.
//! - A row may be newer than what has been read. It is taken out only when everything has been read that
//!   was committed before it was put in, so that all who get it see the group as of what was read, and
//!   nobody who has read a key elsewhere sees an older row of it afterwards.
//! - A row is taken out only while a reader is there and up to date, and for somebody with a token only
//!   when all of the token has been read.
//! - Keys are kept by hash: one that shares another's place is refused longer than it must be.
//!
//! Locks are held for one lookup, and nothing waits while it holds one.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;

use farm::container::{KeyForm, trimmed};
use farm::{Container, ServerId};

use crate::counts::Counts;
use crate::feed::{Feed, lock};
use crate::key::Known;
use crate::shard::{Facts, KeyRef, Remembered, Shard, cost};

/// Parts of a space, each with a lock of its own.
const SHARDS: usize = 32;

/// Places of keys in one part: for each it is known which transaction was the last to change one of
/// its keys.
const PLACES: usize = 1024;

/// What is known when a read begins whose rows may be put in.
#[derive(Clone, Debug)]
pub struct Lease {
    generation: u64,
    held: Vec<(ServerId, u64)>,
}

/// Says of which moment something is that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voucher {
    generation: u64,
    number: u64,
    read_us: u64,
}

/// The rows of one container that are in one group.
#[derive(Debug)]
pub struct Space {
    pub container: Arc<Container>,
    pub group: String,
    pub feed: Arc<Feed>,
    pub counts: Counts,
    open: AtomicBool,
    /// Why it is not; empty where it is about to be.
    refused: Mutex<String>,
    /// Only ASCII is the same in the column's character set.
    ascii: AtomicBool,
    /// `None` where only the bytes of whole keys are known to be different.
    form: Known,
    /// Grows when everything is voided.
    generation: AtomicU64,
    hasher: RandomState,
    shards: Vec<Mutex<Shard>>,
    /// Of each part.
    bytes_max: usize,
}

impl Space {
    fn new(container: Arc<Container>, group: &str, feed: Arc<Feed>) -> Space {
        let bytes = usize::try_from(container.cache_bytes).unwrap_or(usize::MAX);
        Space {
            container,
            group: group.to_owned(),
            feed,
            counts: Counts::default(),
            open: AtomicBool::new(false),
            refused: Mutex::default(),
            ascii: AtomicBool::new(false),
            form: Known::default(),
            generation: AtomicU64::new(0),
            hasher: RandomState::new(),
            shards: (0..SHARDS)
                .map(|_| Mutex::new(Shard::new(PLACES)))
                .collect(),
            bytes_max: bytes / SHARDS,
        }
    }

    /// The key's part, its place there, and the key with its hash.
    fn place<'k>(&self, bytes: &'k [u8]) -> (&Mutex<Shard>, usize, KeyRef<'k>) {
        let hash = self.hasher.hash_one(bytes);
        // The table of a part goes by the lowest bits and the highest: it has the hash to itself.
        let at = usize::try_from(hash >> 40).unwrap_or(0);
        let key = KeyRef { bytes, hash };
        (&self.shards[at % SHARDS], at / SHARDS % PLACES, key)
    }

    /// From now on rows may be put in; `ascii` where only such keys have the same bytes in the binlog
    /// and in what clients send.
    pub fn open(&self, ascii: bool, form: Option<KeyForm>) {
        self.form.set(form);
        self.ascii.store(ascii, Relaxed);
        lock(&self.refused).clear();
        self.open.store(true, Release);
    }

    /// The rows cannot be remembered.
    pub fn refuse(&self, why: &str) {
        self.close();
        why.clone_into(&mut lock(&self.refused));
    }

    /// `open`, `cold` until the reader is there and up to date, or why rows are not remembered.
    pub fn state(&self) -> String {
        let why = lock(&self.refused).clone();
        match (self.open.load(Acquire), why.is_empty()) {
            (true, _) => "open".to_owned(),
            (false, true) => "cold".to_owned(),
            (false, false) => why,
        }
    }

    /// Voids everything, and takes nothing in any more.
    pub fn close(&self) {
        self.open.store(false, Release);
        self.empty(self.feed.reached());
    }

    /// Everything may have been changed by the transaction that is being read.
    pub fn void_all(&self) {
        self.empty(self.feed.number());
    }

    /// Voids everything; rows of servers that lack transactions up to this number are not put in, and
    /// neither are rows that are being read.
    fn empty(&self, number: u64) {
        self.generation.fetch_add(1, Release);
        self.counts.emptied.fetch_add(1, Relaxed);
        for shard in &self.shards {
            lock(shard).clear(number);
        }
    }

    /// The key's row has changed, or is about to, by the transaction that is being read next.
    pub fn void(&self, key: &[u8]) {
        let number = self.feed.number();
        self.mark(key, number);
        // Vouchers are for keys without blanks at the end.
        let short = trimmed(key);
        if short.len() < key.len() {
            self.mark(short, number);
        }
    }

    /// Drops what is remembered of the key. The key has not changed, so rows may be put in as before.
    pub fn forget(&self, key: &[u8]) {
        let (shard, _, key) = self.place(key);
        if lock(shard).remove(key) {
            self.counts.refused.fetch_add(1, Relaxed);
        }
    }

    fn mark(&self, key: &[u8], number: u64) {
        let (shard, place, key) = self.place(key);
        let mut shard = lock(shard);
        shard.changed[place] = shard.changed[place].max(number);
        if shard.remove(key) {
            self.counts.voided.fetch_add(1, Relaxed);
        }
    }

    /// The key's row, if it is known. Who looks tells [`Counts::looked`] what became of it.
    pub fn look(&self, key: &[u8]) -> Option<Remembered> {
        let (shard, _, key) = self.place(key);
        lock(shard).get(key, |read_us| self.feed.has_read_until(read_us))
    }

    /// Before a read whose rows may be put in; `None` where none may.
    pub fn begin(&self) -> Option<Lease> {
        let generation = self.generation.load(Acquire);
        self.open.load(Acquire).then(|| Lease {
            generation,
            held: self.feed.held(),
        })
    }

    /// Puts a row in that one of these servers gave for its own key, if it is sure to be new enough. Its
    /// read had ended by `read_us`. One that is refused takes an older one with it.
    pub fn put(
        &self,
        lease: &Lease,
        servers: &[ServerId],
        (key, value, facts): (&[u8], &[u8], Facts),
        read_us: u64,
    ) {
        let known = |server: &ServerId| {
            let held = lease.held.iter().find(|(id, _)| id == server);
            held.map_or(0, |(_, number)| *number)
        };
        let number = servers.iter().map(known).min().unwrap_or(0);
        let fits = cost(key, value) <= self.bytes_max;
        let fits = fits && (key.is_ascii() || !self.ascii.load(Relaxed));
        let (shard, place, key) = self.place(key);
        let mut shard = lock(shard);
        let same = self.generation.load(Acquire) == lease.generation;
        if !fits || !same || number == 0 || shard.changed[place] > number {
            shard.remove(key);
            drop(shard);
            self.counts.refused.fetch_add(1, Relaxed);
            return;
        }
        shard.insert(key, value, facts, read_us);
        let evicted = shard.trim(self.bytes_max);
        drop(shard);
        self.counts.filled.fetch_add(1, Relaxed);
        self.counts.evicted.fetch_add(evicted, Relaxed);
    }

    /// Which texts mean the same key, while rows are remembered and that is known.
    pub fn form(&self) -> Option<KeyForm> {
        let is_open = self.open.load(Acquire);
        self.form.get().filter(|_| is_open)
    }

    /// Vouches for what this server gave for a key without blanks at its end, that there is no row also,
    /// if that is sure to be new enough. Its read had ended by `read_us`.
    pub fn vouch(
        &self,
        lease: &Lease,
        server: ServerId,
        key: &[u8],
        read_us: u64,
    ) -> Option<Voucher> {
        let held = lease.held.iter().find(|(id, _)| *id == server);
        let voucher = Voucher {
            generation: lease.generation,
            number: held?.1,
            read_us,
        };
        self.is_unchanged(key, &voucher).then_some(voucher)
    }

    /// Nothing has changed the key's row since it was vouched for, as far as has been read.
    pub fn is_unchanged(&self, key: &[u8], voucher: &Voucher) -> bool {
        let (shard, place, _) = self.place(key);
        let shard = lock(shard);
        shard.changed[place] <= voucher.number
            && self.open.load(Acquire)
            && self.generation.load(Acquire) == voucher.generation
    }

    /// The same, and everything from before its read has been read.
    pub fn is_good(&self, key: &[u8], voucher: &Voucher) -> bool {
        self.feed.has_read_until(voucher.read_us) && self.is_unchanged(key, voucher)
    }

    /// How many rows there are, and their bytes.
    pub fn size(&self) -> (usize, usize) {
        let sizes = self.shards.iter().map(|shard| lock(shard).size());
        sizes.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }
}

/// All that a router remembers.
#[derive(Debug, Default)]
pub struct RowCache {
    version: AtomicU64,
    spaces: ArcSwap<Vec<Arc<Space>>>,
    /// Held while the spaces change.
    changing: Mutex<()>,
}

impl RowCache {
    /// Grows when there are other spaces.
    pub fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// The rows of this container, as it is declared, in this group.
    pub fn space(&self, container: &Container, group: &str) -> Option<Arc<Space>> {
        let spaces = self.spaces.load();
        let found = spaces
            .iter()
            .find(|space| *space.container == *container && space.group == group);
        found.cloned()
    }

    /// All spaces.
    pub fn spaces(&self) -> Arc<Vec<Arc<Space>>> {
        self.spaces.load_full()
    }

    /// Of this group exactly these containers are remembered from now on; gives their spaces.
    pub fn keep(
        &self,
        group: &str,
        feed: &Arc<Feed>,
        containers: &[Arc<Container>],
    ) -> Vec<Arc<Space>> {
        let _alone = lock(&self.changing);
        let before = self.spaces.load_full();
        let (mine, mut all): (Vec<_>, Vec<_>) =
            before.iter().cloned().partition(|s| s.group == group);
        let mut kept = Vec::new();
        for container in containers {
            let there = mine
                .iter()
                .find(|space| space.container == *container && Arc::ptr_eq(&space.feed, feed));
            let made = || Arc::new(Space::new(container.clone(), group, feed.clone()));
            kept.push(there.cloned().unwrap_or_else(made));
        }
        let same =
            kept.len() == mine.len() && kept.iter().all(|k| mine.iter().any(|m| Arc::ptr_eq(k, m)));
        if !same {
            for gone in mine
                .iter()
                .filter(|m| !kept.iter().any(|k| Arc::ptr_eq(k, m)))
            {
                gone.close();
            }
            all.extend(kept.iter().cloned());
            self.spaces.store(Arc::new(all));
            self.version.fetch_add(1, Release);
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farm::Engine;
    use farm::Position;

    const PRIMARY: ServerId = ServerId(1);
    const REPLICA: ServerId = ServerId(2);

    fn at(sequence: u64) -> Position {
        Position::parse(Engine::MariaDb, &format!("0-1-{sequence}")).expect("a position")
    }

    const FACTS: Facts = Facts {
        flags: 0,
        cas: 1,
        expiry: 0,
    };

    fn space(cache_bytes: u64) -> Arc<Space> {
        let mut container = Container::new("c", "d", "t", "k", &["v"]);
        container.cache_bytes = cache_bytes;
        let feed = Arc::new(Feed::default());
        feed.open(PRIMARY, at(1));
        let kept = RowCache::default().keep("g", &feed, &[Arc::new(container)]);
        kept[0].void_all();
        feed.end(at(2));
        feed.hold(PRIMARY, feed.reached());
        feed.is_current(10);
        kept[0].open(false, Some(KeyForm::Integer));
        kept[0].clone()
    }

    fn read(space: &Space, key: &str) -> Option<String> {
        let row = space.look(key.as_bytes())?;
        Some(String::from_utf8_lossy(row.value()).into_owned())
    }

    #[test]
    fn a_row_that_was_read_is_remembered_until_it_changes() {
        let space = space(1 << 20);
        let lease = space.begin().expect("it is open");
        space.put(&lease, &[PRIMARY], (b"a", b"one", FACTS), 10);
        assert_eq!(read(&space, "a").as_deref(), Some("one"));
        space.void(b"a");
        space.feed.end(at(3));
        assert_eq!(read(&space, "a"), None);
    }

    #[test]
    fn what_is_forgotten_may_come_again() {
        let space = space(1 << 20);
        let lease = space.begin().expect("it is open");
        for value in [b"one", b"two"] {
            space.put(&lease, &[PRIMARY], (b"a", value, FACTS), 10);
            assert_eq!(
                read(&space, "a").map(String::into_bytes).as_deref(),
                Some(&value[..])
            );
            space.forget(b"a");
            assert_eq!(read(&space, "a"), None);
        }
    }

    #[test]
    fn a_read_that_may_not_have_seen_a_change_is_not_remembered() {
        let space = space(1 << 20);
        let early = space.begin().expect("it is open");
        // The event is there, and the server does not show the change yet.
        space.void(b"a");
        space.feed.end(at(3));
        let late = space.begin().expect("it is open");
        for lease in [&early, &late] {
            space.put(lease, &[PRIMARY], (b"a", b"old", FACTS), 10);
            assert_eq!(read(&space, "a"), None);
        }
        space.feed.hold(PRIMARY, space.feed.reached());
        space.put(&late, &[PRIMARY], (b"a", b"old", FACTS), 10);
        assert_eq!(
            read(&space, "a"),
            None,
            "it was not known when the read began"
        );
        let sure = space.begin().expect("it is open");
        space.put(&sure, &[REPLICA], (b"a", b"old", FACTS), 10);
        space.put(&sure, &[PRIMARY, REPLICA], (b"a", b"old", FACTS), 10);
        assert_eq!(read(&space, "a"), None, "the replica may not have it");
        space.put(&sure, &[PRIMARY], (b"a", b"new", FACTS), 10);
        assert_eq!(read(&space, "a").as_deref(), Some("new"));
    }

    #[test]
    fn rows_wait_until_everything_from_before_their_read_has_been_read() {
        let space = space(1 << 20);
        let lease = space.begin().expect("it is open");
        space.put(&lease, &[PRIMARY], (b"a", b"one", FACTS), 20);
        assert_eq!(read(&space, "a"), None);
        space.put(&lease, &[PRIMARY], (b"a", b"one", FACTS), 30);
        space.feed.is_current(20);
        assert_eq!(read(&space, "a").as_deref(), Some("one"));
        space.put(&lease, &[PRIMARY], (b"a", b"two", FACTS), 30);
        assert_eq!(read(&space, "a"), None);
    }

    #[test]
    fn vouchers_hold_until_the_row_changes() {
        let space = space(1 << 20);
        let lease = space.begin().expect("it is open");
        assert_eq!(space.form(), Some(KeyForm::Integer));
        assert!(space.vouch(&lease, REPLICA, b"7", 10).is_none());
        let voucher = space.vouch(&lease, PRIMARY, b"7", 10);
        let voucher = voucher.expect("the primary has all");
        assert!(space.is_good(b"7", &voucher));
        space.void(b"7");
        assert!(!space.is_good(b"7", &voucher));
        let later = space.vouch(&lease, PRIMARY, b"8", 30).expect("as above");
        assert!(!space.is_good(b"8", &later) && space.is_unchanged(b"8", &later));
        // A row whose key has blanks at its end is one with the key without them.
        let blank = space.vouch(&lease, PRIMARY, b"k", 10);
        let blank = blank.expect("as above");
        space.void(b"k  ");
        assert!(!space.is_unchanged(b"k", &blank));
        space.void_all();
        assert!(!space.is_unchanged(b"8", &later));
    }

    #[test]
    fn emptied_spaces_take_nothing_from_before() {
        let space = space(1 << 20);
        let lease = space.begin().expect("it is open");
        space.put(&lease, &[PRIMARY], (b"a", b"one", FACTS), 10);
        space.void_all();
        assert_eq!(read(&space, "a"), None);
        space.put(&lease, &[PRIMARY], (b"a", b"one", FACTS), 10);
        assert_eq!(read(&space, "a"), None);
        space.close();
        assert!(space.begin().is_none());
    }

    #[test]
    fn bytes_are_bounded_and_what_is_asked_for_stays_longer() {
        let space = space(SHARDS as u64 * 2000);
        let lease = space.begin().expect("it is open");
        space.put(&lease, &[PRIMARY], (b"hot", b"hot", FACTS), 10);
        for number in 0..10_000 {
            let key = number.to_string();
            space.put(&lease, &[PRIMARY], (key.as_bytes(), b"cold", FACTS), 10);
            assert_eq!(read(&space, "hot").as_deref(), Some("hot"), "{number}");
        }
        let (rows, bytes) = space.size();
        assert!(bytes <= SHARDS * 2000 && rows > 100, "{rows} {bytes}");
        let long = "x".repeat(3000);
        space.put(&lease, &[PRIMARY], (b"long", long.as_bytes(), FACTS), 10);
        assert_eq!(read(&space, "long"), None);
    }
}
