//! A SELECT from one plain derived table, as one SELECT from the tables of that: each shard can answer it
//! then, and groups of it have parts.
//!
//! Servers merge the two in the same way. A derived table with groups, DISTINCT, LIMIT or windows has
//! other rows than its tables, and stays. No name may come to mean something else: what an item of the
//! select list is called is compared with what the derived table's expressions name.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr, TableFactor, Visit, Visitor,
};
use sqltext::{Clauses, Edit, Mode, Piece, PieceKind, Span, clauses, edited, pieces, ticked};

use super::expr_of;
use super::names::alike;
use super::shape::{Travels, Uses};
use crate::functions;
use crate::parse::{self, Inner, Traits};
use crate::text::Lines;

/// Servers refuse longer aliases.
const LABEL_BYTES_MAX: usize = 200;

/// The text without its derived table; `None` when it has none that can be merged.
pub(super) fn merged(text: &str, query: &Query, mode: &Mode) -> Option<String> {
    let SetExpr::Select(outer) = &*query.body else {
        return None;
    };
    let [from] = &outer.from[..] else { return None };
    let TableFactor::Derived {
        lateral: false,
        subquery,
        alias: Some(alias),
        ..
    } = &from.relation
    else {
        return None;
    };
    let plain = from.joins.is_empty()
        && alias.columns.is_empty()
        && is_plain_around(query, outer)
        && !Traits::of(query).binds_oddly
        && !parse::calls_apart(text, mode)
        && !text.contains('@');
    let all = pieces(text.as_bytes(), mode).filter(|all| plain && !has_comments(text, all))?;
    let clauses = clauses(text.as_bytes(), mode)?;
    let body = body(text, &all, clauses.from?)?;
    let derived = Derived::of(&text[body.0..body.1], subquery, mode)?;
    let merger = Merger {
        text,
        lines: Lines::new(text),
        clauses: &clauses,
        outer,
        alias: &alias.name.value,
        derived: &derived,
    };
    merger.text(query)
}

/// Nothing in the statement around the derived table keeps it from being merged.
fn is_plain_around(query: &Query, outer: &Select) -> bool {
    let rollup = match &outer.group_by {
        GroupByExpr::Expressions(_, modifiers) => !modifiers.is_empty(),
        GroupByExpr::All(_) => true,
    };
    let queries = !Inner::of(&outer.projection).is_empty()
        || !Inner::of(&outer.selection).is_empty()
        || !Inner::of(&outer.group_by).is_empty()
        || !Inner::of(&outer.having).is_empty()
        || !Inner::of(&query.order_by).is_empty();
    query.with.is_none()
        && query.locks.is_empty()
        && query.fetch.is_none()
        && outer.named_window.is_empty()
        && !rollup
        && !queries
}

/// Something other than white space stands between the words.
fn has_comments(text: &str, all: &[Piece]) -> bool {
    let mut from = 0;
    for piece in all {
        if !text[from..piece.span.start as usize].trim().is_empty() {
            return true;
        }
        from = piece.span.end as usize;
    }
    !text[from..].trim().is_empty()
}

/// Where the derived table's query stands: FROM has that, in parentheses, and its name only.
fn body(text: &str, all: &[Piece], from: Span) -> Option<(usize, usize)> {
    let within = |piece: &&Piece| from.start <= piece.span.start && piece.span.end <= from.end;
    let all: Vec<&Piece> = all.iter().filter(within).collect();
    let first = all.first().filter(|it| it.kind == PieceKind::Open)?;
    let mut depth = 0usize;
    let close = all.iter().position(|piece| {
        match piece.kind {
            PieceKind::Open => depth += 1,
            PieceKind::Close => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    let named = match &all[close + 1..] {
        [_] => true,
        [word, _] => word.is(text.as_bytes(), "AS"),
        _ => false,
    };
    let end = all[close].span.start as usize;
    named.then_some((first.span.end as usize, end))
}

/// A derived table.
struct Derived {
    from: String,
    filter: Option<String>,
    columns: Vec<Column>,
}

/// A column of it.
struct Column {
    name: String,
    /// What it is, as an operand.
    written: String,
    /// The name of the column that it is, if it is no more than that.
    is: Option<String>,
    /// Names without tables that stand in it.
    names: Vec<String>,
}

impl Derived {
    fn of(text: &str, query: &Query, mode: &Mode) -> Option<Derived> {
        let SetExpr::Select(select) = &*query.body else {
            return None;
        };
        let groups = match &select.group_by {
            GroupByExpr::Expressions(groups, modifiers) => {
                !groups.is_empty() || !modifiers.is_empty()
            }
            GroupByExpr::All(_) => true,
        };
        let uses = Uses::of(&select.projection);
        let plain = query.with.is_none()
            && query.order_by.is_none()
            && query.limit_clause.is_none()
            && query.fetch.is_none()
            && query.locks.is_empty()
            && select.distinct.is_none()
            && select.having.is_none()
            && select.into.is_none()
            && !groups
            && !uses.aggregates
            && uses.windows.is_empty()
            && !uses.odd_windows
            && Inner::of(&select.projection).is_empty()
            && Travels::of(query).stays.is_none();
        let clauses = clauses(text.as_bytes(), mode).filter(|_| plain)?;
        let first = clauses.items.first()?.start as usize;
        let begin = text.find(|it: char| !it.is_whitespace())? + "SELECT".len();
        let modified = !text.get(begin..first)?.trim().is_empty();
        if modified || clauses.items.len() != select.projection.len() {
            return None;
        }
        let of = |span: Span| text[span.start as usize..span.end as usize].to_owned();
        let items = select.projection.iter().zip(&clauses.items);
        let columns: Vec<Column> = items
            .map(|(item, span)| column(item, text, *span, mode))
            .collect::<Option<_>>()?;
        let distinct = (0..columns.len()).all(|at| {
            let others = &columns[..at];
            !others.iter().any(|it| alike(&it.name, &columns[at].name))
        });
        distinct.then_some(Derived {
            from: of(clauses.from?),
            filter: clauses.filter.map(of),
            columns,
        })
    }
}

fn column(item: &SelectItem, text: &str, span: Span, mode: &Mode) -> Option<Column> {
    let whole = &text[span.start as usize..span.end as usize];
    let (expr, name, written) = match item {
        SelectItem::UnnamedExpr(expr) => (expr, last_name(expr)?.to_owned(), whole),
        SelectItem::ExprWithAlias { expr, alias } => {
            (expr, alias.value.clone(), without_alias(whole, mode)?)
        }
        _ => return None,
    };
    // Where rows are grouped or ordered by it, a number is that of an item.
    if matches!(
        expr,
        Expr::Value(_) | Expr::UnaryOp { .. } | Expr::Nested(_)
    ) {
        return None;
    }
    let is = last_name(expr).map(str::to_owned);
    let names = Named::of(expr).found.into_iter();
    let names = names.filter(|(path, _)| path.len() == 1);
    Some(Column {
        name,
        written: match is {
            Some(_) => written.to_owned(),
            None => format!("({written})"),
        },
        is,
        names: names.map(|(path, _)| path[0].value.clone()).collect(),
    })
}

/// The name of a column.
fn last_name(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Identifier(name) => Some(&name.value),
        Expr::CompoundIdentifier(path) => Some(&path.last()?.value),
        _ => None,
    }
}

/// An item without the name behind it.
fn without_alias<'t>(item: &'t str, mode: &Mode) -> Option<&'t str> {
    let all = pieces(item.as_bytes(), mode)?;
    let [before @ .., alias] = &all[..] else {
        return None;
    };
    let named = matches!(alias.kind, PieceKind::Word | PieceKind::Quoted);
    let expr = match before {
        [expr @ .., word] if word.is(item.as_bytes(), "AS") => expr,
        expr => expr,
    };
    let end = expr.last().filter(|_| named)?.span.end as usize;
    Some(&item[..end])
}

/// Columns that are named in a part of a statement, and whether that is in an aggregate.
#[derive(Default)]
struct Named {
    found: Vec<(Vec<Ident>, bool)>,
    depth: usize,
}

impl Named {
    fn of(part: &impl Visit) -> Named {
        let mut named = Named::default();
        let _ = part.visit(&mut named);
        named
    }
}

fn is_aggregate(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if functions::is_aggregate(&function.name.to_string()))
}

impl Visitor for Named {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.depth += usize::from(is_aggregate(expr));
        let path = match expr {
            Expr::Identifier(name) => vec![name.clone()],
            Expr::CompoundIdentifier(path) => path.clone(),
            _ => return ControlFlow::Continue(()),
        };
        self.found.push((path, self.depth > 0));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.depth -= usize::from(is_aggregate(expr));
        ControlFlow::Continue(())
    }
}

struct Merger<'a> {
    text: &'a str,
    lines: Lines<'a>,
    clauses: &'a Clauses,
    outer: &'a Select,
    /// What the derived table is called.
    alias: &'a str,
    derived: &'a Derived,
}

impl Merger<'_> {
    fn text(&self, query: &Query) -> Option<String> {
        let (outer, clauses) = (self.outer, self.clauses);
        if clauses.items.len() != outer.projection.len() || !self.names_are_clear() {
            return None;
        }
        let mut edits = Vec::new();
        self.items(&mut edits)?;
        self.replace(&Named::of(&outer.selection), false, &mut edits)?;
        self.groups(&mut edits)?;
        self.replace(&Named::of(&outer.having), true, &mut edits)?;
        self.replace(&Named::of(&query.order_by), true, &mut edits)?;
        let mut from = self.derived.from.clone();
        match (&self.derived.filter, clauses.filter) {
            (None, _) => {}
            (Some(own), None) => from.push_str(&format!(" WHERE {own}")),
            (Some(own), Some(filter)) => {
                let (start, end) = (filter.start as usize, filter.end as usize);
                edits.push(((start, start), format!("({own}) AND (")));
                edits.push(((end, end), ")".to_owned()));
            }
        }
        let place = clauses.from?;
        edits.push(((place.start as usize, place.end as usize), from));
        String::from_utf8(edited(self.text.as_bytes(), edits)).ok()
    }

    /// What items are called, given or not, and the derived table's column that each of them is.
    fn labels(&self) -> impl Iterator<Item = (&str, Option<usize>)> {
        self.outer.projection.iter().filter_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } => {
                Some((alias.value.as_str(), self.column_of(expr)))
            }
            SelectItem::UnnamedExpr(expr) => Some((last_name(expr)?, self.column_of(expr))),
            _ => None,
        })
    }

    /// A label is that of the column of its name, and no column's expression has its name in it.
    fn names_are_clear(&self) -> bool {
        self.labels().all(|(label, of)| {
            let columns = &self.derived.columns;
            columns.iter().enumerate().all(|(at, column)| {
                let means_it = of == Some(at);
                let is_it = column.is.as_deref().is_some_and(|it| alike(it, label));
                (means_it || !alike(&column.name, label))
                    && ((means_it && is_it) || !column.names.iter().any(|it| alike(it, label)))
            })
        })
    }

    fn items(&self, edits: &mut Vec<Edit>) -> Option<()> {
        let grouped = self.grouped_expressions()?;
        for (item, span) in self.outer.projection.iter().zip(&self.clauses.items) {
            let expr = expr_of(item)?;
            let named = Named::of(expr);
            let before = edits.len();
            self.replace(&named, false, edits)?;
            let whole = self.column_of(expr);
            let alone = |(path, inside): &(Vec<Ident>, bool)| {
                *inside
                    || whole.is_some()
                    || !self.column(path).is_some_and(|at| grouped.contains(&at))
            };
            // Servers that want to know what groups determine may not see through an expression.
            if !named.found.iter().all(alone) {
                return None;
            }
            if let SelectItem::UnnamedExpr(_) = item
                && edits.len() > before
            {
                let end = span.end as usize;
                let label = match last_name(expr) {
                    Some(name) => name,
                    None => &self.text[span.start as usize..end],
                };
                let is_it =
                    whole.is_some_and(|at| self.derived.columns[at].is.as_deref() == Some(label));
                if label.len() > LABEL_BYTES_MAX {
                    return None;
                }
                if !is_it {
                    edits.push(((end, end), format!(" AS {}", ticked(label))));
                }
            }
        }
        Some(())
    }

    /// The columns that are no more than expressions, and by which rows are grouped.
    fn grouped_expressions(&self) -> Option<Vec<usize>> {
        let groups = self.group_exprs();
        let all = groups.iter().flat_map(|group| Named::of(group).found);
        let columns = all.filter_map(|(path, _)| self.column(&path));
        let is_expression = |at: &usize| self.derived.columns[*at].is.is_none();
        Some(columns.filter(is_expression).collect())
    }

    fn group_exprs(&self) -> &[Expr] {
        match &self.outer.group_by {
            GroupByExpr::Expressions(groups, _) => groups,
            GroupByExpr::All(_) => &[],
        }
    }

    /// GROUP BY takes a column for what it names rather than an item.
    fn groups(&self, edits: &mut Vec<Edit>) -> Option<()> {
        let groups = self.group_exprs();
        if groups.len() != self.clauses.groups.len() {
            return None;
        }
        for group in groups {
            let labelled = last_name(group).is_some_and(|name| {
                self.column_of(group).is_none() && self.labels().any(|(it, _)| alike(it, name))
            });
            if !labelled {
                self.replace(&Named::of(group), false, edits)?;
            }
        }
        Some(())
    }

    /// Puts what columns are in their places. `labels`: a name outside of aggregates may be an item's.
    fn replace(&self, named: &Named, labels: bool, edits: &mut Vec<Edit>) -> Option<()> {
        for (path, inside) in &named.found {
            if let [name] = &path[..]
                && labels
                && !inside
                && self.labels().any(|(it, _)| alike(it, &name.value))
            {
                continue;
            }
            let column = &self.derived.columns[self.column(path)?];
            let start = self.lines.byte(path.first()?.span.start)? as usize;
            let end = self.lines.end(path.last()?.span.end)? as usize;
            edits.push(((start, end), column.written.clone()));
        }
        Some(())
    }

    /// The derived table's column of this name.
    fn column(&self, path: &[Ident]) -> Option<usize> {
        let name = match path {
            [name] => name,
            [table, name] if table.value == self.alias => name,
            _ => return None,
        };
        let columns = &self.derived.columns;
        columns.iter().position(|it| alike(&it.name, &name.value))
    }

    fn column_of(&self, expr: &Expr) -> Option<usize> {
        match expr {
            Expr::Identifier(name) => self.column(std::slice::from_ref(name)),
            Expr::CompoundIdentifier(path) => self.column(path),
            _ => None,
        }
    }
}
