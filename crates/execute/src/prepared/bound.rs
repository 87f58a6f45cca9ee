//! The values of an EXECUTE, by the types that its client bound.

use std::borrow::Cow;

use mysql_wire::command::Command;
use mysql_wire::result::{ColumnKind, DateTime, TimeSpan, Value, ValueKind};
use mysql_wire::statement::Execute;
use planner::place::{self, Values, literal};
use sqltext::{Mode, Multibyte, Slot, put_string};

use crate::execution::exec::{Job, text_shape};
use crate::prepared::statements::Statement;
use crate::session::context::StatementContext;

/// A statement's text, and what is bound to its marks.
pub struct Bound<'a> {
    text: &'a [u8],
    slots: &'a [Slot],
    kinds: Vec<ValueKind>,
    values: Vec<Value<'a>>,
    /// Values that came as long data are not here.
    long_data: bool,
    mode: &'a Mode,
    utf8: bool,
}

/// Decodes a COM_STMT_EXECUTE; `None` for what is none.
pub(crate) fn execute(payload: &[u8], params: u16, attributes: bool) -> Option<Execute<'_>> {
    let (byte, body) = payload.split_first()?;
    let command = Command::try_from(*byte).ok()?;
    (command == Command::StmtExecute)
        .then(|| Execute::decode(body, params, attributes).ok())
        .flatten()
}

impl<'a> Bound<'a> {
    /// With the types that this execution brings, or those of an earlier one.
    pub fn new(
        execute: Execute<'a>,
        statement: &'a Statement,
        text: &'a [u8],
        mode: &'a Mode,
        utf8: bool,
    ) -> Option<Bound<'a>> {
        let long_data = statement.long_data;
        let (kinds, values) = match execute.params {
            0 => (Vec::new(), Vec::new()),
            _ => {
                let typed = Execute {
                    types: match execute.new_params_bound {
                        true => execute.types,
                        false => &statement.types,
                    },
                    ..execute
                };
                let kinds: Vec<ValueKind> =
                    typed.param_kinds().ok()?.iter().map(|param| param.kind).collect();
                let values = match long_data {
                    true => Vec::new(),
                    false => typed.decode_params(&kinds, |_| false).ok()?,
                };
                (kinds, values)
            }
        };
        Some(Bound {
            text,
            slots: statement.slots.get_or_init(|| sqltext::slots(text, mode).into()),
            kinds,
            values,
            long_data,
            mode,
            utf8,
        })
    }

    /// The text with its parameters as literals; `None` when some of them are not here.
    pub(crate) fn written_out(&self) -> Option<Vec<u8>> {
        if self.long_data {
            return None;
        }
        let mut out = Vec::with_capacity(self.text.len() + 16 * self.slots.len());
        let mut from = 0;
        for slot in self.slots {
            let Some(parameter) = slot.parameter else {
                continue;
            };
            let at = usize::from(parameter);
            let (value, kind) = (self.values.get(at)?, self.kinds.get(at)?);
            out.extend_from_slice(&self.text[from..slot.span.start as usize]);
            put(&mut out, value, *kind, self.mode, self.utf8)?;
            from = slot.span.end as usize;
        }
        out.extend_from_slice(&self.text[from..]);
        Some(out)
    }
}

impl Values for Bound<'_> {
    fn value(&self, place: u32) -> Option<place::Value<'_>> {
        let slot = self.slots.get(place as usize)?;
        let Some(parameter) = slot.parameter else {
            return literal(slot.span.of(self.text), self.mode, self.utf8);
        };
        let at = usize::from(parameter);
        meant(self.values.get(at)?, *self.kinds.get(at)?, self.utf8)
    }

    fn count(&self) -> usize {
        self.slots.len()
    }
}

/// A parameter as keys are made of it.
fn meant<'a>(value: &Value<'a>, kind: ValueKind, utf8: bool) -> Option<place::Value<'a>> {
    let number = |text: String| Some(place::Value::Number(text.into()));
    match value {
        Value::Null => Some(place::Value::Null),
        Value::Int(value) => number(value.to_string()),
        Value::UInt(value) => number(value.to_string()),
        // Whole numbers that a double holds exactly are compared as the integers that they are.
        Value::Float(value) if exact(f64::from(*value)) => number(format!("{value:.0}")),
        Value::Double(value) if exact(*value) => number(format!("{value:.0}")),
        Value::Float(_) | Value::Double(_) | Value::Time(_) => None,
        Value::Bytes(bytes) if is_decimal(kind) => {
            let text = std::str::from_utf8(bytes).ok()?;
            Some(place::Value::Number(text.into()))
        }
        Value::Bytes(bytes) => {
            let readable = utf8 || bytes.is_ascii();
            readable.then_some(place::Value::Text(Cow::Borrowed(*bytes)))
        }
        Value::Date(moment) => Some(place::Value::Text(written(moment).into_bytes().into())),
    }
}

/// Above this a double does not hold every integer.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

fn exact(value: f64) -> bool {
    value.fract() == 0.0 && value.abs() < EXACT_MAX
}

fn is_decimal(kind: ValueKind) -> bool {
    matches!(kind.column, ColumnKind::Decimal | ColumnKind::NewDecimal)
}

fn written(at: &DateTime) -> String {
    format!(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:06}",
        at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond
    )
}

fn written_time(time: &TimeSpan) -> String {
    let hours = u64::from(time.days) * 24 + u64::from(time.hours);
    let sign = if time.negative { "-" } else { "" };
    format!("{sign}{hours:02}:{:02}:{:02}.{:06}", time.minutes, time.seconds, time.microseconds)
}

/// Appends a value as a literal of its type.
pub fn put(
    out: &mut Vec<u8>,
    value: &Value<'_>,
    kind: ValueKind,
    mode: &Mode,
    utf8: bool,
) -> Option<()> {
    let text = match value {
        Value::Null => "NULL".to_owned(),
        Value::Int(value) => value.to_string(),
        Value::UInt(value) => value.to_string(),
        Value::Float(value) if value.is_finite() => format!("{:e}", f64::from(*value)),
        Value::Double(value) if value.is_finite() => format!("{value:e}"),
        Value::Float(_) | Value::Double(_) => return None,
        Value::Bytes(bytes) if is_decimal(kind) => {
            let digits = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
            if bytes.is_empty() || !bytes.iter().all(digits) {
                return None;
            }
            String::from_utf8_lossy(bytes).into_owned()
        }
        Value::Bytes(bytes) => return put_bytes(out, bytes, kind, mode, utf8),
        Value::Date(at) if at.month == 0 || at.day == 0 => format!("'{}'", written(at)),
        Value::Date(at) if kind.column == ColumnKind::Date => {
            format!("DATE'{}'", &written(at)[..10])
        }
        Value::Date(at) => format!("TIMESTAMP'{}'", written(at)),
        Value::Time(time) => format!("TIME'{}'", written_time(time)),
    };
    out.extend_from_slice(text.as_bytes());
    Some(())
}

fn put_bytes(
    out: &mut Vec<u8>,
    bytes: &[u8],
    kind: ValueKind,
    mode: &Mode,
    utf8: bool,
) -> Option<()> {
    let binary = matches!(
        kind.column,
        ColumnKind::TinyBlob | ColumnKind::Blob | ColumnKind::MediumBlob | ColumnKind::LongBlob
    );
    if binary {
        out.extend_from_slice(b"x'");
        out.extend_from_slice(hex::encode(bytes).as_bytes());
        out.push(b'\'');
        return Some(());
    }
    if !bytes.is_ascii() && !utf8 && mode.multibyte != Multibyte::SingleByte {
        // A byte of a character could pass for a quote.
        return None;
    }
    put_string(bytes, mode.no_backslash_escapes, out);
    Some(())
}

/// The text of a command, with parameters written out; `None` where they are not here.
pub fn text_of(context: &StatementContext<'_>, job: Job) -> Option<Vec<u8>> {
    match job {
        Job::Execute(id) => written_out(context, context.prepared.statement_text(id), job),
        _ if context.client.request.is_split() => {
            Some(mysql_wire::packet::joined(context.client.request.frame()).split_off(1))
        }
        _ => Some(context.client.request.payload()[1..].to_vec()),
    }
}

/// The text of a statement with its parameters written out as literals.
pub fn written_out(context: &StatementContext<'_>, text: &[u8], job: Job) -> Option<Vec<u8>> {
    match job {
        Job::Execute(id) => bound(context, id, text)?.written_out(),
        _ => Some(text.to_vec()),
    }
}

/// The values of an EXECUTE; `None` when it is malformed, which the server says better.
pub fn bound<'a>(context: &StatementContext<'a>, id: u32, text: &'a [u8]) -> Option<Bound<'a>> {
    let statement = context.prepared.statements.get(&id)?;
    let named = text_shape::has_attributes(context.client);
    let execute = execute(context.client.request.payload(), statement.params, named)?;
    Bound::new(execute, statement, text, &context.variables.mode, context.variables.is_utf8())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqltext::Dialect;

    #[test]
    fn values_are_written_with_their_types() {
        let mode = Mode::new(Dialect::MariaDb, 101_100);
        let shown = |value: Value<'_>, column| {
            let kind = ValueKind {
                column,
                unsigned: false,
            };
            let mut out = Vec::new();
            put(&mut out, &value, kind, &mode, true);
            String::from_utf8_lossy(&out).into_owned()
        };
        assert_eq!(shown(Value::Int(-5), ColumnKind::Long), "-5");
        assert_eq!(shown(Value::Double(2.5), ColumnKind::Double), "2.5e0");
        assert_eq!(shown(Value::Bytes(b"1.50"), ColumnKind::NewDecimal), "1.50");
        let text = shown(Value::Bytes(b"it's \\"), ColumnKind::VarString);
        assert_eq!(text, "'it''s \\\\'");
        assert_eq!(shown(Value::Bytes(&[1, 0xFF]), ColumnKind::Blob), "x'01ff'");
        let day = DateTime {
            year: 2026,
            month: 11,
            day: 22,
            ..DateTime::default()
        };
        assert_eq!(shown(Value::Date(day), ColumnKind::Date), "DATE'2026-11-22'");
        assert_eq!(
            shown(Value::Date(DateTime::default()), ColumnKind::DateTime),
            "'0000-00-00 00:00:00.000000'"
        );
    }
}
