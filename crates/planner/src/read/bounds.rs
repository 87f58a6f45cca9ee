//! What a condition says about the shard key of a table.

use sqlparser::ast::{BinaryOperator, DataType, Expr, UnaryOperator, Value};

use super::Reader;
use crate::fold::Constant;
use crate::keys::{Condition, Term};
use crate::text::Lines;

impl Reader<'_> {
    /// What a condition says about a reference's key.
    pub(super) fn bounds(&mut self, condition: &Expr, of: usize) -> Condition {
        let is_it = |it: &Self, expr: &Expr| it.key(expr) == Some(of);
        match condition {
            Expr::Nested(inner) => self.bounds(inner, of),
            Expr::BinaryOp { left, op, right } => match op {
                BinaryOperator::And => self.bounds(left, of).and(self.bounds(right, of)),
                BinaryOperator::Or => self.bounds(left, of).or(self.bounds(right, of)),
                _ if is_it(self, left) => self.compared(op, right, false),
                _ if is_it(self, right) => self.compared(op, left, true),
                _ => match (op, &**left, &**right) {
                    (BinaryOperator::Eq, Expr::Tuple(left), Expr::Tuple(right)) => {
                        self.row(left, right, of)
                    }
                    _ => Condition::Any,
                },
            },
            Expr::InList {
                expr,
                list,
                negated: false,
            } => {
                let is_it = is_it(self, expr);
                let one = |item: &Expr| match (&**expr, item) {
                    (Expr::Tuple(left), Expr::Tuple(right)) => self.row(left, right, of),
                    _ if is_it => self.compared(&BinaryOperator::Eq, item, false),
                    _ => Condition::Any,
                };
                list.iter().map(one).fold(Condition::Never, Condition::or)
            }
            Expr::Between {
                expr,
                negated: false,
                low,
                high,
            } if is_it(self, expr) => {
                let low = self.compared(&BinaryOperator::GtEq, low, false);
                low.and(self.compared(&BinaryOperator::LtEq, high, false))
            }
            _ => Condition::Any,
        }
    }

    /// `(a, b) = (1, 2)`.
    fn row(&mut self, left: &[Expr], right: &[Expr], of: usize) -> Condition {
        let both = left.iter().zip(right);
        let one = |(left, right): (&Expr, &Expr)| match (self.key(left), self.key(right)) {
            (Some(it), None) if it == of => self.compared(&BinaryOperator::Eq, right, false),
            (None, Some(it)) if it == of => self.compared(&BinaryOperator::Eq, left, false),
            _ => Condition::Any,
        };
        both.map(one).fold(Condition::Any, Condition::and)
    }

    /// `key op value`, or `value op key`.
    fn compared(&mut self, op: &BinaryOperator, value: &Expr, swapped: bool) -> Condition {
        let Some(term) = self.constant(value) else {
            return Condition::Any;
        };
        let above = |included| Condition::Between(Some((term, included)), None);
        let below = |included| Condition::Between(None, Some((term, included)));
        match (op, swapped) {
            (BinaryOperator::Eq, _) => Condition::Equal(term),
            (BinaryOperator::Gt, false) | (BinaryOperator::Lt, true) => above(false),
            (BinaryOperator::GtEq, false) | (BinaryOperator::LtEq, true) => above(true),
            (BinaryOperator::Lt, false) | (BinaryOperator::Gt, true) => below(false),
            (BinaryOperator::LtEq, false) | (BinaryOperator::GtEq, true) => below(true),
            _ => Condition::Any,
        }
    }

    /// A value that is written out, or computed of such.
    pub(super) fn constant(&mut self, expr: &Expr) -> Option<Term> {
        if let Some(term) = self.term(expr) {
            return Some(term);
        }
        let constant = Constant::of(expr, &|leaf| self.term(leaf))?;
        self.found.constants.push(constant);
        Some(Term {
            at: u32::try_from(self.found.constants.len() - 1).ok()?,
            negative: false,
            computed: true,
        })
    }

    pub(super) fn term(&self, expr: &Expr) -> Option<Term> {
        term(expr, &self.lines)
    }
}

/// A value that is written out: where it stands.
pub(crate) fn term(expr: &Expr, lines: &Lines<'_>) -> Option<Term> {
    let (value, negative) = match expr {
        Expr::Nested(inner) => return term(inner, lines),
        Expr::Value(value) => (value, false),
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => match &**expr {
            Expr::Value(value) if matches!(value.value, Value::Number(..)) => (value, true),
            _ => return None,
        },
        // DATE '2026-11-22'.
        Expr::TypedString(typed) if is_moment(&typed.data_type) => (&typed.value, false),
        _ => return None,
    };
    let at = lines.byte(value.span.start)?;
    match &value.value {
        Value::Number(..)
        | Value::SingleQuotedString(_)
        | Value::DoubleQuotedString(_)
        | Value::HexStringLiteral(_) => Some(Term {
            at,
            negative,
            computed: false,
        }),
        Value::Placeholder(mark) if mark == "?" => Some(Term {
            at,
            negative,
            computed: false,
        }),
        _ => None,
    }
}

fn is_moment(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Date | DataType::Timestamp(..) | DataType::Datetime(_)
    )
}
