//! Compressed frames, and where commands begin in what they carry.

use mysql_wire::compressed::{Commands, HEADER_BYTES, Header, Renumber};

/// Takes an input as a stream of frames and makes their headers anew: the same bytes must come out.
/// Bodies that are not compressed are walked for commands and numbered anew, as a whole and in
/// pieces: cutting must change nothing.
pub fn check(input: &[u8]) -> Option<Vec<u8>> {
    let mut left = input;
    let (mut out, mut plain) = (Vec::new(), Vec::new());
    while let Some(header) = Header::parse(left) {
        let Some((frame, after)) = left.split_at_checked(header.frame_bytes()) else {
            break;
        };
        left = after;
        out.extend_from_slice(&header.encode());
        out.extend_from_slice(&frame[HEADER_BYTES..]);
        if header.plain_bytes == 0 {
            plain.extend_from_slice(&frame[HEADER_BYTES..]);
        }
    }
    assert!(out == input[..input.len() - left.len()]);
    commands(&plain);
    renumber(&plain);
    Some(out)
}

fn commands(plain: &[u8]) {
    let (mut walk, mut left, mut first) = (Commands::default(), plain, true);
    while !left.is_empty() {
        let (bytes, begins) = walk.next(left);
        assert!(bytes > 0 && bytes <= left.len());
        // Only what comes first may belong to a command of before.
        assert!(begins || first);
        (left, first) = (&left[bytes..], false);
    }
}

fn renumber(plain: &[u8]) {
    let mut whole = plain.to_vec();
    let (mut walk, mut next) = (Renumber::default(), 7);
    walk.apply(&mut whole, &mut next);
    for piece in [1, 3, 7] {
        let mut parts = plain.to_vec();
        let (mut walk, mut at) = (Renumber::default(), 7);
        for part in parts.chunks_mut(piece) {
            walk.apply(part, &mut at);
        }
        assert!(parts == whole && at == next);
    }
}
