//! The tables of a statement, and of the views in it, each with the conditions that its rows must meet.

use std::rc::Rc;

use farm::sharding::Placed;
use sqlparser::ast::{
    Expr, FromTable, GroupByExpr, Ident, JoinConstraint, JoinOperator as Join, ObjectName, Query,
    Select, SelectItem, SetExpr, Statement as Parsed, TableFactor, TableObject, TableWithJoins,
    Visit,
};
use sqltext::{Span, slots};

use super::super::Literals;
use super::conditions::{Comparison, Filter, Operand, Text};
use super::parts::{Computes, Inner};
use super::{MODE, VIEWS_MAX, Witness, parsed};
use crate::read::binds_oddly;
use crate::text::Lines;

/// A name of a FROM.
#[derive(Clone)]
pub(super) struct Name {
    pub(super) database: Option<String>,
    pub(super) name: String,
    pub(super) columns: Vec<(String, Operand)>,
}

/// What stands in a FROM, or in a part of it: the tables whose rows its rows are made of.
type Rows = Vec<usize>;

/// The rows that a query gives, and its columns, where each row is made of one row of each table.
#[derive(Default)]
struct Given {
    rows: Rows,
    columns: Vec<(String, Operand)>,
}

/// Names around a place, the innermost last; and those of WITH.
#[derive(Clone, Default)]
pub(super) struct Scope {
    pub(super) blocks: Vec<Vec<Name>>,
    pub(super) given: Vec<String>,
}

impl Name {
    /// A column of that name, if it is known what it shows.
    pub(super) fn shows(&self, column: &Ident) -> Option<Operand> {
        let mut columns = self.columns.iter();
        let found = columns.find(|(it, _)| it.eq_ignore_ascii_case(&column.value));
        found.map(|(_, operand)| operand.clone())
    }
}

impl Scope {
    /// Those of the innermost block.
    fn names(&self) -> &[Name] {
        self.blocks.last().map_or(&[], |block| block)
    }
}

impl Witness<'_> {
    pub(super) fn statement(&mut self, parsed: &Parsed, text: &Text<'_>) {
        let mut scope = Scope::default();
        match parsed {
            Parsed::Query(query) => drop(self.query(query, &mut scope, text)),
            Parsed::Update(update) => {
                let from = std::slice::from_ref(&update.table);
                let selection = update.selection.as_ref();
                self.block(from, selection, &mut scope, text);
                self.inside(&update.assignments, &scope, text);
                self.inside(&update.order_by, &scope, text);
                self.inside(&update.returning, &scope, text);
            }
            Parsed::Delete(delete) => {
                let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) =
                    &delete.from;
                let from = delete.using.as_ref().unwrap_or(from);
                let selection = delete.selection.as_ref();
                self.block(from, selection, &mut scope, text);
                self.inside(&delete.order_by, &scope, text);
                self.inside(&delete.returning, &scope, text);
            }
            Parsed::Insert(insert) => {
                if let TableObject::TableName(name) = &insert.table
                    && let Some((database, table)) = name_of(name)
                {
                    let database = database.unwrap_or(text.database);
                    let placed = self.whose.sharding.placed(database, table);
                    // Which of its shards gets rows is a matter of the rows.
                    if !matches!(placed, Placed::Sharded(_)) {
                        self.base(database, table);
                    }
                }
                if let Some(source) = &insert.source {
                    self.query(source, &mut scope, text);
                }
                self.inside(&insert.assignments, &scope, text);
                self.inside(&insert.on, &scope, text);
                self.inside(&insert.returning, &scope, text);
            }
            _ => {}
        }
    }

    fn query(&mut self, query: &Query, scope: &mut Scope, text: &Text<'_>) -> Given {
        let given = scope.given.len();
        for table in query.with.iter().flat_map(|with| &with.cte_tables) {
            let recursive = query.with.as_ref().is_some_and(|with| with.recursive);
            let name = table.alias.name.value.to_lowercase();
            if recursive {
                scope.given.push(name.clone());
            }
            let mut around = scope.clone();
            self.query(&table.query, &mut around, text);
            if !recursive {
                scope.given.push(name);
            }
        }
        let found = self.body(&query.body, scope, text);
        self.inside(&query.order_by, scope, text);
        self.inside(&query.limit_clause, scope, text);
        scope.given.truncate(given);
        let whole = query.limit_clause.is_none() && query.fetch.is_none();
        found.filter(|_| whole).unwrap_or_default()
    }

    fn body(&mut self, body: &SetExpr, scope: &mut Scope, text: &Text<'_>) -> Option<Given> {
        match body {
            SetExpr::Select(select) => self.select(select, scope, text),
            SetExpr::Query(query) => Some(self.query(query, scope, text)),
            SetExpr::SetOperation { left, right, .. } => {
                self.body(left, scope, text);
                self.body(right, scope, text);
                None
            }
            SetExpr::Table(table) => {
                let name = table.table_name.as_deref().unwrap_or_default();
                let database = table.schema_name.as_deref().unwrap_or(text.database);
                self.named(database, name);
                None
            }
            SetExpr::Values(values) => {
                self.inside(values, scope, text);
                None
            }
            _ => {
                self.wrong = Some("a form of query".to_owned());
                None
            }
        }
    }

    /// The rows of a SELECT, as far as each of them is made of one row of each of its tables, or of the
    /// rows of equal keys.
    fn select(&mut self, select: &Select, scope: &mut Scope, text: &Text<'_>) -> Option<Given> {
        let rows = self.block(&select.from, select.selection.as_ref(), scope, text);
        self.inside(&select.projection, scope, text);
        self.inside(&select.group_by, scope, text);
        self.inside(&select.having, scope, text);
        self.inside(&select.named_window, scope, text);
        let grouped: Option<Vec<usize>> = match &select.group_by {
            GroupByExpr::Expressions(groups, more) if more.is_empty() && !groups.is_empty() => {
                let key = |expr: &Expr| match self.operand(expr, scope, text) {
                    Operand::Key(at) => Some(at),
                    _ => None,
                };
                Some(groups.iter().filter_map(key).collect())
            }
            GroupByExpr::Expressions(groups, _) if groups.is_empty() => None,
            _ => Some(Vec::new()),
        };
        let column = |item: &SelectItem| {
            let (expr, name) = match item {
                SelectItem::ExprWithAlias { expr, alias } => (expr, alias.value.clone()),
                SelectItem::UnnamedExpr(expr) => (expr, last(expr).unwrap_or_default()),
                _ => return (String::new(), Operand::Unknown),
            };
            let shown = self.operand(expr, scope, text);
            let kept = |at: &usize| grouped.as_ref().is_none_or(|keys| keys.contains(at));
            match &shown {
                Operand::Key(at) if !kept(at) => (name, Operand::Unknown),
                _ => (name, shown),
            }
        };
        let columns = select.projection.iter().map(column).collect();
        scope.blocks.pop();
        let computes = Computes::of(&select.projection) || Computes::of(&select.having);
        let rows = match &grouped {
            Some(keys) => rows.into_iter().filter(|at| keys.contains(at)).collect(),
            None if computes => return None,
            None => rows,
        };
        (!Computes::windows(&select.projection)).then_some(Given { rows, columns })
    }

    /// The tables of a FROM, with what its joins and its WHERE say of them. Its names stay in the
    /// scope.
    fn block(
        &mut self,
        from: &[TableWithJoins],
        selection: Option<&Expr>,
        scope: &mut Scope,
        text: &Text<'_>,
    ) -> Rows {
        scope.blocks.push(Vec::new());
        let mut rows = Rows::new();
        for from in from {
            rows.extend(self.from(from, scope, text));
        }
        if let Some(selection) = selection {
            self.demand(selection, &rows, scope, text);
        }
        rows
    }

    /// These rows are there only where both are equal.
    fn equal(&mut self, of: &[usize], one: Operand, other: Operand) {
        let equal = Rc::new(Filter::Compared(Comparison::Equal, one, other));
        for at in of {
            self.seen[*at].filters.push(equal.clone());
        }
    }

    /// A condition that rows must meet, and the queries that stand in it.
    fn demand(&mut self, condition: &Expr, of: &[usize], scope: &Scope, text: &Text<'_>) {
        let filter = Rc::new(self.filter(condition, scope, text));
        for at in of {
            self.seen[*at].filters.push(filter.clone());
        }
        self.inside(condition, scope, text);
    }

    fn from(&mut self, from: &TableWithJoins, scope: &mut Scope, text: &Text<'_>) -> Rows {
        let first = scope.names().len();
        let mut rows = self.factor(&from.relation, scope, text);
        for join in &from.joins {
            let second = scope.names().len();
            let right = self.factor(&join.relation, scope, text);
            let (constraint, padded) = match &join.join_operator {
                Join::Join(it) | Join::Inner(it) | Join::CrossJoin(it) | Join::StraightJoin(it) => {
                    (it, None)
                }
                Join::Left(it) | Join::LeftOuter(it) => (it, Some(&right)),
                Join::Right(it) | Join::RightOuter(it) => (it, Some(&rows)),
                other => {
                    self.inside(other, scope, text);
                    rows.extend(right);
                    continue;
                }
            };
            let both: Rows = rows.iter().chain(&right).copied().collect();
            let of = padded.unwrap_or(&both);
            match constraint {
                JoinConstraint::On(condition) => self.demand(condition, of, scope, text),
                JoinConstraint::Using(columns) => {
                    let (left, right) = scope.names()[first..].split_at(second - first);
                    let columns = columns.iter().filter_map(|name| name.0.last()?.as_ident());
                    for column in columns {
                        let shown = |names: &[Name]| names.iter().find_map(|it| it.shows(column));
                        if let (Some(one), Some(other)) = (shown(left), shown(right)) {
                            self.equal(of, one, other);
                        }
                    }
                }
                _ => {}
            }
            for at in padded.into_iter().flatten() {
                self.seen[*at].padded = true;
            }
            rows = both;
        }
        rows
    }

    fn factor(&mut self, factor: &TableFactor, scope: &mut Scope, text: &Text<'_>) -> Rows {
        let (given, database, name) = match factor {
            TableFactor::Table { name, alias, .. } => {
                let Some((of, table)) = name_of(name) else {
                    self.wrong = Some(name.to_string());
                    return Rows::new();
                };
                let alias = alias.as_ref().map(|alias| alias.name.value.clone());
                let database = of.unwrap_or(text.database);
                let given = match of {
                    None if scope.given.contains(&table.to_lowercase()) => Given::default(),
                    _ => self.named(database, table),
                };
                let shown = alias.is_none().then(|| database.to_owned());
                (given, shown, alias.unwrap_or_else(|| table.to_owned()))
            }
            TableFactor::Derived {
                subquery,
                alias,
                lateral,
                ..
            } => {
                let mut around = match lateral {
                    true => scope.clone(),
                    false => Scope {
                        blocks: scope.blocks[..scope.blocks.len() - 1].to_vec(),
                        given: scope.given.clone(),
                    },
                };
                let given = self.query(subquery, &mut around, text);
                let alias = alias.as_ref().map(|alias| alias.name.value.clone());
                (given, None, alias.unwrap_or_default())
            }
            TableFactor::NestedJoin {
                table_with_joins, ..
            } => return self.from(table_with_joins, scope, text),
            other => {
                self.inside(other, scope, text);
                return Rows::new();
            }
        };
        let Given { rows, columns } = given;
        if let Some(block) = scope.blocks.last_mut() {
            block.push(Name {
                database,
                name,
                columns,
            });
        }
        rows
    }

    /// A table, or what a view of that name is made of.
    fn named(&mut self, database: &str, name: &str) -> Given {
        let schema = self.whose.sharding.schema(database, name);
        let Some(schema) = schema.filter(|schema| schema.view) else {
            return match self.base(database, name) {
                Some(at) => Given {
                    rows: vec![at],
                    columns: vec![(self.seen[at].table.column.to_string(), Operand::Key(at))],
                },
                None => Given::default(),
            };
        };
        let body = schema.body.clone().filter(|_| self.depth < VIEWS_MAX);
        let Some((body, parsed)) = body.and_then(|body| Some((body.clone(), parsed(&body)?)))
        else {
            self.wrong = Some(format!("{database}.{name}"));
            return Given::default();
        };
        let slots = slots(body.as_bytes(), &MODE);
        let spans: Vec<Span> = slots.iter().map(|slot| slot.span).collect();
        let literals = Literals {
            text: body.as_bytes(),
            spans: &spans,
            mode: &MODE,
            utf8: true,
        };
        let text = Text {
            lines: Lines::new(&body),
            slots: &slots,
            values: &literals,
            database,
            odd: binds_oddly(&parsed),
        };
        self.depth += 1;
        let mut given = match &parsed {
            Parsed::Query(query) => self.query(query, &mut Scope::default(), &text),
            _ => Given::default(),
        };
        self.depth -= 1;
        let names = schema.columns.iter().map(|column| column.name.to_string());
        match given.columns.len() == schema.columns.len() {
            true => {
                let own = given.columns.into_iter().map(|it| it.1);
                given.columns = names.zip(own).collect();
            }
            false => given.columns.clear(),
        }
        given
    }

    /// The queries inside a part of a block.
    fn inside(&mut self, part: &impl Visit, scope: &Scope, text: &Text<'_>) {
        let mut inner = Inner::default();
        let _ = part.visit(&mut inner);
        for (compared, query) in inner.found {
            let mut around = scope.clone();
            let given = self.query(&query, &mut around, text);
            // Of `key IN (…)` rows of other keys say nothing.
            let Some(compared) = compared else { continue };
            let compared = match &compared {
                Expr::Tuple(items) => items.iter().collect(),
                one => vec![one],
            };
            for (expr, (_, shown)) in compared.into_iter().zip(given.columns) {
                // Whether NULL is IN a query is up to all of its rows.
                let whole = self.operand(expr, scope, text);
                if let (Operand::Key(one), Operand::Key(other)) = (&whole, &shown)
                    && !self.seen[*one].padded
                    && !self.seen[*other].padded
                {
                    self.equal(&given.rows, whole, shown);
                }
            }
        }
    }
}

/// The database, if it is named, and the table.
fn name_of(name: &ObjectName) -> Option<(Option<&str>, &str)> {
    let part = |at: usize| Some(name.0.get(at)?.as_ident()?.value.as_str());
    match name.0.len() {
        1 => Some((None, part(0)?)),
        2 => Some((Some(part(0)?), part(1)?)),
        _ => None,
    }
}

/// What a column without an alias is called.
fn last(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(name.value.clone()),
        Expr::CompoundIdentifier(path) => Some(path.last()?.value.clone()),
        _ => None,
    }
}
