//! What holds for any bytes at the beginning of a connection, for tests and for the fuzzer.

use std::net::SocketAddr;

use proxy_wire::{BINARY_BYTES_MAX, Found, Origin, find, write_v1, write_v2};

/// Panics where something does not hold.
pub fn check(input: &[u8]) {
    let whole = find(input);
    if let Ok(Found::Header { origin, bytes }) = whole {
        assert!(bytes <= input.len() && bytes <= BINARY_BYTES_MAX);
        // No piece of it is anything else.
        for length in 0..bytes {
            let part = find(&input[..length]);
            assert!(matches!(part, Ok(Found::Part { .. })), "{length}: {part:?}");
        }
        again(origin);
    }
    if let Ok(Found::Part { needed, .. }) = whole {
        assert!(needed > input.len() && needed <= BINARY_BYTES_MAX);
    }
}

/// What is written of it is read as the same.
fn again(origin: Origin) {
    let server = SocketAddr::from(([192, 0, 2, 1], 3306));
    let (client, canonical) = match origin {
        Origin::Own => (None, Origin::Own),
        Origin::Client(client) => {
            let canonical = SocketAddr::new(client.ip().to_canonical(), client.port());
            (Some(client), Origin::Client(canonical))
        }
    };
    for write in [write_v1, write_v2] {
        let mut out = Vec::new();
        write(&mut out, client, server);
        let bytes = out.len();
        let origin = canonical;
        assert_eq!(find(&out), Ok(Found::Header { origin, bytes }));
    }
}
