//! The short replies of a server: OK, ERR, EOF, and the request for a local file; and the session
//! changes that an OK packet reports.

mod err;
mod ok;
mod session;
mod tracking;

pub use err::ErrPacket;
pub(crate) use ok::{EOF_BYTES, quieten};
pub use ok::{EofPacket, OkPacket};
pub use session::{SessionChange, session_changes};
pub use tracking::{Shown, Tracking};

use crate::capability::Capabilities;

/// First byte of an OK packet that answers a command.
pub const OK: u8 = 0x00;
/// First byte of EOF packets, and of the OK packets in their place under DEPRECATE_EOF.
pub const EOF: u8 = 0xFE;
/// First byte of error packets.
pub const ERR: u8 = 0xFF;
/// First byte of the request for a local file; the file's name follows to the end.
pub const LOCAL_FILE: u8 = 0xFB;

/// An EOF packet is shorter than this; a longer payload of the same first byte is a row whose
/// first value has over 16 MB, or an OK packet.
const EOF_BYTES_MAX: usize = 9;

/// Whether a payload is an error packet. True wherever a server speaks, except inside the
/// binary log.
pub fn is_err(payload: &[u8]) -> bool {
    payload.first() == Some(&ERR)
}

/// Whether the first payload of a reply is an OK packet.
pub fn is_ok(payload: &[u8]) -> bool {
    payload.first() == Some(&OK)
}

/// Whether a payload is an EOF packet of the old form.
pub fn is_eof(payload: &[u8]) -> bool {
    payload.first() == Some(&EOF) && payload.len() < EOF_BYTES_MAX
}

/// Whether a payload among rows ends them, well or with an error is not asked: an EOF packet, or
/// under DEPRECATE_EOF an OK packet of header 0xFE. A row that starts with this byte has a value
/// of over 16 MB and so fills its packet.
pub fn ends_rows(payload: &[u8], caps: Capabilities) -> bool {
    if caps.contains(Capabilities::DEPRECATE_EOF) {
        payload.first() == Some(&EOF) && payload.len() < crate::packet::PAYLOAD_BYTES_MAX
    } else {
        is_eof(payload)
    }
}

/// The name of the file that the server wants from the client, when the payload asks for one.
pub fn local_file(payload: &[u8]) -> Option<&[u8]> {
    match payload.split_first() {
        Some((&LOCAL_FILE, name)) => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_rows_is_told_from_a_huge_first_value() {
        let deprecated = Capabilities::DEPRECATE_EOF;
        let mut row = vec![0xFE, 0, 0, 0, 1, 0, 0, 0, 0];
        assert!(!is_eof(&row) && is_eof(&row[..5]));
        assert!(!ends_rows(&row, Capabilities::empty()) && ends_rows(&row, deprecated));
        row.resize(crate::packet::PAYLOAD_BYTES_MAX, 0);
        assert!(!ends_rows(&row, deprecated));
    }

    #[test]
    fn first_bytes_tell_replies_apart() {
        assert!(is_err(b"\xFF") && !is_err(b"") && is_ok(b"\0") && !is_ok(b""));
        assert_eq!(local_file(b"\xFB/etc/hosts"), Some(&b"/etc/hosts"[..]));
        assert_eq!(local_file(b"\0"), None);
    }
}
