//! Transactions over several groups, as their servers keep them.
//!
//! Job: the rows that decide a transaction ([`decisions`]), the commit barriers of a group ([`barriers`]), prepared
//! branches and their end ([`branches`]), XA transactions of clients' own ([`held`]), and the repair of what a crash
//! left of branches ([`torn`]).
//!
//! Invariants: a branch is ended only as its decision says; a row is inserted plainly, so that an open decision
//! is waited for and never overtaken.
//!
//! Must not know: which transactions are in doubt, when somebody asks, who leads.

pub mod barriers;
pub(crate) mod branches;
pub mod decisions;
pub mod held;
pub(crate) mod torn;
