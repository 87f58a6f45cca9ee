//! Which conditions of a WHERE leave rows out of a table where it is fetched.
//!
//! A condition that speaks of one table goes there as it is written. One with queries that each group
//! answers for its own rows does, too. The rows that come meet both, so TRUE stands in their place
//! afterwards, and columns that nothing else names need not come. Of an OR goes what all its branches say
//! of the table: where the OR is true, one of them is.
//!
//! For a table for whose rows NULLs may stand no WHERE leaves rows out: the condition would make rows of
//! NULLs. The ON of its own LEFT JOIN does: a row that does not meet it stands beside no other.

use std::ops::ControlFlow;

use farm::sharding::{Placed, TableSchema};
use sqlparser::ast::{Expr, Ident, Query, Select, Value, Visit, Visitor};
use sqltext::{Dialect, Mode, Piece, PieceKind, pieces, spliced, ticked};

use super::conditions::{self, Part, branches, parts};
use super::references::{Block, Finder, Reference};
use crate::functions;
use crate::parse::{self, Inner};
use crate::push;

/// What the branches of an OR say may be so long.
const BRANCHES_BYTES_MAX: usize = 16 * 1024;

impl<'a> Finder<'a> {
    /// Gives conditions of WHERE to the tables that they speak of; tells those whose queries are still
    /// to be read.
    pub(super) fn push<'e>(
        &mut self,
        condition: &'e Expr,
        select: &Select,
        block: &Block<'a>,
    ) -> Vec<&'e Expr> {
        let text = self.text.as_bytes();
        let words = std::mem::take(&mut self.words);
        let start = self.lines.byte(select.select_token.0.span.start);
        let filter = start.and_then(|at| conditions::filter(&words, text, at as usize));
        let parts = filter.and_then(|filter| parts((condition, filter), text));
        let mut left = Vec::new();
        for part in parts.iter().flatten() {
            if !self.push_part(*part, block) {
                left.push(part.0);
            }
        }
        let is_sure = parts.is_some();
        drop(parts);
        self.words = words;
        match is_sure {
            true => left,
            false => vec![condition],
        }
    }

    /// True when all rows that are fetched meet the condition.
    fn push_part(&mut self, part: Part<'_, '_>, block: &Block<'a>) -> bool {
        if let Some(one) = self.only(part.0, block) {
            self.give(part, one);
            return false;
        }
        if let Some((one, written)) = self.answered_there(part, block) {
            self.found[one].pushed.push(written);
            self.met
                .extend(conditions::span(part.1).map(|span| (span, one)));
            return true;
        }
        self.push_branches(part, block);
        false
    }

    /// Gives conditions of an ON to the tables that they speak of: of a LEFT JOIN to the table that was
    /// found last, which it joins.
    pub(super) fn push_on(&mut self, condition: &Expr, block: &Block<'a>, left: bool) {
        let Some(last) = self.found.len().checked_sub(1).filter(|_| self.pushes) else {
            return;
        };
        if self.found[last].lock.is_some() {
            return;
        }
        let text = self.text.as_bytes();
        let words = std::mem::take(&mut self.words);
        let on = conditions::behind_on(&words, text, self.found[last].span.1);
        let on = on.filter(|on| self.reads_as(on, condition));
        let parts = on.and_then(|on| parts((condition, on), text));
        for part in parts.iter().flatten() {
            let may = |one: &usize| match left {
                true => *one == last,
                false => !self.found[*one].padded,
            };
            if let Some(one) = self.speaks_of(part.0, block).filter(may) {
                self.give(*part, one);
            }
        }
        drop(parts);
        self.words = words;
    }

    /// The words are this condition, whatever stands around them.
    fn reads_as(&self, words: &[Piece], condition: &Expr) -> bool {
        let Some((start, end)) = conditions::span(words) else {
            return false;
        };
        let alone = format!("SELECT 1 FROM t WHERE {}", &self.text[start..end]);
        let query = parse::query(&alone, self.asked.mode).ok();
        let select = query.as_ref().and_then(|query| query.body.as_select());
        let read = select.and_then(|select| select.selection.as_ref());
        read.is_some_and(|read| read.to_string() == condition.to_string())
    }

    /// Gives a condition to the one table that it speaks of.
    fn give(&mut self, part: Part<'_, '_>, one: usize) {
        let Some(written) = self.written(part, one) else {
            return;
        };
        self.found[one].pushed.push(written);
        // What a write locks is read once more, and by whom is its own matter.
        let reads = self.found[one].lock.is_none() && self.asked.changing.is_none();
        if reads && (self.asked.mode.dialect == Dialect::MariaDb || !determines(part.0)) {
            self.met
                .extend(conditions::span(part.1).map(|span| (span, one)));
        }
    }

    /// What all branches of an OR say of a table.
    fn push_branches(&mut self, part: Part<'_, '_>, block: &Block<'a>) {
        let text = self.text.as_bytes();
        let all = match branches(part, text) {
            Some(all) if all.len() > 1 => all,
            _ => return,
        };
        let mut branches: Vec<Vec<(usize, Part<'_, '_>)>> = Vec::new();
        for branch in all {
            let Some(parts) = parts(branch, text) else {
                return;
            };
            let own = parts.into_iter();
            let own: Vec<_> = own
                .filter_map(|part| Some((self.only(part.0, block)?, part)))
                .collect();
            if own.is_empty() {
                return;
            }
            branches.push(own);
        }
        for (one, _) in &block.own {
            let said = branches.iter().map(|branch| self.said(branch, *one));
            let said: Option<Vec<String>> = said.collect();
            let said = said.map(|mut said| {
                said.dedup();
                said.join(" OR ")
            });
            if let Some(said) = said.filter(|it| it.len() <= BRANCHES_BYTES_MAX) {
                self.found[*one].pushed.push(said);
            }
        }
    }

    /// What a branch says of a table, if it says something.
    fn said(&self, branch: &[(usize, Part<'_, '_>)], one: usize) -> Option<String> {
        let own = branch.iter().filter(|(of, _)| *of == one);
        let own: Vec<String> = own
            .filter_map(|(_, part)| Some(format!("({}\n)", self.written(*part, one)?)))
            .collect();
        (!own.is_empty()).then(|| own.join(" AND "))
    }

    /// The one table that a condition speaks of, when it has rows of its own only.
    fn only(&self, condition: &Expr, block: &Block<'_>) -> Option<usize> {
        self.speaks_of(condition, block)
            .filter(|one| !self.found[*one].padded)
    }

    /// The one table that a condition speaks of.
    fn speaks_of(&self, condition: &Expr, block: &Block<'_>) -> Option<usize> {
        let mut only = Only {
            references: &self.found,
            block,
            one: None,
            fails: false,
        };
        let _ = condition.visit(&mut only);
        only.one.filter(|_| !only.fails)
    }

    /// The condition as the group of the table gets it.
    fn written(&self, (_, words): Part<'_, '_>, one: usize) -> Option<String> {
        let (start, end) = conditions::span(words)?;
        let text = &self.text[start..end];
        Some(without_database(text, &self.found[one], self.asked.mode))
    }

    /// The table that has a condition with queries answered where its rows are: a sharded one, and the
    /// queries are about its own shard's rows and about rows that are on every group.
    fn answered_there(&self, part: Part<'_, '_>, block: &Block<'a>) -> Option<(usize, String)> {
        // A name that WITH gives would be that of a table there.
        if self.asked.changing.is_some() || !self.named.is_empty() || Inner::of(part.0).is_empty() {
            return None;
        }
        let mut mentioned = Mentioned::default();
        let _ = part.0.visit(&mut mentioned);
        let answers = |one: usize| {
            let reference = &self.found[one];
            let placed = self
                .asked
                .sharding
                .placed(&reference.database, &reference.table);
            let can = matches!(placed, Placed::Sharded(_))
                && !reference.padded
                && reference.lock.is_none();
            let written = self.written(part, one).filter(|_| can)?;
            let text = format!("SELECT 1 {} WHERE ({written}\n)", from(reference));
            push::answers_alone(&text, self.asked).then_some((one, written))
        };
        let mut may = block.own.iter().filter(|(one, schema)| {
            let called = self.found[*one].called();
            mentioned.0.iter().any(|path| match &path[..] {
                [column] => schema.is_some_and(|it| it.column(&column.value).is_some()),
                [.., table, _] => table.value == called,
                [] => false,
            })
        });
        may.find_map(|(one, _)| answers(*one))
    }
}

/// By such a condition MySQL tells which columns have one value only, and may stand beside groups.
fn determines(condition: &Expr) -> bool {
    let mut determines = Determines(false);
    let _ = condition.visit(&mut determines);
    determines.0
}

struct Determines(bool);

impl Visitor for Determines {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        use sqlparser::ast::BinaryOperator::{Gt, GtEq, Lt, LtEq, NotEq};
        self.0 |= match expr {
            Expr::BinaryOp { op, .. } => !matches!(op, Gt | GtEq | Lt | LtEq | NotEq),
            Expr::Between { .. }
            | Expr::Like { .. }
            | Expr::Identifier(_)
            | Expr::CompoundIdentifier(_)
            | Expr::Value(_)
            | Expr::TypedString(_)
            | Expr::Nested(_) => false,
            _ => true,
        };
        ControlFlow::Continue(())
    }
}

/// The columns that a condition names anywhere.
#[derive(Default)]
struct Mentioned(Vec<Vec<Ident>>);

impl Visitor for Mentioned {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(column) => self.0.push(vec![column.clone()]),
            Expr::CompoundIdentifier(path) => self.0.push(path.clone()),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// FROM the table alone, by the name that the query has for it.
pub(super) fn from(reference: &Reference) -> String {
    format!(
        "FROM {}.{} AS {}",
        ticked(&reference.database),
        ticked(&reference.table),
        ticked(reference.called())
    )
}

/// `database.table.column` becomes `table.column`, which is the table's name where it is fetched.
fn without_database(text: &str, reference: &Reference, mode: &Mode) -> String {
    let bytes = text.as_bytes();
    let all = pieces(bytes, mode).unwrap_or_default();
    let mut cuts = Vec::new();
    for four in all.windows(4) {
        let [database, dot, table, second] = four else {
            continue;
        };
        let named = |at: usize, name: &str| {
            four[at]
                .name(bytes, mode)
                .is_some_and(|it| *it == *name.as_bytes())
        };
        if dot.kind == PieceKind::Dot
            && second.kind == PieceKind::Dot
            && named(0, &reference.database)
            && named(2, reference.called())
        {
            let span = (database.span.start as usize, table.span.start as usize);
            cuts.push((span, String::new()));
        }
    }
    spliced(text, cuts)
}

/// The place of the reference that a name in front of a column means, among those of a block.
pub(super) fn called<'f>(
    references: &'f [Reference],
    block: &'f Block<'_>,
    path: &[Ident],
) -> Vec<usize> {
    let own = block.own.iter().map(|(at, _)| *at);
    let is = |at: &usize| match path {
        [table] => references[*at].called() == table.value,
        [database, table] => {
            let reference = &references[*at];
            reference.called() == table.value && reference.database == database.value
        }
        _ => false,
    };
    own.filter(is).collect()
}

/// Finds the one reference that a condition speaks of.
struct Only<'f, 'a> {
    references: &'f [Reference],
    block: &'f Block<'a>,
    one: Option<usize>,
    fails: bool,
}

impl Only<'_, '_> {
    fn column(&mut self, path: &[Ident]) {
        let own = self.block.own.iter();
        let found: Vec<usize> = match path {
            // The columns of all tables are known, and one of them has it.
            [column] => {
                let all: Option<Vec<_>> = own.map(|(at, schema)| Some((*at, (*schema)?))).collect();
                let all = all.filter(|_| !self.block.others).unwrap_or_default();
                let has = |schema: &TableSchema| schema.column(&column.value).is_some();
                all.into_iter()
                    .filter(|(_, schema)| has(schema))
                    .map(|(at, _)| at)
                    .collect()
            }
            [table @ .., _] => called(self.references, self.block, table),
            [] => Vec::new(),
        };
        match found[..] {
            [at] if self.one.is_none_or(|one| one == at) => self.one = Some(at),
            _ => self.fails = true,
        }
    }
}

impl Visitor for Only<'_, '_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.fails = true;
        ControlFlow::Break(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(column) if column.value.starts_with('@') => self.fails = true,
            Expr::Identifier(column) => self.column(std::slice::from_ref(column)),
            Expr::CompoundIdentifier(path) => self.column(path),
            Expr::Function(function) => {
                let name = function.name.to_string();
                self.fails |= !functions::is_pure(&name);
            }
            Expr::MatchAgainst { .. } => self.fails = true,
            Expr::Value(value) if matches!(value.value, Value::Placeholder(_)) => {
                self.fails = true;
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
