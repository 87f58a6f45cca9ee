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

mod account;
mod connection;
mod cut;
mod defaults;
mod introduction;
mod lease;
mod limits;
mod line;
mod login;
mod login_state;
mod openings;
mod pass;
mod pool;
mod prepared;
mod preparing;
mod residue;
mod role;
mod servers_own;
mod state;
mod table;
mod terms;
mod tracking;

pub use connection::{Connection, ConnectionError, Owner, Reported, Told, Upload, ends_connection};
pub use defaults::{Defaults, Global};
pub use lease::Lease;
pub use limits::Limits;
pub use login::Seen;
pub use openings::{ByRole, Openings, Tally};
pub use pass::{Credential, Entitlement, Pass, Profile, Secret, UserAtHost};
pub use pool::{Key, PoolError, Pools, Target, Usage};
pub use prepared::{Known, Prepared, Text, Texts};
pub use preparing::TOO_MANY_STATEMENTS;
pub use residue::{
    Placed, Questions, Residue, VARIABLE_BYTES_MAX, Value, Variable, Warning, Warnings,
    text_expression,
};
pub use role::{NO_ROLE, ROLE};
pub use state::{SessionState, TRACKING, Tracked, classify};
pub use table::Table;
pub use terms::Terms;
