//! What reads are promised, and what it takes to keep that.

pub mod acks;
pub mod client_level;
pub mod consistency_hints;
pub mod defaults;
pub mod promises;
pub mod read_terms;
pub mod reads;
pub mod required_waits;
pub(crate) mod tokens;
pub(crate) mod write_tags;
