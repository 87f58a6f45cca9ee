//! One server's part of a statement: sent, and its reply read packet by packet.
//!
//! A feed owns its connection and one receive buffer. While it waits for its server, both are in the
//! future that waits; so the feeds of a statement wait at the same time, and what is dropped closes its
//! connection, whose reply is unread. A row lies in the buffer until the next step.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use backend::{Connection, Lease};
use execute::client::refuse::ServerRefusal;
use execute::execution::pipe::make_room;
use execute::variables::changes::Changes;
use mysql_wire::Malformed;
use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use mysql_wire::packet::{self, HEADER_BYTES, Header, PAYLOAD_BYTES_MAX};
use mysql_wire::query::NO_ATTRIBUTES;
use mysql_wire::relay::Outcome;
use mysql_wire::reply::{ErrPacket, OkPacket, session_changes};
use mysql_wire::result::{
    Column, ColumnCount, Value, ValueKind, decode_binary_row, encode_text_row,
};

/// The number of the error packets by which MariaDB reports progress, in the middle of a reply.
const PROGRESS: u16 = 0xFFFF;

/// Once a reply has filled this many buffers it is a long one, and comes in larger pieces.
const SMALL_BUFFERS_MAX: usize = 2;

/// What one server is sent, in one write.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    /// Statements in front of it, which must go well.
    pub before: Vec<Vec<u8>>,
    /// Statements behind those, which must go well without a warning.
    pub exact: Vec<Vec<u8>>,
    pub text: Vec<u8>,
    /// The text is prepared on the connection, under this id: it is executed, for the sake of
    /// numbers' digits, and closed. Its rows are shown as text rows all the same.
    pub prepared: Option<u32>,
    /// Statements behind it, which run whatever becomes of it.
    pub after: Vec<Vec<u8>>,
}

impl Order {
    /// The packets.
    fn encode(&self, capabilities: Capabilities) -> Vec<u8> {
        let attributes = capabilities.contains(Capabilities::QUERY_ATTRIBUTES);
        let mut request = Vec::new();
        let mut put = |text: &[u8]| put_query(&mut request, text, attributes);
        self.before.iter().chain(&self.exact).for_each(|text| put(text));
        match self.prepared {
            None => put(&self.text),
            Some(id) => execute(&mut request, id),
        }
        let mut put = |text: &[u8]| put_query(&mut request, text, attributes);
        self.after.iter().for_each(|text| put(text));
        request
    }

    /// The replies to expect.
    fn dues(&self) -> VecDeque<Due> {
        let mut dues = VecDeque::new();
        dues.extend(self.before.iter().map(|_| Due::Own));
        dues.extend(self.exact.iter().map(|_| Due::Exact));
        dues.push_back(Due::Answer);
        dues.extend(self.after.iter().map(|_| Due::Own));
        dues
    }
}

fn put_query(request: &mut Vec<u8>, text: &[u8], attributes: bool) {
    packet::write_with(request, &mut 0, |out| {
        out.push(Command::Query as u8);
        if attributes {
            out.extend_from_slice(&NO_ATTRIBUTES);
        }
        out.extend_from_slice(text);
    });
}

/// Executes a statement without parameters once, and closes it.
fn execute(request: &mut Vec<u8>, id: u32) {
    packet::write_with(request, &mut 0, |out| {
        out.push(Command::StmtExecute as u8);
        out.extend_from_slice(&id.to_le_bytes());
        // No cursor, one execution.
        out.extend_from_slice(&[0, 1, 0, 0, 0]);
    });
    packet::write_with(request, &mut 0, |out| {
        out.push(Command::StmtClose as u8);
        out.extend_from_slice(&id.to_le_bytes());
    });
}

/// What a reply is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// A statement of Heddle's own.
    Own,
    /// The same, of which a warning is a refusal.
    Exact,
    /// The part itself.
    Answer,
}

/// Where a feed is in its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    First,
    /// So many definitions of columns are still to come.
    Columns(u64),
    Rows,
    Done,
}

/// What a step gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// More must be received first.
    Wait,
    /// The definitions of the answer's columns are complete.
    Columns,
    /// [`Feed::row`] is the next row.
    Row,
    /// Nothing comes any more.
    End,
}

type Received = (io::Result<()>, Lease, Vec<u8>);

enum Line {
    Ready(Lease),
    Receiving(Pin<Box<dyn Future<Output = Received>>>),
    /// Only while it changes.
    Between,
}

/// The packet at hand: where it is in the buffer, or joined here when it came in several.
#[derive(Default)]
struct AtHand {
    payload: Range<usize>,
    joined: Vec<u8>,
    is_joined: bool,
}

/// One server's part.
pub(crate) struct Feed {
    line: Line,
    capabilities: Capabilities,
    /// The server and its own number of the connection, for KILL.
    pub on: (farm::ServerId, u32),
    buffer: Vec<u8>,
    at: usize,
    /// Bytes that the next packet needs behind `at`.
    need: usize,
    pieces: usize,
    packet: AtHand,
    dues: VecDeque<Due>,
    state: State,
    pub columns: Vec<Box<[u8]>>,
    /// Rows are binary ones, of columns of these kinds.
    binary: Option<Vec<ValueKind>>,
    pub outcome: Outcome,
    /// Of the rows so far, as the server sent them.
    pub row_bytes: u64,
    pub info: Vec<u8>,
    pub changes: Changes,
    /// The first error of the server.
    pub refusal: Option<ServerRefusal>,
    /// The reply ended with the wish for the client's file; what it says then comes by
    /// [`Feed::resume`].
    pub wants_file: bool,
    /// The connection broke.
    pub lost: bool,
    /// When nothing more was to come.
    pub ended: Option<Instant>,
}

impl Feed {
    /// Sends an order, as soon as the feed is polled.
    pub fn start(lease: Lease, order: &Order, buffer: Vec<u8>) -> Feed {
        let request = order.encode(lease.connection().capabilities);
        let mut feed = Feed::send(lease, request, order.dues(), buffer);
        feed.binary = order.prepared.map(|_| Vec::new());
        feed
    }

    /// Sends the rest of the file that the server has asked for, in packets, whose answer comes then.
    pub fn resume(lease: Lease, request: Vec<u8>, buffer: Vec<u8>) -> Feed {
        Feed::send(lease, request, VecDeque::from([Due::Answer]), buffer)
    }

    fn send(mut lease: Lease, request: Vec<u8>, dues: VecDeque<Due>, buffer: Vec<u8>) -> Feed {
        let connection = lease.connection();
        let on = (connection.server, connection.thread_id);
        let capabilities = connection.capabilities | Capabilities::DEPRECATE_EOF;
        let sending = async move {
            let bytes = request.len();
            let connection = lease.connection_mut();
            let (sent, _) = connection.send(request, 0..bytes).await;
            match sent {
                Ok(()) => receive(lease, buffer).await,
                Err(error) => (Err(error), lease, buffer),
            }
        };
        Feed {
            line: Line::Receiving(Box::pin(sending)),
            capabilities,
            on,
            buffer: Vec::new(),
            at: 0,
            need: 0,
            pieces: 0,
            packet: AtHand::default(),
            dues,
            state: State::First,
            columns: Vec::new(),
            binary: None,
            outcome: Outcome::default(),
            row_bytes: 0,
            info: Vec::new(),
            changes: Changes::default(),
            refusal: None,
            wants_file: false,
            lost: false,
            ended: None,
        }
    }

    /// The capabilities by which definitions are to be read.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// The connection, while nothing is awaited on it.
    pub fn lease(&mut self) -> Option<&mut Lease> {
        match &mut self.line {
            Line::Ready(lease) if !self.lost => Some(lease),
            _ => None,
        }
    }

    /// Nothing comes any more.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// True when the part failed.
    pub fn failed(&self) -> bool {
        self.lost || self.refusal.is_some()
    }

    /// The row that the last step gave.
    pub fn row(&self) -> &[u8] {
        match self.packet.is_joined {
            true => &self.packet.joined,
            false => &self.buffer[self.packet.payload.clone()],
        }
    }

    /// Waits on; ready when a step may give something else than before.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Line::Receiving(receiving) = &mut self.line else {
            return Poll::Ready(());
        };
        let Poll::Ready((received, lease, buffer)) = receiving.as_mut().poll(context) else {
            return Poll::Pending;
        };
        self.buffer = buffer;
        self.line = Line::Ready(lease);
        self.pieces += 1;
        if received.is_err() {
            self.lose();
        }
        Poll::Ready(())
    }

    /// Goes on as far as that can be done without waiting.
    pub fn step(&mut self) -> Event {
        loop {
            if self.state == State::Done {
                return Event::End;
            }
            if matches!(self.line, Line::Receiving(_)) {
                return Event::Wait;
            }
            if !self.next_packet() {
                self.receive();
                return Event::Wait;
            }
            match self.take_packet() {
                Ok(None) => {}
                Ok(Some(event)) => return event,
                Err(error) => {
                    tracing::error!(%error, "a server broke the protocol");
                    self.lose();
                }
            }
        }
    }

    /// The connection, once nothing comes any more, and `None` when it broke; and the buffer.
    pub fn finish(self) -> (Option<Lease>, Vec<u8>) {
        match self.line {
            Line::Ready(lease) if !self.lost && self.state == State::Done => {
                (Some(lease), self.buffer)
            }
            _ => (None, self.buffer),
        }
    }

    /// The same of a feed that another one takes the place of.
    pub fn give_up(&mut self) -> (Option<Lease>, Vec<u8>) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        match std::mem::replace(&mut self.line, Line::Between) {
            Line::Ready(lease) if !self.lost => (Some(lease), buffer),
            _ => (None, buffer),
        }
    }

    fn lose(&mut self) {
        self.lost = true;
        self.state = State::Done;
        self.ended = Some(Instant::now());
        if let Line::Ready(lease) = &mut self.line {
            lease.connection_mut().condemn();
        }
    }

    fn receive(&mut self) {
        let Line::Ready(lease) = std::mem::replace(&mut self.line, Line::Between) else {
            return;
        };
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.drain(..self.at);
        self.at = 0;
        make_room(&mut buffer, self.need, self.pieces > SMALL_BUFFERS_MAX);
        self.line = Line::Receiving(Box::pin(receive(lease, buffer)));
    }

    /// Makes the next whole packet the one at hand; false when more must be received.
    fn next_packet(&mut self) -> bool {
        self.need = 0;
        // What else was joined so far belongs to the packet that is not whole yet.
        if std::mem::take(&mut self.packet.is_joined) {
            self.packet.joined.clear();
        }
        loop {
            let Some(header) = Header::parse(&self.buffer[self.at..]) else {
                return false;
            };
            let start = self.at + HEADER_BYTES;
            let end = start + header.payload_bytes;
            if self.buffer.len() < end {
                self.need = end - self.at;
                return false;
            }
            self.at = end;
            if self.packet.joined.is_empty() && !header.is_continued() {
                self.packet.payload = start..end;
                return true;
            }
            self.packet.joined.extend_from_slice(&self.buffer[start..end]);
            if !header.is_continued() {
                self.packet.is_joined = true;
                return true;
            }
        }
    }

    fn take_packet(&mut self) -> Result<Option<Event>, Malformed> {
        let first = self.row().first().copied();
        match (self.state, first) {
            (State::Columns(0) | State::Done, _) => Err(odd()),
            (State::Columns(left), Some(byte)) if byte != 0xFF => {
                self.columns.push(self.row().into());
                self.state = match left {
                    1 => State::Rows,
                    _ => State::Columns(left - 1),
                };
                if left == 1 {
                    self.learn_kinds()?;
                }
                Ok((left == 1).then_some(Event::Columns))
            }
            (_, Some(0xFF)) => self.error().map(|()| None),
            (State::First, Some(byte)) => self.first(byte).map(|()| None),
            (State::Rows, Some(0xFE)) if self.row().len() < PAYLOAD_BYTES_MAX => {
                self.ok()?;
                self.outcome.has_rows = true;
                self.next_due();
                Ok(None)
            }
            (State::Rows, Some(_)) => {
                self.outcome.rows += 1;
                self.row_bytes += self.row().len() as u64;
                self.show_as_text()?;
                Ok(Some(Event::Row))
            }
            (_, None) | (State::Columns(_), _) => Err(odd()),
        }
    }

    fn learn_kinds(&mut self) -> Result<(), Malformed> {
        if let Some(kinds) = &mut self.binary {
            for column in &self.columns {
                kinds.push(Column::decode(column, self.capabilities)?.value_kind());
            }
        }
        Ok(())
    }

    /// Makes a text row of a binary one, with all digits.
    fn show_as_text(&mut self) -> Result<(), Malformed> {
        let Some(kinds) = &self.binary else {
            return Ok(());
        };
        let values = decode_binary_row(self.row(), kinds)?;
        let text = |(value, kind): (&Value<'_>, &ValueKind)| {
            let mut text = Vec::new();
            value.put_text(*kind, &mut text);
            (*value != Value::Null).then_some(text)
        };
        let texts: Vec<Option<Vec<u8>>> = values.iter().zip(kinds).map(text).collect();
        let texts: Vec<Option<&[u8]>> = texts.iter().map(Option::as_deref).collect();
        let mut row = Vec::new();
        encode_text_row(&mut row, &texts);
        (self.packet.joined, self.packet.is_joined) = (row, true);
        Ok(())
    }

    /// The first packet of a reply that is no error.
    fn first(&mut self, byte: u8) -> Result<(), Malformed> {
        match (self.dues.front(), byte) {
            (Some(Due::Answer), 0) => {
                self.ok()?;
                self.next_due();
            }
            (Some(Due::Own), 0) => self.next_due(),
            (Some(Due::Exact), 0) => {
                if OkPacket::decode(self.row(), self.capabilities)?.warnings > 0 {
                    self.refuse_warned();
                }
                self.next_due();
            }
            (Some(Due::Answer), 0xFB) if self.dues.len() == 1 => {
                self.wants_file = true;
                self.next_due();
            }
            (Some(Due::Answer), 1..=0xFA | 0xFC..) => {
                let count = ColumnCount::decode(self.row(), self.capabilities)?;
                self.state = match count.defined {
                    true => State::Columns(count.columns),
                    false => return Err(odd()),
                };
            }
            _ => return Err(odd()),
        }
        Ok(())
    }

    fn refuse_warned(&mut self) {
        self.refusal.get_or_insert_with(|| ServerRefusal {
            number: farm::error::PARTS_DIFFER.number,
            sqlstate: *b"HY000",
            message: b"a row was not stored as it is".to_vec(),
        });
    }

    fn error(&mut self) -> Result<(), Malformed> {
        let error = ErrPacket::decode(self.row(), self.capabilities)?;
        let reports = self.capabilities.contains(Capabilities::MARIADB_PROGRESS);
        if reports && error.number == PROGRESS {
            return Ok(());
        }
        let refusal = ServerRefusal {
            number: error.number,
            sqlstate: error.sqlstate,
            message: error.message.to_vec(),
        };
        if backend::ends_connection(refusal.number) {
            self.lose();
            return Ok(());
        }
        self.outcome.error.get_or_insert(refusal.number);
        self.refusal.get_or_insert(refusal);
        self.next_due();
        Ok(())
    }

    /// An OK, or what ends rows.
    fn ok(&mut self) -> Result<(), Malformed> {
        let payload = match self.packet.is_joined {
            true => &self.packet.joined[..],
            false => &self.buffer[self.packet.payload.clone()],
        };
        let ok = OkPacket::decode(payload, self.capabilities)?;
        self.outcome.status = Some(ok.status);
        self.outcome.affected_rows = ok.affected_rows;
        self.outcome.last_insert_id = ok.last_insert_id;
        self.outcome.warnings = ok.warnings;
        self.info = ok.info.to_vec();
        let Line::Ready(lease) = &self.line else {
            return Ok(());
        };
        for change in session_changes(ok.session_state) {
            self.changes.note(lease.connection(), change?);
        }
        Ok(())
    }

    fn next_due(&mut self) {
        self.dues.pop_front();
        self.state = match self.dues.is_empty() {
            true => State::Done,
            false => State::First,
        };
        if self.state == State::Done {
            self.ended = Some(Instant::now());
        }
    }
}

async fn receive(mut lease: Lease, buffer: Vec<u8>) -> Received {
    let connection: &mut Connection = lease.connection_mut();
    let (received, buffer) = connection.recv(buffer).await;
    (received.map(drop), lease, buffer)
}

fn odd() -> Malformed {
    Malformed {
        what: "a packet that a part's reply cannot have",
    }
}
