//! Walks a server's reply as it streams past, and changes only what this client must see differently.
//!
//! The server side always speaks with DEPRECATE_EOF and SESSION_TRACK; the client may have neither.
//! So an EOF packet is put in behind the column definitions, the final OK becomes an EOF, session
//! changes are taken out, and later sequence numbers move up. Rows are never looked into: a row that
//! is larger than the buffer passes through in pieces. All edits happen in the receive buffer itself.
//!
//! Source: MySQL internals, «COM_QUERY Response», «COM_STMT_PREPARE Response», «OK_Packet»; the rule
//! that a reply which opens a cursor has one EOF only is from the servers' own behaviour.

mod control;

use self::control::{end_status, insert};
use crate::Malformed;
use crate::capability::Capabilities;
use crate::local_file::FileWalk;
use crate::packet::{HEADER_BYTES, Header, PAYLOAD_BYTES_MAX};
use crate::reply::{EOF_BYTES, EofPacket, SessionChange, Shown};
use crate::result::Column;
use crate::statement::PrepareOk;
use crate::status::Status;

/// The receive buffer that a reply is walked in, to begin with: most replies fit, and larger packets
/// pass through it in pieces.
pub const BUFFER_BYTES: usize = 16_384;

/// So far is looked for the end of a result whose beginning must say whether another follows. The
/// servers send a smaller one in one piece, so nobody waits for its rows without need.
const AHEAD_BYTES_MAX: usize = BUFFER_BYTES;

/// So many rows that have come are looked over for their end where nothing depends on it.
const AHEAD_ROWS_MAX: usize = 256;

/// What ends rows is an OK without session changes to speak of; a longer packet is a row.
const END_BYTES_MAX: usize = 4096;

/// What kind of reply is expected: it depends on the command that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// COM_QUERY, COM_STMT_EXECUTE: OK, ERR, or result sets.
    Results,
    /// COM_STMT_EXECUTE that asks for a cursor: like `Results`, but a first result that opens the
    /// cursor has no rows. Elsewhere the flag for it means nothing: MariaDB leaves it set in what a
    /// cursor loop of a stored program sends.
    Cursor,
    /// COM_STMT_EXECUTE of a CALL: like `Results`, but one of the results may be the OUT parameters.
    Call,
    /// COM_STMT_PREPARE; the statement id is replaced by the client's own.
    Prepare { client_id: u32 },
    /// COM_STMT_FETCH: rows and their end.
    Rows,
    /// COM_FIELD_LIST: column definitions and their end.
    Columns,
    /// One packet, whatever it is.
    Single,
}

/// What the reply said, for the session that relays it. Of several results, the last one counts.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The flags of the last OK or EOF; meaningless when `error` is set.
    pub status: Option<Status>,
    /// The number of the ERR packet that ended the reply.
    pub error: Option<u16>,
    pub affected_rows: u64,
    pub last_insert_id: u64,
    pub warnings: u16,
    /// Rows of all result sets.
    pub rows: u64,
    /// The last result was a result set, with rows or without.
    pub has_rows: bool,
    /// The server's answer to COM_STMT_PREPARE, with its own statement id.
    pub prepared: Option<PrepareOk>,
}

/// How far a call of [`Relay::advance`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// This many bytes at the front of the buffer may go to the client now.
    pub forward: usize,
    /// The reply is complete.
    pub done: bool,
    /// The buffer must be able to hold this many bytes before the walk can go on; 0 when any
    /// further byte helps.
    pub need: usize,
    /// The server asks the client for a file (LOAD DATA LOCAL); the reply goes on after it.
    pub wants_file: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    First,
    /// Column definitions still to come, and what follows them.
    Columns(u64, Then),
    Rows,
    FieldList,
    Single,
    PrepareFirst,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Rows,
    /// The result columns of a prepared statement, this many.
    PreparedColumns(u16),
    Done,
}

/// One reply on its way from a server to a client. Pure: buffers in, positions out.
pub struct Relay {
    state: State,
    client_id: u32,
    /// A cursor was asked for.
    cursor: bool,
    /// A result may be followed by others.
    several: bool,
    client: Capabilities,
    server: Capabilities,
    /// The session changes that the client is to see.
    shown: Shown,
    /// The flags that an inserted EOF carries: what the session last heard.
    status: Status,
    /// Added to every sequence number: how many packets were put in.
    shift: u8,
    /// The sequence number that the next packet to the client has.
    next_sequence: u8,
    /// Bytes of an oversized packet that still pass through unread.
    passing: usize,
    /// The packet before was a full 16 MB one, so the next belongs to it.
    continued: bool,
    /// An EOF is due before the next packet, unless that one opens a cursor.
    eof_due: bool,
    outcome: Outcome,
}

impl Relay {
    /// Prepares to walk one reply. `client` and `server` are the negotiated capabilities of both
    /// sides; `status` is what the session last heard.
    pub fn new(
        expect: Expect,
        client: Capabilities,
        server: Capabilities,
        status: Status,
    ) -> Relay {
        let (state, client_id) = match expect {
            Expect::Results | Expect::Cursor | Expect::Call => (State::First, 0),
            Expect::Prepare { client_id } => (State::PrepareFirst, client_id),
            Expect::Rows => (State::Rows, 0),
            Expect::Columns => (State::FieldList, 0),
            Expect::Single => (State::Single, 0),
        };
        Relay {
            state,
            client_id,
            cursor: expect == Expect::Cursor,
            several: expect == Expect::Call,
            client,
            server,
            shown: Shown::Usual,
            status: status - Status::SESSION_STATE_CHANGED - Status::MORE_RESULTS,
            shift: 0,
            next_sequence: 1,
            passing: 0,
            continued: false,
            eof_due: false,
            outcome: Outcome::default(),
        }
    }

    /// Has the client see these session changes; without this, those that servers report by default.
    pub fn showing(mut self, shown: Shown) -> Relay {
        self.shown = shown;
        self
    }

    /// Says that the command may have more than one result: a client without DEPRECATE_EOF is told so
    /// in front of the rows.
    pub fn of_several(mut self, several: bool) -> Relay {
        self.several |= several;
        self
    }

    /// What is known so far; complete once a call returned `done`.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// The sequence number for a packet of our own that follows what was forwarded; `None` in the
    /// middle of a packet, where nothing can follow.
    pub fn next_sequence(&self) -> Option<u8> {
        (self.passing == 0 && !self.continued).then_some(self.next_sequence)
    }

    /// Walks the bytes of `buffer` from `start` on, where the last call's `forward` ended, and edits
    /// them in place. `on_change` hears every session change that the server reports. Bytes behind
    /// `forward` must be there again in the next call. Fails when the server breaks the protocol;
    /// then neither connection can go on.
    pub fn advance(
        &mut self,
        buffer: &mut Vec<u8>,
        start: usize,
        on_change: &mut dyn FnMut(SessionChange<'_>),
    ) -> Result<Progress, Malformed> {
        let mut at = start + self.pass(buffer.len() - start);
        let mut wants_file = false;
        let mut need = 0;
        while self.passing == 0 && self.state != State::Done && !wants_file {
            at = self.pass_rows(buffer, at);
            let Some(header) = Header::parse(&buffer[at..]) else {
                break;
            };
            let total = HEADER_BYTES + header.payload_bytes;
            let whole = buffer.len() - at >= total;
            let opaque = self.is_opaque(&buffer[at..], header);
            // Definitions of columns are counted when they end, so they are not taken apart.
            let parts = opaque && !matches!(self.state, State::Columns(_, _));
            if !whole && (!parts || total <= buffer.capacity().max(PASS_BYTES_MIN)) {
                // Without the first payload byte nobody knows yet what this packet is.
                let known = opaque || buffer.len() - at > HEADER_BYTES;
                need = if known { total } else { 0 };
                break;
            }
            if self.eof_due && !self.opens_cursor(&buffer[at..], header) {
                match self.status_ahead(&buffer[at..]) {
                    Ok(status) => at += self.put_eof(buffer, at, status),
                    Err(more) => {
                        need = more;
                        break;
                    }
                }
            }
            buffer[at + 3] = header.sequence.wrapping_add(self.shift);
            self.next_sequence = buffer[at + 3].wrapping_add(1);
            if !whole {
                self.begin_row(header);
                self.passing = total - (buffer.len() - at);
                at = buffer.len();
            } else if opaque {
                self.begin_row(header);
                self.look_at_column(&buffer[at + HEADER_BYTES..at + total]);
                at += total;
                self.after_column();
                if self.eof_due && self.state == State::Done {
                    at += self.put_eof(buffer, at, self.status);
                }
            } else {
                wants_file = self.control(buffer, &mut at, header, on_change)?;
            }
        }
        Ok(Progress {
            forward: at,
            done: self.state == State::Done,
            need,
            wants_file,
        })
    }

    /// Lets bytes of an oversized packet pass; returns how many.
    fn pass(&mut self, available: usize) -> usize {
        let bytes = self.passing.min(available);
        self.passing -= bytes;
        bytes
    }

    /// Counts and numbers the whole rows that come next, and returns where they end. The same happens to them in
    /// [`Relay::advance`]: most of a long result is these.
    fn pass_rows(&mut self, buffer: &mut [u8], mut at: usize) -> usize {
        if self.state != State::Rows || self.continued || self.eof_due {
            return at;
        }
        while let Some(&[low, middle, high, sequence, first]) = buffer[at..].first_chunk() {
            let payload_bytes = u32::from_le_bytes([low, middle, high, 0]) as usize;
            let end = at + HEADER_BYTES + payload_bytes;
            let whole = end <= buffer.len() && payload_bytes < PAYLOAD_BYTES_MAX;
            // What begins so may end the rows.
            if !whole || payload_bytes == 0 || first >= 0xFE {
                break;
            }
            let sequence = sequence.wrapping_add(self.shift);
            buffer[at + 3] = sequence;
            self.next_sequence = sequence.wrapping_add(1);
            self.outcome.rows += 1;
            at = end;
        }
        at
    }

    /// True for a packet whose payload does not matter: a row or a column definition. Needs the
    /// first payload byte to tell a row from what ends it; without one the answer is false.
    fn is_opaque(&self, bytes: &[u8], header: Header) -> bool {
        if self.continued {
            return true;
        }
        let first = match header.payload_bytes {
            0 => None,
            _ => bytes.get(HEADER_BYTES).copied(),
        };
        let ends = matches!((first, header.payload_bytes), (Some(0xFF), _) | (None, _))
            || (first == Some(0xFE) && header.payload_bytes < PAYLOAD_BYTES_MAX);
        match self.state {
            State::Columns(_, _) => first.is_some() && first != Some(0xFF),
            State::Rows | State::FieldList => !ends,
            _ => false,
        }
    }

    /// Counts a row, and remembers whether the next packet continues this one.
    fn begin_row(&mut self, header: Header) {
        if self.state == State::Rows && !self.continued {
            self.outcome.rows += 1;
        }
        self.continued = header.payload_bytes == PAYLOAD_BYTES_MAX;
    }

    /// Notes of a prepared statement's column what its values lose as text.
    fn look_at_column(&mut self, payload: &[u8]) {
        if let (State::Columns(_, Then::Done), Some(reply)) =
            (self.state, &mut self.outcome.prepared)
        {
            let column = Column::decode(payload, self.server);
            reply.cuts_digits |= column.is_ok_and(|column| column.cuts_digits());
        }
    }

    /// Counts a column definition down, once its last part has passed.
    fn after_column(&mut self) {
        if self.continued {
            return;
        }
        let State::Columns(left, then) = self.state else {
            return;
        };
        if left > 1 {
            self.state = State::Columns(left - 1, then);
            return;
        }
        self.eof_due = !self.client.contains(Capabilities::DEPRECATE_EOF);
        self.state = match then {
            Then::Rows => State::Rows,
            Then::PreparedColumns(0) => State::Done,
            Then::PreparedColumns(n) => State::Columns(u64::from(n), Then::Done),
            Then::Done => State::Done,
        };
    }

    /// True for the end of a reply that opens a cursor: there the servers send one EOF for the
    /// column definitions and the absent rows.
    fn opens_cursor(&mut self, bytes: &[u8], header: Header) -> bool {
        let payload = &bytes[HEADER_BYTES..];
        let opens = self.cursor
            && self.state == State::Rows
            && payload.first() == Some(&0xFE)
            && payload.len() >= header.payload_bytes
            && end_status(&payload[..header.payload_bytes], self.server)
                .is_ok_and(|status| status.contains(Status::CURSOR_EXISTS));
        self.eof_due &= !opens;
        opens
    }

    /// The flags of the EOF behind column definitions: by them clients tell OUT parameters from a
    /// result, and the last result from others. The servers know them by then; here they stand in the
    /// packet behind the rows, and the first row of one of several results waits for that unless it
    /// is far away. `bytes` begin with the first packet behind the definitions. `Err` is how many
    /// bytes must be there.
    fn status_ahead(&self, bytes: &[u8]) -> Result<Status, usize> {
        if self.state != State::Rows {
            return Ok(self.status);
        }
        let guess = match self.several {
            true => self.status | Status::MORE_RESULTS,
            false => self.status,
        };
        let (mut at, mut rows) = (0, 0);
        loop {
            let header = Header::parse(&bytes[at.min(bytes.len())..]);
            let end = at + HEADER_BYTES + header.map_or(0, |header| header.payload_bytes);
            if end > AHEAD_BYTES_MAX {
                return Ok(guess);
            }
            match header.and_then(|_| bytes.get(at + HEADER_BYTES..end)) {
                None if self.several => return Err(end),
                None | Some([0xFF, ..]) => return Ok(guess),
                Some(payload @ [0xFE, ..]) if payload.len() <= END_BYTES_MAX => {
                    let told = end_status(payload, self.server).unwrap_or(guess);
                    return Ok(in_front(told));
                }
                Some(_) if rows == AHEAD_ROWS_MAX && !self.several => return Ok(guess),
                Some(_) => (at, rows) = (end, rows + 1),
            }
        }
    }

    /// Inserts the EOF that the client expects behind column definitions; returns its length.
    fn put_eof(&mut self, buffer: &mut Vec<u8>, at: usize, status: Status) -> usize {
        self.eof_due = false;
        let eof = EofPacket {
            warnings: 0,
            status,
        };
        let header = Header {
            payload_bytes: EOF_BYTES,
            sequence: self.next_sequence,
        };
        let mut packet = [0; HEADER_BYTES + EOF_BYTES];
        packet[..HEADER_BYTES].copy_from_slice(&header.encode());
        packet[HEADER_BYTES..].copy_from_slice(&eof.bytes());
        self.shift = self.shift.wrapping_add(1);
        self.next_sequence = self.next_sequence.wrapping_add(1);
        insert(buffer, at, &packet);
        packet.len()
    }

    /// The walk over the file that the server has asked for.
    pub fn file(&self) -> FileWalk {
        FileWalk::new(self.next_sequence, self.shift)
    }

    /// After LOAD DATA LOCAL's file: the reply goes on where the client's last packet was.
    pub fn file_sent(&mut self, file: &FileWalk) {
        self.next_sequence = file.next_sequence();
    }
}

/// What a server that ends its rows with these flags says in front of them.
fn in_front(told: Status) -> Status {
    let mut status = told - Status::SESSION_STATE_CHANGED - Status::SLOW;
    // MySQL says this in front of OUT parameters, and not behind them.
    if told.contains(Status::PS_OUT_PARAMS) {
        status |= Status::MORE_RESULTS;
    }
    status
}

/// A packet is passed through in pieces only when it is larger than this and than the buffer.
const PASS_BYTES_MIN: usize = 4096;
