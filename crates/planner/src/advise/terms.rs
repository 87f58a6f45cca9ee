//! The tables of a statement, which of their columns it compares with each other, and which with values.

use std::collections::HashMap;
use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, Expr, JoinConstraint, JoinOperator, ObjectName, Query, Select, SelectItem,
    SetExpr, Statement, TableFactor, TableWithJoins, Visit, Visitor,
};

use crate::answer::Asked;
use crate::{parse, views};

/// A column by the place of its table in [`Terms::tables`], and its name as the table has it.
pub(super) type Column = (usize, String);

/// A statement's tables and comparisons, each once, in its order.
#[derive(Default)]
pub(super) struct Terms {
    /// Databases and names, of those whose columns are known.
    pub tables: Vec<(String, String)>,
    /// Columns of two tables that it says to be equal.
    pub pairs: Vec<(Column, Column)>,
    /// Columns that it says to be equal to values.
    pub points: Vec<Column>,
}

impl Terms {
    /// Of a text; `None` where it is not read.
    pub fn of(text: &str, asked: &Asked<'_>) -> Option<Terms> {
        let whole = views::expanded(text, asked).ok()?;
        let statement = match parse::query(&whole, asked.mode) {
            Ok(query) => Statement::Query(Box::new(query)),
            Err(_) => parse::statement(&whole, asked.mode).ok()?,
        };
        let mut named = Named {
            asked,
            terms: Terms::default(),
            called: HashMap::new(),
        };
        let _ = statement.visit(&mut named);
        let mut compared = Compared { named };
        let _ = statement.visit(&mut compared);
        Some(compared.named.terms)
    }
}

/// Takes the tables up.
struct Named<'a> {
    asked: &'a Asked<'a>,
    terms: Terms,
    /// What tables are called, in lower case.
    called: HashMap<String, Vec<usize>>,
}

impl Named<'_> {
    fn table(&mut self, name: &ObjectName, alias: Option<&str>) {
        let parts = name.0.iter().map(|it| Some(it.as_ident()?.value.clone()));
        let parts: Option<Vec<String>> = parts.collect();
        let (database, table) = match parts.as_deref() {
            Some([table]) => (self.asked.database.to_owned(), table.clone()),
            Some([database, table]) => (database.clone(), table.clone()),
            _ => return,
        };
        if self.asked.sharding.schema(&database, &table).is_none() {
            return;
        }
        let called = alias.unwrap_or(&table).to_lowercase();
        let name = (database, table);
        let known = self.terms.tables.iter().position(|it| *it == name);
        let at = known.unwrap_or_else(|| {
            self.terms.tables.push(name);
            self.terms.tables.len() - 1
        });
        let all = self.called.entry(called).or_default();
        if !all.contains(&at) {
            all.push(at);
        }
    }

    /// The column as a table has it.
    fn column_of(&self, at: usize, name: &str) -> Option<Column> {
        let (database, table) = &self.terms.tables[at];
        let schema = self.asked.sharding.schema(database, table)?;
        let column = &schema.columns[schema.column(name)?];
        Some((at, column.name.to_string()))
    }

    /// The columns that an expression may be.
    fn columns(&self, expr: &Expr) -> Vec<Column> {
        match expr {
            Expr::Nested(inner) => self.columns(inner),
            Expr::Identifier(name) => {
                let all = 0..self.terms.tables.len();
                all.filter_map(|at| self.column_of(at, &name.value))
                    .collect()
            }
            Expr::CompoundIdentifier(path) => match &path[..] {
                [.., table, column] => {
                    let called = self.called.get(&table.value.to_lowercase());
                    let all = called.into_iter().flatten();
                    all.filter_map(|at| self.column_of(*at, &column.value))
                        .collect()
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }
}

impl Visitor for Named<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, .. } = factor {
            let alias = alias.as_ref().map(|alias| alias.name.value.as_str());
            self.table(name, alias);
        }
        ControlFlow::Continue(())
    }
}

/// Takes the comparisons up.
struct Compared<'a> {
    named: Named<'a>,
}

impl Compared<'_> {
    fn equal(&mut self, one: &Expr, other: &Expr) {
        let columns = (self.named.columns(one), self.named.columns(other));
        let terms = &mut self.named.terms;
        match (&columns.0[..], &columns.1[..]) {
            ([], []) => {}
            (one_side, []) if is_value(other) => one_side.iter().for_each(|it| terms.point(it)),
            ([], other_side) if is_value(one) => other_side.iter().for_each(|it| terms.point(it)),
            (one_side, other_side) => {
                for one in one_side {
                    other_side.iter().for_each(|other| terms.pair(one, other));
                }
            }
        }
    }

    fn using(&mut self, from: &TableWithJoins) {
        use JoinOperator as Join;
        for join in &from.joins {
            let (Join::Join(it)
            | Join::Inner(it)
            | Join::Left(it)
            | Join::LeftOuter(it)
            | Join::Right(it)
            | Join::RightOuter(it)) = &join.join_operator
            else {
                continue;
            };
            let JoinConstraint::Using(columns) = it else {
                continue;
            };
            for name in columns.iter().filter_map(|it| it.0.last()?.as_ident()) {
                let expr = Expr::Identifier(name.clone());
                let all = self.named.columns(&expr);
                for (place, one) in all.iter().enumerate() {
                    let rest = all[place + 1..].iter();
                    rest.for_each(|other| self.named.terms.pair(one, other));
                }
            }
        }
    }
}

impl Visitor for Compared<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::BinaryOp {
                left,
                op: BinaryOperator::Eq | BinaryOperator::Spaceship,
                right,
            } => self.equal(left, right),
            Expr::InList {
                expr,
                list,
                negated: false,
            } if list.iter().all(is_value) => {
                let columns = self.named.columns(expr);
                columns.iter().for_each(|it| self.named.terms.point(it));
            }
            Expr::InSubquery { expr, subquery, .. } => {
                if let Some(inner) = only_item(subquery) {
                    self.equal(expr, inner);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        select.from.iter().for_each(|from| self.using(from));
        ControlFlow::Continue(())
    }
}

impl Terms {
    fn pair(&mut self, one: &Column, other: &Column) {
        if one.0 == other.0 {
            return;
        }
        let pair = match one <= other {
            true => (one.clone(), other.clone()),
            false => (other.clone(), one.clone()),
        };
        if !self.pairs.contains(&pair) {
            self.pairs.push(pair);
        }
    }

    fn point(&mut self, one: &Column) {
        if !self.points.contains(one) {
            self.points.push(one.clone());
        }
    }
}

/// The one expression that a query selects.
fn only_item(query: &Query) -> Option<&Expr> {
    let SetExpr::Select(select) = &*query.body else {
        return None;
    };
    match &select.projection[..] {
        [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] => Some(expr),
        _ => None,
    }
}

fn is_value(expr: &Expr) -> bool {
    match expr {
        Expr::Value(_) | Expr::TypedString(_) => true,
        Expr::UnaryOp { expr, .. } | Expr::Nested(expr) => is_value(expr),
        _ => false,
    }
}
