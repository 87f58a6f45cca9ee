//! Connections to servers: opened, authenticated, brought into a session's state, pooled per core.
//!
//! Job: hand a session a connection whose state (database, variables) equals the session's, and take
//! it back. A [`Lease`] is one connection in use; released, it serves others; dropped, it is closed,
//! so a session that ends in the middle of a reply can never leave a half-read connection behind.
//!
//! Invariants: a pooled connection is outside transactions, has no pin, and no unread byte; its
//! [`SessionState`] is what the server last reported; connections to replicas are READ ONLY sessions.
//! A connection from before Heddle cut itself
//! off from its server is ended and never handed out. A pool never holds more than its limit; those who wait are served user by user in turn, and the
//! sessions of one user in the order they came.
//!
//! Must not know: which server a statement should go to, what a client is, the state store.

mod connection;
mod login;
mod pool;
mod prepared;
mod state;

pub use connection::table::Table;
pub use connection::target::Target;
pub use connection::{Connection, ConnectionError, Owner, Reported, Told, Upload, ends_connection};
pub use login::pass::{Credential, Entitlement, Pass, Profile, Secret, UserAtHost};
pub use login::seen::Seen;
pub use login::terms::Terms;
pub use pool::lease::Lease;
pub use pool::limits::Limits;
pub use pool::openings::{ByRole, Openings, Tally};
pub use pool::{Key, PoolError, Pools, Usage};
pub use prepared::preparing::TOO_MANY_STATEMENTS;
pub use prepared::{Known, Prepared, Text, Texts};
pub use state::defaults::{Defaults, Global};
pub use state::residue::{
    Placed, Questions, Residue, VARIABLE_BYTES_MAX, Value, Variable, Warning, Warnings,
    text_expression,
};
pub use state::role::{NO_ROLE, ROLE};
pub use state::{SessionState, TRACKING, Tracked, classify, share_state};
