//! The stream that follows COM_BINLOG_DUMP and COM_BINLOG_DUMP_GTID: one packet for each event, until
//! an EOF packet (a dump that does not wait) or an error. Semi-synchronous replicas answer events in
//! the other direction.

use crate::packet::{HEADER_BYTES, Header, PAYLOAD_BYTES_MAX};

/// What an acknowledgement of a semi-synchronous replica begins with.
const ACKNOWLEDGES: u8 = 0xEF;

/// An acknowledgement is this byte, a position and a file's name of at most 512 bytes.
const ACKNOWLEDGEMENT_BYTES_MAX: usize = 1 + 8 + 512;

/// An EOF packet is shorter than this; in this stream it always is one, whatever was agreed.
const EOF_BYTES_END: usize = 9;

/// Walks the server's side of the stream over packet headers.
#[derive(Clone, Copy, Debug)]
pub struct Events {
    /// Of the current packet, not walked yet.
    left: usize,
    /// The next packet continues the one before.
    continues: bool,
    next_sequence: u8,
}

/// What a buffer of the stream holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// Bytes at the front that are events, or parts of one.
    pub events: usize,
    /// Bytes behind them that are the last packet, whole; 0 while there is none.
    pub last: usize,
}

impl Events {
    /// The stream as it follows a command.
    pub fn new() -> Events {
        Events {
            left: 0,
            continues: false,
            next_sequence: 1,
        }
    }

    /// Walks `bytes`, which begin behind the events that the last call found. What is in neither part
    /// of the answer needs more bytes behind it.
    pub fn walk(&mut self, bytes: &[u8]) -> Walked {
        let mut at = 0;
        loop {
            let step = self.left.min(bytes.len() - at);
            at += step;
            self.left -= step;
            let rest = &bytes[at..];
            let last = 0;
            let Some(header) = Header::parse(rest).filter(|_| self.left == 0) else {
                return Walked { events: at, last };
            };
            let payload = header.payload_bytes;
            if !self.continues && payload > 0 {
                let Some(&first) = rest.get(HEADER_BYTES) else {
                    return Walked { events: at, last };
                };
                if first == 0xFF || (first == 0xFE && payload < EOF_BYTES_END) {
                    let frame = HEADER_BYTES + payload;
                    let last = if rest.len() < frame { 0 } else { frame };
                    return Walked { events: at, last };
                }
            }
            self.left = HEADER_BYTES + payload;
            self.continues = payload == PAYLOAD_BYTES_MAX;
            self.next_sequence = header.sequence.wrapping_add(1);
        }
    }

    /// The number of the next packet; `None` in the middle of an event.
    pub fn next_sequence(&self) -> Option<u8> {
        (self.left == 0 && !self.continues).then_some(self.next_sequence)
    }
}

impl Default for Events {
    fn default() -> Events {
        Events::new()
    }
}

/// How many bytes at the front are whole acknowledgements. What comes behind them is part of one, or
/// a command for the time after the stream.
pub fn acknowledgements(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(header) = Header::parse(&bytes[at..]) {
        let end = at + HEADER_BYTES + header.payload_bytes;
        let whole = end <= bytes.len() && header.payload_bytes <= ACKNOWLEDGEMENT_BYTES_MAX;
        if !whole || bytes.get(at + HEADER_BYTES) != Some(&ACKNOWLEDGES) {
            break;
        }
        at = end;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet;

    fn packets(payloads: &[&[u8]]) -> Vec<u8> {
        let (mut out, mut sequence) = (Vec::new(), 1);
        for payload in payloads {
            packet::write(&mut out, &mut sequence, payload);
        }
        out
    }

    /// Walks pieces of this size. Returns the bytes of events, and the last packet.
    fn walk(bytes: &[u8], piece: usize) -> (usize, usize, Option<u8>) {
        let (mut events, mut walk, mut buffer) = (0, Events::new(), Vec::new());
        for part in bytes.chunks(piece) {
            buffer.extend_from_slice(part);
            let walked = walk.walk(&buffer);
            buffer.drain(..walked.events);
            events += walked.events;
            if walked.last > 0 {
                return (events, walked.last, walk.next_sequence());
            }
        }
        (events, 0, walk.next_sequence())
    }

    #[test]
    fn the_last_packet_is_found_in_any_pieces() {
        let event = [0, 0xFF, 0xFE, 1, 2, 3];
        for end in [&[0xFE, 0, 0, 2, 0][..], b"\xFF\xD4\x04#HY000gone"] {
            let bytes = packets(&[&event, b"\0", &event, end]);
            let tail = HEADER_BYTES + end.len();
            for piece in 1..bytes.len() + 1 {
                let found = walk(&bytes, piece);
                assert_eq!(found, (bytes.len() - tail, tail, Some(4)), "{piece}");
            }
        }
    }

    #[test]
    fn a_long_event_hides_no_end() {
        let mut event = vec![0xFF; PAYLOAD_BYTES_MAX + 100];
        event[0] = 0;
        let bytes = packets(&[&event, &[0xFE, 0, 0, 2, 0]]);
        let found = walk(&bytes, 65_536);
        assert_eq!(found, (bytes.len() - 9, 9, Some(3)));
        let cut = walk(&bytes[..PAYLOAD_BYTES_MAX + 50], 65_536);
        assert_eq!(cut, (PAYLOAD_BYTES_MAX + 50, 0, None));
    }

    #[test]
    fn acknowledgements_are_told_from_commands() {
        let one = b"\xEF\x04\0\0\0\0\0\0\0binlog.000001";
        let bytes = packets(&[one, one, b"\x01"]);
        assert_eq!(acknowledgements(&bytes), 2 * (HEADER_BYTES + one.len()));
        assert_eq!(acknowledgements(&bytes[..30]), HEADER_BYTES + one.len());
        assert_eq!(acknowledgements(&packets(&[b"\x03SELECT 1"])), 0);
        assert_eq!(acknowledgements(&packets(&[b""])), 0);
        let long = [ACKNOWLEDGES; 600];
        assert_eq!(acknowledgements(&packets(&[&long])), 0);
    }
}
