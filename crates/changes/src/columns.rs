//! Columns as people name their types.

use crate::cell::{Cell, char_bytes};
use crate::charset::{Charset, charset_of};
use crate::fixed;
use crate::table::{Column, code};

impl Column {
    /// The character set of a text or of labels; `None` for other columns, and where the server does not say it.
    pub fn charset(&self) -> Option<Charset> {
        charset_of(self.collation?)
    }

    /// The type in the server's words, without its size: `varchar`, `blob`. What neither the
    /// log nor a definition tells apart is told as what it is stored as: JSON of MariaDB is `longtext`.
    pub fn type_name(&self) -> &'static str {
        let is_binary = self.charset() == Some(Charset::Binary);
        let either = |text, binary| if is_binary { binary } else { text };
        if let Some(name) = fixed::name_of(self.code) {
            return name;
        }
        match self.code {
            code::TINY => "tinyint",
            code::SHORT => "smallint",
            code::INT24 => "mediumint",
            code::LONG => "int",
            code::LONGLONG => "bigint",
            code::FLOAT => "float",
            code::DOUBLE => "double",
            code::DECIMAL => "decimal",
            code::DATE | code::NEWDATE => "date",
            code::TIME | code::TIME2 => "time",
            code::DATETIME | code::DATETIME2 => "datetime",
            code::TIMESTAMP | code::TIMESTAMP2 => "timestamp",
            code::YEAR => "year",
            code::BIT => "bit",
            code::ENUM => "enum",
            code::SET => "set",
            code::JSON => "json",
            code::GEOMETRY => "geometry",
            code::VECTOR => "vector",
            code::STRING => either("char", "binary"),
            code::VARCHAR | code::VAR_STRING | code::VARCHAR_COMPRESSED => {
                either("varchar", "varbinary")
            }
            _ => match self.metadata & 0xFF {
                1 => either("tinytext", "tinyblob"),
                2 => either("text", "blob"),
                3 => either("mediumtext", "mediumblob"),
                _ => either("longtext", "longblob"),
            },
        }
    }

    /// The type's sizes by their names: the digits of a DECIMAL in all and behind the point, those behind the point of a
    /// time, the bits of a BIT.
    pub fn sizes(&self) -> Vec<(&'static str, u16)> {
        let (low, high) = (self.metadata & 0xFF, self.metadata >> 8);
        match self.code {
            code::DECIMAL => vec![("precision", low), ("scale", high)],
            code::TIME2 | code::DATETIME2 | code::TIMESTAMP2 if low > 0 => vec![("fraction", low)],
            code::BIT => vec![("bits", high * 8 + low)],
            _ => Vec::new(),
        }
    }

    /// An integer without its sign, where the log says neither whether the column has one nor its name, and it makes a
    /// difference.
    pub(crate) fn other_reading(&self, cell: &Cell<'_>) -> Option<u64> {
        let Cell::Integer(number) = cell else {
            return None;
        };
        let mask = u64::MAX >> (64 - self.integer_bits());
        let is_open = *number < 0 && self.unsigned.is_none() && self.name.is_none();
        is_open.then_some(*number as u64 & mask)
    }

    /// The bytes that a BINARY has, whose zeros at the end MariaDB does not log; 0 for other columns.
    pub(crate) fn padded_bytes(&self) -> usize {
        let is_binary = self.charset() == Some(Charset::Binary);
        match self.code == code::STRING && is_binary {
            true => usize::from(char_bytes(self.metadata & 0xFF, self.metadata >> 8)),
            false => 0,
        }
    }
}
