//! Groups of which every shard has a part: the parts of equal groups become one.

use std::cmp::Ordering;

use sqlparser::ast::{
    BinaryOperator, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, SelectItem, UnaryOperator, Value,
};

use super::kinds::{self, Kind, arguments};
use super::lists::{unparted, unsummed};
use super::names::alike;
use super::{Additions, Read, Sorted, expr_of, is_constant, scale};
use crate::answer::Merging;
use crate::merge::{Aggregate, Bits, Comparison, Having, Key};
use crate::parse::conjuncts;

/// Aggregates that make lists.
const LISTS: [&str; 3] = ["group_concat", "json_arrayagg", "json_objectagg"];

/// So many groups at most are kept to be sorted.
const SORTED_MAX: u64 = 10_000;

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
                        if alike(&alias.value, &name.value))
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
        let mut keys = Vec::new();
        for (at, group) in groups.iter().enumerate() {
            let (expr, item) = self.meant_by_group(group)?;
            keys.push(match item.or_else(|| self.item_of(expr)) {
                Some(item) => self.sorted_item(item)?,
                None => Sorted {
                    expr,
                    text: self.piece(self.clauses.groups[at])?,
                    item: None,
                },
            });
        }
        let mut additions = Additions::default();
        // Without GROUP BY there is one row, whatever its order.
        let ordered = match groups.is_empty() {
            true => Ok(()),
            false => self.order_groups(&mut additions, &keys, orders),
        };
        if let Err(reason) = &ordered {
            self.can_be_sorted(reason)?;
            additions = Additions::default();
            self.order_groups(&mut additions, &keys, &[])?;
            additions.replaces_orders = true;
        }
        for (at, item) in self.select.projection.iter().enumerate() {
            let expr = expr_of(item).ok_or_else(|| "it selects * of groups".to_owned())?;
            let of_group = keys.iter().any(|key| self.same(key.expr, expr));
            let part = match expr {
                _ if of_group || is_constant(expr) => Aggregate::First,
                Expr::Function(function) => self.aggregate(&mut additions, function, Some(at))?,
                _ => return Err("it computes with aggregates of parts".to_owned()),
            };
            additions.merging.aggregates.push(part);
        }
        if ordered.is_err() {
            self.sort_groups(&mut additions, &keys, orders)?;
        }
        if let Some(having) = &self.select.having {
            self.choose_groups(&mut additions, having)?;
            additions.whole_groups = true;
        }
        additions.finish_groups();
        Ok(additions)
    }

    /// DISTINCT: each row is a group.
    pub(super) fn merged_distinct(&self, orders: &[&Expr]) -> Result<Additions, String> {
        let items = 0..self.select.projection.len();
        let keys: Result<Vec<Sorted<'_>>, String> = items.map(|at| self.sorted_item(at)).collect();
        let keys = keys?;
        let mut additions = Additions::default();
        self.order_groups(&mut additions, &keys, orders)?;
        additions.unlimited = additions.tells_equals_apart();
        additions.merging.aggregates = vec![Aggregate::First; keys.len()];
        additions.finish_groups();
        Ok(additions)
    }

    /// The shards send groups in the statement's order, and in any order within that.
    fn order_groups(
        &self,
        additions: &mut Additions,
        keys: &[Sorted<'_>],
        orders: &[&Expr],
    ) -> Result<(), String> {
        let mut left: Vec<&Sorted<'_>> = keys.iter().collect();
        for (at, order) in orders.iter().enumerate() {
            let (_, descending) = self.clauses.orders[at];
            let expr = self.meant_by_order(order)?;
            if is_constant(expr) {
                continue;
            }
            match keys.iter().find(|key| self.same(key.expr, expr)) {
                None => return Err("its order is not that of its groups".to_owned()),
                Some(key) => {
                    let before = left.len();
                    left.retain(|it| !std::ptr::eq(*it, key));
                    if left.len() < before {
                        self.order(additions, *key, descending)?;
                    }
                }
            }
        }
        for key in left.into_iter().filter(|key| !is_constant(key.expr)) {
            self.order(additions, *key, false)?;
            let order = self.ordered_by(additions, *key);
            additions.orders.push(order);
        }
        Ok(())
    }

    /// The item of the select list that an expression is.
    fn item_of(&self, expr: &Expr) -> Option<usize> {
        let mut items = self.select.projection.iter();
        items.position(|item| expr_of(item).is_some_and(|it| self.same(it, expr)))
    }

    /// The expression that one of ORDER BY means.
    fn meant_by_order<'e>(&'e self, order: &'e Expr) -> Result<&'e Expr, String> {
        match self.item_meant(order)? {
            Some(item) => self.item(item),
            None => {
                self.no_alias(order)?;
                Ok(order)
            }
        }
    }

    /// Groups can be kept and sorted when few are wanted.
    fn can_be_sorted(&self, reason: &str) -> Result<(), String> {
        let mut merging = Merging::default();
        self.limited(&mut merging)?;
        let most = merging
            .limit
            .map(|limit| limit.saturating_add(merging.offset));
        match most {
            Some(most) if most <= SORTED_MAX && !self.clauses.groups.is_empty() => Ok(()),
            _ => Err(reason.to_owned()),
        }
    }

    /// Sorts groups by their wholes.
    fn sort_groups(
        &self,
        additions: &mut Additions,
        keys: &[Sorted<'_>],
        orders: &[&Expr],
    ) -> Result<(), String> {
        if keys.iter().any(|key| is_constant(key.expr)) {
            return Err("its order is not that of its groups".to_owned());
        }
        for (at, order) in orders.iter().enumerate() {
            let (_, descending) = self.clauses.orders[at];
            let expr = self.meant_by_order(order)?;
            if is_constant(expr) {
                continue;
            }
            // The merge is ordered by the keys, in their order.
            let key = keys.iter().position(|key| self.same(key.expr, expr));
            let (column, comparison) = match key.map(|key| additions.merging.order[key]) {
                Some(order) => {
                    let shown = self.select.projection.len();
                    (order.by.place(shown), order.comparison)
                }
                None => self.whole(additions, expr)?,
            };
            additions.merging.sort.push(Key {
                column,
                comparison,
                descending,
            });
        }
        Ok(())
    }

    /// The column that has the whole of an aggregate, added when the client does not see it.
    fn whole(&self, additions: &mut Additions, expr: &Expr) -> Result<(usize, Comparison), String> {
        let (column, part) = match (self.item_of(expr), expr) {
            (Some(at), _) => (at, additions.merging.aggregates[at]),
            (None, Expr::Function(function)) => {
                let part = self.aggregate(additions, function, None)?;
                let text = self.written(expr)?;
                let at = self.select.projection.len() + additions.hidden.len();
                additions.hidden.push(text);
                additions.parts.push(part);
                (at, part)
            }
            _ => return Err("it computes with aggregates of parts".to_owned()),
        };
        match part {
            Aggregate::Sum | Aggregate::Bits(_) => Ok((column, Comparison::Number)),
            Aggregate::Least(how) | Aggregate::Greatest(how) => Ok((column, how)),
            Aggregate::Best { weight, how, .. } => Ok((weight, how)),
            _ => {
                Err("groups are ordered or chosen by what is printed shorter than it is".to_owned())
            }
        }
    }

    /// The text of an aggregate that stands by itself in ORDER BY or HAVING.
    fn written(&self, expr: &Expr) -> Result<String, String> {
        if let Expr::Function(function) = expr
            && function.to_string().eq_ignore_ascii_case("count(*)")
        {
            return Ok("COUNT(*)".to_owned());
        }
        let orders = self.clauses.orders.iter().map(|(span, _)| *span);
        let all = orders.zip(self.ordered);
        for (span, order) in all {
            if order == &expr {
                return Ok(self.piece(span)?.to_owned());
            }
        }
        Err("an aggregate that is not selected".to_owned())
    }

    /// HAVING: aggregates compared with numbers, joined by AND.
    fn choose_groups(&self, additions: &mut Additions, having: &Expr) -> Result<(), String> {
        let not = || "HAVING speaks of groups of which each shard has a part".to_owned();
        for part in conjuncts(having) {
            let part = match part {
                Expr::Nested(inner) => inner,
                other => other,
            };
            let Expr::BinaryOp { left, op, right } = part else {
                return Err(not());
            };
            let (expr, number, swapped) = match (number(left), number(right)) {
                (None, Some(number)) => (left, number, false),
                (Some(number), None) => (right, number, true),
                _ => return Err(not()),
            };
            let (column, comparison) = match &**expr {
                Expr::Identifier(_) => {
                    let names = &self.partition.names;
                    if names.column(expr).is_some() || !names.keys(expr).is_empty() {
                        return Err(not());
                    }
                    let item = self.item_meant(expr)?.ok_or_else(not)?;
                    self.whole(additions, self.item(item)?)?
                }
                other => self.whole(additions, other)?,
            };
            if comparison != Comparison::Number {
                return Err(not());
            }
            let mut orders = orders_of(op).ok_or_else(not)?;
            if swapped {
                orders = orders.into_iter().map(Ordering::reverse).collect();
            }
            additions.merging.having.push(Having {
                column,
                orders,
                number,
            });
        }
        Ok(())
    }

    /// How the parts of an aggregate become one.
    fn aggregate(
        &self,
        additions: &mut Additions,
        function: &Function,
        at: Option<usize>,
    ) -> Result<Aggregate, String> {
        let name = function.name.to_string().to_ascii_lowercase();
        let not = || unparted(&name);
        if LISTS.contains(&&*name) && function.over.is_none() {
            return self.list(additions, function);
        }
        if self.is_any_value(function) {
            return Ok(Aggregate::First);
        }
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
        let names = &self.partition.names;
        let kind = kinds::of(names, argument).ok_or_else(not)?;
        match (&*name, kind) {
            _ if distinct => Err(not()),
            ("bit_and" | "bit_or" | "bit_xor", _) if scale::of(names, argument) == Some(0) => {
                Ok(Aggregate::Bits(match &*name {
                    "bit_and" => Bits::And,
                    "bit_or" => Bits::Or,
                    _ => Bits::Xor,
                }))
            }
            ("sum" | "avg", kind @ (Kind::Double | Kind::Single)) => {
                Err(unsummed(&name, Some(kind)))
            }
            ("sum", Kind::Exact) => Ok(Aggregate::Sum),
            ("min" | "max", kind) => {
                let comparison = match kind {
                    Kind::Exact | Kind::Double | Kind::Single => Comparison::Number,
                    Kind::Day | Kind::Bytes => Comparison::Bytes,
                    Kind::Text(_) | Kind::Time | Kind::Timestamp => {
                        return self.best(additions, kind, function, at.ok_or_else(not)?);
                    }
                    _ => return Err(not()),
                };
                Ok(match &*name {
                    "min" => Aggregate::Least(comparison),
                    _ => Aggregate::Greatest(comparison),
                })
            }
            ("avg", Kind::Exact) => self.mean(additions, function, at.ok_or_else(not)?),
            _ => Err(not()),
        }
    }

    /// MIN and MAX of what does not show its order: a weight is sent, too.
    fn best(
        &self,
        additions: &mut Additions,
        kind: Kind<'_>,
        function: &Function,
        at: usize,
    ) -> Result<Aggregate, String> {
        let text = self.item_text(at)?;
        let (column, how) =
            kinds::key(kind, text).ok_or_else(|| format!("the order of {text} is not known"))?;
        let weight = self.select.projection.len() + additions.hidden.len();
        additions.hidden.push(column);
        additions.parts.push(Aggregate::Weight);
        Ok(Aggregate::Best {
            weight,
            how,
            greatest: function.name.to_string().eq_ignore_ascii_case("max"),
        })
    }

    /// AVG: its sum and its count are sent, too.
    fn mean(
        &self,
        additions: &mut Additions,
        function: &Function,
        at: usize,
    ) -> Result<Aggregate, String> {
        let text = self.item_text(at)?;
        // The call is all that the item is. AVG allows a space behind it, SUM does not.
        let rest = text.get(function.name.to_string().len()..);
        let rest = rest.map(str::trim_start).filter(|it| it.starts_with('('));
        let rest = rest.ok_or_else(|| "AVG in a form that is not known".to_owned())?;
        let place = self.select.projection.len() + additions.hidden.len();
        additions.hidden.push(format!("SUM{rest}"));
        additions.hidden.push(format!("COUNT{rest}"));
        additions.parts.extend([Aggregate::Sum; 2]);
        Ok(Aggregate::Mean {
            sum: place,
            count: place + 1,
        })
    }
}

/// A number as it is written, without an exponent.
fn number(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) if !digits.contains(['e', 'E']) => Some(digits.clone()),
            _ => None,
        },
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => number(expr).map(|digits| format!("-{digits}")),
        _ => None,
    }
}

/// The orders of two values for which a comparison holds.
fn orders_of(op: &BinaryOperator) -> Option<Vec<Ordering>> {
    use Ordering::{Equal, Greater, Less};
    Some(match op {
        BinaryOperator::Eq => vec![Equal],
        BinaryOperator::NotEq => vec![Less, Greater],
        BinaryOperator::Gt => vec![Greater],
        BinaryOperator::GtEq => vec![Greater, Equal],
        BinaryOperator::Lt => vec![Less],
        BinaryOperator::LtEq => vec![Less, Equal],
        _ => return None,
    })
}
