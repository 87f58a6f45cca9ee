//! From records, health and accounts to the snapshot that everybody reads.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use farm::server::Fresh;
use farm::{Accounts, Acks, Freshness, Group, Health, Position, Server, ServerId, Snapshot};

use crate::context::standing::Standing;
use catalog::record::{Records, ServerRecord};

/// What is known of a server beyond its record.
#[derive(Clone, Debug)]
pub(crate) struct Sight {
    pub(crate) health: Health,
    pub(crate) fresh: Arc<Freshness>,
    pub(crate) term: u32,
}

/// The snapshot of this epoch. A server that is not in `sights` is one that no probe has reached.
pub(crate) fn snapshot(
    records: &Records,
    sights: &HashMap<u32, Sight>,
    standing: &Standing,
    acks: impl Fn(&str) -> Acks,
    accounts: &Arc<Accounts>,
    epoch: u64,
    origin: Instant,
) -> Snapshot {
    let groups = records.groups.iter().map(|(name, kept)| {
        let servers = records.members(name).map(|(id, record)| {
            let unknown = || Sight {
                health: Health::unknown(),
                fresh: Arc::default(),
                term: 0,
            };
            let sight = sights.get(&id).cloned().unwrap_or_else(unknown);
            Arc::new(server(id, record, sight))
        });
        let servers: Vec<Arc<Server>> = servers.collect();
        let engine = servers.first().map(|server| server.engine);
        let fork = |text: &String| Position::parse(engine?, text);
        Arc::new(Group {
            name: name.as_str().into(),
            number: kept.value.number,
            kind: kept.value.kind,
            description: kept.value.description.clone(),
            active: kept.value.active,
            paused: standing.is_paused(name),
            forks: kept.value.forks.iter().filter_map(fork).collect(),
            acks: acks(name),
            servers,
        })
    });
    Snapshot {
        epoch,
        farm_id: records.farm_id.as_str().into(),
        groups: groups.collect(),
        accounts: Arc::clone(accounts),
        ..Snapshot::empty("", origin)
    }
}

fn server(id: u32, record: &ServerRecord, sight: Sight) -> Server {
    Server {
        id: ServerId(id),
        uuid: record.uuid.as_str().into(),
        name: record.name.as_str().into(),
        group: record.group.as_str().into(),
        host: record.host.as_str().into(),
        port: record.port,
        status: record.status,
        mode: record.mode,
        weight: record.weight,
        engine: record.engine,
        version: record.version.as_str().into(),
        health: sight.health,
        term: sight.term,
        key: record.key(),
        fresh: Fresh(sight.fresh),
    }
}

/// True when two snapshots differ in nothing but GTID positions. These move with every write; a new
/// epoch for each would void what others cache by it.
pub(crate) fn same_but_gtids(a: &Snapshot, b: &Snapshot) -> bool {
    let same_server = |a: &Arc<Server>, b: &Arc<Server>| {
        let mut with_gtid = (**a).clone();
        with_gtid.health.gtid.clone_from(&b.health.gtid);
        with_gtid == **b
    };
    let same_group = |a: &Arc<Group>, b: &Arc<Group>| {
        (
            &a.name,
            a.kind,
            &a.description,
            a.active,
            a.paused,
            &a.forks,
            a.acks,
        ) == (
            &b.name,
            b.kind,
            &b.description,
            b.active,
            b.paused,
            &b.forks,
            b.acks,
        ) && a.servers.len() == b.servers.len()
            && a.servers
                .iter()
                .zip(&b.servers)
                .all(|(a, b)| same_server(a, b))
    };
    a.farm_id == b.farm_id
        && a.groups.len() == b.groups.len()
        && a.groups
            .iter()
            .zip(&b.groups)
            .all(|(a, b)| same_group(a, b))
        && a.accounts == b.accounts
        && a.sharding.as_ref().map(Arc::as_ptr) == b.sharding.as_ref().map(Arc::as_ptr)
        && a.containers == b.containers
}

#[cfg(test)]
mod tests {
    use farm::Status;

    use super::*;
    use catalog::record::samples::{records, server as record};

    fn sight(gtid: &str, read_only: bool) -> Sight {
        Sight {
            health: Health {
                alive: true,
                read_only,
                gtid: gtid.to_owned(),
                error: String::new(),
                ..Health::unknown()
            },
            fresh: Arc::default(),
            term: 0,
        }
    }

    #[test]
    fn a_snapshot_shows_records_and_health() {
        let records = records(
            "g",
            &[
                record("g", 1, Status::Primary),
                record("g", 2, Status::Replica),
            ],
        );
        let sights = HashMap::from([(1, sight("0-1-5", false))]);
        let snapshot = snapshot(
            &records,
            &sights,
            &Standing::default(),
            |_| Acks::Servers,
            &Arc::default(),
            7,
            Instant::now(),
        );
        assert_eq!(snapshot.epoch, 7);
        assert!(snapshot.writable());
        let group = snapshot.group("g").expect("the group");
        assert_eq!(group.primary().expect("a primary").health.gtid, "0-1-5");
        let unseen = group.server(ServerId(2)).expect("a replica");
        assert!(!unseen.serves_reads());
        assert_eq!(unseen.health.error, "not probed yet");
    }

    #[test]
    fn only_gtids_may_move_without_a_new_epoch() {
        let records = records("g", &[record("g", 1, Status::Primary)]);
        let make = |gtid, read_only| {
            let sights = HashMap::from([(1, sight(gtid, read_only))]);
            snapshot(
                &records,
                &sights,
                &Standing::default(),
                |_| Acks::Servers,
                &Arc::default(),
                1,
                Instant::now(),
            )
        };
        assert!(same_but_gtids(&make("0-1-5", false), &make("0-1-6", false)));
        assert!(!same_but_gtids(&make("0-1-5", false), &make("0-1-5", true)));
        let empty = Snapshot::empty("farm", Instant::now());
        assert!(!same_but_gtids(&make("0-1-5", false), &empty));
    }
}
