//! What reads are promised, and what it takes to keep that.

pub(crate) mod acks;
pub(crate) mod client_level;
pub(crate) mod consistency_hints;
pub(crate) mod floor_waits;
pub(crate) mod marks;
pub(crate) mod promises;
pub(crate) mod reads;
pub(crate) mod tokens;
