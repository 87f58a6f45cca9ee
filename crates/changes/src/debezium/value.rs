//! Values of columns as JSON's converter of Kafka Connect writes them.

use std::fmt::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::{decimal, moment};
use crate::cell::{Cell, moment as instant};
use crate::charset::Charset;
use crate::json;
use crate::table::{Column, code};

/// In front of a geometry stands its reference system.
const SRID_BYTES: usize = 4;

/// How a column's values are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Int16,
    Int32,
    Int64,
    Float,
    Double,
    /// The digits in all, and those behind the point.
    Decimal(u16, u16),
    Boolean,
    /// The number of bits.
    Bits(u16),
    Bytes,
    Text,
    Json,
    Enum,
    Set,
    Year,
    Date,
    Time,
    /// A DATETIME with at most three digits behind the point.
    Timestamp,
    MicroTimestamp,
    /// A TIMESTAMP, and its number of digits behind the point.
    Zoned(usize),
    Geometry,
    Vector,
}

/// The form of a column.
pub(super) fn form(column: &Column) -> Form {
    let (low, high) = (column.metadata & 0xFF, column.metadata >> 8);
    let is_unsigned = column.unsigned == Some(true);
    let is_binary = matches!(column.charset(), Some(Charset::Binary));
    match column.code {
        code::TINY => Form::Int16,
        code::SHORT if is_unsigned => Form::Int32,
        code::SHORT => Form::Int16,
        code::LONG if is_unsigned => Form::Int64,
        code::INT24 | code::LONG => Form::Int32,
        code::LONGLONG => Form::Int64,
        code::FLOAT => Form::Float,
        code::DOUBLE => Form::Double,
        code::DECIMAL => Form::Decimal(low, high),
        code::BIT if high * 8 + low == 1 => Form::Boolean,
        code::BIT => Form::Bits(high * 8 + low),
        code::YEAR => Form::Year,
        code::DATE | code::NEWDATE => Form::Date,
        code::TIME | code::TIME2 => Form::Time,
        code::DATETIME2 if low > 3 => Form::MicroTimestamp,
        code::DATETIME | code::DATETIME2 => Form::Timestamp,
        code::TIMESTAMP2 => Form::Zoned(usize::from(low)),
        code::TIMESTAMP => Form::Zoned(0),
        code::ENUM => Form::Enum,
        code::SET => Form::Set,
        code::JSON => Form::Json,
        code::GEOMETRY => Form::Geometry,
        code::VECTOR => Form::Vector,
        _ if is_binary => Form::Bytes,
        _ => Form::Text,
    }
}

/// Appends a value.
///
/// # Errors
/// It cannot be told in this form; the text says why.
pub(super) fn value(cell: &Cell<'_>, column: &Column, out: &mut String) -> Result<(), String> {
    let form = form(column);
    match cell {
        Cell::Null => out.push_str("null"),
        Cell::Integer(number) => integer(*number, column, out),
        Cell::Float(_) | Cell::Double(_) => json::value(cell, column, out),
        Cell::Bits(bits) => match form {
            Form::Boolean => drop(write!(out, "{}", *bits != 0)),
            Form::Bits(count) => {
                let bytes = usize::from(count.div_ceil(8)).min(8);
                base64(&bits.to_le_bytes()[..bytes], out);
            }
            _ => drop(write!(out, "{bits}")),
        },
        Cell::Text(text) => written(text, form, column, out)?,
        Cell::Instant(seconds, fraction) => zoned(*seconds, fraction, form, column, out),
        Cell::Bytes(bytes) => bytes_or_text(bytes, form, column, out)?,
        Cell::Enum(0) => out.push_str("\"\""),
        Cell::Enum(member) => json::text(&label(column, usize::from(*member) - 1)?, out),
        Cell::Set(members) => {
            let chosen = (0..64).filter(|at| members >> at & 1 == 1);
            let labels: Result<Vec<String>, String> = chosen.map(|at| label(column, at)).collect();
            json::text(&labels?.join(","), out);
        }
        Cell::Json(document) => json::text(document, out),
    }
    Ok(())
}

/// An unsigned BIGINT is told as Java's `long`: beyond 2^63 it is negative.
fn integer(number: i64, column: &Column, out: &mut String) {
    let bits = column.integer_bits();
    let number = match column.unsigned {
        Some(true) if bits < 64 => number & ((1 << bits) - 1),
        _ => number,
    };
    let _ = write!(out, "{number}");
}

/// What the servers write as text.
fn written(text: &str, form: Form, column: &Column, out: &mut String) -> Result<(), String> {
    let number = match form {
        Form::Decimal(..) => {
            let bytes = decimal::unscaled(text);
            let bytes = bytes.ok_or_else(|| format!("{text:?} is no DECIMAL"))?;
            base64(&bytes, out);
            return Ok(());
        }
        Form::Year => text.parse().ok(),
        Form::Date => moment::days(text).map(i64::from),
        Form::Time => moment::micros_of_time(text),
        Form::Timestamp => moment::micros_of(text).map(|it| it.div_euclid(1000)),
        Form::MicroTimestamp => moment::micros_of(text),
        // As a SELECT shows it.
        Form::Zoned(_) => {
            match moment::micros_of(text) {
                Some(_) => json::text(&format!("{}Z", text.replace(' ', "T")), out),
                None => nothing("\"1970-01-01T00:00:00Z\"", column, out),
            }
            return Ok(());
        }
        _ => {
            json::text(text, out);
            return Ok(());
        }
    };
    match number {
        Some(number) => drop(write!(out, "{number}")),
        None => nothing("0", column, out),
    }
    Ok(())
}

/// Zero and its like are null, or the beginning of 1970 where there can be no null.
fn nothing(beginning: &str, column: &Column, out: &mut String) {
    out.push_str(if column.nullable { "null" } else { beginning });
}

fn zoned(seconds: u32, fraction: &str, form: Form, column: &Column, out: &mut String) {
    let digits = match form {
        Form::Zoned(digits) if fraction.is_empty() && digits > 0 => {
            format!(".{}", "0".repeat(digits))
        }
        _ => fraction.to_owned(),
    };
    let text = |seconds| format!("\"{}{digits}Z\"", instant(seconds).replace(' ', "T"));
    match seconds {
        0 => nothing(&text(0), column, out),
        seconds => out.push_str(&text(seconds)),
    }
}

fn bytes_or_text(
    bytes: &[u8],
    form: Form,
    column: &Column,
    out: &mut String,
) -> Result<(), String> {
    match form {
        Form::Geometry => {
            let (srid, wkb) = bytes
                .split_at_checked(SRID_BYTES)
                .ok_or("a geometry that ends too early")?;
            let srid = u32::from_le_bytes([srid[0], srid[1], srid[2], srid[3]]);
            out.push_str("{\"wkb\":");
            base64(wkb, out);
            let _ = write!(out, ",\"srid\":{srid}}}");
        }
        Form::Vector => {
            out.push('[');
            for (at, four) in bytes.chunks_exact(4).enumerate() {
                let number = f32::from_le_bytes([four[0], four[1], four[2], four[3]]);
                out.push_str(if at > 0 { "," } else { "" });
                json::value(&Cell::Float(number), column, out);
            }
            out.push(']');
        }
        Form::Bytes => {
            let mut whole = bytes.to_vec();
            whole.resize(bytes.len().max(column.padded_bytes()), 0);
            base64(&whole, out);
        }
        _ => json::text(&words(bytes, column)?, out),
    }
    Ok(())
}

fn label(column: &Column, at: usize) -> Result<String, String> {
    let label = column.members.get(at);
    words(label.ok_or("a label that the table does not have")?, column)
}

fn words(bytes: &[u8], column: &Column) -> Result<String, String> {
    let charset = column.charset();
    let words = charset.and_then(|charset| charset.decode(bytes));
    words.map(|it| it.into_owned()).ok_or_else(|| {
        let charset = charset.map_or("an unknown character set", |it| it.name());
        let name = column.name.as_deref().unwrap_or_default();
        format!("a text of the column {name} in {charset} that cannot be converted; leave types=debezium out")
    })
}

fn base64(bytes: &[u8], out: &mut String) {
    let _ = write!(out, "\"{}\"", BASE64.encode(bytes));
}
