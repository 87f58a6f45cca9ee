//! What a binlog says, of MariaDB and of MySQL: events as transactions with the rows that they changed, and
//! the lines by which the change stream tells of them.
//!
//! Job: raw events become [`Event`]s ([`Decoder`]), events become transactions whose changes count
//! ([`Transactions`]), and these become lines of JSON ([`Teller`]) with a [`Token`] at which a reader goes on.
//!
//! Invariants: no byte of an event can make this crate panic, loop or keep more than the event holds; what cannot be read
//! is an error with its reason, never a wrong value; a transaction is told as a whole and in the order of the
//! binlog.
//!
//! Must not know: connections, which server is read, who wants the lines.

pub mod apply;
mod cell;
mod charset;
pub mod code;
mod columns;
mod context;
pub mod debezium;
mod decoder;
mod event;
mod file;
mod fixed;
mod gtid;
mod json;
mod jsonb;
mod own;
pub mod replication;
mod rows;
mod shown;
mod snapshot;
pub mod sql;
mod table;
mod teller;
mod token;
mod transactions;
mod words;

pub use cell::Cell;
pub use charset::{Charset, charset_of};
pub use context::{Context, UserValue, UserVariable};
pub use debezium::{days, micros_of, micros_of_time, unscaled};
pub use decoder::{Decoder, RawEvent, Trouble, file_of, query_inflated, query_of};
pub use event::{Block, End, Event, Load, Logged, Note, Statement, Xid, defines, is_harmless};
pub use file::{LogFile, NoLogFile};
pub use fixed::Types;
pub use gtid::{AlterStep, Gtid, GtidDetails};
pub use json::{image, key_of, value};
pub use own::{Decision, MOVE, Own};
pub use rows::{Change, Image, Kind, Rows};
pub use shown::Shown;
pub use snapshot::{Definition, Unread, UnreadTable, cell};
pub use table::{Column, Table};
pub use teller::{BranchOf, KeyRange, Progress, ReadRows, Teller, Told, Wanted};
pub use token::{Counting, Place, Reached, Token, Within};
pub use transactions::{BranchStep, Ended, Part, Parts, Transactions, UnknownBranch};
