//! Whom a server follows, with its filters and errors, and what its binary log is.

use doctor::facts::{BinlogFacts, SourceFacts};
use enginesql::words;
use farm::Engine;
use mysql_async::Row;

use super::{OPERATION, seen};
use crate::error::Error;
use crate::link::{Link, text, text_at};
use crate::probe;
use crate::requirements::binlog_filters;

/// What a replica can be told to leave out, and the old and new words of it.
const FILTERS: [&str; 8] = [
    "Replicate_Do_DB",
    "Replicate_Ignore_DB",
    "Replicate_Do_Table",
    "Replicate_Ignore_Table",
    "Replicate_Wild_Do_Table",
    "Replicate_Wild_Ignore_Table",
    "Replicate_Do_Domain_Ids",
    "Replicate_Ignore_Domain_Ids",
];

/// Every channel that is configured.
pub(super) async fn sources(link: &mut Link, timeout_ms: u64) -> Result<Vec<SourceFacts>, Error> {
    let sql = match link.version().engine {
        // Its other statement shows the channel without a name alone.
        Engine::MariaDb => "SHOW ALL SLAVES STATUS",
        Engine::MySql => words::SHOW_STATUS.of(link.version()),
    };
    let rows = seen(link, sql, timeout_ms).await?;
    Ok(rows.iter().map(source).collect())
}

fn source(row: &Row) -> SourceFacts {
    let replica = probe::replica(row);
    let either = |old: &str, new: &str| text(row, old).or_else(|| text(row, new));
    let running = |old: &str, new: &str| either(old, new).unwrap_or_default();
    let error = |error: Option<probe::ThreadError>| {
        error.map_or_else(String::new, |it| format!("{} {}", it.number, it.text))
    };
    let filters = FILTERS.iter().filter_map(|name| {
        let value = text(row, name).filter(|value| !value.is_empty())?;
        Some(format!("{name}={value}"))
    });
    SourceFacts {
        host: replica.primary_host,
        port: replica.primary_port,
        by_gtid: replica.by_gtid,
        receives: running("Slave_IO_Running", "Replica_IO_Running"),
        applies: running("Slave_SQL_Running", "Replica_SQL_Running"),
        receive_error: error(replica.io_error),
        apply_error: error(replica.sql_error),
        delay_s: text(row, "SQL_Delay")
            .and_then(|it| it.parse().ok())
            .unwrap_or(0),
        filters: filters.collect(),
    }
}

/// How long the list of logs is waited for: MariaDB's waits behind commits that wait for a replica.
const LOGS_MS: u64 = 2000;

/// The binary log. Its size is 0 where the server does not say it in time.
pub(super) async fn binlog(link: &mut Link, timeout_ms: u64) -> Result<BinlogFacts, Error> {
    let filters = match binlog_filters(link, OPERATION, timeout_ms).await {
        Err(error) if error.number().is_some() => Default::default(),
        filters => filters?,
    };
    let names = ["Binlog_Do_DB", "Binlog_Ignore_DB"].into_iter();
    let filters = names
        .zip(filters)
        .filter(|(_, list)| !list.is_empty())
        .map(|(name, list)| format!("{name}={}", list.join(",")))
        .collect();
    // A link that was left in the middle of an answer is of no use, so the list has one of its own.
    let mut own = Link::open(link.login(), timeout_ms).await?;
    let listing = seen(&mut own, "SHOW BINARY LOGS", LOGS_MS.min(timeout_ms)).await;
    let rows = match listing {
        Err(Error::Timeout { .. }) => Vec::new(),
        rows => rows?,
    };
    let size = |row: &Row| text_at(row, 1)?.parse::<u64>().ok();
    Ok(BinlogFacts {
        files: rows.len() as u64,
        bytes: rows.iter().filter_map(size).sum(),
        filters,
    })
}
