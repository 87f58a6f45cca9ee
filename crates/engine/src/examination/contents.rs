//! What the databases of a server's users have that checks look at. Lists are bounded.

use doctor::facts::{ForeignKey, Names, SchemaFacts, TableEngine};
use mysql_async::Row;

use super::seen;
use crate::error::Error;
use crate::link::{Link, Login, text_at};

/// Databases of the servers' and of Heddle's own.
const USERS: &str = "NOT IN ('mysql','information_schema','performance_schema','sys','heddle')";

/// Names that are kept of a list.
const NAMES_MAX: usize = 5;

/// Rows that are read of a list, so that a server with a million tables is no burden.
const ROWS_MAX: usize = 1000;

/// Reads all of it over a link of its own; nothing where the server has so many tables that it takes too long.
pub(super) async fn schema(login: &Login, timeout_ms: u64) -> Result<SchemaFacts, Error> {
    let mut link = Link::open(login, timeout_ms).await?;
    match read(&mut link, timeout_ms).await {
        Err(Error::Timeout { .. }) => Ok(SchemaFacts::default()),
        facts => facts,
    }
}

async fn read(link: &mut Link, timeout_ms: u64) -> Result<SchemaFacts, Error> {
    let keyless = format!(
        "SELECT CONCAT(TABLE_SCHEMA,'.',TABLE_NAME) FROM information_schema.TABLES WHERE \
         TABLE_TYPE='BASE TABLE' AND TABLE_SCHEMA {USERS} AND (TABLE_SCHEMA,TABLE_NAME) NOT IN \
         (SELECT TABLE_SCHEMA,TABLE_NAME FROM information_schema.STATISTICS WHERE \
         INDEX_NAME='PRIMARY') ORDER BY 1 LIMIT {ROWS_MAX}"
    );
    let engines = format!(
        "SELECT CONCAT(TABLE_SCHEMA,'.',TABLE_NAME), ENGINE FROM information_schema.TABLES WHERE \
         TABLE_TYPE='BASE TABLE' AND TABLE_SCHEMA {USERS} AND ENGINE IS NOT NULL AND \
         ENGINE NOT IN ('InnoDB','ROCKSDB') ORDER BY 1 LIMIT {ROWS_MAX}"
    );
    let events = format!(
        "SELECT CONCAT(EVENT_SCHEMA,'.',EVENT_NAME) FROM information_schema.EVENTS WHERE \
         STATUS='ENABLED' AND EVENT_SCHEMA {USERS} ORDER BY 1 LIMIT {ROWS_MAX}"
    );
    let triggers = format!(
        "SELECT CONCAT(TRIGGER_SCHEMA,'.',TRIGGER_NAME) FROM information_schema.TRIGGERS WHERE \
         TRIGGER_SCHEMA {USERS} ORDER BY 1 LIMIT {ROWS_MAX}"
    );
    let keys = format!(
        "SELECT CONSTRAINT_NAME, CONCAT(CONSTRAINT_SCHEMA,'.',TABLE_NAME), \
         CONCAT(UNIQUE_CONSTRAINT_SCHEMA,'.',REFERENCED_TABLE_NAME) FROM \
         information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA {USERS} \
         ORDER BY 2, 1 LIMIT {ROWS_MAX}"
    );
    let cell = |row: &Row, at| text_at(row, at).unwrap_or_default();
    let engines = seen(link, &engines, timeout_ms).await?;
    let keys = seen(link, &keys, timeout_ms).await?;
    Ok(SchemaFacts {
        keyless: names(&seen(link, &keyless, timeout_ms).await?),
        other_engines: engines
            .iter()
            .map(|row| TableEngine {
                table: cell(row, 0),
                engine: cell(row, 1),
            })
            .collect(),
        enabled_events: names(&seen(link, &events, timeout_ms).await?),
        triggers: names(&seen(link, &triggers, timeout_ms).await?),
        foreign_keys: keys
            .iter()
            .map(|row| ForeignKey {
                name: cell(row, 0),
                table: cell(row, 1),
                references: cell(row, 2),
            })
            .collect(),
    })
}

fn names(rows: &[Row]) -> Names {
    let all = rows.iter().filter_map(|row| text_at(row, 0));
    Names {
        first: all.take(NAMES_MAX).collect(),
        count: rows.len() as u64,
    }
}
