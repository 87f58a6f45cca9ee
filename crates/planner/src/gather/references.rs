//! The tables that a query names, and where they stand.

use std::collections::{HashMap, HashSet};

use farm::sharding::TableSchema;
use sqlparser::ast::{
    Expr, Ident, JoinConstraint, JoinOperator, LockType, NonBlock, ObjectName, Query, Select,
    SetExpr, TableFactor, TableWithJoins, Visit,
};
use sqlparser::tokenizer::Location;
use sqltext::{Piece, pieces};

use crate::answer::Asked;
use crate::parse::{self, Inner, Traits};
use crate::text::Lines;

/// A table as a query names it; as often as it is named.
pub(crate) struct Reference {
    pub database: String,
    pub table: String,
    /// Where the name stands, its database included.
    pub span: (usize, usize),
    /// What the query calls it; `None` when by its own name.
    pub alias: Option<String>,
    /// Conditions that each row must meet, or no row of the answer is made of it.
    pub pushed: Vec<String>,
    /// How its rows are locked.
    pub lock: Option<&'static str>,
    /// NULLs may stand for its rows.
    pub padded: bool,
    /// It does not matter how often an equal row comes.
    pub once: bool,
}

impl Reference {
    /// The name that its columns are called by.
    pub(crate) fn called(&self) -> &str {
        self.alias.as_deref().unwrap_or(&self.table)
    }
}

pub(crate) struct Finder<'a> {
    pub(super) text: &'a str,
    pub(super) asked: &'a Asked<'a>,
    pub(super) lines: Lines<'a>,
    /// The words of the text; none where it is not sure what they are.
    pub(super) words: Vec<Piece>,
    /// Conditions may be moved.
    pub(super) pushes: bool,
    /// What WITH names, in lower case.
    pub(super) named: Vec<String>,
    /// SELECTs of which it does not matter how often a row comes.
    sets: HashSet<Location>,
    pub found: Vec<Reference>,
    /// What is reduced, and by what: reference and column of each.
    pub reductions: Vec<((usize, String), (usize, String))>,
    /// Conditions, as bytes of the text, that all rows meet which are fetched, and the reference whose rows those
    /// are.
    pub met: Vec<((usize, usize), usize)>,
    /// The blocks around the place at hand, the innermost last; `None` hides those around it.
    pub(super) scopes: Vec<Option<Block<'a>>>,
    /// All blocks, by where their SELECTs stand.
    pub(super) blocks: HashMap<Location, Block<'a>>,
}

/// What is known of the names of one query block.
#[derive(Clone)]
pub(super) struct Block<'a> {
    /// Its references, and what is known of their columns.
    pub own: Vec<(usize, Option<&'a TableSchema>)>,
    /// It has other tables, whose columns are not known.
    pub others: bool,
}

impl<'a> Finder<'a> {
    pub(crate) fn new(text: &'a str, asked: &'a Asked<'a>, traits: &Traits) -> Finder<'a> {
        let words = pieces(text.as_bytes(), asked.mode).unwrap_or_default();
        Finder {
            text,
            asked,
            lines: Lines::new(text),
            pushes: !traits.binds_oddly && !parse::calls_apart(text, asked.mode),
            words,
            named: Vec::new(),
            sets: traits.sets.clone(),
            found: Vec::new(),
            reductions: Vec::new(),
            met: Vec::new(),
            scopes: Vec::new(),
            blocks: HashMap::new(),
        }
    }

    /// # Errors
    /// A construct is there whose tables are not known; which one.
    pub(crate) fn query(
        &mut self,
        query: &Query,
        lock: Option<&'static str>,
    ) -> Result<(), String> {
        let named = self.named.len();
        self.scopes.push(None);
        if let Some(with) = &query.with {
            for table in &with.cte_tables {
                let name = table.alias.name.value.to_lowercase();
                if with.recursive {
                    self.named.push(name);
                    self.query(&table.query, None)?;
                } else {
                    self.query(&table.query, None)?;
                    self.named.push(name);
                }
            }
        }
        self.scopes.pop();
        let own = query
            .locks
            .first()
            .map(|lock| match (&lock.lock_type, &lock.nonblock) {
                (LockType::Share, _) => "LOCK IN SHARE MODE",
                (LockType::Update, None) => "FOR UPDATE",
                (LockType::Update, Some(NonBlock::Nowait)) => "FOR UPDATE NOWAIT",
                (LockType::Update, Some(NonBlock::SkipLocked)) => "FOR UPDATE SKIP LOCKED",
            });
        self.body(&query.body, own.or(lock))?;
        self.inner(&query.order_by)?;
        self.inner(&query.limit_clause)?;
        self.named.truncate(named);
        Ok(())
    }

    fn body(&mut self, body: &SetExpr, lock: Option<&'static str>) -> Result<(), String> {
        match body {
            SetExpr::Select(select) => self.select(select, lock),
            SetExpr::Query(query) => self.query(query, lock),
            SetExpr::SetOperation { left, right, .. } => {
                self.body(left, lock)?;
                self.body(right, lock)
            }
            SetExpr::Values(values) => self.inner(values),
            _ => Err("a form of query that is not known".to_owned()),
        }
    }

    fn select(&mut self, select: &Select, lock: Option<&'static str>) -> Result<(), String> {
        if select.into.is_some() {
            return Err("INTO".to_owned());
        }
        let mut block = Block {
            own: Vec::new(),
            others: false,
        };
        self.scopes.push(None);
        for from in &select.from {
            self.from(from, false, lock, &mut block)?;
        }
        self.scopes.pop();
        if self.sets.contains(&select.select_token.0.span.start) {
            block
                .own
                .iter()
                .for_each(|(at, _)| self.found[*at].once = true);
        }
        self.scopes.push(Some(block.clone()));
        let filter = select.selection.as_ref();
        let mut left: Vec<&Expr> = filter.into_iter().collect();
        if let Some(condition) = filter.filter(|_| self.pushes) {
            left = self.push(condition, select, &block);
            self.equals(condition);
        }
        self.blocks.insert(select.select_token.0.span.start, block);
        self.inner(&select.projection)?;
        for part in left {
            self.inner(part)?;
        }
        self.inner(&select.group_by)?;
        self.inner(&select.having)?;
        self.inner(&select.named_window)?;
        if let Some(condition) = filter.filter(|_| self.pushes) {
            self.within(condition);
        }
        self.scopes.pop();
        Ok(())
    }

    fn from(
        &mut self,
        from: &TableWithJoins,
        padded: bool,
        lock: Option<&'static str>,
        block: &mut Block<'a>,
    ) -> Result<(), String> {
        let first = self.found.len();
        self.factor(&from.relation, padded, lock, block)?;
        for join in &from.joins {
            use JoinOperator as Join;
            let (constraint, right_padded, left_padded) = match &join.join_operator {
                Join::Join(it) | Join::Inner(it) | Join::CrossJoin(it) | Join::StraightJoin(it) => {
                    (it, padded, false)
                }
                Join::Left(it) | Join::LeftOuter(it) => (it, true, false),
                Join::Right(it) | Join::RightOuter(it) => (it, padded, true),
                _ => return Err("a form of JOIN that is not known".to_owned()),
            };
            if left_padded {
                self.found[first..]
                    .iter_mut()
                    .for_each(|it| it.padded = true);
            }
            let right = self.found.len();
            self.factor(&join.relation, right_padded, lock, block)?;
            let outer = matches!(
                &join.join_operator,
                Join::Left(_) | Join::LeftOuter(_) | Join::Right(_) | Join::RightOuter(_)
            );
            // Beside outer joins tables are fetched whole.
            let reduces = self.pushes && !outer;
            match constraint {
                JoinConstraint::On(condition) => {
                    let left = matches!(&join.join_operator, Join::Left(_) | Join::LeftOuter(_));
                    let is_table = matches!(join.relation, TableFactor::Table { .. });
                    // What WITH names is none of them.
                    if is_table && self.found.len() == right + 1 && (left || !outer) {
                        self.push_on(condition, block, left);
                    }
                    self.inner(condition)?;
                    if reduces {
                        self.scopes.push(Some(block.clone()));
                        self.equals(condition);
                        self.scopes.pop();
                    }
                }
                JoinConstraint::Using(columns) if reduces => {
                    self.scopes.push(Some(block.clone()));
                    for column in columns.iter().filter_map(last_part) {
                        self.using(column, block, right);
                    }
                    self.scopes.pop();
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn factor(
        &mut self,
        factor: &TableFactor,
        padded: bool,
        lock: Option<&'static str>,
        block: &mut Block<'a>,
    ) -> Result<(), String> {
        match factor {
            TableFactor::Table {
                name,
                alias,
                args: None,
                version: None,
                partitions,
                ..
            } if partitions.is_empty() => {
                let alias = alias.as_ref().map(|alias| &alias.name);
                self.table(name, alias, padded, lock, block)
            }
            TableFactor::Table { .. } => Err("PARTITION, FOR SYSTEM_TIME or arguments".to_owned()),
            TableFactor::Derived { subquery, .. } => {
                block.others = true;
                self.query(subquery, None)
            }
            TableFactor::NestedJoin {
                table_with_joins,
                alias: None,
            } => self.from(table_with_joins, padded, lock, block),
            TableFactor::JsonTable { json_expr, .. } => {
                block.others = true;
                self.inner(json_expr)
            }
            _ => Err("a form of table that is not known".to_owned()),
        }
    }

    fn table(
        &mut self,
        name: &ObjectName,
        alias: Option<&Ident>,
        padded: bool,
        lock: Option<&'static str>,
        block: &mut Block<'a>,
    ) -> Result<(), String> {
        let parts: Option<Vec<&Ident>> = name.0.iter().map(|part| part.as_ident()).collect();
        let (database, table, first) = match parts.as_deref() {
            Some([table]) => (None, *table, *table),
            Some([database, table]) => (Some(database.value.clone()), *table, *database),
            _ => return Err("a name of more than two parts".to_owned()),
        };
        let unnamed = database.is_none() && table.value.eq_ignore_ascii_case("dual");
        let given = database.is_none() && self.named.contains(&table.value.to_lowercase());
        if unnamed || given {
            block.others |= given;
            return Ok(());
        }
        let place = |at| self.lines.byte(at).map(|at| at as usize);
        let start = place(first.span.start);
        let end = self.lines.end(table.span.end).map(|at| at as usize);
        let (Some(start), Some(end)) = (start, end) else {
            return Err("a name that is not found in the text".to_owned());
        };
        let database = database.unwrap_or_else(|| self.asked.database.to_owned());
        let schema = self.asked.sharding.schema(&database, &table.value);
        let schema = schema.map(|schema| &**schema);
        block.own.push((self.found.len(), schema));
        self.found.push(Reference {
            database,
            table: table.value.clone(),
            span: (start, end),
            alias: alias.map(|alias| alias.value.clone()),
            pushed: Vec::new(),
            lock,
            padded,
            once: false,
        });
        Ok(())
    }

    /// The queries inside a part.
    fn inner(&mut self, part: &impl Visit) -> Result<(), String> {
        let queries = Inner::of(part);
        queries.iter().try_for_each(|query| self.query(query, None))
    }
}

/// The column that a name of USING is.
fn last_part(name: &ObjectName) -> Option<&str> {
    Some(&name.0.last()?.as_ident()?.value)
}
