//! Prepared statements: the client's own ids over whichever connection serves.

pub mod bound;
pub mod prepared_bytes;
pub mod prepared_packets;
pub mod ready;
pub mod statements;
pub mod texts;
