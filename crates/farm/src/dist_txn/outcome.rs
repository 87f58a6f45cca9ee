//! Writes whose answers were lost, and what became of them.

use crate::server::ServerId;

/// A write that may or may not have been committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostWrite {
    pub group: String,
    /// The server that was asked to commit.
    pub server: ServerId,
    /// Its id of the connection.
    pub thread_id: u32,
    /// What stood between `/*heddle:` and `*/` in front of the connection's statements; empty for
    /// none.
    pub tag: String,
    /// The GTIDs, in the engine's notation, that the connection reported last: the write comes after
    /// them. Empty when it reported none.
    pub after: String,
    /// It was sent after this moment of the snapshots' clock ([`Snapshot::origin`](crate::Snapshot::origin)), in
    /// microseconds.
    pub sent_us: u64,
    /// How long ago its connection was opened, in seconds; rounded down, so that only a server that was
    /// surely started later runs for less.
    pub opened_s: u64,
}

/// What a transaction did to one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableRows {
    pub database: String,
    pub table: String,
    pub inserted: u64,
    pub updated: u64,
    pub deleted: u64,
    /// The AUTO_INCREMENT value of the first row that was inserted, or else of the first that was
    /// changed.
    pub insert_id: Option<u64>,
}

/// What became of a lost write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The present primary has it.
    Committed {
        /// In the engine's notation.
        gtid: String,
        /// The rows of each table in the order in which they were touched; `None` where the log does
        /// not tell them.
        rows: Option<Vec<TableRows>>,
    },
    /// The present primary does not have it and never will.
    Lost,
    /// Nobody can say; the reason.
    Unknown(String),
}
