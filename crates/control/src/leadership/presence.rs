//! Which routers live, who leads, how they vote and what they cut, as the state store says it.
//!
//! Pure: it takes listings and changes in, in whatever order they arrive, and keeps of each key what
//! the newest revision says.

use std::collections::BTreeMap;

use meta::{Change, Entry, LeaseId, Update};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use catalog::record::Kept;

/// Where routers register: `/router/SLOT`.
pub(crate) const ROUTER: &str = "/router/";
/// Who leads. The revision of this key is the fencing number.
pub(crate) const LEADER: &str = "/leader";
/// Which server a router holds for lost: `/vote/GROUP/SLOT`.
pub(crate) const VOTE: &str = "/vote/";
/// What a router did about a change of primary: `/cut/GROUP/SLOT`.
pub(crate) const CUT: &str = "/cut/";

/// All of them, to be read at once.
pub(crate) const PREFIXES: [&str; 4] = [ROUTER, LEADER, VOTE, CUT];

/// A router that lives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RouterRecord {
    /// Of this process; another one in the same slot has another.
    pub(crate) id: String,
    pub(crate) name: String,
    /// `host:port` of its HTTP door, for the others.
    pub(crate) http: String,
    /// `host:port` of its SQL door, for people.
    pub(crate) sql: String,
    pub(crate) version: String,
    /// Milliseconds since 1970.
    pub(crate) started_ms: u64,
    /// It speaks TLS to peers, and nothing else to those that say so, too.
    #[serde(default)]
    pub(crate) tls: bool,
}

/// The router that leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeaderRecord {
    pub(crate) slot: u8,
    pub(crate) id: String,
    /// Milliseconds since 1970.
    #[serde(default)]
    pub(crate) since_ms: u64,
}

/// A router's opinion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VoteRecord {
    /// The server that it holds for lost.
    pub(crate) lost: u32,
}

/// A router's answer to a record of a change of primary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CutRecord {
    /// The record's.
    pub(crate) number: u64,
    /// Covers what its clients were told is committed; nothing, when none of them was told of a
    /// commit.
    pub(crate) acknowledged: Option<String>,
}

/// A key of one router about one group.
type OfGroup<T> = BTreeMap<(String, u8), Kept<T>>;

/// Everything under [`PREFIXES`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Presence {
    pub(crate) routers: BTreeMap<u8, Kept<RouterRecord>>,
    pub(crate) leader: Option<Kept<LeaderRecord>>,
    votes: OfGroup<VoteRecord>,
    cuts: OfGroup<CutRecord>,
}

impl Presence {
    /// Takes over a whole reading of one prefix.
    pub(crate) fn read(&mut self, prefix: &str, entries: &[Entry], revision: u64) {
        let newer = |kept: u64| kept > revision;
        match prefix {
            ROUTER => self.routers.retain(|_, kept| newer(kept.revision)),
            LEADER => self.leader = self.leader.take().filter(|kept| newer(kept.revision)),
            VOTE => self.votes.retain(|_, kept| newer(kept.revision)),
            _ => self.cuts.retain(|_, kept| newer(kept.revision)),
        }
        for entry in entries {
            self.take(&entry.key, Some(&entry.value), entry.revision);
        }
    }

    /// Takes over what an update says of these keys; false when it says nothing of them.
    pub(crate) fn update(&mut self, update: &Update) -> bool {
        let mut touched = false;
        for change in &update.changes {
            let value = match change {
                Change::Put { value, .. } => Some(value.as_str()),
                Change::Delete { .. } => None,
            };
            touched |= self.take(change.key(), value, update.revision);
        }
        touched
    }

    /// Takes over one key; false when it is none of these.
    pub(crate) fn take(&mut self, key: &str, value: Option<&str>, revision: u64) -> bool {
        if key == LEADER {
            if self
                .leader
                .as_ref()
                .is_none_or(|kept| kept.revision < revision)
            {
                self.leader = value.and_then(|value| kept(key, value, revision));
            }
        } else if let Some(slot) = key.strip_prefix(ROUTER) {
            if let Ok(slot) = slot.parse() {
                put(&mut self.routers, slot, key, value, revision);
            }
        } else if let Some(of) = key.strip_prefix(VOTE) {
            if let Some(of) = group_and_slot(of) {
                put(&mut self.votes, of, key, value, revision);
            }
        } else if let Some(of) = key.strip_prefix(CUT) {
            if let Some(of) = group_and_slot(of) {
                put(&mut self.cuts, of, key, value, revision);
            }
        } else {
            return false;
        }
        true
    }

    /// The slot that is free and was wanted, or the next one after that of the newest router: one that
    /// was freed a moment ago is not given to another router at once, since clients may still know it.
    /// What the same process registered before is free to it.
    pub(crate) fn vacancy(&self, wanted: Option<u8>, id: &str) -> Option<u8> {
        let free = |slot: &u8| {
            let there = self.routers.get(slot);
            there.is_none_or(|kept| kept.value.id == id)
        };
        let newest = self.routers.iter().max_by_key(|(_, kept)| kept.revision);
        let newest = newest.map_or(0, |(slot, _)| *slot);
        let in_turn = (newest..u8::MAX).map(|slot| slot + 1).chain(1..=newest);
        wanted
            .filter(free)
            .or_else(|| in_turn.into_iter().find(|slot| free(slot)))
    }

    /// What the routers other than this one hold for lost in a group. One that does not live has no
    /// vote.
    pub(crate) fn votes(&self, group: &str, own: u8) -> BTreeMap<u8, u32> {
        let of_group = self.votes.iter().filter(|((of, slot), _)| {
            of == group && *slot != own && self.routers.contains_key(slot)
        });
        let votes = of_group.map(|((_, slot), kept)| (*slot, kept.value.lost));
        votes.collect()
    }

    /// What a router did about a group.
    pub(crate) fn cut(&self, group: &str, slot: u8) -> Option<&CutRecord> {
        let kept = self.cuts.get(&(group.to_owned(), slot));
        kept.map(|kept| &kept.value)
    }
}

/// Keeps a value unless a newer one is known.
fn put<K: Ord, T: DeserializeOwned>(
    map: &mut BTreeMap<K, Kept<T>>,
    at: K,
    key: &str,
    value: Option<&str>,
    revision: u64,
) {
    if map.get(&at).is_some_and(|known| known.revision >= revision) {
        return;
    }
    match value.and_then(|value| kept(key, value, revision)) {
        Some(kept) => map.insert(at, kept),
        None => map.remove(&at),
    };
}

/// A value that cannot be read counts as none: it is told, and its router as good as absent.
fn kept<T: DeserializeOwned>(key: &str, value: &str, revision: u64) -> Option<Kept<T>> {
    match serde_json::from_str(value) {
        Ok(value) => Some(Kept { value, revision }),
        Err(error) => {
            tracing::warn!(key, %error, "cannot read what a router wrote");
            None
        }
    }
}

fn group_and_slot(key: &str) -> Option<(String, u8)> {
    let (group, slot) = key.rsplit_once('/')?;
    Some((group.to_owned(), slot.parse().ok()?))
}

/// The key of a router.
pub(crate) fn router_key(slot: u8) -> String {
    // So that keys sort by slot.
    format!("{ROUTER}{slot:03}")
}

/// The key of a router's vote.
pub(crate) fn vote_key(group: &str, slot: u8) -> String {
    format!("{VOTE}{group}/{slot:03}")
}

/// The key of a router's cut.
pub(crate) fn cut_key(group: &str, slot: u8) -> String {
    format!("{CUT}{group}/{slot:03}")
}

/// This router's registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) slot: u8,
    /// What wrote its key.
    pub(crate) revision: u64,
    pub(crate) lease: LeaseId,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn router(name: &str) -> String {
        let record = RouterRecord {
            id: name.to_owned(),
            name: name.to_owned(),
            ..RouterRecord::default()
        };
        serde_json::to_string(&record).expect("plain text")
    }

    fn leader(slot: u8) -> String {
        format!(r#"{{"slot":{slot},"id":"r{slot}"}}"#)
    }

    #[test]
    fn the_newest_revision_counts_in_whatever_order_it_comes() {
        let mut presence = Presence::default();
        assert!(presence.take(LEADER, Some(&leader(2)), 9));
        assert!(presence.take(LEADER, Some(&leader(1)), 7), "an older one");
        assert!(presence.take(LEADER, None, 8), "an older deletion");
        let number = |presence: &Presence| presence.leader.as_ref().map(|kept| kept.revision);
        assert_eq!(number(&presence), Some(9));
        presence.read(LEADER, &[], 8);
        assert_eq!(number(&presence), Some(9), "a reading from before");
        assert!(presence.take(LEADER, None, 10));
        assert_eq!(number(&presence), None);
        assert!(!presence.take("/server/0000000001", None, 11));
    }

    #[test]
    fn slots_are_given_in_turn_and_kept_when_they_are_free() {
        let mut presence = Presence::default();
        assert_eq!(presence.vacancy(None, "x"), Some(1));
        for (revision, slot) in [(7, 1), (5, 2), (6, 4)] {
            presence.take(&router_key(slot), Some(&router("r")), revision);
        }
        assert_eq!(presence.vacancy(None, "x"), Some(3), "after the newest");
        assert_eq!(presence.vacancy(Some(7), "x"), Some(7));
        assert_eq!(presence.vacancy(Some(2), "x"), Some(3), "taken meanwhile");
        assert_eq!(presence.vacancy(Some(2), "r"), Some(2), "its own");
        presence.take(&router_key(u8::MAX), Some(&router("r")), 8);
        assert_eq!(presence.vacancy(None, "x"), Some(3), "around the end");
        (1..=u8::MAX).for_each(|slot| {
            presence.take(&router_key(slot), Some(&router("r")), 9);
        });
        assert_eq!(presence.vacancy(Some(1), "x"), None);
    }

    #[test]
    fn only_those_who_live_vote() {
        let mut presence = Presence::default();
        for slot in [1, 2, 3] {
            presence.take(&router_key(slot), Some(&router("r")), 1);
            presence.take(&vote_key("a/b", slot), Some(r#"{"lost":5}"#), 2);
        }
        assert_eq!(presence.votes("a/b", 1), BTreeMap::from([(2, 5), (3, 5)]));
        assert_eq!(presence.votes("a", 1), BTreeMap::new());
        presence.take(&router_key(3), None, 3);
        assert_eq!(presence.votes("a/b", 1), BTreeMap::from([(2, 5)]));
    }

    #[test]
    fn what_cannot_be_read_is_absent() {
        let mut presence = Presence::default();
        presence.take(&router_key(1), Some("{}"), 1);
        assert!(presence.routers.is_empty());
        presence.take(&router_key(1), Some(&router("r")), 2);
        presence.take(&router_key(1), Some("[]"), 3);
        assert!(presence.routers.is_empty());
    }
}
