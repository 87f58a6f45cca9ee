//! Rows: as text, answering COM_QUERY, or in binary form, answering COM_STMT_EXECUTE.

use crate::Malformed;
use crate::scalar::{Reader, put_lenenc_bytes};
use crate::value::{Value, ValueKind, is_null, null_bitmap_bytes, put_null_bitmap};

/// Stands for NULL in a text row.
const NULL: u8 = 0xFB;
/// First byte of a binary row.
const BINARY: u8 = 0x00;
/// The bitmap of a binary row starts with two unused flags.
const BITMAP_OFFSET: usize = 2;

/// The values of a text row, one after the other. Ends at the first error. How many there are the
/// row does not say: it must be as many as there are columns.
#[derive(Clone, Debug)]
pub struct TextRow<'a> {
    reader: Reader<'a>,
}

impl<'a> TextRow<'a> {
    /// Walks through a payload that is a text row.
    pub fn new(payload: &'a [u8]) -> TextRow<'a> {
        TextRow {
            reader: Reader::new(payload),
        }
    }
}

impl<'a> Iterator for TextRow<'a> {
    type Item = Result<Option<&'a [u8]>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.peek()? == NULL {
            return Some(self.reader.u8().map(|_| None));
        }
        let value = self.reader.lenenc_bytes();
        if value.is_err() {
            self.reader.rest();
        }
        Some(value.map(Some))
    }
}

/// Appends a text row; None is NULL.
pub fn encode_text_row(out: &mut Vec<u8>, values: &[Option<&[u8]>]) {
    for value in values {
        match value {
            Some(bytes) => put_lenenc_bytes(out, bytes),
            None => out.push(NULL),
        }
    }
}

/// Whether a payload among the rows of an execution is a row and not their end.
pub fn is_binary_row(payload: &[u8]) -> bool {
    payload.first() == Some(&BINARY)
}

/// Reads a binary row of columns of these kinds.
pub fn decode_binary_row<'a>(
    payload: &'a [u8],
    kinds: &[ValueKind],
) -> Result<Vec<Value<'a>>, Malformed> {
    let mut reader = Reader::new(payload);
    if reader.u8()? != BINARY {
        return Err(Malformed::new("not a binary row"));
    }
    let bitmap = reader.bytes(null_bitmap_bytes(kinds.len(), BITMAP_OFFSET))?;
    let mut values = Vec::with_capacity(kinds.len());
    for (at, kind) in kinds.iter().enumerate() {
        values.push(match is_null(bitmap, at, BITMAP_OFFSET) {
            true => Value::Null,
            false => Value::read(&mut reader, *kind)?,
        });
    }
    if !reader.is_empty() {
        return Err(Malformed::new("a binary row longer than its columns"));
    }
    Ok(values)
}

/// Appends a binary row, each value as its column's kind. Refuses values that do not fit their
/// kind, and a number of values other than that of kinds; `out` is then as before.
pub fn encode_binary_row(
    out: &mut Vec<u8>,
    kinds: &[ValueKind],
    values: &[Value<'_>],
) -> Result<(), Malformed> {
    if kinds.len() != values.len() {
        return Err(Malformed::new(
            "a binary row of another length than its columns",
        ));
    }
    let start = out.len();
    out.push(BINARY);
    put_null_bitmap(out, values, BITMAP_OFFSET);
    let written = values
        .iter()
        .zip(kinds)
        .try_for_each(|(value, kind)| value.write(out, *kind));
    if written.is_err() {
        out.truncate(start);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::ColumnKind;

    #[test]
    fn text_rows_read_back_with_nulls_and_empty_strings() {
        let long = [b'x'; 300];
        let row = [Some(&b"1"[..]), None, Some(b""), Some(&long)];
        let mut out = Vec::new();
        encode_text_row(&mut out, &row);
        let read: Result<Vec<_>, _> = TextRow::new(&out).collect();
        assert_eq!(read, Ok(row.to_vec()));
        out.pop();
        let torn: Vec<_> = TextRow::new(&out).collect();
        assert_eq!(torn.len(), 4);
        assert!(torn[3].is_err());
    }

    #[test]
    fn binary_rows_read_back() {
        let kind = |column| ValueKind {
            column,
            unsigned: false,
        };
        let kinds = [
            ColumnKind::Long,
            ColumnKind::VarString,
            ColumnKind::Double,
            ColumnKind::Null,
        ];
        let kinds = kinds.map(kind);
        let values = [Value::Int(-5), Value::Null, Value::Double(0.5), Value::Null];
        let mut out = Vec::new();
        assert_eq!(encode_binary_row(&mut out, &kinds, &values), Ok(()));
        assert_eq!(out[..2], [0, 0b10_1000]);
        assert!(is_binary_row(&out));
        assert_eq!(decode_binary_row(&out, &kinds), Ok(values.to_vec()));
        assert!(decode_binary_row(&out, &kinds[..2]).is_err());
        assert!(decode_binary_row(&out[..5], &kinds).is_err());
        assert!(decode_binary_row(&[0xFE, 0, 0, 2, 0], &kinds).is_err());
    }

    #[test]
    fn a_row_that_does_not_fit_leaves_the_buffer_alone() {
        let kinds = [ValueKind {
            column: ColumnKind::Tiny,
            unsigned: true,
        }];
        let mut out = b"before".to_vec();
        assert!(encode_binary_row(&mut out, &kinds, &[Value::Int(-1)]).is_err());
        assert!(encode_binary_row(&mut out, &kinds, &[]).is_err());
        assert_eq!(out, b"before");
    }
}
