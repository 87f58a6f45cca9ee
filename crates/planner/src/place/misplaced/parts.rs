//! What stands inside the expressions of a block: aggregates and windows, and queries.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Query, Visit, Visitor};

use crate::functions;

/// Whether expressions of a block put rows together.
#[derive(Default)]
pub(super) struct Computes {
    pub(super) depth: usize,
    pub(super) aggregates: bool,
    pub(super) windows: bool,
}

impl Computes {
    pub(super) fn see(part: &impl Visit) -> Computes {
        let mut computes = Computes::default();
        let _ = part.visit(&mut computes);
        computes
    }

    pub(super) fn of(part: &impl Visit) -> bool {
        Computes::see(part).aggregates
    }

    pub(super) fn windows(part: &impl Visit) -> bool {
        Computes::see(part).windows
    }
}

impl Visitor for Computes {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr
            && self.depth == 0
        {
            self.windows |= function.over.is_some();
            self.aggregates |= functions::is_aggregate(&function.name.to_string());
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

/// The outermost queries of a part, with what IN compares each with.
#[derive(Default)]
pub(super) struct Inner {
    pub(super) depth: usize,
    pub(super) compared: Vec<(Expr, Query)>,
    pub(super) found: Vec<(Option<Expr>, Query)>,
}

impl Visitor for Inner {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::InSubquery { expr, subquery, .. } = expr
            && self.depth == 0
        {
            self.compared.push(((**expr).clone(), (**subquery).clone()));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if self.depth == 0 {
            let at = self.compared.iter().position(|(_, it)| it == query);
            let compared = at.map(|at| self.compared.swap_remove(at).0);
            self.found.push((compared, query.clone()));
        }
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}
