//! Who clients are, and what they may do.
//!
//! Job: the servers' accounts as the routers match clients with them, what an account demands of a connection, how
//! many clients it may have, which connections are one client, and what somebody may ask of a router.
//!
//! Invariants: a client is matched with the account that its server would take.
//!
//! Must not know: passwords in plain text, how accounts are read from a server, connections.

pub mod access;
pub mod account;
pub mod client_scope;
pub mod local;
pub mod permits;
pub mod tls;
