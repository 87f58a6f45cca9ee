//! What an expression's values are, as far as rows are ordered, grouped and added up by them.

use farm::sharding::Column;
use sqlparser::ast::{
    BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    UnaryOperator, Value,
};

use super::names::Names;
use crate::columns::length;
use crate::functions;
use crate::merge::Comparison;

/// A column of text is ordered here up to so many characters.
const CHARS_MAX: usize = 255;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    /// An integer or a decimal, of which sums are exact.
    Exact,
    /// A quotient: a decimal that servers print shorter than they add it up.
    Quotient,
    Double,
    /// FLOAT, which is printed shorter than it is.
    Single,
    /// DATE and DATETIME: ordered as their text is.
    Day,
    Timestamp,
    Time,
    /// ENUM, SET and BIT: ordered as numbers.
    Numbered,
    Bytes,
    Text(&'a Column),
}

pub(super) fn of_column(column: &Column) -> Option<Kind<'_>> {
    match &*column.data_type {
        "tinyint" | "smallint" | "mediumint" | "int" | "integer" | "bigint" | "decimal"
        | "numeric" | "year" => Some(Kind::Exact),
        "double" | "real" => Some(Kind::Double),
        "float" => Some(Kind::Single),
        "date" | "datetime" => Some(Kind::Day),
        "timestamp" => Some(Kind::Timestamp),
        "time" => Some(Kind::Time),
        "enum" | "set" | "bit" => Some(Kind::Numbered),
        "binary" | "varbinary" => Some(Kind::Bytes),
        "char" | "varchar" if column.collation.as_deref() == Some("binary") => Some(Kind::Bytes),
        "char" | "varchar" => Some(Kind::Text(column)),
        _ => None,
    }
}

/// `None` when it is not known.
pub(super) fn of<'a>(names: &'a Names, expr: &Expr) -> Option<Kind<'a>> {
    match expr {
        Expr::Nested(inner) => of(names, inner),
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => of_column(names.column(expr)?.1),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) if digits.contains(['e', 'E']) => Some(Kind::Double),
            Value::Number(..) | Value::Boolean(_) => Some(Kind::Exact),
            _ => None,
        },
        Expr::UnaryOp { op, expr } => match op {
            UnaryOperator::Not | UnaryOperator::BangNot | UnaryOperator::BitwiseNot => {
                Some(Kind::Exact)
            }
            UnaryOperator::Minus | UnaryOperator::Plus => number(of(names, expr)?),
            _ => None,
        },
        Expr::BinaryOp { left, op, right } => operation(names, left, op, right),
        Expr::InSubquery { .. } | Expr::RLike { .. } | Expr::Exists { .. } => Some(Kind::Exact),
        _ if is_whole(expr) => Some(Kind::Exact),
        Expr::Ceil { expr, .. } | Expr::Floor { expr, .. } => number(of(names, expr)?),
        Expr::Cast { data_type, .. } => match data_type {
            DataType::Signed
            | DataType::SignedInteger
            | DataType::Unsigned
            | DataType::UnsignedInteger
            | DataType::Decimal(_) => Some(Kind::Exact),
            DataType::Date | DataType::Datetime(_) => Some(Kind::Day),
            _ => None,
        },
        Expr::Case {
            conditions,
            else_result,
            ..
        } => {
            let results = conditions.iter().map(|it| &it.result);
            joined(names, results.chain(else_result.iter().map(|it| &**it)))
        }
        Expr::Function(function) => of_function(names, function),
        _ => None,
    }
}

/// Conditions and parts of a date: whole numbers, whatever they are made of.
pub(super) fn is_whole(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsNotFalse(_)
            | Expr::InList { .. }
            | Expr::Between { .. }
            | Expr::Like { .. }
            | Expr::Extract { .. }
    )
}

fn operation<'a>(
    names: &'a Names,
    left: &Expr,
    op: &BinaryOperator,
    right: &Expr,
) -> Option<Kind<'a>> {
    use BinaryOperator as Op;
    match op {
        Op::Plus | Op::Minus | Op::Multiply | Op::Modulo => {
            let (left, right) = (number(of(names, left)?)?, number(of(names, right)?)?);
            Some(wider(left, right))
        }
        Op::Divide => {
            let (left, right) = (number(of(names, left)?)?, number(of(names, right)?)?);
            Some(wider(Kind::Quotient, wider(left, right)))
        }
        Op::Eq
        | Op::NotEq
        | Op::Gt
        | Op::GtEq
        | Op::Lt
        | Op::LtEq
        | Op::Spaceship
        | Op::And
        | Op::Or
        | Op::MyIntegerDivide
        | Op::BitwiseAnd
        | Op::BitwiseOr => Some(Kind::Exact),
        _ => None,
    }
}

/// Of numbers that are computed with.
fn number(kind: Kind<'_>) -> Option<Kind<'_>> {
    match kind {
        Kind::Exact | Kind::Quotient | Kind::Double => Some(kind),
        Kind::Single => Some(Kind::Double),
        _ => None,
    }
}

fn wider<'a>(one: Kind<'a>, other: Kind<'a>) -> Kind<'a> {
    match (one, other) {
        (Kind::Double, _) | (_, Kind::Double) => Kind::Double,
        (Kind::Quotient, _) | (_, Kind::Quotient) => Kind::Quotient,
        _ => Kind::Exact,
    }
}

/// The kind of an expression that is one of these. NULL is of every kind.
fn joined<'a, 'e>(names: &'a Names, of_all: impl Iterator<Item = &'e Expr>) -> Option<Kind<'a>> {
    let mut kind = None;
    for expr in of_all {
        if matches!(expr, Expr::Value(value) if value.value == Value::Null) {
            continue;
        }
        let one = number(of(names, expr)?)?;
        kind = Some(kind.map_or(one, |kind| wider(kind, one)));
    }
    kind
}

fn of_function<'a>(names: &'a Names, function: &Function) -> Option<Kind<'a>> {
    let name = function.name.to_string().to_ascii_lowercase();
    let arguments = arguments(function);
    let first = || of(names, arguments.first()?);
    match &*name {
        "ceil" | "ceiling" | "floor" | "abs" | "round" | "truncate" => number(first()?),
        "sum" => match first()? {
            Kind::Exact => Some(Kind::Exact),
            Kind::Double | Kind::Single => Some(Kind::Double),
            _ => None,
        },
        "avg" => match first()? {
            Kind::Exact | Kind::Quotient => Some(Kind::Quotient),
            Kind::Double | Kind::Single => Some(Kind::Double),
            _ => None,
        },
        "min" | "max" => match first()? {
            kind @ (Kind::Exact | Kind::Quotient | Kind::Double | Kind::Day) => Some(kind),
            _ => None,
        },
        "coalesce" | "ifnull" | "greatest" | "least" => joined(names, arguments.iter().copied()),
        "if" => joined(names, arguments.iter().copied().skip(1)),
        "nullif" => number(first()?),
        "mod" => operation(
            names,
            arguments.first()?,
            &BinaryOperator::Modulo,
            arguments.get(1)?,
        ),
        "date" | "last_day" => Some(Kind::Day),
        _ if functions::is_whole(&name) => Some(Kind::Exact),
        _ => None,
    }
}

/// The arguments that are plain expressions; none of a call that has others.
pub(super) fn arguments(function: &Function) -> Vec<&Expr> {
    let FunctionArguments::List(list) = &function.args else {
        return Vec::new();
    };
    let plain = |argument: &'_ FunctionArg| {
        matches!(argument, FunctionArg::Unnamed(FunctionArgExpr::Expr(_)))
    };
    if !list.clauses.is_empty() || !list.args.iter().all(plain) {
        return Vec::new();
    }
    let expr = |argument| match argument {
        &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref expr)) => Some(expr),
        _ => None,
    };
    list.args.iter().filter_map(expr).collect()
}

/// What shards send behind a row for `text`, of this kind, to be ordered by; and how it is compared.
pub(super) fn key(kind: Kind<'_>, text: &str) -> Option<(String, Comparison)> {
    Some(match kind {
        Kind::Exact | Kind::Quotient | Kind::Double => (text.to_owned(), Comparison::Number),
        Kind::Single => (format!("({text})+0e0"), Comparison::Number),
        Kind::Day | Kind::Bytes => (text.to_owned(), Comparison::Bytes),
        Kind::Timestamp => (format!("UNIX_TIMESTAMP({text})"), Comparison::Number),
        Kind::Time | Kind::Numbered => (format!("({text})+0"), Comparison::Number),
        Kind::Text(column) => {
            let collation = column.collation.as_deref()?;
            let chars = length(column).filter(|chars| *chars <= CHARS_MAX)?;
            if collation.contains("_0900_") || collation.contains("nopad") {
                (format!("WEIGHT_STRING({text})"), Comparison::Bytes)
            } else {
                // Some collations make two weights of one character: with blanks enough behind, both
                // of two equal texts end in blanks.
                let chars = (chars * 2).max(8);
                let weight = format!("WEIGHT_STRING({text} AS CHAR({chars}))");
                (weight, Comparison::Padded)
            }
        }
    })
}
