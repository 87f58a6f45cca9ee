//! What a server answers to a command: OK packets and result sets, in all their forms.

use mysql_wire::capability::Capabilities;
use mysql_wire::reply::{self, EofPacket, ErrPacket, OkPacket};
use mysql_wire::scalar::Reader;
use mysql_wire::status::Status;

use super::statement::{Value, binary_row};
use super::{Client, Failure};

/// One result.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Done(Done),
    Rows(Rows),
}

/// An OK packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    pub affected_rows: u64,
    pub last_insert_id: u64,
    pub status: Status,
    pub warnings: u16,
    pub info: String,
    /// The session changes, undecoded.
    pub session_state: Vec<u8>,
}

/// A column of a result set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    pub schema: String,
    pub table: String,
    pub name: String,
    pub collation: u16,
    pub length: u32,
    /// The type byte.
    pub kind: u8,
    pub flags: u16,
    pub decimals: u8,
    /// MariaDB's extended metadata, undecoded; empty without that capability.
    pub extended: Vec<u8>,
}

/// A result set.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    pub columns: Vec<Column>,
    /// Text results hold [`Value::Bytes`] and [`Value::Null`] only.
    pub rows: Vec<Vec<Value>>,
    pub status: Status,
    pub warnings: u16,
}

impl Rows {
    /// All values as text, NULL as `None`.
    pub fn text(&self) -> Vec<Vec<Option<String>>> {
        self.rows
            .iter()
            .map(|row| row.iter().map(Value::text).collect())
            .collect()
    }
}

impl Client {
    /// Reads results until none follows.
    pub fn read_results(&mut self, binary: bool) -> Result<Vec<Reply>, Failure> {
        let mut replies = Vec::new();
        loop {
            replies.push(self.read_result(binary)?);
            if !self.status.contains(Status::MORE_RESULTS) {
                return Ok(replies);
            }
        }
    }

    /// Reads one result.
    pub fn read_result(&mut self, binary: bool) -> Result<Reply, Failure> {
        let mut payload = self.read_packet()?;
        while payload.starts_with(b"\xFF\xFF\xFF") {
            self.progress += 1;
            payload = self.read_packet()?;
        }
        if reply::is_ok(&payload) {
            return self.done(&payload).map(Reply::Done);
        }
        if reply::is_err(&payload) {
            return Err(self.server_failure(&payload));
        }
        if reply::local_file(&payload).is_some() {
            for packet in self.files.pop_front().unwrap_or_default() {
                self.send_packet(&packet)?;
            }
            self.send_packet(b"")?;
            return self.read_done().map(Reply::Done);
        }
        let mut reader = Reader::new(&payload);
        let count = reader.lenenc_int()?;
        let tells =
            Capabilities::OPTIONAL_RESULTSET_METADATA | Capabilities::MARIADB_CACHE_METADATA;
        let described = !self.capabilities.intersects(tells) || reader.u8()? == 1;
        if !reader.is_empty() {
            return Err(Failure::Protocol(
                "more than a number of columns".to_owned(),
            ));
        }
        let mut columns = Vec::new();
        for _ in 0..count {
            columns.push(match described {
                true => column(&self.read_packet()?, self.capabilities)?,
                false => self
                    .known_columns
                    .get(columns.len())
                    .cloned()
                    .unwrap_or_default(),
            });
        }
        if !self.capabilities.contains(Capabilities::DEPRECATE_EOF) {
            let end = EofPacket::decode(&self.read_packet()?)?;
            self.status = end.status;
            if end.status.contains(Status::CURSOR_EXISTS) {
                let (status, warnings) = (end.status, end.warnings);
                return Ok(Reply::Rows(Rows {
                    columns,
                    rows: Vec::new(),
                    status,
                    warnings,
                }));
            }
        }
        self.read_rows(columns, binary).map(Reply::Rows)
    }

    /// Reads rows up to their end; also the answer to COM_STMT_FETCH.
    pub fn read_rows(&mut self, columns: Vec<Column>, binary: bool) -> Result<Rows, Failure> {
        let mut rows = Vec::new();
        loop {
            let payload = self.read_packet()?;
            if reply::is_err(&payload) {
                return Err(self.server_failure(&payload));
            }
            if reply::ends_rows(&payload, self.capabilities) {
                let end = EofPacket::decode_end_of_rows(&payload, self.capabilities)?;
                self.status = end.status;
                return Ok(Rows {
                    columns,
                    rows,
                    status: end.status,
                    warnings: end.warnings,
                });
            }
            rows.push(if binary {
                binary_row(&payload, &columns)?
            } else {
                text_row(&payload, columns.len())?
            });
        }
    }

    /// Reads a reply that is an OK or an error.
    pub fn read_done(&mut self) -> Result<Done, Failure> {
        let payload = self.read_packet()?;
        if reply::is_err(&payload) {
            return Err(self.server_failure(&payload));
        }
        self.done(&payload)
    }

    pub(super) fn done(&mut self, payload: &[u8]) -> Result<Done, Failure> {
        let ok = OkPacket::decode(payload, self.capabilities)?;
        self.status = ok.status;
        Ok(Done {
            affected_rows: ok.affected_rows,
            last_insert_id: ok.last_insert_id,
            status: ok.status,
            warnings: ok.warnings,
            info: String::from_utf8_lossy(ok.info).into_owned(),
            session_state: ok.session_state.to_vec(),
        })
    }

    /// The failure that an error packet reports.
    pub fn server_failure(&self, payload: &[u8]) -> Failure {
        match ErrPacket::decode(payload, self.capabilities) {
            Ok(err) => Failure::Server {
                number: err.number,
                sqlstate: String::from_utf8_lossy(&err.sqlstate).into_owned(),
                message: String::from_utf8_lossy(err.message).into_owned(),
            },
            Err(malformed) => malformed.into(),
        }
    }
}

/// Reads a column definition.
pub(super) fn column(payload: &[u8], capabilities: Capabilities) -> Result<Column, Failure> {
    let mut reader = Reader::new(payload);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    reader.lenenc_bytes()?; // The catalogue, always «def».
    let schema = text(reader.lenenc_bytes()?);
    let table = text(reader.lenenc_bytes()?);
    reader.lenenc_bytes()?; // The table's own name behind an alias.
    let name = text(reader.lenenc_bytes()?);
    reader.lenenc_bytes()?; // The column's own name behind an alias.
    let extended = match capabilities.contains(Capabilities::MARIADB_EXTENDED_METADATA) {
        true => reader.lenenc_bytes()?.to_vec(),
        false => Vec::new(),
    };
    reader.lenenc_int()?; // The length of what follows, always 12.
    Ok(Column {
        schema,
        table,
        name,
        collation: reader.u16()?,
        length: reader.u32()?,
        kind: reader.u8()?,
        flags: reader.u16()?,
        decimals: reader.u8()?,
        extended,
    })
}

fn text_row(payload: &[u8], columns: usize) -> Result<Vec<Value>, Failure> {
    let mut reader = Reader::new(payload);
    let mut row = Vec::with_capacity(columns);
    for _ in 0..columns {
        if reader.peek() == Some(0xFB) {
            reader.u8()?;
            row.push(Value::Null);
        } else {
            row.push(Value::Bytes(reader.lenenc_bytes()?.to_vec()));
        }
    }
    if reader.is_empty() {
        return Ok(row);
    }
    Err(Failure::Protocol(format!(
        "{} bytes after the last column",
        reader.remaining()
    )))
}
