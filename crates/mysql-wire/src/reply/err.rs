//! Error packets.

use super::ERR;
use crate::Malformed;
use crate::capability::Capabilities;
use crate::error::{SQLSTATE_GENERAL, sqlstate_of};
use crate::scalar::{Reader, put_u16};

/// Stands before the SQLSTATE.
const MARKER: u8 = b'#';

/// The end of a statement that failed, or of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrPacket<'a> {
    /// The error's number; see [`error`](crate::error).
    pub number: u16,
    /// Five characters; `HY000` when the packet has none.
    pub sqlstate: [u8; 5],
    /// The text, in the session's character set.
    pub message: &'a [u8],
}

impl<'a> ErrPacket<'a> {
    /// An error with the SQLSTATE that the servers send with this number.
    pub fn new(number: u16, message: &'a [u8]) -> ErrPacket<'a> {
        let mut sqlstate = [b'0'; 5];
        sqlstate.copy_from_slice(sqlstate_of(number).as_bytes());
        ErrPacket {
            number,
            sqlstate,
            message,
        }
    }

    /// Reads an error packet. Before the login `caps` is empty, and most servers leave the SQLSTATE
    /// out; then one is only taken for it when it looks like one.
    pub fn decode(payload: &'a [u8], caps: Capabilities) -> Result<ErrPacket<'a>, Malformed> {
        let mut reader = Reader::new(payload);
        if reader.u8()? != ERR {
            return Err(Malformed::new("not an error packet"));
        }
        let number = reader.u16()?;
        let text = reader.rest();
        let mut sqlstate = [b'0'; 5];
        sqlstate.copy_from_slice(SQLSTATE_GENERAL.as_bytes());
        let mut message = text;
        if let [MARKER, marked @ ..] = text
            && let Some((state, after)) = marked.split_first_chunk::<5>()
            && (caps.contains(Capabilities::PROTOCOL_41) || looks_like_sqlstate(state))
        {
            sqlstate = *state;
            message = after;
        }
        Ok(ErrPacket {
            number,
            sqlstate,
            message,
        })
    }

    /// Appends the packet. Without PROTOCOL_41 in `caps`, which means before the login, the
    /// SQLSTATE is left out.
    pub fn encode(&self, out: &mut Vec<u8>, caps: Capabilities) {
        out.push(ERR);
        put_u16(out, self.number);
        if caps.contains(Capabilities::PROTOCOL_41) {
            out.push(MARKER);
            out.extend_from_slice(&self.sqlstate);
        }
        out.extend_from_slice(self.message);
    }
}

fn looks_like_sqlstate(bytes: &[u8; 5]) -> bool {
    bytes
        .iter()
        .all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPS: Capabilities = Capabilities::PROTOCOL_41;

    #[test]
    fn an_error_reads_back_with_its_sqlstate() {
        let err = ErrPacket::new(1045, b"Access denied for user 'a'@'b'");
        assert_eq!(&err.sqlstate, b"28000");
        let mut out = Vec::new();
        err.encode(&mut out, CAPS);
        assert!(out.starts_with(b"\xFF\x15\x04#28000Access"));
        assert_eq!(ErrPacket::decode(&out, CAPS), Ok(err));
    }

    #[test]
    fn before_the_login_there_is_no_sqlstate_and_one_is_understood() {
        let mut out = Vec::new();
        ErrPacket::new(1040, b"Too many connections").encode(&mut out, Capabilities::empty());
        assert_eq!(out, b"\xFF\x10\x04Too many connections");
        let err = ErrPacket::decode(&out, Capabilities::empty()).expect("an error of two parts");
        assert_eq!(
            (&err.sqlstate, err.message),
            (b"HY000", &b"Too many connections"[..])
        );
        let marked = b"\xFF\x10\x04#08004Too many connections";
        let err = ErrPacket::decode(marked, Capabilities::empty()).expect("an error of three");
        assert_eq!(
            (&err.sqlstate, err.message),
            (b"08004", &b"Too many connections"[..])
        );
        let text = b"\xFF\x10\x04#hash: a text";
        let err = ErrPacket::decode(text, Capabilities::empty()).expect("a text with a hash");
        assert_eq!(err.message, b"#hash: a text");
    }

    #[test]
    fn short_errors_are_read_as_far_as_they_go() {
        assert!(ErrPacket::decode(b"\xFF\x10", CAPS).is_err());
        assert!(ErrPacket::decode(b"\0\x10\x04", CAPS).is_err());
        let err = ErrPacket::decode(b"\xFF\x10\x04#0800", CAPS).expect("a cut SQLSTATE is text");
        assert_eq!(err.message, b"#0800");
    }
}
