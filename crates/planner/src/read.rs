//! Reads a statement: the sharded tables that it names, what bounds their keys, and which of them
//! have equal keys.
//!
//! A name is looked up as SQL does it: in the query block at hand, then in those around it. A column
//! without a table is a sharded table's key when that table is of the block at hand: if another table
//! of the block had it too, the servers would refuse the statement.

mod bounds;
mod signs;
mod target;
mod tokens;

pub(crate) use bounds::term;
pub(crate) use tokens::tokens;

use std::ops::ControlFlow;

use farm::shard::KeyType;
use sqlparser::ast::{
    BinaryOperator, Delete, Expr, FromTable, Ident, Insert, JoinConstraint, JoinOperator,
    ObjectName, Query, Select, SetExpr, Statement, TableFactor, TableObject, TableWithJoins,
    Update, Visit, visit_expressions,
};

use crate::analysis::{Analysis, Reference, Unread};
use crate::catalog::{Catalog, Kind};
use crate::depth;
use crate::keys::Condition;
use crate::parse::Inner;
use crate::text::Lines;

/// Each is compared with each; a server joins 61 tables at most.
const REFERENCES_MAX: usize = 500;

/// Reads a text of one statement. `database` is the session's.
///
/// # Errors
/// The parser does not know it, or it is more than one statement.
pub fn read(text: &str, database: &str, catalog: &dyn Catalog) -> Result<Analysis, Unread> {
    let unread = |reason: String| Unread { reason };
    let tokens = tokens(text).map_err(unread)?;
    let statements = depth::parser(tokens)
        .map_err(unread)?
        .parse_statements()
        .map_err(|error| unread(error.to_string()))?;
    let [statement] = &statements[..] else {
        return Err(unread("it is not one statement".to_owned()));
    };
    let mut reader = Reader {
        catalog,
        database,
        lines: Lines::new(text),
        scopes: Vec::new(),
        named: Vec::new(),
        too_many: false,
        found: Analysis::default(),
    };
    match statement {
        Statement::Query(query) => reader.query(query),
        Statement::Update(update) => reader.update(update),
        Statement::Delete(delete) => reader.delete(delete),
        Statement::Insert(insert) => reader.insert(insert),
        _ => {
            return Err(unread(
                "it is no query, INSERT, UPDATE or DELETE".to_owned(),
            ));
        }
    }
    if reader.too_many {
        let reason = format!("it names more than {REFERENCES_MAX} sharded tables");
        return Err(unread(reason));
    }
    if binds_oddly(statement) {
        for reference in &mut reader.found.references {
            reference.condition = Condition::Any;
            reference.equals.clear();
        }
    }
    Ok(reader.found)
}

/// Operators are there that the parser binds more tightly than the servers, or than some sql_mode:
/// XOR and `||`. A condition beside them may be a part of theirs.
pub(crate) fn binds_oddly(statement: &Statement) -> bool {
    let odd = |expr: &Expr| match expr {
        Expr::BinaryOp {
            op: BinaryOperator::Xor | BinaryOperator::StringConcat,
            ..
        } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    visit_expressions(statement, odd).is_break()
}

/// A name of a query block, and the reference that it stands for, if any.
struct Name {
    database: Option<String>,
    name: String,
    reference: Option<usize>,
    /// It is a global table.
    global: bool,
    /// It is a view over several groups.
    view: bool,
    /// It is a view that a statement which changes nothing else may change.
    changeable: bool,
}

struct Reader<'a> {
    catalog: &'a dyn Catalog,
    database: &'a str,
    lines: Lines<'a>,
    /// The query blocks around the place at hand, the innermost last.
    scopes: Vec<Vec<Name>>,
    /// What WITH names, in lower case.
    named: Vec<String>,
    /// There are more references than are compared with each other.
    too_many: bool,
    found: Analysis,
}

/// To whom a condition speaks.
enum For<'r> {
    /// Every reference of the block.
    All,
    /// These: the others may be padded with NULLs.
    Only(&'r [usize]),
}

impl For<'_> {
    fn includes(&self, reference: usize) -> bool {
        match self {
            For::All => true,
            For::Only(those) => those.contains(&reference),
        }
    }
}

impl Reader<'_> {
    fn query(&mut self, query: &Query) {
        let named = self.named.len();
        if let Some(with) = &query.with {
            // A recursive one may name itself, and a later one those before it.
            for table in &with.cte_tables {
                if with.recursive {
                    self.named.push(lower(&table.alias.name));
                }
                self.query(&table.query);
                if !with.recursive {
                    self.named.push(lower(&table.alias.name));
                }
            }
        }
        self.body(&query.body);
        self.inner(&query.order_by);
        self.inner(&query.limit_clause);
        self.named.truncate(named);
    }

    fn body(&mut self, body: &SetExpr) {
        match body {
            SetExpr::Select(select) => self.select(select),
            SetExpr::Query(query) => self.query(query),
            SetExpr::SetOperation { left, right, .. } => {
                self.body(left);
                self.body(right);
            }
            SetExpr::Values(values) => self.inner(values),
            SetExpr::Table(table) => {
                let schema = table.schema_name.clone();
                if let Some(name) = &table.table_name {
                    self.scopes.push(Vec::new());
                    self.table(schema, name.clone(), None);
                    self.scopes.pop();
                }
            }
            _ => self.found.names_opaque = true,
        }
    }

    fn select(&mut self, select: &Select) {
        self.scopes.push(Vec::new());
        for from in &select.from {
            self.from(from);
        }
        if let Some(condition) = &select.selection {
            self.demand(condition, &For::All);
        }
        self.inner(&select.projection);
        self.inner(&select.selection);
        self.inner(&select.group_by);
        self.inner(&select.having);
        self.inner(&select.named_window);
        self.scopes.pop();
    }

    /// A table and what is joined to it; gives the references of all of them.
    fn from(&mut self, from: &TableWithJoins) -> Vec<usize> {
        let mut left = self.factor(&from.relation);
        for join in &from.joins {
            let right = self.factor(&join.relation);
            let (constraint, only) = match &join.join_operator {
                JoinOperator::Join(constraint)
                | JoinOperator::Inner(constraint)
                | JoinOperator::CrossJoin(constraint)
                | JoinOperator::StraightJoin(constraint) => (constraint, None),
                JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => {
                    (constraint, Some(&right))
                }
                JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
                    (constraint, Some(&left))
                }
                // What it says bounds nothing.
                other => {
                    self.inner(other);
                    left.extend(right);
                    continue;
                }
            };
            let whom = only.map_or(For::All, |only| For::Only(only));
            match constraint {
                JoinConstraint::On(condition) => {
                    self.demand(condition, &whom);
                    self.inner(condition);
                }
                JoinConstraint::Using(columns) => {
                    for column in columns {
                        self.using(column, &left, &right, &whom);
                    }
                }
                JoinConstraint::Natural | JoinConstraint::None => {}
            }
            left.extend(right);
        }
        left
    }

    fn factor(&mut self, factor: &TableFactor) -> Vec<usize> {
        match factor {
            TableFactor::Table {
                name,
                alias,
                args: None,
                version: None,
                ..
            } => {
                let alias = alias.as_ref().map(|alias| alias.name.value.clone());
                match parts(name) {
                    Some((schema, name)) => self.table(schema, name, alias).into_iter().collect(),
                    None => {
                        self.found.names_opaque = true;
                        Vec::new()
                    }
                }
            }
            TableFactor::Derived {
                lateral: _,
                subquery,
                alias,
                ..
            } => {
                self.query(subquery);
                if let Some(alias) = alias {
                    self.name(alias.name.value.clone());
                }
                Vec::new()
            }
            TableFactor::NestedJoin {
                table_with_joins,
                alias: None,
            } => self.from(table_with_joins),
            TableFactor::JsonTable {
                json_expr, alias, ..
            } => {
                self.inner(json_expr);
                if let Some(alias) = alias {
                    self.name(alias.name.value.clone());
                }
                Vec::new()
            }
            _ => {
                self.found.names_opaque = true;
                Vec::new()
            }
        }
    }

    /// A table by its name; the reference when it is sharded.
    fn table(
        &mut self,
        schema: Option<String>,
        name: String,
        alias: Option<String>,
    ) -> Option<usize> {
        if schema.is_none() && self.named.contains(&name.to_lowercase()) {
            self.name(alias.unwrap_or(name));
            return None;
        }
        let catalog = self.catalog;
        let database = schema.clone().unwrap_or_else(|| self.database.to_owned());
        let kind = catalog.table(&database, &name);
        let view = catalog.is_view(&database, &name);
        let global = matches!(kind, Kind::Global { .. });
        let reference = match kind {
            Kind::Sharded(_) if self.found.references.len() >= REFERENCES_MAX => {
                self.found.names_opaque = true;
                self.too_many = true;
                None
            }
            Kind::Sharded(table) => {
                self.found.references.push(Reference {
                    table: table.clone(),
                    condition: Condition::Any,
                    equals: Vec::new(),
                });
                Some(self.found.references.len() - 1)
            }
            Kind::Global { map } => {
                if !self.found.globals.contains(&map) {
                    self.found.globals.push(map);
                }
                None
            }
            Kind::Single { group } => {
                if !self.found.singles.contains(group) {
                    self.found.singles.push(group.clone());
                }
                None
            }
            Kind::Opaque => {
                self.found.names_opaque = true;
                None
            }
        };
        let (database_of, table) = (database.clone(), name.clone());
        let (database, name) = match alias {
            Some(alias) => (None, alias),
            None => (Some(database), name),
        };
        self.enter(Name {
            database,
            name,
            reference,
            global,
            view,
            changeable: view && catalog.is_changeable(&database_of, &table),
        });
        reference
    }

    fn enter(&mut self, name: Name) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.push(name);
        }
    }

    /// A name of what is no table.
    fn name(&mut self, name: String) {
        self.enter(Name {
            database: None,
            name,
            reference: None,
            global: false,
            view: false,
            changeable: false,
        });
    }

    /// The reference whose shard key an expression is.
    fn key(&self, expr: &Expr) -> Option<usize> {
        let is_key = |reference: usize, column: &Ident| {
            let table = &self.found.references[reference].table;
            table.column.eq_ignore_ascii_case(&column.value)
        };
        match expr {
            Expr::Nested(inner) => self.key(inner),
            Expr::Identifier(column) => {
                let scope = self.scopes.last()?;
                let mut references = scope.iter().filter_map(|name| name.reference);
                // Two that have it are joined by it, or the servers refuse the statement; what is
                // said of the joined column is true of the first one's rows that matter.
                references.find(|it| is_key(*it, column))
            }
            Expr::CompoundIdentifier(path) => {
                let (database, table, column) = match &path[..] {
                    [table, column] => (None, table, column),
                    [database, table, column] => (Some(database), table, column),
                    _ => return None,
                };
                let found = self.named(database, table)?;
                found.reference.filter(|it| is_key(*it, column))
            }
            _ => None,
        }
    }

    /// The name that stands in front of a column. Most servers tell names apart by their case, some do
    /// not: where the two would find different ones, none is found.
    fn named(&self, database: Option<&Ident>, table: &Ident) -> Option<&Name> {
        let called = |name: &&Name| {
            name.name.eq_ignore_ascii_case(&table.value)
                && database.is_none_or(|it| name.database.as_deref() == Some(&it.value))
        };
        let exact = |name: &&Name| called(name) && name.name == table.value;
        let innermost = || self.scopes.iter().rev();
        let nearest = innermost().find(|scope| scope.iter().any(|it| called(&it)))?;
        match nearest.iter().find(exact) {
            Some(found) => Some(found),
            None if innermost().flatten().any(|it| exact(&it)) => None,
            None => nearest.iter().find(called),
        }
    }

    /// A condition that rows must meet, taken apart at its ANDs.
    fn demand(&mut self, condition: &Expr, whom: &For<'_>) {
        match condition {
            Expr::Nested(inner) => self.demand(inner, whom),
            Expr::BinaryOp {
                left,
                op: BinaryOperator::And,
                right,
            } => {
                self.demand(left, whom);
                self.demand(right, whom);
            }
            Expr::BinaryOp {
                left,
                // NULLs of two outer joins are equal for <=>, wherever the rows are that were not found.
                op: BinaryOperator::Eq,
                right,
            } if self.key(left).is_some() && self.key(right).is_some() => {
                if let (Some(one), Some(other)) = (self.key(left), self.key(right)) {
                    self.equal(one, other, whom);
                }
            }
            _ => {
                for reference in 0..self.found.references.len() {
                    if whom.includes(reference) && self.is_here(reference) {
                        let means = self.bounds(condition, reference);
                        let it = &mut self.found.references[reference].condition;
                        *it = std::mem::take(it).and(means);
                    }
                }
            }
        }
    }

    /// The reference is of the innermost block: only its rows are filtered here.
    fn is_here(&self, reference: usize) -> bool {
        let here = |scope: &Vec<Name>| scope.iter().any(|name| name.reference == Some(reference));
        self.scopes.last().is_some_and(here)
    }

    fn equal(&mut self, one: usize, other: usize, whom: &For<'_>) {
        let table = |at: usize| &self.found.references[at].table;
        let comparable =
            table(one).map == table(other).map && same_values(table(one).key, table(other).key);
        if !comparable || one == other {
            return;
        }
        for (at, to) in [(one, other), (other, one)] {
            if whom.includes(at) && self.is_here(at) {
                self.found.references[at].equals.push(to);
            }
        }
    }

    /// USING: a column of one table on each side.
    fn using(&mut self, column: &ObjectName, left: &[usize], right: &[usize], whom: &For<'_>) {
        let Some((None, column)) = parts(column) else {
            return;
        };
        let has = |at: &&usize| {
            self.found.references[**at]
                .table
                .column
                .eq_ignore_ascii_case(&column)
        };
        let one = left.iter().find(has).copied();
        let other = right.iter().find(has).copied();
        if let (Some(one), Some(other)) = (one, other) {
            self.equal(one, other, whom);
        }
    }

    fn update(&mut self, update: &Update) {
        self.scopes.push(Vec::new());
        self.from(&update.table);
        self.update_targets(update);
        if let Some(condition) = &update.selection {
            self.demand(condition, &For::All);
        }
        self.inner(&update.assignments);
        self.inner(&update.selection);
        self.inner(&update.order_by);
        self.inner(&update.returning);
        self.scopes.pop();
    }

    fn delete(&mut self, delete: &Delete) {
        self.scopes.push(Vec::new());
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        // What stands before USING names tables behind it.
        let tables = delete.using.as_ref().unwrap_or(from);
        for from in tables {
            self.from(from);
        }
        self.delete_targets(delete, from);
        if let Some(condition) = &delete.selection {
            self.demand(condition, &For::All);
        }
        self.inner(&delete.selection);
        self.inner(&delete.order_by);
        self.inner(&delete.returning);
        self.scopes.pop();
    }

    fn insert(&mut self, insert: &Insert) {
        self.scopes.push(Vec::new());
        match &insert.table {
            TableObject::TableName(name) => match parts(name) {
                Some((schema, name)) => drop(self.table(schema, name, None)),
                None => self.found.names_opaque = true,
            },
            _ => self.found.names_opaque = true,
        }
        if let Some(source) = &insert.source {
            self.query(source);
        }
        self.inner(&insert.assignments);
        self.inner(&insert.on);
        self.inner(&insert.returning);
        self.scopes.pop();
    }

    /// Reads the queries inside a part of a statement.
    fn inner(&mut self, part: &impl Visit) {
        for query in Inner::of(part) {
            self.query(&query);
        }
    }
}

fn lower(name: &Ident) -> String {
    name.value.to_lowercase()
}

/// The database, if it is named, and the table.
fn parts(name: &ObjectName) -> Option<(Option<String>, String)> {
    let ident = |at: usize| Some(name.0.get(at)?.as_ident()?.value.clone());
    match name.0.len() {
        1 => Some((None, ident(0)?)),
        2 => Some((Some(ident(0)?), ident(1)?)),
        _ => None,
    }
}

/// Equal values of both have equal keys.
fn same_values(one: KeyType, other: KeyType) -> bool {
    one == other
}
