//! What the values of an UPDATE are made of, and which would be others on one server: there each assignment finds what those in
//! front of it have set, while values that are read first are computed from what the row had.

use std::ops::ControlFlow;

use farm::sharding::TableSchema;
use sqlparser::ast::{
    BinaryOperator, Expr, Ident, Query, SetExpr, TableFactor, TableWithJoins, Visit, Visitor,
};

use super::Named;
use crate::answer::Asked;

/// The columns that an UPDATE has set so far.
#[derive(Default)]
pub(super) struct Before {
    /// By the number of their table.
    set: Vec<(usize, String)>,
}

impl Before {
    pub fn add(&mut self, table: usize, column: &str) {
        self.set.push((table, column.to_owned()));
    }

    /// The value reads a column that was set, or one that is computed from others.
    pub fn is_read(&self, value: &Expr, named: &[Named<'_>], asked: &Asked<'_>) -> bool {
        if self.set.is_empty() {
            return false;
        }
        let mut reading = Reading {
            before: self,
            named,
            asked,
            blocks: Vec::new(),
        };
        value.visit(&mut reading).is_break()
    }

    /// The column of this table, or of whichever of them is meant.
    fn has(&self, table: Option<&str>, column: &str, named: &[Named<'_>]) -> bool {
        let set = |(of, it): &(usize, String)| {
            let of = &named[*of];
            let called = table.is_none_or(|table| of.called().eq_ignore_ascii_case(table));
            let computed = of.schema.column(column);
            let computed = computed.is_some_and(|at| of.schema.columns[at].generated);
            called && (computed || it.eq_ignore_ascii_case(column))
        };
        self.set.iter().any(set)
    }
}

struct Reading<'a> {
    before: &'a Before,
    named: &'a [Named<'a>],
    asked: &'a Asked<'a>,
    /// The tables of the queries around the place at hand; `None` for what is no known table.
    blocks: Vec<Vec<Option<&'a TableSchema>>>,
}

impl<'a> Reading<'a> {
    fn schema(&self, factor: &TableFactor) -> Option<&'a TableSchema> {
        let TableFactor::Table { name, .. } = factor else {
            return None;
        };
        let parts: Option<Vec<&Ident>> = name.0.iter().map(|it| it.as_ident()).collect();
        let (database, table) = match parts?[..] {
            [table] => (self.asked.database, table),
            [database, table] => (&*database.value, table),
            _ => return None,
        };
        self.asked
            .sharding
            .schema(database, &table.value)
            .map(|it| &**it)
    }

    fn tables(&self, from: &[TableWithJoins]) -> Vec<Option<&'a TableSchema>> {
        let factors = from.iter().flat_map(|it| {
            let joined = it.joins.iter().map(|join| &join.relation);
            std::iter::once(&it.relation).chain(joined)
        });
        factors.map(|factor| self.schema(factor)).collect()
    }

    /// A table of a query around it surely has the column.
    fn is_of_a_query(&self, column: &str) -> bool {
        let has = |it: &Option<&TableSchema>| it.is_some_and(|it| it.column(column).is_some());
        self.blocks.iter().flatten().any(has)
    }
}

impl Visitor for Reading<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let tables = match &*query.body {
            SetExpr::Select(select) => self.tables(&select.from),
            _ => Vec::new(),
        };
        self.blocks.push(tables);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.blocks.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let reads = match expr {
            Expr::Identifier(name) => {
                let column = &*name.value;
                !self.is_of_a_query(column) && self.before.has(None, column, self.named)
            }
            Expr::CompoundIdentifier(path) => match &path[..] {
                [.., table, column] => {
                    self.before
                        .has(Some(&table.value), &column.value, self.named)
                }
                _ => false,
            },
            _ => false,
        };
        match reads {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// What a value is made of.
#[derive(Default)]
pub(super) struct Uses {
    pub queries: bool,
    pub columns: bool,
    pub defaults: bool,
    pub divides: bool,
}

impl Visitor for Uses {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries = true;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(name) => self.columns |= !name.value.starts_with('@'),
            Expr::CompoundIdentifier(_) => self.columns = true,
            Expr::Function(function) => {
                let name = function.name.to_string();
                self.defaults |= name.eq_ignore_ascii_case("default");
                self.divides |= name.eq_ignore_ascii_case("avg");
            }
            Expr::BinaryOp {
                op: BinaryOperator::Divide,
                ..
            } => self.divides = true,
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
