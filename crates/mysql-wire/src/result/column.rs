//! The head of a result set: the number of columns, and a definition for each.

use crate::Malformed;
use crate::capability::Capabilities;
use crate::charset;
use crate::scalar::{Reader, put_lenenc_bytes, put_lenenc_int, put_u16, put_u32};
use crate::value::ValueKind;

/// The value is never NULL.
pub const FLAG_NOT_NULL: u16 = 1;
/// A number has no sign.
pub const FLAG_UNSIGNED: u16 = 1 << 5;
/// Bytes, not characters; set for numbers too.
pub const FLAG_BINARY: u16 = 1 << 7;
/// A number.
pub const FLAG_NUMBER: u16 = 1 << 15;

/// Every catalog has this name.
const CATALOG: &[u8] = b"def";
/// Bytes of the numbers behind the names, as the definition itself says.
const FIXED_BYTES: u64 = 12;

macro_rules! kinds {
    ($($(#[doc = $text:literal])* $name:ident = $byte:literal,)*) => {
        /// The type byte of columns and parameters.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum ColumnKind { $($(#[doc = $text])* $name = $byte,)* }

        impl TryFrom<u8> for ColumnKind {
            type Error = Malformed;

            fn try_from(byte: u8) -> Result<ColumnKind, Malformed> {
                match byte {
                    $($byte => Ok(ColumnKind::$name),)*
                    _ => Err(Malformed::new("an unknown type of column or parameter")),
                }
            }
        }
    };
}

kinds! {
    Decimal = 0,
    Tiny = 1,
    Short = 2,
    /// INT.
    Long = 3,
    Float = 4,
    Double = 5,
    Null = 6,
    Timestamp = 7,
    /// BIGINT.
    LongLong = 8,
    /// MEDIUMINT, in 4 bytes.
    Int24 = 9,
    Date = 10,
    Time = 11,
    DateTime = 12,
    Year = 13,
    NewDate = 14,
    VarChar = 15,
    Bit = 16,
    Timestamp2 = 17,
    DateTime2 = 18,
    Time2 = 19,
    /// MySQL 8, inside the server.
    TypedArray = 20,
    /// MySQL 9.
    Vector = 242,
    /// MySQL 8, inside the server.
    Invalid = 243,
    /// MySQL 8, inside the server.
    Bool = 244,
    /// MySQL; MariaDB's JSON is text.
    Json = 245,
    /// DECIMAL, as text.
    NewDecimal = 246,
    Enum = 247,
    Set = 248,
    TinyBlob = 249,
    MediumBlob = 250,
    LongBlob = 251,
    Blob = 252,
    VarString = 253,
    String = 254,
    Geometry = 255,
}

impl ColumnKind {
    /// Whether the type is a number in every form of the protocol.
    pub const fn is_number(self) -> bool {
        use ColumnKind::{
            Decimal, Double, Float, Int24, Long, LongLong, NewDecimal, Short, Tiny, Year,
        };
        matches!(
            self,
            Decimal | Double | Float | Int24 | Long | LongLong | NewDecimal | Short | Tiny | Year
        )
    }
}

/// The first packet of a result set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnCount {
    /// How many values each row has.
    pub columns: u64,
    /// Whether the definitions follow; without MARIADB_CACHE_METADATA and
    /// OPTIONAL_RESULTSET_METADATA they always do.
    pub defined: bool,
}

/// The capabilities under which a server may leave definitions out.
const OPTIONAL: Capabilities =
    Capabilities::MARIADB_CACHE_METADATA.union(Capabilities::OPTIONAL_RESULTSET_METADATA);

impl ColumnCount {
    /// Reads the packet. It must not be an OK, an ERR or a request for a file; their first bytes
    /// are refused.
    pub fn decode(payload: &[u8], caps: Capabilities) -> Result<ColumnCount, Malformed> {
        let mut reader = Reader::new(payload);
        let columns = reader.lenenc_int()?;
        if columns == 0 {
            return Err(Malformed::new("a result set without columns"));
        }
        let says = caps.intersects(OPTIONAL) && !reader.is_empty();
        let defined = if says { reader.u8()? != 0 } else { true };
        Ok(ColumnCount { columns, defined })
    }

    /// Appends the packet.
    pub fn encode(&self, out: &mut Vec<u8>, caps: Capabilities) {
        put_lenenc_int(out, self.columns);
        if caps.intersects(OPTIONAL) {
            out.push(u8::from(self.defined));
        }
    }
}

/// From so many digits behind the point on they are as many as a number has.
const DECIMALS_VARY: u8 = 31;

/// The definition of one column, or of one parameter of a prepared statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column<'a> {
    pub schema: &'a [u8],
    /// The table's alias in the statement.
    pub table: &'a [u8],
    /// The table itself; empty for expressions.
    pub org_table: &'a [u8],
    /// The column's alias in the statement.
    pub name: &'a [u8],
    /// The column itself; empty for expressions.
    pub org_name: &'a [u8],
    /// Names of types and formats, as they travel; only with MARIADB_EXTENDED_METADATA.
    pub extended: &'a [u8],
    /// The collation of the values as the client gets them; 63 for bytes and numbers.
    pub collation: u16,
    /// The most bytes that a value can have as text.
    pub length: u32,
    pub kind: ColumnKind,
    /// See [`FLAG_NOT_NULL`] and the others.
    pub flags: u16,
    /// Digits behind the point; 31 when they vary.
    pub decimals: u8,
    /// The default value as in a text row; only in the reply to COM_FIELD_LIST, else empty.
    pub default: &'a [u8],
}

impl<'a> Column<'a> {
    /// A column that belongs to no table, for answers that no server gave. Text is utf8mb4.
    pub fn new(name: &'a str, kind: ColumnKind) -> Column<'a> {
        let is_number = kind.is_number();
        let (collation, length) = if is_number {
            (charset::BINARY, 20)
        } else {
            (charset::UTF8MB4, 1024)
        };
        Column {
            schema: b"",
            table: b"",
            org_table: b"",
            name: name.as_bytes(),
            org_name: b"",
            extended: b"",
            collation,
            length,
            kind,
            flags: if is_number {
                FLAG_BINARY | FLAG_NUMBER
            } else {
                0
            },
            decimals: 0,
            default: b"",
        }
    }

    /// How the column's values lie in binary rows.
    pub fn value_kind(&self) -> ValueKind {
        ValueKind {
            column: self.kind,
            unsigned: self.flags & FLAG_UNSIGNED != 0,
        }
    }

    /// Text rows have fewer digits of its values than binary ones: a FLOAT, or a DOUBLE with a fixed
    /// number of digits behind the point.
    pub fn cuts_digits(&self) -> bool {
        match self.kind {
            ColumnKind::Float => true,
            ColumnKind::Double => self.decimals < DECIMALS_VARY,
            _ => false,
        }
    }

    /// Reads a definition, under the capabilities of the connection.
    pub fn decode(payload: &'a [u8], caps: Capabilities) -> Result<Column<'a>, Malformed> {
        let mut reader = Reader::new(payload);
        reader.lenenc_bytes()?;
        let schema = reader.lenenc_bytes()?;
        let table = reader.lenenc_bytes()?;
        let org_table = reader.lenenc_bytes()?;
        let name = reader.lenenc_bytes()?;
        let org_name = reader.lenenc_bytes()?;
        let mut extended = &[][..];
        if caps.contains(Capabilities::MARIADB_EXTENDED_METADATA) {
            extended = reader.lenenc_bytes()?;
        }
        if reader.lenenc_int()? != FIXED_BYTES {
            return Err(Malformed::new("a column definition of another length"));
        }
        let collation = reader.u16()?;
        let length = reader.u32()?;
        let kind = ColumnKind::try_from(reader.u8()?)?;
        let flags = reader.u16()?;
        let decimals = reader.u8()?;
        reader.u16()?;
        let default = reader.rest();
        Ok(Column {
            schema,
            table,
            org_table,
            name,
            org_name,
            extended,
            collation,
            length,
            kind,
            flags,
            decimals,
            default,
        })
    }

    /// Appends the definition.
    pub fn encode(&self, out: &mut Vec<u8>, caps: Capabilities) {
        let names = [
            CATALOG,
            self.schema,
            self.table,
            self.org_table,
            self.name,
            self.org_name,
        ];
        for name in names {
            put_lenenc_bytes(out, name);
        }
        if caps.contains(Capabilities::MARIADB_EXTENDED_METADATA) {
            put_lenenc_bytes(out, self.extended);
        }
        put_lenenc_int(out, FIXED_BYTES);
        put_u16(out, self.collation);
        put_u32(out, self.length);
        out.push(self.kind as u8);
        put_u16(out, self.flags);
        out.push(self.decimals);
        put_u16(out, 0);
        out.extend_from_slice(self.default);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_reads_back_with_all_it_can_have() {
        let column = Column {
            schema: b"shop",
            table: b"o",
            org_table: b"orders",
            name: b"n",
            org_name: b"number",
            extended: b"\x01\x04json",
            flags: FLAG_NOT_NULL | FLAG_UNSIGNED,
            decimals: 31,
            default: b"\x0242",
            ..Column::new("n", ColumnKind::Long)
        };
        assert!(column.value_kind().unsigned);
        let caps = Capabilities::MARIADB_EXTENDED_METADATA;
        let mut out = Vec::new();
        column.encode(&mut out, caps);
        assert_eq!(Column::decode(&out, caps), Ok(column.clone()));
        out.clear();
        column.encode(&mut out, Capabilities::empty());
        let plain = Column {
            extended: b"",
            ..column
        };
        assert_eq!(Column::decode(&out, Capabilities::empty()), Ok(plain));
    }

    #[test]
    fn a_definition_cut_short_is_malformed() {
        let mut out = Vec::new();
        Column::new("name", ColumnKind::VarString).encode(&mut out, Capabilities::empty());
        for end in 0..out.len() {
            assert!(
                Column::decode(&out[..end], Capabilities::empty()).is_err(),
                "{end}"
            );
        }
    }

    #[test]
    fn the_count_says_whether_definitions_follow() {
        let caps = Capabilities::MARIADB_CACHE_METADATA;
        for defined in [true, false] {
            let count = ColumnCount {
                columns: 300,
                defined,
            };
            let mut out = Vec::new();
            count.encode(&mut out, caps);
            assert_eq!(ColumnCount::decode(&out, caps), Ok(count));
        }
        let count = ColumnCount::decode(&[2], Capabilities::empty());
        assert_eq!(
            count,
            Ok(ColumnCount {
                columns: 2,
                defined: true
            })
        );
        for other in [0x00, 0xFB, 0xFF] {
            assert!(ColumnCount::decode(&[other], Capabilities::empty()).is_err());
        }
    }

    #[test]
    fn every_kind_is_its_byte() {
        let known: Vec<_> = (0..=255)
            .filter_map(|byte| ColumnKind::try_from(byte).ok())
            .collect();
        assert_eq!(known.len(), 35);
        assert!(
            known
                .iter()
                .all(|kind| ColumnKind::try_from(*kind as u8) == Ok(*kind))
        );
        assert_eq!(ColumnKind::VarString as u8, 0xFD);
        assert!(ColumnKind::LongLong.is_number() && !ColumnKind::Date.is_number());
    }
}
