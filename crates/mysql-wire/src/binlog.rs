//! COM_BINLOG_DUMP and COM_BINLOG_DUMP_GTID, and the stream that follows them: one packet for each event, until
//! an EOF packet (a dump that does not wait) or an error. Semi-synchronous replicas answer events in
//! the other direction.

use crate::packet::{HEADER_BYTES, Header, PAYLOAD_BYTES_MAX};

pub mod sync;

/// What an acknowledgement of a semi-synchronous replica begins with.
const ACKNOWLEDGES: u8 = 0xEF;

/// An acknowledgement is this byte, a position and a file's name of at most 512 bytes.
const ACKNOWLEDGEMENT_BYTES_MAX: usize = 1 + 8 + 512;

/// An EOF packet is shorter than this; in this stream it always is one, whatever was agreed.
const EOF_BYTES_END: usize = 9;

/// The walk passes over no event before so much of it is there, or all of it: whatever an event says of a
/// transaction or of a file stands in it.
pub const HEAD_BYTES: usize = 640;

/// The header of an event.
pub const EVENT_HEADER_BYTES: usize = 19;

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
    /// of the answer needs more bytes behind it. `found` is told of each event where in `bytes` its first
    /// packet begins, and the first [`HEAD_BYTES`] of that packet's payload.
    pub fn walk(&mut self, bytes: &[u8], found: &mut dyn FnMut(usize, &[u8])) -> Walked {
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
                let end = HEADER_BYTES + payload.min(HEAD_BYTES);
                let Some(head) = rest.get(HEADER_BYTES..end) else {
                    return Walked { events: at, last };
                };
                found(at, head);
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

/// What a replica, or another reader, asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dump<'a> {
    /// The stream ends where the log ends at that moment.
    pub ends: bool,
    /// Where it begins: the file, empty for the first, and a place in it.
    pub file: &'a [u8],
    pub position: u64,
}

impl<'a> Dump<'a> {
    /// Reads COM_BINLOG_DUMP without its first byte, or where `by_gtid` COM_BINLOG_DUMP_GTID. `None`: it is too
    /// short.
    pub fn decode(payload: &'a [u8], by_gtid: bool) -> Option<Dump<'a>> {
        /// Of the flags of either.
        const NON_BLOCK: u8 = 1;
        let u32_at = |at| Some(u32::from_le_bytes(*payload.get(at..)?.first_chunk()?));
        if !by_gtid {
            return Some(Dump {
                ends: payload.get(4)? & NON_BLOCK != 0,
                file: payload.get(10..)?,
                position: u64::from(u32_at(0)?),
            });
        }
        let bytes = usize::try_from(u32_at(6)?).ok()?;
        let end = 10usize.checked_add(bytes)?;
        Some(Dump {
            ends: payload.first()? & NON_BLOCK != 0,
            file: payload.get(10..end)?,
            position: u64::from_le_bytes(*payload.get(end..)?.first_chunk()?),
        })
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
            let walked = walk.walk(&buffer, &mut |_, _| {});
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
    fn events_are_told_with_their_heads() {
        let long = vec![7; 1000];
        let bytes = packets(&[&long, b"", b"\0short"]);
        let mut heads = Vec::new();
        let (mut walk, mut buffer, mut gone) = (Events::new(), Vec::new(), 0);
        for part in bytes.chunks(13) {
            buffer.extend_from_slice(part);
            let found = &mut |at: usize, head: &[u8]| heads.push((gone + at, head.to_vec()));
            let events = walk.walk(&buffer, found).events;
            gone += events;
            buffer.drain(..events);
        }
        let short = HEADER_BYTES + 1000 + HEADER_BYTES;
        assert_eq!(
            heads,
            [(0, vec![7; HEAD_BYTES]), (short, b"\0short".to_vec())]
        );
    }

    #[test]
    fn requests_say_where_the_stream_begins() {
        let by_file = b"\x04\0\0\0\x01\0\x09\0\0\0b.000001";
        let dump = Dump::decode(by_file, false).expect("a request");
        assert_eq!(
            (dump.ends, dump.file, dump.position),
            (true, &b"b.000001"[..], 4)
        );
        let by_gtid = b"\x04\0\x09\0\0\0\x02\0\0\0b.\x05\0\0\0\0\0\0\0\x08\0\0\0";
        let dump = Dump::decode(by_gtid, true).expect("a request");
        assert_eq!(
            (dump.ends, dump.file, dump.position),
            (false, &b"b."[..], 5)
        );
        for end in 0..10 {
            assert_eq!(Dump::decode(&by_file[..end], false), None);
            assert_eq!(Dump::decode(&by_gtid[..end], true), None);
        }
        assert_eq!(Dump::decode(b"\0\0\0\0\0\0\xFF\xFF\xFF\xFF", true), None);
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
