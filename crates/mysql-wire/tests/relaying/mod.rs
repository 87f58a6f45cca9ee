//! Runs a reply through [`Relay`] in pieces, for the tests and the fuzz target `wire_relay`.

use mysql_wire::capability::Capabilities;
use mysql_wire::relay::{Expect, Outcome, Relay};
use mysql_wire::status::Status;

/// What came out of a relay.
#[derive(Debug, PartialEq)]
pub struct Relayed {
    pub out: Vec<u8>,
    pub done: bool,
    pub failed: bool,
    pub rows: u64,
    pub error: Option<u16>,
    pub changes: usize,
    /// Input behind the reply's end, or not understood yet.
    pub left: usize,
}

/// The server side's capabilities: what the router always negotiates.
pub fn server() -> Capabilities {
    Capabilities::PROTOCOL_41 | Capabilities::DEPRECATE_EOF | Capabilities::SESSION_TRACK
}

/// Relays `reply`, received in pieces of these lengths (the last one repeats). The receive buffer
/// behaves as the session's: bytes that were forwarded are removed from its front.
pub fn relay(reply: &[u8], expect: Expect, client: Capabilities, pieces: &[usize]) -> Relayed {
    let walk = Relay::new(expect, client, server(), Status::AUTOCOMMIT);
    // Else what stands in front of rows may depend on how much of them has come.
    let mut walk = walk.of_several(true);
    let mut result = Relayed {
        out: Vec::new(),
        done: false,
        failed: false,
        rows: 0,
        error: None,
        changes: 0,
        left: 0,
    };
    let mut buffer: Vec<u8> = Vec::with_capacity(64);
    let mut rest = reply;
    let mut pieces = pieces
        .iter()
        .copied()
        .chain(std::iter::repeat(*pieces.last().unwrap_or(&1)));
    let mut asked = false;
    while (asked || !rest.is_empty()) && !result.done && !result.failed {
        // The session would send a file where one is asked for; here the reply just goes on.
        let length = pieces
            .next()
            .unwrap_or(1)
            .min(if asked { 0 } else { rest.len() });
        buffer.extend_from_slice(&rest[..length]);
        rest = &rest[length..];
        let changes = &mut result.changes;
        match walk.advance(&mut buffer, 0, &mut |_| *changes += 1) {
            Ok(progress) => {
                result.out.extend(buffer.drain(..progress.forward));
                result.done = progress.done;
                asked = progress.wants_file;
                assert!(progress.need == 0 || progress.need > buffer.len());
            }
            Err(_) => result.failed = true,
        }
    }
    result.left = buffer.len() + rest.len();
    let outcome: &Outcome = walk.outcome();
    (result.rows, result.error) = (outcome.rows, outcome.error);
    result
}

/// The property that any input has: how the bytes were cut into pieces changes nothing. The first
/// bytes of the input choose the kind of reply, the client and the pieces.
pub fn check(input: &[u8]) {
    let [kind, client, first, second, reply @ ..] = input else {
        return;
    };
    let expect = match kind % 6 {
        0 => Expect::Results,
        1 => Expect::Prepare { client_id: 7 },
        2 => Expect::Rows,
        3 => Expect::Columns,
        4 => Expect::Single,
        _ => Expect::Cursor,
    };
    let mut caps = Capabilities::PROTOCOL_41;
    caps.set(Capabilities::DEPRECATE_EOF, client & 1 != 0);
    caps.set(Capabilities::SESSION_TRACK, client & 2 != 0);
    let whole = relay(reply, expect, caps, &[reply.len().max(1)]);
    let pieces = [usize::from(*first) + 1, usize::from(*second) + 1];
    let cut = relay(reply, expect, caps, &pieces);
    if whole.failed || cut.failed {
        assert_eq!(
            whole.failed, cut.failed,
            "cutting decides whether a reply is malformed"
        );
        return;
    }
    assert_eq!(whole.done, cut.done);
    if whole.done {
        assert_eq!((whole.rows, whole.error), (cut.rows, cut.error));
        assert_eq!(whole.changes, cut.changes);
        assert_eq!(whole.out, cut.out);
        assert_eq!(whole.left, cut.left);
    } else {
        // What is not complete yet may be held back at different places.
        assert!(whole.out.starts_with(&cut.out) || cut.out.starts_with(&whole.out));
    }
}
