//! Cells of rows in a binlog, and how they are written as SQL.

use std::borrow::Cow;
use std::io::Read;

use flate2::read::{DeflateDecoder, ZlibDecoder};
use time::OffsetDateTime;

use crate::table::{Bytes, Column, code};
use crate::{fixed, jsonb};

/// Digits behind the point of a second.
const FRACTION_DIGITS_MAX: u32 = 6;

/// What a row has in one column.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell<'a> {
    Null,
    /// The bits of an integer, sign-extended from its width.
    Integer(i64),
    Float(f32),
    Double(f64),
    /// Text, in the column's own character set, or bytes. What pads CHAR is not there, and on MariaDB
    /// neither are zeros at the end of BINARY.
    Bytes(Cow<'a, [u8]>),
    /// DECIMAL, DATE, TIME, DATETIME and YEAR as the servers write them, and MariaDB's UUID, INET4 and INET6 where a definition
    /// tells them.
    Text(String),
    /// A TIMESTAMP: seconds since 1970, and the digits behind the point with a point in front.
    Instant(u32, String),
    Bits(u64),
    /// Members are counted from 1; 0 is the wrong one.
    Enum(u16),
    /// The first member has the lowest bit.
    Set(u64),
    /// The text of a JSON document of MySQL.
    Json(String),
}

impl Cell<'_> {
    /// Writes the cell as a literal that stores just this in a column of the same type, where the
    /// session's time zone is UTC and its `sql_mode` empty. `unsigned` is said of integers, and of how
    /// many bytes they have.
    pub fn literal(&self, unsigned: bool, column: &Column, out: &mut Vec<u8>) {
        match self {
            Cell::Null => out.extend_from_slice(b"NULL"),
            Cell::Integer(value) => {
                let bits = column.integer_bits();
                let text = match unsigned {
                    true if bits < 64 => (*value as u64 & ((1 << bits) - 1)).to_string(),
                    true => (*value as u64).to_string(),
                    false => value.to_string(),
                };
                out.extend_from_slice(text.as_bytes());
            }
            Cell::Float(value) => out.extend_from_slice(format!("{value:e}").as_bytes()),
            Cell::Double(value) => out.extend_from_slice(format!("{value:e}").as_bytes()),
            Cell::Bytes(bytes) => {
                let mut whole = bytes.to_vec();
                whole.resize(bytes.len().max(column.padded_bytes()), 0);
                hex(&whole, out);
            }
            Cell::Text(text) => out.extend_from_slice(format!("'{text}'").as_bytes()),
            Cell::Instant(0, _) => out.extend_from_slice(b"'0000-00-00 00:00:00'"),
            Cell::Instant(seconds, fraction) => {
                let text = format!("'{}{fraction}'", moment(*seconds));
                out.extend_from_slice(text.as_bytes());
            }
            Cell::Bits(bits) | Cell::Set(bits) => {
                out.extend_from_slice(bits.to_string().as_bytes());
            }
            Cell::Enum(member) => out.extend_from_slice(member.to_string().as_bytes()),
            Cell::Json(text) => {
                out.extend_from_slice(b"CONVERT(");
                hex(text.as_bytes(), out);
                out.extend_from_slice(b" USING utf8mb4)");
            }
        }
    }
}

/// A hexadecimal literal; the empty one is a string.
fn hex(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"x'");
    out.extend_from_slice(hex::encode_upper(bytes).as_bytes());
    out.push(b'\'');
}

/// A second since 1970 as a date and a time in UTC.
pub(crate) fn moment(seconds: u32) -> String {
    // Every 32-bit number of seconds is in its range.
    let at =
        OffsetDateTime::from_unix_timestamp(seconds.into()).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (year, month, day) = at.to_calendar_date();
    let (hour, minute, second) = at.to_hms();
    let year = u64::from(year.unsigned_abs());
    let day = (year, u8::from(month).into(), day.into());
    day_and_time(day, (hour.into(), minute.into(), second.into()))
}

/// Appends a number. Where it has fewer digits than `digits`, zeros come in front.
fn put_padded(number: u64, digits: usize, out: &mut String) {
    let mut buffer = itoa::Buffer::new();
    let text = buffer.format(number);
    for _ in text.len()..digits {
        out.push('0');
    }
    out.push_str(text);
}

/// A date, with room for a time behind it.
fn day_of(year: u64, month: u64, day: u64) -> String {
    let mut text = String::with_capacity(26);
    put_padded(year, 4, &mut text);
    for part in [month, day] {
        text.push('-');
        put_padded(part, 2, &mut text);
    }
    text
}

/// Year, month and day; hour, minute and second.
fn day_and_time(day: (u64, u64, u64), time: (u64, u64, u64)) -> String {
    let mut text = day_of(day.0, day.1, day.2);
    text.push(' ');
    put_time(time.0, time.1, time.2, &mut text);
    text
}

fn put_time(hour: u64, minute: u64, second: u64, out: &mut String) {
    put_padded(hour, 2, out);
    for part in [minute, second] {
        out.push(':');
        put_padded(part, 2, out);
    }
}

impl Column {
    /// How many bits an integer of the column has.
    pub(crate) fn integer_bits(&self) -> u32 {
        match self.code {
            code::TINY => 8,
            code::SHORT => 16,
            code::INT24 => 24,
            code::LONG => 32,
            _ => 64,
        }
    }

    /// Reads a cell of the column that is not NULL; `None` where the bytes are not what they should be.
    pub(crate) fn read<'a>(&self, from: &mut Bytes<'a>) -> Option<Cell<'a>> {
        use code as c;
        let (low, high) = (self.metadata & 0xFF, self.metadata >> 8);
        let digits = u32::from(low);
        Some(match self.code {
            c::TINY | c::SHORT | c::INT24 | c::LONG | c::LONGLONG => {
                let bits = self.integer_bits();
                let raw = from.number(bits as usize / 8)?;
                Cell::Integer((raw << (64 - bits)) as i64 >> (64 - bits))
            }
            c::FLOAT => Cell::Float(f32::from_le_bytes(from.take(4)?.try_into().ok()?)),
            c::DOUBLE => Cell::Double(f64::from_le_bytes(from.take(8)?.try_into().ok()?)),
            c::YEAR => Cell::Text(match from.number(1)? {
                0 => "0000".to_owned(),
                year => (1900 + year).to_string(),
            }),
            c::DATE | c::NEWDATE => Cell::Text(date(from.number(3)?)),
            c::TIME => Cell::Text(old_time(from.number(3)?)),
            c::DATETIME => Cell::Text(old_datetime(from.number(8)?)),
            c::TIMESTAMP => Cell::Instant(u32::try_from(from.number(4)?).ok()?, String::new()),
            c::TIMESTAMP2 => {
                let seconds = u32::try_from(from.big(4)?).ok()?;
                Cell::Instant(seconds, fraction(from, digits)?)
            }
            c::DATETIME2 => Cell::Text(datetime(from, digits)?),
            c::TIME2 => Cell::Text(time(from, digits)?),
            c::DECIMAL => Cell::Text(decimal(from, usize::from(low), usize::from(high))?),
            c::BIT => Cell::Bits(from.big((usize::from(high) * 8 + usize::from(low)).div_ceil(8))?),
            c::ENUM => Cell::Enum(u16::try_from(from.number(usize::from(high))?).ok()?),
            c::SET => Cell::Set(from.number(usize::from(high))?),
            c::VARCHAR | c::VAR_STRING => bytes(from.counted(wide(self.metadata))?),
            c::STRING => bytes(from.counted(wide(char_bytes(low, high)))?),
            c::INET4 | c::INET6 | c::UUID => {
                let logged = from.counted(wide(char_bytes(low, high)))?;
                Cell::Text(fixed::text(self.code, logged)?)
            }
            c::VARCHAR_COMPRESSED => inflated(from.counted(wide(self.metadata))?)?,
            c::BLOB_COMPRESSED => inflated(from.counted(usize::from(low))?)?,
            c::JSON => Cell::Json(jsonb::text(self.document(from)?)?),
            c::GEOMETRY | c::VECTOR | c::TINY_BLOB..=c::BLOB => {
                bytes(from.counted(usize::from(low))?)
            }
            c::NULL => Cell::Null,
            _ => return None,
        })
    }

    /// The bytes of a JSON column's document, or of what changed in it.
    pub(crate) fn document<'a>(&self, from: &mut Bytes<'a>) -> Option<&'a [u8]> {
        from.counted(usize::from(self.metadata & 0xFF))
    }
}

fn bytes(bytes: &[u8]) -> Cell<'_> {
    Cell::Bytes(Cow::Borrowed(bytes))
}

/// How many bytes a length has in front of a text of at most so many.
fn wide(bytes_max: u16) -> usize {
    if bytes_max > 255 { 2 } else { 1 }
}

/// The most bytes of a CHAR: two bits of them stand in the byte of its type.
pub(crate) fn char_bytes(kind: u16, length: u16) -> u16 {
    length | ((kind & 0x30) ^ 0x30) << 4
}

fn date(raw: u64) -> String {
    day_of(raw >> 9, raw >> 5 & 15, raw & 31)
}

fn old_time(raw: u64) -> String {
    // Three bytes with a sign.
    let signed = ((raw << 40) as i64) >> 40;
    let mut text = String::from(if signed < 0 { "-" } else { "" });
    let raw = signed.unsigned_abs();
    put_time(raw / 10_000, raw / 100 % 100, raw % 100, &mut text);
    text
}

fn old_datetime(raw: u64) -> String {
    let (day, time) = (raw / 1_000_000, raw % 1_000_000);
    day_and_time(
        (day / 10_000, day / 100 % 100, day % 100),
        (time / 10_000, time / 100 % 100, time % 100),
    )
}

/// The digits behind the point, with a point in front; nothing where the type has none.
fn fraction(from: &mut Bytes<'_>, digits: u32) -> Option<String> {
    if digits > FRACTION_DIGITS_MAX {
        return None;
    }
    let raw = from.big(digits.div_ceil(2) as usize)?;
    Some(point(raw, digits))
}

/// An odd number of digits is stored as one more.
pub(crate) fn point(raw: u64, digits: u32) -> String {
    let shown = if digits % 2 == 1 { raw / 10 } else { raw };
    if digits == 0 {
        return String::new();
    }
    let mut text = ".".to_owned();
    put_padded(shown, digits as usize, &mut text);
    text
}

fn datetime(from: &mut Bytes<'_>, digits: u32) -> Option<String> {
    let raw = from.big(5)?.checked_sub(0x80_0000_0000)?;
    let fraction = fraction(from, digits)?;
    let (day, time) = (raw >> 17, raw & 0x1_FFFF);
    let months = day >> 5;
    let mut text = day_and_time(
        (months / 13, months % 13, day & 31),
        (time >> 12, time >> 6 & 63, time & 63),
    );
    text.push_str(&fraction);
    Some(text)
}

fn time(from: &mut Bytes<'_>, digits: u32) -> Option<String> {
    if digits > FRACTION_DIGITS_MAX {
        return None;
    }
    let bytes = digits.div_ceil(2);
    let raw = from.big(3 + bytes as usize)?;
    // Whole and fraction are one number, negative as a whole.
    let offset = 0x80_0000_u64 << (8 * bytes);
    let mut text = String::from(if raw < offset { "-" } else { "" });
    let raw = raw.abs_diff(offset);
    let (whole, part) = (raw >> (8 * bytes), raw & ((1 << (8 * bytes)) - 1));
    put_time(whole >> 12 & 0x3FF, whole >> 6 & 63, whole & 63, &mut text);
    text.push_str(&point(part, digits));
    Some(text)
}

/// Groups of nine digits have four bytes, what is left of them fewer; a negative number has all bits
/// the other way round, and the first bit is the sign.
pub(crate) fn decimal(from: &mut Bytes<'_>, precision: usize, scale: usize) -> Option<String> {
    const BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
    let whole = precision.checked_sub(scale)?;
    let total = (whole / 9 + scale / 9) * 4 + BYTES[whole % 9] + BYTES[scale % 9];
    // Precision and scale are one byte each.
    let mut raw = [0; 128];
    let raw = raw.get_mut(..total)?;
    raw.copy_from_slice(from.take(total)?);
    let first = raw.first_mut()?;
    let negative = *first & 0x80 == 0;
    *first ^= 0x80;
    if negative {
        raw.iter_mut().for_each(|byte| *byte = !*byte);
    }
    let mut rest = Bytes(raw);
    let mut text = String::with_capacity(precision + 3);
    let mut put = |digits: usize, times: usize, text: &mut String| {
        for _ in 0..if digits > 0 { times } else { 0 } {
            put_padded(rest.big(BYTES[digits])?, digits, text);
        }
        Some(())
    };
    if negative {
        text.push('-');
    }
    let begin = text.len();
    put(whole % 9, 1, &mut text)?;
    put(9, whole / 9, &mut text)?;
    let zeros = text[begin..]
        .bytes()
        .take_while(|&digit| digit == b'0')
        .count();
    text.drain(begin..begin + zeros);
    if text.len() == begin {
        text.push('0');
    }
    if scale > 0 {
        text.push('.');
    }
    put(9, scale / 9, &mut text)?;
    put(scale % 9, 1, &mut text)?;
    Some(text)
}

/// A value of one of MariaDB's compressed columns.
fn inflated(raw: &[u8]) -> Option<Cell<'_>> {
    let (&head, rest) = match raw.split_first() {
        Some(parts) => parts,
        None => return Some(bytes(raw)),
    };
    if head == 0 {
        return Some(bytes(rest));
    }
    let mut rest = Bytes(rest);
    rest.take(usize::from(head & 7))?;
    let mut whole = Vec::new();
    let read = match head & 8 {
        0 => ZlibDecoder::new(rest.0).read_to_end(&mut whole),
        _ => DeflateDecoder::new(rest.0).read_to_end(&mut whole),
    };
    read.ok()?;
    Some(Cell::Bytes(Cow::Owned(whole)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_dates() {
        assert_eq!(moment(0), "1970-01-01 00:00:00");
        assert_eq!(moment(951_827_696), "2000-02-29 12:34:56");
        assert_eq!(moment(u32::MAX), "2106-02-07 06:28:15");
    }

    #[test]
    fn decimals_keep_all_their_digits() {
        // 1234567890.1234 as DECIMAL(14,4), and the same below zero.
        let raw = [0x81, 0x0D, 0xFB, 0x38, 0xD2, 0x04, 0xD2];
        let read = |raw: &[u8]| decimal(&mut Bytes(raw), 14, 4);
        assert_eq!(read(&raw).as_deref(), Some("1234567890.1234"));
        let below: Vec<u8> = raw.iter().map(|byte| !byte).collect();
        assert_eq!(read(&below).as_deref(), Some("-1234567890.1234"));
        assert_eq!(read(&raw[..6]), None);
    }

    #[test]
    fn times_below_zero_are_one_number() {
        let read = |raw: &[u8], digits| time(&mut Bytes(raw), digits);
        assert_eq!(
            read(&[0x7F, 0xFF, 0xFF, 0x00], 2).as_deref(),
            Some("-00:00:01.00")
        );
        assert_eq!(read(&[0x80, 0x10, 0x83], 0).as_deref(), Some("01:02:03"));
    }
}
