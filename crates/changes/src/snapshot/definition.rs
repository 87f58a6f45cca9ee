//! A table's columns as the server's catalogue says them, and values as a SELECT sends them: both become what a
//! table map and a row of the binlog would have been, so that the stream tells both alike.

use crate::cell::Cell;
use crate::charset::charset_of;
use crate::fixed;
use crate::table::{Column, code};

/// The collation of bytes.
const BINARY: u32 = 63;
/// One of utf8mb4, for labels, which the catalogue says in it.
const UTF8MB4: u32 = 45;
/// In the metadata of a STRING: no bits of its length stand in the type's byte.
const SHORT_STRING: u16 = 0xFE;

/// What `information_schema.COLUMNS` says of a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definition {
    pub name: String,
    /// DATA_TYPE, in lower case.
    pub data_type: String,
    pub column_type: String,
    pub nullable: bool,
    /// The number of one of its character set's collations; `None` where it has no character set.
    pub collation: Option<u32>,
    /// CHARACTER_OCTET_LENGTH.
    pub bytes_max: u64,
    /// The server is MariaDB.
    pub of_mariadb: bool,
}

impl Definition {
    /// The column as a table map has it.
    ///
    /// # Errors
    /// The binlog stores the type otherwise than a SELECT shows it; the text says which type.
    pub fn column(&self) -> Result<Column, String> {
        let number = self.number();
        let (code, metadata, collation) = match (number, self.stored()) {
            (Some(code::DECIMAL), _) => (code::DECIMAL, self.sizes(), None),
            (Some(code), _) => (code, 0, None),
            (None, Some(stored)) => stored,
            (None, None) => {
                return Err(format!("a column of the type {}", self.data_type));
            }
        };
        let members = match code {
            code::ENUM | code::SET => labels(&self.column_type),
            _ => Vec::new(),
        };
        Ok(Column {
            code,
            metadata,
            nullable: self.nullable,
            unsigned: number.map(|_| self.column_type.contains("unsigned")),
            name: Some(self.name.clone()),
            collation: match members.iter().all(|label| is_same_in(collation, label)) {
                true => collation,
                false => Some(UTF8MB4),
            },
            members,
        })
    }

    /// The numbers of `decimal(10,2)`, the first one in the low byte.
    fn sizes(&self) -> u16 {
        let inner = self.column_type.split_once('(');
        let inner = inner.and_then(|(_, rest)| rest.split_once(')'));
        let mut sizes = inner.map_or("", |it| it.0).split(',').map(str::trim);
        let mut size = || sizes.next()?.parse::<u8>().ok();
        let (first, second) = (size().unwrap_or(0), size().unwrap_or(0));
        u16::from_le_bytes([first, second])
    }

    fn number(&self) -> Option<u8> {
        Some(match &*self.data_type {
            "tinyint" => code::TINY,
            "smallint" => code::SHORT,
            "mediumint" => code::INT24,
            "int" => code::LONG,
            "bigint" => code::LONGLONG,
            "float" => code::FLOAT,
            "double" => code::DOUBLE,
            "decimal" => code::DECIMAL,
            _ => return None,
        })
    }

    /// The code, the metadata and the collation of other types.
    fn stored(&self) -> Option<(u8, u16, Option<u32>)> {
        let binary = |bytes: u64| {
            let bytes = u16::try_from(bytes).unwrap_or(u16::MAX).min(0xFF);
            (code::STRING, bytes << 8 | SHORT_STRING, Some(BINARY))
        };
        let blob = |length_bytes| (code::BLOB, length_bytes, self.collation.or(Some(BINARY)));
        let plain = |code| (code, 0, None);
        Some(match &*self.data_type {
            "date" => plain(code::DATE),
            "time" => (code::TIME2, self.sizes(), None),
            "datetime" => (code::DATETIME2, self.sizes(), None),
            "timestamp" => (code::TIMESTAMP2, self.sizes(), None),
            "year" => plain(code::YEAR),
            // Whole bytes, and the bits besides.
            "bit" => (
                code::BIT,
                (((self.sizes() & 0xFF) / 8) << 8) | (self.sizes() % 8),
                None,
            ),
            "json" => plain(code::JSON),
            "enum" => (code::ENUM, 0, self.collation),
            "set" => (code::SET, 0, self.collation),
            "char" => (code::STRING, SHORT_STRING, self.collation),
            "varchar" => (code::VARCHAR, 0, self.collation),
            "binary" => binary(self.bytes_max),
            "varbinary" => (code::VARCHAR, 0, Some(BINARY)),
            "tinytext" | "tinyblob" => blob(1),
            "text" | "blob" => blob(2),
            "mediumtext" | "mediumblob" => blob(3),
            "longtext" | "longblob" => blob(4),
            "vector" => plain(code::VECTOR),
            "geometry" | "point" | "linestring" | "polygon" | "multipoint" | "multilinestring"
            | "multipolygon" | "geometrycollection" | "geomcollection" => {
                (code::GEOMETRY, 4, self.of_mariadb.then_some(BINARY))
            }
            // Shown as a text, however they are logged.
            other => plain(fixed::code_of(other)?),
        })
    }

    /// The expression that selects the whole value; `quoted` is the column's name in a statement.
    pub fn expression(&self, quoted: &str) -> String {
        match &*self.data_type {
            // Its text has six digits; that of a double is exact.
            "float" => format!("{quoted}*1e0"),
            "bit" | "enum" | "set" => format!("{quoted}+0"),
            _ => quoted.to_owned(),
        }
    }
}

/// True when a label in UTF-8 has the same bytes in the collation's character set.
fn is_same_in(collation: Option<u32>, label: &[u8]) -> bool {
    let charset = collation.and_then(charset_of);
    let text = charset.and_then(|charset| charset.decode(label));
    text.is_some_and(|text| text.as_bytes() == label)
}

/// The labels of `enum('a','b''c')`, in UTF-8.
fn labels(column_type: &str) -> Vec<Vec<u8>> {
    let mut labels = Vec::new();
    let mut rest = column_type.chars().peekable();
    while rest.any(|c| c == '\'') {
        let mut label = String::new();
        while let Some(c) = rest.next() {
            if c == '\'' && rest.next_if_eq(&'\'').is_none() {
                break;
            }
            label.push(c);
        }
        labels.push(label.into_bytes());
    }
    labels
}

/// A value of the column, which was selected by [`Definition::expression`] without a conversion of its character
/// set; `None` for NULL.
///
/// # Errors
/// It is no value of the type.
pub fn cell(value: Option<Vec<u8>>, column: &Column) -> Result<Cell<'static>, String> {
    let Some(bytes) = value else {
        return Ok(Cell::Null);
    };
    let wrong = |bytes: &[u8]| format!("{} is no {}", hex::encode(bytes), column.type_name());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).map_err(|error| wrong(error.as_bytes()));
    if column.is_integer() {
        let number = parsed::<i128>(&bytes).ok_or_else(|| wrong(&bytes))?;
        // The bits are what counts; the column says whether the highest is a sign.
        return Ok(Cell::Integer(number as i64));
    }
    let bits = || parsed::<u64>(&bytes).ok_or_else(|| wrong(&bytes));
    let double = || parsed::<f64>(&bytes).ok_or_else(|| wrong(&bytes));
    Ok(match column.code {
        code::FLOAT => Cell::Float(double()? as f32),
        code::DOUBLE => Cell::Double(double()?),
        code::BIT => Cell::Bits(bits()?),
        code::SET => Cell::Set(bits()?),
        code::ENUM => Cell::Enum(u16::try_from(bits()?).map_err(|_| wrong(&bytes))?),
        code::JSON => Cell::Json(text(bytes)?),
        code::DECIMAL => Cell::Text(without_zeros(text(bytes)?)),
        code::DATE | code::TIME2 | code::DATETIME2 | code::TIMESTAMP2 | code::YEAR => {
            Cell::Text(text(bytes)?)
        }
        code::INET4 | code::INET6 | code::UUID => Cell::Text(text(bytes)?),
        _ => Cell::Bytes(bytes.into()),
    })
}

fn parsed<T: std::str::FromStr>(bytes: &[u8]) -> Option<T> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// ZEROFILL fills up what is shown, not what is stored.
fn without_zeros(text: String) -> String {
    let bare = text.trim_start_matches('0');
    match bare.as_bytes().first() {
        _ if bare.len() == text.len() => text,
        Some(b'0'..=b'9') => bare.to_owned(),
        _ => format!("0{bare}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(data_type: &str, column_type: &str) -> Definition {
        Definition {
            name: "v".to_owned(),
            data_type: data_type.to_owned(),
            column_type: column_type.to_owned(),
            nullable: true,
            ..Definition::default()
        }
    }

    fn read(data_type: &str, column_type: &str, value: &str) -> Cell<'static> {
        let column = definition(data_type, column_type).column().expect("known");
        cell(Some(value.as_bytes().to_vec()), &column).expect("a value")
    }

    #[test]
    fn values_are_those_of_the_binlog() {
        let big = read("bigint", "bigint(20) unsigned", "18446744073709551615");
        assert_eq!(big, Cell::Integer(-1));
        assert_eq!(read("int", "int(5) zerofill", "00042"), Cell::Integer(42));
        assert_eq!(
            read("float", "float", "1.100000023841858"),
            Cell::Float(1.1)
        );
        let decimal = |value| read("decimal", "decimal(6,2) unsigned zerofill", value);
        assert_eq!(decimal("0012.50"), Cell::Text("12.50".to_owned()));
        assert_eq!(decimal("0000.50"), Cell::Text("0.50".to_owned()));
        assert_eq!(read("set", "set('a','b')", "3"), Cell::Set(3));
        let column = definition("int", "int").column().expect("known");
        assert!(cell(Some(b"x".to_vec()), &column).is_err());
        assert_eq!(cell(None, &column), Ok(Cell::Null));
        assert_eq!(read("inet6", "inet6", "::1"), Cell::Text("::1".to_owned()));
        assert!(definition("xml", "xml").column().is_err());
    }

    #[test]
    fn labels_are_read_from_the_type() {
        let column = definition("enum", "enum('a','it''s','\u{f6}','')").column();
        let column = column.expect("known");
        let labels: Vec<&[u8]> = column.members.iter().map(|label| &**label).collect();
        assert_eq!(labels, [&b"a"[..], b"it's", "\u{f6}".as_bytes(), b""]);
        assert_eq!(column.collation, Some(UTF8MB4));
    }
}
