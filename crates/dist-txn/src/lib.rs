//! Transactions in a farm with several groups: lazily begun, atomic over all that they touch.
//!
//! BEGIN is answered here and sent in front of the first statement that reaches a group. That group
//! keeps the client's plain transaction and is the *coordinator group*; from the second group on, each has a
//! branch of an XA transaction on the connection of its seat. COMMIT and ROLLBACK of a transaction that
//! crossed are carried out by `machines::xa::commit`; one that stayed in its group goes through as it
//! is, and costs what it cost before.
//!
//! Invariants: of a distributed transaction every part's seat holds a connection; when one is lost, or a
//! server has rolled its part back, all others are rolled back before the next command is read. No
//! statement that a server would end the transaction with reaches one.
//!
//! Must not know: sharded tables, and what a statement over several groups answers.

pub mod admit;
pub(crate) mod branch;
pub(crate) mod dist_txn_name;
pub(crate) mod drive;
pub mod end;
pub(crate) mod held;
pub mod own;
pub mod positions;
pub mod question;
pub(crate) mod routine;
pub(crate) mod savepoint;
pub mod snapshot;
pub mod verb;
pub(crate) mod waits;
pub mod xa;
pub mod xa_elsewhere;

use backend::ConnectionError;
use farm::error;

pub use own::Across;
pub use question::{COMMIT, ROLLBACK};

/// The first release of MySQL whose XA survives crashes at every step.
const MYSQL_SAFE: u32 = 80_030;

fn refused(message: String) -> ConnectionError {
    ConnectionError::Refused {
        number: error::DIST_TXN_REFUSED.number,
        sqlstate: *b"HY000",
        message: message.into_bytes(),
    }
}

/// Views show one moment only at this level.
const REPEATABLE: &[u8] = b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ";
