//! Who follows whom, and whether somebody follows himself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use super::{Ended, Id, Key, Places, Reads, Transaction};

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
    /// Both stand for one snapshot.
    Within,
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
            (Why::Within, _) => write!(f, "{from} goes on"),
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

/// The group that a transaction keeps to, where it keeps to one.
fn home(one: &Transaction, places: &Places) -> Option<u32> {
    let read = one.reads.iter().map(|(key, _)| key);
    let mut groups = one.appends.iter().chain(read).map(|key| places.get(key));
    let first = groups.next()??;
    groups.all(|group| group == Some(first)).then_some(*first)
}

/// What stands for a snapshot: its beginning, its view of each group, and its end, all of which come
/// one after the other. Views of different groups have no order, since they are opened one behind the
/// other while those that keep to one group go on.
#[derive(Clone, Copy)]
enum Face {
    Begin,
    View(u32),
    End,
}

/// The bits of an id that are the transaction's own.
const OWN: Id = (1 << 32) - 1;

impl Face {
    fn of(self, id: Id) -> Id {
        match self {
            Face::Begin => id,
            Face::View(group) => id | (Id::from(group) + 1) << 32,
            Face::End => id | !OWN,
        }
    }
}

/// From a snapshot's beginning to its end.
fn steps_within(id: Id, groups: &BTreeSet<u32>, add: &mut impl FnMut(Id, Id, Why)) {
    let [begin, end] = [Face::Begin, Face::End].map(|face| face.of(id));
    for view in groups.iter().map(|group| Face::View(*group).of(id)) {
        add(begin, view, Why::Within);
        add(view, end, Why::Within);
    }
    add(begin, end, Why::Within);
}

/// All steps by which one transaction comes after another.
pub(super) fn edges(
    history: &[Transaction],
    last: &BTreeMap<Key, Vec<Id>>,
    places: &Places,
) -> Vec<Edge> {
    let homes: BTreeMap<Id, Option<u32>> = history
        .iter()
        .map(|one| (one.id, home(one, places)))
        .collect();
    let home = |id: &Id| homes.get(id).copied().flatten();
    let crosses = |id: &&Id| home(id).is_none();
    let groups: BTreeSet<u32> = places.values().copied().collect();
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
    let mut before: BTreeMap<u64, Id> = BTreeMap::new();
    for one in history {
        let snapshot = one.kind == Reads::Snapshot;
        let face = |face: Face| match snapshot {
            true => face.of(one.id),
            false => one.id,
        };
        if one.ended == Ended::Committed
            && let Some(earlier) = before.insert(one.session, face(Face::End))
        {
            add(earlier, one.id, Why::Session);
        }
        if one.kind == Reads::Plain || one.ended == Ended::Undone {
            continue;
        }
        if snapshot {
            steps_within(one.id, &groups, &mut add);
        }
        // One of which its client was told nothing may have been undone; what it read held
        // nevertheless when it read it, but not until its end.
        let unknown = one.ended == Ended::Unknown;
        for (key, list) in &one.reads {
            let seen = list.last().into_iter();
            // Of one that keeps to a group nothing follows for others: the last that crosses counts, too.
            let dist_txn = list.iter().rev().find(crosses).filter(|_| snapshot);
            for id in seen.chain(dist_txn) {
                let to = home(id).map_or(Face::Begin, Face::View);
                add(*id, face(to), Why::Read(*key));
            }
            let now = last.get(key).map_or(&[][..], Vec::as_slice);
            let mut later = now.iter().skip(list.len()).filter(|id| **id != one.id);
            let Some(next) = later.next().filter(|_| !unknown) else {
                continue;
            };
            let dist_txn = later.find(crosses).filter(|_| snapshot);
            for id in [next].into_iter().chain(dist_txn) {
                let from = home(id).map_or(Face::End, Face::View);
                add(face(from), *id, Why::Missed(*key));
            }
        }
    }
    found
}

/// A circle with one step for each way over a snapshot.
fn folded(mut circle: Vec<Edge>) -> Vec<Edge> {
    let of_view = |edge: &Edge| edge.from & !OWN != 0;
    // It begins outside snapshots, so that no way over one is cut.
    let outside = |edge: &Edge| edge.why != Why::Within && !of_view(edge);
    let at = circle.iter().position(outside).unwrap_or(0);
    circle.rotate_left(at);
    let mut steps: Vec<Edge> = Vec::with_capacity(circle.len());
    for edge in circle {
        match (steps.last_mut(), edge.why) {
            (Some(_), Why::Within) => {}
            (Some(step), Why::Missed(key)) if of_view(&edge) => {
                step.through = Some((step.to & OWN, key));
                step.to = edge.to;
            }
            _ => steps.push(Edge {
                from: edge.from & OWN,
                ..edge
            }),
        }
    }
    steps
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
        .map(folded)
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
