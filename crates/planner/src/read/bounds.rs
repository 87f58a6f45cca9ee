//! What a condition says about the shard key of a table.

use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value};

use super::Reader;
use crate::keys::{Condition, Term};

impl Reader<'_> {
    /// What a condition says about a reference's key.
    pub(super) fn bounds(&self, condition: &Expr, of: usize) -> Condition {
        let is_it = |expr: &Expr| self.key(expr) == Some(of);
        match condition {
            Expr::Nested(inner) => self.bounds(inner, of),
            Expr::BinaryOp { left, op, right } => match op {
                BinaryOperator::And => self.bounds(left, of).and(self.bounds(right, of)),
                BinaryOperator::Or => self.bounds(left, of).or(self.bounds(right, of)),
                _ if is_it(left) => self.compared(op, right, false),
                _ if is_it(right) => self.compared(op, left, true),
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
                let one = |item: &Expr| match (&**expr, item) {
                    (Expr::Tuple(left), Expr::Tuple(right)) => self.row(left, right, of),
                    _ if is_it(expr) => self.compared(&BinaryOperator::Eq, item, false),
                    _ => Condition::Any,
                };
                list.iter().map(one).fold(Condition::Never, Condition::or)
            }
            Expr::Between {
                expr,
                negated: false,
                low,
                high,
            } if is_it(expr) => {
                let low = self.compared(&BinaryOperator::GtEq, low, false);
                low.and(self.compared(&BinaryOperator::LtEq, high, false))
            }
            _ => Condition::Any,
        }
    }

    /// `(a, b) = (1, 2)`.
    fn row(&self, left: &[Expr], right: &[Expr], of: usize) -> Condition {
        let both = left.iter().zip(right);
        let one = |(left, right): (&Expr, &Expr)| match (self.key(left), self.key(right)) {
            (Some(it), None) if it == of => self.compared(&BinaryOperator::Eq, right, false),
            (None, Some(it)) if it == of => self.compared(&BinaryOperator::Eq, left, false),
            _ => Condition::Any,
        };
        both.map(one).fold(Condition::Any, Condition::and)
    }

    /// `key op value`, or `value op key`.
    fn compared(&self, op: &BinaryOperator, value: &Expr, swapped: bool) -> Condition {
        let Some(term) = self.term(value) else {
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

    pub(super) fn term(&self, expr: &Expr) -> Option<Term> {
        let (value, negative) = match expr {
            Expr::Nested(inner) => return self.term(inner),
            Expr::Value(value) => (value, false),
            Expr::UnaryOp {
                op: UnaryOperator::Minus,
                expr,
            } => match &**expr {
                Expr::Value(value) if matches!(value.value, Value::Number(..)) => (value, true),
                _ => return None,
            },
            _ => return None,
        };
        let at = self.lines.byte(value.span.start)?;
        match &value.value {
            Value::Number(..) | Value::SingleQuotedString(_) | Value::DoubleQuotedString(_) => {
                Some(Term { at, negative })
            }
            Value::Placeholder(mark) if mark == "?" => Some(Term { at, negative }),
            _ => None,
        }
    }
}
