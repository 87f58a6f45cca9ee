//! The rows of one table, read as a stream and written in statements of a bounded size.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row, Value};
use sqltext::ticked;
use tokio::sync::mpsc;

use super::Progress;
use super::catalog::{Column, Form, Table};
use crate::error::Error;
use crate::link::Link;

/// A statement is sent when it has so many bytes; one row may make it longer.
const STATEMENT_BYTES: usize = 1 << 20;

/// Statements that wait for the destination while the source is read on.
const AHEAD_MAX: usize = 4;

/// A server that gives or takes no statement's worth of rows for so long hangs.
const STALL: Duration = Duration::from_secs(120);

const READ: &str = "give rows to copy";
const WRITE: &str = "take copied rows";

/// Copies all rows of a table that the destination has and that is empty there.
pub(super) async fn copy(
    source: &mut Link,
    target: &mut Link,
    table: &Table,
    progress: &Progress,
) -> Result<(), Error> {
    let (send, mut receive) = mpsc::channel::<(Vec<u8>, u64)>(AHEAD_MAX);
    let (from, to) = (source.address().to_owned(), target.address().to_owned());
    let reading = async {
        let outcome = stream(source.conn(), &from, table, &send).await;
        drop(send);
        outcome
    };
    let writing = async {
        while let Some((statement, rows)) = receive.recv().await {
            let bytes = statement.len() as u64;
            insert(target.conn(), &to, statement).await?;
            progress.rows.fetch_add(rows, Relaxed);
            progress.bytes.fetch_add(bytes, Relaxed);
        }
        Ok(())
    };
    tokio::try_join!(reading, writing).map(drop)
}

/// All rows as INSERT statements, for small tables.
pub(super) async fn statements(source: &mut Link, table: &Table) -> Result<Vec<Vec<u8>>, Error> {
    let (send, mut receive) = mpsc::channel::<(Vec<u8>, u64)>(AHEAD_MAX);
    let from = source.address().to_owned();
    let reading = async {
        let outcome = stream(source.conn(), &from, table, &send).await;
        drop(send);
        outcome
    };
    let keeping = async {
        let mut all = Vec::new();
        while let Some((statement, _)) = receive.recv().await {
            all.push(statement);
        }
        Ok(all)
    };
    tokio::try_join!(reading, keeping).map(|((), all)| all)
}

/// Runs a statement that may hold any bytes.
pub(super) async fn insert(conn: &mut Conn, server: &str, statement: Vec<u8>) -> Result<(), Error> {
    match tokio::time::timeout(STALL, conn.query_drop(statement)).await {
        Ok(done) => done.map_err(|error| Error::from_driver(WRITE, server, &error)),
        Err(_) => Err(stalled(WRITE, server)),
    }
}

async fn stream(
    conn: &mut Conn,
    server: &str,
    table: &Table,
    send: &mpsc::Sender<(Vec<u8>, u64)>,
) -> Result<(), Error> {
    let failed = |error: mysql_async::Error| Error::from_driver(READ, server, &error);
    let head = head(table);
    let mut result = tokio::time::timeout(STALL, conn.query_iter(select(table)))
        .await
        .map_err(|_| stalled(READ, server))?
        .map_err(failed)?;
    loop {
        let mut statement = head.clone();
        let mut rows = 0;
        let filled = async {
            while statement.len() < STATEMENT_BYTES {
                let Some(row) = result.next().await? else {
                    return Ok(true);
                };
                if rows > 0 {
                    statement.push(b',');
                }
                put_row(&mut statement, &row, &table.columns);
                rows += 1;
            }
            Ok(false)
        };
        let ended = tokio::time::timeout(STALL, filled)
            .await
            .map_err(|_| stalled(READ, server))?
            .map_err(failed)?;
        // An error means that the writer has failed, which says why.
        if rows > 0 && send.send((statement, rows)).await.is_err() {
            return Ok(());
        }
        if ended {
            return Ok(());
        }
    }
}

fn stalled(operation: &'static str, server: &str) -> Error {
    Error::Timeout {
        operation,
        server: server.to_owned(),
        timeout_ms: STALL.as_secs() * 1000,
    }
}

fn select(table: &Table) -> String {
    let columns: Vec<String> = table.columns.iter().map(Column::read).collect();
    let columns = if columns.is_empty() {
        "NULL".to_owned()
    } else {
        columns.join(",")
    };
    let history = if table.versioned {
        " FOR SYSTEM_TIME ALL"
    } else {
        ""
    };
    let only = if table.only.is_empty() {
        String::new()
    } else {
        format!(" WHERE {}", table.only)
    };
    let (schema, name) = (ticked(&table.schema), ticked(&table.name));
    format!("SELECT {columns} FROM {schema}.{name}{history}{only}")
}

fn head(table: &Table) -> Vec<u8> {
    let columns: Vec<String> = table.columns.iter().map(|c| ticked(&c.name)).collect();
    let (schema, name) = (ticked(&table.schema), ticked(&table.name));
    let columns = columns.join(",");
    format!("INSERT INTO {schema}.{name} ({columns}) VALUES ").into_bytes()
}

/// A row as VALUES has it; cells behind these columns are left out.
pub(crate) fn put_row(statement: &mut Vec<u8>, row: &Row, columns: &[Column]) {
    statement.push(b'(');
    for (index, column) in columns.iter().enumerate() {
        if index > 0 {
            statement.push(b',');
        }
        match row.as_ref(index) {
            Some(Value::Bytes(bytes)) => put_value(statement, bytes, column.form),
            _ => statement.extend_from_slice(b"NULL"),
        }
    }
    statement.push(b')');
}

/// Bytes above 127 need no escape: the statement is read as utf8mb4, where no part of a longer
/// character looks like a quote or a backslash.
fn put_value(statement: &mut Vec<u8>, bytes: &[u8], form: Form) {
    match form {
        Form::Bytes => statement.extend_from_slice(b"_binary'"),
        Form::Json => statement.extend_from_slice(b"_utf8mb4'"),
        Form::Plain | Form::Float => statement.push(b'\''),
    }
    for &byte in bytes {
        match byte {
            b'\'' | b'\\' => statement.extend_from_slice(&[b'\\', byte]),
            0 => statement.extend_from_slice(b"\\0"),
            byte => statement.push(byte),
        }
    }
    statement.push(b'\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_they_are() {
        let put = |bytes: &[u8], form| {
            let mut text = Vec::new();
            put_value(&mut text, bytes, form);
            text
        };
        assert_eq!(put(b"-1.5", Form::Plain), b"'-1.5'");
        assert_eq!(
            put(b"a'b\\\0\xff", Form::Bytes),
            b"_binary'a\\'b\\\\\\0\xff'"
        );
        assert_eq!(put(b"{\"a\":1}", Form::Json), b"_utf8mb4'{\"a\":1}'");
    }
}
