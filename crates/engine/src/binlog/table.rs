//! Table maps: what the rows that follow are made of.

/// Types of columns as table maps number them.
pub(super) mod code {
    pub const TINY: u8 = 1;
    pub const SHORT: u8 = 2;
    pub const LONG: u8 = 3;
    pub const FLOAT: u8 = 4;
    pub const DOUBLE: u8 = 5;
    pub const NULL: u8 = 6;
    pub const TIMESTAMP: u8 = 7;
    pub const LONGLONG: u8 = 8;
    pub const INT24: u8 = 9;
    pub const DATE: u8 = 10;
    pub const TIME: u8 = 11;
    pub const DATETIME: u8 = 12;
    pub const YEAR: u8 = 13;
    pub const NEWDATE: u8 = 14;
    pub const VARCHAR: u8 = 15;
    pub const BIT: u8 = 16;
    pub const TIMESTAMP2: u8 = 17;
    pub const DATETIME2: u8 = 18;
    pub const TIME2: u8 = 19;
    /// MariaDB's compressed columns.
    pub const BLOB_COMPRESSED: u8 = 140;
    pub const VARCHAR_COMPRESSED: u8 = 141;
    pub const VECTOR: u8 = 242;
    pub const JSON: u8 = 245;
    pub const DECIMAL: u8 = 246;
    pub const ENUM: u8 = 247;
    pub const SET: u8 = 248;
    pub const TINY_BLOB: u8 = 249;
    pub const BLOB: u8 = 252;
    pub const VAR_STRING: u8 = 253;
    pub const STRING: u8 = 254;
    pub const GEOMETRY: u8 = 255;
}

/// A column as the binlog has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// One of `code`; what a STRING's metadata hides is told.
    pub(super) code: u8,
    pub(super) metadata: u16,
    pub nullable: bool,
    /// Whether an integer has no sign, where the server's `binlog_row_metadata` lets it be said.
    pub unsigned: Option<bool>,
    /// Where `binlog_row_metadata` is FULL.
    pub name: Option<String>,
}

impl Column {
    /// It holds whole numbers.
    pub fn is_integer(&self) -> bool {
        use code::{INT24, LONG, LONGLONG, SHORT, TINY};
        [TINY, SHORT, INT24, LONG, LONGLONG].contains(&self.code)
    }

    /// It holds bytes of a character set, or bytes alone.
    pub fn is_text(&self) -> bool {
        use code::{STRING, VAR_STRING, VARCHAR, VARCHAR_COMPRESSED};
        [STRING, VAR_STRING, VARCHAR, VARCHAR_COMPRESSED].contains(&self.code) || self.is_blob()
    }

    pub(super) fn is_blob(&self) -> bool {
        (code::TINY_BLOB..=code::BLOB).contains(&self.code) || self.code == code::BLOB_COMPRESSED
    }

    /// Numbers have a bit each in the metadata that tells signs.
    fn is_number(&self) -> bool {
        self.is_integer() || [code::FLOAT, code::DOUBLE, code::DECIMAL].contains(&self.code)
    }
}

/// A table as it was when its rows were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub database: String,
    pub name: String,
    pub columns: Vec<Column>,
}

/// How many bytes of metadata a type has.
fn metadata_bytes(kind: u8) -> Option<usize> {
    use code as c;
    Some(match kind {
        c::FLOAT | c::DOUBLE | c::TIMESTAMP2 | c::DATETIME2 | c::TIME2 | c::JSON => 1,
        c::GEOMETRY | c::VECTOR | c::BLOB_COMPRESSED | c::TINY_BLOB..=c::BLOB => 1,
        c::VARCHAR | c::BIT | c::DECIMAL | c::ENUM | c::SET => 2,
        c::VAR_STRING | c::STRING | c::VARCHAR_COMPRESSED => 2,
        c::TINY..=c::NEWDATE => 0,
        _ => return None,
    })
}

/// The id and the table of a table map; an error for types that nobody here knows.
pub(super) fn table(data: &[u8]) -> Result<(u64, Table), String> {
    let raw = Raw::of(data).ok_or_else(|| "a table map that ends too early".to_owned())?;
    let mut metadata = raw.metadata;
    let mut columns = Vec::with_capacity(raw.kinds.len());
    for (at, &kind) in raw.kinds.iter().enumerate() {
        let bytes = metadata_bytes(kind).ok_or_else(|| format!("columns of type {kind}"))?;
        if metadata.len() < bytes {
            return Err("a table map that ends too early".to_owned());
        }
        let (mine, rest) = metadata.split_at(bytes);
        metadata = rest;
        let value = match *mine {
            [low] => u16::from(low),
            [low, high] => u16::from_le_bytes([low, high]),
            _ => 0,
        };
        columns.push(column(kind, value, bit(raw.nullable, at)));
    }
    describe(&mut columns, raw.told);
    let table = Table {
        database: String::from_utf8_lossy(raw.database).into_owned(),
        name: String::from_utf8_lossy(raw.name).into_owned(),
        columns,
    };
    Ok((raw.id, table))
}

fn column(kind: u8, metadata: u16, nullable: bool) -> Column {
    let hidden = u8::try_from(metadata & 0xFF).unwrap_or(0) | 0x30;
    let code = match kind {
        code::STRING if hidden == code::ENUM || hidden == code::SET => hidden,
        other => other,
    };
    Column {
        code,
        metadata,
        nullable,
        unsigned: None,
        name: None,
    }
}

/// Names and signs, where the server wrote them.
fn describe(columns: &mut [Column], told: &[u8]) {
    const SIGNS: u64 = 1;
    const NAMES: u64 = 4;
    let mut rest = Bytes(told);
    while let Some((kind, mut field)) = rest.field() {
        if kind == SIGNS {
            let numbers = columns.iter_mut().filter(|column| column.is_number());
            for (at, column) in numbers.enumerate() {
                // The first column has the highest bit.
                let bits = field.0.get(at / 8);
                column.unsigned = bits.map(|bits| bits << (at % 8) & 0x80 != 0);
            }
        } else if kind == NAMES {
            for column in columns.iter_mut() {
                let name = field.length().and_then(|n| usize::try_from(n).ok());
                let name = name.and_then(|bytes| field.take(bytes));
                column.name = name.map(|name| String::from_utf8_lossy(name).into_owned());
            }
        }
    }
}

/// The parts of a table map.
struct Raw<'a> {
    id: u64,
    database: &'a [u8],
    name: &'a [u8],
    kinds: &'a [u8],
    metadata: &'a [u8],
    nullable: &'a [u8],
    /// What `binlog_row_metadata` adds.
    told: &'a [u8],
}

impl Raw<'_> {
    fn of(data: &[u8]) -> Option<Raw<'_>> {
        let mut rest = Bytes(data);
        let id = rest.number(6)?;
        rest.take(2)?;
        let database = rest.named()?;
        let name = rest.named()?;
        let count = usize::try_from(rest.length()?).ok()?;
        let kinds = rest.take(count)?;
        let metadata = usize::try_from(rest.length()?).ok()?;
        let metadata = rest.take(metadata)?;
        let nullable = rest.take(count.div_ceil(8))?;
        Some(Raw {
            id,
            database,
            name,
            kinds,
            metadata,
            nullable,
            told: rest.0,
        })
    }
}

/// The bit of a bitmap whose first bit is the lowest.
pub(super) fn bit(map: &[u8], at: usize) -> bool {
    map.get(at / 8)
        .is_some_and(|byte| byte >> (at % 8) & 1 == 1)
}

/// Bytes that are read from the front.
#[derive(Clone, Copy)]
pub(super) struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        if self.0.len() < count {
            return None;
        }
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        Some(taken)
    }

    /// A little-endian number of up to 8 bytes.
    pub fn number(&mut self, bytes: usize) -> Option<u64> {
        let taken = self.take(bytes)?;
        let mut all = [0; 8];
        all.get_mut(..bytes)?.copy_from_slice(taken);
        Some(u64::from_le_bytes(all))
    }

    /// A big-endian number of up to 8 bytes.
    pub fn big(&mut self, bytes: usize) -> Option<u64> {
        let taken = self.take(bytes)?;
        Some(
            taken
                .iter()
                .fold(0, |all, &byte| all << 8 | u64::from(byte)),
        )
    }

    /// A length-encoded number.
    pub fn length(&mut self) -> Option<u64> {
        match self.number(1)? {
            0xFC => self.number(2),
            0xFD => self.number(3),
            0xFE => self.number(8),
            0xFB | 0xFF => None,
            small => Some(small),
        }
    }

    /// What stands behind its length of so many bytes.
    pub fn counted(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number(bytes)?).ok()?;
        self.take(length)
    }

    /// A number that says what follows, and that.
    fn field(&mut self) -> Option<(u64, Bytes<'a>)> {
        let kind = self.number(1)?;
        let length = usize::try_from(self.length()?).ok()?;
        Some((kind, Bytes(self.take(length)?)))
    }

    /// A name with its length in front and a zero behind it.
    fn named(&mut self) -> Option<&'a [u8]> {
        let name = self.counted(1)?;
        self.take(1)?;
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read() {
        let mut bytes = Bytes(&[5, 0xFC, 1, 1, 0xFD, 0, 0, 1, 0xFB]);
        assert_eq!(bytes.length(), Some(5));
        assert_eq!(bytes.length(), Some(257));
        assert_eq!(bytes.length(), Some(65_536));
        assert_eq!(bytes.length(), None);
        assert_eq!(Bytes(&[1, 2]).big(2), Some(258));
        assert_eq!(Bytes(&[3, b'a']).counted(1), None);
    }

    #[test]
    fn a_string_may_hide_an_enum() {
        assert_eq!(column(code::STRING, 0x01F7, true).code, code::ENUM);
        assert_eq!(column(code::STRING, 0x01F8, true).code, code::SET);
        assert_eq!(column(code::STRING, 0x0AFE, true).code, code::STRING);
    }
}
