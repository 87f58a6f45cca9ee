//! Who makes the commits of a group wait until a replica has them, and for how long.
//!
//! Pure: judged from the records and from what the servers last said.

use std::collections::HashMap;

use engine::replication::ACK_WAIT_FOREVER_MS;
use farm::{Acks, Engine, Status};

use crate::context::seen::Seen;
use catalog::record::{Records, ServerRecord};

/// How long commits of a group's primary wait for a replica: not at all without one (`None`), a limited time with
/// the last one, else as long as it takes.
pub(crate) fn wait_ms(records: &Records, group: &str, last_replica_wait_ms: u64) -> Option<u64> {
    let members: Vec<_> = records.members(group).collect();
    wait_ms_of(&members, last_replica_wait_ms)
}

fn wait_ms_of(members: &[(u32, &ServerRecord)], last_replica_wait_ms: u64) -> Option<u64> {
    let follows = |status: Status| matches!(status, Status::Replica | Status::Spare);
    match members
        .iter()
        .filter(|(_, server)| follows(server.status))
        .count()
    {
        0 => None,
        1 => Some(last_replica_wait_ms),
        _ => Some(ACK_WAIT_FOREVER_MS),
    }
}

/// Who waits, as sessions see it. Whether a server can wait is known once its primary was probed.
pub(crate) fn shown(
    records: &Records,
    seen: &HashMap<u32, Seen>,
    group: &str,
    last_replica_wait_ms: u64,
) -> Acks {
    let members: Vec<_> = records.members(group).collect();
    shown_of(&members, seen, last_replica_wait_ms)
}

/// The same in the group of these members.
pub(crate) fn shown_of(
    members: &[(u32, &ServerRecord)],
    seen: &HashMap<u32, Seen>,
    last_replica_wait_ms: u64,
) -> Acks {
    let wait_ms = wait_ms_of(members, last_replica_wait_ms);
    let mut primaries = members
        .iter()
        .filter(|(_, record)| record.status == Status::Primary);
    let asked = primaries
        .next()
        .and_then(|(id, _)| seen.get(id)?.observation.as_ref());
    let mysql = members
        .iter()
        .any(|(_, record)| record.engine == Engine::MySql);
    match wait_ms {
        Some(wait_ms) if mysql && asked.is_none_or(|seen| seen.acks.is_none()) => {
            Acks::Router { wait_ms }
        }
        _ => Acks::Servers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::samples::observation;
    use catalog::record::samples::{records, server};

    #[test]
    fn the_wait_depends_on_how_many_follow() {
        let primary = server("g", 1, Status::Primary);
        let replica = server("g", 2, Status::Replica);
        let spare = server("g", 3, Status::Spare);
        let faulty = server("g", 4, Status::Faulty);
        let wait = |servers: &[ServerRecord]| wait_ms(&records("g", servers), "g", 1000);
        assert_eq!(wait(&[primary.clone(), faulty.clone()]), None);
        assert_eq!(
            wait(&[primary.clone(), replica.clone(), faulty]),
            Some(1000)
        );
        assert_eq!(wait(&[primary, replica, spare]), Some(ACK_WAIT_FOREVER_MS));
    }

    #[test]
    fn the_router_waits_where_mysql_has_no_semi_sync() {
        let with = |engine, status, port| ServerRecord {
            engine,
            ..server("g", port, status)
        };
        let of = |engine| {
            let servers = [
                with(engine, Status::Primary, 1),
                with(engine, Status::Replica, 2),
            ];
            records("g", &servers)
        };
        let nobody_asked = HashMap::new();
        let mysql = of(Engine::MySql);
        let router = Acks::Router { wait_ms: 1000 };
        assert_eq!(shown(&mysql, &nobody_asked, "g", 1000), router);
        assert_eq!(
            shown(&of(Engine::MariaDb), &nobody_asked, "g", 1000),
            Acks::Servers
        );
        let asked = |acks| {
            let mut seen = Seen::default();
            seen.answered(engine::Observation {
                version: "8.0.45".to_owned(),
                read_only: false,
                acks,
                ..observation()
            });
            HashMap::from([(1, seen)])
        };
        let enabled = engine::Acks {
            enabled: true,
            active: true,
            replicas: 1,
        };
        assert_eq!(shown(&mysql, &asked(None), "g", 1000), router);
        assert_eq!(
            shown(&mysql, &asked(Some(enabled)), "g", 1000),
            Acks::Servers
        );
    }
}
