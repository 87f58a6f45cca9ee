//! What happened lately: a ring of the last events.

use serde::Serialize;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Milliseconds since 1970, UTC.
    pub at_ms: u64,
    /// A fixed word, for example `server_died`.
    pub kind: &'static str,
    pub group: String,
    /// UUID, empty for an event of a whole group.
    pub server: String,
    pub address: String,
    /// For people.
    pub detail: String,
}
