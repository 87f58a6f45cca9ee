//! Rows from one server to another, by their keys.

use std::time::Duration;

use changes::MOVE;
use mysql_async::Row;
use mysql_async::prelude::Queryable;
use sqltext::ticked;

use super::PartTable;
use super::key::{self, Key};
use crate::accounts::needed::Feature;
use crate::accounts::own_privileges::demand;
use crate::copy::{Column, Form, put_row};
use crate::error::Error;
use crate::heartbeat;
use crate::link::{Link, Login, bytes_at, text_at};
use crate::replication::writes::{expect_writes, of_no_writes};

/// A statement is sent when it has so many bytes; one row may make it longer.
const STATEMENT_BYTES: usize = 1 << 20;

/// Keys in one statement.
const KEYS_MAX: usize = 500;

/// One statement's rows take no longer.
const STATEMENT: Duration = Duration::from_secs(120);
const STATEMENT_MS: u64 = 120_000;

/// A transaction of a move. Its row of Heddle's own, which is gone at its end, tells who reads the log that no client
/// wrote the rest. A server that takes no writes any more refuses it: Heddle's account may write there, and nobody would
/// get what it wrote.
fn begin() -> String {
    format!(
        "ROLLBACK; SET @heddle_move = CONCAT('{MOVE}', UUID()); BEGIN; {}; \
         INSERT INTO heddle.heartbeat (router, beats) VALUES (@heddle_move, 0)",
        expect_writes()
    )
}

/// Where the server takes writes behind the commit, the next primary gets what was committed.
fn ending() -> String {
    format!(
        "DELETE FROM heddle.heartbeat WHERE router = @heddle_move; {0}; COMMIT; {0}",
        expect_writes()
    )
}

/// What writes the heartbeat by which the table is made.
const HEARTBEAT: &str = "move";

const READ: &str = "give rows that move";
const WRITE: &str = "take rows that move";

/// Connections to both sides.
pub struct Ferry {
    pub from: Link,
    pub to: Link,
}

/// What one piece of a copy had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    pub rows: u64,
    pub bytes: u64,
    /// The last key; `None` at the end of the table.
    pub last: Option<Key>,
}

impl Ferry {
    /// Connects to both.
    pub async fn open(from: &Login, to: &Login, timeout_ms: u64) -> Result<Ferry, Error> {
        const OPERATION: &str = "set up a move";
        const READING: &str = "SET NAMES utf8mb4, SESSION time_zone='+00:00', \
                               character_set_results=NULL, SESSION net_write_timeout=3600";
        const LEVEL: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
        const WRITING: &str = "SET NAMES utf8mb4, character_set_results=NULL; \
                               SET SESSION time_zone='+00:00', foreign_key_checks=0, \
                               sql_mode='NO_AUTO_VALUE_ON_ZERO'";
        let mut from = Link::open_for_rows(from, timeout_ms).await?;
        let mut to = Link::open_for_rows(to, timeout_ms).await?;
        for link in [&mut from, &mut to] {
            demand(link, Feature::Shards, OPERATION, timeout_ms).await?;
        }
        from.run(OPERATION, READING, timeout_ms).await?;
        from.run(OPERATION, LEVEL, timeout_ms).await?;
        to.run(OPERATION, WRITING, timeout_ms).await?;
        to.run(OPERATION, LEVEL, timeout_ms).await?;
        heartbeat::write(&mut to, HEARTBEAT, timeout_ms).await?;
        Ok(Ferry { from, to })
    }

    /// Copies the rows behind a key, as many as fit one statement. Rows that are there are replaced.
    pub async fn copy(
        &mut self,
        table: &PartTable,
        behind: Option<&Key>,
        limit: u64,
    ) -> Result<Piece, Error> {
        let mut condition = format!("({})", table.only);
        if let Some(key) = behind {
            condition.push_str(&format!(" AND {}", key::compared(&table.keys, key, true)));
        }
        let sql = format!(
            "{} FORCE INDEX (PRIMARY) WHERE {condition} ORDER BY {} LIMIT {limit}",
            select(table),
            order(table)
        );
        let rows = self.read(&sql).await?;
        let mut piece = Piece::default();
        let full = u64::try_from(rows.len()).unwrap_or(u64::MAX) >= limit;
        piece.last = rows.last().filter(|_| full).map(|row| key_of(table, row));
        for statement in statements(table, &rows) {
            piece.bytes += statement.len() as u64;
            self.write(begin().into_bytes()).await?;
            self.write(statement).await?;
            self.write(ending().into_bytes()).await?;
        }
        piece.rows = rows.len() as u64;
        Ok(piece)
    }

    /// Makes the rows with these keys at the target what they are at the source.
    pub async fn bring(&mut self, table: &PartTable, keys: &[Key]) -> Result<u64, Error> {
        let mut brought = 0;
        for some in keys.chunks(KEYS_MAX) {
            let among = key::among(&table.keys, some.iter());
            let sql = format!("{} WHERE ({}) AND {among}", select(table), table.only);
            let rows = self.read(&sql).await?;
            brought += rows.len() as u64;
            let delete = format!(
                "DELETE FROM {} WHERE ({}) AND {among}",
                table.full(),
                table.only
            );
            self.write(begin().into_bytes()).await?;
            self.write(delete.into_bytes()).await?;
            for statement in statements(table, &rows) {
                self.write(statement).await?;
            }
            self.write(ending().into_bytes()).await?;
        }
        Ok(brought)
    }

    /// The keys of a table's rows, on both sides, that follow these rows of another one.
    pub async fn followers(
        &mut self,
        table: &PartTable,
        columns: &[String],
        keys: &[Key],
    ) -> Result<Vec<Key>, Error> {
        let mut all = Vec::new();
        for some in keys.chunks(KEYS_MAX) {
            let one = |key: &Key| {
                let pairs = columns.iter().zip(key);
                let pairs: Vec<String> = pairs
                    .map(|(column, value)| format!("{}={value}", ticked(column)))
                    .collect();
                format!("({})", pairs.join(" AND "))
            };
            let follows: Vec<String> = some.iter().map(one).collect();
            let sql = format!(
                "SELECT {} FROM {} WHERE ({}) AND ({})",
                order(table),
                table.full(),
                table.only,
                follows.join(" OR ")
            );
            for link in [&mut self.from, &mut self.to] {
                let rows = link.rows(READ, &sql, STATEMENT_MS).await?;
                all.extend(rows.iter().map(|row| bare_key(table, row)));
            }
        }
        Ok(all)
    }

    /// The key at which a piece of so many rows behind a key ends at the source; `None` at the end.
    pub async fn end_of_piece(
        &mut self,
        table: &PartTable,
        behind: Option<&Key>,
        limit: u64,
    ) -> Result<Option<Key>, Error> {
        end_of_piece(&mut self.from, table, &table.only, behind, limit).await
    }

    /// Numbers that are equal on both sides when the rows between two keys are: the source's, then the
    /// target's. Without the first from the beginning, without the second to the end.
    pub async fn sum(
        &mut self,
        table: &PartTable,
        behind: Option<&Key>,
        up_to: Option<&Key>,
    ) -> Result<[String; 2], Error> {
        let mut condition = format!("({})", table.only);
        if let Some(key) = behind {
            condition.push_str(&format!(" AND {}", key::compared(&table.keys, key, true)));
        }
        if let Some(key) = up_to {
            condition.push_str(&format!(" AND {}", key::compared(&table.keys, key, false)));
        }
        let cells: Vec<String> = table.columns.iter().map(summed).collect();
        let nulls = table
            .columns
            .iter()
            .map(|it| format!("ISNULL({})", ticked(&it.name)));
        let nulls: Vec<String> = nulls.collect();
        let one = format!(
            "CRC32(CONCAT_WS('#',{},CONCAT({})))",
            cells.join(","),
            nulls.join(",")
        );
        let sql = format!(
            "SELECT CONCAT_WS(' ', COUNT(*), COALESCE(BIT_XOR({one}),0), COALESCE(SUM({one}),0)) \
             FROM {} FORCE INDEX (PRIMARY) WHERE {condition}",
            table.full()
        );
        const OPERATION: &str = "add up rows that move";
        let (from, to) = (&mut self.from, &mut self.to);
        let (ours, theirs) = tokio::join!(
            from.cell(OPERATION, &sql, STATEMENT_MS),
            to.cell(OPERATION, &sql, STATEMENT_MS)
        );
        Ok([ours?.unwrap_or_default(), theirs?.unwrap_or_default()])
    }

    async fn read(&mut self, sql: &str) -> Result<Vec<Row>, Error> {
        self.from.rows(READ, sql, STATEMENT_MS).await
    }

    async fn write(&mut self, statement: Vec<u8>) -> Result<(), Error> {
        let server = self.to.address().to_owned();
        let run = self.to.conn().query_drop(statement);
        match tokio::time::timeout(STATEMENT, run).await {
            Ok(done) => done.map_err(|error| {
                let error = Error::from_driver(WRITE, &server, &error);
                of_no_writes(error, WRITE, &server)
            }),
            Err(_) => Err(Error::Timeout {
                operation: WRITE,
                server,
                timeout_ms: STATEMENT_MS,
            }),
        }
    }
}

async fn end_of_piece(
    link: &mut Link,
    table: &PartTable,
    only: &str,
    behind: Option<&Key>,
    limit: u64,
) -> Result<Option<Key>, Error> {
    let mut condition = format!("({only})");
    if let Some(key) = behind {
        condition.push_str(&format!(" AND {}", key::compared(&table.keys, key, true)));
    }
    let sql = format!(
        "SELECT {order} FROM {} FORCE INDEX (PRIMARY) WHERE {condition} ORDER BY {order} \
         LIMIT 1 OFFSET {}",
        table.full(),
        limit.saturating_sub(1),
        order = order(table),
    );
    let rows = link.rows(READ, &sql, STATEMENT_MS).await?;
    Ok(rows.first().map(|row| bare_key(table, row)))
}

/// Deletes the rows that are meant behind a key, in one statement for a stretch of so many rows of the
/// table. Gives how many there were, and where the stretch ends; `None` at the end of the table. The
/// link is a [`prepare_to_delete`]d one.
pub(super) async fn delete_piece(
    link: &mut Link,
    table: &PartTable,
    behind: Option<&Key>,
    limit: u64,
) -> Result<(u64, Option<Key>), Error> {
    const OPERATION: &str = "delete rows that have moved";
    let end = end_of_piece(link, table, "TRUE", behind, limit).await?;
    let mut condition = format!("({})", table.only);
    for (key, is_behind) in [(behind, true), (end.as_ref(), false)] {
        if let Some(key) = key {
            condition.push_str(&format!(
                " AND {}",
                key::compared(&table.keys, key, is_behind)
            ));
        }
    }
    let sql = format!(
        "{}; DELETE FROM {} WHERE {condition}; SET @heddle_rows = ROW_COUNT(); {}; SELECT @heddle_rows",
        begin(),
        table.full(),
        ending()
    );
    let sets = link.sets(OPERATION, &sql, STATEMENT_MS).await;
    let server = link.address().to_owned();
    let sets = sets.map_err(|error| of_no_writes(error, OPERATION, &server))?;
    let last = sets.last().and_then(|rows| rows.first());
    let count = last.and_then(|row| text_at(row, 0));
    Ok((count.and_then(|it| it.parse().ok()).unwrap_or(0), end))
}

impl PartTable {
    /// Makes a link ready for [`PartTable::delete`].
    ///
    /// # Errors
    /// The server's.
    pub async fn prepare_to_delete(link: &mut Link, timeout_ms: u64) -> Result<(), Error> {
        let settings = "SET NAMES utf8mb4, character_set_results=NULL; \
                        SET SESSION time_zone='+00:00', foreign_key_checks=0";
        link.run("set up deletions", settings, timeout_ms).await?;
        heartbeat::write(link, HEARTBEAT, timeout_ms)
            .await
            .map(drop)
    }

    /// Deletes the rows that are meant within a stretch of the table; see there.
    ///
    /// # Errors
    /// The server's.
    pub async fn delete(
        &self,
        link: &mut Link,
        behind: Option<&Key>,
        limit: u64,
    ) -> Result<(u64, Option<Key>), Error> {
        delete_piece(link, self, behind, limit).await
    }

    /// True when a server has a row that is meant.
    ///
    /// # Errors
    /// The server's.
    pub async fn has_rows(&self, link: &mut Link) -> Result<bool, Error> {
        let sql = format!(
            "SELECT 1 FROM {} WHERE ({}) LIMIT 1",
            self.full(),
            self.only
        );
        let rows = link.rows("look for rows", &sql, STATEMENT_MS).await?;
        Ok(!rows.is_empty())
    }
}

/// The columns of the primary key, in order.
fn order(table: &PartTable) -> String {
    let names: Vec<String> = table.keys.iter().map(|part| ticked(&part.name)).collect();
    names.join(",")
}

/// All that is written, and behind it the key.
fn select(table: &PartTable) -> String {
    let columns: Vec<String> = table.columns.iter().map(Column::read).collect();
    format!(
        "SELECT {},{} FROM {}",
        columns.join(","),
        order(table),
        table.full()
    )
}

fn key_of(table: &PartTable, row: &Row) -> Key {
    literals(table, row, table.columns.len())
}

/// Of a row that has nothing but the key.
fn bare_key(table: &PartTable, row: &Row) -> Key {
    literals(table, row, 0)
}

fn literals(table: &PartTable, row: &Row, from: usize) -> Key {
    let parts = table.keys.iter().enumerate();
    let literal = |(at, part): (usize, &super::KeyPart)| {
        part.of_text(&bytes_at(row, from + at).unwrap_or_default())
    };
    parts.map(literal).collect()
}

/// How a column's value goes into a sum: text by its bytes, whatever its character set.
fn summed(column: &Column) -> String {
    let name = ticked(&column.name);
    match column.form {
        Form::Bytes => format!("HEX({name})"),
        Form::Json => format!("HEX(CAST({name} AS CHAR))"),
        Form::Float => format!("{name}*1e0"),
        Form::Plain => name,
    }
}

/// Statements that put the rows in, each of a bounded size.
fn statements(table: &PartTable, rows: &[Row]) -> Vec<Vec<u8>> {
    let names: Vec<String> = table.columns.iter().map(|it| ticked(&it.name)).collect();
    let head = format!(
        "REPLACE INTO {} ({}) VALUES ",
        table.full(),
        names.join(",")
    );
    let mut all = Vec::new();
    let mut statement = Vec::new();
    for row in rows {
        match statement.is_empty() {
            true => statement.extend_from_slice(head.as_bytes()),
            false => statement.push(b','),
        }
        put_row(&mut statement, row, &table.columns);
        if statement.len() >= STATEMENT_BYTES {
            all.push(std::mem::take(&mut statement));
        }
    }
    if !statement.is_empty() {
        all.push(statement);
    }
    all
}
