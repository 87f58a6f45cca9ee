//! Farms for tests, of this crate and of those above it.
//!
//! What a test is about it changes: all fields are public. Nothing but tests uses this. It is compiled always, so that
//! tests and the program are linked with one build of the crates above.

use std::sync::Arc;
use std::time::Instant;

use crate::server::{Engine, Health, Mode, Server, ServerId, Status};
use crate::sharding::shard::{
    Bound, Key, KeyType, SLOTS, Shard, ShardIx, ShardKind, ShardMap, ShardedTable,
};
use crate::sharding::{Column, Placement};
use crate::snapshot::{Group, Snapshot};

/// A server that answers, in the mode that goes with its status.
pub fn server(id: u32, group: &str, status: Status) -> Server {
    let leads = status == Status::Primary;
    Server {
        id: ServerId(id),
        uuid: format!("{id:08}-0000-0000-0000-000000000000").into(),
        name: format!("s{id}").into(),
        group: group.into(),
        host: "10.0.0.1".into(),
        port: 3300 + u16::try_from(id).expect("a few servers"),
        status,
        mode: match leads {
            true => Mode::ReadWrite,
            false => Mode::ReadOnly,
        },
        weight: 1.0,
        engine: Engine::MariaDb,
        version: "10.11.6-MariaDB".into(),
        health: Health {
            alive: true,
            read_only: !leads,
            error: String::new(),
            ..Health::unknown()
        },
        term: 0,
        key: None,
        fresh: Default::default(),
    }
}

/// An active group that never lost a primary.
pub fn group(name: &str, servers: Vec<Server>) -> Group {
    Group {
        name: name.into(),
        number: 0,
        kind: Default::default(),
        description: String::new(),
        active: true,
        paused: false,
        forks: Vec::new(),
        acks: Default::default(),
        servers: servers.into_iter().map(Arc::new).collect(),
    }
}

/// A farm of these groups, whose moments count from `origin`.
pub fn snapshot(farm_id: &str, origin: Instant, groups: Vec<Group>) -> Snapshot {
    Snapshot {
        groups: groups.into_iter().map(Arc::new).collect(),
        ..Snapshot::empty(farm_id, origin)
    }
}

/// A map of integers with the global group g1; its shards, numbered from 1 on, are on these groups and begin with
/// these keys.
pub fn range_map(id: u32, shards: &[(&str, i128)]) -> ShardMap {
    let shard = |(id, &(group, lowest)): (u32, &(&str, i128))| Shard {
        id,
        group: group.into(),
        bound: Bound::Lower(Key::Int(lowest)),
        enabled: true,
    };
    ShardMap {
        id,
        kind: ShardKind::Range,
        global_group: "g1".into(),
        shards: (1..).zip(shards).map(shard).collect(),
        slots: Vec::new(),
    }
}

/// A map of slots with a shard on each of these groups, which have the slots in turn; the first is the global group.
///
/// # Panics
/// When there is no group.
pub fn slot_map(id: u32, groups: &[&str]) -> ShardMap {
    let shard = |(id, group): (u32, &&str)| Shard {
        id,
        group: (*group).into(),
        bound: Bound::Slots,
        enabled: true,
    };
    let shards = u16::try_from(groups.len()).expect("a few groups");
    ShardMap {
        id,
        kind: ShardKind::Slots,
        global_group: groups[0].into(),
        shards: (1..).zip(groups).map(shard).collect(),
        slots: (0..shards).map(ShardIx).cycle().take(SLOTS).collect(),
    }
}

/// Where a table is that a map shards by this column of integers.
pub fn sharded(database: &str, table: &str, column: &str, map: u32) -> Placement {
    Placement::Sharded(ShardedTable {
        database: database.into(),
        table: table.into(),
        column: column.into(),
        key: KeyType::Integer,
        map,
    })
}

/// A column that takes no NULL and has no default, of a type such as `int(11)`.
pub fn column(name: &str, full_type: &str) -> Column {
    Column {
        name: name.into(),
        data_type: full_type.split('(').next().unwrap_or_default().into(),
        full_type: full_type.into(),
        collation: None,
        nullable: false,
        auto_increment: false,
        generated: false,
        invisible: false,
        default: None,
    }
}
