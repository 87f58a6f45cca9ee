//! The command under way, owned: as a client sent it, one of Heddle's own, or one of before.
//!
//! A command stays as it came, headers included, so that it can be sent on to a server without a copy: a
//! text, or values bound to a prepared statement, in the form in which servers take them. The bytes behind it
//! are the next commands of a pipeline.
//!
//! The one place where Heddle writes a command for a session. Must not know: who asks, and where the reply
//! goes.

use std::ops::Range;

use mysql_wire::Malformed;
use mysql_wire::command::Command;
use mysql_wire::packet::{self, HEADER_BYTES, Header, PAYLOAD_BYTES_MAX};
use mysql_wire::query::{NO_ATTRIBUTES, Query};
use mysql_wire::result::{Value, ValueKind};
use mysql_wire::statement::encode_execute;

/// A command, owned.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Whole commands, in as many packets as they need, and what has come of the next one.
    pub bytes: Vec<u8>,
    /// Where the command begins in `bytes`. Behind 0 only while the commands of one pipeline are looked at
    /// one after the other.
    start: usize,
    /// Bytes of the command, all its headers included.
    frame: usize,
    /// What stood before the text of a COM_QUERY; empty when it was nothing.
    attributes: Vec<u8>,
}

impl Request {
    /// A text to be run.
    pub fn query(text: &[u8]) -> Request {
        Request::of(Command::Query, text)
    }

    /// A text to be prepared.
    pub fn prepare(text: &[u8]) -> Request {
        Request::of(Command::StmtPrepare, text)
    }

    /// A prepared statement with these values.
    ///
    /// # Errors
    /// A value is not of its kind.
    pub fn execute(id: u32, params: &[(ValueKind, Value<'_>)]) -> Result<Request, Malformed> {
        let mut frame = Vec::with_capacity(64 + params.len() * 32);
        let mut written = Ok(());
        packet::write_with(&mut frame, &mut 0, |payload| {
            payload.push(Command::StmtExecute as u8);
            written = encode_execute(payload, id, 0, params);
        });
        written.map(|()| Request::whole(frame))
    }

    /// A prepared statement is not needed any more.
    pub fn close(id: u32) -> Request {
        Request::of(Command::StmtClose, &id.to_le_bytes())
    }

    /// A command that a client sent before, headers included.
    pub fn again(frame: &[u8]) -> Request {
        Request::whole(frame.to_vec())
    }

    /// No command yet, with room for so many bytes of it.
    pub(super) fn with_room(bytes: usize) -> Request {
        Request {
            bytes: Vec::with_capacity(bytes),
            ..Request::default()
        }
    }

    fn of(command: Command, body: &[u8]) -> Request {
        let mut frame = Vec::with_capacity(body.len() + HEADER_BYTES + 1);
        packet::write_with(&mut frame, &mut 0, |payload| {
            payload.push(command as u8);
            payload.extend_from_slice(body);
        });
        Request::whole(frame)
    }

    /// One command and nothing behind it.
    fn whole(frame: Vec<u8>) -> Request {
        Request {
            frame: frame.len(),
            bytes: frame,
            ..Request::default()
        }
    }

    /// The command's packets, when nothing is behind it.
    pub fn into_frame(self) -> Vec<u8> {
        self.bytes
    }

    /// The payload of the command's first packet: the whole command unless it has 16 MB.
    pub fn payload(&self) -> &[u8] {
        let frame = self.frame();
        let first = Header::parse(frame).map_or(0, |header| header.payload_bytes);
        &frame[HEADER_BYTES..HEADER_BYTES + first]
    }

    /// The command with all its headers.
    pub fn frame(&self) -> &[u8] {
        &self.bytes[self.place()]
    }

    /// The command and so many bytes of those behind it, with all their headers.
    pub fn frames(&self, behind: usize) -> &[u8] {
        &self.bytes[self.start..self.start + self.frame + behind]
    }

    /// True when the command is longer than one packet can be.
    pub fn is_split(&self) -> bool {
        self.frame > HEADER_BYTES + PAYLOAD_BYTES_MAX
    }

    /// Bytes have come behind the command.
    pub(crate) fn has_more(&self) -> bool {
        self.bytes.len() > self.start + self.frame
    }

    /// Where the command lies, for [`Request::go_to`].
    pub fn place(&self) -> Range<usize> {
        self.start..self.start + self.frame
    }

    /// What lies there is the command now.
    pub(super) fn go_to(&mut self, place: Range<usize>) {
        (self.start, self.frame) = (place.start, place.len());
    }

    /// Goes on to the next command when the whole of it has come and it fits one packet of `bytes_max`; its
    /// first packet has the number 0. False leaves the command as it is.
    pub fn step(&mut self, bytes_max: usize) -> bool {
        let at = self.start + self.frame;
        let Some(header) = Header::parse(&self.bytes[at..]) else {
            return false;
        };
        let frame = HEADER_BYTES + header.payload_bytes;
        let fits = header.payload_bytes < PAYLOAD_BYTES_MAX && frame <= bytes_max;
        if header.sequence != 0 || header.payload_bytes == 0 || !fits {
            return false;
        }
        if self.bytes.len() - at < frame {
            return false;
        }
        self.go_to(at..at + frame);
        true
    }

    /// Forgets the command and those before it. True when nothing is behind them.
    pub(super) fn consume(&mut self) -> bool {
        let end = self.start + self.frame;
        self.go_to(0..0);
        let more = self.bytes.len() > end;
        match more {
            true => drop(self.bytes.drain(..end)),
            false => self.bytes.clear(),
        }
        !more
    }

    /// Lends the buffer that holds the command, to send it on; give it back with [`Request::restore`].
    pub fn lend(&mut self) -> (Vec<u8>, Range<usize>) {
        (std::mem::take(&mut self.bytes), self.place())
    }

    /// Takes the lent buffer back.
    pub fn restore(&mut self, bytes: Vec<u8>) {
        self.bytes = bytes;
    }

    /// What was taken off the COM_QUERY that came last; empty when it was nothing.
    pub fn attributes(&self) -> &[u8] {
        &self.attributes
    }

    /// Takes the attributes off a COM_QUERY, which then is as any other.
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
            self.replace(&payload);
        } else {
            self.frame -= bytes;
            let header = Header {
                payload_bytes: self.frame - HEADER_BYTES,
                sequence: self.bytes[start + 3],
            };
            let first = start + HEADER_BYTES + 1;
            self.bytes.drain(first..first + bytes);
            self.bytes[start..start + HEADER_BYTES].copy_from_slice(&header.encode());
        }
        self.attributes = attributes;
        Ok(())
    }

    /// A COM_QUERY as it came, with this comment in front of its text, for a server that takes attributes.
    pub(crate) fn with_attributes(&self, comment: &[u8]) -> Vec<u8> {
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
                text: comment,
            }
            .encode(out);
            out.extend_from_slice(&payload[1..]);
        });
        out
    }

    /// Moves what has come behind the command to the end of `buffer`: the beginning of the file that the
    /// command asks its client for.
    pub fn take_rest(&mut self, buffer: &mut Vec<u8>) {
        let end = self.place().end;
        buffer.extend_from_slice(&self.bytes[end..]);
        self.bytes.truncate(end);
    }

    /// Takes back bytes that belong to the next command.
    pub fn give_rest(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Puts another text in the place of a COM_QUERY's or COM_STMT_PREPARE's.
    pub fn replace_text(&mut self, text: &[u8]) {
        let mut payload = Vec::with_capacity(text.len() + 1);
        payload.push(self.payload()[0]);
        payload.extend_from_slice(text);
        self.replace(&payload);
    }

    /// Puts a command with this payload in the place of this one.
    fn replace(&mut self, payload: &[u8]) {
        let mut command = Vec::with_capacity(payload.len() + HEADER_BYTES);
        packet::write(&mut command, &mut 0, payload);
        let bytes = command.len();
        self.bytes.splice(self.place(), command);
        self.frame = bytes;
    }

    /// Writes over bytes of the command, counted from the start of its payload.
    pub fn patch(&mut self, at: usize, bytes: &[u8]) {
        let start = self.start + HEADER_BYTES + at;
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use mysql_wire::packet::PAYLOAD_BYTES_MAX;

    use super::*;

    #[test]
    fn a_request_is_what_a_client_would_send() {
        assert_eq!(Request::query(b"DO 1").into_frame(), b"\x05\0\0\0\x03DO 1");
        assert_eq!(Request::prepare(b"DO ?").into_frame(), b"\x05\0\0\0\x16DO ?");
        assert_eq!(Request::close(7).into_frame(), b"\x05\0\0\0\x19\x07\0\0\0");
        let again = b"\x01\0\0\0\x0e";
        assert_eq!(Request::again(again).into_frame(), again);
    }

    #[test]
    fn a_long_text_takes_several_packets() {
        let text = vec![b' '; PAYLOAD_BYTES_MAX];
        let frame = Request::query(&text).into_frame();
        assert_eq!(frame[..4], [0xFF, 0xFF, 0xFF, 0], "a full packet");
        assert_eq!(frame[4 + PAYLOAD_BYTES_MAX..], *b"\x01\0\0\x01 ", "and what is left");
        assert_eq!(packet::joined(&frame)[1..], text);
    }

    /// Two commands that came together.
    fn two() -> Request {
        let mut request = Request::query(b"DO 1");
        request.give_rest(&Request::query(b"DO 22").into_frame());
        request
    }

    #[test]
    fn the_commands_of_a_pipeline_are_looked_at_one_after_the_other() {
        let mut request = two();
        let first = request.place();
        assert!(request.has_more());
        assert!(!request.step(5), "it is longer than that");
        assert!(request.step(64));
        assert_eq!(request.payload(), b"\x03DO 22");
        assert!(!request.has_more());
        assert!(!request.step(64), "there is no third");
        request.go_to(first);
        assert_eq!(request.payload(), b"\x03DO 1");
    }

    #[test]
    fn a_command_that_has_not_come_whole_is_none_yet() {
        let mut request = two();
        request.bytes.pop();
        assert!(!request.step(64));
        assert_eq!(request.payload(), b"\x03DO 1");
    }

    #[test]
    fn what_is_consumed_leaves_what_came_behind_it() {
        let mut request = two();
        assert!(!request.consume());
        assert_eq!(request.bytes, Request::query(b"DO 22").into_frame());
        assert_eq!(request.frame(), b"");
        request.go_to(0..10);
        assert!(request.consume());
        assert!(!request.has_more());
    }

    #[test]
    fn another_text_leaves_the_command_behind_it_alone() {
        let mut request = two();
        request.replace_text(b"SELECT 1");
        assert_eq!(request.payload(), b"\x03SELECT 1");
        request.patch(1, b"s");
        assert_eq!(request.payload(), b"\x03sELECT 1");
        assert!(request.step(64));
        assert_eq!(request.payload(), b"\x03DO 22");
    }

    #[test]
    fn attributes_come_off_and_go_on_again() {
        let mut payload = vec![Command::Query as u8];
        // One attribute: `a` is a string, `1`.
        let attributes = b"\x01\x01\0\x01\xFD\0\x01a\x011";
        payload.extend_from_slice(attributes);
        payload.extend_from_slice(b"DO 1");
        let mut frame = Vec::new();
        packet::write(&mut frame, &mut 0, &payload);
        let mut request = Request::again(&frame);
        request.take_attributes().expect("they are well formed");
        assert_eq!(request.frame(), Request::query(b"DO 1").into_frame());
        let mut again = vec![Command::Query as u8];
        again.extend_from_slice(attributes);
        again.extend_from_slice(b"/* c */DO 1");
        assert_eq!(request.with_attributes(b"/* c */")[HEADER_BYTES..], again);
    }

    #[test]
    fn a_lent_buffer_comes_back_with_the_command_in_its_place() {
        let mut request = two();
        assert!(request.step(64));
        let (buffer, range) = request.lend();
        assert_eq!(buffer[range], *Request::query(b"DO 22").into_frame());
        request.restore(buffer);
        assert_eq!(request.payload(), b"\x03DO 22");
    }
}
