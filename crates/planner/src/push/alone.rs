//! Conditions on one sharded table that each group answers for its own rows, queries in them included.

use std::ops::ControlFlow;

use farm::sharding::TableSchema;
use sqlparser::ast::{Expr, Ident, Select, SetExpr, TableFactor, TableWithJoins, Visit, Visitor};

use super::partition::Partition;
use super::shape::Travels;
use crate::answer::Asked;
use crate::parse::{self, Traits};

/// Whether what each group answers to a SELECT from one sharded table is complete, and the SELECT names
/// no column of any other table around it. False when that is not sure.
pub(crate) fn answers_alone(text: &str, asked: &Asked<'_>) -> bool {
    let Ok(query) = parse::query(text, asked.mode) else {
        return false;
    };
    let (SetExpr::Select(select), None) = (&*query.body, &query.with) else {
        return false;
    };
    let travels = Travels::of(&query);
    if travels.clock || travels.stays.is_some() || Traits::of(&query).binds_oddly {
        return false;
    }
    let mut names = Known {
        asked,
        scopes: Vec::new(),
    };
    query.visit(&mut names).is_continue() && Partition::of(select, asked).is_ok()
}

/// The tables whose columns may be meant at a place.
struct Known<'a> {
    asked: &'a Asked<'a>,
    scopes: Vec<Vec<Named<'a>>>,
}

struct Named<'a> {
    database: String,
    name: String,
    schema: &'a TableSchema,
}

impl<'a> Known<'a> {
    /// The tables of a block; `None` when the columns of one are not known.
    fn scope(&self, select: &Select) -> Option<Vec<Named<'a>>> {
        let mut scope = Vec::new();
        select
            .from
            .iter()
            .try_for_each(|from| self.from(from, &mut scope))?;
        Some(scope)
    }

    fn from(&self, from: &TableWithJoins, scope: &mut Vec<Named<'a>>) -> Option<()> {
        self.factor(&from.relation, scope)?;
        let mut joins = from.joins.iter();
        joins.try_for_each(|join| self.factor(&join.relation, scope))
    }

    fn factor(&self, factor: &TableFactor, scope: &mut Vec<Named<'a>>) -> Option<()> {
        match factor {
            TableFactor::Table {
                name,
                alias,
                args: None,
                version: None,
                ..
            } => {
                let parts: Option<Vec<&Ident>> = name.0.iter().map(|it| it.as_ident()).collect();
                let (database, table) = match parts.as_deref()? {
                    [table] => (self.asked.database, *table),
                    [database, table] => (&*database.value, *table),
                    _ => return None,
                };
                let schema = self.asked.sharding.schema(database, &table.value)?;
                let alias = alias.as_ref().map(|alias| &alias.name.value);
                scope.push(Named {
                    database: database.to_owned(),
                    name: alias.unwrap_or(&table.value).clone(),
                    schema,
                });
                Some(())
            }
            TableFactor::NestedJoin {
                table_with_joins,
                alias: None,
            } => self.from(table_with_joins, scope),
            _ => None,
        }
    }

    /// A table here or around has this column.
    fn has(&self, path: &[Ident]) -> bool {
        let Some((column, table)) = path.split_last() else {
            return false;
        };
        let is = |it: &Named<'_>| match table {
            [] => true,
            [table] => it.name == table.value,
            [database, table] => it.name == table.value && it.database == database.value,
            _ => false,
        };
        let mut all = self.scopes.iter().flatten();
        all.any(|it| is(it) && it.schema.column(&column.value).is_some())
    }
}

impl Visitor for Known<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        match self.scope(select) {
            Some(scope) => {
                self.scopes.push(scope);
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(()),
        }
    }

    fn post_visit_select(&mut self, _: &Select) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let known = match expr {
            Expr::Identifier(column) => self.has(std::slice::from_ref(column)),
            Expr::CompoundIdentifier(path) => self.has(path),
            _ => true,
        };
        match known {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }
}
