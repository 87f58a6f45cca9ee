//! Decodes and encodes what MariaDB 10.11, MySQL 8.0 and several clients really sent. For most
//! messages the encoder must make the very bytes that the other side had made.

use std::fs;
use std::path::{Path, PathBuf};

mod identity;

/// Bytes before the payload: a letter and the capabilities.
const HEAD_BYTES: usize = 9;

/// The captures of one fuzz target, with their names. What a fuzzer added has a hash for its name
/// and is left out, as it need not be well formed.
fn captures(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target);
    let mut captures = Vec::new();
    for entry in fs::read_dir(folder).expect("the target has a corpus") {
        let entry = entry.expect("an entry of the corpus");
        let name = entry.file_name().into_string().expect("names are ASCII");
        if name.starts_with("mariadb") || name.starts_with("mysql") {
            captures.push((name, fs::read(entry.path()).expect("a capture can be read")));
        }
    }
    assert!(
        captures.len() > 20,
        "only {} captures of {target}",
        captures.len()
    );
    captures
}

/// Every capture is understood, and comes out as it was unless `differs` explains why not.
fn check(
    target: &str,
    check: fn(&[u8]) -> Option<Vec<u8>>,
    differs: impl Fn(&str, &[u8], &[u8]) -> bool,
) {
    for (name, input) in captures(target) {
        let out = check(&input).unwrap_or_else(|| panic!("{target}/{name} is malformed"));
        let head = input.len() - out.len().min(input.len());
        let same = head >= HEAD_BYTES && input[head..] == out;
        assert!(
            same || differs(&name, &input[HEAD_BYTES..], &out),
            "{target}/{name}: {out:?}"
        );
    }
}

#[test]
fn handshakes() {
    check("wire_handshake", identity::handshake::check, |_, _, _| {
        false
    });
}

#[test]
fn replies() {
    check("wire_reply", identity::reply::check, |_, _, _| false);
}

#[test]
fn results_and_statements() {
    // A flag of OPTIONAL_RESULTSET_METADATA behind the reply to a prepare is passed over.
    check(
        "wire_result",
        identity::result::check,
        |name, payload, out| name.contains("-optional-prepare-ok-") && payload.starts_with(out),
    );
}

#[test]
fn streams() {
    for (name, input) in captures("wire_packet") {
        assert_eq!(
            identity::packet::check(&input).as_ref(),
            Some(&input),
            "{name}"
        );
    }
}
