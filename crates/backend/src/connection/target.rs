//! Where a connection leads, and on what terms of the farm it is made.

use std::sync::Arc;

use farm::{ServerId, ServerKey};

/// Where to connect to.
#[derive(Clone, Debug)]
pub struct Target {
    pub server: ServerId,
    pub host: Arc<str>,
    pub port: u16,
    /// The server's term when it was chosen; a cut ends the connections of older terms.
    pub term: u32,
    /// Connections become READ ONLY sessions.
    pub read_only: bool,
    /// The server is a Galera node that is read from: each read first waits for what the cluster has
    /// committed.
    pub causal: bool,
    /// SHA-256 of the public key that the server is known by, where certificates are not verified.
    pub key: Option<ServerKey>,
    /// For a login, not for a statement: such openings are counted apart.
    pub at_login: bool,
    /// The session that wants it, for the flight recorder; 0 where none does.
    pub session: u32,
}
