//! How long a server's binlog is, and up to which transaction.

use farm::Position;

use crate::error::Error;
use crate::heartbeat::position;
use crate::link::{Link, text_at};

/// What a server has executed, and the files of its binlog with their bytes, the oldest first.
///
/// # Errors
/// The server cannot be asked, or has no binlog.
pub async fn extent(
    link: &mut Link,
    timeout_ms: u64,
) -> Result<(Position, Vec<(String, u64)>), Error> {
    // Asked first: what is executed by then is in the files.
    let position = position(link, timeout_ms).await?;
    let sql = "SHOW BINARY LOGS";
    let rows = link.rows("list its binlogs", sql, timeout_ms).await?;
    let files = rows.iter().map(|row| {
        let bytes = text_at(row, 1).and_then(|bytes| bytes.parse().ok());
        (text_at(row, 0).unwrap_or_default(), bytes.unwrap_or(0))
    });
    Ok((position, files.collect()))
}
