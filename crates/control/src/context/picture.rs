//! From records, health and accounts to the snapshot that everybody reads.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use farm::server::Fresh;
use farm::{
    Accounts, Acks, Freshness, Group, Health, Places, Position, Server, ServerId, Snapshot,
};

use crate::context::standing::Standing;
use catalog::record::{GroupRecord, Records, ServerRecord};

/// What is known of a server beyond its record.
#[derive(Clone, Debug)]
pub(crate) struct Sight {
    pub(crate) health: Health,
    pub(crate) fresh: Arc<Freshness>,
    pub(crate) term: u32,
}

/// What a group's picture is made from, beside its own record and its members.
pub(crate) struct Facts<'a> {
    /// What is known of a server; `None` for one that no probe has reached.
    pub(crate) sight: &'a dyn Fn(u32) -> Option<Sight>,
    pub(crate) standing: &'a Standing,
    /// Who waits in the group of these members.
    pub(crate) acks: &'a dyn Fn(&[Member<'_>]) -> Acks,
}

/// A server of a group, by its id.
pub(crate) type Member<'a> = (u32, &'a ServerRecord);

/// The snapshot of this epoch. Each server is looked at once, however many groups there are.
pub(crate) fn snapshot(
    records: &Records,
    facts: &Facts<'_>,
    accounts: &Arc<Accounts>,
    epoch: u64,
    origin: Instant,
) -> Snapshot {
    let mut members: HashMap<&str, Vec<Member<'_>>> = HashMap::new();
    for (&id, kept) in &records.servers {
        members
            .entry(&kept.value.group)
            .or_default()
            .push((id, &kept.value));
    }
    let groups = records.groups.iter().map(|(name, kept)| {
        let members = members.remove(name.as_str()).unwrap_or_default();
        Arc::new(group(name, &kept.value, &members, facts))
    });
    let groups: Vec<Arc<Group>> = groups.collect();
    Snapshot {
        epoch,
        farm_id: records.farm_id.as_str().into(),
        places: Arc::new(Places::of(&groups)),
        groups,
        accounts: Arc::clone(accounts),
        ..Snapshot::empty("", origin)
    }
}

/// The group as it is now, where `before` shows what the farm was at its last publication: its place there, and what
/// it has become. `None` where only a picture of the whole farm is right, as the group is new.
pub(crate) fn one_group(
    records: &Records,
    before: &Snapshot,
    name: &str,
    facts: &Facts<'_>,
) -> Option<(usize, Group)> {
    let at = before.place(name)?;
    let kept = records.groups.get(name)?;
    // Members change by the records, and these are published whole.
    let members = before.groups[at].servers.iter().map(|server| {
        let record = &records.servers.get(&server.id.0)?.value;
        (record.group == name).then_some((server.id.0, record))
    });
    let members: Vec<Member<'_>> = members.collect::<Option<_>>()?;
    Some((at, group(name, &kept.value, &members, facts)))
}

fn group(name: &str, record: &GroupRecord, members: &[Member<'_>], facts: &Facts<'_>) -> Group {
    let servers = members.iter().map(|&(id, member)| {
        let unknown = || Sight {
            health: Health::unknown(),
            fresh: Arc::default(),
            term: 0,
        };
        let sight = (facts.sight)(id).unwrap_or_else(unknown);
        Arc::new(server(id, member, sight))
    });
    let servers: Vec<Arc<Server>> = servers.collect();
    let engine = servers.first().map(|server| server.engine);
    let fork = |text: &String| Position::parse(engine?, text);
    Group {
        name: name.into(),
        number: record.number,
        kind: record.kind,
        description: record.description.clone(),
        active: record.active,
        paused: facts.standing.is_paused(name),
        forks: record.forks.iter().filter_map(fork).collect(),
        acks: (facts.acks)(members),
        servers,
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

/// The same of one group.
pub(crate) fn same_group(a: &Group, b: &Group) -> bool {
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
}

fn same_server(a: &Arc<Server>, b: &Arc<Server>) -> bool {
    // Most are, and need no copy.
    a == b || {
        let mut with_gtid = (**a).clone();
        with_gtid.health.gtid.clone_from(&b.health.gtid);
        with_gtid == **b
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

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

    fn seen(records: &Records, sights: &HashMap<u32, Sight>, epoch: u64) -> Snapshot {
        let standing = Standing::default();
        let facts = Facts {
            sight: &|id| sights.get(&id).cloned(),
            standing: &standing,
            acks: &|_| Acks::Servers,
        };
        snapshot(records, &facts, &Arc::default(), epoch, Instant::now())
    }

    /// So many groups of as many servers.
    fn many(groups: u32, servers: u32) -> Records {
        let mut all = Records::default();
        for number in 0..groups {
            let name = format!("g{number:04}");
            let members = (0..servers).map(|place| {
                let status = match place {
                    0 => Status::Primary,
                    _ => Status::Replica,
                };
                record(&name, 1 + place as u16, status)
            });
            let of = records(&name, &members.collect::<Vec<_>>());
            all.groups.extend(of.groups);
            let members = of.servers.into_iter();
            all.servers
                .extend(members.map(|(id, kept)| (number * servers + id, kept)));
        }
        all
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
        let snapshot = seen(&records, &sights, 7);
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
            seen(&records, &sights, 1)
        };
        assert!(same_but_gtids(&make("0-1-5", false), &make("0-1-6", false)));
        assert!(!same_but_gtids(&make("0-1-5", false), &make("0-1-5", true)));
        let empty = Snapshot::empty("farm", Instant::now());
        assert!(!same_but_gtids(&make("0-1-5", false), &empty));
    }

    /// A farm costs a look at each of its servers; a change of one group, a look at that group's.
    #[test]
    fn each_server_is_looked_at_once_and_one_groups_change_costs_one_group() {
        let (groups, servers) = (100, 10);
        let records = many(groups, servers);
        let (looks, heard) = (Cell::new(0), Cell::new(0));
        let (standing, down) = (Standing::default(), Cell::new(0));
        let sight_of = |id: u32| {
            looks.set(looks.get() + 1);
            let mut seen = sight("0-1-5", false);
            seen.health.alive = id != down.get();
            Some(seen)
        };
        let acks_of = |members: &[Member<'_>]| {
            heard.set(heard.get() + members.len());
            Acks::Servers
        };
        let facts = Facts {
            sight: &sight_of,
            standing: &standing,
            acks: &acks_of,
        };
        let whole = |epoch| snapshot(&records, &facts, &Arc::default(), epoch, Instant::now());
        let before = whole(1);
        let all = groups * servers;
        assert_eq!((looks.take(), heard.take()), (all, all as usize));
        // Server 3 of the group in the middle dies.
        down.set(50 * servers + 3);
        let one = one_group(&records, &before, "g0050", &facts);
        let (at, now) = one.expect("it is in the farm");
        assert_eq!((looks.take(), heard.take()), (servers, servers as usize));
        assert!(!same_group(&before.groups[at], &now));
        let after = before.with_group(at, Arc::new(now));
        assert!(
            same_but_gtids(&after, &whole(2)),
            "as if all were looked at"
        );
        assert!(one_group(&records, &before, "g0777", &facts).is_none());
    }
}
