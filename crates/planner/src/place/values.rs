//! The values of one statement: a text's literals, or what was bound to its marks.

use std::borrow::Cow;

use routing::shard::Literal;
use sqltext::{Mode, Span};

use crate::fold::bytes_of;

/// A value as the servers would read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Null,
    /// As it is written, with its sign.
    Number(Cow<'a, str>),
    /// In UTF-8.
    Text(Cow<'a, [u8]>),
    /// A string of bytes.
    Binary(Cow<'a, [u8]>),
    /// `0x…`: bytes, and a number where one is wanted.
    Hex(Cow<'a, [u8]>),
}

impl Value<'_> {
    /// As keys are made of it.
    pub fn literal(&self) -> Literal<'_> {
        match self {
            Value::Null => Literal::Null,
            Value::Number(number) => Literal::Number(number),
            Value::Text(bytes) => Literal::Text(bytes),
            Value::Binary(bytes) => Literal::Binary(bytes),
            Value::Hex(bytes) => Literal::Hex(bytes),
        }
    }

    pub(super) fn into_owned(self) -> Value<'static> {
        match self {
            Value::Null => Value::Null,
            Value::Number(number) => Value::Number(number.into_owned().into()),
            Value::Text(bytes) => Value::Text(bytes.into_owned().into()),
            Value::Binary(bytes) => Value::Binary(bytes.into_owned().into()),
            Value::Hex(bytes) => Value::Hex(bytes.into_owned().into()),
        }
    }

    pub(super) fn negated(self) -> Option<Value<'static>> {
        match self {
            Value::Number(number) => Some(Value::Number(match number.strip_prefix('-') {
                Some(rest) => rest.to_owned().into(),
                None => format!("-{}", number.strip_prefix('+').unwrap_or(&number)).into(),
            })),
            _ => None,
        }
    }
}

/// Gives the values of a statement by their place in the order of [`sqltext::slots`]; `None` for one
/// whose meaning only a server knows.
pub trait Values {
    fn value(&self, place: u32) -> Option<Value<'_>>;

    /// How many there are.
    fn count(&self) -> usize;
}

/// The literals of a text.
#[derive(Clone, Copy, Debug)]
pub struct Literals<'a> {
    pub text: &'a [u8],
    pub spans: &'a [Span],
    pub mode: &'a Mode,
    /// The client's character set is UTF-8.
    pub utf8: bool,
}

impl Values for Literals<'_> {
    fn value(&self, place: u32) -> Option<Value<'_>> {
        let span = self.spans.get(place as usize)?;
        literal(span.of(self.text), self.mode, self.utf8)
    }

    fn count(&self) -> usize {
        self.spans.len()
    }
}

/// The value of one literal as it stands in a text.
pub fn literal<'a>(token: &'a [u8], mode: &Mode, utf8: bool) -> Option<Value<'a>> {
    match token {
        [b'\'' | b'"', ..] => {
            let bytes = sqltext::unquote(token, mode);
            (utf8 || bytes.is_ascii()).then_some(Value::Text(bytes))
        }
        [b'0', b'x', digits @ ..] => {
            // An odd digit in front is a byte of its own.
            let odd = (!digits.len().is_multiple_of(2)).then_some(b'0');
            let digits: Vec<u8> = odd.into_iter().chain(digits.iter().copied()).collect();
            Some(Value::Hex(bytes_of(&digits)?.into()))
        }
        [b'x' | b'X', b'\'', digits @ .., b'\''] => Some(Value::Binary(bytes_of(digits)?.into())),
        [b'0', b'X' | b'b' | b'B', ..] => None,
        [b'0'..=b'9' | b'.' | b'-' | b'+', ..] => {
            let text = std::str::from_utf8(token).ok()?;
            Some(Value::Number(text.into()))
        }
        _ => None,
    }
}

/// A value that a plan names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub place: u32,
    /// A minus stands in front of it, apart.
    pub negative: bool,
}

impl Named {
    pub fn of<'v>(&self, values: &'v dyn Values) -> Option<Value<'v>> {
        let value = values.value(self.place)?;
        match self.negative {
            true => value.negated(),
            false => Some(value),
        }
    }
}
