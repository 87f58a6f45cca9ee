//! The immutable picture of the farm that routing reads, and the cell through which it is replaced.

use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use serde::{Deserialize, Serialize};

use crate::accounts::account::Accounts;
use crate::container::Containers;
use crate::places::Places;
use crate::position::Position;
use crate::position::freshness::{Interest, Known};
use crate::server::{Server, ServerId, Status};
use crate::sharding::Sharding;
use crate::turnover::Turnover;

/// The cell that holds the current snapshot. Readers on the data plane call `load()`, which costs no
/// lock; the control plane is the only writer.
pub type Published = ArcSwap<Snapshot>;

/// The whole farm at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Snapshot {
    /// Grows by one with every publication; what is cached from a snapshot is keyed by it.
    pub epoch: u64,
    /// The farm's own identity, made when its state store was made.
    pub farm_id: Arc<str>,
    /// Ordered by name.
    pub groups: Vec<Arc<Group>>,
    /// The accounts that may log in, as the primary of the home group has them.
    #[serde(skip)]
    pub accounts: Arc<Accounts>,
    /// Where tables are; `None` while the farm has no shard map and no assigned database.
    #[serde(skip)]
    pub sharding: Option<Arc<Sharding>>,
    /// Tables as the key-value door shows them.
    #[serde(skip)]
    pub containers: Arc<Containers>,
    /// From here the times of [`crate::Freshness`] are counted.
    #[serde(skip)]
    pub origin: Instant,
    /// What the data plane wants to know; the same from snapshot to snapshot.
    #[serde(skip)]
    pub interest: Arc<Interest>,
    /// How the set of servers changed; the same from snapshot to snapshot.
    #[serde(skip)]
    pub turnover: Arc<Turnover>,
    /// Where to look for servers and groups first; the same for snapshots with the same members.
    #[serde(skip)]
    pub places: Arc<Places>,
}

/// How the servers of a group keep their data equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupKind {
    /// One server takes the writes, the others follow it.
    #[default]
    Replication,
    /// A Galera cluster: every server is a PRIMARY, and what one commits all have certified.
    Galera,
    /// Servers of one data set on read-only storage: all of them are replicas, none follows another, and
    /// nobody writes.
    Media,
}

impl GroupKind {
    /// The name used in commands, configuration and JSON.
    pub fn name(self) -> &'static str {
        match self {
            GroupKind::Replication => "replication",
            GroupKind::Galera => "galera",
            GroupKind::Media => "media",
        }
    }

    /// Reads a kind from its name.
    pub fn parse(text: &str) -> Option<GroupKind> {
        [GroupKind::Replication, GroupKind::Galera, GroupKind::Media]
            .into_iter()
            .find(|kind| kind.name().eq_ignore_ascii_case(text))
    }
}

/// Servers that replicate one data set.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    pub name: Arc<str>,
    /// Names the group in ids of transactions; given once, never again. 0 where nobody gave one.
    #[serde(skip)]
    pub number: u32,
    pub kind: GroupKind,
    pub description: String,
    /// An active group is watched and failed over; an inactive one is only served.
    pub active: bool,
    /// The primary is being exchanged: statements that need it wait for the next snapshot.
    pub paused: bool,
    /// Where the group's timelines ended, the oldest first: what the new primary had when it took
    /// over. Tokens from before are checked against it.
    #[serde(skip)]
    pub forks: Vec<Position>,
    /// How an acknowledged commit comes to be on a replica.
    pub acks: Acks,
    /// Ordered by id.
    pub servers: Vec<Arc<Server>>,
}

/// Who sees to it that an acknowledged commit is on a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Acks {
    /// The servers, by semi-sync; or nobody, in a group without replicas.
    #[default]
    Servers,
    /// The servers cannot: the router holds a commit's OK until a replica has it, for so long.
    Router { wait_ms: u64 },
}

impl Group {
    /// The number of the present timeline: 1 until a primary was lost, and one more with each.
    pub fn timeline(&self) -> u32 {
        u32::try_from(self.forks.len()).map_or(u32::MAX, |forks| forks.saturating_add(1))
    }

    /// The server that takes the group's writes, whether or not it is alive. In a Galera group it is
    /// the first that can: writes of two servers at a time would only undo each other.
    pub fn primary(&self) -> Option<&Arc<Server>> {
        let mut primaries = self
            .servers
            .iter()
            .filter(|server| server.status == Status::Primary);
        let first = primaries.clone().next();
        match self.kind {
            GroupKind::Replication | GroupKind::Media => first,
            GroupKind::Galera => primaries.find(|server| server.serves_writes()).or(first),
        }
    }

    /// What the primary had executed when it was last asked.
    pub fn executed(&self) -> Option<Arc<Known>> {
        self.primary()?.fresh.known()
    }

    /// True for the server that the group's writes go to now.
    pub fn writes_to(&self, server: &Server) -> bool {
        server.serves_writes()
            && self
                .primary()
                .is_some_and(|primary| primary.id == server.id)
    }

    /// The server with this id, if it belongs to the group.
    pub fn server(&self, id: ServerId) -> Option<&Arc<Server>> {
        self.servers.iter().find(|server| server.id == id)
    }
}

impl Snapshot {
    /// A farm without groups, before the first publication.
    pub fn empty(farm_id: &str, origin: Instant) -> Snapshot {
        Snapshot {
            epoch: 0,
            farm_id: farm_id.into(),
            groups: Vec::new(),
            accounts: Arc::new(Accounts::default()),
            sharding: None,
            containers: Arc::default(),
            origin,
            interest: Arc::default(),
            turnover: Arc::default(),
            places: Arc::default(),
        }
    }

    /// The same farm with another state of one group, which has the same servers; everything else is shared with
    /// this snapshot. Costs a pointer for each group, not a copy of it.
    pub fn with_group(&self, at: usize, group: Arc<Group>) -> Snapshot {
        let mut next = self.clone();
        next.groups[at] = group;
        next.epoch += 1;
        next
    }

    /// The group of that name.
    pub fn group(&self, name: &str) -> Option<&Arc<Group>> {
        self.place(name).map(|at| &self.groups[at])
    }

    /// Where in [`Snapshot::groups`] the group of that name is.
    pub fn place(&self, name: &str) -> Option<usize> {
        let by_name = |group: &Arc<Group>| (*group.name).cmp(name);
        self.groups.binary_search_by(by_name).ok()
    }

    /// The group that takes statements for tables that no shard map places: the first by name.
    pub fn home(&self) -> Option<&Arc<Group>> {
        self.groups.first()
    }

    /// The server with this id, in whatever group.
    pub fn server(&self, id: ServerId) -> Option<&Arc<Server>> {
        let placed = self.places.server(id);
        let placed = placed.and_then(|(group, at)| self.groups.get(group)?.servers.get(at));
        placed
            .filter(|server| server.id == id)
            .or_else(|| self.groups.iter().find_map(|group| group.server(id)))
    }

    /// The group that has this number in ids of transactions.
    pub fn numbered(&self, number: u32) -> Option<&Arc<Group>> {
        let placed = self.places.number(number);
        let placed = placed.and_then(|at| self.groups.get(at));
        placed
            .filter(|group| group.number == number)
            .or_else(|| self.groups.iter().find(|group| group.number == number))
    }

    /// True when every group has a primary that takes writes.
    pub fn writable(&self) -> bool {
        !self.groups.is_empty()
            && self
                .groups
                .iter()
                .all(|g| g.primary().is_some_and(|p| p.serves_writes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{group, server, snapshot};

    /// Two groups with two servers each.
    fn farm() -> Snapshot {
        let groups = [("a", 1), ("b", 3)].map(|(name, id)| Group {
            number: id,
            ..group(
                name,
                vec![
                    server(id, name, Status::Primary),
                    server(id + 1, name, Status::Replica),
                ],
            )
        });
        snapshot("farm", Instant::now(), groups.into())
    }

    #[test]
    fn servers_and_groups_are_found_with_right_places_wrong_ones_and_none() {
        let none = farm();
        let placed = |of: &Snapshot| Snapshot {
            places: Arc::new(Places::of(&of.groups)),
            ..of.clone()
        };
        let right = placed(&none);
        let mut moved = right.clone();
        // The places are those of before.
        moved.groups.reverse();
        for snapshot in [&none, &right, &moved] {
            for id in 1..=4 {
                let found = snapshot.server(ServerId(id)).expect("it is a member");
                assert_eq!(found.id, ServerId(id));
            }
            let of_number = |number| snapshot.numbered(number).map(|group| &*group.name);
            assert_eq!([1, 3, 7].map(of_number), [Some("a"), Some("b"), None]);
            assert!(snapshot.server(ServerId(9)).is_none());
        }
    }

    #[test]
    fn another_state_of_a_group_shares_all_the_others() {
        let before = farm();
        let paused = Group {
            paused: true,
            ..(*before.groups[1]).clone()
        };
        let after = before.with_group(1, Arc::new(paused));
        assert_eq!(after.epoch, before.epoch + 1);
        assert!(Arc::ptr_eq(&before.groups[0], &after.groups[0]));
        assert!(after.groups[1].paused && !before.groups[1].paused);
        assert!(Arc::ptr_eq(&before.places, &after.places));
    }
}
