//! What reads ask for beside the snapshot of the farm: remembered rows, and what has been written.
//!
//! Job: rows by key that a router remembers ([`RowCache`]), what each client has had acknowledged
//! ([`WritesByClient`]), up to where each table has changed ([`TableClocks`]), and which writes of
//! key-value clients are acknowledged but not committed ([`EarlyWrites`]). Both planes share them as
//! [`ReadState`]: the control plane's readers of binlogs and other routers feed it, sessions and containers
//! read it and add what their own clients did.
//!
//! Invariants: it says too little rather than too much: what it does not know is not served from memory, and
//! a read waits for it. It moves while snapshots do not change. A lock is held for one lookup, and nothing
//! waits while it holds one.
//!
//! Must not know: sockets, tasks, clocks (moments are passed in), SQL text, who feeds it and who reads it.

mod cache;
pub mod client_writes;
mod counts;
pub mod early_writes;
mod feed;
mod key;
mod shard;
pub mod table_clock;

pub use cache::{Lease, RowCache, Space, Voucher};
pub use client_writes::{ClientWrites, WritesByClient};
pub use counts::Counts;
pub use early_writes::{EarlyWrites, Spot, Spots};
pub use feed::Feed;
pub use shard::{Facts, Remembered};
pub use table_clock::{TableClock, TableClocks};

use std::any::Any;
use std::sync::{Arc, OnceLock};

/// All of it, for one farm; the same for as long as a router runs.
#[derive(Debug, Default)]
pub struct ReadState {
    /// Rows that are remembered.
    pub rows: RowCache,
    /// What clients have had acknowledged.
    pub writes: WritesByClient,
    /// Up to where tables have changed.
    pub clocks: TableClocks,
    /// What key-value clients have had acknowledged before its commit.
    pub early: EarlyWrites,
    /// What the key-value engine keeps for all cores.
    guest: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl ReadState {
    /// What the key-value engine keeps for all cores: made when it is wanted first. `None` where something of
    /// another type is kept.
    pub fn guest<T: Any + Send + Sync + Default>(&self) -> Option<Arc<T>> {
        let guest = self.guest.get_or_init(|| Arc::new(T::default()));
        Arc::clone(guest).downcast().ok()
    }
}
