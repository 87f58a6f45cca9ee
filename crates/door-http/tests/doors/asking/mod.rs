//! What holds for every body of a peer's question. A test runs it on good and bad ones, the fuzz target on
//! whatever it thinks of.

use door_http::peers::asked;

/// Reads a body: a command is marked as a peer's whatever the body says, and is the same when it is written and
/// read again; an error is one line for people.
pub fn check(body: &[u8]) {
    match asked(body) {
        Ok(call) => {
            assert!(call.from_peer);
            let again = serde_json::json!({ "protocol": 1, "later": [1], "call": call });
            assert_eq!(asked(again.to_string().as_bytes()), Ok(call));
        }
        Err(why) => assert!(!why.is_empty() && !why.contains('\n'), "{why:?}"),
    }
}
