//! OK packets, and the EOF packets that they replace.

use super::{EOF, OK};
use crate::Malformed;
use crate::capability::Capabilities;
use crate::scalar::{Reader, put_lenenc_bytes, put_lenenc_int, put_u16};
use crate::status::Status;

/// The end of a statement that went well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OkPacket<'a> {
    /// [`OK`], or [`EOF`] at the end of rows under DEPRECATE_EOF.
    pub header: u8,
    /// Rows changed, or found under FOUND_ROWS.
    pub affected_rows: u64,
    /// The first AUTO_INCREMENT value that the statement made, or 0.
    pub last_insert_id: u64,
    /// The state of the session afterwards.
    pub status: Status,
    /// How many warnings SHOW WARNINGS would list.
    pub warnings: u16,
    /// A message such as `Rows matched: 1`, mostly empty.
    pub info: &'a [u8],
    /// The block of session changes as it travels; see [`session_changes`](super::session_changes).
    /// Only sent with SESSION_TRACK and when `status` has SESSION_STATE_CHANGED.
    pub session_state: &'a [u8],
}

impl<'a> OkPacket<'a> {
    /// A plain OK without rows, id, warnings or message.
    pub fn new(status: Status) -> OkPacket<'static> {
        OkPacket {
            header: OK,
            affected_rows: 0,
            last_insert_id: 0,
            status,
            warnings: 0,
            info: &[],
            session_state: &[],
        }
    }

    /// Reads an OK packet of either header, under the capabilities of the connection.
    pub fn decode(payload: &'a [u8], caps: Capabilities) -> Result<OkPacket<'a>, Malformed> {
        let mut reader = Reader::new(payload);
        let header = reader.u8()?;
        if header != OK && header != EOF {
            return Err(Malformed::new("not an OK packet"));
        }
        let affected_rows = reader.lenenc_int()?;
        let last_insert_id = reader.lenenc_int()?;
        let status = Status::from_bits_retain(reader.u16()?);
        let warnings = reader.u16()?;
        let (mut info, mut session_state) = (&[][..], &[][..]);
        if !reader.is_empty() {
            // Whatever the manuals say of connections without SESSION_TRACK: both servers write the
            // length there too, and clients read it.
            info = reader.lenenc_bytes()?;
            let tracks = caps.contains(Capabilities::SESSION_TRACK);
            if tracks && status.contains(Status::SESSION_STATE_CHANGED) && !reader.is_empty() {
                session_state = reader.lenenc_bytes()?;
            }
        }
        Ok(OkPacket {
            header,
            affected_rows,
            last_insert_id,
            status,
            warnings,
            info,
            session_state,
        })
    }

    /// Appends the packet, in the form that a receiver of these capabilities expects.
    pub fn encode(&self, out: &mut Vec<u8>, caps: Capabilities) {
        out.push(self.header);
        put_lenenc_int(out, self.affected_rows);
        put_lenenc_int(out, self.last_insert_id);
        put_u16(out, self.status.bits());
        put_u16(out, self.warnings);
        let tracks = caps.contains(Capabilities::SESSION_TRACK);
        if tracks && self.status.contains(Status::SESSION_STATE_CHANGED) {
            put_lenenc_bytes(out, self.info);
            put_lenenc_bytes(out, self.session_state);
        } else if !self.info.is_empty() {
            put_lenenc_bytes(out, self.info);
        }
    }
}

/// Takes the session's changes off an OK packet where it lies: what is left is the first bytes of `payload`, so many as
/// are returned.
pub(crate) fn quieten(payload: &mut [u8]) -> Result<usize, Malformed> {
    let bytes = payload.len();
    let mut reader = Reader::new(payload);
    reader.u8()?;
    reader.lenenc_int()?;
    reader.lenenc_int()?;
    let at = bytes - reader.remaining();
    let status = Status::from_bits_retain(reader.u16()?) - Status::SESSION_STATE_CHANGED;
    reader.u16()?;
    let numbers = bytes - reader.remaining();
    let info = match reader.is_empty() {
        true => &[][..],
        false => reader.lenenc_bytes()?,
    };
    let left = match info.is_empty() {
        true => numbers,
        false => bytes - reader.remaining(),
    };
    payload[at..at + 2].copy_from_slice(&status.bits().to_le_bytes());
    Ok(left)
}

/// The length of an EOF packet's payload.
pub(crate) const EOF_BYTES: usize = 5;

/// The end of columns or rows, and the reply to COM_SET_OPTION, without DEPRECATE_EOF; with it, an
/// OK packet of header 0xFE stands in both places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EofPacket {
    /// How many warnings SHOW WARNINGS would list.
    pub warnings: u16,
    /// The state of the session.
    pub status: Status,
}

impl EofPacket {
    /// Reads an EOF packet; the numbers are 0 in the bare form of before 4.1. The OK packet that
    /// stands in its place under DEPRECATE_EOF is longer and refused.
    pub fn decode(payload: &[u8]) -> Result<EofPacket, Malformed> {
        match *payload {
            [EOF] => Ok(EofPacket {
                warnings: 0,
                status: Status::empty(),
            }),
            [EOF, a, b, c, d] => Ok(EofPacket {
                warnings: u16::from_le_bytes([a, b]),
                status: Status::from_bits_retain(u16::from_le_bytes([c, d])),
            }),
            _ => Err(Malformed::new("not an EOF packet")),
        }
    }

    /// Appends the packet.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes());
    }

    /// The packet.
    pub(crate) fn bytes(&self) -> [u8; EOF_BYTES] {
        let [low, high] = self.warnings.to_le_bytes();
        let [status, flags] = self.status.bits().to_le_bytes();
        [EOF, low, high, status, flags]
    }

    /// Appends what ends rows under `caps`: this packet, or an OK packet that says the same.
    pub fn encode_end_of_rows(&self, out: &mut Vec<u8>, caps: Capabilities) {
        if !caps.contains(Capabilities::DEPRECATE_EOF) {
            return self.encode(out);
        }
        let mut ok = OkPacket::new(self.status - Status::SESSION_STATE_CHANGED);
        ok.header = EOF;
        ok.warnings = self.warnings;
        ok.encode(out, caps);
    }

    /// Reads what ends rows under `caps`, in either form. Session changes are left out, and with
    /// them their status flag: read an [`OkPacket`] where they matter.
    pub fn decode_end_of_rows(payload: &[u8], caps: Capabilities) -> Result<EofPacket, Malformed> {
        if !caps.contains(Capabilities::DEPRECATE_EOF) {
            return EofPacket::decode(payload);
        }
        let ok = OkPacket::decode(payload, caps)?;
        if ok.header != EOF {
            return Err(Malformed::new("not the end of rows"));
        }
        let status = ok.status - Status::SESSION_STATE_CHANGED;
        Ok(EofPacket {
            warnings: ok.warnings,
            status,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACK: Capabilities = Capabilities::SESSION_TRACK;

    fn round(ok: &OkPacket<'_>, caps: Capabilities) -> Vec<u8> {
        let mut out = Vec::new();
        ok.encode(&mut out, caps);
        assert_eq!(OkPacket::decode(&out, caps).as_ref(), Ok(ok));
        out
    }

    #[test]
    fn a_plain_ok_has_seven_bytes_with_and_without_tracking() {
        let ok = OkPacket::new(Status::AUTOCOMMIT);
        assert_eq!(round(&ok, TRACK), [0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(round(&ok, Capabilities::empty()), [0, 0, 0, 2, 0, 0, 0]);
    }

    #[test]
    fn a_message_has_a_length_with_and_without_tracking() {
        let mut ok = OkPacket::new(Status::AUTOCOMMIT | Status::IN_TRANS);
        ok.affected_rows = 70_000;
        ok.last_insert_id = u64::MAX;
        ok.warnings = 3;
        ok.info = b"Records: 1";
        assert!(round(&ok, TRACK).ends_with(b"\x0ARecords: 1"));
        assert!(round(&ok, Capabilities::empty()).ends_with(b"\x03\0\x0ARecords: 1"));
    }

    #[test]
    fn session_changes_travel_with_their_status_flag() {
        let mut ok = OkPacket::new(Status::SESSION_STATE_CHANGED);
        ok.header = EOF;
        ok.session_state = b"\x01\x05\x04shop";
        assert!(round(&ok, TRACK).ends_with(b"\0\x07\x01\x05\x04shop"));
        let mut out = Vec::new();
        ok.encode(&mut out, Capabilities::empty());
        let bare = OkPacket::decode(&out, Capabilities::empty()).expect("an OK without tracking");
        assert!(bare.session_state.is_empty() && bare.info.is_empty());
    }

    #[test]
    fn a_packet_is_quietened_where_it_lies() {
        let state = b"\x00\x0B\x09last_gtid\x050-1-7".as_slice();
        for info in [&b""[..], b"Rows matched: 1"] {
            for affected_rows in [1, 70_000, u64::MAX] {
                let mut ok = OkPacket::new(Status::AUTOCOMMIT | Status::SESSION_STATE_CHANGED);
                (ok.affected_rows, ok.warnings, ok.info) = (affected_rows, 2, info);
                ok.session_state = state;
                let mut packet = round(&ok, TRACK);
                let left = quieten(&mut packet).expect("an OK");
                packet.truncate(left);
                (ok.session_state, ok.status) = (b"", Status::AUTOCOMMIT);
                assert_eq!(packet, round(&ok, TRACK));
                let again = quieten(&mut packet).expect("an OK");
                assert_eq!(again, packet.len(), "it says nothing of a session any more");
            }
        }
        assert!(quieten(&mut b"\0\0\0\x02\0\0\0\x05abc".to_vec()).is_err());
    }

    #[test]
    fn other_packets_are_no_ok() {
        assert!(OkPacket::decode(b"\xFF\0\0\x02\0\0\0", TRACK).is_err());
        assert!(OkPacket::decode(b"\0\0\0\x02\0\0", TRACK).is_err());
        assert!(OkPacket::decode(b"\0\0\0\x02\0\0\0\x05abc", TRACK).is_err());
    }

    #[test]
    fn eof_reads_back_in_both_forms() {
        let eof = EofPacket {
            warnings: 2,
            status: Status::MORE_RESULTS,
        };
        let mut out = Vec::new();
        eof.encode(&mut out);
        assert_eq!(out, [0xFE, 2, 0, 8, 0]);
        assert_eq!(EofPacket::decode(&out), Ok(eof));
        for caps in [Capabilities::empty(), Capabilities::DEPRECATE_EOF | TRACK] {
            let mut out = Vec::new();
            eof.encode_end_of_rows(&mut out, caps);
            assert!(super::super::ends_rows(&out, caps));
            assert_eq!(EofPacket::decode_end_of_rows(&out, caps), Ok(eof));
        }
        let bare = EofPacket {
            warnings: 0,
            status: Status::empty(),
        };
        assert_eq!(EofPacket::decode(&[0xFE]), Ok(bare));
        let ok = b"\0\0\0\x02\0\0\0";
        assert!(EofPacket::decode_end_of_rows(ok, Capabilities::DEPRECATE_EOF).is_err());
        assert!(EofPacket::decode(&[0xFE, 1]).is_err());
        assert!(EofPacket::decode(&[0xFE, 0, 0, 2, 0, 0, 0]).is_err());
    }
}
