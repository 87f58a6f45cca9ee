//! How a server that must not write any more is brought to it.

use crate::error::Error;
use crate::link::Link;
use crate::replication::exchange::{kill_clients, refuse_writes};
use crate::replication::set_acks;

/// Ends all clients' connections and makes the server read-only. Commits that wait there for a
/// replica are let go after their clients are gone, so that nobody takes them for acknowledged.
pub async fn take_no_writes(link: &mut Link, timeout_ms: u64) -> Result<(), Error> {
    kill_clients(link, timeout_ms).await?;
    set_acks(link, None, timeout_ms).await?;
    refuse_writes(link, timeout_ms).await?;
    // Those that came between.
    kill_clients(link, timeout_ms).await.map(drop)
}
