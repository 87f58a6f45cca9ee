//! A server's events as a binlog's file has them.
//!
//! Invariants: what comes out is whole events, each with its checksum, without those that servers make for their readers
//! alone.

use std::io;

use changes::code;
use mysql_async::binlog::BinlogVersion;
use mysql_async::binlog::events::{Event, TransactionPayloadEvent};

/// With these bytes a file begins.
const MAGIC: [u8; 4] = *b"\xFEbin";

/// Bytes of an event in front of what it says, and where its length stands.
const HEADER_BYTES: usize = 19;
const LENGTH_AT: usize = 9;

/// Gathers events.
pub(super) struct RawLog {
    pub bytes: Vec<u8>,
    /// So many events that come are those of a compressed transaction that is there already.
    inner: usize,
}

impl RawLog {
    pub fn new() -> RawLog {
        RawLog {
            bytes: MAGIC.to_vec(),
            inner: 0,
        }
    }

    /// Takes the next event.
    ///
    /// # Errors
    /// It is none.
    pub fn take(&mut self, event: &Event) -> io::Result<()> {
        if self.inner > 0 {
            self.inner -= 1;
            return Ok(());
        }
        let header = event.header();
        let kind = header.event_type_raw();
        let is_artificial =
            header.flags_raw() & code::ARTIFICIAL_FLAG != 0 || header.log_pos() == 0;
        if code::HEARTBEAT.contains(&kind) || kind == code::ROTATE && is_artificial {
            return Ok(());
        }
        if kind == code::TRANSACTION_PAYLOAD {
            let payload = event.read_event::<TransactionPayloadEvent<'_>>()?;
            self.inner = count(&payload.danger_decompress());
        }
        event.write(BinlogVersion::Version4, &mut self.bytes)
    }
}

/// How many events these are.
fn count(mut events: &[u8]) -> usize {
    let mut count = 0;
    while let Some(length) = events.get(LENGTH_AT..).and_then(<[u8]>::first_chunk) {
        let bytes = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        events = events.get(bytes.max(HEADER_BYTES)..).unwrap_or_default();
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted() {
        let mut event = vec![0; HEADER_BYTES + 3];
        event[LENGTH_AT] = 22;
        assert_eq!(count(&[event.clone(), event.clone()].concat()), 2);
        assert_eq!((count(&event), count(&[]), count(&event[..9])), (1, 0, 0));
    }
}
