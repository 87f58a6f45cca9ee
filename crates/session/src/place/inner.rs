//! Statements that Heddle runs for a client's own, as if the client had sent them: they are placed,
//! merged and made a part of its transaction like any other, but their answers come here.

use memory::Reservation;
use mysql_wire::capability::Capabilities;
use mysql_wire::packet;
use mysql_wire::relay::Expect;
use mysql_wire::reply::{self, ErrPacket, OkPacket};
use mysql_wire::result::{
    Column, ColumnCount, ColumnKind, TextRow, Value, ValueKind, decode_binary_row,
};
use planner::Answer;
use sqltext::{Mode, Multibyte};

use crate::client::end::End;
use crate::client::refuse::ServerRefusal;
use crate::client::request::Request;
use crate::client::transcript::{BYTES_MAX, Transcript};
use crate::execution::exec::Job;
use crate::query;
use crate::session::Session;

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
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
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

impl Session {
    /// Runs a statement of Heddle's own for the client's command, in the client's transaction.
    pub(super) async fn inner(&mut self, text: &[u8]) -> Result<Heard, End> {
        self.inner_as(text, None).await
    }

    /// The same; a query is answered in this way, where one is given.
    pub(super) async fn inner_as(
        &mut self,
        text: &[u8],
        answer: Option<Answer>,
    ) -> Result<Heard, End> {
        let interrupted = self.client.begin_heard();
        self.client.play(Request::query(text));
        let shape = query::query_shape(&self.core, &self.client, &self.variables);
        let job = Job::Frame(Expect::Results);
        let done = match answer {
            Some(answer) => Box::pin(self.answer_rows(answer, shape, job)).await,
            None => Box::pin(self.run_free(shape, job)).await,
        };
        let heard = self.client.end_heard(interrupted);
        done?;
        let capabilities = self.client.capabilities;
        Ok(self::heard(heard, capabilities))
    }
}

/// Reads the packets of an answer.
pub(crate) fn heard(answer: Transcript, capabilities: Capabilities) -> Heard {
    understood(answer, capabilities, false)
}

/// Reads the packets of the answer to an EXECUTE. Its values become texts.
pub(crate) fn executed(answer: Transcript, capabilities: Capabilities) -> Heard {
    understood(answer, capabilities, true)
}

/// The rows hold what was reserved for the packets.
fn understood(answer: Transcript, capabilities: Capabilities, binary: bool) -> Heard {
    match read(answer.bytes(), capabilities, binary) {
        Some(Heard::Rows(mut sheet)) => {
            sheet._reservation = answer.into_reservation();
            Heard::Rows(sheet)
        }
        Some(other) => other,
        None => odd("an answer that is not understood"),
    }
}

fn odd(why: &str) -> Heard {
    Heard::Refused(ServerRefusal {
        number: 1105,
        sqlstate: *b"HY000",
        message: format!("Heddle: {why}").into_bytes(),
    })
}

fn read(bytes: &[u8], capabilities: Capabilities, binary: bool) -> Option<Heard> {
    if bytes.len() >= BYTES_MAX {
        return Some(odd("the rows that this statement needs are more than 64 MB"));
    }
    let mut packets = packet::payloads(bytes);
    let first = packets.next()?;
    if let Some(refused) = refusal(first, capabilities) {
        return Some(refused);
    }
    if reply::is_ok(first) {
        let ok = OkPacket::decode(first, capabilities).ok()?;
        return Some(Heard::Ok {
            affected_rows: ok.affected_rows,
            insert_id: ok.last_insert_id,
            info: ok.info.to_vec(),
            warnings: ok.warnings,
        });
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
    Some(Heard::Refused(ServerRefusal {
        number: error.number,
        sqlstate: error.sqlstate,
        message: error.message.to_vec(),
    }))
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

impl Sheet {
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
