//! KILL, as one router carries it out for itself or passes it on to another.

use serde::{Deserialize, Serialize};

/// Whom a KILL is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Victim {
    /// The session with this id.
    Session(u32),
    /// All sessions of a user from addresses that fit the host.
    User { user: String, host: String },
}

/// A KILL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kill {
    pub victim: Victim,
    /// Only the statement that runs.
    pub query: bool,
    /// Not where that could leave a table damaged (MariaDB).
    pub soft: bool,
    /// Whoever asks may end only sessions of this user; `None` when all.
    pub only: Option<String>,
    /// Whoever asks may not end sessions of accounts with MySQL's SYSTEM_USER.
    #[serde(default)]
    pub spares_system: bool,
}

/// What became of a KILL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Killed {
    /// So many sessions were ended; 0 when nobody is meant.
    Sessions(u32),
    /// Nothing was done: this one is another user's.
    Foreign(u32),
}
