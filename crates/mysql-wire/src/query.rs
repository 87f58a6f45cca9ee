//! COM_QUERY on a connection with QUERY_ATTRIBUTES (MySQL 8.0.23): attributes stand before the text.
//!
//! Source: MySQL internals, «COM_QUERY».

use crate::Malformed;
use crate::result::{ColumnKind, Value, ValueKind};
use crate::scalar::Reader;
use crate::value::{is_null, null_bitmap_bytes};

/// What stands before a text that has no attributes: none of them, in one set.
pub const NO_ATTRIBUTES: [u8; 2] = [0, 1];

/// The bit of the second type byte that takes the sign away.
const UNSIGNED: u8 = 0x80;

/// A text and its attributes as they travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<'a> {
    /// Number, types, names and values; [`NO_ATTRIBUTES`] when there are none.
    pub attributes: &'a [u8],
    pub text: &'a [u8],
}

impl<'a> Query<'a> {
    /// Reads what follows the command byte.
    pub fn decode(bytes: &'a [u8]) -> Result<Query<'a>, Malformed> {
        let mut reader = Reader::new(bytes);
        let count = reader.lenenc_int()?;
        if reader.lenenc_int()? != 1 {
            return Err(Malformed::new("not one set of query attributes"));
        }
        if count > 0 {
            let count = u16::try_from(count)
                .map_err(|_| Malformed::new("more query attributes than parameters can be"))?;
            skip_attributes(&mut reader, count.into())?;
        }
        let (attributes, text) = bytes.split_at(bytes.len() - reader.remaining());
        Ok(Query { attributes, text })
    }

    /// Appends what follows the command byte.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.attributes);
        out.extend_from_slice(self.text);
    }
}

/// The names and values of the attributes that are texts, as [`Query::attributes`] has them. None where they cannot be
/// read.
pub fn text_attributes(attributes: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut found = Vec::new();
    let mut reader = Reader::new(attributes);
    let mut read = || {
        let count = usize::try_from(reader.lenenc_int()?);
        let _sets = reader.lenenc_int()?;
        walk_attributes(&mut reader, count.unwrap_or(0), |name, value| {
            if let Value::Bytes(text) = value {
                found.push((name, text));
            }
        })
    };
    match read() {
        Ok(()) => found,
        Err(_) => Vec::new(),
    }
}

fn skip_attributes(reader: &mut Reader<'_>, count: usize) -> Result<(), Malformed> {
    walk_attributes(reader, count, |_, _| {})
}

/// Reads so many attributes, and tells the name and the value of each that is not NULL.
fn walk_attributes<'a>(
    reader: &mut Reader<'a>,
    count: usize,
    mut tell: impl FnMut(&'a [u8], Value<'a>),
) -> Result<(), Malformed> {
    if count == 0 {
        return Ok(());
    }
    let nulls = reader.bytes(null_bitmap_bytes(count, 0))?;
    if reader.u8()? != 1 {
        return Err(Malformed::new("query attributes without their types"));
    }
    let mut kinds = Vec::new();
    for _ in 0..count {
        let column = ColumnKind::try_from(reader.u8()?)?;
        let unsigned = reader.u8()? & UNSIGNED != 0;
        let name = reader.lenenc_bytes()?;
        kinds.push((name, ValueKind { column, unsigned }));
    }
    for (at, (name, kind)) in kinds.into_iter().enumerate() {
        if !is_null(nulls, at, 0) {
            tell(name, Value::read(reader, kind)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_attributes_has_two_bytes_before_it() {
        let query = Query::decode(b"\0\x01SELECT 1").expect("a query");
        assert_eq!(
            (query.attributes, query.text),
            (&NO_ATTRIBUTES[..], &b"SELECT 1"[..])
        );
        assert_eq!(Query::decode(b"\0\x01").map(|q| q.text), Ok(&b""[..]));
        assert!(Query::decode(b"SELECT 1").is_err());
        assert!(Query::decode(b"\0\x02SELECT 1").is_err());
        assert!(Query::decode(b"\0").is_err());
    }

    #[test]
    fn attributes_end_where_the_text_begins() {
        // «n» = 7 as a LONG, «s» = "ab" as a string, «z» is NULL.
        let bytes = b"\x03\x01\x04\x01\x03\0\x01n\xFE\0\x01s\x06\0\x01z\x07\0\0\0\x02abSELECT 1";
        let query = Query::decode(bytes).expect("a query");
        assert_eq!(query.text, b"SELECT 1");
        let mut out = Vec::new();
        query.encode(&mut out);
        assert_eq!(out, bytes);
        for cut in 0..bytes.len() - b"SELECT 1".len() {
            assert!(Query::decode(&bytes[..cut]).is_err(), "{cut}");
        }
        let texts = text_attributes(query.attributes);
        assert_eq!(texts, [(&b"s"[..], &b"ab"[..])]);
        for none in [&NO_ATTRIBUTES[..], b"", b"\x01\x01"] {
            assert!(text_attributes(none).is_empty(), "{none:?}");
        }
    }
}
