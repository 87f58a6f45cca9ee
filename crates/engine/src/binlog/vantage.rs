//! Asks a server how much of its binlog it shows to those who read its tables.

use changes::Shown;
use enginesql::quoted;
use farm::{Engine, Position};

use super::unreadable;
use crate::error::Error;
use crate::link::{Link, text, text_at};

const OPERATION: &str = "ask what of its binlog it shows";

/// What the server shows now.
pub async fn shown(link: &mut Link, timeout_ms: u64) -> Result<Shown, Error> {
    if link.version().engine == Engine::MySql {
        let sql = "SELECT @@global.gtid_executed";
        let executed = link.cell(OPERATION, sql, timeout_ms).await?;
        let executed = executed.unwrap_or_default().replace('\n', "");
        let position = Position::parse(Engine::MySql, &executed);
        let position = position.ok_or_else(|| unreadable(link.address(), &executed))?;
        return Ok(Shown::Executed(position));
    }
    let sql = "START TRANSACTION WITH CONSISTENT SNAPSHOT; \
               SHOW STATUS LIKE 'binlog\\_snapshot\\_%'; COMMIT";
    let sets = link.sets(OPERATION, sql, timeout_ms).await?;
    let rows = sets.iter().flatten();
    let said = |row, column| text(row, column).unwrap_or_default();
    let rows: Vec<_> = rows
        .map(|row| (said(row, "Variable_name"), said(row, "Value")))
        .collect();
    let rows = rows.iter().map(|(name, value)| (&**name, &**value));
    let shown = Shown::of_snapshot(rows);
    shown.ok_or_else(|| unreadable(link.address(), &"it has no binary log"))
}

/// A position that the server shows, where a reader can begin, and its place.
pub async fn vantage(link: &mut Link, timeout_ms: u64) -> Result<(Position, Shown), Error> {
    let shown = shown(link, timeout_ms).await?;
    let position = match &shown {
        Shown::Executed(position) => position.clone(),
        Shown::Until(file, bytes) => {
            let sql = format!("SELECT BINLOG_GTID_POS({}, {bytes})", quoted(file));
            let rows = link.rows(OPERATION, &sql, timeout_ms).await?;
            let logged = rows.first().and_then(|row| text_at(row, 0));
            let logged = logged.unwrap_or_default();
            let position = Position::parse(Engine::MariaDb, &logged);
            position.ok_or_else(|| unreadable(link.address(), &logged))?
        }
    };
    Ok((position, shown))
}
