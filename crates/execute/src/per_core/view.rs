//! What others may see of a core's sessions: for lists of sessions and for KILL USER.
//!
//! Must not know: how a session is looked at; that is the front's affair.

use std::net::SocketAddr;

use farm::ServerId;
use farm::local::{host_of, is_local};
use sqltext::Digest;

/// What a session came through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    Sql,
    Keys,
    /// None: it is Heddle's own.
    Own,
}

impl Door {
    const ALL: [Door; 3] = [Door::Sql, Door::Keys, Door::Own];

    /// As lists have it.
    pub fn name(self) -> &'static str {
        match self {
            Door::Sql => "sql",
            Door::Keys => "kv",
            Door::Own => "own",
        }
    }

    /// The door of this name; a router that names none, or another, has told of a session of SQL.
    pub fn named(name: &str) -> Door {
        let named = Door::ALL.into_iter().find(|door| door.name() == name);
        named.unwrap_or(Door::Sql)
    }
}

/// One session as it was when its core was asked.
#[derive(Clone, Debug)]
pub struct SessionView {
    pub id: u32,
    pub user: Vec<u8>,
    pub peer: SocketAddr,
    pub door: Door,
    pub database: Option<Vec<u8>>,
    /// The name of the command that runs; `None` while the session waits for its client's next one.
    pub command: Option<&'static str>,
    /// Since its last command began, or since its client was last heard of.
    pub time_s: u64,
    /// Of the statement that runs.
    pub digest: Option<Digest>,
    /// Where that comes from, and the trace that it belongs to, as its comments say.
    pub tag: String,
    pub trace: String,
    /// The server that runs its statement, and the server's id of the connection.
    pub running: Option<(ServerId, u32)>,
    /// The same of the connection that the session keeps.
    pub held: Option<(ServerId, u32)>,
    /// Why it keeps one: `transaction`, or what is pinned. Empty when it keeps none.
    pub reasons: Vec<&'static str>,
    /// It keeps one for a piece of work, which ends by itself: a transaction, or locked tables.
    pub held_for_work: bool,
    /// For how long it has kept one.
    pub held_s: u64,
}

/// Takes the sessions of one core.
pub struct Lister(Box<dyn FnOnce(Vec<SessionView>) + Send>);

impl Lister {
    /// Calls `take` once, on the core's thread; it must not block.
    pub fn new(take: impl FnOnce(Vec<SessionView>) + Send + 'static) -> Lister {
        Lister(Box::new(take))
    }

    /// Hands the sessions over.
    pub fn tell(self, sessions: Vec<SessionView>) {
        (self.0)(sessions);
    }
}

impl std::fmt::Debug for Lister {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lister")
    }
}

impl SessionView {
    /// What the servers' lists of processes have in the column Host.
    pub fn host(&self) -> String {
        match is_local(self.peer.ip()) {
            true => host_of(self.peer.ip()),
            false => format!("{}:{}", self.peer.ip().to_canonical(), self.peer.port()),
        }
    }
}
