//! Where servers and groups stand in a snapshot, so that a statement finds one of thousands without a look at all of
//! them.
//!
//! Invariant: a hint and no more. What stands at a place is compared with what is looked for, and where that is
//! something else, or no place is known, all are looked at. So a snapshot is right whatever its places say.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::server::ServerId;
use crate::snapshot::Group;

/// The places in `Snapshot::groups` of servers and of groups' numbers.
#[derive(Debug, Default)]
pub struct Places {
    servers: FxHashMap<ServerId, Place>,
    numbers: FxHashMap<u32, u32>,
}

/// A server's group, and its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    group: u32,
    server: u32,
}

impl Places {
    /// Those of these groups.
    pub fn of(groups: &[Arc<Group>]) -> Places {
        let count = groups.iter().map(|group| group.servers.len()).sum();
        let mut servers = FxHashMap::with_capacity_and_hasher(count, Default::default());
        let mut numbers = FxHashMap::with_capacity_and_hasher(groups.len(), Default::default());
        for (group, at) in groups.iter().zip(0..) {
            // Of several groups without a number the first is meant.
            numbers.entry(group.number).or_insert(at);
            for (server, place) in group.servers.iter().zip(0..) {
                let place = Place {
                    group: at,
                    server: place,
                };
                servers.insert(server.id, place);
            }
        }
        Places { servers, numbers }
    }

    /// Where the server may be: its group's place, and its own there.
    pub(crate) fn server(&self, id: ServerId) -> Option<(usize, usize)> {
        let place = self.servers.get(&id)?;
        Some((place.group as usize, place.server as usize))
    }

    /// Where the group of this number may be.
    pub(crate) fn number(&self, number: u32) -> Option<usize> {
        self.numbers.get(&number).map(|at| *at as usize)
    }
}
