//! A text as the parser reads it, where that is what the servers read.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, Distinct, Expr, GroupByExpr, Join, JoinConstraint, JoinOperator, Query, Select,
    SelectItem, SetExpr, Statement, TableFactor, TableWithJoins, Visit, Visitor,
};
use sqlparser::tokenizer::Location;
use sqltext::{Mode, Multibyte, Piece, PieceKind, pieces};

use crate::{depth, functions, read};

/// The query that a text is, or why it is not read.
pub(crate) fn query(text: &str, mode: &Mode) -> Result<Query, String> {
    depth::fits(text)?;
    let text = &*without_hint(text);
    let text = &*uncounted(text, mode);
    sure(text, mode)?;
    let text = &*shared(text, mode);
    match one(text) {
        Ok(Statement::Query(query)) => Ok(*query),
        Ok(_) => Err("it is not one query".to_owned()),
        Err(reason) => Err(reason),
    }
}

/// SELECT SQL_CALC_FOUND_ROWS: all rows are counted, whatever its LIMIT is.
pub(crate) fn counts_rows(text: &str, mode: &Mode) -> bool {
    counted(text, mode).is_some()
}

fn counted(text: &str, mode: &Mode) -> Option<Piece> {
    const WORD: &str = "SQL_CALC_FOUND_ROWS";
    // It is seldom there.
    let mut windows = text.as_bytes().windows(WORD.len());
    windows.find(|it| it.eq_ignore_ascii_case(WORD.as_bytes()))?;
    let all = pieces(text.as_bytes(), mode)?;
    all.into_iter()
        .find(|piece| piece.is(text.as_bytes(), WORD))
}

/// Without that word, with everything else at its place.
fn uncounted<'t>(text: &'t str, mode: &Mode) -> Cow<'t, str> {
    let Some(piece) = counted(text, mode) else {
        return Cow::Borrowed(text);
    };
    let (start, end) = (piece.span.start as usize, piece.span.end as usize);
    let blank = " ".repeat(end - start);
    Cow::Owned(format!("{}{blank}{}", &text[..start], &text[end..]))
}

/// The UPDATE or DELETE that a text is, or why it is not read.
pub(crate) fn statement(text: &str, mode: &Mode) -> Result<Statement, String> {
    depth::fits(text)?;
    sure(text, mode)?;
    one(text)
}

/// The one statement of a text.
pub(crate) fn one(text: &str) -> Result<Statement, String> {
    let statements = depth::parser(read::tokens(text)?)?
        .parse_statements()
        .map_err(|error| error.to_string())?;
    let mut statements = statements.into_iter();
    match (statements.next(), statements.next()) {
        (Some(statement), None) => Ok(statement),
        _ => Err("it is not one statement".to_owned()),
    }
}

/// A name of the servers' own function stands apart from its parenthesis: it then is the name of a
/// stored function, unless sql_mode has IGNORE_SPACE.
pub(crate) fn calls_apart(text: &str, mode: &Mode) -> bool {
    let all = pieces(text.as_bytes(), mode).unwrap_or_default();
    all.windows(2).any(|two| {
        let [name, open] = two else { return false };
        open.kind == PieceKind::Open
            && name.span.end < open.span.start
            && matches!(name.kind, PieceKind::Word | PieceKind::Reserved)
            && functions::stands_close(&String::from_utf8_lossy(name.span.of(text.as_bytes())))
    })
}

/// The parser takes a text apart as the servers do.
///
/// # Errors
/// Why not.
fn sure(text: &str, mode: &Mode) -> Result<(), String> {
    if text.contains("/*!") || text.contains("/*M!") {
        return Err("it has executable comments".to_owned());
    }
    let quotes = mode.ansi_quotes && text.contains('"');
    let escapes = mode.no_backslash_escapes && text.contains('\\');
    let letters = mode.multibyte != Multibyte::None && !text.is_ascii();
    match quotes || escapes || letters {
        true => Err("sql_mode or the character set gives its quotes another meaning".to_owned()),
        false => Ok(()),
    }
}

/// Without the hint that dump tools write behind SELECT, with everything else at its place.
fn without_hint(text: &str) -> Cow<'_, str> {
    const HINT: &str = "/*!40001 SQL_NO_CACHE */";
    match text.contains(HINT) {
        true => Cow::Owned(text.replace(HINT, &" ".repeat(HINT.len()))),
        false => Cow::Borrowed(text),
    }
}

/// LOCK IN SHARE MODE in the words that the parser knows, with everything else at its place.
pub(crate) fn shared<'t>(text: &'t str, mode: &Mode) -> Cow<'t, str> {
    const WORDS: [&str; 4] = ["LOCK", "IN", "SHARE", "MODE"];
    let all = pieces(text.as_bytes(), mode).unwrap_or_default();
    let is = |four: &&[Piece]| {
        let mut both = four.iter().zip(WORDS);
        both.all(|(piece, word)| piece.is(text.as_bytes(), word))
    };
    let Some([first, .., last]) = all.windows(WORDS.len()).find(is) else {
        return Cow::Borrowed(text);
    };
    let (start, end) = (first.span.start as usize, last.span.end as usize);
    let with = format!("{:width$}", "FOR SHARE", width = end - start);
    Cow::Owned(format!("{}{with}{}", &text[..start], &text[end..]))
}

/// What of a query matters as a whole.
#[derive(Debug, Default)]
pub(crate) struct Traits {
    /// `*` or `t.*` as a select item whose columns matter, or NATURAL JOIN.
    pub all_columns: bool,
    /// XOR or `||`, which the parser binds more tightly than the servers, or than some sql_mode.
    pub binds_oddly: bool,
    /// Columns that are compared with other columns, in lower case.
    pub joined: HashSet<String>,
    /// The SELECTs of EXISTS, by where they stand: their columns are asked by nobody.
    pub(crate) only_asked: HashSet<Location>,
    /// The SELECTs of EXISTS and IN of which it does not matter how often a row comes.
    pub(crate) sets: HashSet<Location>,
}

impl Traits {
    pub(crate) fn of(query: &Query) -> Traits {
        let mut traits = Traits::default();
        let _ = query.visit(&mut traits);
        traits
    }

    fn join(&mut self, expr: &Expr) {
        match expr {
            Expr::Identifier(column) => drop(self.joined.insert(column.value.to_lowercase())),
            Expr::CompoundIdentifier(path) => {
                if let Some(column) = path.last() {
                    self.joined.insert(column.value.to_lowercase());
                }
            }
            Expr::Nested(inner) => self.join(inner),
            Expr::Tuple(items) => items.iter().for_each(|item| self.join(item)),
            _ => {}
        }
    }

    fn join_using(&mut self, from: &TableWithJoins) {
        for constraint in from.joins.iter().filter_map(constraint) {
            if let JoinConstraint::Using(columns) = constraint {
                let names = columns.iter().filter_map(|it| it.0.last()?.as_ident());
                self.joined.extend(names.map(|it| it.value.to_lowercase()));
            }
        }
    }

    /// Takes note of the query of an EXISTS or IN, if its rows make a set.
    fn note_set(&mut self, query: &Query) {
        let SetExpr::Select(select) = &*query.body else {
            return;
        };
        let counted = query.with.is_some()
            || query.order_by.is_some()
            || query.limit_clause.is_some()
            || query.fetch.is_some()
            || !query.locks.is_empty()
            || select.top.is_some()
            || select.having.is_some()
            || select.qualify.is_some()
            || select.into.is_some()
            || !matches!(
                select.distinct,
                None | Some(Distinct::All | Distinct::Distinct)
            );
        let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(groups, modifiers)
            if groups.is_empty() && modifiers.is_empty());
        // Anything else might be an aggregate, or a window.
        let plain = |item: &SelectItem| {
            matches!(
                item,
                SelectItem::Wildcard(_)
                    | SelectItem::QualifiedWildcard(..)
                    | SelectItem::UnnamedExpr(
                        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_)
                    )
            )
        };
        if !counted && !grouped && select.projection.iter().all(plain) {
            self.sets.insert(select.select_token.0.span.start);
        }
    }

    fn join_items(&mut self, query: &Query) {
        let Some(select) = query.body.as_select() else {
            return;
        };
        for item in &select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                self.join(expr);
            }
        }
    }
}

impl Visitor for Traits {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let wild = |item: &SelectItem| {
            matches!(
                item,
                SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)
            )
        };
        let asked = !self.only_asked.contains(&select.select_token.0.span.start);
        self.all_columns |= asked && select.projection.iter().any(wild);
        self.all_columns |= select.from.iter().any(has_natural);
        select.from.iter().for_each(|from| self.join_using(from));
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        // TABLE t.
        self.all_columns |= matches!(*query.body, sqlparser::ast::SetExpr::Table(_));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::NestedJoin {
            table_with_joins, ..
        } = factor
        {
            self.all_columns |= has_natural(table_with_joins);
            self.join_using(table_with_joins);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::InSubquery { subquery, .. } | Expr::Exists { subquery, .. } = expr {
            self.note_set(subquery);
        }
        match expr {
            Expr::BinaryOp { left, op, right } => match op {
                BinaryOperator::Xor | BinaryOperator::StringConcat => self.binds_oddly = true,
                BinaryOperator::Eq | BinaryOperator::Spaceship => {
                    let column = |expr: &Expr| {
                        matches!(
                            expr,
                            Expr::Identifier(_)
                                | Expr::CompoundIdentifier(_)
                                | Expr::Tuple(_)
                                | Expr::Subquery(_)
                        )
                    };
                    if column(left) && column(right) {
                        self.join(left);
                        self.join(right);
                    }
                }
                _ => {}
            },
            Expr::InSubquery { expr, subquery, .. } => {
                self.join(expr);
                self.join_items(subquery);
            }
            // Of a DISTINCT the columns say how many rows there are; of groups they may be wrong, and
            // ORDER BY may count them.
            Expr::Exists { subquery, .. } if subquery.order_by.is_none() => {
                let groups = |select: &Select| match &select.group_by {
                    GroupByExpr::Expressions(groups, _) => !groups.is_empty(),
                    GroupByExpr::All(_) => true,
                };
                if let SetExpr::Select(select) = &*subquery.body
                    && matches!(select.distinct, None | Some(Distinct::All))
                    && !groups(select)
                {
                    self.only_asked.insert(select.select_token.0.span.start);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// NATURAL compares columns that nothing names.
fn has_natural(from: &TableWithJoins) -> bool {
    let mut constraints = from.joins.iter().filter_map(constraint);
    constraints.any(|it| matches!(it, JoinConstraint::Natural))
}

/// By what tables are joined, in the forms of JOIN that the servers have.
fn constraint(join: &Join) -> Option<&JoinConstraint> {
    match &join.join_operator {
        JoinOperator::Join(it)
        | JoinOperator::Inner(it)
        | JoinOperator::CrossJoin(it)
        | JoinOperator::StraightJoin(it)
        | JoinOperator::Left(it)
        | JoinOperator::LeftOuter(it)
        | JoinOperator::Right(it)
        | JoinOperator::RightOuter(it) => Some(it),
        _ => None,
    }
}

/// The conditions that AND joins.
pub(crate) fn conjuncts(condition: &Expr) -> Vec<&Expr> {
    match condition {
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        } => {
            let mut all = conjuncts(left);
            all.extend(conjuncts(right));
            all
        }
        other => vec![other],
    }
}

/// Queries that stand directly in a part of a statement, not in one another.
#[derive(Default)]
pub(crate) struct Inner {
    depth: usize,
    pub found: Vec<Query>,
}

impl Inner {
    pub(crate) fn of(part: &impl Visit) -> Vec<Query> {
        let mut inner = Inner::default();
        let _ = part.visit(&mut inner);
        inner.found
    }
}

impl Visitor for Inner {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if self.depth == 0 {
            self.found.push(query.clone());
        }
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}
