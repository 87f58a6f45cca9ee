//! What an applier makes of the stream's lines: transactions to carry out elsewhere, and which of them have to wait
//! for which.
//!
//! Job: lines become [`Transaction`]s ([`Gatherer`]); transactions get [`Claim`]s, what of the tables they change;
//! two with a claim in common keep their order ([`Order`]).
//!
//! Invariants: this panics on no line; a change that the stream does not tell in full is an error with its reason.
//!
//! Must not know: where transactions are carried out, and how.

mod claims;
mod gatherer;
mod order;
mod safety;
mod statement;

pub use claims::{Claim, Identity, claims};
pub use gatherer::{Gatherer, Heard};
pub use order::Order;
pub use safety::{names, objection};
pub use statement::{Definition, definition};

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::rows::Kind;

/// A column as the stream describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    pub name: String,
    /// The type in the server's words, without its size.
    pub data_type: String,
    pub charset: Option<String>,
}

/// A table as the stream describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described {
    pub database: String,
    pub name: String,
    pub columns: Vec<Shape>,
}

/// One row's change.
#[derive(Clone, Debug, PartialEq)]
pub struct RowChange {
    pub table: Arc<Described>,
    /// `None` for a row that a snapshot read.
    pub kind: Option<Kind>,
    /// By what the row was found; `None` where the table has no primary key.
    pub key: Option<Map<String, Value>>,
    pub before: Option<Map<String, Value>>,
    pub after: Option<Map<String, Value>>,
}

/// A statement to run again as it was run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// The session's.
    pub database: String,
    pub sql: String,
    /// With what it was run.
    pub context: Map<String, Value>,
    /// Its text could be converted surely.
    pub is_exact: bool,
    /// Of a LOAD DATA.
    pub load: Option<Loading>,
}

/// The file of a LOAD DATA, and its statement without the file's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loading {
    /// In front of LOCAL INFILE, and behind INTO.
    pub head: String,
    pub tail: String,
    /// Rows that are there are replaced, or refused; otherwise they are passed over.
    pub replaces: bool,
    pub refuses: bool,
    pub data: Vec<u8>,
}

/// What a transaction did.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Row(RowChange),
    /// A statement that defines something, and the session's database.
    Definition {
        database: String,
        sql: String,
        /// With what it was run, as far as the stream says it.
        context: Map<String, Value>,
    },
    /// A statement that changes rows which were not logged.
    Statement(Box<Run>),
    /// How a table is made that a snapshot reads.
    Made {
        database: String,
        sql: String,
    },
}

/// A transaction that was told whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Transaction {
    pub group: String,
    /// `None` for what a snapshot read.
    pub gtid: Option<String>,
    /// Rows change their group, and stay what they are.
    pub is_move: bool,
    pub changes: Vec<Change>,
    /// Behind it.
    pub token: String,
    /// Of its lines.
    pub bytes: usize,
}

impl Transaction {
    /// True when nothing else may run beside it: it defines something, or has no GTID, by which an applier knows
    /// that it was carried out before.
    pub fn is_alone(&self) -> bool {
        self.gtid.is_none() || self.changes.iter().any(|it| !matches!(it, Change::Row(_)))
    }
}
