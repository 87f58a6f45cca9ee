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

use backend::{Connection, Lease};
use mysql_wire::Malformed;
use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use mysql_wire::packet::{self, HEADER_BYTES, Header, PAYLOAD_BYTES_MAX};
use mysql_wire::query::NO_ATTRIBUTES;
use mysql_wire::relay::Outcome;
use mysql_wire::reply::{ErrPacket, OkPacket, session_changes};
use mysql_wire::result::ColumnCount;

use crate::attempt::make_room;
use crate::exec::Changes;
use crate::refuse::ServerRefusal;

/// The number of the error packets by which MariaDB reports progress, in the middle of a reply.
const PROGRESS: u16 = 0xFFFF;

/// Once a reply has filled this many buffers it is a long one, and comes in larger pieces.
const SMALL_BUFFERS_MAX: usize = 2;

/// What one server is sent, in one write.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    /// Statements in front of it, which must go well.
    pub before: Vec<Vec<u8>>,
    pub text: Vec<u8>,
    /// Statements behind it, which run whatever becomes of it.
    pub after: Vec<Vec<u8>>,
}

impl Order {
    /// The packets.
    fn encode(&self, capabilities: Capabilities) -> Vec<u8> {
        let attributes = capabilities.contains(Capabilities::QUERY_ATTRIBUTES);
        let mut request = Vec::new();
        let mut put = |text: &[u8]| {
            packet::write_with(&mut request, &mut 0, |out| {
                out.push(Command::Query as u8);
                if attributes {
                    out.extend_from_slice(&NO_ATTRIBUTES);
                }
                out.extend_from_slice(text);
            });
        };
        self.before.iter().for_each(|text| put(text));
        put(&self.text);
        self.after.iter().for_each(|text| put(text));
        request
    }

    /// The replies to expect.
    fn dues(&self) -> VecDeque<Due> {
        let mut dues = VecDeque::new();
        dues.extend(self.before.iter().map(|_| Due::Own));
        dues.push_back(Due::Answer);
        dues.extend(self.after.iter().map(|_| Due::Own));
        dues
    }
}

/// What a reply is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// A statement of Heddle's own.
    Own,
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
    /// Where the packet at hand is, in `joined` when it came in several.
    payload: Range<usize>,
    joined: Vec<u8>,
    is_joined: bool,
    dues: VecDeque<Due>,
    state: State,
    pub columns: Vec<Box<[u8]>>,
    pub outcome: Outcome,
    pub info: Vec<u8>,
    pub changes: Changes,
    /// The first error of the server.
    pub refusal: Option<ServerRefusal>,
    /// The connection broke.
    pub lost: bool,
}

impl Feed {
    /// Sends an order, as soon as the feed is polled.
    pub fn start(mut lease: Lease, order: &Order, buffer: Vec<u8>) -> Feed {
        let connection = lease.connection();
        let on = (connection.server, connection.thread_id);
        let capabilities = connection.capabilities | Capabilities::DEPRECATE_EOF;
        let request = order.encode(connection.capabilities);
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
            payload: 0..0,
            joined: Vec::new(),
            is_joined: false,
            dues: order.dues(),
            state: State::First,
            columns: Vec::new(),
            outcome: Outcome::default(),
            info: Vec::new(),
            changes: Changes::default(),
            refusal: None,
            lost: false,
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
        match self.is_joined {
            true => &self.joined,
            false => &self.buffer[self.payload.clone()],
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

    fn lose(&mut self) {
        self.lost = true;
        self.state = State::Done;
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
        if std::mem::take(&mut self.is_joined) {
            self.joined.clear();
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
            if self.joined.is_empty() && !header.is_continued() {
                self.payload = start..end;
                return true;
            }
            self.joined.extend_from_slice(&self.buffer[start..end]);
            if !header.is_continued() {
                self.is_joined = true;
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
                Ok(Some(Event::Row))
            }
            (_, None) | (State::Columns(_), _) => Err(odd()),
        }
    }

    /// The first packet of a reply that is no error.
    fn first(&mut self, byte: u8) -> Result<(), Malformed> {
        match (self.dues.front(), byte) {
            (Some(Due::Answer), 0) => {
                self.ok()?;
                self.next_due();
            }
            (Some(Due::Own), 0) => self.next_due(),
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
        let payload = match self.is_joined {
            true => &self.joined[..],
            false => &self.buffer[self.payload.clone()],
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
            self.changes.note(lease.connection().state(), change?);
        }
        Ok(())
    }

    fn next_due(&mut self) {
        self.dues.pop_front();
        self.state = match self.dues.is_empty() {
            true => State::Done,
            false => State::First,
        };
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
