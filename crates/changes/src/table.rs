//! Table maps: what the rows that follow are made of.

use farm::Engine;

/// Types of columns as table maps number them.
pub(crate) mod code {
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
    /// No codes of a server's: types that MariaDB logs as a STRING, where a definition tells them.
    pub const INET4: u8 = 200;
    pub const INET6: u8 = 201;
    pub const UUID: u8 = 202;
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
    pub(crate) code: u8,
    pub(crate) metadata: u16,
    pub nullable: bool,
    /// Whether an integer has no sign, where the server's `binlog_row_metadata` lets it be said.
    pub unsigned: Option<bool>,
    /// Where `binlog_row_metadata` is FULL, as all that follows.
    pub name: Option<String>,
    /// The number of a text's, an ENUM's or a SET's collation, by which its character set is known.
    pub collation: Option<u32>,
    /// The labels of an ENUM or a SET, in the character set of the column.
    pub members: Vec<Vec<u8>>,
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

    pub(crate) fn is_blob(&self) -> bool {
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
    /// The places of the primary key's columns, in the key's order; none where there is no such key, or the
    /// server does not say it.
    pub key: Vec<usize>,
}

impl Table {
    /// The log names all its columns.
    pub fn is_named(&self) -> bool {
        self.columns.iter().all(|column| column.name.is_some())
    }
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
pub(crate) fn table(data: &[u8], engine: Engine) -> Result<(u64, Table), String> {
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
    let key = describe(&mut columns, raw.told, engine);
    let table = Table {
        database: String::from_utf8_lossy(raw.database).into_owned(),
        name: String::from_utf8_lossy(raw.name).into_owned(),
        columns,
        key,
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
        collation: None,
        members: Vec::new(),
    }
}

/// The fields that `binlog_row_metadata` adds, as servers number them.
mod field {
    pub const SIGNS: u64 = 1;
    pub const COLLATION_OF_MOST: u64 = 2;
    pub const COLLATIONS: u64 = 3;
    pub const NAMES: u64 = 4;
    pub const SETS: u64 = 5;
    pub const ENUMS: u64 = 6;
    pub const KEY: u64 = 8;
    pub const KEY_OF_PREFIXES: u64 = 9;
    pub const COLLATION_OF_MOST_LABELS: u64 = 10;
    pub const COLLATIONS_OF_LABELS: u64 = 11;
}

/// Takes over what the server wrote of the columns; gives the places of the primary key's.
fn describe(columns: &mut [Column], told: &[u8], engine: Engine) -> Vec<usize> {
    let has_text = |column: &Column| {
        // MariaDB counts geometries among the texts.
        let is_geometry = column.code == code::GEOMETRY && engine == Engine::MariaDb;
        column.is_text() || is_geometry
    };
    let has_labels = |column: &Column| [code::ENUM, code::SET].contains(&column.code);
    // Servers count years among the numbers.
    let has_sign = |column: &Column| column.is_number() || column.code == code::YEAR;
    let mut key = Vec::new();
    let mut rest = Bytes(told);
    while let Some((kind, mut field)) = rest.field() {
        match kind {
            field::SIGNS => {
                let numbers = columns.iter_mut().filter(|column| has_sign(column));
                for (at, column) in numbers.enumerate() {
                    // The first column has the highest bit.
                    let bits = field.0.get(at / 8);
                    let unsigned = bits.map(|bits| bits << (at % 8) & 0x80 != 0);
                    column.unsigned = unsigned.filter(|_| column.is_number());
                }
            }
            field::NAMES => {
                for column in columns.iter_mut() {
                    let name = field.text();
                    column.name = name.map(|name| String::from_utf8_lossy(name).into_owned());
                }
            }
            field::COLLATION_OF_MOST => collate_most(columns, has_text, field),
            field::COLLATIONS => collate(columns, has_text, field),
            field::COLLATION_OF_MOST_LABELS => collate_most(columns, has_labels, field),
            field::COLLATIONS_OF_LABELS => collate(columns, has_labels, field),
            field::SETS => label(columns, code::SET, field),
            field::ENUMS => label(columns, code::ENUM, field),
            field::KEY | field::KEY_OF_PREFIXES => {
                while let Some(place) = field.length().and_then(|at| usize::try_from(at).ok()) {
                    key.push(place);
                    if kind == field::KEY_OF_PREFIXES {
                        field.length();
                    }
                }
            }
            _ => {}
        }
    }
    // A key that names what is not there is none.
    match key.iter().all(|&place| place < columns.len()) {
        true => key,
        false => Vec::new(),
    }
}

/// One collation for all of these columns but some, which stand behind it with their own.
fn collate_most(columns: &mut [Column], is_one: impl Fn(&Column) -> bool, mut field: Bytes<'_>) {
    let number = |field: &mut Bytes<'_>| field.length().and_then(|id| u32::try_from(id).ok());
    let most = number(&mut field);
    let mut ones: Vec<&mut Column> = columns.iter_mut().filter(|it| is_one(it)).collect();
    ones.iter_mut().for_each(|column| column.collation = most);
    while let Some(place) = field.length().and_then(|at| usize::try_from(at).ok()) {
        let own = number(&mut field);
        if let Some(column) = ones.get_mut(place) {
            column.collation = own;
        }
    }
}

fn collate(columns: &mut [Column], is_one: impl Fn(&Column) -> bool, mut field: Bytes<'_>) {
    for column in columns.iter_mut().filter(|column| is_one(column)) {
        column.collation = field.length().and_then(|id| u32::try_from(id).ok());
    }
}

fn label(columns: &mut [Column], of: u8, mut field: Bytes<'_>) {
    for column in columns.iter_mut().filter(|column| column.code == of) {
        let count = field.length().unwrap_or(0);
        let labels = (0..count).map_while(|_| field.text().map(<[u8]>::to_vec));
        column.members = labels.collect();
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
pub(crate) fn bit(map: &[u8], at: usize) -> bool {
    map.get(at / 8)
        .is_some_and(|byte| byte >> (at % 8) & 1 == 1)
}

/// Bytes that are read from the front.
#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a>(pub &'a [u8]);

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

    /// What stands behind its length-encoded length.
    pub fn text(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.length()?).ok()?;
        self.take(length)
    }

    /// A number that says what follows, and that.
    fn field(&mut self) -> Option<(u64, Bytes<'a>)> {
        let kind = self.number(1)?;
        Some((kind, Bytes(self.text()?)))
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
    fn columns_are_described() {
        let mut columns: Vec<Column> = [code::LONG, code::STRING, code::ENUM, code::BLOB]
            .into_iter()
            .map(|kind| column(kind, 0, true))
            .collect();
        let mut told = vec![4, 8, 1, b'i', 1, b's', 1, b'e', 1, b'b'];
        told.extend([2, 3, 45, 1, 63]);
        told.extend([6, 6, 2, 1, b'x', 2, b'y', b'z', 10, 1, 8, 8, 2, 1, 0]);
        let key = describe(&mut columns, &told, Engine::MySql);
        assert_eq!(key, [1, 0]);
        let collations: Vec<_> = columns.iter().map(|it| it.collation).collect();
        assert_eq!(collations, [None, Some(45), Some(8), Some(63)]);
        assert_eq!(columns[2].members, [b"x".to_vec(), b"yz".to_vec()]);
        assert_eq!(columns[3].name.as_deref(), Some("b"));
        let nowhere = describe(&mut columns, &[8, 1, 9], Engine::MySql);
        assert!(nowhere.is_empty());
    }

    #[test]
    fn years_have_a_sign_in_the_log() {
        let signs = |engine, bits: u8| {
            let mut columns = [code::YEAR, code::TINY].map(|kind| column(kind, 0, true));
            describe(&mut columns, &[1, 1, bits], engine);
            columns.map(|it| it.unsigned)
        };
        assert_eq!(signs(Engine::MariaDb, 0b1100_0000), [None, Some(true)]);
        assert_eq!(signs(Engine::MariaDb, 0b1000_0000), [None, Some(false)]);
        assert_eq!(signs(Engine::MySql, 0b1100_0000), [None, Some(true)]);
    }

    #[test]
    fn a_string_may_hide_an_enum() {
        assert_eq!(column(code::STRING, 0x01F7, true).code, code::ENUM);
        assert_eq!(column(code::STRING, 0x01F8, true).code, code::SET);
        assert_eq!(column(code::STRING, 0x0AFE, true).code, code::STRING);
    }
}
