//! The packets of a reply that decide something: OK, ERR, EOF, counts of columns. What the client
//! must see differently is changed here.

use std::ops::Range;

use super::{Relay, State, Then};
use crate::Malformed;
use crate::capability::Capabilities;
use crate::packet::{HEADER_BYTES, Header};
use crate::reply::{
    EOF_BYTES, EofPacket, ErrPacket, OkPacket, SessionChange, Shown, quieten, session_changes,
};
use crate::scalar::Reader;
use crate::statement::PrepareOk;
use crate::status::Status;

/// The number of the error packets by which MariaDB reports progress, in the middle of a reply.
const PROGRESS: u16 = 0xFFFF;

impl Relay {
    /// A whole packet that decides something. Moves `at` behind it. True when the server asks for
    /// a file.
    pub(super) fn control(
        &mut self,
        buffer: &mut Vec<u8>,
        at: &mut usize,
        header: Header,
        on_change: &mut dyn FnMut(SessionChange<'_>),
    ) -> Result<bool, Malformed> {
        let start = *at + HEADER_BYTES;
        let end = start + header.payload_bytes;
        *at = end;
        let first = buffer[start..end].first().copied();
        match (self.state, first) {
            (State::Single, _) => {
                self.single(buffer, at, start..end, on_change)?;
                self.state = State::Done;
            }
            (_, None) => {
                return Err(Malformed {
                    what: "an empty packet in a reply",
                });
            }
            (_, Some(0xFF)) => {
                let number = ErrPacket::decode(&buffer[start..end], self.server)?.number;
                let reports = self.server.contains(Capabilities::MARIADB_PROGRESS);
                if !(reports && number == PROGRESS) {
                    self.outcome.error = Some(number);
                    self.state = State::Done;
                }
            }
            (State::First, Some(0x00)) => self.ok(buffer, at, start..end, on_change)?,
            (State::First, Some(0xFB)) => return Ok(true),
            (State::First, Some(_)) => self.begin_result(buffer, at, start..end)?,
            (State::Rows | State::FieldList, Some(0xFE)) => {
                self.end_of_rows(buffer, at, start..end, on_change)?;
            }
            (State::PrepareFirst, Some(0x00)) => self.prepared(buffer, at, start..end)?,
            _ => {
                return Err(Malformed {
                    what: "a packet that this reply cannot have",
                });
            }
        }
        Ok(false)
    }

    /// The number of columns, and whether their definitions follow: servers may leave them out under
    /// OPTIONAL_RESULTSET_METADATA.
    fn begin_result(
        &mut self,
        buffer: &mut Vec<u8>,
        at: &mut usize,
        range: Range<usize>,
    ) -> Result<(), Malformed> {
        let mut reader = Reader::new(&buffer[range.clone()]);
        let columns = reader.lenenc_int()?;
        let described = !self.tells(self.server) || reader.is_empty() || reader.u8()? != 0;
        if described {
            self.state = State::Columns(columns, Then::Rows);
        } else {
            self.eof_due = !self.client.contains(Capabilities::DEPRECATE_EOF);
            self.state = State::Rows;
        }
        self.say_described(buffer, at, range);
        Ok(())
    }

    /// True for a side whose messages say whether definitions of columns follow.
    fn tells(&self, side: Capabilities) -> bool {
        side.intersects(
            Capabilities::OPTIONAL_RESULTSET_METADATA | Capabilities::MARIADB_CACHE_METADATA,
        )
    }

    /// Says to a client that reads this byte that definitions follow, where the server has not.
    fn say_described(&self, buffer: &mut Vec<u8>, at: &mut usize, range: Range<usize>) {
        if self.tells(self.client) && !self.tells(self.server) {
            set_length(buffer, range.start, range.len() + 1);
            insert(buffer, range.end, &[1]);
            *at = range.end + 1;
        }
    }

    fn prepared(
        &mut self,
        buffer: &mut Vec<u8>,
        at: &mut usize,
        range: Range<usize>,
    ) -> Result<(), Malformed> {
        let payload = &mut buffer[range.clone()];
        let reply = PrepareOk::decode(payload)?;
        payload[1..5].copy_from_slice(&self.client_id.to_le_bytes());
        let optional = Capabilities::OPTIONAL_RESULTSET_METADATA;
        let described = !self.server.contains(optional) || payload.get(12) != Some(&0);
        if self.client.contains(optional) {
            self.say_described(buffer, at, range);
        }
        let parts = [reply.params, reply.columns];
        if !described && !self.client.contains(Capabilities::DEPRECATE_EOF) {
            // The ends of the definitions are not optional.
            for _ in parts.iter().filter(|count| **count > 0) {
                *at += self.put_eof(buffer, *at, self.status);
            }
        }
        self.state = match (reply.params, reply.columns) {
            _ if !described => State::Done,
            (0, 0) => State::Done,
            (0, columns) => State::Columns(u64::from(columns), Then::Done),
            (params, columns) => State::Columns(u64::from(params), Then::PreparedColumns(columns)),
        };
        self.outcome.warnings = reply.warnings;
        self.outcome.prepared = Some(reply);
        Ok(())
    }

    /// The one packet of a simple command: OK is read and edited, ERR is noted, anything else (the
    /// text of COM_STATISTICS) passes.
    fn single(
        &mut self,
        buffer: &mut Vec<u8>,
        at: &mut usize,
        range: Range<usize>,
        on_change: &mut dyn FnMut(SessionChange<'_>),
    ) -> Result<(), Malformed> {
        match buffer[range.clone()].first() {
            Some(0x00) => self.ok(buffer, at, range, on_change),
            Some(0xFF) => {
                self.outcome.error = Some(ErrPacket::decode(&buffer[range], self.server)?.number);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn ok(
        &mut self,
        buffer: &mut Vec<u8>,
        at: &mut usize,
        range: Range<usize>,
        on_change: &mut dyn FnMut(SessionChange<'_>),
    ) -> Result<(), Malformed> {
        let (more, edit) = {
            let ok = OkPacket::decode(&buffer[range.clone()], self.server)?;
            let seen = self.note(&ok, on_change)?;
            self.outcome.has_rows = false;
            (
                ok.status.contains(Status::MORE_RESULTS),
                self.edit_ok(&ok, seen)?,
            )
        };
        edit.make(buffer, at, range)?;
        self.state = if more { State::First } else { State::Done };
        Ok(())
    }

    fn end_of_rows(
        &mut self,
        buffer: &mut Vec<u8>,
        at: &mut usize,
        range: Range<usize>,
        on_change: &mut dyn FnMut(SessionChange<'_>),
    ) -> Result<(), Malformed> {
        let payload = &buffer[range.clone()];
        self.outcome.has_rows = true;
        let (status, edit) = if payload.len() < 7 {
            // A plain EOF: a server that lacks DEPRECATE_EOF for this command.
            let eof = EofPacket::decode(payload)?;
            self.outcome.status = Some(eof.status);
            self.outcome.warnings = eof.warnings;
            (eof.status, Edit::None)
        } else {
            let ok = OkPacket::decode(payload, self.server)?;
            let seen = self.note(&ok, on_change)?;
            let edit = if self.client.contains(Capabilities::DEPRECATE_EOF) {
                self.edit_ok(&ok, seen)?
            } else {
                let status = ok.status - Status::SESSION_STATE_CHANGED;
                Edit::Eof(EofPacket {
                    warnings: ok.warnings,
                    status,
                })
            };
            (ok.status, edit)
        };
        edit.make(buffer, at, range)?;
        let more = status.contains(Status::MORE_RESULTS) && self.state == State::Rows;
        self.state = if more { State::First } else { State::Done };
        Ok(())
    }

    /// Takes note of an OK. True when the client is to see any of its session changes.
    fn note(
        &mut self,
        ok: &OkPacket<'_>,
        on_change: &mut dyn FnMut(SessionChange<'_>),
    ) -> Result<bool, Malformed> {
        self.outcome.status = Some(ok.status);
        self.outcome.affected_rows = ok.affected_rows;
        self.outcome.last_insert_id = ok.last_insert_id;
        self.outcome.warnings = ok.warnings;
        self.status = ok.status - Status::SESSION_STATE_CHANGED - Status::MORE_RESULTS;
        let tracks = self.client.contains(Capabilities::SESSION_TRACK);
        let mut seen = false;
        for change in session_changes(ok.session_state) {
            let change = change?;
            seen |= tracks && self.shown.shows(&change);
            on_change(change);
        }
        Ok(seen)
    }

    /// What makes of the OK the one that this client must see; `seen`: with some of its session changes.
    fn edit_ok(&self, ok: &OkPacket<'_>, seen: bool) -> Result<Edit, Malformed> {
        let changed = ok.status.contains(Status::SESSION_STATE_CHANGED);
        if ok.info.is_empty() && ok.session_state.is_empty() && !changed {
            return Ok(Edit::None);
        }
        if !seen {
            return Ok(Edit::Quieten);
        }
        let mut state = Vec::new();
        keep_visible(ok.session_state, &self.shown, &mut state)?;
        let edited = OkPacket {
            session_state: &state,
            status: ok.status | Status::SESSION_STATE_CHANGED,
            ..*ok
        };
        let mut payload = Vec::with_capacity(OK_BYTES_MAX + ok.info.len() + state.len());
        edited.encode(&mut payload, self.client);
        Ok(Edit::Anew(payload))
    }
}

/// What becomes of a packet's payload.
enum Edit {
    None,
    /// It is an OK of whose session changes this client sees none: what nearly every write's is.
    Quieten,
    /// The EOF of those who know no OK at the end of rows takes its place: it is shorter.
    Eof(EofPacket),
    /// This one takes its place.
    Anew(Vec<u8>),
}

impl Edit {
    /// Edits the packet whose payload lies at `range`, and moves `at` behind it.
    fn make(
        self,
        buffer: &mut Vec<u8>,
        at: &mut usize,
        range: Range<usize>,
    ) -> Result<(), Malformed> {
        match self {
            Edit::None => {}
            Edit::Quieten => {
                let bytes = quieten(&mut buffer[range.clone()])?;
                shorten(buffer, at, range, bytes);
            }
            Edit::Eof(eof) => {
                let place = range.start..range.start + EOF_BYTES;
                buffer[place].copy_from_slice(&eof.bytes());
                shorten(buffer, at, range, EOF_BYTES);
            }
            Edit::Anew(payload) => replace(buffer, at, range, &payload),
        }
        Ok(())
    }
}

/// An OK packet without its texts: header, two numbers, status, warnings, and the texts' lengths.
const OK_BYTES_MAX: usize = 1 + 9 + 9 + 2 + 2 + 9 + 9;

/// Copies from a session-state block what this client is to see.
fn keep_visible(block: &[u8], shown: &Shown, out: &mut Vec<u8>) -> Result<(), Malformed> {
    for change in session_changes(block) {
        let change = change?;
        if shown.shows(&change) {
            change.encode(out);
        }
    }
    Ok(())
}

pub(super) fn end_status(payload: &[u8], server: Capabilities) -> Result<Status, Malformed> {
    if payload.len() < 7 {
        return Ok(EofPacket::decode(payload)?.status);
    }
    Ok(OkPacket::decode(payload, server)?.status)
}

/// Puts another payload where the packet's own is, and moves `at` behind it.
fn replace(buffer: &mut Vec<u8>, at: &mut usize, range: Range<usize>, payload: &[u8]) {
    set_length(buffer, range.start, payload.len());
    *at = range.start + payload.len();
    buffer.splice(range, payload.iter().copied());
}

/// Leaves the first `bytes` of the packet's payload, and moves `at` behind them.
fn shorten(buffer: &mut Vec<u8>, at: &mut usize, range: Range<usize>, bytes: usize) {
    set_length(buffer, range.start, bytes);
    *at = range.start + bytes;
    match range.end == buffer.len() {
        true => buffer.truncate(*at),
        false => drop(buffer.drain(*at..range.end)),
    }
}

/// Puts bytes between others.
pub(super) fn insert(buffer: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let behind = buffer.len();
    buffer.extend_from_slice(bytes);
    buffer.copy_within(at..behind, at + bytes.len());
    buffer[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Writes the length of the payload that begins at `start` into its header.
fn set_length(buffer: &mut [u8], start: usize, payload_bytes: usize) {
    let header = start - HEADER_BYTES;
    let sequence = buffer[header + 3];
    let encoded = Header {
        payload_bytes,
        sequence,
    }
    .encode();
    buffer[header..start].copy_from_slice(&encoded);
}
