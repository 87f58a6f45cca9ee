//! What an operator chose for transactions over several groups.

use farm::dist_txn::Atomic;

/// The settings of transactions over several groups.
#[derive(Clone, Copy, Debug)]
pub struct DistTxnTerms {
    pub atomic: Atomic,
    /// A lock that is waited for longer ends the whole transaction; 0 leaves it to the servers.
    pub lock_wait_ms: u64,
    /// Servers take part whose XA does not survive every crash.
    pub unsafe_xa: bool,
    /// A SELECT over several groups outside transactions sees them all at one moment.
    pub snapshot_reads: bool,
}

impl Default for DistTxnTerms {
    fn default() -> DistTxnTerms {
        DistTxnTerms {
            atomic: Atomic::Xa,
            lock_wait_ms: 2000,
            unsafe_xa: false,
            snapshot_reads: false,
        }
    }
}
