//! What becomes of gets and rows.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

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

impl Counts {
    /// So many rows were looked for and found, and so many were not: a core's counters are not written for each.
    pub fn looked(&self, hits: u64, misses: u64) {
        for (count, looks) in [(&self.hits, hits), (&self.misses, misses)] {
            if looks > 0 {
                count.fetch_add(looks, Relaxed);
            }
        }
    }
}
