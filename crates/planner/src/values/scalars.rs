//! Scalar subqueries over shards that are asked first: aggregates without groups, which depend on nothing around them and
//! which a condition compares with a number or a date. What they give then stands in their places, so that no row of
//! theirs has to be gathered, and the rest of the statement is often one that each group answers for its own rows.
//!
//! Invariants: a value is put in only where servers compare it as they compare what the subquery gives: exact numbers with
//! exact numbers, dates with dates, and in conditions alone, since columns of a select list would have other types and
//! names. What servers would go on to compute with is computed by them: an average stands there as its sum divided by its
//! count, because servers round it when they print it.
//!
//! Must not know: who asks, and whether that pays.

mod columns;
mod formula;
mod inside;

use sqlparser::ast::{
    BinaryOperator, Expr, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins,
    UnaryOperator,
};
use sqltext::{Piece, PieceKind, pieces, spliced};

use crate::answer::{Asked, Finish};
use crate::parse::{self, Traits};
use crate::text::Lines;
use crate::tiers;

use columns::{Columns, ValueType};
use formula::Formula;
use inside::Inside;

/// So many of one statement are asked first, at most.
const SCALARS_MAX: usize = 8;

/// A scalar subquery that can be asked first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scalar {
    /// A SELECT that gives one row.
    pub question: String,
    /// The subquery with its parentheses, as bytes of the text.
    span: (usize, usize),
    formula: Formula,
}

/// Finds those of a query; none where it is not sure what the text says.
pub fn scalars(text: &str, asked: &Asked<'_>) -> Vec<Scalar> {
    let (Ok(query), Some(all)) = (
        parse::query(text, asked.mode),
        pieces(text.as_bytes(), asked.mode),
    ) else {
        return Vec::new();
    };
    let selects = all.iter().filter(|it| it.is(text.as_bytes(), "SELECT"));
    let traits = Traits::of(&query);
    if selects.count() < 2 || traits.binds_oddly || parse::calls_apart(text, asked.mode) {
        return Vec::new();
    }
    let Some(columns) = Columns::of(&query, asked) else {
        return Vec::new();
    };
    let mut search = Search {
        text,
        asked,
        lines: Lines::new(text),
        all,
        columns,
        found: Vec::new(),
    };
    search.query(&query);
    search.found
}

/// The text with the values that `rows` give, one row for each of `scalars`, in the places of the subqueries; `None` where
/// one cannot be written as a number or a date.
pub fn with_scalars(
    text: &str,
    scalars: &[Scalar],
    rows: &[Vec<Option<String>>],
) -> Option<String> {
    let mut cuts = Vec::new();
    for (scalar, row) in scalars.iter().zip(rows) {
        cuts.push((scalar.span, scalar.formula.with(row)?));
    }
    (scalars.len() == rows.len()).then(|| spliced(text, cuts))
}

impl Scalar {
    /// A row of NULLs: what stands for the values where nobody asks for them.
    pub fn unknown(&self) -> Vec<Option<String>> {
        vec![None; self.formula.columns()]
    }
}

struct Search<'a> {
    text: &'a str,
    asked: &'a Asked<'a>,
    lines: Lines<'a>,
    all: Vec<Piece>,
    columns: Columns<'a>,
    found: Vec<Scalar>,
}

impl Search<'_> {
    /// Looks through the conditions of a query, and of those that it is made of.
    fn query(&mut self, query: &Query) {
        self.body(&query.body);
    }

    fn body(&mut self, body: &SetExpr) {
        match body {
            SetExpr::Select(select) => {
                select.from.iter().for_each(|from| self.from(from));
                let conditions = [&select.selection, &select.having];
                let conditions = conditions.into_iter().flatten();
                conditions.for_each(|it| self.condition(it));
            }
            SetExpr::Query(query) => self.query(query),
            SetExpr::SetOperation { left, right, .. } => {
                self.body(left);
                self.body(right);
            }
            _ => {}
        }
    }

    fn from(&mut self, from: &TableWithJoins) {
        let joined = from.joins.iter().map(|join| &join.relation);
        for factor in std::iter::once(&from.relation).chain(joined) {
            match factor {
                TableFactor::Derived { subquery, .. } => self.query(subquery),
                TableFactor::NestedJoin {
                    table_with_joins, ..
                } => self.from(table_with_joins),
                _ => {}
            }
        }
    }

    fn condition(&mut self, condition: &Expr) {
        use BinaryOperator as Op;
        match condition {
            Expr::BinaryOp {
                left,
                op: Op::And | Op::Or,
                right,
            } => {
                self.condition(left);
                self.condition(right);
            }
            Expr::BinaryOp {
                left,
                op: Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq,
                right,
            } => match (&**left, &**right) {
                (Expr::Subquery(query), with) | (with, Expr::Subquery(query)) => {
                    self.compared(query, with);
                }
                _ => {}
            },
            Expr::Nested(inner)
            | Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr: inner,
            } => self.condition(inner),
            Expr::Exists { subquery, .. } | Expr::InSubquery { subquery, .. } => {
                self.query(subquery);
            }
            _ => {}
        }
    }

    /// A subquery, and what it is compared with.
    fn compared(&mut self, query: &Query, with: &Expr) {
        let wanted = self.columns.value_type(with);
        let scalar = wanted.and_then(|wanted| self.scalar(query, wanted));
        match scalar.filter(|_| self.found.len() < SCALARS_MAX) {
            Some(scalar) => self.found.push(scalar),
            None => self.query(query),
        }
    }

    fn scalar(&self, query: &Query, wanted: ValueType) -> Option<Scalar> {
        let select = inside::plain(query)?;
        let inside = Inside::of(select, self.asked)?;
        let [SelectItem::UnnamedExpr(item)] = &select.projection[..] else {
            return None;
        };
        if inside.value_type(item)? != wanted {
            return None;
        }
        let written = self.written(select)?;
        let text = |(start, end): (usize, usize)| &self.text[start..end];
        let (formula, aggregates) = Formula::of(self.text, written.item, wanted)?;
        if aggregates.is_empty() || inside::aggregates(item) != formula.aggregates() {
            return None;
        }
        let question = format!("SELECT {} {}", aggregates.join(", "), text(written.rest));
        let answer = tiers::answer(&question, self.asked).ok()?;
        matches!(answer.finish, Finish::Merge(_)).then_some(Scalar {
            question,
            span: written.span,
            formula,
        })
    }

    /// Where a subquery stands in the text.
    fn written(&self, select: &Select) -> Option<Written<'_>> {
        let bytes = self.text.as_bytes();
        let start = self.lines.byte(select.select_token.0.span.start)?;
        let at = self.all.iter().position(|it| it.span.start == start)?;
        let open = self.all.get(at.checked_sub(1)?)?;
        let item = &self.all[at + 1..];
        let (mut depth, mut from) = (0usize, None);
        for (place, piece) in item.iter().enumerate() {
            match piece.kind {
                PieceKind::Open => depth += 1,
                PieceKind::Close if depth == 0 => {
                    let (from, close): (usize, usize) = (from?, piece.span.start as usize);
                    let rest = item[from].span.start as usize;
                    return (open.kind == PieceKind::Open).then(|| Written {
                        span: (open.span.start as usize, piece.span.end as usize),
                        item: &item[..from],
                        rest: (rest, close),
                    });
                }
                PieceKind::Close => depth -= 1,
                _ if depth == 0 && from.is_none() && piece.is(bytes, "FROM") => from = Some(place),
                _ => {}
            }
        }
        None
    }
}

/// Where a subquery stands: with its parentheses, its one item, and the rest from FROM on.
struct Written<'p> {
    span: (usize, usize),
    item: &'p [Piece],
    rest: (usize, usize),
}
