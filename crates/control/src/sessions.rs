//! What the commands `session list` and `session kill` need of the data plane.

/// One client's session, as `session list` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionInfo {
    /// The connection id that the client was told.
    pub id: u64,
    pub user: String,
    /// `address:port` of the client.
    pub client: String,
    pub database: String,
    /// The name of the command that runs, or `Sleep`.
    pub command: String,
    /// For how long the session has been in this state.
    pub time_ms: u64,
    pub state: String,
    /// The server that runs its statement or whose connection it keeps; empty when there is none.
    pub server: String,
    /// What it keeps that connection for, empty when it keeps none; and for how long.
    pub pins: String,
    pub pinned_ms: u64,
    /// The digest of the statement that runs, in hexadecimal; empty when none does.
    pub digest: String,
}

/// The data plane, as far as the control plane may look into it. Called on the control thread;
/// implementations must answer without waiting for any session's client or server.
pub trait Sessions: Send + Sync {
    /// All sessions of this router.
    fn list(&self) -> Vec<SessionInfo>;
    /// Ends a session, or with `query` only the statement that it runs. False when no session has
    /// this id.
    fn kill(&self, id: u64, query: bool) -> bool;
    /// Tells the sessions at once that the published snapshot has a new primary, a paused group, or a
    /// server whose connections are to be cut.
    fn turned(&self);
}

/// A router without a data plane, for tests and tools.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSessions;

impl Sessions for NoSessions {
    fn list(&self) -> Vec<SessionInfo> {
        Vec::new()
    }

    fn kill(&self, _id: u64, _query: bool) -> bool {
        false
    }

    fn turned(&self) {}
}
