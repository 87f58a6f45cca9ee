//! How many digits the sum of an exact number has behind its point, as both servers tell it.

use sqlparser::ast::{BinaryOperator, Expr, Function, UnaryOperator, Value};

use super::kinds::{arguments, is_whole};
use super::names::Names;
use crate::functions;

/// The digits of an expression; `None` for what is no integer and no decimal, or is not known.
pub(super) fn of(names: &Names, expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Nested(inner) => of(names, inner),
        Expr::UnaryOp {
            op: UnaryOperator::Minus | UnaryOperator::Plus,
            expr,
        } => of(names, expr),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) if !digits.contains(['e', 'E']) => {
                Some(digits.split_once('.').map_or(0, |(_, behind)| behind.len()))
            }
            _ => None,
        },
        Expr::BinaryOp { op, .. } if is_comparison(op) => Some(0),
        Expr::BinaryOp { left, op, right } => {
            let (left, right) = (of(names, left)?, of(names, right)?);
            match op {
                BinaryOperator::Plus | BinaryOperator::Minus => Some(left.max(right)),
                BinaryOperator::Multiply => Some(left + right),
                _ => None,
            }
        }
        _ if is_whole(expr) => Some(0),
        Expr::Case {
            conditions,
            else_result,
            ..
        } => {
            let results = conditions.iter().map(|it| &it.result);
            widest(names, results.chain(else_result.iter().map(|it| &**it)))
        }
        Expr::Function(function) => of_call(names, function),
        _ => of_column(names, expr),
    }
}

fn of_call(names: &Names, function: &Function) -> Option<usize> {
    let all = arguments(function);
    let name = function.name.to_string().to_ascii_lowercase();
    match (&*name, &all[..]) {
        ("if", [_, one, other]) => widest(names, [*one, *other].into_iter()),
        ("coalesce" | "ifnull", [_, ..]) => widest(names, all.iter().copied()),
        // Of a floating point number they are one.
        ("ceil" | "ceiling" | "floor", [argument]) => of(names, argument).map(|_| 0),
        _ if functions::is_whole(&name) && function.over.is_none() => Some(0),
        _ => None,
    }
}

/// It is true, false or NULL.
fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator as Op;
    matches!(
        op,
        Op::Eq
            | Op::NotEq
            | Op::Gt
            | Op::GtEq
            | Op::Lt
            | Op::LtEq
            | Op::Spaceship
            | Op::And
            | Op::Or
    )
}

/// Of an expression that is one of these. NULL is of every type, but not alone.
fn widest<'e>(names: &Names, all: impl Iterator<Item = &'e Expr>) -> Option<usize> {
    let mut most = None;
    for expr in all {
        if !matches!(expr, Expr::Value(value) if value.value == Value::Null) {
            most = most.max(Some(of(names, expr)?));
        }
    }
    most
}

fn of_column(names: &Names, expr: &Expr) -> Option<usize> {
    let (_, column) = names.column(expr)?;
    match &*column.data_type {
        "tinyint" | "smallint" | "mediumint" | "int" | "integer" | "bigint" => Some(0),
        "decimal" | "numeric" => {
            let (_, behind) = column.full_type.split_once(',')?;
            behind.split(')').next()?.trim().parse().ok()
        }
        _ => None,
    }
}
