//! Compressed frames: what a connection carries instead of packets once both sides agreed on
//! compression. A frame holds any piece of the stream of packets, compressed or, where that would
//! not pay, as it is.
//!
//! Frames have sequence numbers of their own, which begin at 0 with every command and count both
//! directions together; the numbers of the packets inside mean nothing then.
//!
//! Source: MySQL internals, «Compression»; MariaDB Knowledge Base, «0-packet», compressed packet.

use crate::packet::{self, Header as PacketHeader};

/// Bytes of a frame's header: 3 of the body's length, 1 of sequence number, 3 of plain length.
pub const HEADER_BYTES: usize = 7;

/// The longest body, and the longest piece of the stream that one frame can stand for.
pub const FRAME_BYTES_MAX: usize = 0xFF_FF_FF;

/// Shorter pieces go uncompressed, as the servers and clients send them.
pub const COMPRESS_BYTES_MIN: usize = 50;

/// What stands before every frame's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes that follow the header.
    pub body_bytes: usize,
    /// Counts the frames of one command and its reply, modulo 256.
    pub sequence: u8,
    /// Bytes that the body becomes; 0 for a body that is not compressed.
    pub plain_bytes: usize,
}

impl Header {
    /// Reads a header off the front of `bytes`; None when there are fewer than 7.
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let [a, b, c, sequence, x, y, z] = *bytes.first_chunk::<HEADER_BYTES>()?;
        Some(Header {
            body_bytes: u32::from_le_bytes([a, b, c, 0]) as usize,
            sequence,
            plain_bytes: u32::from_le_bytes([x, y, z, 0]) as usize,
        })
    }

    /// The 7 bytes of the header; both lengths must be at most [`FRAME_BYTES_MAX`].
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        debug_assert!(
            self.body_bytes.max(self.plain_bytes) <= FRAME_BYTES_MAX,
            "longer pieces are split"
        );
        let [a, b, c, _] = (self.body_bytes as u32).to_le_bytes();
        let [x, y, z, _] = (self.plain_bytes as u32).to_le_bytes();
        [a, b, c, self.sequence, x, y, z]
    }

    /// Bytes of the whole frame.
    pub fn frame_bytes(self) -> usize {
        HEADER_BYTES + self.body_bytes
    }
}

/// Finds where commands begin in the packets that a client sends, since each begins a new count of
/// frames: at a packet with the number 0, unless it follows one with the number 255.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Commands {
    /// Bytes of the packet under way that are still to come, its header included.
    left: usize,
    last: u8,
}

impl Commands {
    /// The number of the packet that a server would send next.
    pub fn answer_sequence(&self) -> u8 {
        self.last.wrapping_add(1)
    }

    /// How many bytes at the front belong to one command, and whether they begin it. At least one
    /// byte is taken where there is one.
    ///
    /// The bytes of a call start where those of the last call ended, and no packet's header may be
    /// cut in two by that.
    pub fn next(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut at = self.left.min(bytes.len());
        self.left -= at;
        let mut begins = false;
        while let Some(header) = PacketHeader::parse(&bytes[at..]) {
            let begins_here = header.sequence == 0 && self.last != 255;
            if begins_here && at > 0 {
                return (at, begins);
            }
            begins |= begins_here;
            self.last = header.sequence;
            let packet_bytes = packet::HEADER_BYTES + header.payload_bytes;
            let here = packet_bytes.min(bytes.len() - at);
            self.left = packet_bytes - here;
            at += here;
        }
        // What is no packet's beginning goes along with what stands before it.
        (bytes.len(), begins)
    }
}

/// Numbers the packets of a stream anew, in pieces of any length: what a server sent compressed has
/// numbers of its own taste, and whoever reads it without compression expects those of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Renumber {
    /// The beginning of a packet's length, and how much of the header has come.
    length: [u8; 3],
    seen: usize,
    /// Bytes of the packet's payload that are still to come.
    left: usize,
}

impl Renumber {
    /// Writes into each packet's header the number that `next` stands at, and counts it on.
    pub fn apply(&mut self, bytes: &mut [u8], next: &mut u8) {
        let mut at = 0;
        loop {
            let passed = self.left.min(bytes.len() - at);
            self.left -= passed;
            at += passed;
            let Some(byte) = bytes.get_mut(at) else {
                return;
            };
            at += 1;
            if let Some(part) = self.length.get_mut(self.seen) {
                *part = *byte;
                self.seen += 1;
                continue;
            }
            *byte = *next;
            *next = next.wrapping_add(1);
            let [low, middle, high] = self.length;
            self.left = u32::from_le_bytes([low, middle, high, 0]) as usize;
            self.seen = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_numbered_anew_however_they_are_cut() {
        let (mut bytes, mut expected, mut sequence) = (Vec::new(), Vec::new(), 254);
        for (number, payload) in [(9, &b"one"[..]), (9, b""), (2, b"a longer one")] {
            packet::write(&mut bytes, &mut { number }, payload);
            packet::write(&mut expected, &mut sequence, payload);
        }
        for piece in 1..bytes.len() {
            let (mut renumber, mut next, mut out) = (Renumber::default(), 254, bytes.clone());
            for chunk in out.chunks_mut(piece) {
                renumber.apply(chunk, &mut next);
            }
            assert_eq!((out, next), (expected.clone(), 1), "{piece}");
        }
    }

    #[test]
    fn headers_read_back() {
        let header = Header {
            body_bytes: 0x01_02_03,
            sequence: 9,
            plain_bytes: FRAME_BYTES_MAX,
        };
        let bytes = header.encode();
        assert_eq!(bytes, [3, 2, 1, 9, 255, 255, 255]);
        assert_eq!(Header::parse(&bytes), Some(header));
        assert_eq!(Header::parse(&bytes[..6]), None);
        assert_eq!(header.frame_bytes(), 0x01_02_03 + 7);
    }

    fn framed(sequence: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        packet::write(&mut out, &mut { sequence }, payload);
        out
    }

    #[test]
    fn each_command_of_one_write_is_found() {
        let bytes = [framed(0, b"one"), framed(0, b"second"), framed(1, b"more")].concat();
        let mut commands = Commands::default();
        assert_eq!(commands.next(&bytes), (7, true));
        assert_eq!(commands.next(&bytes[7..]), (10 + 8, true));
        // A reply was read; the next command begins anew, whatever the last number was.
        assert_eq!(commands.next(&framed(0, b"")), (4, true));
    }

    #[test]
    fn pieces_of_a_packet_begin_nothing() {
        let bytes = framed(0, &[0; 100]);
        let mut commands = Commands::default();
        assert_eq!(commands.next(&bytes[..50]), (50, true));
        assert_eq!(commands.next(&bytes[50..]), (54, false));
        assert_eq!(commands.next(&bytes), (104, true));
        let tail = [&bytes[50..], &framed(0, b"x")[..]].concat();
        assert_eq!(commands.next(&bytes[..50]), (50, true));
        assert_eq!(commands.next(&tail), (54, false));
    }

    #[test]
    fn a_number_that_wraps_begins_nothing() {
        let mut commands = Commands::default();
        assert_eq!(commands.next(&framed(255, b"data")), (8, false));
        assert_eq!(commands.next(&framed(0, b"data")), (8, false));
        assert_eq!(commands.next(&framed(0, b"data")), (8, true));
    }
}
