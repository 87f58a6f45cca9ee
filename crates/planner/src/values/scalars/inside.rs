//! What a scalar subquery must be like to be asked by itself: it reads tables over shards and global ones by their names,
//! and no name in it means anything around it.

use std::ops::ControlFlow;

use farm::sharding::{Column, TableSchema};
use sqlparser::ast::{
    BinaryOperator, Distinct, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    GroupByExpr, Ident, ObjectName, Query, Select, SetExpr, TableFactor, Value, Visit, Visitor,
};

use super::columns::ValueType;
use crate::answer::Asked;
use crate::catalog::{Catalog, Kind};
use crate::functions;

/// Products of more digits behind the point may be rounded.
const SCALE_MAX: u32 = 30;

/// The SELECT of a query that gives one row; `None` for one that is more than FROM and WHERE.
pub(super) fn plain(query: &Query) -> Option<&Select> {
    let more = query.with.is_some()
        || query.order_by.is_some()
        || query.limit_clause.is_some()
        || query.fetch.is_some()
        || !query.locks.is_empty();
    let SetExpr::Select(select) = &*query.body else {
        return None;
    };
    let ungrouped = matches!(&select.group_by, GroupByExpr::Expressions(groups, modifiers)
        if groups.is_empty() && modifiers.is_empty());
    let odd = !matches!(select.distinct, None | Some(Distinct::All))
        || select.having.is_some()
        || select.qualify.is_some()
        || select.into.is_some()
        || select.top.is_some()
        || !select.named_window.is_empty();
    (!more && !odd && ungrouped).then_some(&**select)
}

/// The aggregates of an item.
pub(super) fn aggregates(item: &Expr) -> usize {
    match item {
        Expr::Nested(inner) => aggregates(inner),
        Expr::BinaryOp { left, right, .. } => aggregates(left) + aggregates(right),
        Expr::Function(_) => 1,
        _ => 0,
    }
}

/// The name of an aggregate, in lower case, and its argument; without one for COUNT(*). `None` for any other call.
pub(super) fn argument(function: &Function) -> Option<(String, Option<&Expr>)> {
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let more = function.over.is_some()
        || function.filter.is_some()
        || function.null_treatment.is_some()
        || !function.within_group.is_empty()
        || !list.clauses.is_empty()
        || list.duplicate_treatment.is_some();
    let name = function.name.to_string().to_ascii_lowercase();
    match &list.args[..] {
        _ if more => None,
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))] => Some((name, Some(expr))),
        [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)] if name == "count" => Some((name, None)),
        _ => None,
    }
}

/// A table of the subquery.
struct Table<'a> {
    database: Option<String>,
    called: String,
    schema: &'a TableSchema,
}

/// The tables of a subquery.
pub(super) struct Inside<'a> {
    tables: Vec<Table<'a>>,
}

impl<'a> Inside<'a> {
    /// `None` where it is not sure that it can be asked by itself.
    pub(super) fn of(select: &Select, asked: &'a Asked<'a>) -> Option<Inside<'a>> {
        let mut inside = Inside { tables: Vec::new() };
        let mut over_shards = false;
        for from in &select.from {
            let joined = from.joins.iter().map(|join| &join.relation);
            for factor in std::iter::once(&from.relation).chain(joined) {
                let TableFactor::Table {
                    name,
                    alias,
                    args: None,
                    version: None,
                    partitions,
                    ..
                } = factor
                else {
                    return None;
                };
                let (database, table) = split(name)?;
                let of = database.unwrap_or(asked.database);
                over_shards |= match asked.tables().table(of, table) {
                    Kind::Sharded(_) => true,
                    Kind::Global { .. } => false,
                    Kind::Single { .. } | Kind::Opaque => return None,
                };
                let schema = asked.sharding.schema(of, table)?;
                if schema.view || !partitions.is_empty() {
                    return None;
                }
                inside.tables.push(Table {
                    database: alias.is_none().then(|| of.to_owned()),
                    called: match alias {
                        Some(alias) => alias.name.value.clone(),
                        None => table.to_owned(),
                    },
                    schema,
                });
            }
        }
        let mut reads = Reads {
            inside: &inside,
            odd: false,
        };
        let _ = select.visit(&mut reads);
        let odd = reads.odd;
        (over_shards && !odd).then_some(inside)
    }

    /// The column of one of its tables that a path means.
    fn column(&self, path: &[Ident]) -> Option<&Column> {
        let (column, qualifier) = path.split_last()?;
        let is = |table: &&Table<'_>| match qualifier {
            [] => true,
            [name] => name.value == table.called,
            [database, name] => {
                name.value == table.called && table.database.as_deref() == Some(&*database.value)
            }
            _ => false,
        };
        let mut tables = self.tables.iter().filter(is);
        tables.find_map(|it| Some(&it.schema.columns[it.schema.column(&column.value)?]))
    }

    fn column_of(&self, expr: &Expr) -> Option<&Column> {
        match expr {
            Expr::Nested(inner) => self.column_of(inner),
            Expr::Identifier(name) => self.column(std::slice::from_ref(name)),
            Expr::CompoundIdentifier(path) => self.column(path),
            _ => None,
        }
    }

    /// How the item's value is compared: an aggregate, or numbers that are computed of aggregates.
    pub(super) fn value_type(&self, item: &Expr) -> Option<ValueType> {
        match item {
            Expr::Nested(inner) => self.value_type(inner),
            Expr::Function(function) => match argument(function)? {
                (name, Some(of)) if name == "min" || name == "max" => {
                    ValueType::of(self.column_of(of)?)
                }
                _ => self.is_computable(item).then_some(ValueType::Number),
            },
            _ => self.is_computable(item).then_some(ValueType::Number),
        }
    }

    /// It is made of numbers with which servers compute alike, whether they stand there or come from rows.
    fn is_computable(&self, item: &Expr) -> bool {
        use BinaryOperator as Op;
        match item {
            Expr::Nested(inner) => self.is_computable(inner),
            Expr::Value(_) => self.scale(item).is_some(),
            Expr::BinaryOp {
                left,
                op: Op::Plus | Op::Minus | Op::Multiply | Op::Divide,
                right,
            } => self.is_computable(left) && self.is_computable(right),
            Expr::Function(function) => match argument(function) {
                Some((name, _)) if name == "count" => true,
                Some((name, Some(of))) if name == "sum" || name == "avg" => {
                    self.scale(of).is_some()
                }
                // An integer without a sign would be one with it.
                Some((name, Some(of))) if name == "min" || name == "max" => {
                    let column = self.column_of(of);
                    column.is_some_and(|it| matches!(&*it.data_type, "decimal" | "numeric"))
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// So many digits an exact number has behind the point; `None` for what is not sure to be one.
    fn scale(&self, expr: &Expr) -> Option<u32> {
        use BinaryOperator as Op;
        let scale = match expr {
            Expr::Nested(inner) => self.scale(inner)?,
            Expr::Value(value) => match &value.value {
                Value::Number(digits, _) if !digits.contains(['e', 'E', 'x', 'X']) => {
                    let behind = digits.split_once('.').map_or(0, |(_, behind)| behind.len());
                    u32::try_from(behind).ok()?
                }
                _ => return None,
            },
            Expr::BinaryOp { left, op, right } => {
                let (left, right) = (self.scale(left)?, self.scale(right)?);
                match op {
                    Op::Plus | Op::Minus => left.max(right),
                    Op::Multiply => left + right,
                    _ => return None,
                }
            }
            _ => {
                let column = self.column_of(expr)?;
                if ValueType::of(column)? != ValueType::Number {
                    return None;
                }
                digits_behind(&column.full_type)?
            }
        };
        (scale <= SCALE_MAX).then_some(scale)
    }
}

/// Of `decimal(15,2)` the 2; of integers none.
fn digits_behind(full_type: &str) -> Option<u32> {
    let Some((_, behind)) = full_type.split_once(',') else {
        return Some(0);
    };
    behind.split(')').next()?.trim().parse().ok()
}

fn split(name: &ObjectName) -> Option<(Option<&str>, &str)> {
    let part = |at: usize| Some(&*name.0.get(at)?.as_ident()?.value);
    match name.0.len() {
        1 => Some((None, part(0)?)),
        2 => Some((Some(part(0)?), part(1)?)),
        _ => None,
    }
}

/// Looks for what would make the subquery depend on more than its tables.
struct Reads<'i, 'a> {
    inside: &'i Inside<'a>,
    odd: bool,
}

impl Visitor for Reads<'_, '_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.odd = true;
        ControlFlow::Break(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.odd |= match expr {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
                self.inside.column_of(expr).is_none()
            }
            Expr::Function(function) => {
                let pure = functions::is_pure(&function.name.to_string());
                let over = function.over.is_some() || function.filter.is_some();
                over || !(pure || argument(function).is_some_and(|it| is_plain_aggregate(&it.0)))
            }
            Expr::Value(value) => matches!(value.value, Value::Placeholder(_)),
            Expr::MatchAgainst { .. } => true,
            _ => false,
        };
        ControlFlow::Continue(())
    }
}

fn is_plain_aggregate(name: &str) -> bool {
    matches!(name, "sum" | "count" | "avg" | "min" | "max")
}
