//! Whether what each shard makes of a statement is complete: rows of sharded tables meet rows of
//! equal keys only, and rows that every shard has are never counted by more than one.

use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, JoinConstraint, JoinOperator, ObjectName, Query, Select,
    SelectItem, SetExpr, TableFactor, TableWithJoins, Visit, Visitor,
};

use super::names::{Entry, Names, Sharded};
use super::shape;
use crate::answer::Asked;
use crate::catalog::{Catalog, Kind};
use crate::parse::{Inner, conjuncts};

/// Stands for the rows of the blocks around, among what keys are equal to.
const AROUND: usize = usize::MAX;

pub(super) struct Partition<'a> {
    pub(super) asked: &'a Asked<'a>,
    pub names: Names,
    /// The maps of all sharded and global tables.
    pub(super) maps: Vec<u32>,
}

/// Keys that are equal.
type Ties = Vec<(usize, usize)>;

impl<'a> Partition<'a> {
    /// Reads the outermost block; afterwards its names are at hand.
    ///
    /// # Errors
    /// Why a shard cannot answer by itself.
    pub(super) fn of(select: &Select, asked: &'a Asked<'a>) -> Result<Partition<'a>, String> {
        let mut partition = Partition {
            asked,
            names: Names::default(),
            maps: Vec::new(),
        };
        partition.block(select, &[], false)?;
        partition.maps.sort_unstable();
        partition.maps.dedup();
        match partition.maps.len() {
            1 => Ok(partition),
            _ => Err("its tables are on several maps".to_owned()),
        }
    }

    /// The groups of the shards.
    pub(super) fn all_groups(&self) -> Vec<std::sync::Arc<str>> {
        let mapped = self
            .maps
            .first()
            .and_then(|map| self.asked.sharding.map(*map));
        let mut groups: Vec<std::sync::Arc<str>> = Vec::new();
        for shard in mapped.iter().flat_map(|mapped| &mapped.map.shards) {
            if !groups.contains(&shard.group) {
                groups.push(shard.group.clone());
            }
        }
        groups
    }

    /// The expression is a shard key of rows that are all there.
    pub(super) fn is_live_key(&self, expr: &Expr) -> bool {
        let entries = &self.names.entries;
        let live = |at: &usize| self.names.is_here(*at) && !entries[*at].padded;
        self.names.keys(expr).iter().any(live)
    }

    /// `tied`: the places in the select list that are compared with a key of a block around.
    fn block(&mut self, select: &Select, tied: &[usize], inner: bool) -> Result<(), String> {
        self.names.scopes.push(Vec::new());
        let mut ties = Ties::new();
        let mut live = Vec::new();
        for from in &select.from {
            live.extend(self.from(from, &mut ties)?);
        }
        if let Some(condition) = &select.selection {
            self.equal(condition, &live, &mut ties);
        }
        for at in tied {
            ties.extend(self.tie(select, *at, &live));
        }
        let begin = match (inner, live.first()) {
            (true, _) => AROUND,
            (false, Some(first)) => *first,
            (false, None) => {
                return Err("each shard would count the same rows of global tables".to_owned());
            }
        };
        self.is_tied(begin, &ties, &live)?;
        self.queries(select)?;
        if inner {
            self.names.scopes.pop();
        }
        Ok(())
    }

    /// The key that an IN compares with one of a block around, if all its rows are kept.
    fn tie(&self, select: &Select, at: usize, live: &[usize]) -> Option<(usize, usize)> {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) =
            select.projection.get(at)?
        else {
            return None;
        };
        let key = self
            .names
            .keys(expr)
            .into_iter()
            .find(|it| live.contains(it))?;
        let uses = shape::Uses::of_block(select);
        let GroupByExpr::Expressions(groups, _) = &select.group_by else {
            return None;
        };
        let whole = match groups.is_empty() {
            true => !uses.aggregates,
            false => groups.iter().any(|it| self.names.keys(it).contains(&key)),
        };
        (whole && uses.windows.is_empty() && !uses.odd_windows).then_some((AROUND, key))
    }

    /// A table and what is joined to it; gives the sharded ones whose rows are all there.
    fn from(&mut self, from: &TableWithJoins, ties: &mut Ties) -> Result<Vec<usize>, String> {
        let mut live = self.factor(&from.relation, ties)?;
        for join in &from.joins {
            use JoinOperator as Join;
            let right = self.factor(&join.relation, ties)?;
            let operator = &join.join_operator;
            match operator {
                Join::Join(it) | Join::Inner(it) | Join::CrossJoin(it) | Join::StraightJoin(it) => {
                    let left = live.clone();
                    live.extend(&right);
                    match it {
                        JoinConstraint::On(condition) => {
                            no_queries(condition)?;
                            self.equal(condition, &live, ties);
                        }
                        JoinConstraint::Using(columns) => {
                            ties.extend(self.using(columns, &left, &right)?);
                        }
                        JoinConstraint::None => {}
                        JoinConstraint::Natural => return Err("NATURAL JOIN".to_owned()),
                    }
                }
                Join::Left(it) | Join::LeftOuter(it) => {
                    self.pad(&live, &right, it, ties)?;
                }
                Join::Right(it) | Join::RightOuter(it) => {
                    self.pad(&right, &live, it, ties)?;
                    live = right;
                }
                _ => return Err("a form of JOIN that is not known".to_owned()),
            }
        }
        Ok(live)
    }

    /// An outer join: each row on the side that NULLs may stand for must meet rows of its own shard.
    fn pad(
        &mut self,
        kept: &[usize],
        padded: &[usize],
        constraint: &JoinConstraint,
        ties: &mut Ties,
    ) -> Result<(), String> {
        let mut linked = Ties::new();
        match constraint {
            JoinConstraint::On(condition) => {
                no_queries(condition)?;
                for (one, other) in self.pairs(condition) {
                    match (padded.contains(&one), padded.contains(&other)) {
                        (true, true) => ties.push((one, other)),
                        (true, false) => linked.push((AROUND, one)),
                        (false, true) => linked.push((AROUND, other)),
                        (false, false) => {}
                    }
                }
            }
            JoinConstraint::Using(columns) => {
                let pairs = self.using(columns, kept, padded)?;
                linked.extend(pairs.into_iter().map(|(_, padded)| (AROUND, padded)));
            }
            JoinConstraint::Natural => return Err("NATURAL JOIN".to_owned()),
            JoinConstraint::None => {}
        }
        linked.extend(ties.iter().copied());
        self.is_tied(AROUND, &linked, padded)?;
        for at in padded {
            self.names.entries[*at].padded = true;
        }
        Ok(())
    }

    /// All of these are tied to `begin`.
    ///
    /// # Errors
    /// One is not; with the cure.
    fn is_tied(&self, begin: usize, ties: &Ties, all: &[usize]) -> Result<(), String> {
        let apart = |at: &&usize| !reached(begin, ties, &[**at]);
        let Some(apart) = all.iter().find(apart) else {
            return Ok(());
        };
        let entry = &self.names.entries[*apart];
        let name = &entry.name;
        let key = entry.sharded.as_ref().map_or("", |it| &it.column);
        Err(match key {
            "" => {
                format!("{name} does not show the shard key, by which it would have to be joined")
            }
            key => format!(
                "{name} is joined or asked otherwise than by equal shard keys: shard it by such a \
                 column rather than by {key}, or make it global"
            ),
        })
    }

    /// Keys that a condition says to be equal.
    fn pairs(&self, condition: &Expr) -> Ties {
        let mut found = Ties::new();
        for part in conjuncts(condition) {
            // Servers write each condition of a view in parentheses.
            if let Expr::Nested(inner) = part {
                found.extend(self.pairs(inner));
            }
            let Expr::BinaryOp {
                left,
                op: BinaryOperator::Eq | BinaryOperator::Spaceship,
                right,
            } = part
            else {
                continue;
            };
            for one in self.names.keys(left) {
                for other in self.names.keys(right) {
                    if self.comparable(one, other) {
                        found.push((one, other));
                    }
                }
            }
        }
        found
    }

    /// Takes up the equalities between rows that are there and those of the blocks around.
    fn equal(&self, condition: &Expr, live: &[usize], ties: &mut Ties) {
        let node = |at: usize| match self.names.is_here(at) {
            true => live.contains(&at).then_some(at),
            false => Some(AROUND),
        };
        for (one, other) in self.pairs(condition) {
            if let (Some(one), Some(other)) = (node(one), node(other)) {
                ties.push((one, other));
            }
        }
    }

    fn comparable(&self, one: usize, other: usize) -> bool {
        let of = |at: usize| self.names.entries[at].sharded.as_ref();
        match (of(one), of(other)) {
            (Some(one), Some(other)) => one.map == other.map && one.key == other.key,
            _ => false,
        }
    }

    /// USING: pairs of a key on the left and one on the right.
    fn using(
        &self,
        columns: &[ObjectName],
        left: &[usize],
        right: &[usize],
    ) -> Result<Ties, String> {
        let mut found = Ties::new();
        for column in columns {
            let [part] = &column.0[..] else {
                return Err("USING with a qualified column".to_owned());
            };
            let name = part.as_ident().map_or("", |it| it.value.as_str());
            let has = |at: &&usize| {
                let sharded = self.names.entries[**at].sharded.as_ref();
                sharded.is_some_and(|it| it.column.eq_ignore_ascii_case(name))
            };
            for one in left.iter().filter(has) {
                for other in right.iter().filter(has) {
                    if self.comparable(*one, *other) {
                        found.push((*one, *other));
                    }
                }
            }
        }
        Ok(found)
    }

    fn factor(&mut self, factor: &TableFactor, ties: &mut Ties) -> Result<Vec<usize>, String> {
        match factor {
            TableFactor::Table {
                name,
                alias,
                args: None,
                version: None,
                ..
            } => self.table(name, alias.as_ref().map(|it| it.name.value.clone())),
            TableFactor::Derived {
                lateral: false,
                subquery,
                alias: Some(alias),
                ..
            } => {
                if self.is_over_shards(subquery) {
                    return self.parted(subquery, alias);
                }
                self.global(subquery)?;
                self.names.add(Entry {
                    database: None,
                    name: alias.name.value.clone(),
                    sharded: None,
                    schema: None,
                    padded: false,
                    derived: true,
                });
                Ok(Vec::new())
            }
            TableFactor::NestedJoin {
                table_with_joins,
                alias: None,
            } => self.from(table_with_joins, ties),
            _ => Err("a form of table that is not known".to_owned()),
        }
    }

    fn table(&mut self, name: &ObjectName, alias: Option<String>) -> Result<Vec<usize>, String> {
        let parts: Option<Vec<String>> = name
            .0
            .iter()
            .map(|it| Some(it.as_ident()?.value.clone()))
            .collect();
        let (database, table) = match parts.as_deref() {
            Some([table]) => (self.asked.database.to_owned(), table.clone()),
            Some([database, table]) => (database.clone(), table.clone()),
            _ => return Err("a name of more than two parts".to_owned()),
        };
        let schema = self.asked.sharding.schema(&database, &table);
        let sharded = match self.asked.tables().table(&database, &table) {
            Kind::Sharded(_) => self.sharded(&database, &table),
            Kind::Global { map } => {
                self.maps.push(map);
                None
            }
            Kind::Single { .. } => return Err(format!("{table} is on one group only")),
            Kind::Opaque => return Err(format!("{table} is a view")),
        };
        let is_sharded = sharded.is_some();
        let at = self.names.add(Entry {
            database: alias.is_none().then_some(database),
            name: alias.unwrap_or(table),
            sharded: sharded.map(Sharded::from),
            schema: schema.cloned(),
            padded: false,
            derived: false,
        });
        Ok(is_sharded.then_some(at).into_iter().collect())
    }

    /// It has a sharded table.
    fn is_over_shards(&self, query: &Query) -> bool {
        let mut tables = Tables::default();
        let _ = query.visit(&mut tables);
        let catalog = self.asked.tables();
        tables.found.into_iter().any(|(database, table)| {
            let database = database.unwrap_or_else(|| self.asked.database.to_owned());
            matches!(catalog.table(&database, &table), Kind::Sharded(_))
        })
    }

    fn sharded(&mut self, database: &str, table: &str) -> Option<&'a farm::shard::ShardedTable> {
        match self.asked.sharding.placed(database, table) {
            farm::sharding::Placed::Sharded(table) => {
                self.maps.push(table.map);
                Some(table)
            }
            _ => None,
        }
    }

    /// A query over global tables only, of which every shard makes the same.
    fn global(&mut self, query: &Query) -> Result<(), String> {
        let mut tables = Tables::default();
        let _ = query.visit(&mut tables);
        if tables.limits {
            return Err("a derived table has a LIMIT".to_owned());
        }
        for (database, table) in tables.found {
            let database = database.unwrap_or_else(|| self.asked.database.to_owned());
            match self.asked.tables().table(&database, &table) {
                Kind::Global { map } => self.maps.push(map),
                _ => return Err("a derived table is over shards".to_owned()),
            }
        }
        match tables.odd {
            true => Err("a derived table has a form that is not known".to_owned()),
            false => Ok(()),
        }
    }

    /// The queries inside the block's expressions.
    fn queries(&mut self, select: &Select) -> Result<(), String> {
        let mut asked = Compared::default();
        let _ = select.projection.visit(&mut asked);
        let _ = select.selection.visit(&mut asked);
        let _ = select.group_by.visit(&mut asked);
        let _ = select.having.visit(&mut asked);
        let mut inner = asked.found.iter();
        inner.try_for_each(|(compared, query)| self.inner(compared.as_ref(), query))
    }

    pub(super) fn inner(&mut self, compared: Option<&Expr>, query: &Query) -> Result<(), String> {
        if query.with.is_some()
            || query
                .order_by
                .as_ref()
                .is_some_and(|it| !Inner::of(it).is_empty())
        {
            return Err("a query inside has a WITH".to_owned());
        }
        // A key that an outer join made NULL is of no shard: whether NULL is IN a query depends on
        // whether any shard has rows for it.
        let is_whole = |at: &usize| !self.names.entries[*at].padded;
        let has_key = |expr: &Expr| self.names.keys(expr).iter().any(is_whole);
        let tied: Vec<usize> = match compared {
            _ if query.limit_clause.is_some() => Vec::new(),
            Some(Expr::Tuple(items)) => {
                let all = items.iter().enumerate();
                all.filter(|(_, it)| has_key(it))
                    .map(|(at, _)| at)
                    .collect()
            }
            Some(expr) if has_key(expr) => vec![0],
            _ => Vec::new(),
        };
        match &*query.body {
            SetExpr::Select(select) => self.block(select, &tied, true),
            _ => Err("a query inside is no plain SELECT".to_owned()),
        }
    }
}

fn no_queries(condition: &Expr) -> Result<(), String> {
    match Inner::of(condition).is_empty() {
        true => Ok(()),
        false => Err("a join's condition has a query".to_owned()),
    }
}

/// All of `wanted` are tied to `begin`, directly or by others.
fn reached(begin: usize, ties: &[(usize, usize)], wanted: &[usize]) -> bool {
    let mut found = vec![begin];
    loop {
        let new = ties.iter().find_map(|(one, other)| {
            match (found.contains(one), found.contains(other)) {
                (true, false) => Some(*other),
                (false, true) => Some(*one),
                _ => None,
            }
        });
        match new {
            Some(new) => found.push(new),
            None => return wanted.iter().all(|it| found.contains(it)),
        }
    }
}

/// The outermost queries of expressions, each with what IN compares it with.
#[derive(Default)]
struct Compared {
    depth: usize,
    found: Vec<(Option<Expr>, Query)>,
    /// Queries of INs that come next.
    next: Vec<Query>,
}

impl Visitor for Compared {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::InSubquery { expr, subquery, .. } = expr
            && self.depth == 0
        {
            let compared = Some((**expr).clone());
            self.found.push((compared, (**subquery).clone()));
            self.next.push((**subquery).clone());
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if self.depth == 0 {
            match self.next.iter().position(|it| it == query) {
                Some(at) => drop(self.next.swap_remove(at)),
                None => self.found.push((None, query.clone())),
            }
        }
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

/// The tables of a query, whatever their block.
#[derive(Default)]
struct Tables {
    found: Vec<(Option<String>, String)>,
    limits: bool,
    odd: bool,
}

impl Visitor for Tables {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.limits |= query.limit_clause.is_some() || query.fetch.is_some();
        self.odd |= query.with.is_some();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table {
                name,
                args: None,
                version: None,
                ..
            } => {
                let part = |at: usize| Some(name.0.get(at)?.as_ident()?.value.clone());
                match (name.0.len(), part(0), part(1)) {
                    (1, Some(table), _) => self.found.push((None, table)),
                    (2, database, Some(table)) => self.found.push((database, table)),
                    _ => self.odd = true,
                }
            }
            TableFactor::Derived { .. } | TableFactor::NestedJoin { .. } => {}
            _ => self.odd = true,
        }
        ControlFlow::Continue(())
    }
}
