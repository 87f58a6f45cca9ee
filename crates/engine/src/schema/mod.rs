//! Tables, views, routines and databases of a server.
//!
//! Job: read what tables are made of, what depends on them, and what differs between servers that should have the same
//! definitions; make what is missing; hand out ids for AUTO_INCREMENT columns.
//!
//! Invariants: a client's row is read, or deleted by the condition that a caller gives ([`tables`]); none is changed.
//!
//! Must not know: shard maps, groups, which server is right when two differ.

pub mod definitions;
pub mod memcached;
pub mod relations;
pub mod remembering;
pub mod sequence;
pub mod tables;
