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

    /// It is a view over several groups, which is read like a table, and not changed like one.
    fn is_view(&self, _database: &str, _table: &str) -> bool {
        false
    }

    /// It is such a view, and each of its rows is one of a sharded table, with columns of that: a
    /// statement that changes it alone each group carries out on its part.
    fn is_changeable(&self, _database: &str, _table: &str) -> bool {
        false
    }
}
