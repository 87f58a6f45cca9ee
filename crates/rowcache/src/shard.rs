//! A part of a space: rows by key, and the order in which they may go.

use std::borrow::Borrow;
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;

/// What an entry costs beside its key and value.
const ENTRY_BYTES: usize = 160;

/// What clients see of a row beside its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    pub flags: u32,
    pub cas: u64,
    /// The second since 1970 at which it expires; 0 for never.
    pub expiry: u64,
}

/// A row as clients see it.
#[derive(Clone, Debug)]
pub struct Remembered {
    /// Its key, and its value from here on.
    bytes: Arc<[u8]>,
    value: usize,
    pub facts: Facts,
}

impl Remembered {
    /// The value.
    pub fn value(&self) -> &[u8] {
        &self.bytes[self.value..]
    }
}

/// Rows, and when keys were changed.
#[derive(Debug)]
pub(crate) struct Shard {
    entries: HashMap<Bytes, Entry, BuildHasherDefault<Told>>,
    /// Keys in the order in which they may go, with the entry's turn.
    order: VecDeque<(OwnKey, u64)>,
    turns: u64,
    bytes: usize,
    /// Which transaction changed a key of the place last.
    pub changed: Vec<u64>,
}

/// A key with its hash, which is worked out once for the choice of a part and for its table. Who makes one keeps to one
/// hash, under a secret of the process: clients choose keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyRef<'k> {
    pub bytes: &'k [u8],
    pub hash: u64,
}

/// The same, owned.
type OwnKey = (Box<[u8]>, u64);

/// What an entry is found by.
trait Keyed {
    fn key(&self) -> KeyRef<'_>;
}

impl Keyed for KeyRef<'_> {
    fn key(&self) -> KeyRef<'_> {
        *self
    }
}

impl PartialEq for dyn Keyed + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.key().bytes == other.key().bytes
    }
}

impl Eq for dyn Keyed + '_ {}

impl Hash for dyn Keyed + '_ {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.key().hash);
    }
}

/// Gives the hash that it is told.
#[derive(Default)]
pub(crate) struct Told(u64);

impl Hasher for Told {
    fn write(&mut self, bytes: &[u8]) {
        // Nobody tells it bytes; they would count all the same.
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A key and its value, one behind the other: what follows the look at one is the look at the other.
#[derive(Debug)]
struct Bytes {
    all: Arc<[u8]>,
    key: usize,
    hash: u64,
}

impl Bytes {
    fn of(key: KeyRef<'_>, value: &[u8]) -> Bytes {
        Bytes {
            all: [key.bytes, value].concat().into(),
            key: key.bytes.len(),
            hash: key.hash,
        }
    }

    fn value(&self) -> &[u8] {
        &self.all[self.key..]
    }
}

impl Keyed for Bytes {
    fn key(&self) -> KeyRef<'_> {
        KeyRef {
            bytes: &self.all[..self.key],
            hash: self.hash,
        }
    }
}

impl<'k> Borrow<dyn Keyed + 'k> for Bytes {
    fn borrow(&self) -> &(dyn Keyed + 'k) {
        self
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Bytes) -> bool {
        self.key().bytes == other.key().bytes
    }
}

impl Eq for Bytes {}

impl Hash for Bytes {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.hash);
    }
}

#[derive(Debug)]
struct Entry {
    facts: Facts,
    /// When its read had ended.
    read_us: u64,
    turn: u64,
    /// It was asked for since it was looked at last.
    used: Cell<bool>,
}

/// Bytes of a row.
pub(crate) fn cost(key: &[u8], value: &[u8]) -> usize {
    2 * key.len() + value.len() + ENTRY_BYTES
}

impl Shard {
    /// Without rows, and with so many places for keys.
    pub fn new(places: usize) -> Shard {
        Shard {
            entries: HashMap::default(),
            order: VecDeque::new(),
            turns: 0,
            bytes: 0,
            changed: vec![0; places],
        }
    }

    /// Rows, and their bytes.
    pub fn size(&self) -> (usize, usize) {
        (self.entries.len(), self.bytes)
    }

    /// The key's row, if the end of its read is a good one.
    pub fn get(&self, key: KeyRef<'_>, good: impl FnOnce(u64) -> bool) -> Option<Remembered> {
        let (bytes, entry) = self.entries.get_key_value(&key as &dyn Keyed)?;
        if !good(entry.read_us) {
            return None;
        }
        entry.used.set(true);
        Some(Remembered {
            bytes: bytes.all.clone(),
            value: bytes.key,
            facts: entry.facts,
        })
    }

    /// Forgets all rows; every key may have been changed by this transaction.
    pub fn clear(&mut self, number: u64) {
        self.entries.clear();
        self.order.clear();
        self.bytes = 0;
        for changed in &mut self.changed {
            *changed = number.max(*changed);
        }
    }

    /// True when there was a row.
    pub fn remove(&mut self, key: KeyRef<'_>) -> bool {
        let Some((bytes, _)) = self.entries.remove_entry(&key as &dyn Keyed) else {
            return false;
        };
        self.bytes -= cost(key.bytes, bytes.value());
        true
    }

    /// Puts a row in.
    pub fn insert(&mut self, key: KeyRef<'_>, value: &[u8], facts: Facts, read_us: u64) {
        // The same row again is as good as when it was put in first.
        if let Some((bytes, there)) = self.entries.get_key_value(&key as &dyn Keyed)
            && there.facts == facts
            && bytes.value() == value
        {
            return;
        }
        self.remove(key);
        self.bytes += cost(key.bytes, value);
        self.turns += 1;
        let turn = self.turns;
        self.order.push_back(((key.bytes.into(), key.hash), turn));
        let entry = Entry {
            facts,
            read_us,
            turn,
            used: Cell::new(false),
        };
        self.entries.insert(Bytes::of(key, value), entry);
    }

    /// Makes room; gives how many had to go. What was asked for has a second turn.
    pub fn trim(&mut self, bytes_max: usize) -> u64 {
        let mut gone = 0;
        while self.bytes > bytes_max {
            let Some((key, turn)) = self.order.pop_front() else {
                break;
            };
            match self.entry(&key) {
                Some(entry) if entry.turn == turn && entry.used.get() => {
                    entry.used.set(false);
                    self.order.push_back((key, turn));
                }
                Some(entry) if entry.turn == turn => gone += u64::from(self.remove(lent(&key))),
                _ => {}
            }
        }
        if self.order.len() > 2 * self.entries.len() + 64 {
            let mut order = std::mem::take(&mut self.order);
            order.retain(|(key, turn)| self.entry(key).is_some_and(|e| e.turn == *turn));
            self.order = order;
        }
        gone
    }

    fn entry(&self, key: &OwnKey) -> Option<&Entry> {
        self.entries.get(&lent(key) as &dyn Keyed)
    }
}

fn lent((bytes, hash): &OwnKey) -> KeyRef<'_> {
    KeyRef { bytes, hash: *hash }
}
