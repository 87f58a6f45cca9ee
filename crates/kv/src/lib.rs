//! Keys and values on tables: what many clients ask for at the same time becomes few statements.
//!
//! Job: keep the promises of memcached's commands on containers ([`farm::Container`]) by SQL that runs
//! on [`session::Internal`]s of the same core.
//!
//! Invariants: a command is answered once, and what is acknowledged is committed, but for early writes, which
//! the operator has to allow ([`EarlyOfClient`]); one command that a table refuses fails alone; commands of one core on one key take effect in the order in which they
//! were submitted; what waits is bounded by those who submit.
//!
//! Must not know: sockets, memcached's protocol, who the client is.

mod batches;
mod change;
mod columns;
mod early;
mod item;
mod kv;
mod later;
mod op;
mod promised;
mod purge;
mod reading;
mod recall;
mod rights;
mod store;
mod sure;
mod table;
mod ticket;
mod writing;

pub use crate::early::EarlyOfClient;
pub use crate::kv::Kv;
pub use crate::op::{Change, Expiry, Item, Mode, Op, Outcome, Refusal};
pub use crate::recall::{Recalled, Sight};
pub use crate::rights::Allowed;
pub use crate::store::Store;
pub use crate::ticket::{Ticket, Waiting};
