//! What new sessions are promised.

use farm::ClientScope;
use routing::Level;

/// A bound of this many milliseconds is none.
pub const UNBOUNDED_MS: u64 = u32::MAX as u64;

/// The defaults of new sessions, and what holds for all.
#[derive(Clone, Copy, Debug)]
pub struct Consistency {
    /// The bound of `Eventual` is that of `max_lag_ms`, whatever the level.
    pub level: Level,
    /// Which connections are one client's, for those that log in from now on.
    pub client_scope: ClientScope,
    pub max_lag_ms: u64,
    /// Reads of one session do not go back in time.
    pub monotonic: bool,
    /// How long a replica is waited for that lacks what a session wrote.
    pub wait_ms: u64,
}

impl Default for Consistency {
    fn default() -> Consistency {
        Consistency {
            level: Level::Client,
            client_scope: ClientScope::Address,
            max_lag_ms: 10_000,
            monotonic: true,
            wait_ms: 20,
        }
    }
}

/// The bound of an eventual read.
pub(crate) fn bound_us(max_lag_ms: u64) -> Option<u64> {
    (max_lag_ms < UNBOUNDED_MS).then(|| max_lag_ms.saturating_mul(1000))
}
