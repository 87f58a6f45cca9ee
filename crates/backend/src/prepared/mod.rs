//! The prepared statements that one connection knows, found again by text.
//!
//! A client's statement lives under the client's own id in its session; what stands here is the
//! server's id for the same text on one connection. Both their number and their bytes are bounded:
//! the least recently used ones are closed when another needs the place, but never one with an open
//! cursor or with long data, which nobody could bring back.

pub(crate) mod preparing;

use std::hash::{Hash, Hasher};
use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHasher};

/// Bytes of texts that one connection keeps prepared.
const BYTES_MAX: usize = 4 << 20;

/// Closes are sent together: so many statements may be closed here and still known to the server.
const CLOSING_MAX: usize = 32;

/// A statement's text, kept once for all clients and connections of a core.
#[derive(Debug)]
pub struct Text {
    bytes: Box<[u8]>,
    hash: u64,
}

impl Text {
    fn new(bytes: &[u8], hash: u64) -> Rc<Text> {
        let bytes = bytes.into();
        Rc::new(Text { bytes, hash })
    }

    /// The text itself.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The texts of one core. Those that nobody uses any more are dropped from time to time, so they
/// never outweigh the ones in use by more than a little.
#[derive(Default)]
pub struct Texts {
    known: FxHashMap<u64, Rc<Text>>,
    /// Texts and bytes that have come since the last look.
    fresh: usize,
    fresh_bytes: usize,
    /// What was in use at the last look.
    used: usize,
    used_bytes: usize,
}

/// No look at the texts before so many have come, or so many bytes.
const FRESH_MIN: usize = 1024;
const FRESH_BYTES_MIN: usize = 1 << 20;

impl Texts {
    /// The one copy of this text.
    pub fn share(&mut self, bytes: &[u8]) -> Rc<Text> {
        let mut hasher = FxHasher::default();
        hasher.write(bytes);
        let hash = hasher.finish();
        match self.known.get(&hash) {
            Some(text) if *text.bytes == *bytes => return text.clone(),
            // Two texts with one hash: the second is not shared.
            Some(_) => return Text::new(bytes, hash),
            None => {}
        }
        self.fresh += 1;
        self.fresh_bytes += bytes.len();
        if self.fresh > self.used.max(FRESH_MIN)
            || self.fresh_bytes > self.used_bytes.max(FRESH_BYTES_MIN)
        {
            self.forget_unused();
        }
        let text = Text::new(bytes, hash);
        self.known.insert(hash, text.clone());
        text
    }

    fn forget_unused(&mut self) {
        self.known.retain(|_, text| Rc::strong_count(text) > 1);
        if self.known.capacity() > 4 * self.known.len().max(FRESH_MIN) {
            self.known.shrink_to(2 * self.known.len());
        }
        self.used = self.known.len();
        self.used_bytes = self.known.values().map(|text| text.bytes.len()).sum();
        (self.fresh, self.fresh_bytes) = (0, 0);
    }
}

/// What makes two prepared statements the same: the text and the state under which it was parsed.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub text: Rc<Text>,
    /// Hash of the part of the session state that decides what the text means, at PREPARE.
    pub state: u64,
    /// Tells statements of one client with the same text apart: each has its own cursor and its own
    /// long data. 0 for the first.
    pub copy: u32,
}

impl PartialEq for Prepared {
    fn eq(&self, other: &Prepared) -> bool {
        let same = || {
            Rc::ptr_eq(&self.text, &other.text)
                || (self.text.hash == other.text.hash && self.text.bytes == other.text.bytes)
        };
        self.state == other.state && self.copy == other.copy && same()
    }
}

impl Eq for Prepared {}

impl Hash for Prepared {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.text.hash);
        hasher.write_u64(self.state);
        hasher.write_u32(self.copy);
    }
}

/// A statement as the server knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    pub server_id: u32,
    /// Hash of the parameter types that were last bound; an EXECUTE without types relies on them.
    pub types: u64,
    /// An open cursor or long data belongs to it.
    pub tied: bool,
    used: u64,
}

/// All statements of one connection.
#[derive(Default)]
pub(crate) struct Statements {
    known: FxHashMap<Prepared, Known>,
    /// Of all texts.
    bytes: usize,
    clock: u64,
    /// The server's ids of statements that are to be closed.
    closing: Vec<u32>,
}

impl Statements {
    /// Finds a statement and marks it as used.
    pub(crate) fn find(&mut self, prepared: &Prepared) -> Option<&mut Known> {
        self.clock += 1;
        let known = self.known.get_mut(prepared)?;
        known.used = self.clock;
        Some(known)
    }

    /// Remembers a statement, and closes others for it when there are more than `max`.
    pub(crate) fn insert(&mut self, prepared: Prepared, server_id: u32, max: usize) {
        self.clock += 1;
        let known = Known {
            server_id,
            types: 0,
            tied: false,
            used: self.clock,
        };
        let bytes = prepared.text.bytes.len();
        match self.known.insert(prepared, known) {
            Some(old) => self.closing.push(old.server_id),
            None => self.bytes += bytes,
        }
        if self.known.len() > max || self.bytes > BYTES_MAX {
            // More than one at a time, so that not every statement that comes has to look.
            self.shrink(max - max / 8, BYTES_MAX - BYTES_MAX / 8);
        }
    }

    /// Closes the least recently used statements until no more than these are left, but not the
    /// last one that was used, and none that is tied.
    fn shrink(&mut self, count_max: usize, bytes_max: usize) {
        let free = self.known.iter().filter(|(_, known)| !known.tied);
        let mut ages: Vec<(u64, Prepared)> = free
            .filter(|(_, known)| known.used != self.clock)
            .map(|(prepared, known)| (known.used, prepared.clone()))
            .collect();
        ages.sort_unstable_by_key(|(used, _)| *used);
        for (_, oldest) in ages {
            if self.known.len() <= count_max && self.bytes <= bytes_max {
                return;
            }
            if let Some(id) = self.remove(&oldest) {
                self.closing.push(id);
            }
        }
    }

    /// Closes all but the tied ones. False when there was none.
    pub(crate) fn close_free(&mut self) -> bool {
        let before = self.closing.len();
        // Nothing is in use at this time: the last one used may go as well.
        self.clock += 1;
        self.shrink(0, 0);
        self.closing.len() > before
    }

    /// Forgets a statement; returns the server's id when there was one.
    pub(crate) fn remove(&mut self, prepared: &Prepared) -> Option<u32> {
        let known = self.known.remove(prepared)?;
        self.bytes -= prepared.text.bytes.len();
        Some(known.server_id)
    }

    /// Notes an id to be closed.
    pub(crate) fn close(&mut self, server_id: u32) {
        self.closing.push(server_id);
    }

    /// The ids to be closed now: all with `all`, else only when there are many.
    pub(crate) fn take_closing(&mut self, all: bool) -> Vec<u32> {
        match all || self.closing.len() >= CLOSING_MAX {
            true => std::mem::take(&mut self.closing),
            false => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 200;

    fn statement(n: usize) -> Prepared {
        let text = format!("SELECT {n}");
        Prepared {
            text: Texts::default().share(text.as_bytes()),
            state: 0,
            copy: 0,
        }
    }

    #[test]
    fn the_least_recently_used_statements_make_room() {
        let mut statements = Statements::default();
        for n in 0..MAX {
            statements.insert(statement(n), n as u32, MAX);
        }
        assert!(statements.take_closing(true).is_empty());
        assert!(statements.find(&statement(0)).is_some());
        if let Some(known) = statements.find(&statement(1)) {
            known.tied = true;
        }
        for n in [0, 2, 3] {
            assert!(statements.find(&statement(n)).is_some());
        }
        statements
            .known
            .values_mut()
            .for_each(|k| k.used += 1000 * u64::from(k.server_id < 4));
        statements.insert(statement(9999), 9999, MAX);
        let mut closed = statements.take_closing(false);
        closed.extend(statements.take_closing(true));
        assert_eq!(closed, (4..30).collect::<Vec<u32>>());
        for n in [0, 1, 2, 3, 30, 9999] {
            assert!(statements.find(&statement(n)).is_some(), "{n}");
        }
    }

    #[test]
    fn tied_statements_stay_whatever_comes() {
        let mut statements = Statements::default();
        statements.insert(statement(0), 0, 1);
        if let Some(known) = statements.find(&statement(0)) {
            known.tied = true;
        }
        for n in 1..100 {
            statements.insert(statement(n), n as u32, 1);
            assert!(statements.find(&statement(n)).is_some());
        }
        assert!(statements.close_free());
        assert!(!statements.close_free());
        assert!(statements.find(&statement(0)).is_some());
        assert_eq!(statements.known.len(), 1);
    }

    #[test]
    fn bytes_are_bounded_too() {
        let mut statements = Statements::default();
        for n in 0..100 {
            let text = vec![n; 1 << 18];
            let text = Texts::default().share(&text);
            let (state, copy) = (0, 0);
            statements.insert(Prepared { text, state, copy }, n.into(), MAX);
            assert!(statements.bytes <= BYTES_MAX);
        }
        assert!(statements.known.len() > 8);
    }

    #[test]
    fn the_same_text_prepared_again_closes_the_older_one() {
        let mut statements = Statements::default();
        statements.insert(statement(1), 7, MAX);
        statements.insert(statement(1), 8, MAX);
        assert_eq!(statements.take_closing(true), [7]);
        let known = statements.find(&statement(1)).map(|known| known.server_id);
        assert_eq!(known, Some(8));
        assert_eq!(statements.bytes, "SELECT 1".len());
    }

    #[test]
    fn a_text_is_kept_once_and_only_while_it_is_used() {
        let mut texts = Texts::default();
        let one = texts.share(b"SELECT 1");
        assert!(Rc::ptr_eq(&one, &texts.share(b"SELECT 1")));
        for n in 0..100_000 {
            texts.share(format!("SELECT {n}, ?").as_bytes());
            assert!(texts.known.len() <= 2 * FRESH_MIN);
        }
        assert!(Rc::ptr_eq(&one, &texts.share(b"SELECT 1")));
    }
}
