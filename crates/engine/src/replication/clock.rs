//! The logical clock of a farm, as one group has it: a number in `heddle.clock` that only grows.
//!
//! What is in a group's binlog behind a number and in front of the next one has that number, for whoever reads it, from
//! whichever server of the group.

use enginesql::position::TAKES_WRITES;

use crate::error::Error;
use crate::link::{Link, text_at};

const MAKE: [&str; 2] = [
    "CREATE DATABASE IF NOT EXISTS heddle",
    "CREATE TABLE IF NOT EXISTS heddle.clock (\
     id INT NOT NULL PRIMARY KEY, number BIGINT UNSIGNED NOT NULL\
     ) ENGINE=InnoDB COMMENT='Raised by routers while a change stream tells one order over groups'",
];

/// ER_NO_SUCH_TABLE and ER_BAD_DB_ERROR.
const MISSING: [u16; 2] = [1146, 1049];

/// A primary's number; `None` where nobody has asked for one order over all groups yet.
///
/// # Errors
/// The server fails.
pub async fn number(link: &mut Link, timeout_ms: u64) -> Result<Option<u64>, Error> {
    let sql = "SELECT number FROM heddle.clock WHERE id = 1";
    match link.cell("read the logical clock", sql, timeout_ms).await {
        Err(error) if error.number().is_some_and(|it| MISSING.contains(&it)) => Ok(None),
        answer => Ok(answer?.and_then(|it| it.parse().ok())),
    }
}

/// Raises a primary's number to this one, making the table where it is missing. Gives the number that it has
/// afterwards, `None` where the server takes no writes. It may wait for as long as commits wait for replicas.
///
/// # Errors
/// The server fails; whether the number was raised is not known then.
pub async fn raise(link: &mut Link, number: u64, timeout_ms: u64) -> Result<Option<u64>, Error> {
    const OPERATION: &str = "raise the logical clock";
    // A row that does not change is no event.
    let sql = format!(
        "INSERT INTO heddle.clock (id, number) SELECT 1, {number} FROM DUAL WHERE {TAKES_WRITES} \
         ON DUPLICATE KEY UPDATE number = GREATEST(heddle.clock.number, VALUES(number)); \
         SELECT IF({TAKES_WRITES}, (SELECT number FROM heddle.clock WHERE id = 1), NULL)"
    );
    let mut answer = link.sets(OPERATION, &sql, timeout_ms).await;
    if let Err(error) = &answer
        && error.number().is_some_and(|it| MISSING.contains(&it))
    {
        let is_open = format!("SELECT {TAKES_WRITES}");
        if link.cell(OPERATION, &is_open, timeout_ms).await?.as_deref() != Some("1") {
            return Ok(None);
        }
        link.run(OPERATION, &MAKE.join("; "), timeout_ms).await?;
        answer = link.sets(OPERATION, &sql, timeout_ms).await;
    }
    let sets = answer?;
    let cell = sets.last().and_then(|rows| rows.first());
    let number = cell.and_then(|row| text_at(row, 0));
    Ok(number.and_then(|it| it.parse().ok()))
}
