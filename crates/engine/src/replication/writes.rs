//! Writes of Heddle's own at primaries. Its account may write into a server that is read-only, as one is while another takes
//! its place, and nobody would get what it wrote there.

use enginesql::position::TAKES_WRITES;

use crate::error::Error;

/// ER_DATA_OUT_OF_RANGE: of the exponential of a great number.
const OUT_OF_RANGE: u16 = 1690;

/// A statement that fails where the server takes no writes, and so ends its packet. In front of a commit it spares the server
/// a transaction of nobody's; behind one it makes sure that the commit was in front of the change.
pub(crate) fn expect_writes() -> String {
    format!("SELECT EXP(IF({TAKES_WRITES}, 0, 10000))")
}

/// What such a statement fails with, in words; other errors as they are.
pub(crate) fn of_no_writes(error: Error, operation: &'static str, server: &str) -> Error {
    match error.number() {
        Some(OUT_OF_RANGE) => Error::Lost {
            operation,
            server: server.to_owned(),
            reason: "it takes no writes any more".to_owned(),
        },
        _ => error,
    }
}
