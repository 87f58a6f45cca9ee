//! Views of which each shard has its part: as if they were sharded tables.

use std::sync::Arc;

use farm::shard::ShardedTable;
use farm::sharding::TableSchema;
use sqlparser::ast::{GroupByExpr, Query, Select, SelectItem, SetExpr};

use super::partition::Partition;
use super::shape::{Travels, Uses};
use crate::answer::Asked;
use crate::parse::Traits;

/// The table that a view with this body is like, when its rows are those that each shard makes of its
/// own tables. Its key has no column where the view does not show it.
pub(crate) fn sharded_view(
    view: &str,
    schema: &TableSchema,
    query: &Query,
    asked: &Asked<'_>,
) -> Option<ShardedTable> {
    let (SetExpr::Select(select), None) = (&*query.body, &query.with) else {
        return None;
    };
    let plain = query.limit_clause.is_none() && query.fetch.is_none() && query.locks.is_empty();
    let travels = Travels::of(query);
    if !plain || travels.clock || travels.stays.is_some() || Traits::of(query).binds_oddly {
        return None;
    }
    // An aggregate in ORDER BY makes one row of all.
    if !is_by_rows(select) || Uses::of(&query.order_by).aggregates {
        return None;
    }
    let partition = Partition::of(select, asked).ok()?;
    let base = (partition.names.entries.iter())
        .filter(|entry| !entry.padded)
        .find_map(|entry| entry.sharded.as_ref())?;
    let shown = |item: &SelectItem| {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
            return false;
        };
        partition.is_live_key(expr)
    };
    let same = select.projection.len() == schema.columns.len();
    let place = select.projection.iter().position(shown).filter(|_| same);
    let column: Arc<str> = place.map_or("".into(), |at| schema.columns[at].name.clone());
    Some(ShardedTable {
        database: asked.database.into(),
        table: view.into(),
        column,
        key: base.key,
        map: base.map,
    })
}

/// Each of its rows is made of one row of each table.
fn is_by_rows(select: &Select) -> bool {
    let groups = match &select.group_by {
        GroupByExpr::Expressions(groups, modifiers) => !groups.is_empty() || !modifiers.is_empty(),
        GroupByExpr::All(_) => true,
    };
    let uses = Uses::of_block(select);
    select.distinct.is_none()
        && select.having.is_none()
        && !groups
        && !uses.aggregates
        && uses.windows.is_empty()
        && !uses.odd_windows
}
