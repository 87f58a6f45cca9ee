//! A part of a space: rows by key, and the order in which they may go.

use std::borrow::Borrow;
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
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
    entries: HashMap<Bytes, Entry>,
    /// Keys in the order in which they may go, with the entry's turn.
    order: VecDeque<(Box<[u8]>, u64)>,
    turns: u64,
    bytes: usize,
    /// Which transaction changed a key of the place last.
    pub changed: Vec<u64>,
}

/// A key and its value, one behind the other: what follows the look at one is the look at the other.
#[derive(Debug)]
struct Bytes {
    all: Arc<[u8]>,
    key: usize,
}

impl Bytes {
    fn of(key: &[u8], value: &[u8]) -> Bytes {
        Bytes {
            all: [key, value].concat().into(),
            key: key.len(),
        }
    }

    fn value(&self) -> &[u8] {
        &self.all[self.key..]
    }
}

impl Borrow<[u8]> for Bytes {
    fn borrow(&self) -> &[u8] {
        &self.all[..self.key]
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Bytes) -> bool {
        Borrow::<[u8]>::borrow(self) == Borrow::<[u8]>::borrow(other)
    }
}

impl Eq for Bytes {}

impl Hash for Bytes {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        Borrow::<[u8]>::borrow(self).hash(hasher);
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
            entries: HashMap::new(),
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
    pub fn get(&self, key: &[u8], good: impl FnOnce(u64) -> bool) -> Option<Remembered> {
        let (bytes, entry) = self.entries.get_key_value(key)?;
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
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let Some((bytes, _)) = self.entries.remove_entry(key) else {
            return false;
        };
        self.bytes -= cost(key, bytes.value());
        true
    }

    /// Puts a row in.
    pub fn insert(&mut self, key: &[u8], value: &[u8], facts: Facts, read_us: u64) {
        // The same row again is as good as when it was put in first.
        if let Some((bytes, there)) = self.entries.get_key_value(key)
            && there.facts == facts
            && bytes.value() == value
        {
            return;
        }
        self.remove(key);
        self.bytes += cost(key, value);
        self.turns += 1;
        let turn = self.turns;
        self.order.push_back((key.into(), turn));
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
            match self.entries.get(&*key) {
                Some(entry) if entry.turn == turn && entry.used.get() => {
                    entry.used.set(false);
                    self.order.push_back((key, turn));
                }
                Some(entry) if entry.turn == turn => gone += u64::from(self.remove(&key)),
                _ => {}
            }
        }
        if self.order.len() > 2 * self.entries.len() + 64 {
            let entries = &self.entries;
            self.order
                .retain(|(key, turn)| entries.get(&**key).is_some_and(|e| e.turn == *turn));
        }
        gone
    }
}
