//! What a block's expressions use: aggregates, windows, functions whose value travels.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, Function, Query, Select, TableFactor, Value, Visit, Visitor, WindowType,
};

use crate::functions;

/// What is used outside of the queries inside.
#[derive(Default)]
pub(super) struct Uses {
    depth: usize,
    pub aggregates: bool,
    /// What each window is divided by.
    pub windows: Vec<Vec<Expr>>,
    /// Windows that are named elsewhere.
    pub odd_windows: bool,
}

impl Uses {
    pub(super) fn of(part: &impl Visit) -> Uses {
        let mut uses = Uses::default();
        let _ = part.visit(&mut uses);
        uses
    }

    /// Of the select list and of HAVING.
    pub(super) fn of_block(select: &Select) -> Uses {
        let mut uses = Uses::of(&select.projection);
        let _ = select.having.visit(&mut uses);
        uses
    }

    fn function(&mut self, function: &Function) {
        match &function.over {
            Some(WindowType::WindowSpec(spec)) if spec.window_name.is_none() => {
                self.windows.push(spec.partition_by.clone());
            }
            Some(_) => self.odd_windows = true,
            None => self.aggregates |= functions::is_aggregate(&function.name.to_string()),
        }
    }
}

impl Visitor for Uses {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr
            && self.depth == 0
        {
            self.function(function);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

/// Whether the whole statement may run on several servers.
#[derive(Default)]
pub(super) struct Travels {
    /// Asks for the time.
    pub clock: bool,
    /// What does not.
    pub stays: Option<String>,
}

impl Travels {
    pub(super) fn of(query: &Query) -> Travels {
        let mut travels = Travels::default();
        let _ = query.visit(&mut travels);
        travels
    }

    fn stay(&mut self, what: &str) -> ControlFlow<()> {
        self.stays = Some(what.to_owned());
        ControlFlow::Break(())
    }
}

impl Visitor for Travels {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) => {
                let name = function.name.to_string();
                if functions::is_clock(&name) {
                    self.clock = true;
                } else if !functions::is_pure(&name) && !functions::is_aggregate(&name) {
                    return self.stay(&format!("{name}() does not give the same on every server"));
                }
            }
            Expr::MatchAgainst { .. } => return self.stay("MATCH weighs the rows of one server"),
            Expr::Identifier(name) if name.value.starts_with('@') && name.quote_style.is_none() => {
                return self.stay("it reads a variable");
            }
            Expr::Value(value) if matches!(value.value, Value::Placeholder(_)) => {
                return self.stay("it has a parameter without a value");
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table {
                args: None,
                version: None,
                ..
            }
            | TableFactor::Derived { .. }
            | TableFactor::NestedJoin { .. } => ControlFlow::Continue(()),
            _ => self.stay("a form of table that is not known"),
        }
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        match select.into.is_some() {
            true => self.stay("INTO"),
            false => ControlFlow::Continue(()),
        }
    }
}
