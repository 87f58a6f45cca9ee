//! The stream as a semi-synchronous replica expects it: two bytes in each event say whether it has to be
//! acknowledged.
//!
//! A server that does not wait for such replicas sends the bytes all the same, and asks for nothing. So does
//! [`Declined`], out of a stream that has none of them.

use crate::packet::{HEADER_BYTES, Header, PAYLOAD_BYTES_MAX};

/// Stands behind an event's first byte: what the replica knows the event by, and that it need not answer.
const NO_ANSWER: [u8; 2] = [0xEF, 0];

/// Puts the two bytes into a stream that comes in pieces of any size. The packets get numbers of its own, since
/// an event that fills a packet needs one more.
#[derive(Clone, Debug)]
pub struct Declined {
    next_sequence: u8,
    /// Of the header of the next packet that comes, what is there already.
    header: Vec<u8>,
    /// Of the packet that comes, not taken yet.
    left: usize,
    /// The next packet that comes continues the event.
    continues: bool,
    /// The event's first byte is the next one.
    is_first: bool,
    /// Of the packet that goes out, not written yet.
    room: usize,
    /// How long the packet behind it is, where what comes in one packet goes out in two.
    behind: Option<usize>,
    /// What the event's next packet begins with.
    carried: Vec<u8>,
}

impl Declined {
    /// For a stream from its beginning.
    pub fn new() -> Declined {
        Declined {
            next_sequence: 1,
            header: Vec::new(),
            left: 0,
            continues: false,
            is_first: false,
            room: 0,
            behind: None,
            carried: Vec::new(),
        }
    }

    /// The number of the next packet; `None` in the middle of an event.
    pub fn next_sequence(&self) -> Option<u8> {
        let is_between = self.left == 0 && !self.continues && self.header.is_empty();
        is_between.then_some(self.next_sequence)
    }

    /// Appends to `out` what `bytes` of the stream become.
    pub fn take(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while !bytes.is_empty() {
            if self.left == 0 {
                let wanted = (HEADER_BYTES - self.header.len()).min(bytes.len());
                self.header.extend_from_slice(&bytes[..wanted]);
                bytes = &bytes[wanted..];
                if let Some(header) = Header::parse(&self.header) {
                    self.header.clear();
                    self.begin(header.payload_bytes, out);
                }
                continue;
            }
            let step = match self.is_first {
                true => 1,
                false => self.left.min(bytes.len()),
            };
            self.write(&bytes[..step], out);
            if std::mem::take(&mut self.is_first) {
                self.write(&NO_ANSWER, out);
            }
            self.left -= step;
            bytes = &bytes[step..];
            if self.left == 0
                && let Some(last) = self.behind.take()
            {
                self.announce(last, out);
            }
        }
    }

    /// A packet of this length comes.
    fn begin(&mut self, payload: usize, out: &mut Vec<u8>) {
        self.is_first = !self.continues && payload > 0;
        self.continues = payload == PAYLOAD_BYTES_MAX;
        self.left = payload;
        let carried = std::mem::take(&mut self.carried);
        let more = if self.is_first {
            NO_ANSWER.len()
        } else {
            carried.len()
        };
        let total = payload + more;
        if total >= PAYLOAD_BYTES_MAX && !self.continues {
            self.behind = Some(total - PAYLOAD_BYTES_MAX);
        }
        self.announce(total.min(PAYLOAD_BYTES_MAX), out);
        self.write(&carried, out);
    }

    fn announce(&mut self, payload_bytes: usize, out: &mut Vec<u8>) {
        let header = Header {
            payload_bytes,
            sequence: self.next_sequence,
        };
        out.extend_from_slice(&header.encode());
        self.next_sequence = self.next_sequence.wrapping_add(1);
        self.room = payload_bytes;
    }

    /// What the packet has no room for goes into the next one.
    fn write(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let (here, rest) = bytes.split_at(self.room.min(bytes.len()));
        out.extend_from_slice(here);
        self.room -= here.len();
        if rest.is_empty() {
            return;
        }
        match self.behind.take() {
            Some(bytes) => {
                self.announce(bytes, out);
                out.extend_from_slice(rest);
                self.room -= rest.len();
            }
            None => self.carried.extend_from_slice(rest),
        }
    }
}

impl Default for Declined {
    fn default() -> Declined {
        Declined::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet;

    /// The payloads of events with and without the two bytes, through pieces of this size.
    fn declined(events: &[Vec<u8>], piece: usize) -> (Vec<u8>, Vec<u8>) {
        let (mut straight, mut wanted) = (Vec::new(), Vec::new());
        let (mut sequence, mut number) = (1, 1);
        for event in events {
            packet::write(&mut straight, &mut sequence, event);
            let (first, rest) = event.split_at(1);
            let whole = [first, &NO_ANSWER, rest].concat();
            packet::write(&mut wanted, &mut number, &whole);
        }
        let (mut declined, mut out) = (Declined::new(), Vec::new());
        for part in straight.chunks(piece) {
            declined.take(part, &mut out);
        }
        assert_eq!(declined.next_sequence(), Some(number));
        (out, wanted)
    }

    #[test]
    fn each_event_says_that_it_need_not_be_answered() {
        let events = [b"\0abc".to_vec(), vec![0], vec![0; 700]];
        for piece in 1..40 {
            let (out, wanted) = declined(&events, piece);
            assert_eq!(out, wanted, "{piece}");
        }
    }

    #[test]
    fn an_event_that_fills_its_packets_needs_one_more() {
        for bytes in [
            PAYLOAD_BYTES_MAX - 3,
            PAYLOAD_BYTES_MAX - 2,
            PAYLOAD_BYTES_MAX - 1,
            PAYLOAD_BYTES_MAX,
            PAYLOAD_BYTES_MAX + 5,
            2 * PAYLOAD_BYTES_MAX - 2,
            2 * PAYLOAD_BYTES_MAX - 1,
        ] {
            let mut event: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
            event[0] = 0;
            let (out, wanted) = declined(&[event, b"\0next".to_vec()], 65_537);
            assert!(out == wanted, "{bytes}");
        }
    }
}
