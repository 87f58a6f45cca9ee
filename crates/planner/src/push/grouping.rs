//! What the shards group their rows by, so that parts can be put together: the columns and expressions of
//! GROUP BY, and the values that DISTINCT counts or adds up.
//!
//! An expression is computed anew over the parts, so that it has the type that it has over the tables. For
//! that a column of it is sent: within a group of the expression any value of the column makes the same, so
//! the least one stands for all. That holds for one column of an expression; where it has several, the
//! shards group by each of them. Columns whose equal values are not the same, as texts of most collations,
//! are alone in such an expression, or it is not known.

use std::ops::ControlFlow;
use std::sync::Arc;

use farm::sharding::Column;
use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments,
    GroupByExpr, Query, Visit, Visitor,
};
use sqltext::{Piece, PieceKind};

use super::is_constant;
use super::kinds::{self, Kind};
use super::partial::{Maker, Sent, bytes, is_aggregate, of_parts};
use crate::columns::{asked_as, declared_as};
use crate::functions;

/// A column that a block's names tell: its table's place, its name.
pub(super) type Named = (usize, Arc<str>);

/// What the parts are grouped by.
#[derive(Default)]
pub(super) struct Grouping<'r> {
    /// Columns that the parts' table has, with their places in it.
    held: Vec<(Named, usize)>,
    /// Those of them by which the shards group.
    keys: Vec<Named>,
    /// The texts of the fragment's GROUP BY.
    pub by: Vec<String>,
    /// Expressions of the statement's GROUP BY that are no columns.
    expressions: Vec<&'r Expr>,
}

impl Grouping<'_> {
    /// It is one of the expressions that the statement groups by.
    pub(super) fn has(&self, expr: &Expr) -> bool {
        self.expressions.contains(&expr)
    }

    /// The place of a column in the parts' table; outside of what is grouped by, only keys have one value.
    pub(super) fn place(&self, column: &Named, within: bool) -> Option<usize> {
        let held = self.held.iter().find(|(it, _)| it == column);
        held.filter(|_| within || self.keys.contains(column))
            .map(|(_, at)| *at)
    }
}

impl<'r> Maker<'r, '_> {
    /// GROUP BY.
    pub(super) fn groups(&mut self) -> Result<(), String> {
        let read = self.read;
        let GroupByExpr::Expressions(groups, _) = &read.select.group_by else {
            return Err("GROUP BY ALL".to_owned());
        };
        if groups.len() != read.clauses.groups.len() {
            return Err("its clauses are not sure".to_owned());
        }
        let mut computed = Vec::new();
        for (group, span) in groups.iter().zip(&read.clauses.groups) {
            if read.items_called(group) > 1 {
                return Err("it is grouped by the name of several items".to_owned());
            }
            let (expr, item) = read.meant_by_group(group)?;
            match read.partition.names.column(expr) {
                Some((table, column)) => {
                    let at = self.key(table, column, expr)?;
                    self.edits
                        .push((bytes(*span), of_parts(&read.own_name(at))));
                }
                None => computed.push((expr, item, *span)),
            }
        }
        for (expr, item, span) in computed {
            let text = match item {
                Some(item) => read.item_text(item)?,
                None => read.piece(span)?,
            };
            self.group_by(expr, text.to_owned())?;
            self.grouping.expressions.push(expr);
            // The name or number of an item stays what it is.
            if item.is_none() {
                self.expression(expr, span)?;
            }
        }
        Ok(())
    }

    /// The place of a column by which the shards group.
    fn key(&mut self, table: usize, column: &Column, expr: &Expr) -> Result<usize, String> {
        let text = self.text_of(expr)?.to_owned();
        let named = (table, column.name.clone());
        let at = self.hold(table, column, text.clone())?;
        if !self.grouping.keys.contains(&named) {
            self.grouping.by.push(text);
            self.grouping.keys.push(named);
        }
        Ok(at)
    }

    /// The place of a column in the parts' table, where `text` is what the shards send for it.
    fn hold(&mut self, table: usize, column: &Column, text: String) -> Result<usize, String> {
        if self.read.partition.names.entries[table].derived {
            return Err("it is grouped by a derived table's column".to_owned());
        }
        if kinds::of_column(column).is_none() {
            return Err("it is grouped by a column of another type".to_owned());
        }
        let named = (table, column.name.clone());
        if let Some(at) = self.grouping.place(&named, true) {
            return Ok(at);
        }
        let (text, written) = asked_as(column, &text);
        let at = self.sent.len();
        self.sent.push(Sent {
            text,
            declared: declared_as(column, &self.read.own_name(at), true),
            written,
        });
        self.grouping.held.push((named, at));
        Ok(at)
    }

    /// Has the shards group by an expression, or by its columns.
    fn group_by(&mut self, expr: &Expr, text: String) -> Result<(), String> {
        let read = self.read;
        let mut columns = Columns::default();
        if let ControlFlow::Break(why) = expr.visit(&mut columns) {
            return Err(why);
        }
        let mut all: Vec<(Named, Column, Expr)> = Vec::new();
        for expr in columns.found {
            let (table, column) = (read.partition.names.column(&expr))
                .ok_or_else(|| "a name is used that is no column of its groups".to_owned())?;
            let named = (table, column.name.clone());
            if !all.iter().any(|(it, ..)| *it == named) {
                all.push((named, column.clone(), expr));
            }
        }
        let is_loose = all.iter().any(|(_, column, _)| !is_exact(column));
        if is_loose && all.len() > 1 {
            return Err("it is grouped by an expression of several columns with texts".to_owned());
        }
        let is_free = |it: &&(Named, Column, Expr)| !self.grouping.keys.contains(&it.0);
        let free: Vec<&(Named, Column, Expr)> = all.iter().filter(is_free).collect();
        match &free[..] {
            [] if all.is_empty() => Err("it is grouped by a constant".to_owned()),
            [] => {
                if is_loose {
                    self.by(text);
                }
                Ok(())
            }
            [((table, _), column, expr)]
                if !matches!(kinds::of_column(column), None | Some(Kind::Numbered)) =>
            {
                let least = format!("MIN({})", self.text_of(expr)?);
                self.hold(*table, column, least)?;
                self.by(text);
                Ok(())
            }
            _ => {
                self.is_finer = true;
                for ((table, _), column, expr) in free {
                    self.key(*table, column, expr)?;
                }
                Ok(())
            }
        }
    }

    fn by(&mut self, text: String) {
        if !self.grouping.by.contains(&text) {
            self.grouping.by.push(text);
        }
    }

    /// An aggregate of DISTINCT values, which runs over the parts as it is written: the shards group by its
    /// values, too.
    pub(super) fn distinct(&mut self, function: &Function) -> Result<(), String> {
        let name = function.name.to_string().to_ascii_lowercase();
        let not = || Self::not(&name);
        let FunctionArguments::List(list) = &function.args else {
            return Err(not());
        };
        let plain = list.args.iter().map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        });
        let arguments: Vec<&Expr> = plain.collect::<Option<_>>().ok_or_else(not)?;
        let is_argument = |expr: &Expr| arguments.contains(&expr) && !is_constant(expr);
        let clause = |clause: &FunctionArgumentClause| match clause {
            FunctionArgumentClause::OrderBy(orders) => {
                orders.iter().all(|order| is_argument(&order.expr))
            }
            FunctionArgumentClause::Separator(_) => true,
            _ => false,
        };
        let known = match &*name {
            "count" => list.clauses.is_empty(),
            // Of other numbers the sum depends on the order.
            "sum" | "avg" => {
                list.clauses.is_empty()
                    && matches!(arguments[..], [one] if self.scale(one).is_some())
            }
            "group_concat" => list.clauses.iter().all(clause),
            _ => false,
        };
        let place = self.call(function).filter(|_| known).ok_or_else(not)?;
        self.is_finer = true;
        let texts = argument_texts(self.all, place, self.read.text);
        let texts = texts.filter(|it| it.len() == arguments.len());
        for (expr, text) in arguments.into_iter().zip(texts.ok_or_else(not)?) {
            match self.read.partition.names.column(expr) {
                Some((table, column)) => drop(self.key(table, column, expr)?),
                None => self.group_by(expr, text)?,
            }
        }
        Ok(())
    }
}

/// Equal values are the same.
fn is_exact(column: &Column) -> bool {
    use Kind::{Bytes, Day, Exact, Numbered, Time, Timestamp};
    let kind = kinds::of_column(column);
    matches!(
        kind,
        Some(Exact | Day | Time | Timestamp | Numbered | Bytes)
    )
}

/// The texts of the arguments of a call with DISTINCT, without what stands behind them.
fn argument_texts(all: &[Piece], place: (usize, usize), text: &str) -> Option<Vec<String>> {
    let within =
        |piece: &&Piece| place.0 <= piece.span.start as usize && piece.span.end as usize <= place.1;
    let mut pieces = all.iter().filter(within).skip(1);
    pieces.next().filter(|it| it.kind == PieceKind::Open)?;
    let first = pieces.next()?;
    first.is(text.as_bytes(), "DISTINCT").then_some(())?;
    let (mut start, mut end) = (None, 0);
    let (mut depth, mut found) = (0usize, Vec::new());
    for piece in pieces {
        let ends = depth == 0
            && (matches!(piece.kind, PieceKind::Close | PieceKind::Comma)
                || ["ORDER", "SEPARATOR"]
                    .iter()
                    .any(|it| piece.is(text.as_bytes(), it)));
        if ends {
            found.push(text[start.take()?..end].to_owned());
            if piece.kind != PieceKind::Comma {
                return Some(found);
            }
            continue;
        }
        match piece.kind {
            PieceKind::Open => depth += 1,
            PieceKind::Close => depth -= 1,
            _ => {}
        }
        start = start.or(Some(piece.span.start as usize));
        end = piece.span.end as usize;
    }
    None
}

/// The columns of an expression that gives the same for the same columns.
#[derive(Default)]
struct Columns {
    found: Vec<Expr>,
}

impl Visitor for Columns {
    type Break = String;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<String> {
        ControlFlow::Break("a subquery stands among its groups".to_owned())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<String> {
        match expr {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => self.found.push(expr.clone()),
            Expr::TypedString(_) => {
                return ControlFlow::Break(Maker::not("a literal with its type"));
            }
            Expr::Function(function) => {
                let name = function.name.to_string();
                if is_aggregate(expr) || function.over.is_some() || !functions::is_pure(&name) {
                    return ControlFlow::Break(Maker::not(&name));
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
