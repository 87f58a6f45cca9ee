//! Groups of which every shard has a part, and that the merge cannot finish: the statement computes with
//! aggregates, sorts or chooses groups by them, has windows over groups, DISTINCT values or a ROLLUP. Each
//! shard sends the parts of its groups, and the statement runs on the scratch server over those: COUNT and
//! SUM are added up, MIN and MAX taken once more, AVG is a sum by a count, and what is DISTINCT is asked of
//! the values that came.

use std::ops::ControlFlow;
use std::sync::Arc;

use sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    Query, SelectItem, Visit, Visitor, WindowType,
};
use sqltext::{Dialect, Edit, Piece, PieceKind, Span, edited, pieces, ticked};

use super::grouping::Grouping;
use super::kinds::{self, Kind, arguments};
use super::lists::{unparted, unsummed};
use super::names::alike;
use super::{Read, is_constant, scale};
use crate::answer::{Answer, Asked, Finish, Fragment, Part, Reduced, Scratch, Tier, Written};
use crate::columns::{asked_as, declared_as, engine};
use crate::functions;
use crate::text::follows_comment;

/// A DECIMAL has so many digits behind its point at most.
const SCALE_MAX: usize = 30;

/// What the statement calls the parts' table.
const PARTS: &str = "heddle";

/// A column of the parts' table, as the statement names it.
pub(super) fn of_parts(column: &str) -> String {
    format!("{PARTS}.{column}")
}

/// A column of the parts' table.
pub(super) struct Sent {
    /// What the shards are asked for.
    pub text: String,
    pub declared: String,
    pub written: Written,
}

impl Read<'_> {
    /// Answers a statement with groups by their parts. `why` no better way will do.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn partial(
        &self,
        query: &Query,
        groups: Vec<Arc<str>>,
        asked: &Asked<'_>,
        why: String,
    ) -> Result<Answer, String> {
        let named = !self.select.named_window.is_empty();
        if named || self.clauses.locks.is_some() || self.text.contains('@') {
            return Err(why);
        }
        let counts = [
            (self.select.projection.len(), self.clauses.items.len()),
            (self.ordered.len(), self.clauses.orders.len()),
        ];
        if counts.iter().any(|(one, other)| one != other) {
            return Err("its clauses are not sure".to_owned());
        }
        let all = pieces(self.text.as_bytes(), asked.mode)
            .ok_or_else(|| "the text's quotes are not sure to end".to_owned())?;
        let mut maker = Maker::of(self, &all);
        maker.make()?;
        if maker.is_finer && maker.counts {
            maker = Maker::of(self, &all);
            maker.is_finer = true;
            maker.make()?;
        }
        maker.finish(query, groups, asked, why)
    }

    /// It is the name of an item of the select list, by which ORDER BY means the item.
    fn names_item(&self, order: &Expr) -> bool {
        let Expr::Identifier(name) = order else {
            return false;
        };
        self.select.projection.iter().any(|item| {
            matches!(item, SelectItem::ExprWithAlias { alias, .. }
                if alike(&alias.value, &name.value))
        })
    }
}

impl Read<'_> {
    /// So many items have the name by which something is grouped: servers may not choose among them.
    pub(super) fn items_called(&self, group: &Expr) -> usize {
        let Expr::Identifier(name) = group else {
            return 0;
        };
        let called = |item: &&SelectItem| match item {
            SelectItem::ExprWithAlias { alias, .. } => alike(&alias.value, &name.value),
            SelectItem::UnnamedExpr(expr) => self.same(expr, group),
            _ => false,
        };
        self.select.projection.iter().filter(called).count()
    }

    /// The item of this name is the column of this name.
    fn names_itself(&self, expr: &Expr) -> bool {
        let Expr::Identifier(name) = expr else {
            return false;
        };
        self.select.projection.iter().all(|item| match item {
            SelectItem::ExprWithAlias { alias, expr: of } => {
                !alike(&alias.value, &name.value) || self.same(of, expr)
            }
            _ => true,
        })
    }
}

pub(super) struct Maker<'r, 'a> {
    pub read: &'r Read<'a>,
    pub all: &'r [Piece],
    pub sent: Vec<Sent>,
    pub grouping: Grouping<'r>,
    pub edits: Vec<Edit>,
    /// How deep within an aggregate a visit is.
    depth: usize,
    /// The same within an expression by whose values the parts are grouped.
    within: usize,
    /// The visit is of the select list, where items have no names yet.
    selects: bool,
    /// A group of the statement may have several groups of a shard: what they count apart overlaps.
    pub is_finer: bool,
    /// DISTINCT values are counted by the shards and added up.
    counts: bool,
}

pub(super) fn bytes(span: Span) -> (usize, usize) {
    (span.start as usize, span.end as usize)
}

impl<'r, 'a> Maker<'r, 'a> {
    fn of(read: &'r Read<'a>, all: &'r [Piece]) -> Maker<'r, 'a> {
        Maker {
            read,
            all,
            sent: Vec::new(),
            grouping: Grouping::default(),
            edits: Vec::new(),
            depth: 0,
            within: 0,
            selects: true,
            is_finer: false,
            counts: false,
        }
    }

    /// Reads all clauses.
    fn make(&mut self) -> Result<(), String> {
        self.groups()?;
        self.items()?;
        self.selects = false;
        let read = self.read;
        for (span, order) in read.clauses.orders.iter().zip(read.ordered) {
            if !read.names_item(order) && !is_constant(order) {
                self.expression(order, span.0)?;
            }
        }
        if let (Some(having), Some(span)) = (&read.select.having, read.clauses.having) {
            self.expression(having, span)?;
        }
        Ok(())
    }
}

impl Maker<'_, '_> {
    pub(super) fn not(what: &str) -> String {
        unparted(what)
    }

    /// Where a column stands.
    fn place(&self, expr: &Expr) -> Option<(usize, usize)> {
        let (first, last): (&Ident, &Ident) = match expr {
            Expr::Identifier(name) => (name, name),
            Expr::CompoundIdentifier(path) => (path.first()?, path.last()?),
            Expr::Nested(inner) => return self.place(inner),
            _ => return None,
        };
        let start = self.read.lines.byte(first.span.start)?;
        let end = self.read.lines.end(last.span.end)?;
        Some((start as usize, end as usize))
    }

    pub(super) fn text_of(&self, expr: &Expr) -> Result<&str, String> {
        let (start, end) = self
            .place(expr)
            .ok_or_else(|| "a column is not found in the text".to_owned())?;
        Ok(&self.read.text[start..end])
    }

    /// The select list. Items keep their names.
    fn items(&mut self) -> Result<(), String> {
        let read = self.read;
        for (item, span) in read.select.projection.iter().zip(&read.clauses.items) {
            let span = *span;
            let expr = super::expr_of(item).ok_or_else(|| "it selects * of groups".to_owned())?;
            self.expression(expr, span)?;
            if let SelectItem::UnnamedExpr(_) = item {
                let name = match expr {
                    Expr::Identifier(name) => name.value.clone(),
                    Expr::CompoundIdentifier(path) => {
                        path.last().map(|it| it.value.clone()).unwrap_or_default()
                    }
                    _ if follows_comment(&read.text[..span.start as usize]) => {
                        return Err("a comment in front of an expression is in its name".to_owned());
                    }
                    _ => read.piece(span)?.to_owned(),
                };
                let end = span.end as usize;
                self.edits
                    .push(((end, end), format!(" AS {}", ticked(&name))));
            }
        }
        Ok(())
    }

    /// Puts the parts' columns into an expression.
    pub(super) fn expression(&mut self, expr: &Expr, span: Span) -> Result<(), String> {
        self.read.piece(span)?;
        match expr.visit(self) {
            ControlFlow::Break(why) => Err(why),
            ControlFlow::Continue(()) => Ok(()),
        }
    }

    fn column(&mut self, expr: &Expr) -> Result<(), String> {
        let found = self.read.partition.names.column(expr);
        if !self.selects && self.read.names_item(expr) {
            // Whether the item or a column is meant depends on the clause.
            match found.is_none() || self.read.names_itself(expr) {
                true if self.within == 0 => return Ok(()),
                true => {}
                false => return Err("a name is that of a column and of an item".to_owned()),
            }
        }
        let (table, column) =
            found.ok_or_else(|| "a name is used that is no column of its groups".to_owned())?;
        let named = (table, column.name.clone());
        let at = self.grouping.place(&named, self.within > 0);
        let at = at.ok_or_else(|| "a column is used that it is not grouped by".to_owned())?;
        let place = self.place(expr);
        let place = place.ok_or_else(|| "a column is not found in the text".to_owned())?;
        self.edits.push((place, of_parts(&self.read.own_name(at))));
        Ok(())
    }

    /// The bytes of a call, from its name to its parenthesis.
    pub(super) fn call(&self, function: &Function) -> Option<(usize, usize)> {
        let name = function.name.0.first()?.as_ident()?;
        let start = self.read.lines.byte(name.span.start)?;
        let first = self.all.iter().position(|it| it.span.start == start)?;
        let mut depth = 0usize;
        for piece in &self.all[first + 1..] {
            match piece.kind {
                PieceKind::Open => depth += 1,
                PieceKind::Close if depth == 1 => {
                    return Some((start as usize, piece.span.end as usize));
                }
                PieceKind::Close => depth = depth.checked_sub(1)?,
                _ if depth == 0 => return None,
                _ => {}
            }
        }
        None
    }

    /// A column of the parts' table that no column of a table is, as the statement names it.
    fn send(&mut self, text: String, kind: &str, written: Written) -> String {
        let declared = |name: &str| format!("{name} {kind} NULL");
        self.send_as(text, declared, written)
    }

    /// The same, of a type with a clause. One that is sent already is the same.
    fn send_as(
        &mut self,
        text: String,
        declared: impl Fn(&str) -> String,
        written: Written,
    ) -> String {
        let name = |at: usize| self.read.own_name(at);
        let mut sent = self.sent.iter().enumerate();
        let same = sent.position(|(at, it)| it.text == text && it.declared == declared(&name(at)));
        let at = same.unwrap_or(self.sent.len());
        let name = name(at);
        if same.is_none() {
            self.sent.push(Sent {
                text,
                declared: declared(&name),
                written,
            });
        }
        of_parts(&name)
    }

    fn aggregate(&mut self, function: &Function) -> Result<(), String> {
        let name = function.name.to_string().to_ascii_lowercase();
        let not = || Self::not(&name);
        let FunctionArguments::List(list) = &function.args else {
            return Err(not());
        };
        if !list.clauses.is_empty() {
            return Err(not());
        }
        let place = self.call(function).ok_or_else(not)?;
        let text = self.read.text[place.0..place.1].to_owned();
        let wild = matches!(
            list.args[..],
            [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]
        );
        let arguments = arguments(function);
        let with = match (&*name, &arguments[..]) {
            ("count", _) if wild => self.counted(text),
            ("count", _) if is_distinct(function) => {
                self.counts = true;
                self.counted(text)
            }
            ("count", [_]) => self.counted(text),
            ("sum" | "avg", [argument]) => {
                let scale = self.scale(argument).filter(|it| *it <= SCALE_MAX);
                let kind = || kinds::of(&self.read.partition.names, argument);
                let scale = scale.ok_or_else(|| unsummed(&name, kind()))?;
                // AVG allows a space behind it, SUM does not.
                let behind = text[name.len()..].trim_start().to_owned();
                let kind = format!("DECIMAL(65,{scale})");
                let sum = self.send(format!("SUM{behind}"), &kind, Written::Plain);
                match &*name {
                    "sum" => format!("SUM({sum})"),
                    _ => {
                        let kind = "BIGINT";
                        let count = self.send(format!("COUNT{behind}"), kind, Written::Plain);
                        format!("(SUM({sum}) / SUM({count}))")
                    }
                }
            }
            ("bit_and" | "bit_or" | "bit_xor", [argument]) if self.scale(argument) == Some(0) => {
                let part = self.send(text, "BIGINT UNSIGNED", Written::Plain);
                format!("{name}({part})")
            }
            ("min" | "max", [argument]) | ("any_value", [argument])
                if name != "any_value" || self.read.is_any_value(function) =>
            {
                let names = &self.read.partition.names;
                let (table, column) = names.column(argument).ok_or_else(not)?;
                let known = kinds::of_column(column).filter(|_| !names.entries[table].derived);
                if matches!(known, None | Some(Kind::Numbered)) {
                    return Err(not());
                }
                let (text, written) = asked_as(column, &text);
                let declared = |name: &str| declared_as(column, name, true);
                let sent = self.send_as(text, declared, written);
                format!("{name}({sent})")
            }
            _ => return Err(not()),
        };
        self.edits.push((place, with));
        Ok(())
    }

    fn counted(&mut self, text: String) -> String {
        let sent = self.send(text, "BIGINT", Written::Plain);
        format!("CAST(COALESCE(SUM({sent}), 0) AS SIGNED)")
    }

    /// Of a DISTINCT: its values are on one shard each, as their shard keys are, or it does not matter.
    fn counts_apart(&self, function: &Function) -> bool {
        let mut keys = arguments(function).into_iter();
        let name = function.name.to_string();
        let of_ends = ["min", "max"]
            .iter()
            .any(|it| name.eq_ignore_ascii_case(it));
        of_ends
            || name.eq_ignore_ascii_case("count")
                && !self.is_finer
                && keys.any(|it| self.read.partition.is_live_key(it))
    }

    pub(super) fn scale(&self, expr: &Expr) -> Option<usize> {
        scale::of(&self.read.partition.names, expr)
    }

    fn finish(
        mut self,
        query: &Query,
        groups: Vec<Arc<str>>,
        asked: &Asked<'_>,
        why: String,
    ) -> Result<Answer, String> {
        let clauses = self.read.clauses;
        let (Some(from), false) = (clauses.from, self.sent.is_empty()) else {
            return Err(why);
        };
        if query.fetch.is_some() || groups.len() < 2 {
            return Err(why);
        }
        let name = format!("`heddle`.{}", ticked(&format!("{}0", asked.scratch)));
        let end = clauses.filter.unwrap_or(from).end as usize;
        let rows = &self.read.text[from.start as usize..end];
        let named =
            |(at, sent): (usize, &Sent)| format!("{} AS {}", sent.text, self.read.own_name(at));
        let sent: Vec<String> = self.sent.iter().enumerate().map(named).collect();
        let mut text = format!("SELECT {} FROM {rows}", sent.join(", "));
        for (at, group) in self.grouping.by.iter().enumerate() {
            let word = if at == 0 { "\nGROUP BY" } else { "," };
            text.push_str(&format!("{word} {group}"));
        }
        let at = text.len();
        let part = Part {
            drop: format!("DROP TEMPORARY TABLE IF EXISTS {name}"),
            create: self.create(&name, asked.mode.dialect),
            loose: None,
            sorts_keys: false,
            is_temporary: true,
            columns: self.sent.iter().map(|sent| sent.written.clone()).collect(),
            into: name.clone(),
            // Groups are few.
            load: None,
            name: name.clone(),
        };
        self.edits
            .push(((from.start as usize, end), format!("{name} AS {PARTS}")));
        let whole = edited(self.read.text.as_bytes(), self.edits);
        let whole = String::from_utf8(whole).map_err(|_| why.clone())?;
        Ok(Answer {
            tier: Tier::Gather,
            fragments: vec![Fragment {
                text,
                groups,
                any: false,
            }],
            finish: Finish::Scratch(Scratch {
                tables: vec![part],
                text: whole,
                variables: Vec::new(),
                order: vec![0],
                reduced: vec![Reduced {
                    by: Vec::new(),
                    at,
                    word: "AND",
                    called: PARTS.to_owned(),
                }],
            }),
            locks: false,
            clock: false,
            reasons: vec![why],
            sending: None,
            otherwise: None,
        })
    }

    /// Makes the parts' table.
    fn create(&self, name: &str, dialect: Dialect) -> String {
        let declared: Vec<&str> = self.sent.iter().map(|sent| &*sent.declared).collect();
        let columns = declared.join(", ");
        format!(
            "CREATE TEMPORARY TABLE {name} ({columns}) {}",
            engine(dialect)
        )
    }
}

impl Visitor for Maker<'_, '_> {
    type Break = String;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<String> {
        ControlFlow::Break("a subquery stands among its groups".to_owned())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<String> {
        if self.within > 0 || self.depth == 0 && self.grouping.has(expr) {
            return self.visit_within(expr);
        }
        let aggregate = is_aggregate(expr);
        let done = match expr {
            Expr::Function(function) if aggregate && self.depth > 0 => {
                Err(Self::not(&function.name.to_string()))
            }
            Expr::Function(function)
                if aggregate && is_distinct(function) && !self.counts_apart(function) =>
            {
                if let Err(why) = self.distinct(function) {
                    return ControlFlow::Break(why);
                }
                return self.visit_within(expr);
            }
            Expr::Function(function) if aggregate => self.aggregate(function),
            Expr::Function(function) if self.depth == 0 => match is_of_groups(function) {
                true => Ok(()),
                false => Err(Self::not(&function.name.to_string())),
            },
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) if self.depth == 0 => {
                self.column(expr)
            }
            // Its type depends on what is around it.
            Expr::TypedString(_) if self.depth == 0 => Err(Self::not("a literal with its type")),
            _ => Ok(()),
        };
        self.depth += usize::from(aggregate);
        match done {
            Ok(()) => ControlFlow::Continue(()),
            Err(why) => ControlFlow::Break(why),
        }
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<String> {
        match self.within {
            0 => self.depth -= usize::from(is_aggregate(expr)),
            _ => self.within -= 1,
        }
        ControlFlow::Continue(())
    }
}

impl Maker<'_, '_> {
    /// A part of what the shards group by: its columns are those of the parts.
    fn visit_within(&mut self, expr: &Expr) -> ControlFlow<String> {
        let begins = self.within == 0;
        self.within += 1;
        let done = match expr {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => self.column(expr),
            Expr::Function(function) if !begins && is_aggregate(expr) => {
                Err(Self::not(&function.name.to_string()))
            }
            _ => Ok(()),
        };
        match done {
            Ok(()) => ControlFlow::Continue(()),
            Err(why) => ControlFlow::Break(why),
        }
    }
}

/// An aggregate of rows, not of a window.
pub(super) fn is_aggregate(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if function.over.is_none()
        && functions::is_aggregate(&function.name.to_string()))
}

fn is_distinct(function: &Function) -> bool {
    matches!(&function.args, FunctionArguments::List(list)
        if list.duplicate_treatment == Some(DuplicateTreatment::Distinct))
}

/// What it gives depends on the groups alone, and on those of its window.
fn is_of_groups(function: &Function) -> bool {
    let name = function.name.to_string();
    match &function.over {
        None => functions::is_pure(&name),
        Some(WindowType::WindowSpec(spec)) => {
            let known = functions::is_pure(&name) || functions::is_aggregate(&name);
            spec.window_name.is_none() && known
        }
        Some(WindowType::NamedWindow(_)) => false,
    }
}
