//! A derived table of which each shard has its part: its rows are made of one shard's rows each, as those
//! of a sharded table are, and lie with the others of equal keys.

use std::sync::Arc;

use farm::sharding::{Column, TableSchema};
use sqlparser::ast::{
    Distinct, Expr, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr, TableAlias,
};

use super::expr_of;
use super::names::{Entry, Names, Sharded};
use super::partition::Partition;
use super::scale;
use super::shape::Uses;
use crate::parse::Inner;

/// Columns of these types have them in a derived table, too, and compare there as they do in the table.
const KEPT: [&str; 12] = [
    "tinyint",
    "smallint",
    "mediumint",
    "int",
    "integer",
    "bigint",
    "decimal",
    "numeric",
    "date",
    "datetime",
    "char",
    "varchar",
];

impl Partition<'_> {
    /// Takes up such a derived table.
    ///
    /// # Errors
    /// Why it has rows that no shard can make by itself.
    pub(super) fn parted(
        &mut self,
        query: &Query,
        alias: &TableAlias,
    ) -> Result<Vec<usize>, String> {
        let (SetExpr::Select(select), None) = (&*query.body, &query.with) else {
            return Err("a derived table is over shards".to_owned());
        };
        if query.limit_clause.is_some() || query.fetch.is_some() {
            return Err("a derived table has a LIMIT".to_owned());
        }
        let odd = !query.locks.is_empty()
            || !alias.columns.is_empty()
            || !Inner::of(&query.order_by).is_empty()
            || Uses::of(&query.order_by).aggregates;
        if odd {
            return Err("a derived table has a form that is not known".to_owned());
        }
        let inner = Partition::of(select, self.asked)?;
        rows_are_of_shards(&inner, select)?;
        let columns = select
            .projection
            .iter()
            .map(|item| column(&inner.names, item));
        let columns: Option<Vec<Column>> = columns.collect();
        let columns = columns.ok_or_else(|| "a derived table selects *".to_owned())?;
        let sharded = placed(&inner, select, &columns)
            .ok_or_else(|| "a derived table is over shards".to_owned())?;
        self.maps.extend(&inner.maps);
        let at = self.names.add(Entry {
            database: None,
            name: alias.name.value.clone(),
            sharded: Some(sharded),
            schema: Some(Arc::new(TableSchema {
                columns,
                ..TableSchema::default()
            })),
            padded: false,
            derived: true,
        });
        Ok(vec![at])
    }
}

/// Each row is made of rows of one shard, and no other shard makes it.
fn rows_are_of_shards(inner: &Partition<'_>, select: &Select) -> Result<(), String> {
    let GroupByExpr::Expressions(groups, modifiers) = &select.group_by else {
        return Err("GROUP BY ALL".to_owned());
    };
    let uses = Uses::of_block(select);
    let is_key = |expr: &Expr| inner.is_live_key(expr);
    let divided = |keys: &Vec<Expr>| keys.iter().any(is_key);
    let windows =
        uses.odd_windows || !select.named_window.is_empty() || !uses.windows.iter().all(divided);
    if windows || !modifiers.is_empty() {
        return Err("a derived table has windows or a ROLLUP".to_owned());
    }
    if (!groups.is_empty() || uses.aggregates) && !groups.iter().any(is_key) {
        return Err("a derived table has groups of which each shard has a part".to_owned());
    }
    let mut items = select.projection.iter().filter_map(expr_of);
    match &select.distinct {
        None | Some(Distinct::All) => Ok(()),
        Some(Distinct::Distinct) if items.any(is_key) => Ok(()),
        Some(_) => Err("a derived table has rows that several shards may have".to_owned()),
    }
}

/// Where its rows lie: by the key that it shows, if it shows one.
fn placed(inner: &Partition<'_>, select: &Select, columns: &[Column]) -> Option<Sharded> {
    let mut items = select.projection.iter().filter_map(expr_of);
    let shown = items.position(|it| inner.is_live_key(it));
    let mut entries = inner.names.entries.iter();
    let base = match shown {
        Some(at) => {
            let expr = expr_of(&select.projection[at])?;
            let live = |at: &usize| !inner.names.entries[*at].padded && inner.names.is_here(*at);
            let of = inner.names.keys(expr).into_iter().find(live)?;
            &inner.names.entries[of]
        }
        None => entries.find(|it| it.sharded.is_some() && !it.padded)?,
    };
    Some(Sharded {
        column: shown.map_or("".into(), |at| columns[at].name.clone()),
        ..base.sharded.clone()?
    })
}

/// A column as far as it is known; one that is only counted has no type.
fn column(names: &Names, item: &SelectItem) -> Option<Column> {
    let expr = expr_of(item)?;
    let label: &Ident = match item {
        SelectItem::ExprWithAlias { alias, .. } => alias,
        _ => match expr {
            Expr::Identifier(name) => name,
            Expr::CompoundIdentifier(path) => path.last()?,
            _ => return Some(unknown("")),
        },
    };
    let unknown = unknown(&label.value);
    let table = names.column(expr).map(|(_, column)| column);
    if let Some(table) = table.filter(|it| KEPT.contains(&&*it.data_type)) {
        return Some(Column {
            name: unknown.name,
            nullable: true,
            auto_increment: false,
            generated: false,
            invisible: false,
            default: None,
            ..table.clone()
        });
    }
    Some(match digits(names, expr) {
        Some(digits) => Column {
            data_type: "decimal".into(),
            full_type: format!("decimal(65,{digits})").into(),
            ..unknown
        },
        None => unknown,
    })
}

/// The digits behind the point of what is counted or added up exactly.
fn digits(names: &Names, expr: &Expr) -> Option<usize> {
    let Expr::Function(function) = expr else {
        return scale::of(names, expr);
    };
    let arguments = super::kinds::arguments(function);
    let name = function.name.to_string().to_ascii_lowercase();
    match (&*name, &arguments[..]) {
        _ if function.over.is_some() => None,
        ("count", _) => Some(0),
        ("sum", [argument]) => scale::of(names, argument),
        _ => scale::of(names, expr),
    }
}

fn unknown(name: &str) -> Column {
    Column {
        name: name.into(),
        data_type: "".into(),
        full_type: "".into(),
        collation: None,
        nullable: true,
        auto_increment: false,
        generated: false,
        invisible: false,
        default: None,
    }
}
