//! Binlogs. [`Reader`] follows one as it grows, with the rows that changed.
//!
//! Besides, what became of writes whose answers were lost ([`written`]): a server's binlog is read from
//! a moment before them to its end, and their write tags are looked for.
//!
//! A write tag is a comment in front of a statement, `/*heddle:TAG*/`. MariaDB keeps it in the Annotate
//! event of the statement's rows, MySQL in the Rows_query event where `binlog_rows_query_log_events`
//! is on; both also where the statement itself is logged. Ids of threads name no write: replicas
//! of MySQL 8.0.45 log those of their own threads.
//!
//! Rows and statements come in one stream, so the log is read once.

mod column_types;
mod expiry;
mod extent;
mod raw;
mod reader;
mod sids;
mod trace;
mod vantage;

use std::time::Duration;

use enginesql::quoted;
use farm::{Engine, Position};
use futures_util::StreamExt;
use mysql_async::BinlogStreamRequest;

use crate::error::Error;
use crate::link::{Link, Login, text};
use crate::probe::is_on;
pub use changes::{
    Cell, Change, Column, End, Event, Gtid, Image, Kind, Note, Rows, Shown, Statement, Table, Xid,
};
pub use expiry::{Expiry, First, expiry, first_behind, keep_for};
pub use extent::extent;
pub use reader::{Reader, is_gap};
pub(crate) use sids::sids;
use trace::Trace;
pub use trace::{Touched, Written, is_after};
pub use vantage::{shown, vantage};

const OPERATION: &str = "read the binlog";

/// All transactions behind `from` in the log of this server, to the end that the log has when it is reached. Without
/// a position the present file is read and the one before it.
pub async fn written(
    login: &Login,
    from: Option<&Position>,
    timeout_ms: u64,
) -> Result<Vec<Written>, Error> {
    let server = format!("{}:{}", login.host, login.port);
    let reading = written_within(login, from, timeout_ms);
    let limit = Duration::from_millis(timeout_ms);
    match tokio::time::timeout(limit, reading).await {
        Ok(read) => read,
        Err(_) => Err(Error::Timeout {
            operation: OPERATION,
            server,
            timeout_ms,
        }),
    }
}

async fn written_within(
    login: &Login,
    from: Option<&Position>,
    timeout_ms: u64,
) -> Result<Vec<Written>, Error> {
    let mut link = Link::open_for_sources(login, timeout_ms).await?;
    let server = link.address().to_owned();
    let engine = link.version().engine;
    let from = from.filter(|position| !position.is_empty());
    let first = match from {
        Some(_) => None,
        None => Some(file_before_last(&mut link, timeout_ms).await?),
    };
    if let Some(Position::MariaDb(_)) = from {
        let position = quoted(&from.map(ToString::to_string).unwrap_or_default());
        let capable =
            format!("SET @mariadb_slave_capability=4; SET @slave_connect_state={position}");
        link.run(OPERATION, &capable, timeout_ms).await?;
    } else if engine == Engine::MariaDb {
        let capable = "SET @mariadb_slave_capability=4";
        link.run(OPERATION, capable, timeout_ms).await?;
    }
    let mut request = BinlogStreamRequest::new(reader::reader_id()).with_non_blocking();
    if let Some(position @ Position::MySql(_)) = from {
        let sids = sids(position).map_err(|error| unreadable(&server, &error))?;
        request = request.with_gtid().with_gtid_set(sids).with_pos(4);
    } else if let Some(file) = &first {
        request = request.with_filename(file.as_bytes()).with_pos(4);
    } else {
        request = request.with_pos(4);
    }
    let mut trace = Trace::new(engine);
    read_events(link, request, &mut trace, &server).await?;
    Ok(trace.written)
}

/// Reads the stream to its end.
async fn read_events(
    link: Link,
    request: BinlogStreamRequest<'_>,
    trace: &mut Trace,
    server: &str,
) -> Result<(), Error> {
    let failed = |error: &mysql_async::Error| Error::from_driver(OPERATION, server, error);
    let stream = link.into_driver().get_binlog_stream(request).await;
    let mut stream = stream.map_err(|error| failed(&error))?;
    while let Some(event) = stream.next().await {
        let event = event.map_err(|error| failed(&error))?;
        trace.take(&event, |id| stream.get_tme(id));
    }
    trace.end();
    // The server has closed its side already.
    let _ = stream.close().await;
    Ok(())
}

/// The file before the present one, or that one where it is the only one: a server begins a new file
/// when it starts, so its last deeds are in the file before.
pub(crate) async fn file_before_last(link: &mut Link, timeout_ms: u64) -> Result<String, Error> {
    let files = files(link, timeout_ms).await?;
    let before_last = files.get(files.len().saturating_sub(2)).cloned();
    before_last.ok_or_else(|| unreadable(link.address(), &"it has no files"))
}

/// What comes before the oldest transaction in the server's binlog.
pub async fn oldest(link: &mut Link, timeout_ms: u64) -> Result<Position, Error> {
    let engine = link.version().engine;
    let sql = match engine {
        Engine::MySql => "SELECT @@global.gtid_purged".to_owned(),
        Engine::MariaDb => {
            let first = files(link, timeout_ms).await?.into_iter().next();
            let first = first.ok_or_else(|| unreadable(link.address(), &"it has no files"))?;
            format!("SELECT BINLOG_GTID_POS({}, 4)", quoted(&first))
        }
    };
    let said = link.cell(OPERATION, &sql, timeout_ms).await?;
    let said = said.unwrap_or_default().replace('\n', "");
    Position::parse(engine, &said).ok_or_else(|| unreadable(link.address(), &said))
}

/// The binlog's files, the oldest first.
async fn files(link: &mut Link, timeout_ms: u64) -> Result<Vec<String>, Error> {
    let rows = link.rows(OPERATION, "SHOW BINARY LOGS", timeout_ms);
    let rows = rows.await?;
    Ok(rows.iter().filter_map(|r| text(r, "Log_name")).collect())
}

pub(crate) fn unreadable(server: &str, what: &dyn std::fmt::Display) -> Error {
    Error::Reply {
        operation: OPERATION,
        server: server.to_owned(),
        what: what.to_string(),
    }
}

/// The place of a table's AUTO_INCREMENT column, from 1, and its type in the server's words.
pub async fn auto_column(
    link: &mut Link,
    database: &str,
    table: &str,
    timeout_ms: u64,
) -> Result<Option<(u32, String)>, Error> {
    let sql = format!(
        "SELECT ORDINAL_POSITION AS place, COLUMN_TYPE AS type FROM information_schema.COLUMNS \
         WHERE TABLE_SCHEMA={} AND TABLE_NAME={} AND EXTRA LIKE '%auto_increment%'",
        quoted(database),
        quoted(table)
    );
    let rows = link.rows("find the AUTO_INCREMENT column", &sql, timeout_ms);
    let rows = rows.await?;
    Ok(rows.first().and_then(|row| {
        let place = text(row, "place")?.parse().ok()?;
        Some((place, text(row, "type")?))
    }))
}

/// What a column of this type holds whose bits, sign-extended, are `value`.
pub fn unsigned_value(column_type: &str, value: i64) -> u64 {
    let bits: u32 = match column_type.split(['(', ' ']).next().unwrap_or_default() {
        "tinyint" => 8,
        "smallint" => 16,
        "mediumint" => 24,
        "int" => 32,
        _ => 64,
    };
    let bytes = value as u64;
    match column_type.contains("unsigned") && bits < 64 {
        true => bytes & ((1 << bits) - 1),
        false => bytes,
    }
}

/// True while the server takes writes: a server that restarted does not before it was made a primary.
pub async fn takes_writes(link: &mut Link, timeout_ms: u64) -> Result<bool, Error> {
    let operation = "ask whether it is read-only";
    let said = link
        .cell(operation, "SELECT @@global.read_only", timeout_ms)
        .await?;
    Ok(said.is_some_and(|value| !is_on(&value)))
}

/// True while a connection with this id is on the server.
pub async fn is_connected(link: &mut Link, thread_id: u32, timeout_ms: u64) -> Result<bool, Error> {
    let sql = format!("SELECT 1 FROM information_schema.PROCESSLIST WHERE ID={thread_id}");
    let found = link.cell("look for a connection", &sql, timeout_ms).await?;
    Ok(found.is_some())
}

/// How long the server runs, in seconds.
pub async fn uptime_s(link: &mut Link, timeout_ms: u64) -> Result<u64, Error> {
    let sql = "SHOW GLOBAL STATUS LIKE 'Uptime'";
    let rows = link.rows("ask how long it runs", sql, timeout_ms).await?;
    let said = rows.first().and_then(|row| text(row, "Value"));
    Ok(said.and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// Ends a connection. One that is gone already is no error.
pub async fn kill(link: &mut Link, thread_id: u32, timeout_ms: u64) -> Result<(), Error> {
    /// ER_NO_SUCH_THREAD.
    const GONE: u16 = 1094;
    let sql = format!("KILL {thread_id}");
    match link.run("kill a connection", &sql, timeout_ms).await {
        Err(error) if error.number() == Some(GONE) => Ok(()),
        other => other,
    }
}

/// Ends a connection, unless it is of the link's own account. True when it was another's.
pub(crate) async fn dismiss(
    link: &mut Link,
    thread_id: u32,
    timeout_ms: u64,
) -> Result<bool, Error> {
    let sql = format!(
        "SELECT 1 FROM information_schema.PROCESSLIST other JOIN information_schema.PROCESSLIST own \
         ON own.ID = CONNECTION_ID() WHERE other.ID = {thread_id} \
         AND CAST(other.USER AS BINARY) <> CAST(own.USER AS BINARY)"
    );
    let found = link
        .cell("see whose a connection is", &sql, timeout_ms)
        .await?;
    if found.is_some() {
        kill(link, thread_id, timeout_ms).await?;
    }
    Ok(found.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_say_what_their_bits_mean() {
        assert_eq!(unsigned_value("int(10) unsigned", -1), u64::from(u32::MAX));
        assert_eq!(unsigned_value("bigint unsigned", -1), u64::MAX);
        assert_eq!(unsigned_value("mediumint(9) unsigned", -2), 0xFF_FFFE);
        assert_eq!(unsigned_value("int", 7), 7);
    }
}
