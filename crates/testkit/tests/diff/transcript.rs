//! Every packet of a reply with what it is, by a reader of its own: the product's decoder is what is
//! being tested.

use mysql_wire::capability::Capabilities;
use mysql_wire::packet::PAYLOAD_BYTES_MAX;
use mysql_wire::scalar::Reader;
use testkit::Client;

const MORE_RESULTS: u16 = 8;
const CURSOR_EXISTS: u16 = 64;
const OUT_PARAMS: u16 = 0x1000;

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Ok,
    Err,
    /// The number of columns.
    Count,
    Column,
    /// Behind column definitions.
    ColumnsEnd,
    Row,
    RowsEnd,
    /// The server asks for a file.
    LocalFile,
    Prepared,
    /// Neither of these, or the connection's end.
    Other,
}

/// What kind of reply the command has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Results,
    /// Of an EXECUTE that asks for a cursor.
    Cursor,
    Prepare,
    Rows,
    Columns,
    Single,
}

/// A reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transcript {
    pub packets: Vec<(Kind, Vec<u8>)>,
    /// The connection broke, or a packet had the wrong number.
    pub broken: Option<String>,
}

impl Transcript {
    /// True when the reply, or its last part, is an error.
    pub fn failed(&self) -> bool {
        let last = self.packets.last();
        self.broken.is_some() || last.is_some_and(|(kind, _)| *kind == Kind::Err)
    }

    /// The id that COM_STMT_PREPARE gave.
    pub fn statement_id(&self) -> Option<u32> {
        let (Kind::Prepared, payload) = self.packets.first()? else {
            return None;
        };
        Some(u32::from_le_bytes(payload.get(1..5)?.try_into().ok()?))
    }
}

/// Reads a whole reply.
pub fn read(client: &mut Client, form: Form, local_file: &[u8]) -> Transcript {
    let mut reading = Reading {
        client,
        local_file,
        found: Transcript::default(),
    };
    let read = match form {
        Form::Results => reading.results(false),
        Form::Cursor => reading.results(true),
        Form::Prepare => reading.prepared(),
        Form::Rows => reading.rows(),
        Form::Columns => reading.field_list(),
        Form::Single => reading.next().map(|packet| {
            let kind = match packet.first() {
                Some(0) => Kind::Ok,
                Some(0xFF) => Kind::Err,
                // COM_SET_OPTION's.
                Some(0xFE) => Kind::RowsEnd,
                _ => Kind::Other,
            };
            reading.take(kind, packet);
        }),
    };
    if let Err(why) = read {
        reading.found.broken = Some(why);
    }
    reading.found
}

struct Reading<'a> {
    client: &'a mut Client,
    local_file: &'a [u8],
    found: Transcript,
}

impl Reading<'_> {
    fn next(&mut self) -> Result<Vec<u8>, String> {
        self.client.read_packet().map_err(|error| error.to_string())
    }

    fn take(&mut self, kind: Kind, packet: Vec<u8>) {
        self.found.packets.push((kind, packet));
    }

    fn deprecates_eof(&self) -> bool {
        self.client
            .capabilities
            .contains(Capabilities::DEPRECATE_EOF)
    }

    fn results(&mut self, cursor: bool) -> Result<(), String> {
        loop {
            let packet = self.next()?;
            let more = match packet.first() {
                Some(0) => {
                    let more = ok_status(&packet) & MORE_RESULTS != 0;
                    self.take(Kind::Ok, packet);
                    more
                }
                Some(0xFF) => {
                    self.take(Kind::Err, packet);
                    false
                }
                Some(0xFB) => {
                    self.take(Kind::LocalFile, packet);
                    self.send_file()?;
                    true
                }
                _ => {
                    let count = Reader::new(&packet).lenenc_int().unwrap_or(0);
                    self.take(Kind::Count, packet);
                    let status = self.columns(count)?;
                    if cursor && status & CURSOR_EXISTS != 0 {
                        return Ok(());
                    }
                    // MySQL says it in front of OUT parameters, and not behind them.
                    let announced = status & OUT_PARAMS != 0;
                    self.rows_until_end()? & MORE_RESULTS != 0 || announced
                }
            };
            if !more {
                return Ok(());
            }
        }
    }

    fn send_file(&mut self) -> Result<(), String> {
        if !self.local_file.is_empty() {
            self.client
                .send_packet(self.local_file)
                .map_err(|error| error.to_string())?;
        }
        self.client
            .send_packet(b"")
            .map_err(|error| error.to_string())
    }

    /// Column definitions and their end; the status of that.
    fn columns(&mut self, count: u64) -> Result<u16, String> {
        for _ in 0..count {
            let packet = self.next()?;
            self.take(Kind::Column, packet);
        }
        if count == 0 || self.deprecates_eof() {
            return Ok(0);
        }
        let packet = self.next()?;
        let status = eof_status(&packet);
        self.take(Kind::ColumnsEnd, packet);
        Ok(status)
    }

    fn rows(&mut self) -> Result<(), String> {
        self.rows_until_end().map(drop)
    }

    fn rows_until_end(&mut self) -> Result<u16, String> {
        loop {
            let packet = self.next()?;
            let ends =
                packet.len() < PAYLOAD_BYTES_MAX && self.deprecates_eof() || packet.len() < 9;
            match packet.first() {
                Some(0xFE) if ends => {
                    let status = match self.deprecates_eof() {
                        true => ok_status(&packet),
                        false => eof_status(&packet),
                    };
                    self.take(Kind::RowsEnd, packet);
                    return Ok(status);
                }
                Some(0xFF) => {
                    self.take(Kind::Err, packet);
                    return Ok(0);
                }
                _ => self.take(Kind::Row, packet),
            }
        }
    }

    fn field_list(&mut self) -> Result<(), String> {
        loop {
            let packet = self.next()?;
            match packet.first() {
                Some(0xFE) => {
                    self.take(Kind::RowsEnd, packet);
                    return Ok(());
                }
                Some(0xFF) => {
                    self.take(Kind::Err, packet);
                    return Ok(());
                }
                _ => self.take(Kind::Column, packet),
            }
        }
    }

    fn prepared(&mut self) -> Result<(), String> {
        let packet = self.next()?;
        if packet.first() != Some(&0) || packet.len() < 9 {
            self.take(Kind::Err, packet);
            return Ok(());
        }
        let count = |at: usize| u64::from(u16::from_le_bytes([packet[at], packet[at + 1]]));
        let (columns, params) = (count(5), count(7));
        self.take(Kind::Prepared, packet);
        self.columns(params)?;
        self.columns(columns)?;
        Ok(())
    }
}

/// The flags of an OK packet, whatever its first byte.
fn ok_status(packet: &[u8]) -> u16 {
    let mut reader = Reader::new(packet);
    let mut read = || {
        reader.u8()?;
        reader.lenenc_int()?;
        reader.lenenc_int()?;
        reader.u16()
    };
    read().unwrap_or(0)
}

fn eof_status(packet: &[u8]) -> u16 {
    match packet {
        [0xFE, _, _, low, high, ..] => u16::from_le_bytes([*low, *high]),
        _ => 0,
    }
}
