//! What becomes of gets and rows.

use std::sync::atomic::AtomicU64;

/// What became of gets and rows, since the space was made.
#[derive(Debug, Default)]
pub struct Counts {
    pub hits: AtomicU64,
    pub misses: AtomicU64,
    pub filled: AtomicU64,
    /// Rows that were read and not kept, since it was not sure that they are new enough.
    pub refused: AtomicU64,
    pub voided: AtomicU64,
    pub evicted: AtomicU64,
    /// How often everything was voided.
    pub emptied: AtomicU64,
}
