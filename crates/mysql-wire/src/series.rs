//! The answers of several commands, one after the other, as the answer to one: a text of several
//! statements whose parts ran by themselves.
//!
//! Packets are numbered through, and all but the last answer say that another one follows. Rows pass
//! through as they come; a packet is kept until it is whole, no more.

use crate::capability::Capabilities;
use crate::packet::{HEADER_BYTES, Header, PAYLOAD_BYTES_MAX};
use crate::reply::{EOF, ERR, OK};
use crate::scalar::Reader;
use crate::status::Status;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    First,
    /// So many definitions of columns, and perhaps an EOF behind them.
    Columns(u64),
    ColumnsEnd,
    Rows,
}

/// Walks the answers on their way to a client.
#[derive(Clone, Debug)]
pub struct Series {
    /// The client's.
    capabilities: Capabilities,
    /// The number of the next packet.
    sequence: u8,
    /// Another answer follows the one at hand.
    more: bool,
    state: State,
    /// The packet before was a full one of 16 MB.
    continued: bool,
    failed: bool,
    /// What came of a packet that is not whole yet.
    kept: Vec<u8>,
}

impl Series {
    /// Before the first answer to a command whose own packet had the number 0.
    pub fn new(capabilities: Capabilities) -> Series {
        Series {
            capabilities,
            sequence: 1,
            more: false,
            state: State::First,
            continued: false,
            failed: false,
            kept: Vec::new(),
        }
    }

    /// The next answer begins; `more`: it is not the last one.
    pub fn begin(&mut self, more: bool) {
        self.more = more;
        self.state = State::First;
    }

    /// An answer was an error, behind which none may come.
    pub fn failed(&self) -> bool {
        self.failed
    }

    /// What the client gets for these bytes of an answer.
    pub fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut all = std::mem::take(&mut self.kept);
        all.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(header) = Header::parse(&all[at..]) {
            let end = at + HEADER_BYTES + header.payload_bytes;
            if all.len() < end {
                break;
            }
            all[at + 3] = self.sequence;
            self.sequence = self.sequence.wrapping_add(1);
            if !self.continued {
                self.see(&mut all[at + HEADER_BYTES..end]);
            }
            self.continued = header.payload_bytes == PAYLOAD_BYTES_MAX;
            at = end;
        }
        self.kept = all.split_off(at);
        all
    }

    fn see(&mut self, payload: &mut [u8]) {
        let deprecates = self.capabilities.contains(Capabilities::DEPRECATE_EOF);
        match (self.state, payload.first().copied()) {
            (_, Some(ERR)) if !matches!(self.state, State::Columns(_)) => self.failed = true,
            (State::First, Some(OK)) => self.end(payload),
            (State::First, _) => {
                let columns = Reader::new(payload).lenenc_int().unwrap_or(0);
                self.state = State::Columns(columns);
            }
            (State::Columns(left), _) if left > 1 => self.state = State::Columns(left - 1),
            (State::Columns(_), _) if deprecates => self.state = State::Rows,
            (State::Columns(_), _) => self.state = State::ColumnsEnd,
            (State::ColumnsEnd, _) => {
                self.mark(payload);
                self.state = State::Rows;
            }
            (State::Rows, Some(EOF)) if payload.len() < PAYLOAD_BYTES_MAX => self.end(payload),
            (State::Rows, _) => {}
        }
    }

    /// An answer, or one of its results, ends.
    fn end(&mut self, payload: &mut [u8]) {
        self.mark(payload);
        self.state = State::First;
    }

    /// Says in the flags that another answer follows.
    fn mark(&mut self, payload: &mut [u8]) {
        if !self.more {
            return;
        }
        let eof = payload.first() == Some(&EOF);
        let at = match eof && !self.capabilities.contains(Capabilities::DEPRECATE_EOF) {
            // Behind the number of warnings.
            true => Some(3),
            false => flags_of_ok(payload),
        };
        if let Some(flags) = at.and_then(|at| payload.get_mut(at)) {
            *flags |= Status::MORE_RESULTS.bits().to_le_bytes()[0];
        }
    }
}

/// Where an OK packet has its flags: behind two numbers.
fn flags_of_ok(payload: &[u8]) -> Option<usize> {
    let mut at = 1;
    for _ in 0..2 {
        at += match payload.get(at)? {
            0xFC => 3,
            0xFD => 4,
            0xFE => 9,
            _ => 1,
        };
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet;
    use crate::reply::{EofPacket, OkPacket};

    fn answer(payloads: &[Vec<u8>]) -> Vec<u8> {
        let (mut out, mut sequence) = (Vec::new(), 1);
        for payload in payloads {
            packet::write(&mut out, &mut sequence, payload);
        }
        out
    }

    fn ok(capabilities: Capabilities, affected_rows: u64) -> Vec<u8> {
        let mut ok = OkPacket::new(Status::AUTOCOMMIT);
        ok.affected_rows = affected_rows;
        let mut payload = Vec::new();
        ok.encode(&mut payload, capabilities);
        payload
    }

    fn eof() -> Vec<u8> {
        let mut payload = Vec::new();
        EofPacket {
            warnings: 0,
            status: Status::AUTOCOMMIT,
        }
        .encode(&mut payload);
        payload
    }

    /// Passes answers on in pieces of three bytes; gives the packets' numbers and payloads.
    fn passed(capabilities: Capabilities, answers: &[Vec<u8>]) -> (Vec<(u8, Vec<u8>)>, bool) {
        let mut series = Series::new(capabilities);
        let mut out = Vec::new();
        for (at, answer) in answers.iter().enumerate() {
            series.begin(at + 1 < answers.len());
            for piece in answer.chunks(3) {
                out.extend(series.pass(piece));
            }
        }
        let mut packets = Vec::new();
        let mut rest = &out[..];
        while let Some(header) = Header::parse(rest) {
            let end = HEADER_BYTES + header.payload_bytes;
            packets.push((header.sequence, rest[HEADER_BYTES..end].to_vec()));
            rest = &rest[end..];
        }
        (packets, series.failed())
    }

    #[test]
    fn answers_follow_each_other() {
        let old = Capabilities::PROTOCOL_41;
        let row = b"\x011".to_vec();
        let rows = [vec![1], b"column".to_vec(), eof(), row, eof()];
        let answers = [
            answer(&[ok(old, 70_000)]),
            answer(&rows),
            answer(&[ok(old, 1)]),
        ];
        let (packets, failed) = passed(old, &answers);
        assert!(!failed);
        let numbers: Vec<u8> = packets.iter().map(|packet| packet.0).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7]);
        let flags = |at: usize, place: usize| packets[at].1[place] & 8;
        // 70,000 takes four bytes.
        assert_eq!(
            [flags(0, 6), flags(3, 3), flags(5, 3), flags(6, 3)],
            [8, 8, 8, 0]
        );
        assert_eq!(packets[4].1, b"\x011");
    }

    #[test]
    fn an_error_is_the_last_answer() {
        let new = Capabilities::PROTOCOL_41 | Capabilities::DEPRECATE_EOF;
        let mut end = ok(new, 0);
        end[0] = EOF;
        let rows = [vec![1], b"column".to_vec(), b"\x011".to_vec(), end];
        let error = b"\xFF\x28\x04#42000no".to_vec();
        let (packets, failed) = passed(new, &[answer(&rows), answer(&[error])]);
        assert!(failed);
        assert_eq!(packets[3].1[3] & 8, 8);
        assert_eq!(packets.len(), 5);
    }
}
