//! What sessions ask of the control plane: commands, accounts, and what became of a lost write.

use farm::{Access, Fate, LostWrite, ServerId};

use crate::per_core::keeper::Keeper;

/// An answer of the command table: column names and rows of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Option<String>>>,
}

/// Carries out the commands of the command table for sessions. Implemented by the control plane,
/// which has threads of its own.
pub trait Operator: Keeper {
    /// The right that the command of these words needs, so that a client that lacks it is told by the
    /// right number. Whoever carries the command out looks again.
    fn needs(&self, _words: &[String]) -> Access {
        Access::Public
    }

    /// Whether the accounts of this name may look at the farm, whatever the servers say.
    fn monitors(&self, _user: &str) -> bool {
        false
    }

    /// Runs `words` (group, command, arguments) and calls `reply` from any thread. `access` is the
    /// right that the account has, `by` who it is. An error is a text for the client.
    fn submit(&self, words: Vec<String>, by: &str, access: Access, reply: Reply);

    /// Reads the accounts from a server and publishes them, soon; then calls `done` from any thread,
    /// also when no server answered. Many calls may share one reading that begins after them.
    fn read_accounts(&self, done: Box<dyn FnOnce() + Send>);

    /// Tells that live traffic found a server failing. Costs next to nothing and may be called often.
    fn suspect(&self, server: ServerId, fault: Fault);

    /// Takes ids of a table on many groups, and calls `reply` with the first of them, or with the
    /// reason why there are none, from any thread.
    fn take_ids(&self, wanted: Ids, reply: TakenIds) {
        drop(wanted);
        reply(Err("no ids are given out here".to_owned()));
    }

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

/// Takes the outcome of a command.
pub type Reply = Box<dyn FnOnce(Result<Answer, String>) + Send>;

/// Ids that a session wants for the AUTO_INCREMENT column of a table on many groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ids {
    pub database: String,
    pub table: String,
    pub column: String,
    /// They are not below this.
    pub least: u64,
    /// 0 is the answer where nobody has asked for ids of the table yet.
    pub only_known: bool,
    pub count: u64,
}

/// Takes the first of the ids.
pub type TakenIds = Box<dyn FnOnce(Result<u64, String>) + Send>;
