//! Decodes and encodes what MariaDB 10.11, MySQL 8.0 and several clients really sent. For most
//! messages the encoder must make the very bytes that the other side had made.

use std::fs;
use std::path::{Path, PathBuf};

use mysql_wire::auth;
use mysql_wire::handshake::{AuthSwitch, Greeting, Login};
use mysql_wire::packet::{HEADER_BYTES, Header};

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
    let least = if target == "wire_compressed" { 8 } else { 20 };
    assert!(
        captures.len() >= least,
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

#[test]
fn frames() {
    for (name, input) in captures("wire_compressed") {
        let out = identity::compressed::check(&input);
        assert_eq!(out.as_ref(), Some(&input), "{name}");
    }
}

/// The payloads of one direction of a connection.
fn payloads(stream: &[u8]) -> Vec<&[u8]> {
    let (mut payloads, mut left) = (Vec::new(), stream);
    while let Some(header) = Header::parse(left) {
        let (packet, after) = left.split_at(HEADER_BYTES + header.payload_bytes);
        payloads.push(&packet[HEADER_BYTES..]);
        left = after;
    }
    payloads
}

/// The scrambles of real clients for the password `secret` verify against the salts of real
/// servers, by both plugins, with and without a switch.
#[test]
fn passwords() {
    let streams = captures("wire_packet");
    let stream = |name: String| {
        let found = streams.iter().find(|(other, _)| *other == name);
        payloads(&found.unwrap_or_else(|| panic!("there is no {name}")).1)
    };
    let native = auth::native_stage2(&auth::native_stage1(b"secret"));
    let sha2 = auth::sha2_stage2(&auth::sha2_stage1(b"secret"));
    for label in [
        "mariadb-10.11-cli",
        "mariadb-10.11-php",
        "mysql-8.0-php",
        "mysql-8.0-sha2",
    ] {
        let (server, client) = (
            stream(format!("{label}-server")),
            stream(format!("{label}-client")),
        );
        let greeting = Greeting::decode(server[0]).expect("a greeting");
        let login = Login::decode(client[0]).expect("a login");
        let (mut plugin, mut salt, mut response) = (login.plugin, greeting.salt, login.auth);
        if let Ok(switch) = AuthSwitch::decode(server[1]) {
            plugin = Some(switch.plugin.as_bytes());
            salt = switch.salt_array().expect("a salt of 20 bytes");
            response = client[1];
        }
        let verified = match plugin {
            Some(b"mysql_native_password") => {
                auth::native_verify(response, &salt, &native).is_some()
            }
            Some(b"caching_sha2_password") => auth::sha2_verify(response, &salt, &sha2).is_some(),
            other => panic!("{label} logs in with {other:?}"),
        };
        assert!(verified, "{label}");
    }
}
