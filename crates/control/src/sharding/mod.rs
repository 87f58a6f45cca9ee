//! Where tables are: what is declared in the store, put together with what the servers say of the
//! tables, for the snapshot; and what the commands of `sharding` need.

pub(crate) mod accept;
pub(crate) mod catalog;
mod global;

use std::collections::BTreeMap;
use std::sync::Arc;

use farm::Sharding;
use farm::shard::ShardedTable;
use farm::sharding::{Moving, Placement, TableSchema};

use crate::context::Context;
use crate::context::State;
use crate::links::Links;
use crate::reshard::{Holds, moving};
use ::catalog::record::{Declared, TableRecord};
use catalog::Tables;
use catalog::Which;
use planner::belongs::key_of_map;

/// Asks the groups about sharded tables: their definitions, their rows, where they lie.
pub(crate) struct ShardedTables {
    context: Arc<Context>,
    links: Arc<Links>,
    tables: Arc<Tables>,
}

impl ShardedTables {
    pub(crate) fn new(
        context: &Arc<Context>,
        links: &Arc<Links>,
        tables: &Arc<Tables>,
    ) -> ShardedTables {
        ShardedTables {
            context: Arc::clone(context),
            links: Arc::clone(links),
            tables: Arc::clone(tables),
        }
    }
}

/// The columns of tables, by database and table.
pub(crate) type Schemas = BTreeMap<(String, String), Arc<TableSchema>>;

/// What was put together last.
#[derive(Default)]
pub(crate) struct Layout {
    declared: Declared,
    pub(crate) schemas: Arc<Schemas>,
    epoch: u64,
    sharding: Option<Arc<Sharding>>,
    moves: Vec<Moving>,
    holds: Holds,
}

impl Layout {
    /// For the snapshot.
    pub(crate) fn sharding(&self) -> Option<Arc<Sharding>> {
        self.sharding.clone()
    }

    /// The epoch from which on a move holds clients; `None` while it does not.
    pub(crate) fn held_since(&self, job: &str) -> Option<u64> {
        self.holds.get(job).copied()
    }
}

impl State {
    /// Puts it together anew where the records say something else than before; gives the tables that
    /// have to be read then.
    pub(crate) fn lay_out(&mut self) -> Option<Which> {
        let layout = &mut self.layout;
        let changed = layout.declared != self.records.declared;
        let read = changed.then(
            || match layout.declared.changed_tables(&self.records.declared) {
                Some(tables) => Which::These(tables),
                None => Which::All,
            },
        );
        let moves = moving(&self.records.moves, &mut layout.holds, layout.epoch + 1);
        if changed || moves != layout.moves {
            layout.declared = self.records.declared.clone();
            layout.moves = moves;
            layout.put_together();
        }
        read
    }

    /// Takes over what the servers say of the tables; true when it is news.
    pub(crate) fn describe(&mut self, schemas: Schemas) -> bool {
        if *self.layout.schemas == schemas {
            return false;
        }
        self.layout.schemas = Arc::new(schemas);
        self.layout.put_together();
        true
    }
}

impl Layout {
    fn put_together(&mut self) {
        self.epoch += 1;
        let sharding = together(&self.declared, &self.schemas, self.epoch);
        self.sharding = sharding.map(|mut sharding| {
            let moves = self.moves.iter().cloned();
            moves.for_each(|moving| sharding.moving(moving));
            Arc::new(sharding)
        });
    }
}

/// `None` while nothing is declared.
pub(crate) fn together(declared: &Declared, schemas: &Schemas, epoch: u64) -> Option<Sharding> {
    if declared.is_empty() {
        return None;
    }
    let maps = declared.maps.keys().filter_map(|&id| declared.map(id));
    let mut sharding = Sharding::new(epoch, maps.collect());
    for (id, map) in declared.maps.iter().filter(|(_, map)| !map.name.is_empty()) {
        sharding.name(*id, &map.name);
    }
    for (database, group) in &declared.databases {
        sharding.assign(database, group.as_str().into());
    }
    for record in declared.tables.values() {
        sharding.declare(&record.database, &record.table, placement(record));
    }
    for record in declared.expected.values() {
        let mut placement = placement(record);
        // Nobody knows its column yet.
        if let Placement::Sharded(table) = &mut placement
            && let Some(map) = declared.map(record.map)
        {
            table.key = key_of_map(&map);
        }
        sharding.expect(&record.database, &record.table, placement);
    }
    for ((database, table), schema) in schemas {
        sharding.describe(database, table, Arc::clone(schema));
    }
    planner::views::see(&mut sharding);
    Some(sharding)
}

/// Where a table is by its declaration.
fn placement(record: &TableRecord) -> Placement {
    match &record.key {
        None => Placement::Global { map: record.map },
        Some(key) => Placement::Sharded(ShardedTable {
            database: record.database.as_str().into(),
            table: record.table.as_str().into(),
            column: key.column.as_str().into(),
            key: key.key,
            map: record.map,
        }),
    }
}
