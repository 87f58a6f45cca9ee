//! The client's side of a session: its connection, the command under way, and where the reply goes.
//!
//! Statements of Heddle's own have no connection: nothing is read for them, and nothing of a reply leaves the
//! session. Below the loop of a session nobody receives from the connection, but for what a command asks of
//! its client (a file, an endless stream).

pub mod answer;
pub mod end;
pub mod heard;
pub(crate) mod local_file;
pub mod play;
mod preface;
pub mod refuse;
pub mod request;
pub mod sink;
pub mod stall;
#[cfg(test)]
mod tests;
pub mod transcript;
pub mod transport;

use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use channel::{Algorithm, Channel, Duplex, Fingerprint, PackError, Packing, Presented, Side};
use farm::{ClientError, error};
use memory::{Budget, Full, Purpose, Reservation};
use mysql_wire::auth::{self, SALT_BYTES};
use mysql_wire::capability::Capabilities;
use mysql_wire::handshake::AuthMore;
use mysql_wire::packet::{self, HEADER_BYTES, Header, PAYLOAD_BYTES_MAX};
use mysql_wire::reply::{ErrPacket, OkPacket};
use mysql_wire::result::{ColumnKind, write_text_result};
use mysql_wire::status::Status;

use crate::client::end::End;
use crate::client::request::Request;
use crate::client::sink::{Outlet, ReplySink, Row};
use crate::client::stall::{Progress, Wait};

/// Receive room of an idle client: what 1,000 idle clients cost is this, a thousand times. A client whose
/// commands are longer keeps what its first one took.
const IDLE_BYTES: usize = 256;

/// The least that a buffer grows by for a command that is longer than it.
const GROWTH_BYTES_MIN: usize = 2048;

/// A receive buffer that grew beyond this is given up once it is empty.
const KEEP_BYTES_MAX: usize = 65_536;

/// So many bytes of a command that nobody has memory for are kept: a prepared statement's id is among them.
const HEAD_BYTES: usize = 8;

/// Receive room of a client that sends commands without waiting for their answers.
const PIPELINE_BYTES: usize = 32_768;

/// A client that was told an error for the end may finish what it sends for so long.
const PARTING: Duration = Duration::from_secs(2);

/// Why no further command can be read.
#[derive(Debug)]
pub enum ReadError {
    /// The client closed the connection between two commands.
    Closed,
    /// The connection broke, or was closed in the middle of a packet.
    Broken,
    /// The client broke the protocol, or sent more than is allowed; it is told before the end.
    Refused(ClientError),
    /// There was no memory for the command. It has been read to its end, its first bytes stand for it,
    /// and the client can go on when it has been told.
    NoMemory(Full),
}

/// Who gives a session its commands, and takes the replies.
pub struct Client {
    /// `None`: the commands are Heddle's own, and all replies are kept for whoever gave them.
    sock: Option<Channel>,
    /// The command under way.
    pub request: Request,
    /// The client has sent a command before it had the answer to the one before.
    pub(crate) pipelines: bool,
    /// The sequence number of the next packet that we send.
    pub sequence: u8,
    pub capabilities: Capabilities,
    /// What proofs are made for, from the greeting to the last COM_CHANGE_USER, as on the servers:
    /// clients prove themselves anew with the salt that they have.
    pub salt: [u8; SALT_BYTES],
    /// SHA-256 of the certificate that the client was shown.
    pub fingerprint: Option<Box<Fingerprint>>,
    pub progress: Rc<Progress>,
    /// The login waits for the client's next word.
    pub owes: bool,
    /// Its scramble of `caching_sha2_password` was right. It hears so in front of the answer to its login, in one
    /// write: nothing else is said before.
    pub fast_ok: bool,
    bytes_max: usize,
    /// For `request`.
    pub reservation: Reservation,
    /// What both sides agreed to compress by, once the login is over.
    pub compression: Option<Algorithm>,
    /// Where replies go.
    outlet: Outlet,
    /// The number of the last error that Heddle itself told; 0 for none.
    pub refused: u16,
}

/// How far the packets of a command have been read.
struct Way {
    /// Bytes that are no longer in the buffer.
    gone: usize,
    /// Where in the buffer the packet under way ends.
    end: usize,
    /// The number of the next packet.
    expected: u8,
    /// No packet follows that one.
    last: bool,
}

impl Way {
    fn new(sequence: u8) -> Way {
        Way {
            gone: 0,
            end: 0,
            expected: sequence,
            last: false,
        }
    }
}

/// What is kept for a client counts for the account with this budget from now on.
pub fn move_to(client: &mut Client, memory: &Arc<Budget>) {
    client.reservation.move_to(memory);
    if let Some(sock) = &mut client.sock {
        sock.move_to(memory);
    }
}

impl Client {
    /// A client that has not said anything yet.
    pub fn new(sock: Channel, bytes_max: usize, memory: &Arc<Budget>) -> Client {
        let room = Request::with_room(IDLE_BYTES);
        Client::of(Some(sock), room, bytes_max, memory)
    }

    /// Nobody: for commands of Heddle's own, whose replies look like this.
    pub fn nobody(capabilities: Capabilities, memory: &Arc<Budget>) -> Client {
        let mut client = Client::of(None, Request::default(), 0, memory);
        client.capabilities = capabilities;
        client
    }

    fn of(
        sock: Option<Channel>,
        request: Request,
        bytes_max: usize,
        memory: &Arc<Budget>,
    ) -> Client {
        Client {
            sock,
            request,
            pipelines: false,
            sequence: 0,
            salt: [0; SALT_BYTES],
            capabilities: Capabilities::empty(),
            fingerprint: None,
            progress: Rc::default(),
            owes: false,
            fast_ok: false,
            bytes_max,
            reservation: Reservation::new(memory, Purpose::Packets),
            compression: None,
            outlet: Outlet::default(),
            refused: 0,
        }
    }

    /// It has logged in: its packets may be so long from now on, and count for its account.
    pub fn admit(&mut self, bytes_max: usize, memory: &Arc<Budget>) {
        self.bytes_max = bytes_max;
        move_to(self, memory);
    }

    /// The connection, for its address, its closer, and what it knows of TLS.
    pub fn channel(&self) -> Option<&Channel> {
        self.sock.as_ref()
    }

    /// True when nobody on the way can read what the client sends: inside TLS, or by a Unix socket.
    pub fn is_private(&self) -> bool {
        self.channel().is_some_and(|channel| channel.is_secure() || channel.is_local())
    }

    /// True when what the client sends is compressed.
    pub fn is_compressed(&self) -> bool {
        self.channel().is_some_and(Channel::is_compressed)
    }

    fn connection(&mut self) -> io::Result<&mut Channel> {
        self.sock.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Goes on in TLS, after the request for it. What came behind the request is the beginning of
    /// the handshake, or fails it: nothing that was said in the clear is taken for the client's word.
    pub async fn start_tls(&mut self, presented: &Presented) -> io::Result<()> {
        let mut early = Vec::new();
        self.request.take_rest(&mut early);
        let config = presented.config.clone();
        self.fingerprint = Some(Box::new(presented.fingerprint));
        self.connection()?.accept_tls(config, &early).await
    }

    /// The login is over: from here on frames are compressed, if that was agreed.
    pub fn start_compression(&mut self) {
        if let (Some(algorithm), Some(sock)) = (self.compression, &mut self.sock) {
            sock.compress(Packing::new(algorithm, Side::Server));
            sock.keep_within(self.reservation.another(Purpose::Packets));
        }
    }

    /// Waits for the next whole command, whose first packet must have the number `sequence`.
    pub async fn read(&mut self, sequence: u8) -> Result<(), ReadError> {
        self.consume();
        if sequence == 0
            && let Some(sock) = &mut self.sock
        {
            sock.new_command();
        }
        let mut way = Way::new(sequence);
        while !way.last {
            let needed = match Header::parse(&self.request.bytes[way.end..]) {
                Some(header) => {
                    self.enter(&mut way, header)?;
                    way.end
                }
                None => way.end + HEADER_BYTES,
            };
            while self.request.bytes.len() < needed {
                match self.fill(needed, way.end > 0).await {
                    Err(ReadError::NoMemory(full)) => {
                        Box::pin(self.skip(way)).await?;
                        return Err(ReadError::NoMemory(full));
                    }
                    filled => filled?,
                }
            }
        }
        self.request.go_to(0..way.end);
        self.sequence = way.expected;
        Ok(())
    }

    /// This is the header of the command's next packet.
    fn enter(&mut self, way: &mut Way, header: Header) -> Result<(), ReadError> {
        self.sequence = header.sequence.wrapping_add(1);
        if header.sequence != way.expected && !self.is_compressed() {
            return Err(ReadError::Refused(error::PACKETS_OUT_OF_ORDER));
        }
        way.expected = way.expected.wrapping_add(1);
        way.end += HEADER_BYTES + header.payload_bytes;
        way.last = header.payload_bytes < PAYLOAD_BYTES_MAX;
        if way.gone + way.end > self.bytes_max + HEADER_BYTES {
            return Err(ReadError::Refused(error::PACKET_TOO_LARGE));
        }
        Ok(())
    }

    /// There is no memory for the command: reads the rest of it and keeps its first bytes only.
    async fn skip(&mut self, mut way: Way) -> Result<(), ReadError> {
        let head = self.request.bytes.iter().skip(HEADER_BYTES).take(HEAD_BYTES);
        let head: Vec<u8> = head.copied().collect();
        loop {
            let inbox = &mut self.request.bytes;
            let gone = way.end.min(inbox.len());
            // A new buffer: the old one may be large.
            let mut rest = Vec::with_capacity(IDLE_BYTES);
            rest.extend_from_slice(&inbox[gone..]);
            *inbox = rest;
            self.reservation.shrink(inbox.capacity());
            (way.gone, way.end) = (way.gone + gone, way.end - gone);
            if way.end == 0 && way.last {
                break;
            }
            match Header::parse(inbox) {
                Some(header) if way.end == 0 => self.enter(&mut way, header)?,
                _ => self.receive_more(true).await?,
            }
        }
        let mut frame = Vec::with_capacity(IDLE_BYTES);
        packet::write(&mut frame, &mut 0, &head);
        let bytes = frame.len();
        frame.append(&mut self.request.bytes);
        self.request.restore(frame);
        self.request.go_to(0..bytes);
        self.sequence = way.expected;
        Ok(())
    }

    /// Goes on to the next command when the whole of it has come and it fits one packet; its first
    /// packet has the number 0. False leaves the current command as it is.
    pub fn step(&mut self) -> bool {
        let stepped = self.request.step(self.bytes_max);
        if stepped {
            self.sequence = 1;
        }
        stepped
    }

    /// Makes the command at this place the current one again.
    pub(crate) fn go_back(&mut self, place: Range<usize>) {
        self.request.go_to(place);
        self.sequence = 1;
    }

    /// Notes whether the client has sent more before the answer to the current command, which has
    /// one.
    pub(crate) fn note_pipeline(&mut self) {
        self.pipelines |= self.request.has_more();
    }

    /// Forgets the current command and those before it.
    fn consume(&mut self) {
        let empty = self.request.consume();
        let inbox = &mut self.request.bytes;
        if empty && inbox.capacity() > KEEP_BYTES_MAX {
            *inbox = Vec::with_capacity(IDLE_BYTES);
        }
        self.reservation.shrink(inbox.capacity());
    }

    /// Receives more; `wanted` is how long the buffer is to become.
    async fn fill(&mut self, wanted: usize, inside: bool) -> Result<(), ReadError> {
        let has = self.request.bytes.len();
        // A length is the client's claim: room for it grows with what has really come.
        let room = (wanted - has).min(has.max(GROWTH_BYTES_MIN));
        if self.pipelines && has > 0 {
            self.make_room_ahead();
        }
        let inbox = &mut self.request.bytes;
        if inbox.capacity() - has < room {
            self.reservation.cover(has + room).map_err(ReadError::NoMemory)?;
            inbox.reserve_exact(room);
        }
        self.receive_more(inside).await
    }

    /// Makes room for the commands of a pipeline. Without memory for it they come in smaller pieces.
    fn make_room_ahead(&mut self) {
        let inbox = &mut self.request.bytes;
        let room = PIPELINE_BYTES.saturating_sub(inbox.len());
        if inbox.capacity() - inbox.len() < room && self.reservation.cover_if_free(PIPELINE_BYTES) {
            inbox.reserve_exact(room);
        }
    }

    /// Receives as much as the buffer has room for.
    async fn receive_more(&mut self, inside: bool) -> Result<(), ReadError> {
        let inbox = std::mem::take(&mut self.request.bytes);
        if !inbox.is_empty() {
            self.progress.begin(Wait::Receive);
        }
        let (received, inbox) = match &mut self.sock {
            Some(sock) => sock.recv(inbox).await,
            None => (Ok(0), inbox),
        };
        self.progress.end();
        let nothing = inbox.is_empty();
        self.request.restore(inbox);
        match received {
            Ok(0) if !inside && nothing => Err(ReadError::Closed),
            Ok(0) => Err(ReadError::Broken),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset && !inside => {
                Err(ReadError::Closed)
            }
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                let full = error.get_ref().and_then(|it| it.downcast_ref());
                let full = full.copied().unwrap_or(Full::Process);
                Err(ReadError::Refused(refuse::out_of_memory(full)))
            }
            Err(error) => Err(match PackError::of(&error) {
                Some(PackError::OutOfOrder { .. }) => {
                    ReadError::Refused(error::PACKETS_OUT_OF_ORDER)
                }
                Some(PackError::Damaged) => ReadError::Refused(error::NET_UNCOMPRESS_ERROR),
                None => ReadError::Broken,
            }),
        }
    }

    /// Receives what is no command, behind what the buffer holds. `Ok(0)` is the end.
    pub async fn receive(&mut self, buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        let Some(sock) = &mut self.sock else {
            return (Ok(0), buffer);
        };
        self.progress.begin(Wait::Receive);
        let received = sock.recv(buffer).await;
        self.progress.end();
        received
    }

    /// The client has been told an error that ends the connection, perhaps in the middle of what it sends:
    /// the rest is discarded, within limits, so that the error reaches it.
    pub async fn part(&mut self) {
        if let Some(sock) = &mut self.sock {
            reactor::timeout(PARTING, sock.part(self.bytes_max)).await;
        }
    }

    /// Both directions at the same time, for a stream that has no end.
    pub fn duplex(&mut self) -> Option<Duplex<'_>> {
        self.sock.as_mut().map(Channel::duplex)
    }

    /// The beginning of a short answer.
    fn opening(&mut self, bytes: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes);
        if std::mem::take(&mut self.fast_ok) {
            packet::write_with(&mut out, &mut self.sequence, |payload| {
                AuthMore(&[auth::FAST_OK]).encode(payload);
            });
        }
        out
    }

    async fn transmit(
        &mut self,
        buffer: Vec<u8>,
        range: Range<usize>,
    ) -> (io::Result<()>, Vec<u8>) {
        let Some(sock) = &mut self.sock else {
            return (Err(io::ErrorKind::NotConnected.into()), buffer);
        };
        self.progress.begin(Wait::Send);
        let sent = sock.send(buffer, range).await;
        self.progress.end();
        sent
    }
}

impl ReplySink for Client {
    async fn send(&mut self, buffer: Vec<u8>, range: Range<usize>) -> (io::Result<()>, Vec<u8>) {
        if self.outlet.is_client() {
            return self.transmit(buffer, range).await;
        }
        let part = &buffer[range];
        let passed = self.outlet.pass(part, &self.reservation);
        let sent = match passed {
            None => Ok(()),
            Some(passed) => {
                let all = 0..passed.len();
                self.transmit(passed, all).await.0
            }
        };
        (sent, buffer)
    }

    async fn answer_ok(&mut self, ok: &OkPacket<'_>) -> Result<(), End> {
        if self.outlet.keeps_ok(ok) {
            return Ok(());
        }
        let mut out = self.opening(16);
        let capabilities = self.capabilities;
        packet::write_with(&mut out, &mut self.sequence, |payload| {
            ok.encode(payload, capabilities);
        });
        self.say(out).await
    }

    async fn answer_error(&mut self, refusal: &ErrPacket<'_>) -> Result<(), End> {
        self.refused = refusal.number;
        if self.outlet.keeps_error(refusal) {
            return Ok(());
        }
        let mut out = self.opening(16 + refusal.message.len());
        let capabilities = self.capabilities;
        packet::write_with(&mut out, &mut self.sequence, |payload| {
            refusal.encode(payload, capabilities);
        });
        self.say(out).await
    }

    async fn answer_rows(
        &mut self,
        columns: &[&str],
        rows: &[Row],
        status: Status,
    ) -> Result<(), End> {
        if self.outlet.keeps_rows(columns, rows, &self.reservation) {
            return Ok(());
        }
        let columns: Vec<_> = columns.iter().map(|name| (*name, ColumnKind::VarString)).collect();
        let mut out = Vec::with_capacity(256);
        let capabilities = self.capabilities;
        write_text_result(&mut out, &mut self.sequence, &columns, rows, status, capabilities);
        self.say(out).await
    }
}
