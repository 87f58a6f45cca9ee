//! Statements that ask about connections, warnings, status and variables, and KILL.
//!
//! Job: read SHOW, KILL and the questions for a connection's id closer; put the router's own values into a
//! text that asks for what only the router knows ([`rewrite`]).
//!
//! Invariants: a text that is not surely such a question stays as it is, byte for byte.
//!
//! Must not know: the values. The caller hands them in.

pub(crate) mod diagnostic;
pub(crate) mod farm_select;
pub(crate) mod farm_show;
pub(crate) mod farm_table;
pub(crate) mod identity;
pub(crate) mod kill;
pub(crate) mod listing;
pub(crate) mod replica;
pub(crate) mod rewrite;
pub(crate) mod show;
