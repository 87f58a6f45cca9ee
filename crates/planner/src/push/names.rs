//! The names of a statement's query blocks, and what its columns are.

use std::sync::Arc;

use farm::shard::{KeyType, ShardedTable};
use farm::sharding::{Column, TableSchema};
use sqlparser::ast::{Expr, Ident};
use sqltext::ticked;

/// Two names of columns or of items of a select list are the same name: case does not matter in any
/// script.
pub(super) fn alike(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other) || one.to_lowercase() == other.to_lowercase()
}

/// How rows of a table or derived table are placed.
#[derive(Clone)]
pub(super) struct Sharded {
    /// The column that is the shard key; empty where it is not shown.
    pub column: Arc<str>,
    pub key: KeyType,
    pub map: u32,
}

impl From<&ShardedTable> for Sharded {
    fn from(table: &ShardedTable) -> Sharded {
        Sharded {
            column: table.column.clone(),
            key: table.key,
            map: table.map,
        }
    }
}

/// A table or derived table as a block names it.
pub(super) struct Entry {
    pub database: Option<String>,
    pub name: String,
    /// `None` for one that is on every group.
    pub sharded: Option<Sharded>,
    /// `None` when its columns are not known.
    pub schema: Option<Arc<TableSchema>>,
    /// NULLs may stand for its rows.
    pub padded: bool,
    /// It is a derived table, whose columns are known as far as they are compared and added up.
    pub derived: bool,
}

/// All blocks around the place at hand.
#[derive(Default)]
pub(super) struct Names {
    pub entries: Vec<Entry>,
    /// Each block's entries, the innermost block last.
    pub scopes: Vec<Vec<usize>>,
}

impl Names {
    /// Takes up a name of the innermost block.
    pub(super) fn add(&mut self, entry: Entry) -> usize {
        self.entries.push(entry);
        let at = self.entries.len() - 1;
        if let Some(scope) = self.scopes.last_mut() {
            scope.push(at);
        }
        at
    }

    /// It is a name of the innermost block.
    pub(super) fn is_here(&self, entry: usize) -> bool {
        self.scopes.last().is_some_and(|it| it.contains(&entry))
    }

    /// The entries whose shard key an expression is. A column without a table is the key of those of
    /// the innermost block that have it; of several, the statement joins them by it. One that no table
    /// of the innermost block has is a column of a block around.
    pub(super) fn keys(&self, expr: &Expr) -> Vec<usize> {
        let is_key = |at: &usize, column: &Ident| {
            let sharded = self.entries[*at].sharded.as_ref();
            sharded.is_some_and(|it| it.column.eq_ignore_ascii_case(&column.value))
        };
        match expr {
            Expr::Nested(inner) => self.keys(inner),
            Expr::Identifier(column) => {
                // A table whose columns are not known may have it.
                let has = |at: &usize| {
                    let schema = self.entries[*at].schema.as_ref();
                    schema.is_none_or(|it| it.column(&column.value).is_some())
                };
                for scope in self.scopes.iter().rev() {
                    let found = scope.iter().copied().filter(|at| is_key(at, column));
                    let found: Vec<usize> = found.collect();
                    if !found.is_empty() || scope.iter().any(has) {
                        return found;
                    }
                }
                Vec::new()
            }
            Expr::CompoundIdentifier(path) => {
                let Some((column, table)) = path.split_last() else {
                    return Vec::new();
                };
                let found = self.named(table).filter(|at| is_key(at, column));
                found.into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// The entry that a path in front of a column means.
    fn named(&self, path: &[Ident]) -> Option<usize> {
        let (database, table) = match path {
            [table] => (None, table),
            [database, table] => (Some(database), table),
            _ => return None,
        };
        let called = |at: &usize| {
            let entry = &self.entries[*at];
            entry.name == table.value
                && database.is_none_or(|it| entry.database.as_deref() == Some(&it.value))
        };
        let mut scopes = self.scopes.iter().rev();
        scopes.find_map(|scope| {
            let mut found = scope.iter().copied().filter(called);
            let first = found.next()?;
            found.next().is_none().then_some(first)
        })
    }

    /// A column of the innermost block with its table in front, as which no item of the select list
    /// can be meant; `None` for what is no column.
    pub(super) fn qualified(&self, expr: &Expr) -> Option<String> {
        let (at, column) = self.column(expr)?;
        let entry = &self.entries[at];
        let called = |other: &usize| self.entries[*other].name == entry.name;
        let scope = self.scopes.last()?;
        // Two databases may have a table of this name.
        let alone = scope.iter().filter(|other| called(other)).count() == 1;
        let name = format!("{}.{}", ticked(&entry.name), ticked(&column.name));
        match (&entry.database, alone) {
            (_, true) => Some(name),
            (Some(database), false) => Some(format!("{}.{name}", ticked(database))),
            (None, false) => None,
        }
    }

    /// The column of the innermost block that an expression is.
    pub(super) fn column(&self, expr: &Expr) -> Option<(usize, &Column)> {
        let of = |at: usize, column: &Ident| {
            let schema = self.entries[at].schema.as_ref()?;
            Some((at, &schema.columns[schema.column(&column.value)?]))
        };
        match expr {
            Expr::Nested(inner) => self.column(inner),
            Expr::Identifier(column) => {
                let scope = self.scopes.last()?;
                // One whose columns are not known may have it.
                if scope.iter().any(|at| self.entries[*at].schema.is_none()) {
                    return None;
                }
                let mut found = scope.iter().filter_map(|at| of(*at, column));
                let first = found.next()?;
                found.next().is_none().then_some(first)
            }
            Expr::CompoundIdentifier(path) => {
                let (column, table) = path.split_last()?;
                let at = self.named(table).filter(|at| self.is_here(*at))?;
                of(at, column)
            }
            _ => None,
        }
    }
}
