//! Statements that change a session: SET, USE, user variables, transactions' verbs, XA.
//!
//! Job: take such a statement apart into what it sets, names or begins.
//!
//! Invariants: what a file cannot read whole it reports as unknown, never as nothing.
//!
//! Must not know: the session, what a value was before, what follows from a change.

pub(crate) mod assignment;
pub(crate) mod user_variable;
pub(crate) mod word;
pub(crate) mod xa;
