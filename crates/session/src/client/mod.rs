//! The client's side of the wire: commands in, packets out.
//!
//! A command stays in the receive buffer as it came, headers included, so that it can be sent on to
//! a server without a copy. Bytes behind it are the next, pipelined command.

pub(crate) mod answer;
pub(crate) mod end;
pub(crate) mod local_file;
pub(crate) mod play;
mod preface;
pub(crate) mod refuse;
pub(crate) mod request;
pub(crate) mod sink;
pub(crate) mod stall;
pub(crate) mod transcript;
pub(crate) mod transport;

use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use channel::{Algorithm, Channel, Duplex, Fingerprint, PackError, Packing, Presented, Side};
use farm::{ClientError, error};
use memory::{Budget, Full, Purpose, Reservation};
use mysql_wire::Malformed;
use mysql_wire::auth::SALT_BYTES;
use mysql_wire::capability::Capabilities;
use mysql_wire::packet::{self, HEADER_BYTES, Header, PAYLOAD_BYTES_MAX};
use mysql_wire::query::{NO_ATTRIBUTES, Query};

use crate::client::sink::{Outlet, ReplySink};
use crate::client::stall::{Progress, Wait};

/// Receive room of an idle client: what 1,000 idle clients cost is this, a thousand times.
const IDLE_BYTES: usize = 2048;

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
    Broken(io::Error),
    /// The client broke the protocol, or sent more than is allowed; it is told before the end.
    Refused(ClientError),
    /// There was no memory for the command. It has been read to its end, its first bytes stand for it,
    /// and the client can go on when it has been told.
    NoMemory(Full),
}

/// A connected client.
pub struct Client {
    sock: Channel,
    inbox: Vec<u8>,
    /// Where the current command begins in `inbox`. Behind 0 only while the commands of one pipeline
    /// are looked at one after the other.
    start: usize,
    /// Bytes of the current command, all its headers included.
    frame: usize,
    /// The client has sent a command before it had the answer to the one before.
    pub pipelines: bool,
    /// The sequence number of the next packet that we send.
    pub sequence: u8,
    pub capabilities: Capabilities,
    /// What proofs are made for, from the greeting to the last COM_CHANGE_USER, as on the servers:
    /// clients prove themselves anew with the salt that they have.
    pub salt: [u8; SALT_BYTES],
    /// SHA-256 of the certificate that the client was shown.
    pub fingerprint: Option<Box<Fingerprint>>,
    pub(crate) progress: Rc<Progress>,
    /// The login waits for the client's next word.
    pub(crate) owes: bool,
    bytes_max: usize,
    /// For `inbox`.
    pub(crate) reservation: Reservation,
    /// What stood before the text of the current COM_QUERY; empty when it was nothing.
    attributes: Vec<u8>,
    /// What both sides agreed to compress by, once the login is over.
    pub compression: Option<Algorithm>,
    /// Where replies go.
    outlet: Outlet,
    /// The number of the last error that Heddle itself told; 0 for none.
    pub(crate) refused: u16,
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
pub(crate) fn move_to(client: &mut Client, memory: &Arc<Budget>) {
    client.reservation.move_to(memory);
    client.sock.move_to(memory);
}

impl Client {
    /// A client that has not said anything yet.
    pub fn new(sock: Channel, bytes_max: usize, memory: &Arc<Budget>) -> Client {
        let inbox = Vec::with_capacity(IDLE_BYTES);
        let capabilities = Capabilities::empty();
        Client {
            sock,
            inbox,
            start: 0,
            frame: 0,
            pipelines: false,
            sequence: 0,
            salt: [0; SALT_BYTES],
            capabilities,
            fingerprint: None,
            progress: Rc::default(),
            owes: false,
            bytes_max,
            reservation: Reservation::new(memory, Purpose::Packets),
            attributes: Vec::new(),
            compression: None,
            outlet: Outlet::default(),
            refused: 0,
        }
    }

    /// It has logged in: its packets may be so long from now on, and count for its account.
    pub(crate) fn admit(&mut self, bytes_max: usize, memory: &Arc<Budget>) {
        self.bytes_max = bytes_max;
        move_to(self, memory);
    }

    /// The connection, for its address, its closer, and what it knows of TLS.
    pub fn channel(&self) -> &Channel {
        &self.sock
    }

    /// True when nobody on the way can read what the client sends.
    pub fn is_secure(&self) -> bool {
        self.sock.is_secure()
    }

    /// Goes on in TLS, after the request for it. What came behind the request is the beginning of
    /// the handshake, or fails it: nothing that was said in the clear is taken for the client's word.
    pub async fn start_tls(&mut self, presented: &Presented) -> io::Result<()> {
        let early = self.inbox.split_off(self.place().end);
        let config = presented.config.clone();
        self.fingerprint = Some(Box::new(presented.fingerprint));
        self.sock.accept_tls(config, &early).await
    }

    /// The login is over: from here on frames are compressed, if that was agreed.
    pub fn start_compression(&mut self) {
        if let Some(algorithm) = self.compression {
            self.sock.compress(Packing::new(algorithm, Side::Server));
            self.sock.keep_within(self.reservation.another(Purpose::Packets));
        }
    }

    /// Waits for the next whole command, whose first packet must have the number `sequence`.
    pub async fn read(&mut self, sequence: u8) -> Result<(), ReadError> {
        self.consume();
        if sequence == 0 {
            self.sock.new_command();
        }
        let mut way = Way::new(sequence);
        while !way.last {
            let needed = match Header::parse(&self.inbox[way.end..]) {
                Some(header) => {
                    self.enter(&mut way, header)?;
                    way.end
                }
                None => way.end + HEADER_BYTES,
            };
            while self.inbox.len() < needed {
                match self.fill(needed, way.end > 0).await {
                    Err(ReadError::NoMemory(full)) => {
                        self.skip(way).await?;
                        return Err(ReadError::NoMemory(full));
                    }
                    filled => filled?,
                }
            }
        }
        self.frame = way.end;
        self.sequence = way.expected;
        Ok(())
    }

    /// This is the header of the command's next packet.
    fn enter(&mut self, way: &mut Way, header: Header) -> Result<(), ReadError> {
        self.sequence = header.sequence.wrapping_add(1);
        if header.sequence != way.expected && !self.sock.is_compressed() {
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
        let head = self.inbox.iter().skip(HEADER_BYTES).take(HEAD_BYTES);
        let head: Vec<u8> = head.copied().collect();
        loop {
            let gone = way.end.min(self.inbox.len());
            // A new buffer: the old one may be large.
            let mut rest = Vec::with_capacity(IDLE_BYTES);
            rest.extend_from_slice(&self.inbox[gone..]);
            self.inbox = rest;
            self.reservation.shrink(self.inbox.capacity());
            (way.gone, way.end) = (way.gone + gone, way.end - gone);
            if way.end == 0 && way.last {
                break;
            }
            match Header::parse(&self.inbox) {
                Some(header) if way.end == 0 => self.enter(&mut way, header)?,
                _ => self.receive_more(true).await?,
            }
        }
        let mut frame = Vec::with_capacity(IDLE_BYTES);
        packet::write(&mut frame, &mut 0, &head);
        self.frame = frame.len();
        frame.append(&mut self.inbox);
        self.inbox = frame;
        self.sequence = way.expected;
        Ok(())
    }

    /// Goes on to the next command when the whole of it has come and it fits one packet; its first
    /// packet has the number 0. False leaves the current command as it is.
    pub fn step(&mut self) -> bool {
        let at = self.start + self.frame;
        let Some(header) = Header::parse(&self.inbox[at..]) else {
            return false;
        };
        let frame = HEADER_BYTES + header.payload_bytes;
        let fits = header.payload_bytes < PAYLOAD_BYTES_MAX && frame <= self.bytes_max;
        if header.sequence != 0 || header.payload_bytes == 0 || !fits {
            return false;
        }
        if self.inbox.len() - at < frame {
            return false;
        }
        (self.start, self.frame, self.sequence) = (at, frame, 1);
        true
    }

    /// Where the current command lies, for [`Client::go_back`].
    pub fn place(&self) -> Range<usize> {
        self.start..self.start + self.frame
    }

    /// Makes the command at this place the current one again.
    pub fn go_back(&mut self, place: Range<usize>) {
        (self.start, self.frame, self.sequence) = (place.start, place.len(), 1);
    }

    /// Notes whether the client has sent more before the answer to the current command, which has
    /// one.
    pub fn note_pipeline(&mut self) {
        self.pipelines |= self.has_more();
    }

    /// Bytes have come behind the current command.
    pub fn has_more(&self) -> bool {
        self.inbox.len() > self.start + self.frame
    }

    /// Forgets the current command and those before it.
    fn consume(&mut self) {
        let end = self.start + self.frame;
        self.start = 0;
        if self.inbox.len() > end {
            self.inbox.drain(..end);
        } else {
            self.inbox.clear();
            if self.inbox.capacity() > KEEP_BYTES_MAX {
                self.inbox = Vec::with_capacity(IDLE_BYTES);
            }
        }
        self.reservation.shrink(self.inbox.capacity());
        self.frame = 0;
    }

    /// Receives more; `wanted` is how long the buffer is to become.
    async fn fill(&mut self, wanted: usize, inside: bool) -> Result<(), ReadError> {
        // A length is the client's claim: room for it grows with what has really come.
        let room = (wanted - self.inbox.len()).min(self.inbox.len().max(IDLE_BYTES));
        if self.pipelines && !self.inbox.is_empty() {
            self.make_room_ahead();
        }
        if self.inbox.capacity() - self.inbox.len() < room {
            let covered = self.reservation.cover(self.inbox.len() + room);
            covered.map_err(ReadError::NoMemory)?;
            self.inbox.reserve_exact(room);
        }
        self.receive_more(inside).await
    }

    /// Makes room for the commands of a pipeline. Without memory for it they come in smaller pieces.
    fn make_room_ahead(&mut self) {
        let room = PIPELINE_BYTES.saturating_sub(self.inbox.len());
        if self.inbox.capacity() - self.inbox.len() < room
            && self.reservation.cover_if_free(PIPELINE_BYTES)
        {
            self.inbox.reserve_exact(room);
        }
    }

    /// Receives as much as the buffer has room for.
    async fn receive_more(&mut self, inside: bool) -> Result<(), ReadError> {
        if !self.inbox.is_empty() {
            self.progress.begin(Wait::Receive);
        }
        let (received, inbox) = self.sock.recv(std::mem::take(&mut self.inbox)).await;
        self.progress.end();
        self.inbox = inbox;
        match received {
            Ok(0) if !inside && self.inbox.is_empty() => Err(ReadError::Closed),
            Ok(0) => Err(ReadError::Broken(io::ErrorKind::UnexpectedEof.into())),
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
                None => ReadError::Broken(error),
            }),
        }
    }

    /// The payload of the current command's first packet: the whole command unless it has 16 MB.
    pub fn payload(&self) -> &[u8] {
        let frame = self.frame();
        let first = Header::parse(frame).map_or(0, |header| header.payload_bytes);
        &frame[HEADER_BYTES..HEADER_BYTES + first]
    }

    /// The current command with all its headers.
    pub fn frame(&self) -> &[u8] {
        &self.inbox[self.start..self.start + self.frame]
    }

    /// The current command and so many bytes of those behind it, with all their headers.
    pub fn frames(&self, behind: usize) -> &[u8] {
        &self.inbox[self.start..self.start + self.frame + behind]
    }

    /// True when the command is longer than one packet can be.
    pub fn is_split(&self) -> bool {
        self.frame > HEADER_BYTES + PAYLOAD_BYTES_MAX
    }

    /// Lends the buffer that holds the current command, to send it on; give it back with
    /// [`Client::restore`].
    pub fn lend(&mut self) -> (Vec<u8>, Range<usize>) {
        (std::mem::take(&mut self.inbox), self.place())
    }

    /// Takes the lent buffer back.
    pub fn restore(&mut self, inbox: Vec<u8>) {
        self.inbox = inbox;
    }

    /// Takes the attributes off the current COM_QUERY, which then is as any other.
    pub fn take_attributes(&mut self) -> Result<(), Malformed> {
        let mut attributes = std::mem::take(&mut self.attributes);
        attributes.clear();
        let query = Query::decode(self.payload().get(1..).unwrap_or_default())?;
        let bytes = query.attributes.len();
        if query.attributes != NO_ATTRIBUTES {
            attributes.extend_from_slice(query.attributes);
        }
        let start = self.start;
        if self.is_split() {
            let mut payload = packet::joined(self.frame());
            payload.drain(1..=bytes);
            let mut plain = Vec::with_capacity(self.frame);
            packet::write(&mut plain, &mut 0, &payload);
            let frame = plain.len();
            self.inbox.splice(self.place(), plain);
            self.frame = frame;
        } else {
            self.frame -= bytes;
            let header = Header {
                payload_bytes: self.frame - HEADER_BYTES,
                sequence: self.inbox[start + 3],
            };
            let first = start + HEADER_BYTES + 1;
            self.inbox.drain(first..first + bytes);
            self.inbox[start..start + HEADER_BYTES].copy_from_slice(&header.encode());
        }
        self.attributes = attributes;
        Ok(())
    }

    /// The current COM_QUERY as it came, with this comment in front of its text, for a server that
    /// takes attributes.
    pub fn with_attributes(&self, comment: &str) -> Vec<u8> {
        let payload = packet::joined(self.frame());
        let attributes = match &self.attributes[..] {
            [] => &NO_ATTRIBUTES,
            some => some,
        };
        let mut out = Vec::with_capacity(payload.len() + attributes.len() + HEADER_BYTES);
        packet::write_with(&mut out, &mut 0, |out| {
            out.push(payload[0]);
            Query {
                attributes,
                text: comment.as_bytes(),
            }
            .encode(out);
            out.extend_from_slice(&payload[1..]);
        });
        out
    }

    /// Moves what the client has sent behind the current command to the end of `buffer`: the
    /// beginning of the file that the command asks it for.
    pub fn take_rest(&mut self, buffer: &mut Vec<u8>) {
        let end = self.place().end;
        buffer.extend_from_slice(&self.inbox[end..]);
        self.inbox.truncate(end);
    }

    /// Takes back bytes that belong to the next command.
    pub fn give_rest(&mut self, bytes: &[u8]) {
        self.inbox.extend_from_slice(bytes);
    }

    /// Receives what is no command, behind what the buffer holds. `Ok(0)` is the end.
    pub async fn receive(&mut self, buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        self.progress.begin(Wait::Receive);
        let received = self.sock.recv(buffer).await;
        self.progress.end();
        received
    }

    /// The client has been told an error that ends the connection, perhaps in the middle of what it sends:
    /// the rest is discarded, within limits, so that the error reaches it.
    pub(crate) async fn part(&mut self) {
        reactor::timeout(PARTING, self.sock.part(self.bytes_max)).await;
    }

    /// Both directions at the same time, for a stream that has no end.
    pub fn duplex(&mut self) -> Duplex<'_> {
        self.sock.duplex()
    }

    /// Puts another text in the place of the current COM_QUERY's or COM_STMT_PREPARE's.
    pub fn replace_text(&mut self, text: &[u8]) {
        let mut payload = Vec::with_capacity(text.len() + 1);
        payload.push(self.payload()[0]);
        payload.extend_from_slice(text);
        let mut command = Vec::with_capacity(text.len() + HEADER_BYTES + 1);
        packet::write(&mut command, &mut 0, &payload);
        let bytes = command.len();
        let place = self.place();
        self.inbox.splice(place, command);
        self.frame = bytes;
    }

    /// Writes over bytes of the current command, counted from the start of its payload.
    pub fn patch(&mut self, at: usize, bytes: &[u8]) {
        let start = self.start + HEADER_BYTES + at;
        self.inbox[start..start + bytes.len()].copy_from_slice(bytes);
    }
}

impl ReplySink for Client {
    async fn send(&mut self, buffer: Vec<u8>, range: Range<usize>) -> (io::Result<()>, Vec<u8>) {
        if self.outlet.is_client() {
            self.progress.begin(Wait::Send);
            let sent = self.sock.send(buffer, range).await;
            self.progress.end();
            return sent;
        }
        let part = &buffer[range];
        let passed = self.outlet.pass(part, &self.reservation, self.capabilities);
        let sent = match passed {
            None => Ok(()),
            Some(passed) => {
                let all = 0..passed.len();
                self.progress.begin(Wait::Send);
                let (sent, _) = self.sock.send(passed, all).await;
                self.progress.end();
                sent
            }
        };
        (sent, buffer)
    }
}
