//! How much of its binlog a server shows to those who read its tables.
//!
//! A transaction is in the binlog before its changes are seen: between the two the server may wait for
//! a replica. MySQL counts a transaction as executed when it is seen. MariaDB does so when it is
//! written; what is seen it tells to a transaction with a snapshot, as a place in its binlog.

use enginesql::quoted;
use farm::{Engine, Position};

use super::{Gtid, unreadable};
use crate::error::Error;
use crate::link::{Link, text, text_at};

const OPERATION: &str = "ask what of its binlog it shows";

/// What a server shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Everything before this place: the binlog's file, and the bytes in it.
    Until(String, u64),
    Executed(Position),
}

impl Shown {
    /// True when a transaction is among what is shown; `place` is where it ends in the binlog.
    pub fn has(&self, gtid: &Gtid, place: (&str, u64)) -> bool {
        match self {
            Shown::Until(file, bytes) => place <= (file.as_str(), *bytes),
            Shown::Executed(position) => gtid.is_in(position),
        }
    }

    /// True when a reader has read all that is shown: up to `place`, which is `position`.
    pub fn is_read(&self, position: &Position, place: (&str, u64)) -> bool {
        match self {
            Shown::Until(file, bytes) => place >= (file.as_str(), *bytes),
            Shown::Executed(shown) => position.covers(shown),
        }
    }
}

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
    let rows = sets.into_iter().flatten();
    let (mut file, mut bytes) = (String::new(), 0);
    for row in rows {
        let name = text(&row, "Variable_name").unwrap_or_default();
        let value = text(&row, "Value").unwrap_or_default();
        match name.to_ascii_lowercase().as_str() {
            "binlog_snapshot_file" => file = value,
            "binlog_snapshot_position" => bytes = value.parse().unwrap_or(0),
            _ => {}
        }
    }
    match file.is_empty() {
        true => Err(unreadable(link.address(), &"it has no binary log")),
        false => Ok(Shown::Until(file, bytes)),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_compared_by_file_first() {
        let gtid = Gtid::MariaDb {
            domain: 0,
            server_id: 1,
            sequence: 5,
        };
        let shown = Shown::Until("b.000002".to_owned(), 100);
        assert!(shown.has(&gtid, ("b.000002", 100)) && shown.has(&gtid, ("b.000001", 900)));
        assert!(!shown.has(&gtid, ("b.000002", 101)) && !shown.has(&gtid, ("b.000003", 4)));
        let anywhere = Position::empty(Engine::MariaDb);
        assert!(shown.is_read(&anywhere, ("b.000003", 4)));
        assert!(!shown.is_read(&anywhere, ("b.000002", 99)));
    }
}
