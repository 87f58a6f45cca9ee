//! What the control plane needs of the data plane: who is connected, ending a session, and telling it
//! what changed.

use farm::{Kill, Killed};
use serde::{Deserialize, Serialize};

/// One client's session, as `session list` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionInfo {
    /// The connection id that the client was told.
    pub id: u32,
    pub user: String,
    /// `address:port` of the client; empty for a session of Heddle's own.
    pub client: String,
    /// What it came through: `sql`, `kv`, or `own` for a session of Heddle's own.
    pub door: String,
    pub database: String,
    /// The name of the command that runs, or [`SessionInfo::SLEEP`].
    pub command: String,
    /// For how long the session has been in this state.
    pub time_ms: u64,
    pub state: String,
    /// The server that runs its statement or whose connection it keeps; empty when there is none.
    pub server: String,
    /// What it keeps that connection for, empty when it keeps none; and for how long.
    pub pins: String,
    pub pinned_ms: u64,
    /// It keeps the connection for a piece of work, which ends by itself: a transaction, or locked tables.
    pub pinned_for_work: bool,
    /// The digest of the statement that runs, in hexadecimal; empty when none does.
    pub digest: String,
    /// Where that statement comes from, and the trace that it belongs to, as its comments say; else empty.
    pub tag: String,
    pub trace: String,
    /// The id of the server that runs its statement, and that server's id of the connection.
    pub running: Option<(u32, u32)>,
}

impl SessionInfo {
    /// The command of a session that waits for its client.
    pub const SLEEP: &str = "Sleep";
}

/// The data plane, as far as the control plane may look into it. Implementations must answer without
/// waiting for any session's client or server, but `plan`. `list`, `digests`, `plan`, `reset_digests`, `dump_trace` and `units_of_work_before` wait for the cores and are called
/// on threads beside the control thread; the others are called on it.
pub trait Sessions: Send + Sync {
    /// All sessions of this router.
    fn list(&self) -> Vec<SessionInfo>;
    /// Ends sessions of this router, all that are meant or none.
    fn kill(&self, kill: &Kill) -> Killed;
    /// Tells the sessions at once that the published snapshot has a new primary, a paused group, or a
    /// server whose connections are to be cut.
    fn turned(&self);
    /// How many sessions run a statement or a transaction that began by a picture of the tables from
    /// before this epoch; `None` when that cannot be told now.
    fn units_of_work_before(&self, epoch: u64) -> Option<usize>;
    /// The ids of new sessions belong to this slot from now on.
    fn placed(&self, slot: u8);
    /// What was counted since the start: names and values.
    fn counted(&self) -> Vec<(&'static str, u64)>;
    /// What was counted of statements, by digest, since the start or the last reset; or in the minutes that ended at
    /// this time, in milliseconds since 1970, or later.
    fn digests(&self, _since_ms: Option<u64>) -> Vec<statistics::Row> {
        Vec::new()
    }
    /// What the farm would do for the example of this row, which is not run; a line for each step. Waits for a server.
    ///
    /// # Errors
    /// There is no example, it does not surely read, or a server refused; for people.
    fn plan(&self, _row: &statistics::Row) -> Result<Vec<String>, String> {
        Err("this router serves no statements".to_owned())
    }
    /// Keeps the last steps of this router in a file: its path on the router's machine, and its bytes. Blocks.
    ///
    /// # Errors
    /// It cannot be written, or nothing is recorded; for people.
    fn dump_trace(&self) -> Result<(String, u64), String> {
        Err("nothing is recorded here".to_owned())
    }
    /// Begins to count by digest anew; gives how many rows there were on all cores.
    fn reset_digests(&self) -> usize {
        0
    }
}

/// A router without a data plane, for tests and tools.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSessions;

impl Sessions for NoSessions {
    fn list(&self) -> Vec<SessionInfo> {
        Vec::new()
    }

    fn kill(&self, _kill: &Kill) -> Killed {
        Killed::Sessions(0)
    }

    fn turned(&self) {}

    fn units_of_work_before(&self, _epoch: u64) -> Option<usize> {
        Some(0)
    }

    fn placed(&self, _slot: u8) {}

    fn counted(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
