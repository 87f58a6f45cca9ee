//! The answer to a statement of Heddle's own: what the session hands up to whoever asked.

use memory::Reservation;
use mysql_wire::capability::Capabilities;
use mysql_wire::packet;
use mysql_wire::reply::{self, ErrPacket, OkPacket};
use mysql_wire::result::{
    Column, ColumnCount, ColumnKind, TextRow, Value, ValueKind, decode_binary_row,
};
use sqltext::{Mode, Multibyte};

use crate::client::refuse::ServerRefusal;
use crate::client::sink::Row;

/// What a statement answered.
pub enum Heard {
    Ok {
        affected_rows: u64,
        insert_id: u64,
        info: Vec<u8>,
        warnings: u16,
    },
    Rows(Sheet),
    Refused(ServerRefusal),
}

/// Rows of a statement, as text.
#[derive(Default)]
pub struct Sheet {
    pub names: Vec<String>,
    forms: Vec<Form>,
    pub rows: Vec<Row>,
    /// For the rows.
    _reservation: Option<Reservation>,
}

/// How values of a column are written as literals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Plain,
    /// A number of floating point.
    Double,
    /// The same, of which its text has six digits only.
    Float,
    Quoted,
    Bytes,
}

/// An error of Heddle's own about an answer.
pub(super) fn odd(why: &str) -> Heard {
    Heard::Refused(ServerRefusal {
        number: 1105,
        sqlstate: *b"HY000",
        message: format!("Heddle: {why}").into_bytes(),
    })
}

/// Reads the packets of a server's reply; `binary`: to an EXECUTE, whose values become texts.
pub(super) fn read(bytes: &[u8], capabilities: Capabilities, binary: bool) -> Option<Heard> {
    let mut packets = packet::payloads(bytes);
    let first = packets.next()?;
    if let Some(refused) = refusal(first, capabilities) {
        return Some(refused);
    }
    if reply::is_ok(first) {
        let ok = OkPacket::decode(first, capabilities).ok()?;
        return Some(Heard::ok(&ok));
    }
    let count = ColumnCount::decode(first, capabilities).ok()?.columns;
    let mut sheet = Sheet::default();
    let mut kinds = Vec::new();
    for _ in 0..count {
        let column = Column::decode(packets.next()?, capabilities).ok()?;
        kinds.push(column.value_kind());
        sheet.names.push(String::from_utf8_lossy(column.name).into_owned());
        sheet.forms.push(form(&column));
    }
    if !capabilities.contains(Capabilities::DEPRECATE_EOF) {
        packets.next()?;
    }
    for packet in packets {
        if reply::ends_rows(packet, capabilities) {
            return Some(Heard::Rows(sheet));
        }
        if let Some(refused) = refusal(packet, capabilities) {
            return Some(refused);
        }
        sheet.rows.push(match binary {
            true => {
                let values = decode_binary_row(packet, &kinds).ok()?;
                values.iter().zip(&kinds).map(text_of).collect()
            }
            false => {
                let cells = TextRow::new(packet).map(|cell| Some(cell.ok()?.map(<[u8]>::to_vec)));
                cells.collect::<Option<_>>()?
            }
        });
    }
    None
}

/// A value of a binary row as a text row has it.
fn text_of((value, kind): (&Value<'_>, &ValueKind)) -> Option<Vec<u8>> {
    match value {
        Value::Null => None,
        Value::Bytes(bytes) => Some(bytes.to_vec()),
        other => {
            let mut text = Vec::with_capacity(20);
            other.put_text(*kind, &mut text);
            Some(text)
        }
    }
}

fn refusal(packet: &[u8], capabilities: Capabilities) -> Option<Heard> {
    if packet.first() != Some(&0xFF) {
        return None;
    }
    let error = ErrPacket::decode(packet, capabilities).ok()?;
    Some(Heard::refused(&error))
}

/// The collation of what is no text.
const BINARY: u16 = 63;

fn form(column: &Column<'_>) -> Form {
    match column.kind {
        ColumnKind::Bit | ColumnKind::Geometry => Form::Bytes,
        ColumnKind::Float => Form::Float,
        ColumnKind::Double => Form::Double,
        kind if kind.is_number() => Form::Plain,
        ColumnKind::TinyBlob
        | ColumnKind::Blob
        | ColumnKind::MediumBlob
        | ColumnKind::LongBlob
        | ColumnKind::VarString
        | ColumnKind::String
        | ColumnKind::VarChar
            if column.collation == BINARY =>
        {
            Form::Bytes
        }
        _ => Form::Quoted,
    }
}

impl Heard {
    pub fn ok(ok: &OkPacket<'_>) -> Heard {
        Heard::Ok {
            affected_rows: ok.affected_rows,
            insert_id: ok.last_insert_id,
            info: ok.info.to_vec(),
            warnings: ok.warnings,
        }
    }

    /// Rows of text.
    pub fn rows(columns: &[&str], rows: &[Row], reservation: Reservation) -> Heard {
        Heard::Rows(Sheet {
            names: columns.iter().map(|&name| name.to_owned()).collect(),
            forms: vec![Form::Quoted; columns.len()],
            rows: rows.to_vec(),
            _reservation: Some(reservation),
        })
    }

    pub fn refused(refusal: &ErrPacket<'_>) -> Heard {
        Heard::Refused(ServerRefusal {
            number: refusal.number,
            sqlstate: refusal.sqlstate,
            message: refusal.message.to_vec(),
        })
    }
}

impl Sheet {
    /// The rows hold what was reserved for their packets.
    pub fn hold(&mut self, reservation: Option<Reservation>) {
        self._reservation = reservation;
    }

    /// The values of a column are not whole.
    pub fn is_short(&self, column: usize) -> bool {
        self.forms.get(column) == Some(&Form::Float)
    }

    /// A row's values as literals between commas; `None` where the client's character set does not
    /// let them be written.
    pub fn literals(
        &self,
        row: &[Option<Vec<u8>>],
        columns: &[usize],
        mode: &Mode,
    ) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        for (at, &column) in columns.iter().enumerate() {
            if at > 0 {
                out.extend_from_slice(b", ");
            }
            let value = row.get(column)?.as_deref();
            put(&mut out, value, *self.forms.get(column)?, mode)?;
        }
        Some(out)
    }
}

fn put(out: &mut Vec<u8>, value: Option<&[u8]>, form: Form, mode: &Mode) -> Option<()> {
    let Some(value) = value else {
        out.extend_from_slice(b"NULL");
        return Some(());
    };
    match form {
        Form::Plain => out.extend_from_slice(value),
        Form::Double | Form::Float => {
            out.extend_from_slice(value);
            // Without an exponent it would be a DECIMAL.
            if !value.contains(&b'e') && !value.contains(&b'E') {
                out.extend_from_slice(b"e0");
            }
        }
        Form::Bytes => {
            out.extend_from_slice(b"x'");
            out.extend_from_slice(hex::encode(value).as_bytes());
            out.push(b'\'');
        }
        Form::Quoted => {
            let single = matches!(mode.multibyte, Multibyte::None | Multibyte::SingleByte);
            if !single && !value.is_ascii() {
                return None;
            }
            sqltext::put_string(value, mode.no_backslash_escapes, out);
        }
    }
    Some(())
}
