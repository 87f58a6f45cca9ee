//! By which columns tables that are sent may be divided among the groups, instead of being sent to each as a whole.
//!
//! Job: find columns of them that the statement compares with shard keys of the tables which stay.
//!
//! Invariants: what is found is a proposal. A table that is divided is declared as one that is sharded by that column, and
//! the pushdown proves that each group can answer for its own rows then. What it takes for granted of shard keys has to
//! hold of the columns that are proposed: they compare exactly, and where a NULL would count they have none.
//!
//! Must not know: sizes.

use std::ops::ControlFlow;

use farm::shard::{KeyType, ShardKind};
use farm::sharding::TableSchema;
use sqlparser::ast::{BinaryOperator, Expr, Query, Select, SelectItem, SetExpr, Visit, Visitor};

use crate::belongs::key_type;

/// Of each table so many columns are tried.
const COLUMNS_MAX: usize = 2;

/// Names of columns that a statement compares by `=`.
#[derive(Default)]
pub(super) struct Compared {
    pairs: Vec<(String, String)>,
    /// A NULL may count as a value, or may make another row count for less.
    tells_nulls: bool,
}

impl Compared {
    pub(super) fn of(query: &Query) -> Compared {
        let mut compared = Compared::default();
        let _ = query.visit(&mut compared);
        compared
    }

    /// The names that are compared with one of these, or with what is.
    fn names(&self, keys: Vec<String>) -> Vec<String> {
        let mut names = keys;
        loop {
            let new = self.pairs.iter().find_map(|(one, other)| {
                match (names.contains(one), names.contains(other)) {
                    (true, false) => Some(other.clone()),
                    (false, true) => Some(one.clone()),
                    _ => None,
                }
            });
            match new {
                Some(new) => names.push(new),
                None => return names,
            }
        }
    }

    /// The places of the columns by which rows may be divided that meet tables with these shard keys.
    pub(super) fn columns(
        &self,
        schema: &TableSchema,
        kind: ShardKind,
        keys: Vec<String>,
    ) -> Vec<usize> {
        let names = self.names(keys);
        let fits = |at: &usize| {
            let column = &schema.columns[*at];
            names.contains(&column.name.to_lowercase())
                && key_type(kind, column) == Ok(KeyType::Integer)
                && !(column.nullable && self.tells_nulls)
        };
        let columns = (0..schema.columns.len()).filter(fits);
        columns.take(COLUMNS_MAX).collect()
    }

    fn pair(&mut self, one: &Expr, other: &Expr) {
        match (one, other) {
            (Expr::Tuple(ones), Expr::Tuple(others)) => {
                let all = ones.iter().zip(others);
                all.for_each(|(one, other)| self.pair(one, other));
            }
            _ => {
                if let (Some(one), Some(other)) = (name(one), name(other)) {
                    self.pairs.push((one, other));
                }
            }
        }
    }

    /// What an IN compares with the items of its query.
    fn within(&mut self, expr: &Expr, select: &Select) {
        let compared = match expr {
            Expr::Tuple(items) => &items[..],
            one => std::slice::from_ref(one),
        };
        for (one, item) in compared.iter().zip(&select.projection) {
            if let SelectItem::UnnamedExpr(other) | SelectItem::ExprWithAlias { expr: other, .. } =
                item
            {
                self.pair(one, other);
            }
        }
    }
}

impl Visitor for Compared {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if let SetExpr::Select(select) = &*query.body {
            for item in &select.projection {
                if let SelectItem::ExprWithAlias { expr, alias } = item
                    && let Some(name) = name(expr)
                {
                    self.pairs.push((name, alias.value.to_lowercase()));
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::BinaryOp { left, op, right } => {
                self.tells_nulls |= *op == BinaryOperator::Spaceship;
                if *op == BinaryOperator::Eq {
                    self.pair(left, right);
                }
            }
            Expr::InSubquery { expr, subquery, .. } => {
                self.tells_nulls = true;
                if let SetExpr::Select(select) = &*subquery.body {
                    self.within(expr, select);
                }
            }
            Expr::AnyOp { .. } | Expr::AllOp { .. } => self.tells_nulls = true,
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The name of a column, whosever it is.
fn name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Nested(inner) => name(inner),
        Expr::Identifier(column) => Some(column.value.to_lowercase()),
        Expr::CompoundIdentifier(path) => Some(path.last()?.value.to_lowercase()),
        _ => None,
    }
}
