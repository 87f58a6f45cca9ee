//! How the set of servers changed from snapshot to snapshot: what mysqlnd_ms counted of its pool.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crate::server::{Server, ServerId, Status};
use crate::snapshot::{Group, Snapshot};

/// Counted by whoever publishes snapshots; the same from snapshot to snapshot.
#[derive(Debug, Default)]
pub struct Turnover {
    updates: AtomicU64,
    primaries_back: AtomicU64,
    replicas_back: AtomicU64,
    /// The servers that have served at some time. Touched at publication only.
    served: Mutex<BTreeSet<ServerId>>,
}

/// The numbers of [`Turnover`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    /// Publications with another set of servers, or another standing of one.
    pub updates: u64,
    /// Servers that had served, did not for a while, and came back as their group's primary.
    pub primaries_back: u64,
    /// The same of replicas.
    pub replicas_back: u64,
}

impl Turnover {
    /// Takes note of a publication. What both snapshots share is not looked at: it was when it was new.
    pub fn note(&self, before: &Snapshot, after: &Snapshot) {
        let same = |(old, new): (&Arc<Group>, &Arc<Group>)| {
            Arc::ptr_eq(old, new) || standings(old).eq(standings(new))
        };
        let unchanged = match before.groups.len() == after.groups.len() {
            true => before.groups.iter().zip(&after.groups).all(same),
            false => all_standings(before).eq(all_standings(after)),
        };
        self.updates.fetch_add(u64::from(!unchanged), Relaxed);
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = |(at, new): &(usize, &Arc<Group>)| {
            let old = before.groups.get(*at);
            old.is_none_or(|old| !Arc::ptr_eq(old, new))
        };
        let changed = after.groups.iter().enumerate().filter(is_new);
        let servers = changed.flat_map(|(_, group)| &group.servers);
        for server in servers.filter(|server| server.is_active()) {
            let first = served.insert(server.id);
            let paused = before.server(server.id).is_none_or(|old| !old.is_active());
            if first || !paused {
                continue;
            }
            let back = match server.status {
                Status::Primary => &self.primaries_back,
                _ => &self.replicas_back,
            };
            back.fetch_add(1, Relaxed);
        }
    }

    /// The numbers now.
    pub fn turns(&self) -> Turns {
        Turns {
            updates: self.updates.load(Relaxed),
            primaries_back: self.primaries_back.load(Relaxed),
            replicas_back: self.replicas_back.load(Relaxed),
        }
    }
}

/// How many servers of one standing there are, and how many of them serve now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Muster {
    pub total: u64,
    pub active: u64,
}

impl Snapshot {
    /// The servers of all groups that have this standing.
    pub fn muster(&self, status: Status) -> Muster {
        let mut muster = Muster::default();
        for server in servers(self).filter(|server| server.status == status) {
            muster.total += 1;
            muster.active += u64::from(server.is_active());
        }
        muster
    }
}

impl Server {
    /// True while statements may be sent to it: writes to a primary, reads to a replica whose applier
    /// runs.
    pub fn is_active(&self) -> bool {
        match self.status {
            Status::Primary => self.serves_writes(),
            _ => self.serves_reads() && self.health.sql_running != Some(false),
        }
    }
}

fn servers(snapshot: &Snapshot) -> impl Iterator<Item = &Server> {
    let groups = snapshot.groups.iter();
    groups.flat_map(|group| group.servers.iter().map(|server| &**server))
}

fn all_standings(snapshot: &Snapshot) -> impl Iterator<Item = (ServerId, Status)> {
    snapshot.groups.iter().flat_map(|group| standings(group))
}

fn standings(group: &Group) -> impl Iterator<Item = (ServerId, Status)> {
    let servers = group.servers.iter();
    servers.map(|server| (server.id, server.status))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::samples;

    /// A group whose servers have these standings, and live or not.
    fn farm(servers: &[(Status, bool)]) -> Snapshot {
        let server = |(id, &(status, alive))| {
            let mut server = samples::server(id, "g1", status);
            (server.health.alive, server.health.read_only) = (alive, false);
            server
        };
        let servers = (0..).zip(servers).map(server).collect();
        samples::snapshot("f", Instant::now(), vec![samples::group("g1", servers)])
    }

    #[test]
    fn another_set_or_standing_is_an_update_and_health_is_none() {
        let turnover = Turnover::default();
        let empty = Snapshot::empty("f", Instant::now());
        let down = farm(&[(Status::Primary, false), (Status::Replica, false)]);
        let up = farm(&[(Status::Primary, true), (Status::Replica, true)]);
        let turned = farm(&[(Status::Replica, true), (Status::Primary, true)]);
        turnover.note(&empty, &down);
        turnover.note(&down, &up);
        assert_eq!(turnover.turns().updates, 1);
        turnover.note(&up, &turned);
        assert_eq!(turnover.turns().updates, 2);
        assert_eq!(turnover.turns().primaries_back, 0);
    }

    #[test]
    fn who_comes_back_is_counted_by_what_it_is_then() {
        let turnover = Turnover::default();
        let up = farm(&[(Status::Primary, true), (Status::Replica, true)]);
        let down = farm(&[(Status::Primary, false), (Status::Replica, false)]);
        turnover.note(&down, &up);
        assert_eq!(turnover.turns().replicas_back, 0, "it is there at last");
        for _ in 0..2 {
            turnover.note(&up, &down);
            turnover.note(&down, &up);
        }
        let turns = turnover.turns();
        assert_eq!((turns.primaries_back, turns.replicas_back), (2, 2));
        turnover.note(&up, &up);
        assert_eq!(turnover.turns(), turns);
    }

    #[test]
    fn servers_are_mustered_by_their_standing() {
        let snapshot = farm(&[
            (Status::Primary, true),
            (Status::Replica, true),
            (Status::Replica, false),
            (Status::Spare, true),
        ]);
        let muster = |status| snapshot.muster(status);
        assert_eq!(
            muster(Status::Primary),
            Muster {
                total: 1,
                active: 1
            }
        );
        assert_eq!(
            muster(Status::Replica),
            Muster {
                total: 2,
                active: 1
            }
        );
    }
}
