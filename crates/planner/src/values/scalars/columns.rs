//! As what the columns of a statement are compared: by their names alone, wherever they stand.
//!
//! Invariants: a name that means several kinds of columns, or that of a table whose columns are not known, is taken
//! for nothing.

use std::collections::HashMap;
use std::ops::ControlFlow;

use farm::sharding::Column;
use sqlparser::ast::{
    BinaryOperator, Expr, Ident, ObjectName, Query, Select, SelectItem, TableAlias, TableFactor,
    UnaryOperator, Value, Visit, Visitor,
};

use crate::answer::Asked;

use super::inside::argument;

/// An alias of an alias is looked up so often.
const DEPTH_MAX: usize = 4;

/// How a value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueType {
    /// An integer or a decimal.
    Number,
    Date,
    Datetime,
}

impl ValueType {
    pub(super) fn of(column: &Column) -> Option<ValueType> {
        match &*column.data_type {
            "tinyint" | "smallint" | "mediumint" | "int" | "integer" | "bigint" | "decimal"
            | "numeric" => Some(ValueType::Number),
            "date" => Some(ValueType::Date),
            "datetime" => Some(ValueType::Datetime),
            _ => None,
        }
    }
}

/// All columns and aliases of a statement.
pub(super) struct Columns<'a> {
    asked: &'a Asked<'a>,
    /// By their names in lower case; `None` for one that means several kinds, or another kind.
    columns: HashMap<String, Option<ValueType>>,
    aliases: HashMap<String, Vec<Expr>>,
    /// There are names of which nothing is known here.
    odd: bool,
}

impl<'a> Columns<'a> {
    /// `None` where the statement has names whose columns are not known.
    pub(super) fn of(query: &Query, asked: &'a Asked<'a>) -> Option<Columns<'a>> {
        let mut columns = Columns {
            asked,
            columns: HashMap::new(),
            aliases: HashMap::new(),
            odd: false,
        };
        let _ = query.visit(&mut columns);
        (!columns.odd).then_some(columns)
    }

    /// How the values of an expression are compared; `None` where that is not sure.
    pub(super) fn value_type(&self, expr: &Expr) -> Option<ValueType> {
        self.type_at(expr, 0)
    }

    fn type_at(&self, expr: &Expr, depth: usize) -> Option<ValueType> {
        use BinaryOperator as Op;
        match expr {
            Expr::Nested(inner) => self.type_at(inner, depth),
            Expr::Identifier(name) => self.named(name, depth),
            Expr::CompoundIdentifier(path) => self.named(path.last()?, depth),
            Expr::Value(value) => match &value.value {
                Value::Number(digits, _) if !digits.contains(['e', 'E']) => Some(ValueType::Number),
                _ => None,
            },
            Expr::UnaryOp {
                op: UnaryOperator::Minus | UnaryOperator::Plus,
                expr,
            } => self
                .type_at(expr, depth)
                .filter(|it| *it == ValueType::Number),
            Expr::BinaryOp {
                left,
                op: Op::Plus | Op::Minus | Op::Multiply | Op::Divide | Op::Modulo,
                right,
            } => {
                let both = [left, right].map(|it| self.type_at(it, depth));
                (both == [Some(ValueType::Number); 2]).then_some(ValueType::Number)
            }
            Expr::Function(function) => {
                let (name, argument) = argument(function)?;
                let of_argument = || argument.and_then(|it| self.type_at(it, depth));
                match &*name {
                    "count" => Some(ValueType::Number),
                    "sum" | "avg" => of_argument().filter(|it| *it == ValueType::Number),
                    "min" | "max" => of_argument(),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn named(&self, name: &Ident, depth: usize) -> Option<ValueType> {
        let name = name.value.to_lowercase();
        let column = self.columns.get(&name);
        let Some(aliased) = self.aliases.get(&name) else {
            return *column?;
        };
        if depth >= DEPTH_MAX {
            return None;
        }
        let mut all = aliased.iter().map(|it| match it {
            // `a AS a` is the column.
            Expr::Identifier(own) if own.value.to_lowercase() == name => *column?,
            Expr::CompoundIdentifier(path)
                if path
                    .last()
                    .is_some_and(|own| own.value.to_lowercase() == name) =>
            {
                *column?
            }
            other => self.type_at(other, depth + 1),
        });
        let first = all.next()??;
        let same = all.all(|it| it == Some(first));
        let agrees = column.is_none_or(|it| *it == Some(first));
        (same && agrees).then_some(first)
    }

    fn table(&mut self, name: &ObjectName) {
        let parts: Option<Vec<&Ident>> = name.0.iter().map(|it| it.as_ident()).collect();
        let schema = match parts.as_deref() {
            Some([table]) => self
                .asked
                .sharding
                .schema(self.asked.database, &table.value),
            Some([database, table]) => self.asked.sharding.schema(&database.value, &table.value),
            _ => None,
        };
        let Some(schema) = schema else {
            self.odd = true;
            return;
        };
        for column in &schema.columns {
            let value_type = ValueType::of(column);
            let known = self.columns.entry(column.name.to_lowercase());
            let known = known.or_insert(value_type);
            if *known != value_type {
                *known = None;
            }
        }
    }
}

impl Visitor for Columns<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.odd |= query.with.is_some() || !query.locks.is_empty();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { expr, alias } = item {
                let all = self.aliases.entry(alias.value.to_lowercase()).or_default();
                all.push(expr.clone());
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let renames = |alias: &Option<TableAlias>| {
            let alias = alias.as_ref();
            alias.is_some_and(|alias| !alias.columns.is_empty())
        };
        match factor {
            TableFactor::Table { name, alias, .. } => {
                self.odd |= renames(alias);
                self.table(name);
            }
            TableFactor::Derived { alias, .. } => self.odd |= renames(alias),
            TableFactor::NestedJoin { .. } => {}
            _ => self.odd = true,
        }
        ControlFlow::Continue(())
    }
}
