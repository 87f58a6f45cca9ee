//! An expression among the values of a row, as far as it can be told here what it is.

use sqltext::{Slot, Span};

use super::values::Value;
use super::{Statement, Values};
use crate::depth;
use crate::fold::Constant;
use crate::keys::Term;
use crate::read::term;
use crate::text::Lines;

/// The value of a part of a statement's text; `None` when only a server can tell.
pub(super) fn computed(
    span: Span,
    statement: &Statement<'_>,
    slots: &[Slot],
) -> Option<Value<'static>> {
    let mode = statement.mode;
    if mode.ansi_quotes || mode.no_backslash_escapes {
        return None;
    }
    let text = std::str::from_utf8(span.of(statement.text)).ok()?;
    let mut parser = depth::parser(depth::tokens(text).ok()?).ok()?;
    let expr = parser.parse_expr().ok()?;
    if parser.peek_token().token != sqlparser::tokenizer::Token::EOF {
        return None;
    }
    let lines = Lines::new(text);
    let constant = Constant::of(&expr, &|leaf| term(leaf, &lines))?;
    let known = |term: Term| value(term, span.start, statement, slots);
    let leaves = constant.leaves();
    let values: Vec<(Term, Value<'_>)> = leaves
        .into_iter()
        .map(|term| Some((term, known(term)?)))
        .collect::<Option<_>>()?;
    constant.value(&|term| {
        let found = values.iter().find(|(leaf, _)| *leaf == term)?;
        Some(found.1.literal())
    })
}

/// The value that begins at a byte of the expression, or behind its sign.
fn value<'s>(
    term: Term,
    start: u32,
    statement: &Statement<'s>,
    slots: &[Slot],
) -> Option<Value<'s>> {
    let at = start + term.at;
    let behind = slots.partition_point(|slot| slot.span.start <= at);
    let place = behind.checked_sub(1)?;
    let slot = &slots[place];
    let signed = slot.span.start < at;
    if at >= slot.span.end || slot.joined || (signed && !term.negative) {
        return None;
    }
    let value = Values::value(statement.values, u32::try_from(place).ok()?)?;
    match term.negative && !signed {
        true => value.negated(),
        false => Some(value),
    }
}
