//! `sharding list_sizes`: how many rows and bytes each shard has, as its group's primary thinks.
//!
//! The servers are asked when somebody wants to know and the last answers are older than [`FRESH`]; whoever comes
//! meanwhile gets those, with their age. A group that does not answer keeps its last sizes, with theirs.
//!
//! Servers know sizes of tables, not of shards: shards of one map on one group have one size together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use catalog::command::{Arguments, CommandError, Table};
use catalog::record::Declared;
use futures_util::future::join_all;
use serde_json::Value;

use crate::commands::ShardingCommands;
use crate::sharding::named::find_map;

const COLUMNS: [&str; 8] = [
    "shard_id",
    "mapping_id",
    "group_id",
    "shards_there",
    "tables",
    "rows",
    "bytes",
    "age_s",
];

/// Younger answers are good enough.
const FRESH: Duration = Duration::from_secs(30);

/// A group that takes longer keeps its last sizes.
const PATIENCE_MS: u64 = 3000;

/// What the groups said last.
#[derive(Default)]
pub(crate) struct ShardSizes {
    groups: Mutex<BTreeMap<String, OfGroup>>,
    /// Held while the groups are asked.
    turn: tokio::sync::Mutex<()>,
}

/// One group's tables on maps.
#[derive(Clone)]
struct OfGroup {
    told: Instant,
    /// By map: tables, rows, bytes.
    maps: BTreeMap<u32, Size>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    tables: u64,
    rows: u64,
    bytes: u64,
}

impl ShardSizes {
    fn known(&self) -> MutexGuard<'_, BTreeMap<String, OfGroup>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ShardingCommands {
    /// A row for each shard.
    pub(crate) async fn list_sizes(&self, args: &Arguments) -> Result<Table, CommandError> {
        let declared = self.context.state().records.declared.clone();
        let only = match args.get("mapping_id") {
            None => None,
            Some(given) => Some(find_map(&declared, given)?),
        };
        // Who waits for somebody else's question gets its answers.
        let turn = self.sizes.turn.lock().await;
        self.ask_sizes(&declared).await;
        drop(turn);
        Ok(shown(&declared, only, &self.sizes.known(), Instant::now()))
    }

    /// Asks the groups whose answers are too old, all at the same time.
    async fn ask_sizes(&self, declared: &Declared) {
        let groups: BTreeSet<&String> = declared.shards.values().map(|it| &it.group).collect();
        let is_fresh = |group: &&&String| {
            let known = self.sizes.known();
            known
                .get(**group)
                .is_some_and(|it| it.told.elapsed() < FRESH)
        };
        let stale: Vec<&String> = groups.iter().filter(|it| !is_fresh(it)).copied().collect();
        let asked = stale.into_iter().map(|group| async move {
            let limit = Duration::from_millis(PATIENCE_MS);
            let told = tokio::time::timeout(limit, self.sizes_of(group, declared)).await;
            match told {
                Ok(Ok(maps)) => {
                    let told = Instant::now();
                    self.sizes
                        .known()
                        .insert(group.clone(), OfGroup { told, maps });
                }
                Ok(Err(error)) => tracing::debug!(group, %error, "no sizes of its tables"),
                Err(_) => tracing::debug!(group, "no sizes of its tables in time"),
            }
        });
        join_all(asked).await;
        self.sizes
            .known()
            .retain(|group, _| groups.contains(&group));
    }

    /// What one group has of each map.
    async fn sizes_of(
        &self,
        group: &str,
        declared: &Declared,
    ) -> Result<BTreeMap<u32, Size>, CommandError> {
        let here: BTreeSet<u32> = declared
            .shards
            .values()
            .filter(|shard| shard.group == group)
            .map(|shard| shard.map)
            .collect();
        let mut link = self.sharding.ask_group(group).await?;
        engine::tables::count_anew(&mut link, PATIENCE_MS).await?;
        let mut maps: BTreeMap<u32, Size> =
            here.iter().map(|map| (*map, Size::default())).collect();
        let sharded = declared.tables.values().filter(|table| table.key.is_some());
        let mut databases: BTreeMap<&str, BTreeMap<&str, u32>> = BTreeMap::new();
        for table in sharded.filter(|table| here.contains(&table.map)) {
            let tables = databases.entry(&table.database).or_default();
            tables.insert(&table.table, table.map);
        }
        for (database, tables) in databases {
            for (table, rows, bytes) in
                engine::tables::sizes(&mut link, database, PATIENCE_MS).await?
            {
                let map = tables.get(&*table).and_then(|map| maps.get_mut(map));
                if let Some(size) = map {
                    size.tables += 1;
                    size.rows += rows;
                    size.bytes += bytes;
                }
            }
        }
        Ok(maps)
    }
}

fn shown(
    declared: &Declared,
    only: Option<u32>,
    known: &BTreeMap<String, OfGroup>,
    now: Instant,
) -> Table {
    let mut there: BTreeMap<(u32, &str), u64> = BTreeMap::new();
    for shard in declared.shards.values() {
        *there.entry((shard.map, &shard.group)).or_insert(0) += 1;
    }
    let mut table = Table::new(&COLUMNS);
    for (id, shard) in &declared.shards {
        if only.is_some_and(|only| only != shard.map) {
            continue;
        }
        let of_group = known.get(&shard.group);
        let size = of_group.and_then(|it| it.maps.get(&shard.map));
        let number = |of: fn(&Size) -> u64| size.map_or(Value::Null, |size| of(size).into());
        let age = of_group.filter(|_| size.is_some());
        let age_s = age.map(|it| now.saturating_duration_since(it.told).as_secs());
        table.rows.push(vec![
            (*id).into(),
            shard.map.into(),
            shard.group.as_str().into(),
            there[&(shard.map, &*shard.group)].into(),
            number(|size| size.tables),
            number(|size| size.rows),
            number(|size| size.bytes),
            age_s.into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use catalog::record::ShardRecord;

    use super::*;

    #[test]
    fn shards_have_what_their_group_said_and_when() {
        let shard = |map, group: &str| ShardRecord {
            map,
            group: group.to_owned(),
            bound: String::new(),
            enabled: true,
            slots: Vec::new(),
        };
        let mut declared = Declared::default();
        for (id, map, group) in [(1, 7, "g1"), (2, 7, "g1"), (3, 7, "g2"), (4, 8, "g1")] {
            declared.shards.insert(id, shard(map, group));
        }
        let told = Instant::now();
        let size = Size {
            tables: 2,
            rows: 30,
            bytes: 4096,
        };
        let maps = BTreeMap::from([(7, size)]);
        let known = BTreeMap::from([("g1".to_owned(), OfGroup { told, maps })]);
        let now = told + Duration::from_secs(12);
        let table = shown(&declared, None, &known, now);
        let cells = |at: usize| table.rows[at][3..].to_vec();
        let known_there = [2u64, 2, 30, 4096, 12].map(Value::from);
        assert_eq!(cells(0), known_there);
        assert_eq!(cells(1), known_there);
        let nothing = |there: u64| [vec![Value::from(there)], vec![Value::Null; 4]].concat();
        assert_eq!((cells(2), cells(3)), (nothing(1), nothing(1)));
        assert_eq!(shown(&declared, Some(8), &known, now).rows.len(), 1);
    }
}
