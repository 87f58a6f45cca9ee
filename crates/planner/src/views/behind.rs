//! The table that stands behind a view.
//!
//! Must not know: where a view's body stands in a statement.

use farm::Sharding;
use farm::sharding::{Look, Placed, Placement};
use sqlparser::ast::{Expr, Ident, SelectItem, SetExpr, TableFactor};
use sqltext::{Dialect, Mode};

use crate::parse;

/// Views of views are looked through so often.
pub(super) const DEPTH_MAX: usize = 16;

/// The table whose rows a view shows, one row of it for each row of the view, on the same group. `None` for
/// views that are made of several tables, and for those in which two columns are the shard key.
pub(crate) fn base_of(sharding: &Sharding, database: &str, view: &str) -> Option<(String, String)> {
    let (mut database, mut view) = (database.to_owned(), view.to_owned());
    for _ in 0..DEPTH_MAX {
        let Some(Look::Alone | Look::Placed(Placement::Sharded(_))) =
            sharding.look(&database, &view)
        else {
            return None;
        };
        let body = sharding.schema(&database, &view)?.body.as_deref()?;
        let query = parse::query(body, &Mode::new(Dialect::MariaDb, 101_100)).ok()?;
        let SetExpr::Select(select) = &*query.body else {
            return None;
        };
        let [from] = &select.from[..] else {
            return None;
        };
        let (TableFactor::Table { name, .. }, []) = (&from.relation, &from.joins[..]) else {
            return None;
        };
        let names: Option<Vec<&Ident>> = name.0.iter().map(|it| it.as_ident()).collect();
        let (of, table) = match names.as_deref()? {
            [table] => (database, *table),
            [of, table] => (of.value.clone(), *table),
            _ => return None,
        };
        let Placed::Sharded(base) = sharding.placed(&of, &table.value) else {
            return None;
        };
        let keys = select
            .projection
            .iter()
            .filter(|it| is_column(it, &base.column));
        if keys.count() > 1 {
            return None;
        }
        (database, view) = (of, table.value.clone());
        let schema = sharding.schema(&database, &view)?;
        if !schema.view {
            return Some((database, view));
        }
    }
    None
}

/// The item is the column of that name.
fn is_column(item: &SelectItem, column: &str) -> bool {
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
        // What `*` stands for is not said.
        return true;
    };
    let mut expr = expr;
    while let Expr::Nested(inner) = expr {
        expr = inner;
    }
    let name = match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(path) => path.last(),
        _ => None,
    };
    name.is_some_and(|name| name.value.eq_ignore_ascii_case(column))
}
