//! What conditions say of the shard keys of tables.

use routing::shard::Literal;
use sqlparser::ast::{BinaryOperator, Expr};
use sqltext::Slot;

use super::super::values::Named;
use super::super::{Value, Values};
use super::Witness;
use super::walk::{Name, Scope};
use crate::fold::Constant;
use crate::read::term;
use crate::text::Lines;

/// A text whose values are known.
pub(super) struct Text<'t> {
    pub(super) lines: Lines<'t>,
    pub(super) slots: &'t [Slot],
    pub(super) values: &'t dyn Values,
    /// Of names without one.
    pub(super) database: &'t str,
    /// It has operators that the parser binds otherwise than the servers.
    pub(super) odd: bool,
}

/// What rows must meet.
pub(super) enum Filter {
    All(Vec<Filter>),
    Any(Vec<Filter>),
    Compared(Comparison, Operand, Operand),
    Unknown,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    /// The left one is; `true`: or they are equal.
    Less(bool),
}

#[derive(Clone)]
pub(super) enum Operand {
    /// The shard key of a table.
    Key(usize),
    Value(Value<'static>),
    Unknown,
}

impl Witness<'_> {
    pub(super) fn filter(&self, condition: &Expr, scope: &Scope, text: &Text<'_>) -> Filter {
        use BinaryOperator as Op;
        if text.odd {
            return Filter::Unknown;
        }
        let operand = |expr: &Expr| self.operand(expr, scope, text);
        let equal = |one: &Expr, other: &Expr| match (one, other) {
            (Expr::Tuple(one), Expr::Tuple(other)) => {
                let pairs = one.iter().zip(other);
                let equal = |(one, other)| {
                    Filter::Compared(Comparison::Equal, operand(one), operand(other))
                };
                Filter::All(pairs.map(equal).collect())
            }
            _ => Filter::Compared(Comparison::Equal, operand(one), operand(other)),
        };
        match condition {
            Expr::Nested(inner) => self.filter(inner, scope, text),
            Expr::BinaryOp { left, op, right } => match op {
                Op::And => Filter::All(vec![
                    self.filter(left, scope, text),
                    self.filter(right, scope, text),
                ]),
                Op::Or => Filter::Any(vec![
                    self.filter(left, scope, text),
                    self.filter(right, scope, text),
                ]),
                Op::Eq => equal(left, right),
                Op::Lt | Op::LtEq => {
                    let how = Comparison::Less(*op == Op::LtEq);
                    Filter::Compared(how, operand(left), operand(right))
                }
                Op::Gt | Op::GtEq => {
                    let how = Comparison::Less(*op == Op::GtEq);
                    Filter::Compared(how, operand(right), operand(left))
                }
                _ => Filter::Unknown,
            },
            Expr::InList {
                expr,
                list,
                negated: false,
            } => Filter::Any(list.iter().map(|item| equal(expr, item)).collect()),
            Expr::Between {
                expr,
                negated: false,
                low,
                high,
            } => {
                let at_most = Comparison::Less(true);
                Filter::All(vec![
                    Filter::Compared(at_most, operand(low), operand(expr)),
                    Filter::Compared(at_most, operand(expr), operand(high)),
                ])
            }
            _ => Filter::Unknown,
        }
    }

    pub(super) fn operand(&self, expr: &Expr, scope: &Scope, text: &Text<'_>) -> Operand {
        match expr {
            Expr::Nested(inner) => self.operand(inner, scope, text),
            Expr::Identifier(column) => {
                let mut block = scope.blocks.last().into_iter().flatten();
                let of = block.find_map(|name| name.shows(column));
                of.unwrap_or(Operand::Unknown)
            }
            Expr::CompoundIdentifier(path) => {
                let (database, table, column) = match &path[..] {
                    [table, column] => (None, table, column),
                    [database, table, column] => (Some(database), table, column),
                    _ => return Operand::Unknown,
                };
                let called = |name: &&Name, exactly: bool| {
                    (name.name == table.value
                        || !exactly && name.name.eq_ignore_ascii_case(&table.value))
                        && database.is_none_or(|it| name.database.as_deref() == Some(&it.value))
                };
                let find = |exactly| {
                    let mut around = scope.blocks.iter().rev();
                    around.find_map(|block| block.iter().find(|it| called(it, exactly)))
                };
                // A server that tells cases apart refuses what is called so only without them.
                let name = find(true).or_else(|| find(false));
                let of = name.and_then(|name| name.shows(column));
                of.unwrap_or(Operand::Unknown)
            }
            _ => match text.value(expr) {
                Some(value) => Operand::Value(value),
                None => Operand::Unknown,
            },
        }
    }
}

impl Text<'_> {
    /// What an expression of values comes to.
    pub(super) fn value(&self, expr: &Expr) -> Option<Value<'static>> {
        let constant = Constant::of(expr, &|leaf| term(leaf, &self.lines))?;
        let terms = constant.leaves();
        let values: Option<Vec<Value<'_>>> = terms
            .iter()
            .map(|term| {
                let place = self.slots.iter().position(|slot| {
                    (slot.span.start..slot.span.end).contains(&term.at) && !slot.joined
                })?;
                let signed = self.slots[place].span.start < term.at;
                let named = Named {
                    place: u32::try_from(place).ok()?,
                    negative: term.negative && !signed,
                };
                (term.negative || !signed).then(|| named.of(self.values))?
            })
            .collect();
        let values = values?;
        let of = |term: crate::keys::Term| -> Option<Literal<'_>> {
            let at = terms.iter().position(|it| *it == term)?;
            Some(values[at].literal())
        };
        match &constant {
            // Bytes in hexadecimal digits are a value only by themselves.
            Constant::Value(_) => values.first().cloned().map(Value::into_owned),
            _ => constant.value(&of),
        }
    }
}
