//! What placing tables otherwise would save: cures for one statement, and proposals for all that a farm runs.
//!
//! Job: think of other shard keys and global tables, and ask the planner itself what it would make of
//! statements then. So a cure is never promised that the planner does not keep.
//!
//! Invariants: nothing here changes where tables are; columns are found by name as well as a text tells
//! them, and a wrong guess costs a vain question to the planner, no more.
//!
//! Must not know: servers, commands, where the numbers of statements and tables come from.

mod cure;
mod terms;
mod way;
mod weigh;

use std::fmt;

use farm::shard::{ShardKind, ShardedTable};
use farm::sharding::{Placed, Placement, Sharding, TableSchema};
use sqltext::ticked;

use crate::belongs::key_type;
use crate::views;

pub use cure::{Cure, candidates, helps};
pub use weigh::{Counted, Proposal, Size, Sizes, Work, advise};

/// A table is to be placed otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Change {
    pub database: String,
    pub table: String,
    pub to: To,
}

/// Where the table's rows would be.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum To {
    /// By this column.
    Key(String),
    /// On all groups.
    Global,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("{}.{}", ticked(&self.database), ticked(&self.table));
        match &self.to {
            To::Key(column) => write!(f, "shard {name} by {}", ticked(column)),
            To::Global => write!(f, "make {name} global"),
        }
    }
}

impl Change {
    /// The table is so placed already.
    fn is_done(&self, sharding: &Sharding) -> bool {
        match (sharding.placed(&self.database, &self.table), &self.to) {
            (Placed::Sharded(table), To::Key(column)) => table.column.eq_ignore_ascii_case(column),
            (Placed::Global(_), To::Global) => true,
            _ => false,
        }
    }

    /// Where the table would be; `None` where its map or its definition does not allow it.
    fn placement(&self, sharding: &Sharding, map: u32) -> Option<Placement> {
        let schema = sharding.schema(&self.database, &self.table)?;
        let kind = sharding.map(map)?.map.kind;
        match &self.to {
            _ if schema.view => None,
            To::Global => (!schema.primary.is_empty()).then_some(Placement::Global { map }),
            To::Key(column) => {
                let column = &schema.columns[schema.column(column)?];
                let key = key_type(kind, column).ok().filter(|_| !column.generated)?;
                Some(Placement::Sharded(ShardedTable {
                    database: self.database.as_str().into(),
                    table: self.table.as_str().into(),
                    column: column.name.clone(),
                    key,
                    map,
                }))
            }
        }
    }
}

/// The farm's tables as they would be; `None` where one cannot be placed so.
pub fn changed(sharding: &Sharding, map: u32, changes: &[Change]) -> Option<Sharding> {
    let mut then = sharding.clone();
    for change in changes {
        let placement = change.placement(sharding, map)?;
        then.declare(&change.database, &change.table, placement);
    }
    views::see(&mut then);
    Some(then)
}

/// A unique key has neither the column nor one that gives ids: servers keep it unique on each shard only.
pub fn tears_unique(schema: &TableSchema, column: &str) -> bool {
    let Some(at) = schema.column(column) else {
        return false;
    };
    let covers = |place: &u16| {
        let place = usize::from(*place);
        let of = schema.columns.get(place);
        place == at || of.is_some_and(|column| column.auto_increment)
    };
    let all = std::iter::once(&schema.primary).chain(&schema.unique);
    let mut keys = all.filter(|columns| !columns.is_empty());
    keys.any(|columns| !columns.iter().any(covers))
}

/// The map on which most is: of the first table that has one, else the farm's first; `None` without maps.
fn map_of(sharding: &Sharding, tables: &[(String, String)]) -> Option<u32> {
    let placed =
        tables
            .iter()
            .find_map(|(database, table)| match sharding.placed(database, table) {
                Placed::Sharded(table) => Some(table.map),
                Placed::Global(map) => Some(map),
                Placed::Group(_) | Placed::Home => None,
            });
    placed.or_else(|| Some(sharding.maps().first()?.map.id))
}

/// The kind of map that spreads keys evenly without anybody's looking after it.
pub const KIND: ShardKind = ShardKind::Slots;
