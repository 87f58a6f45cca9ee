//! Ids for AUTO_INCREMENT columns of tables on many groups: `heddle.sequence`, on the group that has
//! the tables without a shard key. A row holds the next free id of a table; ids are taken in blocks,
//! and a block that was taken is never given out again.

use enginesql::quoted;
use sqltext::ticked;

use crate::error::Error;
use crate::link::{Link, text_at};
use crate::replication::writes::{expect_writes, of_no_writes};

/// ER_NO_SUCH_TABLE and ER_BAD_DB_ERROR.
const MISSING: [u16; 2] = [1146, 1049];

const TAKE: &str = "take ids";

/// Takes `count` ids that are not below `least`, and gives the first; `None` when nothing is known of
/// the table yet. The commit has been acknowledged, and the next primary has it.
pub async fn take(
    link: &mut Link,
    table: &str,
    least: u64,
    count: u64,
    timeout_ms: u64,
) -> Result<Option<u64>, Error> {
    let sql = format!(
        "SET @heddle_id = NULL; BEGIN; \
         UPDATE heddle.sequence SET next = (@heddle_id := GREATEST(next, {least})) + {count} \
         WHERE name = {}; {}; COMMIT; {}; SELECT @heddle_id",
        quoted(table),
        expect_writes(),
        expect_writes()
    );
    let sets = match link.sets(TAKE, &sql, timeout_ms).await {
        Err(error) if error.number().is_some_and(|it| MISSING.contains(&it)) => return Ok(None),
        Err(error) => return Err(of_no_writes(error, TAKE, link.address())),
        Ok(sets) => sets,
    };
    let cell = sets.last().and_then(|rows| text_at(rows.first()?, 0));
    Ok(cell.and_then(|text| text.parse().ok()))
}

/// Begins with this id, unless another router was faster.
pub async fn begin(link: &mut Link, table: &str, next: u64, timeout_ms: u64) -> Result<(), Error> {
    let sql = format!(
        "CREATE DATABASE IF NOT EXISTS heddle; \
         CREATE TABLE IF NOT EXISTS heddle.sequence (\
         name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY, \
         next BIGINT UNSIGNED NOT NULL\
         ) ENGINE=InnoDB COMMENT='Next free ids of tables on many groups'; \
         INSERT IGNORE INTO heddle.sequence (name, next) VALUES ({}, {next}); COMMIT",
        quoted(table)
    );
    link.run(TAKE, &sql, timeout_ms).await
}

/// The greatest id that the server has in a table; 0 for an empty one.
pub async fn greatest(
    link: &mut Link,
    [database, table, column]: [&str; 3],
    timeout_ms: u64,
) -> Result<u64, Error> {
    let sql = format!(
        "SELECT GREATEST(0, MAX({})) FROM {}.{}",
        ticked(column),
        ticked(database),
        ticked(table)
    );
    let cell = link
        .cell("look for the greatest id", &sql, timeout_ms)
        .await?;
    Ok(cell.and_then(|text| text.parse().ok()).unwrap_or(0))
}
