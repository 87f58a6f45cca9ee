//! Streams of packets, as they come from a socket.

use mysql_wire::packet::{HEADER_BYTES, Header, Joiner, write, write_with};
use mysql_wire::scalar::Reader;

/// Takes an input as a stream of packets and joins them, whatever their sequence numbers; then
/// frames each payload again, which must give back the same bytes. Returns these bytes. Every
/// scalar is read at every payload as well: none may panic.
pub fn check(input: &[u8]) -> Option<Vec<u8>> {
    let mut joiner = Joiner::new(usize::MAX);
    let mut left = input;
    let mut out = Vec::new();
    let mut start = 0;
    while let Some(header) = Header::parse(left) {
        assert_eq!(header.encode(), left[..HEADER_BYTES]);
        let Some((packet, after)) = left.split_at_checked(HEADER_BYTES + header.payload_bytes)
        else {
            break;
        };
        left = after;
        if !joiner.is_open() {
            joiner.expect(header.sequence);
            start = header.sequence;
        }
        if joiner.check(header).is_err() {
            return None;
        }
        let Ok(Some(payload)) = joiner.push(header, &packet[HEADER_BYTES..]) else {
            continue;
        };
        let mut sequence = start;
        let mut framed = Vec::new();
        write(&mut framed, &mut sequence, payload);
        let mut same = Vec::new();
        let mut again = start;
        write_with(&mut same, &mut again, |out| out.extend_from_slice(payload));
        assert!(framed == same && sequence == again);
        out.extend_from_slice(&framed);
        scalars(payload);
        assert_eq!(joiner.expected(), sequence);
    }
    assert!(joiner.is_open() || out == input[..input.len() - left.len()]);
    Some(out)
}

/// Reads a payload as each kind of scalar, to its end.
fn scalars(payload: &[u8]) {
    type Read = fn(&mut Reader<'_>) -> bool;
    let reads: [Read; 8] = [
        |reader| reader.u16().is_ok(),
        |reader| reader.u24().is_ok(),
        |reader| reader.u32().is_ok(),
        |reader| reader.u48().is_ok(),
        |reader| reader.u64().is_ok(),
        |reader| reader.lenenc_int().is_ok(),
        |reader| reader.lenenc_bytes().is_ok(),
        |reader| reader.nul_bytes().is_ok(),
    ];
    for read in reads {
        let mut reader = Reader::new(payload);
        let mut before = reader.remaining();
        while read(&mut reader) {
            assert!(reader.remaining() < before);
            before = reader.remaining();
        }
        assert_eq!(reader.remaining(), before, "a failed read takes nothing");
    }
}
