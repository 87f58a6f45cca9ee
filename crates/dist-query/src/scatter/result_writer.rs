//! The client's result while it is written: definitions, rows, their end. Rows come as text rows and
//! leave as what the client's command asks for.

use mysql_wire::Malformed;
use mysql_wire::capability::Capabilities;
use mysql_wire::packet;
use mysql_wire::reply::{EofPacket, OkPacket};
use mysql_wire::result::{
    Column, ColumnCount, FLAG_UNSIGNED, TextRow, Value, ValueKind, encode_binary_row,
    encode_text_row,
};
use mysql_wire::status::Status;

/// How the client wants its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// COM_QUERY.
    Text,
    /// COM_STMT_EXECUTE.
    Binary,
}

/// What is to be sent next.
pub(crate) struct ResultWriter {
    pub out: Vec<u8>,
    /// The number of the next packet.
    pub sequence: u8,
    form: Form,
    /// The client's.
    capabilities: Capabilities,
    kinds: Vec<ValueKind>,
    /// Rows so far.
    pub rows: u64,
    /// The client's result has begun, or the client was asked for its file.
    pub begun: bool,
    /// Branches of Heddle's own are left out.
    hides: bool,
    described: Described,
}

/// Definitions of the columns of the client's own text; none where they are not known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Described {
    pub columns: Vec<Box<[u8]>>,
    /// By which they are read.
    pub from: Capabilities,
}

impl Described {
    /// The definitions as they are for the client's text: its names and tables, and all else where the
    /// values have the same type.
    fn complete<'a>(&'a self, columns: &mut [Column<'a>]) -> Result<(), Malformed> {
        if columns.len() != self.columns.len() {
            return Ok(());
        }
        for (column, described) in columns.iter_mut().zip(&self.columns) {
            let own = Column::decode(described, self.from)?;
            let same = own.kind == column.kind
                && own.decimals == column.decimals
                && own.collation == column.collation
                && (own.flags ^ column.flags) & FLAG_UNSIGNED == 0;
            *column = match same {
                true => own,
                false => Column {
                    collation: column.collation,
                    length: column.length,
                    kind: column.kind,
                    flags: column.flags,
                    decimals: column.decimals,
                    extended: column.extended,
                    ..own
                },
            };
        }
        Ok(())
    }
}

impl ResultWriter {
    /// Before the first packet of the reply.
    pub fn new(form: Form, capabilities: Capabilities) -> ResultWriter {
        ResultWriter {
            out: Vec::new(),
            sequence: 1,
            form,
            capabilities,
            kinds: Vec::new(),
            rows: 0,
            begun: false,
            hides: false,
            described: Described::default(),
        }
    }

    /// Columns are defined as these say, where they can be.
    pub fn describe(&mut self, described: Described) {
        self.described = described;
    }

    /// Leaves out rows of XA RECOVER that are branches of Heddle's own.
    pub fn hide_branches(&mut self) {
        self.hides = true;
    }

    fn is_hidden(&self, row: &[u8]) -> bool {
        let mut first = TextRow::new(row);
        let format = farm::dist_txn::FORMAT.to_string();
        self.hides && matches!(first.next(), Some(Ok(Some(text))) if text == format.as_bytes())
    }

    /// Writes the count and the definitions, which were read by `from`. Begins another result where one has ended.
    pub fn begin(
        &mut self,
        columns: &[Box<[u8]>],
        from: Capabilities,
        status: Status,
    ) -> Result<(), Malformed> {
        let columns: Result<Vec<Column<'_>>, Malformed> =
            columns.iter().map(|column| Column::decode(column, from)).collect();
        let mut columns = columns?;
        self.described.complete(&mut columns)?;
        let (caps, sequence) = (self.capabilities, &mut self.sequence);
        let count = ColumnCount {
            columns: columns.len() as u64,
            defined: true,
        };
        packet::write_with(&mut self.out, sequence, |out| count.encode(out, caps));
        for column in &columns {
            packet::write_with(&mut self.out, sequence, |out| column.encode(out, caps));
        }
        if !caps.contains(Capabilities::DEPRECATE_EOF) {
            let end = EofPacket {
                warnings: 0,
                status,
            };
            packet::write_with(&mut self.out, sequence, |out| end.encode(out));
        }
        self.kinds = columns.iter().map(Column::value_kind).collect();
        self.begun = true;
        Ok(())
    }

    /// Columns that the client sees.
    pub fn columns(&self) -> usize {
        self.kinds.len()
    }

    /// Writes a server's text row, of which the client sees the first columns.
    pub fn text_row(&mut self, row: &[u8], whole: bool) -> Result<(), Malformed> {
        if self.hides && self.is_hidden(row) {
            return Ok(());
        }
        if whole && self.form == Form::Text {
            self.rows += 1;
            packet::write_with(&mut self.out, &mut self.sequence, |out| {
                out.extend_from_slice(row);
            });
            return Ok(());
        }
        let values: Result<Vec<Option<&[u8]>>, Malformed> =
            TextRow::new(row).take(self.kinds.len()).collect();
        self.row(&values?)
    }

    /// Writes a row of as many values as there are columns.
    pub fn row(&mut self, values: &[Option<&[u8]>]) -> Result<(), Malformed> {
        if values.len() != self.kinds.len() {
            return Err(Malformed {
                what: "a row of another length than its columns",
            });
        }
        self.rows += 1;
        if self.form == Form::Text {
            packet::write_with(&mut self.out, &mut self.sequence, |out| {
                encode_text_row(out, values);
            });
            return Ok(());
        }
        let values: Result<Vec<Value<'_>>, Malformed> = values
            .iter()
            .zip(&self.kinds)
            .map(|(value, kind)| match value {
                Some(text) => Value::from_text(text, *kind),
                None => Ok(Value::Null),
            })
            .collect();
        let (values, mut row) = (values?, Vec::new());
        encode_binary_row(&mut row, &self.kinds, &values)?;
        packet::write(&mut self.out, &mut self.sequence, &row);
        Ok(())
    }

    /// Writes a result without rows.
    pub fn ok(&mut self, ok: &OkPacket<'_>) {
        let caps = self.capabilities;
        packet::write_with(&mut self.out, &mut self.sequence, |out| ok.encode(out, caps));
    }

    /// Ends the rows.
    pub fn end(&mut self, status: Status, warnings: u16) {
        let (caps, end) = (self.capabilities, EofPacket { warnings, status });
        packet::write_with(&mut self.out, &mut self.sequence, |out| {
            end.encode_end_of_rows(out, caps);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mysql_wire::packet::{HEADER_BYTES, Header};
    use mysql_wire::result::{ColumnKind, decode_binary_row};

    fn definition(name: &str, kind: ColumnKind) -> Box<[u8]> {
        let mut out = Vec::new();
        Column::new(name, kind).encode(&mut out, Capabilities::empty());
        out.into()
    }

    /// The payloads; the first has number 1.
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
    fn rows_leave_in_the_form_that_was_asked_for() {
        let columns = [
            definition("id", ColumnKind::LongLong),
            definition("name", ColumnKind::VarString),
        ];
        let mut row = Vec::new();
        encode_text_row(&mut row, &[Some(b"7"), None, Some(b"hidden")]);
        let caps = Capabilities::empty();
        for form in [Form::Text, Form::Binary] {
            let mut result_writer = ResultWriter::new(form, caps);
            result_writer.begin(&columns, caps, Status::AUTOCOMMIT).expect("definitions");
            result_writer.text_row(&row, false).expect("a row");
            result_writer.end(Status::AUTOCOMMIT, 3);
            let payloads = payloads(&result_writer.out);
            assert_eq!(payloads.len(), 6, "count, two columns, EOF, row, EOF");
            assert_eq!(payloads[5], [0xFE, 3, 0, 2, 0]);
            match form {
                Form::Text => assert_eq!(payloads[4], b"\x017\xFB"),
                Form::Binary => {
                    let values = decode_binary_row(payloads[4], &result_writer.kinds);
                    assert_eq!(values, Ok(vec![Value::Int(7), Value::Null]));
                }
            }
        }
    }

    #[test]
    fn columns_are_those_of_the_clients_text() {
        let caps = Capabilities::empty();
        let here = [
            definition("_heddle 0", ColumnKind::LongLong),
            definition("d", ColumnKind::Double),
        ];
        let own = |name, kind| {
            let mut column = Column::new(name, kind);
            (column.length, column.org_table) = (43, b"orders");
            let mut out = Vec::new();
            column.encode(&mut out, caps);
            Box::from(out)
        };
        let mut result_writer = ResultWriter::new(Form::Text, caps);
        result_writer.describe(Described {
            columns: vec![
                own("n", ColumnKind::LongLong),
                own("x", ColumnKind::VarString),
            ],
            from: caps,
        });
        result_writer.begin(&here, caps, Status::AUTOCOMMIT).expect("definitions");
        let payloads = payloads(&result_writer.out);
        let told = |at: usize| {
            let column = Column::decode(payloads[at], caps).expect("a definition");
            let name = String::from_utf8_lossy(column.name).into_owned();
            (name, column.kind, column.length == 43, column.org_table == b"orders")
        };
        assert_eq!(told(1), ("n".to_owned(), ColumnKind::LongLong, true, true));
        // Of values of another type the description is the scratch server's.
        assert_eq!(told(2), ("x".to_owned(), ColumnKind::Double, false, true));
    }

    #[test]
    fn a_row_of_another_length_is_refused() {
        let mut result_writer = ResultWriter::new(Form::Text, Capabilities::empty());
        let columns = [definition("id", ColumnKind::LongLong)];
        let begun = result_writer.begin(&columns, Capabilities::empty(), Status::AUTOCOMMIT);
        assert_eq!(begun, Ok(()));
        assert!(result_writer.row(&[]).is_err());
    }
}
