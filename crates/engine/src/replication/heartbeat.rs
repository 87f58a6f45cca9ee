//! Heartbeats: a row that changes on the primary, and how far a server has come.
//!
//! Each router has one row in `heddle.heartbeat`. That it changes is what counts: the change gives
//! the primary a new GTID position, and a replica that has reached the position has everything that
//! was committed before.

use enginesql::position::{TAKES_WRITES, executed, wait_for};
use enginesql::quoted;
use farm::Position;

use crate::error::Error;
use crate::link::{Link, text_at};

const MAKE: [&str; 2] = [
    "CREATE DATABASE IF NOT EXISTS heddle",
    "CREATE TABLE IF NOT EXISTS heddle.heartbeat (\
     router VARCHAR(64) CHARACTER SET ascii NOT NULL PRIMARY KEY, \
     beats BIGINT UNSIGNED NOT NULL, \
     at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)\
     ) ENGINE=InnoDB COMMENT='Written by each router; see group health'",
];

/// ER_NO_SUCH_TABLE and ER_BAD_DB_ERROR.
const MISSING: [u16; 2] = [1146, 1049];

/// ER_DATA_OUT_OF_RANGE: of the exponential of a great number.
const OUT_OF_RANGE: u16 = 1690;

/// Changes this router's row on a primary, making the table where it is missing. Returns what the
/// primary holds afterwards. It may wait for as long as commits wait for replicas.
///
/// A server that is read-only is left as it is: its followers have what it had when it became so, and
/// on MariaDB Heddle's own account could write on.
pub async fn write(link: &mut Link, router: &str, timeout_ms: u64) -> Result<Position, Error> {
    const OPERATION: &str = "write a heartbeat";
    let executed = executed(link.version().engine);
    let router = quoted(router);
    let sql = format!(
        "INSERT INTO heddle.heartbeat (router, beats) \
         SELECT {router}, 1 FROM DUAL WHERE {TAKES_WRITES} \
         ON DUPLICATE KEY UPDATE beats = beats + 1; SELECT {executed}"
    );
    let mut answer = link.sets(OPERATION, &sql, timeout_ms).await;
    if let Err(error) = &answer
        && error
            .number()
            .is_some_and(|number| MISSING.contains(&number))
    {
        // An error ends the packet: a server that has become read-only meanwhile is left as it is.
        let make = MAKE.map(|make| format!("SELECT EXP(IF({TAKES_WRITES}, 0, 10000)); {make}"));
        let operation = "make the heartbeat's table";
        match link.run(operation, &make.join("; "), timeout_ms).await {
            Err(error) if error.number() == Some(OUT_OF_RANGE) => {
                return position(link, timeout_ms).await;
            }
            made => made?,
        }
        answer = link.sets(OPERATION, &sql, timeout_ms).await;
    }
    let sets = answer?;
    let cell = sets.last().and_then(|rows| rows.first());
    read(link, OPERATION, cell.and_then(|row| text_at(row, 0)))
}

/// What a server has executed.
pub async fn position(link: &mut Link, timeout_ms: u64) -> Result<Position, Error> {
    const OPERATION: &str = "ask for the position";
    let sql = format!("SELECT {}", executed(link.version().engine));
    let cell = link.cell(OPERATION, &sql, timeout_ms).await?;
    read(link, OPERATION, cell)
}

/// Waits on a replica until it has executed `target`, at most for `wait_ms`; returns what it has then.
pub async fn reach(
    link: &mut Link,
    target: &Position,
    wait_ms: u64,
    timeout_ms: u64,
) -> Result<Position, Error> {
    const OPERATION: &str = "wait for a position";
    let engine = link.version().engine;
    let wait = wait_for(engine, &target.to_string(), wait_ms);
    let sql = format!("DO {wait}; SELECT {}", executed(engine));
    let cell = link.sets(OPERATION, &sql, wait_ms + timeout_ms).await?;
    let row = cell.last().and_then(|rows| rows.first());
    read(link, OPERATION, row.and_then(|row| text_at(row, 0)))
}

fn read(link: &Link, operation: &'static str, cell: Option<String>) -> Result<Position, Error> {
    let text = cell.unwrap_or_default();
    Position::parse(link.version().engine, &text).ok_or_else(|| Error::Reply {
        operation,
        server: link.address().to_owned(),
        what: format!("the position is {text:?}"),
    })
}
