//! Statements on the servers of one group: the session that they belong to, which server runs them, how they get
//! there, and what becomes of what is lost on the way.
//!
//! Job: hold the parts of a session (its client, variables, connections, transaction, prepared statements), choose a
//! server, check a connection out, relay the reply, and retry, replay or wait where that is safe.
//!
//! Invariants: a session holds a server connection only for a statement, a transaction, a pin, or the diagnostics of
//! its last statement; a connection is given back only with its reply read to the end; nothing that may have had an
//! effect is sent twice.
//!
//! Must not know: shards, statements over several groups, how a distributed transaction ends, and how a client logs
//! in. What these layers keep in a session or on a core is data here.

pub mod client;
pub mod connections;
pub mod consistency;
pub mod counters;
pub mod door_clients;
pub mod execution;
pub mod own_account;
pub mod per_core;
pub mod prepared;
pub mod recorded;
pub mod scratch;
pub mod session;
pub mod settings;
pub mod transaction;
pub mod variables;
