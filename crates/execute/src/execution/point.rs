//! Point SELECTs that the row cache vouches for (`heddle_row_cache`).
//!
//! The reply to a SELECT of one row by the key of a container with a row cache, a text or prepared, is kept
//! beside the replies of the result cache, with a voucher: it is given again while nothing has changed
//! the row. So it may only be one that no other key's row could have changed, and that says nothing but
//! what stands in the row. Which row a text in ASCII names is known where bytes decide; where a collation
//! does, the reply must have one row and say its key. Sessions with a transaction, a pin, or the level
//! `strong` get none.

pub(crate) mod vouch;

use std::sync::Arc;

use farm::container::{KeyForm, trimmed};
use mysql_wire::capability::Capabilities;
use mysql_wire::packet::payloads;
use mysql_wire::result::{Column, ColumnCount, TextRow, Value, ValueKind, decode_binary_row};
use rowcache::{Lease, Space, Voucher};
use sqltext::PointKey;

use crate::execution::cache::Key;

/// An answer is not older.
const BOUND_US: u64 = 1_000_000;

/// Strings of so many digits are compared with integers digit by digit.
const DIGITS_MAX: usize = 15;

/// A point SELECT whose reply may be kept.
pub struct Point {
    space: Arc<Space>,
    /// As the statement has it, without blanks at its end.
    key: Box<[u8]>,
    form: KeyForm,
    lease: Lease,
    /// Where the reply is kept.
    kept_as: Key,
    /// Rows come as those of an EXECUTE.
    binary: bool,
}

/// What a point SELECT asks for.
struct Asked {
    space: Arc<Space>,
    key: Box<[u8]>,
    form: KeyForm,
    kept_as: Key,
}

/// What makes a kept reply good.
pub(crate) struct Vouched {
    space: Arc<Space>,
    key: Box<[u8]>,
    voucher: Voucher,
}

impl Vouched {
    /// The reply may be given.
    pub fn is_good(&self) -> bool {
        self.space.is_good(&self.key, &self.voucher)
    }

    /// The row is as it was, though it may be too early to say so to everybody.
    pub fn is_unchanged(&self) -> bool {
        self.space.is_unchanged(&self.key, &self.voucher)
    }
}

impl Point {
    pub(crate) fn kept_as(&self) -> &Key {
        &self.kept_as
    }

    /// The key on which the reply depends; `None` where that is not known, or the reply is not whole
    /// without an earlier one.
    fn key_of(&self, reply: &[u8], capabilities: Capabilities) -> Option<Box<[u8]>> {
        let mut packets = payloads(reply);
        let count = ColumnCount::decode(packets.next()?, capabilities).ok()?;
        if !count.defined {
            return None;
        }
        if self.form != KeyForm::Collated {
            return Some(self.key.clone());
        }
        let mut kinds = Vec::new();
        let mut at = None;
        for column in 0..count.columns {
            let definition = Column::decode(packets.next()?, capabilities).ok()?;
            let name = definition.org_name;
            if name.eq_ignore_ascii_case(self.space.container.key.as_bytes()) {
                at = usize::try_from(column).ok();
            }
            kinds.push(definition.value_kind());
        }
        if !capabilities.contains(Capabilities::DEPRECATE_EOF) {
            packets.next()?;
        }
        let row = packets.next()?;
        if mysql_wire::reply::ends_rows(row, capabilities)
            || !mysql_wire::reply::ends_rows(packets.next()?, capabilities)
        {
            return None;
        }
        let told = self.cell(row, &kinds, at?)?;
        let told = trimmed(&told);
        told.eq_ignore_ascii_case(&self.key).then(|| told.into())
    }

    fn cell(&self, row: &[u8], kinds: &[ValueKind], at: usize) -> Option<Box<[u8]>> {
        if !self.binary {
            return Some(TextRow::new(row).nth(at)?.ok()??.into());
        }
        match decode_binary_row(row, kinds).ok()?.get(at)? {
            Value::Bytes(bytes) => Some((*bytes).into()),
            _ => None,
        }
    }
}

/// The key that a text's literal means.
fn written_key(key: &PointKey<'_>, form: KeyForm) -> Option<Box<[u8]>> {
    match (key, form) {
        (PointKey::Number(digits), KeyForm::Integer) => Some((*digits).into()),
        (PointKey::Text(text), _) => text_key(text, form),
        _ => None,
    }
}

/// The key that a string means: another one is a text's, or looked for among integers.
fn text_key(text: &[u8], form: KeyForm) -> Option<Box<[u8]>> {
    match form {
        KeyForm::Integer => {
            let plain = text.len() <= DIGITS_MAX && sqltext::is_written_so(text);
            plain.then(|| text.into())
        }
        KeyForm::Bytes | KeyForm::Collated => text.is_ascii().then(|| trimmed(text).into()),
    }
}

/// The key that a parameter's value means.
fn bound_value(value: &Value<'_>, form: KeyForm) -> Option<Box<[u8]>> {
    match (value, form) {
        (Value::Int(number), KeyForm::Integer) => Some(number.to_string().into_bytes().into()),
        (Value::UInt(number), KeyForm::Integer) => Some(number.to_string().into_bytes().into()),
        (Value::Bytes(text), _) => text_key(text, form),
        _ => None,
    }
}
