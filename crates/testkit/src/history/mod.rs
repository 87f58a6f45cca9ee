//! Histories of transactions that append to lists, and what such a history must not show.
//!
//! Every transaction appends its own id to lists, at most once to each, and reads whole lists. A list
//! keeps the order of its writers, so that at the end everything follows from what was read: who wrote
//! before whom, what each reader saw and what it missed. After Kingsbury and Alvaro, «Elle» (2020).
//!
//! What is promised, and checked here without any I/O:
//!
//! 1. *Atomicity*: a transaction is in all lists that it appended to, or in none; in all of them when
//!    it was acknowledged, in none when it was undone; nobody ever reads one that was undone.
//! 2. *One order*: those that conflict on several lists do so in the same order on all.
//!    Locking reads belong to that order, since what they read holds until their commit.
//! 3. *Snapshots*: read-only transactions that see each other one whole or not at all. Snapshot
//!    isolation holds if nothing follows itself by steps of which no two in a row are «missed a write»
//!    (Cerone and Gotsman, 2018). It is promised among those that touch several groups, and among
//!    those of one group; of two that keep to one group each, a snapshot may see the later without
//!    the earlier.
//! 4. *Freshness*: a locking read, or a snapshot, has all that was acknowledged before it began.

mod cycle;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use cycle::{Edge, Why};

/// Names a transaction.
pub type Id = u64;

/// Names a list.
pub type Key = u64;

/// The groups of lists; those that are missing are on several.
pub type Places = BTreeMap<Key, u32>;

/// How a transaction ended for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Committed,
    /// It was told, or is sure, that nothing of it stays.
    Undone,
    /// It was told nothing: all or none.
    Unknown,
}

/// What the reads of a transaction promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Each list by itself is a state of it.
    Plain,
    /// They hold until the commit.
    Locked,
    /// All are of one moment. Such a transaction appends nothing.
    Snapshot,
}

/// One transaction.
#[derive(Clone, Debug)]
pub struct Transaction {
    pub id: Id,
    /// Those of one session stand in the history in their order.
    pub session: u64,
    pub ended: Ended,
    pub appends: Vec<Key>,
    pub kind: Reads,
    /// What each list was; without its own id.
    pub reads: Vec<(Key, Vec<Id>)>,
    /// By one clock for all: before its first statement was sent, and after its last was answered.
    pub began_us: u64,
    pub ended_us: u64,
}

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Anomaly {
    /// Acknowledged, and not in this list at the end.
    Lost { id: Id, key: Key },
    /// Undone, and in this list at the end.
    Revived { id: Id, key: Key },
    /// In some of its lists at the end, and missing in others.
    Torn {
        id: Id,
        there: Vec<Key>,
        missing: Vec<Key>,
    },
    /// More than once in this list.
    Doubled { id: Id, key: Key },
    /// In this list, and nobody appended it there.
    Foreign { id: Id, key: Key },
    /// What was read is not how the list began.
    Diverged { reader: Id, key: Key },
    /// What was read lacks this one, which had been acknowledged before.
    Stale { reader: Id, key: Key, missed: Id },
    /// They follow each other in a circle.
    Cycle(Vec<Edge>),
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Anomaly::Lost { id, key } => write!(f, "{id} was acknowledged and is not in {key}"),
            Anomaly::Revived { id, key } => write!(f, "{id} was undone and is in {key}"),
            Anomaly::Torn { id, there, missing } => {
                write!(f, "{id} is in {there:?} and missing in {missing:?}")
            }
            Anomaly::Doubled { id, key } => write!(f, "{id} is twice in {key}"),
            Anomaly::Foreign { id, key } => write!(f, "{id} is in {key}, where nobody put it"),
            Anomaly::Diverged { reader, key } => {
                write!(f, "{reader} read of {key} what was never there")
            }
            Anomaly::Stale {
                reader,
                key,
                missed,
            } => write!(
                f,
                "{reader} read {key} without {missed}, acknowledged before"
            ),
            Anomaly::Cycle(edges) => {
                f.write_str("in a circle:")?;
                edges.iter().try_for_each(|edge| write!(f, " {edge};"))
            }
        }
    }
}

/// What is wrong with a history; `last` is what the lists were when all had ended.
pub fn check(
    history: &[Transaction],
    last: &BTreeMap<Key, Vec<Id>>,
    places: &Places,
) -> Vec<Anomaly> {
    let mut found = Vec::new();
    let by_id: BTreeMap<Id, &Transaction> = history.iter().map(|it| (it.id, it)).collect();
    for (key, list) in last {
        let mut met = BTreeSet::new();
        for id in list {
            if !met.insert(*id) {
                found.push(Anomaly::Doubled { id: *id, key: *key });
            }
            let writer = by_id.get(id);
            if !writer.is_some_and(|it| it.appends.contains(key)) {
                found.push(Anomaly::Foreign { id: *id, key: *key });
            }
        }
    }
    for one in history {
        whole(one, last, &mut found);
        for (key, list) in &one.reads {
            let now = last.get(key).map_or(&[][..], Vec::as_slice);
            if !now.starts_with(list) {
                let (reader, key) = (one.id, *key);
                found.push(Anomaly::Diverged { reader, key });
            }
        }
    }
    stale(history, last, &by_id, &mut found);
    if let Some(cycle) = cycle::shortest(&cycle::edges(history, last, places)) {
        found.push(Anomaly::Cycle(cycle));
    }
    found
}

/// All of it or nothing is there, as its client was told.
fn whole(one: &Transaction, last: &BTreeMap<Key, Vec<Id>>, found: &mut Vec<Anomaly>) {
    let is_there = |key: &&Key| last.get(key).is_some_and(|list| list.contains(&one.id));
    let (there, missing): (Vec<Key>, Vec<Key>) =
        one.appends.iter().partition(|&key| is_there(&key));
    let id = one.id;
    match one.ended {
        Ended::Committed => found.extend(missing.iter().map(|&key| Anomaly::Lost { id, key })),
        Ended::Undone => found.extend(there.iter().map(|&key| Anomaly::Revived { id, key })),
        Ended::Unknown => {}
    }
    if !there.is_empty() && !missing.is_empty() {
        found.push(Anomaly::Torn { id, there, missing });
    }
}

/// Reads that lack what had been acknowledged before they began.
fn stale(
    history: &[Transaction],
    last: &BTreeMap<Key, Vec<Id>>,
    by_id: &BTreeMap<Id, &Transaction>,
    found: &mut Vec<Anomaly>,
) {
    let fresh = history.iter().filter(|one| one.kind != Reads::Plain);
    for one in fresh {
        for (key, list) in &one.reads {
            let now = last.get(key).map_or(&[][..], Vec::as_slice);
            let missed = now.iter().skip(list.len()).find(|id| {
                by_id.get(id).is_some_and(|writer| {
                    writer.ended == Ended::Committed && writer.ended_us < one.began_us
                })
            });
            if let Some(&missed) = missed {
                let (reader, key) = (one.id, *key);
                found.push(Anomaly::Stale {
                    reader,
                    key,
                    missed,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests;
