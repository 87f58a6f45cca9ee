//! The file that a client sends for LOAD DATA LOCAL: packets of any size, ended by an empty one.
//!
//! The bytes pass through unread, in pieces of any length; only packet headers are looked at, to
//! number the packets as the server counts them and to find the end.

use crate::Malformed;
use crate::packet::{HEADER_BYTES, Header};

/// Walks one file on its way from a client to a server. Pure: buffers in, positions out.
#[derive(Clone, Debug)]
pub struct FileWalk {
    /// The number that the client's next packet must have.
    expected: u8,
    /// How far the client's numbers are ahead of the server's.
    ahead: u8,
    /// Bytes of the current packet that are still to come.
    left: usize,
    /// The packet before was a full 16 MB one, so an empty one only ends that payload.
    continued: bool,
    done: bool,
    /// The client's numbers mean nothing, since its frames have their own.
    any_order: bool,
}

/// How far a call of [`FileWalk::advance`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePiece {
    /// This many bytes at the front of the buffer belong to the file and may go to the server.
    pub forward: usize,
    /// The file is complete with them; bytes behind belong to the client's next command.
    pub done: bool,
}

impl FileWalk {
    /// A file whose first packet has the number `expected` from the client, and `ahead` less for
    /// the server.
    pub fn new(expected: u8, ahead: u8) -> FileWalk {
        FileWalk {
            expected,
            ahead,
            left: 0,
            continued: false,
            done: false,
            any_order: false,
        }
    }

    /// The same for a client that compresses, whose numbers are not looked at.
    pub fn in_any_order(self) -> FileWalk {
        let any_order = true;
        FileWalk { any_order, ..self }
    }

    /// Walks the bytes of `buffer`, which starts where the last call's `forward` ended, and numbers
    /// the packets in place. Fails when the client's numbers are out of order.
    pub fn advance(&mut self, buffer: &mut [u8]) -> Result<FilePiece, Malformed> {
        self.walk(buffer, |_| {})
    }

    /// The same for someone who reads the file: its bytes are put behind those in `file`.
    pub fn read(&mut self, buffer: &mut [u8], file: &mut Vec<u8>) -> Result<FilePiece, Malformed> {
        self.walk(buffer, |bytes| file.extend_from_slice(bytes))
    }

    fn walk(
        &mut self,
        buffer: &mut [u8],
        mut bytes: impl FnMut(&[u8]),
    ) -> Result<FilePiece, Malformed> {
        let mut at = 0;
        while !self.done {
            let passed = self.left.min(buffer.len() - at);
            bytes(&buffer[at..at + passed]);
            self.left -= passed;
            at += passed;
            let Some(header) = Header::parse(&buffer[at..]) else {
                break;
            };
            if header.sequence != self.expected && !self.any_order {
                return Err(Malformed::new("a packet out of order in a client's file"));
            }
            buffer[at + 3] = self.expected.wrapping_sub(self.ahead);
            self.expected = self.expected.wrapping_add(1);
            at += HEADER_BYTES;
            self.left = header.payload_bytes;
            self.done = header.payload_bytes == 0 && !self.continued;
            self.continued = header.is_continued();
        }
        Ok(FilePiece {
            forward: at,
            done: self.done,
        })
    }

    /// The number of the packet that follows the file, as the client counts.
    pub fn next_sequence(&self) -> u8 {
        self.expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{self, PAYLOAD_BYTES_MAX};

    /// Feeds `bytes` in pieces of `piece` and returns what went on, and what was left behind.
    fn walk(walk: &mut FileWalk, bytes: &[u8], piece: usize) -> (Vec<u8>, Vec<u8>) {
        let (mut out, mut buffer) = (Vec::new(), Vec::new());
        for chunk in bytes.chunks(piece) {
            buffer.extend_from_slice(chunk);
            let progress = walk.advance(&mut buffer).expect("in order");
            out.extend(buffer.drain(..progress.forward));
        }
        (out, buffer)
    }

    #[test]
    fn packets_are_numbered_as_the_server_counts() {
        let (mut file, mut sequence) = (Vec::new(), 254);
        for payload in [&b"1,one\n"[..], b"2", b",two\n", b""] {
            packet::write(&mut file, &mut sequence, payload);
        }
        let (mut expected, mut sequence) = (Vec::new(), 251);
        for payload in [&b"1,one\n"[..], b"2", b",two\n", b""] {
            packet::write(&mut expected, &mut sequence, payload);
        }
        file.extend_from_slice(b"next command");
        for piece in [1, 2, 3, 5, 7, 100] {
            let mut state = FileWalk::new(254, 3);
            let (out, left) = walk(&mut state, &file, piece);
            assert_eq!((out, &left[..]), (expected.clone(), &b"next command"[..]));
            assert_eq!(state.next_sequence(), 2);
        }
    }

    #[test]
    fn an_empty_packet_behind_a_full_one_is_not_the_end() {
        let (mut file, mut sequence) = (Vec::new(), 2);
        packet::write(&mut file, &mut sequence, &vec![b'x'; PAYLOAD_BYTES_MAX]);
        let mut state = FileWalk::new(2, 0);
        let piece = state.advance(&mut file).expect("in order");
        assert_eq!((piece.forward, piece.done), (file.len(), false));
        let piece = state.advance(&mut [0, 0, 0, 4]).expect("in order");
        assert_eq!((piece.forward, piece.done), (4, true));
    }

    #[test]
    fn packets_out_of_order_are_refused() {
        let mut state = FileWalk::new(2, 0);
        assert!(state.advance(&mut [1, 0, 0, 2, b'x', 0, 0, 0, 2]).is_err());
    }
}
