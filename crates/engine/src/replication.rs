//! Replication.

/// «As long as it takes»: an acknowledgement is never given up. One hour, the largest value that
/// both engines keep without surprises; a longer wait begins again.
pub const ACK_WAIT_FOREVER_MS: u64 = 3_600_000;
