//! Writers of the tables of a move that no router's session has any more: the statement of a router that died, or of a client
//! that left, may still wait at the server for a row, and runs on when it gets that.

use sqltext::ticked;

use crate::error::Error;
use crate::link::Link;

/// Seconds; the shortest wait that both engines know.
const WAIT_S: u32 = 1;

/// ER_LOCK_WAIT_TIMEOUT.
const STILL_THERE: u16 = 1205;

/// ER_DBACCESS_DENIED_ERROR, ER_TABLEACCESS_DENIED_ERROR.
const DENIED: [u16; 2] = [1044, 1142];

/// Waits for a second at most until no statement and no transaction that changes one of these tables, by database and name, is
/// under way; false when one still is. Readers are not waited for. An account that may not lock the tables finds out nothing,
/// and goes on.
///
/// # Errors
/// The server fails.
pub async fn await_writers(
    link: &mut Link,
    tables: &[(String, String)],
    timeout_ms: u64,
) -> Result<bool, Error> {
    const OPERATION: &str = "wait for writers of tables";
    if tables.is_empty() {
        return Ok(true);
    }
    let locks = tables.iter();
    let locks = locks.map(|(of, table)| format!("{}.{} READ", ticked(of), ticked(table)));
    let locks: Vec<String> = locks.collect();
    let sql = format!(
        "SET SESSION lock_wait_timeout={WAIT_S}; LOCK TABLES {}; UNLOCK TABLES",
        locks.join(", ")
    );
    match link.run(OPERATION, &sql, timeout_ms).await {
        Ok(()) => Ok(true),
        Err(error) => match error.number() {
            Some(STILL_THERE) => Ok(false),
            Some(number) if DENIED.contains(&number) => Ok(true),
            _ => Err(error),
        },
    }
}
