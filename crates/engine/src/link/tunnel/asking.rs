//! What the driver asks for, and what it cannot: the statements behind rows in a MariaDB server's binlog.
//!
//! A server sends them to those whose COM_BINLOG_DUMP has a flag that is not MySQL's. The driver knows
//! MySQL's flags only, so the flag is set on the way to the server.

use mysql_wire::packet::HEADER_BYTES;

/// What a binlog is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    /// As the driver does it.
    AsDriver,
    /// The statements behind rows, too, of a MariaDB server.
    Sources,
}

impl Asks {
    pub(super) fn rewriter(self) -> Option<Rewriter> {
        (self == Asks::Sources).then(Rewriter::default)
    }
}

/// COM_BINLOG_DUMP, whose parameters are a position of four bytes and the flags.
const COM_BINLOG_DUMP: u8 = 0x12;
const FLAGS_AT: usize = HEADER_BYTES + 1 + 4;

/// BINLOG_SEND_ANNOTATE_ROWS_EVENT.
const SENDS_STATEMENTS: u8 = 2;

/// Walks over the driver's packets, in whatever pieces they come.
#[derive(Default)]
pub(super) struct Rewriter {
    /// Where in the current packet the next byte stands, its header included.
    at: usize,
    header: [u8; HEADER_BYTES],
    is_dump: bool,
}

impl Rewriter {
    /// Sets the flag in a command of the right kind; no other byte is changed.
    pub(super) fn take(&mut self, bytes: &mut [u8]) {
        let mut next = 0;
        while next < bytes.len() {
            if self.at > FLAGS_AT {
                let step = (self.end() - self.at).min(bytes.len() - next);
                next += step;
                self.at += step;
            } else {
                self.look(&mut bytes[next]);
                next += 1;
                self.at += 1;
            }
            if self.at >= HEADER_BYTES && self.at >= self.end() {
                *self = Rewriter::default();
            }
        }
    }

    /// One byte of the beginning of a packet.
    fn look(&mut self, byte: &mut u8) {
        const IS_COMMAND: u8 = 0;
        match self.at {
            at if at < HEADER_BYTES => self.header[at] = *byte,
            HEADER_BYTES => {
                self.is_dump = *byte == COM_BINLOG_DUMP && self.header[3] == IS_COMMAND;
            }
            FLAGS_AT if self.is_dump => *byte |= SENDS_STATEMENTS,
            _ => {}
        }
    }

    /// Where the packet ends.
    fn end(&self) -> usize {
        let [low, middle, high, _] = self.header;
        HEADER_BYTES + usize::from(low) + (usize::from(middle) << 8) + (usize::from(high) << 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
        let bytes = u32::try_from(payload.len()).expect("short").to_le_bytes();
        [&bytes[..3], &[sequence], payload].concat()
    }

    #[test]
    fn the_flag_is_set_in_a_dump_and_nowhere_else() {
        let dump = [
            &[COM_BINLOG_DUMP, 4, 0, 0, 0, 1, 0, 9, 9, 9, 9][..],
            b"b.000001",
        ]
        .concat();
        let query = [&[3][..], &[COM_BINLOG_DUMP; 30]].concat();
        let stream = [
            packet(0, &query),
            packet(0, b"\x0E"),
            packet(1, &dump),
            packet(0, &dump),
            packet(0, b""),
            packet(0, &query),
        ];
        let mut wanted = stream.concat();
        let at = stream[..3].concat().len() + FLAGS_AT;
        wanted[at] = 3;
        for piece in 1..wanted.len() {
            let mut bytes = stream.concat();
            let mut rewriter = Rewriter::default();
            bytes.chunks_mut(piece).for_each(|part| rewriter.take(part));
            assert_eq!(bytes, wanted, "{piece}");
        }
    }
}
