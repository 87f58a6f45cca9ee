//! Prepared XA branches that a crash took from a server although its binary log has them.
//!
//! MariaDB logs an XA PREPARE before its engine prepares the branch, and waits for a replica between
//! the two. A crash there leaves the event without the branch, and the cut of the log at the next
//! start (`init_rpl_role`) spares such events. GTIDs cannot tell: the position is that of the others,
//! until the branch's XA COMMIT comes and finds nothing (1397).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::heartbeat::position;
use crate::link::{Link, bytes_at};

/// Pause between two looks at a position.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Whether a replica lacks a branch that its primary keeps prepared. Asked of a replica that runs; one
/// that does not reach the primary's position in time is not found out here.
pub async fn lost_branches(
    replica: &mut Link,
    primary: &mut Link,
    timeout_ms: u64,
) -> Result<bool, Error> {
    let before = branches(primary, timeout_ms).await?;
    if before.is_empty() {
        return Ok(false);
    }
    let goal = position(primary, timeout_ms).await?;
    let deadline = Instant::now() + Duration::from_millis(timeout_ms);
    while !position(replica, timeout_ms).await?.covers(&goal) {
        if Instant::now() > deadline {
            return Ok(false);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    let there = branches(replica, timeout_ms).await?;
    // Those that were finished meanwhile do not count.
    let after = branches(primary, timeout_ms).await?;
    Ok(before.intersection(&after).any(|it| !there.contains(it)))
}

async fn branches(link: &mut Link, timeout_ms: u64) -> Result<BTreeSet<Vec<u8>>, Error> {
    let rows = link.rows("list prepared transactions", "XA RECOVER", timeout_ms);
    let rows = rows.await?;
    Ok(rows.iter().filter_map(|row| bytes_at(row, 3)).collect())
}
