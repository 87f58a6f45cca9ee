//! COM_STMT_BULK_EXECUTE: one statement, many rows of parameters (MariaDB).
//!
//! Source: MariaDB knowledge base, «COM_STMT_BULK_EXECUTE».

use crate::Malformed;
use crate::scalar::{Reader, put_u16, put_u32};
use crate::value::{Value, ValueKind};

/// Flag: the types of the parameters are here.
pub const BULK_TYPES: u16 = 128;
/// Flag: the reply is a result set that tells what each row did.
pub const BULK_UNIT_RESULTS: u16 = 64;

/// A bulk execution. The rows stay undecoded, so that it can be passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkExecute<'a> {
    pub statement_id: u32,
    /// [`BULK_TYPES`], [`BULK_UNIT_RESULTS`]; other bits are kept.
    pub flags: u16,
    /// Two bytes for each parameter, as in [`Execute::types`](super::Execute::types); empty without
    /// [`BULK_TYPES`], when those of the last execution hold.
    pub types: &'a [u8],
    /// For each row and parameter an indicator, and the value where that says so.
    pub rows: &'a [u8],
}

/// A parameter of one row.
#[derive(Clone, Debug, PartialEq)]
pub enum BulkValue<'a> {
    Value(Value<'a>),
    /// The column's default.
    Default,
    /// The column is as if it were not named.
    Ignore,
}

impl<'a> BulkExecute<'a> {
    /// The values of all rows, one row behind the other, by the types of the parameters.
    pub fn decode_rows(&self, kinds: &[ValueKind]) -> Result<Vec<BulkValue<'a>>, Malformed> {
        let mut reader = Reader::new(self.rows);
        let mut values = Vec::new();
        while !reader.is_empty() && !kinds.is_empty() {
            for kind in kinds {
                values.push(match reader.u8()? {
                    0 => BulkValue::Value(Value::read(&mut reader, *kind)?),
                    1 => BulkValue::Value(Value::Null),
                    2 => BulkValue::Default,
                    3 => BulkValue::Ignore,
                    _ => return Err(Malformed::new("a row with an unknown indicator")),
                });
            }
        }
        Ok(values)
    }

    /// Reads what follows the command byte. `params` is what [`PrepareOk`](super::PrepareOk) said.
    pub fn decode(bytes: &'a [u8], params: u16) -> Result<BulkExecute<'a>, Malformed> {
        let mut reader = Reader::new(bytes);
        let statement_id = reader.u32()?;
        let flags = reader.u16()?;
        let types = match flags & BULK_TYPES {
            0 => &[],
            _ => reader.bytes(usize::from(params) * 2)?,
        };
        let rows = reader.rest();
        Ok(BulkExecute {
            statement_id,
            flags,
            types,
            rows,
        })
    }

    /// Appends what follows the command byte. The flag of the types follows the types.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let typed = if self.types.is_empty() { 0 } else { BULK_TYPES };
        put_u32(out, self.statement_id);
        put_u16(out, self.flags & !BULK_TYPES | typed);
        out.extend_from_slice(self.types);
        out.extend_from_slice(self.rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::ColumnKind;

    #[test]
    fn types_are_read_put_in_and_left_out() {
        let typed = BulkExecute {
            statement_id: 7,
            flags: BULK_TYPES | BULK_UNIT_RESULTS,
            types: &[3, 0, 253, 0],
            rows: b"\0\x01\0\0\0\0\x01a\x01\x01",
        };
        let mut out = Vec::new();
        typed.encode(&mut out);
        assert_eq!(BulkExecute::decode(&out, 2), Ok(typed));
        let kind = |column| ValueKind {
            column,
            unsigned: false,
        };
        let kinds = [kind(ColumnKind::Long), kind(ColumnKind::VarString)];
        let values = [
            BulkValue::Value(Value::Int(1)),
            BulkValue::Value(Value::Bytes(b"a")),
            BulkValue::Value(Value::Null),
            BulkValue::Value(Value::Null),
        ];
        assert_eq!(typed.decode_rows(&kinds), Ok(values.to_vec()));
        let cut = BulkExecute {
            rows: &typed.rows[..4],
            ..typed
        };
        assert!(cut.decode_rows(&kinds).is_err());
        let bare = BulkExecute {
            flags: BULK_UNIT_RESULTS,
            types: &[],
            ..typed
        };
        let mut out = Vec::new();
        BulkExecute {
            flags: typed.flags,
            ..bare
        }
        .encode(&mut out);
        assert_eq!(BulkExecute::decode(&out, 2), Ok(bare));
        assert!(BulkExecute::decode(&out[..5], 2).is_err());
        let cut = [7, 0, 0, 0, 128, 0, 3, 0, 253];
        assert!(BulkExecute::decode(&cut, 2).is_err());
    }
}
