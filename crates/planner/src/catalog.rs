//! What the planner must know of tables.

use std::sync::Arc;

use farm::shard::ShardedTable;

/// How a table's rows are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// By its shard key.
    Sharded(&'a ShardedTable),
    /// On every group of this map, equal.
    Global { map: u32 },
    /// On one group.
    Single { group: &'a Arc<str> },
    /// Made of others in a way that is not known here: a view.
    Opaque,
}

/// Tells of each table what it is.
pub trait Catalog {
    /// `database` is that of the session where the statement names none.
    fn table(&self, database: &str, table: &str) -> Kind<'_>;
}
