//! Writes to tables on several groups.
//!
//! Job: cut an INSERT by group ([`split`]), take ids for AUTO_INCREMENT columns ([`ids`]), run in steps what one
//! statement per group cannot do ([`many`], [`by_keys`]), and bulk executions ([`bulk`]).
//!
//! Invariants: all rows of a statement are written, or none.
//!
//! Must not know: how a statement was planned, how one group runs its part.

pub(crate) mod bulk;
pub(crate) mod by_keys;
pub(crate) mod ids;
pub(crate) mod many;
pub(crate) mod split;
