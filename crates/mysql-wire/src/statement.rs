//! Prepared statements: the reply to COM_STMT_PREPARE, and the commands that carry a statement's
//! id. The commands are read and written without their command byte.

mod bulk;
mod execute;

pub use bulk::{BULK_TYPES, BULK_UNIT_RESULTS, BulkExecute, BulkValue};
pub use execute::{
    CURSOR_READ_ONLY, Execute, PARAMETERS_COUNTED, ParamKind, encode_execute, put_param_kind,
};

use crate::Malformed;
use crate::scalar::{Reader, put_u16, put_u32};

/// MariaDB: stands for the statement that this connection prepared last.
pub const LAST_PREPARED: u32 = u32::MAX;

/// The first packet of the reply to COM_STMT_PREPARE. Definitions of the parameters and then of
/// the columns follow, each list with an EOF packet behind it without DEPRECATE_EOF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrepareOk {
    /// The statement's id on this connection.
    pub statement_id: u32,
    /// Columns of its rows; 0 when it has none.
    pub columns: u16,
    /// How many `?` it has.
    pub params: u16,
    /// How many warnings SHOW WARNINGS would list.
    pub warnings: u16,
    /// Floating point numbers are among its columns that are printed with fewer digits than they
    /// have. The definitions say so, behind the packet.
    pub cuts_digits: bool,
}

impl PrepareOk {
    /// Reads the packet. The flag that MySQL adds under OPTIONAL_RESULTSET_METADATA is passed over:
    /// do not ask for that capability.
    pub fn decode(payload: &[u8]) -> Result<PrepareOk, Malformed> {
        let mut reader = Reader::new(payload);
        if reader.u8()? != 0 {
            return Err(Malformed::new("not the reply to a prepare"));
        }
        let statement_id = reader.u32()?;
        let columns = reader.u16()?;
        let params = reader.u16()?;
        reader.u8()?;
        let warnings = reader.u16()?;
        Ok(PrepareOk {
            statement_id,
            columns,
            params,
            warnings,
            cuts_digits: false,
        })
    }

    /// Appends the packet.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(0);
        put_u32(out, self.statement_id);
        put_u16(out, self.columns);
        put_u16(out, self.params);
        out.push(0);
        put_u16(out, self.warnings);
    }
}

/// The id that COM_STMT_EXECUTE, SEND_LONG_DATA, CLOSE, RESET, FETCH and BULK_EXECUTE start with.
pub fn decode_id(bytes: &[u8]) -> Result<u32, Malformed> {
    Reader::new(bytes).u32()
}

/// Puts another id in the place that [`decode_id`] reads; refuses fewer than 4 bytes.
pub fn replace_id(bytes: &mut [u8], statement_id: u32) -> Result<(), Malformed> {
    let Some(place) = bytes.first_chunk_mut() else {
        return Err(Malformed::new("a statement's command without its id"));
    };
    *place = statement_id.to_le_bytes();
    Ok(())
}

/// COM_STMT_SEND_LONG_DATA: a piece of a parameter, sent before the execution; it has no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongData<'a> {
    pub statement_id: u32,
    /// Which `?`, from 0.
    pub param: u16,
    /// Appended to what came before for the same parameter.
    pub data: &'a [u8],
}

impl<'a> LongData<'a> {
    /// Reads what follows the command byte.
    pub fn decode(bytes: &'a [u8]) -> Result<LongData<'a>, Malformed> {
        let mut reader = Reader::new(bytes);
        let statement_id = reader.u32()?;
        let param = reader.u16()?;
        Ok(LongData {
            statement_id,
            param,
            data: reader.rest(),
        })
    }

    /// Appends what follows the command byte.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_u32(out, self.statement_id);
        put_u16(out, self.param);
        out.extend_from_slice(self.data);
    }
}

/// COM_STMT_FETCH: asks for more rows of a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    pub statement_id: u32,
    /// At most this many.
    pub rows: u32,
}

impl Fetch {
    /// Reads what follows the command byte.
    pub fn decode(bytes: &[u8]) -> Result<Fetch, Malformed> {
        let mut reader = Reader::new(bytes);
        Ok(Fetch {
            statement_id: reader.u32()?,
            rows: reader.u32()?,
        })
    }

    /// Appends what follows the command byte.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_u32(out, self.statement_id);
        put_u32(out, self.rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reply_to_a_prepare_reads_back() {
        let ok = PrepareOk {
            statement_id: 9,
            columns: 300,
            params: 2,
            warnings: 1,
            cuts_digits: false,
        };
        let mut out = Vec::new();
        ok.encode(&mut out);
        assert_eq!(out.len(), 12);
        assert_eq!(PrepareOk::decode(&out), Ok(ok));
        assert!(PrepareOk::decode(&out[..11]).is_err());
        assert!(PrepareOk::decode(b"\xFF\0\0\0\0\0\0\0\0\0\0\0").is_err());
    }

    #[test]
    fn commands_with_an_id_read_back() {
        let long = LongData {
            statement_id: 1,
            param: 2,
            data: b"piece",
        };
        let mut out = Vec::new();
        long.encode(&mut out);
        assert_eq!(LongData::decode(&out), Ok(long));
        assert!(LongData::decode(&out[..5]).is_err());
        let fetch = Fetch {
            statement_id: 1,
            rows: 50,
        };
        out.clear();
        fetch.encode(&mut out);
        assert_eq!(Fetch::decode(&out), Ok(fetch));
        assert!(Fetch::decode(&out[..7]).is_err());
    }

    #[test]
    fn an_id_is_replaced_in_place() {
        let mut bytes = *b"\x01\0\0\0rest";
        assert_eq!(replace_id(&mut bytes, 0x0102_0304), Ok(()));
        assert_eq!(&bytes, b"\x04\x03\x02\x01rest");
        assert_eq!(decode_id(&bytes), Ok(0x0102_0304));
        assert!(replace_id(&mut bytes[..3], 1).is_err() && decode_id(&bytes[..3]).is_err());
    }
}
