//! Groups of which every shard has a part: the parts of equal groups become one.

use sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, SelectItem,
};

use super::kinds::{self, Kind, arguments};
use super::{Additions, Read, expr_of, is_constant};
use crate::merge::{Aggregate, Comparison};

impl Read<'_> {
    /// The expression that one of GROUP BY means, and its text: a column is stronger than a name of
    /// the select list.
    pub(super) fn meant_by_group<'e>(
        &'e self,
        group: &'e Expr,
    ) -> Result<(&'e Expr, Option<usize>), String> {
        let column = self.partition.names.column(group).is_some();
        let keyed = !self.partition.names.keys(group).is_empty();
        match group {
            Expr::Identifier(_) if column || keyed => Ok((group, None)),
            Expr::Identifier(name) => {
                let items = self.select.projection.iter();
                let mut named = items.enumerate().filter(|(_, item)| {
                    matches!(item, SelectItem::ExprWithAlias { alias, .. }
                        if alias.value.eq_ignore_ascii_case(&name.value))
                });
                match (named.next(), named.next()) {
                    (Some((at, _)), None) => Ok((self.item(at)?, Some(at))),
                    _ => Err(format!("what {} means is not known", name.value)),
                }
            }
            Expr::Value(_) => match self.item_meant(group)? {
                Some(at) => Ok((self.item(at)?, Some(at))),
                None => Err("it is grouped by a constant".to_owned()),
            },
            _ => {
                self.no_alias(group)?;
                Ok((group, None))
            }
        }
    }

    /// GROUP BY by other than the shard key, or aggregates over all rows.
    pub(super) fn merged_groups(
        &self,
        groups: &[Expr],
        orders: &[&Expr],
    ) -> Result<Additions, String> {
        if self.select.having.is_some() {
            return Err("HAVING speaks of groups of which each shard has a part".to_owned());
        }
        let mut keys = Vec::new();
        for (at, group) in groups.iter().enumerate() {
            let (expr, item) = self.meant_by_group(group)?;
            let text = match item {
                Some(item) => self.item_text(item)?,
                None => self.piece(self.clauses.groups[at])?,
            };
            keys.push((expr, text));
        }
        let mut additions = Additions::default();
        self.order_groups(&mut additions, &keys, orders)?;
        let mut parts = Vec::new();
        for (at, item) in self.select.projection.iter().enumerate() {
            let expr = expr_of(item).ok_or_else(|| "it selects * of groups".to_owned())?;
            let of_group = keys.iter().any(|(key, _)| self.same(key, expr));
            parts.push(match expr {
                _ if of_group || is_constant(expr) => Aggregate::First,
                Expr::Function(function) => self.aggregate(&mut additions, function, at)?,
                _ => return Err("it computes with aggregates of parts".to_owned()),
            });
        }
        self.hide_rest(&mut additions, parts);
        Ok(additions)
    }

    /// DISTINCT: each row is a group.
    pub(super) fn merged_distinct(&self, orders: &[&Expr]) -> Result<Additions, String> {
        let mut keys = Vec::new();
        for at in 0..self.select.projection.len() {
            keys.push((self.item(at)?, self.item_text(at)?));
        }
        let mut additions = Additions::default();
        self.order_groups(&mut additions, &keys, orders)?;
        self.hide_rest(&mut additions, vec![Aggregate::First; keys.len()]);
        Ok(additions)
    }

    /// The shards send groups in the statement's order, and in any order within that.
    fn order_groups(
        &self,
        additions: &mut Additions,
        keys: &[(&Expr, &str)],
        orders: &[&Expr],
    ) -> Result<(), String> {
        let mut left: Vec<&(&Expr, &str)> = keys.iter().collect();
        for (at, order) in orders.iter().enumerate() {
            let (_, descending) = self.clauses.orders[at];
            let expr = match self.item_meant(order)? {
                Some(item) => self.item(item)?,
                None => {
                    self.no_alias(order)?;
                    *order
                }
            };
            if is_constant(expr) {
                continue;
            }
            match keys.iter().find(|(key, _)| self.same(key, expr)) {
                None => return Err("its order is not that of its groups".to_owned()),
                Some(key) => {
                    let before = left.len();
                    left.retain(|it| !std::ptr::eq(*it, key));
                    if left.len() < before {
                        self.hide(additions, key.0, key.1, descending)?;
                    }
                }
            }
        }
        for (expr, text) in left {
            if is_constant(expr) {
                continue;
            }
            self.hide(additions, expr, text, false)?;
            additions.orders.push((*text).to_owned());
        }
        Ok(())
    }

    /// Takes up how the client's columns are merged; the hidden ones so far are the groups' own, or
    /// are sums already.
    fn hide_rest(&self, additions: &mut Additions, mut parts: Vec<Aggregate>) {
        let keys = additions.merging.order.len();
        let sums = additions.hidden.len() - keys;
        parts.extend(vec![Aggregate::First; keys]);
        parts.extend(vec![Aggregate::Sum; sums]);
        additions.merging.aggregates = parts;
    }

    /// How the parts of an aggregate become one.
    fn aggregate(
        &self,
        additions: &mut Additions,
        function: &Function,
        at: usize,
    ) -> Result<Aggregate, String> {
        let name = function.name.to_string().to_ascii_lowercase();
        let not = || format!("{name} of parts is not known");
        let FunctionArguments::List(list) = &function.args else {
            return Err(not());
        };
        let distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
        if function.over.is_some() || !list.clauses.is_empty() || list.args.is_empty() {
            return Err(not());
        }
        let wild = matches!(
            list.args[..],
            [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]
        );
        let arguments = arguments(function);
        let of_shard = |expr: &&Expr| self.partition.is_live_key(expr);
        if name == "count" && (wild || !distinct || arguments.iter().any(of_shard)) {
            // Values of the key are on one shard each.
            return Ok(Aggregate::Sum);
        }
        let [argument] = arguments[..] else {
            return Err(not());
        };
        let kind = kinds::of(&self.partition.names, argument).ok_or_else(not)?;
        match (&*name, kind) {
            _ if distinct => Err(not()),
            ("sum", Kind::Exact) => Ok(Aggregate::Sum),
            ("min" | "max", kind) => {
                let comparison = match kind {
                    Kind::Exact | Kind::Double | Kind::Single => Comparison::Number,
                    Kind::Day => Comparison::Bytes,
                    _ => return Err(not()),
                };
                Ok(match &*name {
                    "min" => Aggregate::Least(comparison),
                    _ => Aggregate::Greatest(comparison),
                })
            }
            ("avg", Kind::Exact) => self.mean(additions, function, at),
            _ => Err(not()),
        }
    }

    /// AVG: its sum and its count are sent, too.
    fn mean(
        &self,
        additions: &mut Additions,
        function: &Function,
        at: usize,
    ) -> Result<Aggregate, String> {
        let text = self.item_text(at)?;
        let name = function.name.to_string();
        // The call is all that the item is.
        let rest = text
            .get(name.len()..)
            .filter(|rest| rest.trim_start().starts_with('('));
        let rest = rest.ok_or_else(|| "AVG in a form that is not known".to_owned())?;
        let place = self.select.projection.len() + additions.hidden.len();
        additions.hidden.push(format!("SUM{rest}"));
        additions.hidden.push(format!("COUNT{rest}"));
        Ok(Aggregate::Mean {
            sum: place,
            count: place + 1,
        })
    }
}
