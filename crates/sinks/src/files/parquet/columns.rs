//! How the columns of a table are stored, and their values. docs/SINKS.md has the map.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use changes::{days, micros_of, micros_of_time, unscaled};
use serde::Deserialize;

use super::format::{Column, Logical, Physical};

/// A column as the stream describes it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(super) struct Described {
    pub(super) name: String,
    #[serde(rename = "type")]
    kind: String,
    unsigned: bool,
    precision: u8,
    scale: u8,
}

/// What a column's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A whole number of so many bits, with a sign or without.
    Integer(u8, bool),
    Float,
    Double,
    Decimal(u8, u8),
    Date,
    /// It may be negative, and longer than a day.
    Time,
    /// A DATETIME, or a TIMESTAMP, which is in UTC.
    Moment(bool),
    Text,
    Json,
    Set,
    Bytes,
}

impl Described {
    pub(super) fn kind(&self) -> Kind {
        match &*self.kind {
            "tinyint" => Kind::Integer(8, !self.unsigned),
            "smallint" => Kind::Integer(16, !self.unsigned),
            "mediumint" | "int" => Kind::Integer(32, !self.unsigned),
            "bigint" => Kind::Integer(64, !self.unsigned),
            "year" => Kind::Integer(16, true),
            "bit" => Kind::Integer(64, false),
            "float" => Kind::Float,
            "double" => Kind::Double,
            "decimal" => Kind::Decimal(self.precision, self.scale),
            "date" => Kind::Date,
            "time" => Kind::Time,
            "datetime" => Kind::Moment(false),
            "timestamp" => Kind::Moment(true),
            "json" => Kind::Json,
            "set" => Kind::Set,
            "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" | "enum" => {
                Kind::Text
            }
            "inet4" | "inet6" | "uuid" => Kind::Text,
            _ => Kind::Bytes,
        }
    }
}

impl Kind {
    /// An optional column of this name.
    pub(super) fn column(self, name: &str) -> Column {
        let (physical, logical) = match self {
            Kind::Integer(64, is_signed) => (Physical::I64, Logical::Integer(64, is_signed)),
            Kind::Integer(bits, is_signed) => (Physical::I32, Logical::Integer(bits, is_signed)),
            Kind::Float => (Physical::F32, Logical::None),
            Kind::Double => (Physical::F64, Logical::None),
            Kind::Decimal(precision, scale) => (
                Physical::Fixed(decimal_bytes(precision)),
                Logical::Decimal(precision, scale),
            ),
            Kind::Date => (Physical::I32, Logical::Date),
            Kind::Time => (Physical::I64, Logical::None),
            Kind::Moment(is_utc) => (Physical::I64, Logical::Microseconds { is_utc }),
            Kind::Text | Kind::Set => (Physical::Bytes, Logical::Text),
            Kind::Json => (Physical::Bytes, Logical::Json),
            Kind::Bytes => (Physical::Bytes, Logical::None),
        };
        Column::new(name, physical, logical).optional()
    }

    /// The bytes of a value as the stream tells it, or `None` for one that the column cannot have.
    pub(super) fn stored(self, raw: &str) -> Option<Vec<u8>> {
        // Numbers that readers of JSON would round are texts.
        let digits = raw.trim_matches('"');
        let text = || serde_json::from_str::<String>(raw).ok();
        Some(match self {
            Kind::Integer(64, true) => digits.parse::<i64>().ok()?.to_le_bytes().to_vec(),
            Kind::Integer(64, false) => digits.parse::<u64>().ok()?.to_le_bytes().to_vec(),
            Kind::Integer(_, true) => digits.parse::<i32>().ok()?.to_le_bytes().to_vec(),
            Kind::Integer(_, false) => digits.parse::<u32>().ok()?.to_le_bytes().to_vec(),
            Kind::Float => digits.parse::<f32>().ok()?.to_le_bytes().to_vec(),
            Kind::Double => digits.parse::<f64>().ok()?.to_le_bytes().to_vec(),
            Kind::Decimal(precision, scale) => decimal(&text()?, precision, scale)?,
            Kind::Date => days(&text()?)?.to_le_bytes().to_vec(),
            Kind::Time => micros_of_time(&text()?)?.to_le_bytes().to_vec(),
            Kind::Moment(_) => micros_of(&text()?)?.to_le_bytes().to_vec(),
            Kind::Text => text()?.into_bytes(),
            Kind::Json => raw.as_bytes().to_vec(),
            Kind::Set => {
                let labels = serde_json::from_str::<Vec<String>>(raw).ok()?;
                labels.join(",").into_bytes()
            }
            Kind::Bytes => {
                let bytes = serde_json::from_str::<Base64>(raw).ok()?;
                BASE64.decode(bytes.base64).ok()?
            }
        })
    }
}

/// Bytes as the stream tells them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Base64 {
    base64: String,
}

/// So many bytes have room for all numbers of so many digits, and the sign.
fn decimal_bytes(precision: u8) -> u8 {
    // A digit has less than 3.3220 bits.
    let bits = u32::from(precision) * 33_220 / 10_000 + 2;
    u8::try_from(bits.div_ceil(8)).unwrap_or(u8::MAX)
}

/// A decimal without its point, the highest byte first.
fn decimal(text: &str, precision: u8, scale: u8) -> Option<Vec<u8>> {
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    let missing = usize::from(scale).checked_sub(fraction.len())?;
    let bytes = unscaled(&(text.to_owned() + &"0".repeat(missing)))?;
    let missing = usize::from(decimal_bytes(precision)).checked_sub(bytes.len())?;
    let sign = match bytes.first() {
        Some(first) if first & 0x80 != 0 => 0xFF,
        _ => 0,
    };
    let mut whole = vec![sign; missing];
    whole.extend(bytes);
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(column: &str) -> Kind {
        let described: Described = serde_json::from_str(column).expect("a column");
        described.kind()
    }

    #[test]
    fn values_are_stored_as_the_page_says() {
        let stored = |column: &str, raw: &str| kind(column).stored(raw);
        let le = |number: i64| Some(number.to_le_bytes().to_vec());
        let unsigned = r#"{"name":"a","type":"bigint","unsigned":true}"#;
        assert_eq!(stored(unsigned, "\"18446744073709551615\""), le(-1));
        assert_eq!(stored(r#"{"type":"bigint"}"#, "-5"), le(-5));
        assert_eq!(stored(r#"{"type":"bit","bits":3}"#, "5"), le(5));
        let day = |number: i32| Some(number.to_le_bytes().to_vec());
        assert_eq!(stored(r#"{"type":"date"}"#, "\"1970-01-03\""), day(2));
        assert_eq!(stored(r#"{"type":"int"}"#, "-2"), day(-2));
        assert_eq!(
            stored(r#"{"type":"time"}"#, "\"-00:00:01.5\""),
            le(-1_500_000)
        );
        let moment = "\"1970-01-01 00:00:02.000001\"";
        assert_eq!(stored(r#"{"type":"datetime"}"#, moment), le(2_000_001));
        let set = stored(r#"{"type":"set"}"#, r#"["a","b"]"#);
        assert_eq!(set.as_deref(), Some(&b"a,b"[..]));
        let bytes = stored(r#"{"type":"blob"}"#, r#"{"base64":"AP8="}"#);
        assert_eq!(bytes.as_deref(), Some(&[0, 0xFF][..]));
        let document = stored(r#"{"type":"json"}"#, r#"{"a": 1.10}"#);
        assert_eq!(document.as_deref(), Some(&br#"{"a": 1.10}"#[..]));
        for (column, raw) in [
            (r#"{"type":"date"}"#, "\"0000-00-00\""),
            (r#"{"type":"datetime"}"#, "\"2024-02-00 00:00:00\""),
            (
                r#"{"type":"text"}"#,
                r#"{"base64":"9g==","charset":"utf8mb4"}"#,
            ),
            (r#"{"type":"enum"}"#, "9"),
        ] {
            assert_eq!(stored(column, raw), None, "{raw}");
        }
    }

    #[test]
    fn decimals_have_room_for_all_their_digits() {
        assert_eq!(decimal("9.50", 10, 2), Some(vec![0, 0, 0, 3, 0xB6]));
        assert_eq!(decimal("-0.01", 10, 2), Some(vec![0xFF; 5]));
        assert_eq!(decimal("1", 4, 2), Some(vec![0, 100]));
        for precision in 1..=65_u8 {
            for sign in ["", "-"] {
                let text = format!("{sign}{}", "9".repeat(precision.into()));
                let bytes = decimal(&text, precision, 0).expect("it has room");
                assert_eq!(bytes.len(), usize::from(decimal_bytes(precision)));
            }
        }
    }
}
