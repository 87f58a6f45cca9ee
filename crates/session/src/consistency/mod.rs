//! What reads are promised, and what it takes to keep that.

pub(crate) mod acks;
pub(crate) mod client_level;
pub(crate) mod consistency_hints;
pub(crate) mod defaults;
pub(crate) mod promises;
pub(crate) mod read_terms;
pub(crate) mod reads;
pub(crate) mod required_waits;
pub(crate) mod tokens;
pub(crate) mod write_tags;
