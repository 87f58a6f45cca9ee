//! Shard maps, their shards, declared tables and assigned databases, as the state store keeps them.
//!
//! Keys: `/sharding/head`, which every change writes; `/sharding/map/ID`; `/sharding/shard/ID`;
//! `/sharding/table/DATABASE/TABLE`, `/sharding/expected/DATABASE/TABLE` for one that is not made yet, and `/sharding/database/DATABASE`, whose names are escaped.

use std::collections::{BTreeMap, BTreeSet};

use farm::shard::{KeyType, SLOTS, Shard, ShardIx, ShardKind, ShardMap};
use meta::Transaction;
use serde::{Deserialize, Serialize};

use super::{Kept, json, kept, parse};
use crate::bounds;
use crate::error::Error;

pub const SHARDING: &str = "/sharding/";
const HEAD: &str = "/sharding/head";
/// Written anew whenever a router has seen other definitions than before.
pub const DEFINED: &str = "/sharding/defined";
const MAP: &str = "/sharding/map/";
const SHARD: &str = "/sharding/shard/";
const TABLE: &str = "/sharding/table/";
const EXPECTED: &str = "/sharding/expected/";
const DATABASE: &str = "/sharding/database/";

/// The ids that were given last, never to be given again, and how many changes there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    map: u32,
    shard: u32,
    change: u64,
}

/// A map without its shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapRecord {
    pub kind: ShardKind,
    pub global_group: String,
    /// A name for people; empty without one.
    #[serde(default)]
    pub name: String,
}

/// A shard of a map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardRecord {
    pub map: u32,
    pub group: String,
    /// As [`bounds::text`] writes it.
    pub bound: String,
    pub enabled: bool,
    /// SLOTS: its slots, from and to.
    #[serde(default)]
    pub slots: Vec<(u16, u16)>,
}

/// A declared table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableRecord {
    pub database: String,
    pub table: String,
    pub map: u32,
    /// `None` for a global table.
    pub key: Option<KeyRecord>,
}

impl ShardRecord {
    /// What its keys begin with, or are; of SLOTS its slots.
    pub fn shown_bound(&self) -> String {
        if self.slots.is_empty() {
            return self.bound.clone();
        }
        let parts = self.slots.iter();
        let parts: Vec<String> = parts.map(|(from, to)| format!("{from}-{to}")).collect();
        parts.join("|")
    }
}

impl TableRecord {
    /// `database.table`.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.database, self.table)
    }
}

/// A sharded table's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRecord {
    pub column: String,
    pub key: KeyType,
    /// Somebody said that its other unique keys are unique over all shards.
    #[serde(default)]
    pub checked: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct DatabaseRecord {
    database: String,
    group: String,
}

/// Statements about definitions that are not finished on all groups: `/change/ID`.
pub const CHANGE: &str = "/change/";

/// A statement that changes definitions, and where it has still to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeRecord {
    pub text: String,
    pub groups: Vec<String>,
    pub database: String,
    pub sql_mode: String,
    /// Why it stopped; empty while it may be under way.
    pub error: String,
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Declared {
    pub maps: BTreeMap<u32, MapRecord>,
    pub shards: BTreeMap<u32, ShardRecord>,
    /// By database and table.
    pub tables: BTreeMap<(String, String), TableRecord>,
    /// Tables that will be on a map once they are made, likewise. Nobody has looked at their columns.
    pub expected: BTreeMap<(String, String), TableRecord>,
    /// The groups of assigned databases.
    pub databases: BTreeMap<String, String>,
    head: Option<Kept<Head>>,
    /// Another one says that definitions were changed through some router.
    defined: Option<String>,
}

impl Declared {
    /// The tables that are declared otherwise in the later state; `None` when more has changed of what
    /// is read of the servers.
    pub fn changed_tables(&self, later: &Declared) -> Option<BTreeSet<(String, String)>> {
        if self.maps != later.maps || self.defined != later.defined {
            return None;
        }
        let names = self.tables.keys().chain(later.tables.keys());
        let changed = names.filter(|name| self.tables.get(name) != later.tables.get(name));
        Some(changed.cloned().collect())
    }

    /// Takes a key over.
    pub fn take(&mut self, entry: &meta::Entry) -> Result<(), Error> {
        let key = entry.key.as_str();
        let number = |text: &str| {
            text.parse::<u32>().map_err(|_| Error::Record {
                key: key.to_owned(),
                reason: "its key does not end in a number".to_owned(),
            })
        };
        if key == HEAD {
            self.head = Some(kept(entry)?);
        } else if key == DEFINED {
            self.defined = Some(parse(entry)?);
        } else if let Some(id) = key.strip_prefix(MAP) {
            self.maps.insert(number(id)?, parse(entry)?);
        } else if let Some(id) = key.strip_prefix(SHARD) {
            self.shards.insert(number(id)?, parse(entry)?);
        } else if key.starts_with(TABLE) {
            let record: TableRecord = parse(entry)?;
            let name = (record.database.clone(), record.table.clone());
            self.tables.insert(name, record);
        } else if key.starts_with(EXPECTED) {
            let record: TableRecord = parse(entry)?;
            let name = (record.database.clone(), record.table.clone());
            self.expected.insert(name, record);
        } else if key.starts_with(DATABASE) {
            let record: DatabaseRecord = parse(entry)?;
            self.databases.insert(record.database, record.group);
        }
        Ok(())
    }

    /// Nothing is declared and nothing assigned.
    pub fn is_empty(&self) -> bool {
        self.maps.is_empty() && self.databases.is_empty()
    }

    /// What needs a group, in words.
    pub fn user_of(&self, group: &str) -> Option<String> {
        let mut maps = self.maps.iter();
        let mut shards = self.shards.iter();
        let mut databases = self.databases.iter();
        let map = maps.find(|(_, map)| map.global_group == group);
        let shard = shards.find(|(_, shard)| shard.group == group);
        let database = databases.find(|(_, of)| *of == group);
        map.map(|(id, _)| format!("shard map {id}"))
            .or_else(|| shard.map(|(id, _)| format!("shard {id}")))
            .or_else(|| database.map(|(name, _)| format!("database {name}")))
    }

    /// The shards of a map by id.
    pub fn shards_of(&self, map: u32) -> impl Iterator<Item = (u32, &ShardRecord)> {
        let shards = self.shards.iter();
        shards.filter_map(move |(id, shard)| (shard.map == map).then_some((*id, shard)))
    }

    /// The tables of a map by name.
    pub fn tables_of(&self, map: u32) -> impl Iterator<Item = &TableRecord> {
        self.tables.values().filter(move |table| table.map == map)
    }

    /// The tables that are declared, or will be once they are made.
    pub fn named(&self) -> impl Iterator<Item = &TableRecord> {
        self.tables.values().chain(self.expected.values())
    }

    /// A map with its shards. A bound that cannot be read leaves its shard out, with a word in the log.
    pub fn map(&self, id: u32) -> Option<ShardMap> {
        let record = self.maps.get(&id)?;
        let mut shards = Vec::new();
        for (shard_id, shard) in self.shards_of(id) {
            match bounds::read(record.kind, &shard.bound) {
                Ok(bound) => shards.push(Shard {
                    id: shard_id,
                    group: shard.group.as_str().into(),
                    bound,
                    enabled: shard.enabled,
                }),
                Err(why) => tracing::error!(shard = shard_id, why, "its bound is damaged"),
            }
        }
        shards.sort_by(|a, b| bounds::order(&a.bound, &b.bound).then(a.id.cmp(&b.id)));
        bounds::fold_lists(&mut shards);
        let slots = match record.kind {
            ShardKind::Slots => self.slots(&shards),
            _ => Vec::new(),
        };
        Some(ShardMap {
            id,
            kind: record.kind,
            global_group: record.global_group.as_str().into(),
            shards,
            slots,
        })
    }

    /// Empty unless every slot has a shard.
    fn slots(&self, shards: &[Shard]) -> Vec<ShardIx> {
        let mut slots = vec![None; SLOTS];
        for (at, shard) in (0u16..).zip(shards) {
            let ranges = self.shards.get(&shard.id).map(|record| &record.slots);
            for &(from, to) in ranges.into_iter().flatten() {
                let last = usize::from(to).min(SLOTS - 1);
                slots[usize::from(from).min(last)..=last].fill(Some(ShardIx(at)));
            }
        }
        slots.into_iter().collect::<Option<_>>().unwrap_or_default()
    }

    /// Begins a change; another one since this reading makes it stale.
    pub fn change(&self) -> Change {
        let (transaction, head) = match &self.head {
            None => (Transaction::new().when_absent(HEAD), Head::default()),
            Some(kept) => (
                Transaction::new().when_revision(HEAD, kept.revision),
                kept.value,
            ),
        };
        let change = head.change + 1;
        Change {
            transaction,
            head: Head { change, ..head },
        }
    }
}

/// A change of what is declared.
pub struct Change {
    transaction: Transaction,
    head: Head,
}

impl Change {
    /// Adds a map; gives its id.
    pub fn add_map(mut self, map: &MapRecord) -> (u32, Change) {
        self.head.map += 1;
        let id = self.head.map;
        (id, self.put(&format!("{MAP}{id}"), json(map)))
    }

    /// Removes a map.
    pub fn remove_map(self, id: u32) -> Change {
        self.delete(&format!("{MAP}{id}"))
    }

    /// The id of a shard that is about to be put.
    pub fn next_shard(&mut self) -> u32 {
        self.head.shard += 1;
        self.head.shard
    }

    /// Adds or replaces a shard.
    pub fn put_shard(self, id: u32, shard: &ShardRecord) -> Change {
        self.put(&format!("{SHARD}{id}"), json(shard))
    }

    /// Removes a shard.
    pub fn remove_shard(self, id: u32) -> Change {
        self.delete(&format!("{SHARD}{id}"))
    }

    /// Declares a table; it is expected no more.
    pub fn put_table(self, table: &TableRecord) -> Change {
        let (database, name) = (&table.database, &table.table);
        self.put(&table_key(TABLE, database, name), json(table))
            .delete(&table_key(EXPECTED, database, name))
    }

    /// Writes down where a table will be once it is made.
    pub fn expect_table(self, table: &TableRecord) -> Change {
        self.put(
            &table_key(EXPECTED, &table.database, &table.table),
            json(table),
        )
    }

    /// Takes a declaration back, also that of a table which is not made yet.
    pub fn remove_table(self, database: &str, table: &str) -> Change {
        self.delete(&table_key(TABLE, database, table))
            .delete(&table_key(EXPECTED, database, table))
    }

    /// Assigns a database to a group; `None` takes it back.
    pub fn assign(self, database: &str, group: Option<&str>) -> Change {
        let key = format!("{DATABASE}{}", escaped(database));
        match group {
            None => self.delete(&key),
            Some(group) => {
                let record = DatabaseRecord {
                    database: database.to_owned(),
                    group: group.to_owned(),
                };
                self.put(&key, json(&record))
            }
        }
    }

    /// All of it, to be committed.
    pub fn finish(self) -> Transaction {
        self.transaction.put(HEAD, &json(&self.head))
    }

    fn put(self, key: &str, value: String) -> Change {
        let transaction = self.transaction.put(key, &value);
        Change {
            transaction,
            ..self
        }
    }

    fn delete(self, key: &str) -> Change {
        let transaction = self.transaction.delete(key);
        Change {
            transaction,
            ..self
        }
    }
}

fn table_key(kind: &str, database: &str, table: &str) -> String {
    format!("{kind}{}/{}", escaped(database), escaped(table))
}

/// A name without `/`, so that keys have a fixed number of parts.
fn escaped(name: &str) -> String {
    name.replace('%', "%25").replace('/', "%2F")
}
