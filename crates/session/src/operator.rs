//! What sessions ask of the control plane: commands, accounts, and what became of a lost write.

use farm::ServerId;

/// An answer of the command table: column names and rows of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Option<String>>>,
}

/// Carries out the commands of the command table for sessions. Implemented by the control plane,
/// which has threads of its own.
pub trait Operator: Send + Sync {
    /// Runs `words` (group, command, arguments) and calls `reply` from any thread. `admin` tells
    /// whether the account may change the farm. An error is a text for the client.
    fn submit(&self, words: Vec<String>, admin: bool, reply: Reply);

    /// Reads the accounts from a server and publishes them, soon; then calls `done` from any thread,
    /// also when no server answered. Many calls may share one reading that begins after them.
    fn read_accounts(&self, done: Box<dyn FnOnce() + Send>);

    /// Tells that live traffic found a server failing. Costs next to nothing and may be called often.
    fn suspect(&self, server: ServerId, fault: Fault);

    /// Finds out what became of a write whose answer was lost, on the group's primary of now; calls
    /// `reply` from any thread.
    fn resolve(&self, lost: LostWrite, reply: Box<dyn FnOnce(Fate) + Send>);
}

/// How a server failed a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It refused a new connection.
    Refused,
    /// An open connection broke.
    Reset,
}

/// A write that may or may not have been committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostWrite {
    pub group: String,
    /// The server that was asked to commit.
    pub server: ServerId,
    /// Its id of the connection.
    pub thread_id: u32,
    /// The comment that the connection's statements carried into the binary log; empty for none.
    pub tag: String,
    /// The last GTID, in the engine's notation, that the connection reported: the write comes after
    /// it. Empty when it reported none.
    pub after: String,
}

/// What became of a lost write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The present primary has it.
    Committed {
        /// In the engine's notation.
        gtid: String,
        /// Rows that its events inserted, changed and removed.
        inserted: u64,
        updated: u64,
        deleted: u64,
        /// What LAST_INSERT_ID() was after it, where the events tell.
        insert_id: Option<u64>,
    },
    /// The present primary does not have it and never will.
    Lost,
    /// Nobody can say.
    Unknown(String),
}

/// Takes the outcome of a command.
pub type Reply = Box<dyn FnOnce(Result<Answer, String>) + Send>;
