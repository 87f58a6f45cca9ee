//! The digests of one core, as many as fit into so many bytes: the least recently used go.

use std::hash::BuildHasher;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use sqltext::{Digest, KeyedState};

use crate::counts::{Call, Counts};
use crate::history::{Minute, Past};
use crate::row::Row;

/// A longer text is cut.
pub const TEXT_BYTES_MAX: usize = 1024;

/// No entry.
const NONE: u32 = u32::MAX;

/// What an entry costs in the map, in the order of use and at the allocator beside itself: what grows by doubling may have
/// twice the room that it needs.
const PLACE_BYTES: usize = 48 + 2 * (size_of::<Link>() + size_of::<usize>()) + STRING_BYTES;

/// What a string costs beside its bytes: its counts, and what the allocator adds.
const STRING_BYTES: usize = 32;

/// Entries that are found without the map: what comes is mostly what came lately.
const RECENT: usize = 256;

/// What an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name<'a> {
    pub digest: Digest,
    pub user: &'a [u8],
    pub database: &'a [u8],
    pub group: &'a str,
    pub tag: &'a str,
}

struct Entry {
    row: Row,
    /// What was counted since it was taken last.
    minute: Minute,
    /// Where the map has it.
    place: u64,
    bytes: usize,
}

/// An entry's neighbours in the order of use. They stand beside the entries, which are large: to move one in the order
/// looks at three others.
#[derive(Clone, Copy)]
struct Link {
    newer: u32,
    older: u32,
}

impl Entry {
    fn is(&self, name: &Name<'_>) -> bool {
        self.row.digest == name.digest
            && *self.row.user == *name.user
            && *self.row.database == *name.database
            && *self.row.group == *name.group
            && *self.row.tag == *name.tag
    }
}

/// One core's table.
pub struct Table {
    places: FxHashMap<u64, u32>,
    /// By a part of the digest, which nobody can choose: the entry that was found last.
    recent: [u32; RECENT],
    /// Free ones are `None` and stand in `free`. They are large, and stay where they are while the table grows.
    entries: Vec<Option<Box<Entry>>>,
    /// Of each entry.
    links: Vec<Link>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    bytes: usize,
    bytes_max: usize,
    evicted: u64,
}

impl Table {
    /// An empty one for so many bytes; one entry fits in every case.
    pub fn new(bytes_max: usize) -> Table {
        Table {
            places: FxHashMap::default(),
            recent: [NONE; RECENT],
            entries: Vec::new(),
            links: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
            bytes: 0,
            bytes_max,
            evicted: 0,
        }
    }

    /// Counts a statement. `texts` gives the normal form and the example of an entry that is new, or whose text was
    /// not known yet.
    pub fn note(
        &mut self,
        name: &Name<'_>,
        call: &Call,
        texts: impl FnOnce() -> (Arc<str>, Option<Arc<str>>),
    ) {
        let at = match self.find_recent(name).map_or_else(|| self.find(name), Ok) {
            Ok(at) => {
                self.touch(at);
                match self.entry(at) {
                    Some(entry) if entry.row.text.is_empty() => entry.row.text = texts().0,
                    _ => {}
                }
                at
            }
            Err(place) => self.insert(name, place, texts()),
        };
        self.recent[slot(name.digest)] = at;
        if let Some(entry) = &mut self.entries[at as usize] {
            entry.row.counts.add(call);
            entry.minute.add(call);
        }
    }

    /// The entry, where it was the last of its slot.
    #[inline]
    fn find_recent(&self, name: &Name<'_>) -> Option<u32> {
        let at = self.recent[slot(name.digest)];
        let entry = self.entries.get(at as usize)?.as_ref()?;
        entry.is(name).then_some(at)
    }

    /// Texts with literals are not to be shown any more.
    pub fn forget_examples(&mut self) {
        for entry in self.entries.iter_mut().flatten() {
            entry.row.example = None;
        }
    }

    /// The entry, or a free place for it in the map. After an entry in front has gone, another one of the same name
    /// may be made behind: who adds rows up sees one.
    fn find(&self, name: &Name<'_>) -> Result<u32, u64> {
        let mut place = KeyedState.hash_one(name);
        loop {
            let Some(&at) = self.places.get(&place) else {
                return Err(place);
            };
            if self.entries[at as usize]
                .as_ref()
                .is_some_and(|entry| entry.is(name))
            {
                return Ok(at);
            }
            place = place.wrapping_add(1);
        }
    }

    #[cold]
    fn insert(
        &mut self,
        name: &Name<'_>,
        place: u64,
        (text, example): (Arc<str>, Option<Arc<str>>),
    ) -> u32 {
        let strings = [
            name.user.len(),
            name.database.len(),
            name.group.len(),
            name.tag.len(),
            text.len(),
            example.as_ref().map_or(0, |example| example.len()),
        ];
        let strings: usize = strings.iter().map(|bytes| bytes + STRING_BYTES).sum();
        let bytes = size_of::<Entry>() + PLACE_BYTES + strings;
        self.bytes += bytes;
        while self.bytes > self.bytes_max && self.oldest != NONE {
            self.evict();
        }
        let newest = self
            .entries
            .get(self.newest as usize)
            .and_then(Option::as_deref);
        let like = newest.map(|entry| &entry.row);
        let entry = Box::new(Entry {
            row: Row {
                digest: name.digest,
                database: shared(like.map(|row| &row.database), name.database),
                user: shared(like.map(|row| &row.user), name.user),
                group: shared(like.map(|row| &row.group), name.group),
                tag: shared(like.map(|row| &row.tag), name.tag),
                text,
                example,
                counts: Counts::default(),
            },
            minute: Minute::default(),
            place,
            bytes,
        });
        let at = match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = Some(entry);
                at
            }
            None => {
                self.entries.push(Some(entry));
                self.links.push(Link {
                    newer: NONE,
                    older: NONE,
                });
                u32::try_from(self.entries.len() - 1).unwrap_or(NONE)
            }
        };
        self.places.insert(place, at);
        self.put_in_front(at);
        at
    }

    fn evict(&mut self) {
        let at = self.oldest;
        self.unlink(at);
        if let Some(entry) = self.entries[at as usize].take() {
            self.bytes -= entry.bytes;
            self.places.remove(&entry.place);
            self.free.push(at);
            self.evicted += 1;
        }
    }

    #[inline]
    fn touch(&mut self, at: u32) {
        if self.newest != at {
            self.unlink(at);
            self.put_in_front(at);
        }
    }

    fn unlink(&mut self, at: u32) {
        let Some(&Link { newer, older }) = self.links.get(at as usize) else {
            return;
        };
        match self.links.get_mut(newer as usize) {
            Some(link) => link.older = older,
            None => self.newest = older,
        }
        match self.links.get_mut(older as usize) {
            Some(link) => link.newer = newer,
            None => self.oldest = newer,
        }
    }

    fn put_in_front(&mut self, at: u32) {
        let before = self.newest;
        if let Some(link) = self.links.get_mut(at as usize) {
            (link.newer, link.older) = (NONE, before);
        }
        match self.links.get_mut(before as usize) {
            Some(link) => link.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
    }

    fn entry(&mut self, at: u32) -> Option<&mut Entry> {
        self.entries.get_mut(at as usize)?.as_deref_mut()
    }

    /// Takes another bound; what is too much goes.
    pub fn set_bytes_max(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        while self.bytes > bytes_max && self.oldest != self.newest {
            self.evict();
        }
    }

    /// The rows in so many places from this one on, and the next place while there are more.
    pub fn rows(&self, from: usize, places: usize) -> (Vec<Row>, Option<usize>) {
        let end = from.saturating_add(places).min(self.entries.len());
        let slice = self.entries.get(from..end).unwrap_or_default();
        let rows = slice.iter().flatten().map(|entry| entry.row.clone());
        (rows.collect(), (end < self.entries.len()).then_some(end))
    }

    /// Takes what was counted in so many places from this one on since it was taken last, and gives the next place
    /// while there are more.
    pub fn take_minute(&mut self, from: usize, places: usize) -> (Vec<Past>, Option<usize>) {
        let count = self.entries.len();
        let end = from.saturating_add(places).min(count);
        let slice = self.entries.get_mut(from..end).unwrap_or_default();
        let busy = slice
            .iter_mut()
            .flatten()
            .filter(|entry| entry.minute.calls > 0);
        let taken = busy.map(|entry| Past {
            digest: entry.row.digest,
            user: Arc::clone(&entry.row.user),
            database: Arc::clone(&entry.row.database),
            group: Arc::clone(&entry.row.group),
            tag: Arc::clone(&entry.row.tag),
            text: Arc::clone(&entry.row.text),
            minute: std::mem::take(&mut entry.minute),
        });
        (taken.collect(), (end < count).then_some(end))
    }

    /// How many entries there are, what they take, and how many have gone for others.
    pub fn sizes(&self) -> (usize, usize, u64) {
        (self.places.len(), self.bytes, self.evicted)
    }

    /// An empty table in the place of this one, which is returned: to take it apart takes time. What has gone stays
    /// counted.
    pub fn exchange(&mut self) -> Table {
        let mut empty = Table::new(self.bytes_max);
        empty.evicted = self.evicted;
        std::mem::replace(self, empty)
    }
}

/// The string, which entries that come one after the other mostly have in common.
fn shared<T: PartialEq + ?Sized>(like: Option<&Arc<T>>, own: &T) -> Arc<T>
where
    Arc<T>: for<'a> From<&'a T>,
{
    match like.filter(|like| ***like == *own) {
        Some(like) => Arc::clone(like),
        None => Arc::from(own),
    }
}

/// Where [`Table::recent`] has the entries of a digest.
#[inline]
fn slot(digest: Digest) -> usize {
    digest.half() as usize % RECENT
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(table: &mut Table, tag: &str) {
        let name = Name {
            digest: Digest::of_normal("SELECT ?"),
            user: b"u",
            database: b"d",
            group: "g1",
            tag,
        };
        table.note(&name, &Call::default(), || ("SELECT ?".into(), None));
    }

    fn tags(table: &Table) -> Vec<(String, u64)> {
        let (mut rows, mut from) = (Vec::new(), Some(0));
        while let Some(at) = from {
            let (some, next) = table.rows(at, 2);
            rows.extend(
                some.into_iter()
                    .map(|row| (row.tag.to_string(), row.counts.calls)),
            );
            from = next;
        }
        rows.sort();
        rows
    }

    fn known(tags: &[(&str, u64)]) -> Vec<(String, u64)> {
        tags.iter()
            .map(|(tag, calls)| ((*tag).to_owned(), *calls))
            .collect()
    }

    #[test]
    fn the_least_recently_used_go_and_are_counted() {
        let mut table = Table::new(1 << 20);
        note(&mut table, "a");
        let (_, of_one, _) = table.sizes();
        table.set_bytes_max(3 * of_one);
        for tag in ["b", "c", "a", "d", "a", "e"] {
            note(&mut table, tag);
        }
        assert_eq!(tags(&table), known(&[("a", 3), ("d", 1), ("e", 1)]));
        assert_eq!(table.sizes(), (3, 3 * of_one, 2));
        table.set_bytes_max(of_one);
        assert_eq!(tags(&table), known(&[("e", 1)]));
        table.set_bytes_max(0);
        note(&mut table, "f");
        assert_eq!(tags(&table), known(&[("f", 1)]));
    }

    #[test]
    fn a_hundred_thousand_names_take_no_more_than_they_may() {
        let mut table = Table::new(1 << 20);
        for number in 0..100_000 {
            note(&mut table, &number.to_string());
        }
        let (now, bytes, evicted) = table.sizes();
        assert!(bytes <= 1 << 20 && table.entries.len() <= now + 2);
        assert_eq!(now as u64 + evicted, 100_000);
        assert_eq!(table.entries.len(), now + table.free.len());
    }

    #[test]
    fn names_of_one_slot_are_told_apart() {
        let mut table = Table::new(1 << 24);
        for number in 0..3 * RECENT {
            let text = format!("SELECT {number}");
            let name = |user| Name {
                digest: Digest::of_normal(&text),
                user,
                database: b"d",
                group: "g1",
                tag: "",
            };
            for user in [b"a", b"b", b"a"] {
                table.note(&name(user), &Call::default(), || ((&*text).into(), None));
            }
        }
        let (rows, _) = table.rows(0, usize::MAX);
        assert_eq!(rows.len(), 6 * RECENT);
        for row in rows {
            let calls = if *row.user == *b"a" { 2 } else { 1 };
            assert_eq!(
                (row.counts.calls, row.digest),
                (calls, Digest::of_normal(&row.text))
            );
        }
    }

    #[test]
    fn a_minute_is_taken_once() {
        let mut table = Table::new(1 << 20);
        for tag in ["a", "b", "a"] {
            note(&mut table, tag);
        }
        let (first, next) = table.take_minute(0, 1);
        assert_eq!((first.len(), first[0].minute.calls, next), (1, 2, Some(1)));
        let (rest, next) = table.take_minute(1, 10);
        assert_eq!((rest.len(), next), (1, None));
        note(&mut table, "b");
        let (again, _) = table.take_minute(0, 10);
        let told: Vec<_> = again
            .iter()
            .map(|past| (&*past.tag, past.minute.calls))
            .collect();
        assert_eq!(told, [("b", 1)]);
    }

    #[test]
    fn an_exchanged_table_begins_empty() {
        let mut table = Table::new(1 << 20);
        note(&mut table, "a");
        assert_eq!(table.exchange().sizes().0, 1);
        note(&mut table, "a");
        assert_eq!(tags(&table), known(&[("a", 1)]));
    }
}
