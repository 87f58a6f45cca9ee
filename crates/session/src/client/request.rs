//! A command that no client sends now: one of Heddle's own for a session, or one of before.
//!
//! The one place where Heddle writes a command for a session of its own.

use mysql_wire::Malformed;
use mysql_wire::command::Command;
use mysql_wire::packet::{self, HEADER_BYTES};
use mysql_wire::result::{Value, ValueKind};
use mysql_wire::statement::encode_execute;

/// A command, owned.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// As a client sends it, in as many packets as it needs.
    frame: Vec<u8>,
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
        written.map(|()| Request { frame })
    }

    /// A prepared statement is not needed any more.
    pub fn close(id: u32) -> Request {
        Request::of(Command::StmtClose, &id.to_le_bytes())
    }

    /// A command that a client sent before, headers included.
    pub fn again(frame: &[u8]) -> Request {
        Request {
            frame: frame.to_vec(),
        }
    }

    fn of(command: Command, body: &[u8]) -> Request {
        let mut frame = Vec::with_capacity(body.len() + HEADER_BYTES + 1);
        packet::write_with(&mut frame, &mut 0, |payload| {
            payload.push(command as u8);
            payload.extend_from_slice(body);
        });
        Request { frame }
    }

    /// Whole packets.
    pub fn into_frame(self) -> Vec<u8> {
        self.frame
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
}
