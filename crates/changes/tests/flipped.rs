//! Logs of real servers, byte by byte turned into something else: nothing panics, and what can be read is JSON.

mod checking;

use std::path::Path;

/// What each byte is turned into: all bits, the lowest and the highest one.
const FLIPS: [u8; 3] = [0xFF, 0x01, 0x80];

/// The logs of the corpus, by name.
fn logs() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/changes_log");
    let files = std::fs::read_dir(folder).expect("the corpus is there");
    let read = files.map(|file| {
        let path = file.expect("an entry").path();
        let bytes = std::fs::read(&path).expect("a file");
        (path.display().to_string(), bytes)
    });
    read.collect()
}

#[test]
fn logs_of_servers_are_read_to_their_end() {
    for (name, bytes) in logs() {
        assert!(checking::check(&bytes) > 10, "{name}");
    }
}

#[test]
fn flipped_bytes_are_no_panic() {
    for (_, bytes) in logs() {
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= FLIPS[at % FLIPS.len()];
            checking::check(&flipped);
        }
    }
}

#[test]
fn cut_logs_are_no_panic() {
    for (_, bytes) in logs() {
        for end in (0..bytes.len()).step_by(7) {
            checking::check(&bytes[..end]);
        }
    }
}
