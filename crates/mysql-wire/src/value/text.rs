//! Values of text rows as values of the binary protocol.

use super::{DateTime, Shape, TimeSpan, Value, ValueKind, shape};
use crate::Malformed;
use crate::result::ColumnKind;

impl<'a> Value<'a> {
    /// Reads what a server wrote into a text row for a column of this kind. A FLOAT has only the
    /// digits that the text has.
    ///
    /// # Errors
    /// The text is none of this kind.
    pub fn from_text(text: &'a [u8], kind: ValueKind) -> Result<Value<'a>, Malformed> {
        Ok(match shape(kind.column) {
            Shape::Nothing => Value::Null,
            Shape::Integer(_) if kind.unsigned => Value::UInt(number(text)?),
            Shape::Integer(_) => Value::Int(number(text)?),
            Shape::Float => Value::Float(number(text)?),
            Shape::Double => Value::Double(number(text)?),
            Shape::Date => Value::Date(date(text)?),
            Shape::Time => Value::Time(time(text)?),
            Shape::Bytes => Value::Bytes(text),
        })
    }
}

impl Value<'_> {
    /// Appends the value as text from which [`Value::from_text`] makes the same again: numbers have
    /// all their digits. NULL appends nothing.
    pub fn put_text(&self, kind: ValueKind, out: &mut Vec<u8>) {
        let text = match self {
            Value::Null => return,
            Value::Bytes(bytes) => return out.extend_from_slice(bytes),
            Value::Int(number) => number.to_string(),
            Value::UInt(number) => number.to_string(),
            Value::Float(number) if is_plain(f64::from(*number)) => number.to_string(),
            Value::Float(number) => format!("{number:e}"),
            Value::Double(number) if is_plain(*number) => number.to_string(),
            Value::Double(number) => format!("{number:e}"),
            Value::Date(date) => date_text(date, kind),
            Value::Time(time) => {
                let sign = if time.negative { "-" } else { "" };
                let hours = u64::from(time.days) * 24 + u64::from(time.hours);
                let fraction = fraction(time.microseconds);
                format!(
                    "{sign}{hours:02}:{:02}:{:02}{fraction}",
                    time.minutes, time.seconds
                )
            }
        };
        out.extend_from_slice(text.as_bytes());
    }
}

/// It is written without an exponent.
fn is_plain(number: f64) -> bool {
    number == 0.0 || (1e-5..1e16).contains(&number.abs())
}

fn date_text(date: &DateTime, kind: ValueKind) -> String {
    let day = format!("{:04}-{:02}-{:02}", date.year, date.month, date.day);
    match kind.column {
        ColumnKind::Date | ColumnKind::NewDate => day,
        _ => {
            let fraction = fraction(date.microsecond);
            format!(
                "{day} {:02}:{:02}:{:02}{fraction}",
                date.hour, date.minute, date.second
            )
        }
    }
}

fn fraction(microseconds: u32) -> String {
    match microseconds {
        0 => String::new(),
        microseconds => format!(".{microseconds:06}"),
    }
}

fn odd() -> Malformed {
    Malformed::new("a text that its type does not print")
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Result<T, Malformed> {
    let text = std::str::from_utf8(text).map_err(|_| odd())?;
    text.parse().map_err(|_| odd())
}

/// `YYYY-MM-DD`, and the time of day behind it where the type has one.
fn date(text: &[u8]) -> Result<DateTime, Malformed> {
    let (day, clock) = match text.iter().position(|byte| matches!(byte, b' ' | b'T')) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let mut parts = day.split(|byte| *byte == b'-');
    let mut part = || parts.next().ok_or_else(odd);
    let mut date = DateTime {
        year: number(part()?)?,
        month: number(part()?)?,
        day: number(part()?)?,
        ..DateTime::default()
    };
    if let Some(clock) = clock {
        let (hours, minutes, seconds, microseconds) = clock_of(clock)?;
        date.hour = u8::try_from(hours).map_err(|_| odd())?;
        (date.minute, date.second, date.microsecond) = (minutes, seconds, microseconds);
    }
    Ok(date)
}

/// `[-]HH:MM:SS`, with up to 838 hours.
fn time(text: &[u8]) -> Result<TimeSpan, Malformed> {
    let (negative, clock) = match text {
        [b'-', clock @ ..] => (true, clock),
        clock => (false, clock),
    };
    let (hours, minutes, seconds, microseconds) = clock_of(clock)?;
    Ok(TimeSpan {
        negative,
        days: hours / 24,
        hours: (hours % 24) as u8,
        minutes,
        seconds,
        microseconds,
    })
}

/// Hours, minutes, seconds, microseconds of `HH:MM:SS[.ffffff]`.
fn clock_of(text: &[u8]) -> Result<(u32, u8, u8, u32), Malformed> {
    let (whole, fraction) = match text.iter().position(|byte| *byte == b'.') {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &[][..]),
    };
    let mut parts = whole.split(|byte| *byte == b':');
    let mut part = || parts.next().ok_or_else(odd);
    let (hours, minutes, seconds) = (number(part()?)?, number(part()?)?, number(part()?)?);
    let microseconds = match fraction.len() {
        0 => 0,
        digits @ 1..=6 => number::<u32>(fraction)? * 10_u32.pow(6 - digits as u32),
        _ => return Err(odd()),
    };
    Ok((hours, minutes, seconds, microseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_from_their_texts() {
        let kind = |column| ValueKind {
            column,
            unsigned: false,
        };
        let moment = DateTime {
            year: 2026,
            month: 2,
            day: 3,
            hour: 4,
            microsecond: 5,
            ..DateTime::default()
        };
        let span = TimeSpan {
            negative: true,
            days: 2,
            hours: 3,
            microseconds: 70,
            ..TimeSpan::default()
        };
        let day = DateTime {
            hour: 0,
            microsecond: 0,
            ..moment
        };
        for (value, column, text) in [
            (Value::Int(-5), ColumnKind::Long, "-5"),
            (Value::Float(0.1), ColumnKind::Float, "0.1"),
            (Value::Float(1.0 / 3.0), ColumnKind::Float, "0.33333334"),
            (
                Value::Double(288.145_455_7),
                ColumnKind::Double,
                "288.1454557",
            ),
            (Value::Double(-1e300), ColumnKind::Double, "-1e300"),
            (Value::Date(day), ColumnKind::Date, "2026-02-03"),
            (
                Value::Date(moment),
                ColumnKind::DateTime,
                "2026-02-03 04:00:00.000005",
            ),
            (Value::Time(span), ColumnKind::Time, "-51:00:00.000070"),
            (Value::Bytes(b"a"), ColumnKind::VarString, "a"),
        ] {
            let mut out = Vec::new();
            value.put_text(kind(column), &mut out);
            assert_eq!(String::from_utf8_lossy(&out), text);
            assert_eq!(Value::from_text(&out, kind(column)), Ok(value));
        }
    }

    fn read(text: &str, column: ColumnKind, unsigned: bool) -> Option<Value<'_>> {
        Value::from_text(text.as_bytes(), ValueKind { column, unsigned }).ok()
    }

    #[test]
    fn numbers_and_bytes() {
        let is = |text, column, unsigned, value| {
            assert_eq!(read(text, column, unsigned), Some(value), "{text}");
        };
        is("-5", ColumnKind::Long, false, Value::Int(-5));
        is("0042", ColumnKind::Long, true, Value::UInt(42));
        is("2024", ColumnKind::Year, true, Value::UInt(2024));
        is("1e20", ColumnKind::Double, false, Value::Double(1e20));
        is("0.5", ColumnKind::Float, false, Value::Float(0.5));
        is("1.50", ColumnKind::NewDecimal, false, Value::Bytes(b"1.50"));
        is("", ColumnKind::VarString, false, Value::Bytes(b""));
        assert_eq!(read("x", ColumnKind::Long, false), None);
        assert_eq!(read("-1", ColumnKind::Long, true), None);
    }

    #[test]
    fn dates_and_times() {
        let date = |text| match read(text, ColumnKind::DateTime, false) {
            Some(Value::Date(d)) => {
                let day = (d.year, d.month, d.day);
                Some((day, (d.hour, d.minute, d.second, d.microsecond)))
            }
            _ => None,
        };
        assert_eq!(date("2024-02-29"), Some(((2024, 2, 29), (0, 0, 0, 0))));
        assert_eq!(
            date("0000-00-00 00:00:01.25"),
            Some(((0, 0, 0), (0, 0, 1, 250_000)))
        );
        assert_eq!(date("2024-02"), None);
        assert_eq!(date("2024-02-29 300:00:00"), None);
        let time = read("-838:59:59.000001", ColumnKind::Time, false);
        let longest = TimeSpan {
            negative: true,
            days: 34,
            hours: 22,
            minutes: 59,
            seconds: 59,
            microseconds: 1,
        };
        assert_eq!(time, Some(Value::Time(longest)));
        assert_eq!(read("1:2", ColumnKind::Time, false), None);
        assert_eq!(read("1:2:3.1234567", ColumnKind::Time, false), None);
    }
}
