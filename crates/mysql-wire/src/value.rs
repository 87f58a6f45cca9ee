//! Values in the binary form of prepared statements: parameters and result rows alike.

mod text;

use crate::Malformed;
use crate::result::ColumnKind;
use crate::scalar::{Reader, put_lenenc_bytes, put_u16, put_u32};

/// How a value lies in the bytes: its type, and whether a number has a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueKind {
    /// The type byte.
    pub column: ColumnKind,
    /// Numbers only.
    pub unsigned: bool,
}

/// One value. Strings, blobs, decimals, JSON and bits are bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    Null,
    /// Every width of integer with a sign.
    Int(i64),
    /// Every width of integer without one, and YEAR as the servers send it.
    UInt(u64),
    Float(f32),
    Double(f64),
    /// Whatever is not one of the others; text in the collation of its column.
    Bytes(&'a [u8]),
    /// DATE, DATETIME and TIMESTAMP.
    Date(DateTime),
    Time(TimeSpan),
}

/// A date, with the time of day if the type has one. Zero dates exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DateTime {
    pub year: u16,
    pub month: u8,
    pub day: u8,
    pub hour: u8,
    pub minute: u8,
    pub second: u8,
    pub microsecond: u32,
}

/// A TIME: up to 838 hours in either direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeSpan {
    pub negative: bool,
    pub days: u32,
    /// 0 to 23, as whole days are in `days`.
    pub hours: u8,
    pub minutes: u8,
    pub seconds: u8,
    pub microseconds: u32,
}

/// What the bytes of a type look like.
enum Shape {
    Nothing,
    /// A number of this many bytes.
    Integer(usize),
    Float,
    Double,
    Date,
    Time,
    Bytes,
}

/// Types of the server's inside and types that are only known by number travel as strings.
fn shape(kind: ColumnKind) -> Shape {
    match kind {
        ColumnKind::Null => Shape::Nothing,
        ColumnKind::Tiny | ColumnKind::Bool => Shape::Integer(1),
        ColumnKind::Short | ColumnKind::Year => Shape::Integer(2),
        ColumnKind::Long | ColumnKind::Int24 => Shape::Integer(4),
        ColumnKind::LongLong => Shape::Integer(8),
        ColumnKind::Float => Shape::Float,
        ColumnKind::Double => Shape::Double,
        ColumnKind::Date
        | ColumnKind::NewDate
        | ColumnKind::DateTime
        | ColumnKind::DateTime2
        | ColumnKind::Timestamp
        | ColumnKind::Timestamp2 => Shape::Date,
        ColumnKind::Time | ColumnKind::Time2 => Shape::Time,
        _ => Shape::Bytes,
    }
}

impl<'a> Value<'a> {
    /// Takes a value of the given kind off the front; NULLs are in a bitmap elsewhere.
    pub fn read(reader: &mut Reader<'a>, kind: ValueKind) -> Result<Value<'a>, Malformed> {
        Ok(match shape(kind.column) {
            Shape::Nothing => Value::Null,
            Shape::Integer(bytes) => integer(reader.bytes(bytes)?, kind.unsigned),
            Shape::Float => Value::Float(f32::from_le_bytes(reader.array()?)),
            Shape::Double => Value::Double(f64::from_le_bytes(reader.array()?)),
            Shape::Date => Value::Date(DateTime::read(reader)?),
            Shape::Time => Value::Time(TimeSpan::read(reader)?),
            Shape::Bytes => Value::Bytes(reader.lenenc_bytes()?),
        })
    }

    /// Appends a value as the given kind; NULL appends nothing. Refuses a value that the kind
    /// cannot hold, and then appends nothing.
    pub fn write(&self, out: &mut Vec<u8>, kind: ValueKind) -> Result<(), Malformed> {
        match (*self, shape(kind.column)) {
            (Value::Null, _) => {}
            (Value::Int(number), Shape::Integer(bytes)) => {
                return put_integer(out, i128::from(number), bytes, kind.unsigned);
            }
            (Value::UInt(number), Shape::Integer(bytes)) => {
                return put_integer(out, i128::from(number), bytes, kind.unsigned);
            }
            (Value::Float(number), Shape::Float) => out.extend_from_slice(&number.to_le_bytes()),
            (Value::Double(number), Shape::Double) => out.extend_from_slice(&number.to_le_bytes()),
            (Value::Date(date), Shape::Date) => date.write(out),
            (Value::Time(time), Shape::Time) => time.write(out),
            (Value::Bytes(bytes), Shape::Bytes) => put_lenenc_bytes(out, bytes),
            _ => return Err(Malformed::new("a value that its type cannot hold")),
        }
        Ok(())
    }

    /// The kind that holds this value without loss, for parameters of one's own.
    pub fn kind(&self) -> ValueKind {
        let column = match self {
            Value::Null => ColumnKind::Null,
            Value::Int(_) | Value::UInt(_) => ColumnKind::LongLong,
            Value::Float(_) => ColumnKind::Float,
            Value::Double(_) => ColumnKind::Double,
            Value::Bytes(_) => ColumnKind::VarString,
            Value::Date(_) => ColumnKind::DateTime,
            Value::Time(_) => ColumnKind::Time,
        };
        ValueKind {
            column,
            unsigned: matches!(self, Value::UInt(_)),
        }
    }
}

/// Widens a little-endian number of up to 8 bytes.
fn integer(bytes: &[u8], unsigned: bool) -> Value<'static> {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let number = u64::from_le_bytes(wide);
    if unsigned {
        return Value::UInt(number);
    }
    // Moving the sign to the top bit and back fills the upper bytes with it.
    let above = 64 - 8 * bytes.len() as u32;
    Value::Int((number << above) as i64 >> above)
}

/// Appends a number that `bytes` bytes can hold, with or without a sign.
fn put_integer(
    out: &mut Vec<u8>,
    number: i128,
    bytes: usize,
    unsigned: bool,
) -> Result<(), Malformed> {
    let bits = 8 * bytes;
    let (least, most) = match unsigned {
        true => (0, (1 << bits) - 1),
        false => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
    };
    if number < least || number > most {
        return Err(Malformed::new("a number that its type cannot hold"));
    }
    out.extend_from_slice(&number.to_le_bytes()[..bytes]);
    Ok(())
}

impl DateTime {
    /// Reads a length of 0, 4, 7 or 11 and that many bytes; what is left out is 0.
    fn read(reader: &mut Reader<'_>) -> Result<DateTime, Malformed> {
        let length = reader.u8()?;
        let mut date = DateTime::default();
        if !matches!(length, 0 | 4 | 7 | 11) {
            return Err(Malformed::new("a date of a wrong length"));
        }
        if length >= 4 {
            (date.year, date.month, date.day) = (reader.u16()?, reader.u8()?, reader.u8()?);
        }
        if length >= 7 {
            (date.hour, date.minute, date.second) = (reader.u8()?, reader.u8()?, reader.u8()?);
        }
        if length >= 11 {
            date.microsecond = reader.u32()?;
        }
        Ok(date)
    }

    /// Appends the shortest form.
    fn write(self, out: &mut Vec<u8>) {
        let has_time = (self.hour, self.minute, self.second) != (0, 0, 0);
        let has_date = (self.year, self.month, self.day) != (0, 0, 0);
        let length = match (self.microsecond != 0, has_time, has_date) {
            (true, _, _) => 11,
            (false, true, _) => 7,
            (false, false, true) => 4,
            (false, false, false) => 0,
        };
        out.push(length);
        if length >= 4 {
            put_u16(out, self.year);
            out.extend_from_slice(&[self.month, self.day]);
        }
        if length >= 7 {
            out.extend_from_slice(&[self.hour, self.minute, self.second]);
        }
        if length >= 11 {
            put_u32(out, self.microsecond);
        }
    }
}

impl TimeSpan {
    /// Reads a length of 0, 8 or 12 and that many bytes; what is left out is 0.
    fn read(reader: &mut Reader<'_>) -> Result<TimeSpan, Malformed> {
        let length = reader.u8()?;
        let mut time = TimeSpan::default();
        if !matches!(length, 0 | 8 | 12) {
            return Err(Malformed::new("a time of a wrong length"));
        }
        if length >= 8 {
            (time.negative, time.days) = (reader.u8()? != 0, reader.u32()?);
            (time.hours, time.minutes, time.seconds) = (reader.u8()?, reader.u8()?, reader.u8()?);
        }
        if length >= 12 {
            time.microseconds = reader.u32()?;
        }
        Ok(time)
    }

    /// Appends the shortest form.
    fn write(self, out: &mut Vec<u8>) {
        if self == TimeSpan::default() {
            out.push(0);
            return;
        }
        out.push(if self.microseconds == 0 { 8 } else { 12 });
        out.push(u8::from(self.negative));
        put_u32(out, self.days);
        out.extend_from_slice(&[self.hours, self.minutes, self.seconds]);
        if self.microseconds != 0 {
            put_u32(out, self.microseconds);
        }
    }
}

/// Bytes of a bitmap of `count` NULL flags that starts `offset` bits in.
pub(crate) const fn null_bitmap_bytes(count: usize, offset: usize) -> usize {
    (count + offset).div_ceil(8)
}

/// Whether the flag of value `at` is set; flags beyond the bitmap are not.
pub(crate) fn is_null(bitmap: &[u8], at: usize, offset: usize) -> bool {
    let bit = at + offset;
    bitmap
        .get(bit / 8)
        .is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
}

/// Appends a bitmap with a flag for each value that is NULL.
pub(crate) fn put_null_bitmap(out: &mut Vec<u8>, values: &[Value<'_>], offset: usize) {
    let start = out.len();
    out.resize(start + null_bitmap_bytes(values.len(), offset), 0);
    for (at, value) in values.iter().enumerate() {
        if matches!(value, Value::Null) {
            let bit = at + offset;
            out[start + bit / 8] |= 1 << (bit % 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(value: Value<'_>, column: ColumnKind, unsigned: bool) -> Vec<u8> {
        let kind = ValueKind { column, unsigned };
        let mut out = Vec::new();
        value
            .write(&mut out, kind)
            .expect("the kind holds the value");
        let mut reader = Reader::new(&out);
        assert_eq!(Value::read(&mut reader, kind), Ok(value));
        assert!(reader.is_empty());
        out
    }

    #[test]
    fn integers_keep_their_sign_in_every_width() {
        for (column, bytes) in [
            (ColumnKind::Tiny, 1),
            (ColumnKind::Year, 2),
            (ColumnKind::Int24, 4),
            (ColumnKind::LongLong, 8),
        ] {
            let most = u64::MAX >> (64 - 8 * bytes);
            assert_eq!(round(Value::UInt(most), column, true).len(), bytes);
            round(Value::Int((most >> 1) as i64), column, false);
            round(Value::Int(-((most >> 1) as i64) - 1), column, false);
            round(Value::Int(-1), column, false);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_and_appends_nothing() {
        let tiny = |unsigned| ValueKind {
            column: ColumnKind::Tiny,
            unsigned,
        };
        let mut out = Vec::new();
        assert!(Value::Int(128).write(&mut out, tiny(false)).is_err());
        assert!(Value::Int(-1).write(&mut out, tiny(true)).is_err());
        assert!(Value::UInt(256).write(&mut out, tiny(true)).is_err());
        assert!(Value::Bytes(b"1").write(&mut out, tiny(true)).is_err());
        assert!(out.is_empty());
        assert_eq!(Value::UInt(127).write(&mut out, tiny(false)), Ok(()));
    }

    #[test]
    fn floats_and_bytes_read_back() {
        round(Value::Float(1.5), ColumnKind::Float, false);
        let double = round(Value::Double(-0.25), ColumnKind::Double, false);
        assert_eq!(double, (-0.25_f64).to_le_bytes());
        round(Value::Bytes(b"12.50"), ColumnKind::NewDecimal, false);
        round(Value::Bytes(&[0; 300]), ColumnKind::Blob, false);
        round(Value::Null, ColumnKind::Null, false);
    }

    #[test]
    fn dates_use_their_shortest_form() {
        let mut date = DateTime::default();
        assert_eq!(round(Value::Date(date), ColumnKind::Date, false), [0]);
        (date.year, date.month, date.day) = (2024, 2, 29);
        assert_eq!(round(Value::Date(date), ColumnKind::Date, false).len(), 5);
        date.minute = 1;
        assert_eq!(
            round(Value::Date(date), ColumnKind::DateTime, false).len(),
            8
        );
        date.microsecond = 999_999;
        assert_eq!(
            round(Value::Date(date), ColumnKind::Timestamp, false).len(),
            12
        );
    }

    #[test]
    fn times_use_their_shortest_form() {
        let mut time = TimeSpan::default();
        assert_eq!(round(Value::Time(time), ColumnKind::Time, false), [0]);
        (time.negative, time.days, time.hours) = (true, 34, 22);
        assert_eq!(round(Value::Time(time), ColumnKind::Time, false).len(), 9);
        time.microseconds = 1;
        assert_eq!(round(Value::Time(time), ColumnKind::Time, false).len(), 13);
    }

    #[test]
    fn wrong_lengths_are_malformed() {
        let date = ValueKind {
            column: ColumnKind::Date,
            unsigned: false,
        };
        let time = ValueKind {
            column: ColumnKind::Time,
            unsigned: false,
        };
        for bytes in [&[5, 0, 0, 0, 0, 0][..], &[4, 0], &[255], &[]] {
            assert!(Value::read(&mut Reader::new(bytes), date).is_err());
            assert!(Value::read(&mut Reader::new(bytes), time).is_err());
        }
    }

    #[test]
    fn null_flags_lie_behind_their_offset() {
        let values = [Value::Null, Value::Int(1), Value::Null];
        for (offset, bitmap) in [(0, 0b101), (2, 0b10100)] {
            let mut out = Vec::new();
            put_null_bitmap(&mut out, &values, offset);
            assert_eq!(out, [bitmap]);
            let flags = [0, 1, 2, 3].map(|at| is_null(&out, at, offset));
            assert_eq!(flags, [true, false, true, false]);
        }
        assert_eq!((null_bitmap_bytes(6, 2), null_bitmap_bytes(7, 2)), (1, 2));
        assert!(!is_null(&[], 0, 0));
    }
}
