//! Positions, and waits for them, as expressions.

use farm::Engine;

use crate::words::{EXECUTED, WAIT_FOR_POSITION};

/// True while the server takes writes, as an expression. From MariaDB 12 on `read_only` is a word, which
/// compared with a number is 0 whatever it says.
pub const TAKES_WRITES: &str = "CAST(@@global.read_only AS CHAR) IN ('0', 'OFF')";

/// What the server has executed, as one expression; [`farm::Position::parse`] reads its value.
pub fn executed(engine: Engine) -> &'static str {
    EXECUTED.of_engine(engine)
}

/// The expression by which a replica waits for a position; 0 when it came. The text must be that of
/// a [`farm::Position`].
pub fn wait_for(engine: Engine, position: &str, wait_ms: u64) -> String {
    let name = WAIT_FOR_POSITION.of_engine(engine);
    format!(
        "{name}('{position}', {}.{:03})",
        wait_ms / 1000,
        wait_ms % 1000
    )
}
