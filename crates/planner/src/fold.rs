//! Expressions of constants, as far as their values can be told here: `40 + 2`, `CONCAT('a', ?)`.
//!
//! A value is given only where every server gives the same one. Everything else is not known, which
//! bounds nothing.

use routing::shard::Literal;
use sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, UnaryOperator,
};
use uuid::Uuid;

use crate::keys::Term;
use crate::place::Value;

/// An expression whose leaves are values of the statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Constant {
    Value(Term),
    Call(Call, Vec<Constant>),
}

/// What is done with values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Plus,
    Minus,
    Times,
    /// `/`, where it leaves no rest.
    Divided,
    /// DIV.
    Whole,
    Rest,
    Negative,
    Absolute,
    Greatest,
    Least,
    /// CAST AS SIGNED or UNSIGNED.
    Integer,
    /// CAST AS CHAR.
    Text,
    Concat,
    Lower,
    Upper,
    Coalesce,
    Unhex,
    UuidToBin,
}

/// Sums are told as long as they are within these bounds, in which doubles are exact, too.
const EXACT_MAX: i128 = 1 << 53;

impl Constant {
    /// Reads an expression; `leaf` tells the places of its values.
    pub fn of(expr: &Expr, leaf: &impl Fn(&Expr) -> Option<Term>) -> Option<Constant> {
        if let Some(term) = leaf(expr) {
            return Some(Constant::Value(term));
        }
        let all = |call, of: &[&Expr]| {
            let of: Option<Vec<Constant>> = of.iter().map(|it| Constant::of(it, leaf)).collect();
            Some(Constant::Call(call, of?))
        };
        match expr {
            Expr::Nested(inner) => Constant::of(inner, leaf),
            Expr::UnaryOp { op, expr } => match op {
                UnaryOperator::Minus => all(Call::Negative, &[expr]),
                UnaryOperator::Plus => Constant::of(expr, leaf),
                _ => None,
            },
            Expr::BinaryOp { left, op, right } => all(operator(op)?, &[left, right]),
            Expr::Cast {
                kind: CastKind::Cast,
                expr,
                data_type,
                format: None,
            } => match data_type {
                DataType::Signed | DataType::Unsigned => all(Call::Integer, &[expr]),
                DataType::SignedInteger | DataType::UnsignedInteger => all(Call::Integer, &[expr]),
                DataType::Char(None) => all(Call::Text, &[expr]),
                _ => None,
            },
            Expr::Function(function) => {
                let arguments = arguments(function)?;
                all(called(function, arguments.len())?, &arguments)
            }
            _ => None,
        }
    }

    /// Its values, as often as they stand in it.
    pub fn leaves(&self) -> Vec<Term> {
        match self {
            Constant::Value(term) => vec![*term],
            Constant::Call(_, of) => of.iter().flat_map(Constant::leaves).collect(),
        }
    }

    /// The same with other places of its values; `None` where one has none.
    pub fn renamed(&self, name: &mut impl FnMut(Term) -> Option<Term>) -> Option<Constant> {
        Some(match self {
            Constant::Value(term) => Constant::Value(name(*term)?),
            Constant::Call(call, of) => {
                let of: Option<Vec<Constant>> = of.iter().map(|it| it.renamed(name)).collect();
                Constant::Call(*call, of?)
            }
        })
    }

    /// Its value, with these values for its leaves.
    pub fn value<'v>(
        &self,
        value: &impl Fn(Term) -> Option<Literal<'v>>,
    ) -> Option<Value<'static>> {
        match self {
            Constant::Value(term) => owned(value(*term)?),
            Constant::Call(call, of) => {
                let of: Option<Vec<Value<'static>>> = of.iter().map(|it| it.value(value)).collect();
                call.value(of?)
            }
        }
    }
}

fn operator(op: &BinaryOperator) -> Option<Call> {
    Some(match op {
        BinaryOperator::Plus => Call::Plus,
        BinaryOperator::Minus => Call::Minus,
        BinaryOperator::Multiply => Call::Times,
        BinaryOperator::Divide => Call::Divided,
        BinaryOperator::MyIntegerDivide => Call::Whole,
        BinaryOperator::Modulo => Call::Rest,
        _ => return None,
    })
}

/// What a function does with so many arguments.
fn called(function: &Function, arguments: usize) -> Option<Call> {
    let [name] = &function.name.0[..] else {
        return None;
    };
    let name = name.as_ident()?.value.to_ascii_lowercase();
    Some(match (&*name, arguments) {
        ("mod", 2) => Call::Rest,
        ("abs", 1) => Call::Absolute,
        ("greatest", 2..) => Call::Greatest,
        ("least", 2..) => Call::Least,
        ("concat", 1..) => Call::Concat,
        ("lower" | "lcase", 1) => Call::Lower,
        ("upper" | "ucase", 1) => Call::Upper,
        ("coalesce", 1..) | ("ifnull", 2) => Call::Coalesce,
        ("unhex", 1) => Call::Unhex,
        ("uuid_to_bin", 1) => Call::UuidToBin,
        _ => return None,
    })
}

fn arguments(function: &Function) -> Option<Vec<&Expr>> {
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let plain = list.duplicate_treatment.is_none()
        && list.clauses.is_empty()
        && function.over.is_none()
        && function.filter.is_none()
        && function.within_group.is_empty();
    let one = |it| match it {
        &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref expr)) => Some(expr),
        _ => None,
    };
    plain.then(|| list.args.iter().map(one).collect()).flatten()
}

fn owned(literal: Literal<'_>) -> Option<Value<'static>> {
    Some(match literal {
        Literal::Null => Value::Null,
        Literal::Number(number) => Value::Number(number.to_owned().into()),
        Literal::Text(bytes) => Value::Text(bytes.to_vec().into()),
        Literal::Binary(bytes) => Value::Binary(bytes.to_vec().into()),
        Literal::Hex(_) => return None,
    })
}

impl Call {
    fn value(self, of: Vec<Value<'static>>) -> Option<Value<'static>> {
        if self == Call::Coalesce {
            let first = of.into_iter().find(|it| *it != Value::Null);
            return Some(first.unwrap_or(Value::Null));
        }
        if of.contains(&Value::Null) {
            return Some(Value::Null);
        }
        match self {
            Call::Concat => text(of.iter().map(letters).collect::<Option<Vec<_>>>()?.concat()),
            Call::Text => text(letters(&of[0])?),
            Call::Lower => text(ascii(&of[0])?.to_ascii_lowercase()),
            Call::Upper => text(ascii(&of[0])?.to_ascii_uppercase()),
            Call::Unhex => Some(Value::Binary(bytes_of(&letters(&of[0])?)?.into())),
            Call::UuidToBin => Some(Value::Binary(uuid(&letters(&of[0])?)?.into())),
            _ => {
                let numbers: Vec<i128> = of.iter().map(number).collect::<Option<_>>()?;
                let value = self.computed(&numbers)?;
                let exact = value.abs() <= EXACT_MAX;
                exact.then(|| Value::Number(value.to_string().into()))
            }
        }
    }

    fn computed(self, of: &[i128]) -> Option<i128> {
        Some(match (self, of) {
            (Call::Plus, [a, b]) => a + b,
            (Call::Minus, [a, b]) => a - b,
            (Call::Times, [a, b]) => a.checked_mul(*b)?,
            (Call::Divided, [a, b]) if *b != 0 && a % b == 0 => a / b,
            (Call::Whole, [a, b]) if *b != 0 => a / b,
            (Call::Rest, [a, b]) if *b != 0 => a % b,
            (Call::Negative, [a]) => -a,
            (Call::Absolute, [a]) => a.abs(),
            (Call::Integer, [a]) => *a,
            (Call::Greatest, all) => *all.iter().max()?,
            (Call::Least, all) => *all.iter().min()?,
            _ => return None,
        })
    }
}

fn text(bytes: Vec<u8>) -> Option<Value<'static>> {
    Some(Value::Text(bytes.into()))
}

/// An integer, as a number or as the text of one.
fn number(value: &Value<'_>) -> Option<i128> {
    let text = match value {
        Value::Number(number) => &**number,
        Value::Text(bytes) => std::str::from_utf8(bytes).ok()?,
        Value::Null | Value::Binary(_) | Value::Hex(_) => return None,
    };
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = (1..=18).contains(&digits.len()) && digits.bytes().all(|it| it.is_ascii_digit());
    let number: i128 = plain.then(|| text.parse().ok()).flatten()?;
    (number.abs() <= EXACT_MAX).then_some(number)
}

/// A value as text. Of numbers only integers are known to be printed as they are written.
fn letters(value: &Value<'_>) -> Option<Vec<u8>> {
    match value {
        Value::Text(bytes) => Some(bytes.to_vec()),
        Value::Number(written) => {
            let printed = number(value)?.to_string();
            (printed == *written).then(|| printed.into_bytes())
        }
        Value::Null | Value::Binary(_) | Value::Hex(_) => None,
    }
}

fn ascii(value: &Value<'_>) -> Option<Vec<u8>> {
    letters(value).filter(|bytes| bytes.is_ascii())
}

/// The bytes of pairs of hexadecimal digits.
pub(crate) fn bytes_of(digits: &[u8]) -> Option<Vec<u8>> {
    hex::decode(digits).ok()
}

/// `aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee`.
fn uuid(text: &[u8]) -> Option<Vec<u8>> {
    let id = Uuid::try_parse_ascii(text).ok()?;
    (text.len() == uuid::fmt::Hyphenated::LENGTH).then(|| id.into_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(call: Call, of: &[Value<'static>]) -> Option<Value<'static>> {
        call.value(of.to_vec())
    }

    fn int(number: i64) -> Value<'static> {
        Value::Number(number.to_string().into())
    }

    fn word(text: &'static str) -> Value<'static> {
        Value::Text(text.as_bytes().into())
    }

    #[test]
    fn numbers_are_exact_or_not_told() {
        assert_eq!(value(Call::Plus, &[int(40), int(2)]), Some(int(42)));
        assert_eq!(value(Call::Plus, &[word("40"), int(2)]), Some(int(42)));
        assert_eq!(value(Call::Divided, &[int(84), int(2)]), Some(int(42)));
        assert_eq!(value(Call::Divided, &[int(85), int(2)]), None);
        assert_eq!(value(Call::Whole, &[int(-85), int(2)]), Some(int(-42)));
        assert_eq!(value(Call::Rest, &[int(-85), int(2)]), Some(int(-1)));
        assert_eq!(value(Call::Rest, &[int(1), int(0)]), None);
        let big = int(1 << 40);
        assert_eq!(value(Call::Times, &[big.clone(), big]), None);
        let point = Value::Number("1.5".into());
        assert_eq!(value(Call::Plus, &[point, int(1)]), None);
        assert_eq!(
            value(Call::Minus, &[int(1), Value::Null]),
            Some(Value::Null)
        );
    }

    #[test]
    fn texts_are_put_together() {
        let both = [word("a"), int(7)];
        assert_eq!(value(Call::Concat, &both), Some(word("a7")));
        let odd = Value::Number("007".into());
        assert_eq!(value(Call::Concat, &[word("a"), odd]), None);
        assert_eq!(value(Call::Upper, &[word("ab")]), Some(word("AB")));
        assert_eq!(value(Call::Upper, &[word("ä")]), None);
        let all = [Value::Null, word("x")];
        assert_eq!(value(Call::Coalesce, &all), Some(word("x")));
        let bytes = Value::Binary(vec![0xAB, 1].into());
        assert_eq!(value(Call::Unhex, &[word("aB01")]), Some(bytes));
        assert_eq!(value(Call::Unhex, &[word("aB0")]), None);
        let id = word("00000000-0000-0000-0000-0000000000ff");
        let found = value(Call::UuidToBin, &[id]);
        assert!(matches!(found, Some(Value::Binary(it)) if it.len() == 16 && it[15] == 255));
    }
}
