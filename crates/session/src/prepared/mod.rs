//! Prepared statements: the client's own ids over whichever connection serves.

pub(crate) mod bound;
pub(crate) mod prepared_bytes;
pub(crate) mod prepared_packets;
pub(crate) mod ready;
pub(crate) mod statements;
pub(crate) mod texts;
