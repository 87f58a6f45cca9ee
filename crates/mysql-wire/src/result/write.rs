//! Whole result sets, for answers that no server gave.

use super::{Column, ColumnCount, ColumnKind, encode_text_row};
use crate::capability::Capabilities;
use crate::packet;
use crate::reply::EofPacket;
use crate::status::Status;

/// Appends the packets before the first row: the count, the definitions, and without DEPRECATE_EOF
/// an EOF packet.
pub fn write_columns(
    out: &mut Vec<u8>,
    sequence: &mut u8,
    columns: &[Column<'_>],
    status: Status,
    caps: Capabilities,
) {
    let count = ColumnCount {
        columns: columns.len() as u64,
        defined: true,
    };
    packet::write_with(out, sequence, |out| count.encode(out, caps));
    for column in columns {
        packet::write_with(out, sequence, |out| column.encode(out, caps));
    }
    if !caps.contains(Capabilities::DEPRECATE_EOF) {
        let end = EofPacket {
            warnings: 0,
            status,
        };
        packet::write_with(out, sequence, |out| end.encode(out));
    }
}

/// Appends a whole text result set: columns by name and type, rows of as many values, None for
/// NULL. `sequence` is the number of the first packet, 1 after a command. There must be at least
/// one column.
pub fn write_text_result(
    out: &mut Vec<u8>,
    sequence: &mut u8,
    columns: &[(&str, ColumnKind)],
    rows: &[Vec<Option<Vec<u8>>>],
    status: Status,
    caps: Capabilities,
) {
    debug_assert!(!columns.is_empty(), "a count of 0 would be an OK packet");
    let columns: Vec<_> = columns
        .iter()
        .map(|(name, kind)| Column::new(name, *kind))
        .collect();
    write_columns(out, sequence, &columns, status, caps);
    for row in rows {
        debug_assert_eq!(
            row.len(),
            columns.len(),
            "a row has a value for each column"
        );
        let values: Vec<_> = row.iter().map(Option::as_deref).collect();
        packet::write_with(out, sequence, |out| encode_text_row(out, &values));
    }
    let end = EofPacket {
        warnings: 0,
        status,
    };
    packet::write_with(out, sequence, |out| end.encode_end_of_rows(out, caps));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{HEADER_BYTES, Header};
    use crate::reply;
    use crate::result::TextRow;

    /// Splits packets that start with sequence number 1.
    fn payloads(mut bytes: &[u8]) -> Vec<&[u8]> {
        let mut payloads = Vec::new();
        while let Some(header) = Header::parse(bytes) {
            assert_eq!(usize::from(header.sequence), payloads.len() + 1);
            let end = HEADER_BYTES + header.payload_bytes;
            payloads.push(&bytes[HEADER_BYTES..end]);
            bytes = &bytes[end..];
        }
        payloads
    }

    #[test]
    fn a_result_reads_back_in_both_forms() {
        let columns = [
            ("id", ColumnKind::LongLong),
            ("name", ColumnKind::VarString),
        ];
        let rows = vec![
            vec![Some(b"1".to_vec()), None],
            vec![Some(b"2".to_vec()), Some(vec![])],
        ];
        let deprecated = Capabilities::DEPRECATE_EOF | Capabilities::SESSION_TRACK;
        for (caps, rows_at) in [(Capabilities::empty(), 4), (deprecated, 3)] {
            let (mut out, mut sequence) = (Vec::new(), 1);
            write_text_result(
                &mut out,
                &mut sequence,
                &columns,
                &rows,
                Status::AUTOCOMMIT,
                caps,
            );
            let payloads = payloads(&out);
            assert_eq!(payloads.len(), rows_at + 3);
            assert_eq!(usize::from(sequence), payloads.len() + 1);
            assert_eq!(
                ColumnCount::decode(payloads[0], caps).map(|count| count.columns),
                Ok(2)
            );
            let name = Column::decode(payloads[2], caps).map(|column| column.name);
            assert_eq!(name, Ok(&b"name"[..]));
            let row: Result<Vec<_>, _> = TextRow::new(payloads[rows_at]).collect();
            assert_eq!(row, Ok(vec![Some(&b"1"[..]), None]));
            let end = payloads[rows_at + 2];
            assert!(reply::ends_rows(end, caps));
            let end = EofPacket::decode_end_of_rows(end, caps);
            assert_eq!(end.map(|end| end.status), Ok(Status::AUTOCOMMIT));
        }
    }
}
