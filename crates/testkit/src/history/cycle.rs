//! Who follows whom, and whether somebody follows himself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use super::{Ended, Id, Key, Reads, Transaction};

/// Starts from which the shortest circle is looked for; more make no shorter text.
const STARTS_MAX: usize = 200;

/// Why one transaction comes after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// It appended to the list right behind the other.
    Wrote(Key),
    /// It read the list with the other as the last.
    Read(Key),
    /// It appended to the list what the other, reading, did not see.
    Missed(Key),
    /// The same client ran it later.
    Session,
}

/// `to` comes after `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    pub from: Id,
    pub to: Id,
    pub why: Why,
    /// A snapshot between the two: it saw `from`, and missed what `to` wrote to this list.
    pub through: Option<(Id, Key)>,
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Edge { from, to, .. } = self;
        match (self.why, self.through) {
            (Why::Wrote(key), None) => write!(f, "{to} wrote to {key} behind {from}"),
            (Why::Read(key), None) => write!(f, "{to} read {from} in {key}"),
            (Why::Missed(key), None) => write!(f, "{from} read {key} without {to}"),
            (Why::Session, None) => write!(f, "{to} was begun by the client of {from}, later"),
            (_, Some((reader, key))) => {
                write!(f, "{reader} came after {from} and read {key} without {to}")
            }
        }
    }
}

/// All steps by which one transaction comes after another; steps over a snapshot's missing are joined
/// with the one before.
pub(super) fn edges(history: &[Transaction], last: &BTreeMap<Key, Vec<Id>>) -> Vec<Edge> {
    let mut found = Vec::new();
    let mut add = |from: Id, to: Id, why: Why| {
        found.push(Edge {
            from,
            to,
            why,
            through: None,
        });
    };
    for (key, list) in last {
        for pair in list.windows(2) {
            add(pair[0], pair[1], Why::Wrote(*key));
        }
    }
    let mut missed: Vec<(Id, Key, Id)> = Vec::new();
    let mut before: BTreeMap<u64, Id> = BTreeMap::new();
    for one in history {
        if one.ended == Ended::Committed
            && let Some(earlier) = before.insert(one.session, one.id)
        {
            add(earlier, one.id, Why::Session);
        }
        if one.kind == Reads::Plain || one.ended == Ended::Undone {
            continue;
        }
        // One of which its client was told nothing may have been undone; what it read held
        // nevertheless when it read it, but not until its end.
        let unknown = one.ended == Ended::Unknown;
        for (key, list) in &one.reads {
            if let Some(seen) = list.last() {
                add(*seen, one.id, Why::Read(*key));
            }
            let now = last.get(key).map_or(&[][..], Vec::as_slice);
            let next = now.iter().skip(list.len()).find(|id| **id != one.id);
            let Some(&next) = next.filter(|_| !unknown) else {
                continue;
            };
            match one.kind {
                Reads::Snapshot => missed.push((one.id, *key, next)),
                _ => add(one.id, next, Why::Missed(*key)),
            }
        }
    }
    let mut into: BTreeMap<Id, Vec<(Id, Why)>> = BTreeMap::new();
    for edge in &found {
        into.entry(edge.to).or_default().push((edge.from, edge.why));
    }
    for (reader, key, to) in missed {
        for &(from, why) in into.get(&reader).into_iter().flatten() {
            let through = Some((reader, key));
            found.push(Edge {
                from,
                to,
                why,
                through,
            });
        }
    }
    found
}

/// The shortest circle, if there is one.
pub(super) fn shortest(edges: &[Edge]) -> Option<Vec<Edge>> {
    let mut out: BTreeMap<Id, Vec<&Edge>> = BTreeMap::new();
    for edge in edges {
        out.entry(edge.from).or_default().push(edge);
    }
    let inside = on_circles(edges);
    let circles = inside.iter().take(STARTS_MAX);
    circles
        .filter_map(|start| around(*start, &out, &inside))
        .min_by_key(Vec::len)
}

/// What is left of the transactions without those that nothing left comes before, or after.
fn on_circles(edges: &[Edge]) -> BTreeSet<Id> {
    let mut left: BTreeSet<Id> = edges.iter().flat_map(|it| [it.from, it.to]).collect();
    for forward in [true, false] {
        let ends = |edge: &Edge| match forward {
            true => (edge.from, edge.to),
            false => (edge.to, edge.from),
        };
        let mut next: BTreeMap<Id, Vec<Id>> = BTreeMap::new();
        let mut count: BTreeMap<Id, usize> = left.iter().map(|id| (*id, 0)).collect();
        for (from, to) in edges.iter().map(ends) {
            if left.contains(&from) && left.contains(&to) {
                next.entry(from).or_default().push(to);
                *count.entry(to).or_default() += 1;
            }
        }
        let mut free: Vec<Id> = count
            .iter()
            .filter(|(_, count)| **count == 0)
            .map(|(id, _)| *id)
            .collect();
        while let Some(id) = free.pop() {
            left.remove(&id);
            for to in next.remove(&id).unwrap_or_default() {
                let count = count.entry(to).or_default();
                *count -= 1;
                if *count == 0 {
                    free.push(to);
                }
            }
        }
    }
    left
}

/// The shortest way from a transaction back to it.
fn around(start: Id, out: &BTreeMap<Id, Vec<&Edge>>, inside: &BTreeSet<Id>) -> Option<Vec<Edge>> {
    let mut came: BTreeMap<Id, Edge> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for edge in out.get(&at).into_iter().flatten() {
            if edge.to == start {
                let mut way = vec![**edge];
                while let Some(earlier) = way.last().and_then(|edge| came.get(&edge.from)) {
                    way.push(*earlier);
                }
                way.reverse();
                return Some(way);
            }
            if inside.contains(&edge.to) && !came.contains_key(&edge.to) {
                came.insert(edge.to, **edge);
                queue.push_back(edge.to);
            }
        }
    }
    None
}
