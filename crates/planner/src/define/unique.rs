//! Unique keys that a statement gives a sharded table: servers keep them unique on each shard only.

use farm::shard::ShardedTable;
use sqltext::PieceKind;

use super::{Named, Reader};

impl Reader<'_> {
    /// Why a unique key that ALTER TABLE makes, behind the word at `from`, cannot be on this table. DROP
    /// PRIMARY KEY makes none.
    pub(super) fn torn_unique(&self, from: usize, table: &ShardedTable) -> Option<String> {
        let makes = |at: &usize| {
            let primary = self.is(*at, "primary") && self.is(at + 1, "key");
            self.is(*at, "unique") || (primary && !self.is(at - 1, "drop"))
        };
        let mut keys = (from.max(1)..self.words.len()).filter(makes);
        keys.find_map(|at| self.torn_list(at, table))
    }

    /// Why the columns of the next list cannot be a unique key of this table. A column's own UNIQUE has
    /// no list: the column is another than the shard key.
    pub(super) fn torn_list(&self, at: usize, table: &ShardedTable) -> Option<String> {
        let columns = self.list_behind(at);
        let whole = columns
            .iter()
            .any(|column| self.is_unique_over_all(column, table));
        if whole {
            return None;
        }
        let full = format!("{}.{}", table.database, table.table);
        let column = &table.column;
        Some(format!(
            "a unique key of {full} without {column} would be unique on each shard only: add {column} \
             to it; or, if the application keeps it unique, take the table off its map, make the key, \
             and declare the table with --checked"
        ))
    }

    /// With the shard key equal rows are on one shard; ids are Heddle's own.
    fn is_unique_over_all(&self, column: &str, table: &ShardedTable) -> bool {
        let named = |name: &str| name.eq_ignore_ascii_case(column);
        let sharding = self.around.sharding;
        let schema = sharding.schema(&table.database, &table.table);
        let ids = schema.and_then(|schema| schema.auto_increment());
        named(&table.column) || ids.is_some_and(|ids| named(&ids.name))
    }

    /// The columns of the list that follows the words of a key; empty where none does.
    fn list_behind(&self, at: usize) -> Vec<String> {
        let ends = |at: &usize| {
            matches!(
                self.kind(*at),
                None | Some(PieceKind::Open | PieceKind::Comma | PieceKind::Semicolon)
            )
        };
        let Some(open) = (at..).find(ends) else {
            return Vec::new();
        };
        if self.kind(open) != Some(PieceKind::Open) {
            return Vec::new();
        }
        let (mut columns, mut depth, mut first) = (Vec::new(), 0, false);
        for at in open..self.words.len() {
            match self.kind(at) {
                Some(PieceKind::Open) => {
                    depth += 1;
                    first = depth == 1;
                    continue;
                }
                Some(PieceKind::Close) => depth -= 1,
                Some(PieceKind::Comma) if depth == 1 => {
                    first = true;
                    continue;
                }
                _ if first => columns.extend(self.text_of(at)),
                _ => {}
            }
            first = false;
            if depth == 0 {
                break;
            }
        }
        columns
    }

    /// The sharded table of this name.
    pub(super) fn sharded(&self, (database, table): &Named) -> Option<&ShardedTable> {
        match self.around.sharding.placed(database, table) {
            farm::sharding::Placed::Sharded(table) => Some(table),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::define::tests::told;

    #[test]
    fn unique_keys_have_the_shard_key() {
        for text in [
            "ALTER TABLE orders ADD UNIQUE (a, b)",
            "ALTER TABLE orders ADD c INT, ADD CONSTRAINT u UNIQUE KEY k (a(10), b DESC)",
            "ALTER TABLE orders ADD COLUMN c INT UNIQUE",
            "ALTER TABLE orders ADD c INT UNIQUE KEY, ADD INDEX (customer_id)",
            "ALTER TABLE orders DROP PRIMARY KEY, ADD PRIMARY KEY (a)",
            "CREATE UNIQUE INDEX u ON orders (a)",
            "CREATE OR REPLACE UNIQUE INDEX u USING BTREE ON shop.orders (a, f(customer_id))",
        ] {
            let why = told(text);
            assert!(why.contains("unique on each shard only"), "{text}: {why}");
        }
        for text in [
            "ALTER TABLE orders ADD UNIQUE (a, Customer_ID)",
            "ALTER TABLE orders ADD UNIQUE INDEX u USING HASH (`customer_id`, a)",
            "ALTER TABLE orders ADD INDEX (a), ADD PRIMARY KEY (customer_id, a)",
            "CREATE INDEX u ON orders (a)",
            "CREATE UNIQUE INDEX u ON orders (b, customer_id)",
            "ALTER TABLE notes ADD UNIQUE (a)",
            "DROP INDEX u ON orders",
        ] {
            assert_eq!(told(text), "g1 g2 g3", "{text}");
        }
    }
}
