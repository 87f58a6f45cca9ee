//! Tables read a chunk at a time, in the order of their primary keys, while others write them.
//!
//! Nothing is locked and nothing is written: a chunk is one SELECT by itself. What it shows is no older than what
//! the server showed before it, and no newer than the position that comes with it; whoever follows the binlog knows
//! by the two which of its rows were changed meanwhile.

use std::sync::Arc;

use changes::{Definition, Image, ReadRows, Table, cell};
use enginesql::quoted;
use farm::{Engine, Position};
use mysql_async::Row;
use sqltext::ticked;

use crate::binlog::vantage;
use crate::copy;
use crate::error::Error;
use crate::link::{Link, Login, bytes_at, text_at};
use crate::part::{KeyPart, compared, parts};

const OPERATION: &str = "give rows for a snapshot";

/// One chunk's rows take no longer.
const READ_MS: u64 = 120_000;

/// Rows of one table.
pub struct Chunk {
    pub read: ReadRows,
    /// The last key, value by value; `None` at the end of the table.
    pub last: Option<Vec<Vec<u8>>>,
    /// Everything that the rows show is in it.
    pub position: Position,
    /// What was sent of the rows.
    pub bytes: usize,
}

/// Why a table's rows cannot be had.
#[derive(Debug)]
pub enum Unreadable {
    Server(Error),
    /// What the table is or has, and what to do.
    Table(String),
    /// It is not there any more, or has changed since it was looked at.
    Changed,
}

impl From<Error> for Unreadable {
    /// ER_BAD_DB, ER_BAD_FIELD, ER_NO_SUCH_TABLE, ER_KEY_DOES_NOT_EXITS, ER_TABLE_DEF_CHANGED.
    fn from(error: Error) -> Unreadable {
        match error.number() {
            Some(1049 | 1054 | 1146 | 1176 | 1412) => Unreadable::Changed,
            _ => Unreadable::Server(error),
        }
    }
}

/// The tables of a server's databases, by database and name in the order of their bytes.
///
/// # Errors
/// The server cannot be asked.
pub async fn tables(link: &mut Link, timeout_ms: u64) -> Result<Vec<(String, String)>, Error> {
    let mut all = Vec::new();
    for database in copy::schemas(link, timeout_ms).await? {
        let sql = format!(
            "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA={} AND \
             TABLE_TYPE IN ('BASE TABLE','SYSTEM VERSIONED')",
            quoted(&database)
        );
        let rows = link.rows("list tables", &sql, timeout_ms).await?;
        let names = rows.iter().filter_map(|row| text_at(row, 0));
        all.extend(names.map(|name| (database.clone(), name)));
    }
    all.sort();
    Ok(all)
}

/// A table, and the statement that makes it.
pub struct Made {
    pub database: String,
    pub name: String,
    pub sql: String,
}

/// How the tables are made that `is_wanted` names.
///
/// # Errors
/// The server cannot be asked.
pub async fn made(
    login: &Login,
    is_wanted: impl Fn(&str, &str) -> bool,
    timeout_ms: u64,
) -> Result<Vec<Made>, Unreadable> {
    let mut link = Link::open(login, timeout_ms).await?;
    let mut all = Vec::new();
    for (database, name) in tables(&mut link, timeout_ms).await? {
        if !is_wanted(&database, &name) {
            continue;
        }
        let sql = format!("SHOW CREATE TABLE {}.{}", ticked(&database), ticked(&name));
        let shown = link.rows(OPERATION, &sql, timeout_ms).await;
        match shown.map_err(Unreadable::from) {
            Ok(rows) => {
                let sql = rows.first().and_then(|row| text_at(row, 1));
                let sql = sql.unwrap_or_default();
                all.push(Made {
                    database,
                    name,
                    sql,
                });
            }
            // It was dropped since.
            Err(Unreadable::Changed) => {}
            Err(unreadable) => return Err(unreadable),
        }
    }
    Ok(all)
}

/// A connection that reads chunks.
pub struct ChunkReader {
    link: Link,
    timeout_ms: u64,
}

impl ChunkReader {
    /// Connects.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub async fn open(login: &Login, timeout_ms: u64) -> Result<ChunkReader, Error> {
        const SETTINGS: &str = "SET NAMES utf8mb4, SESSION time_zone='+00:00', \
                                character_set_results=NULL";
        let mut link = Link::open_for_rows(login, timeout_ms).await?;
        link.run(OPERATION, SETTINGS, timeout_ms).await?;
        Ok(ChunkReader { link, timeout_ms })
    }

    /// The rows behind a key, at most so many.
    ///
    /// # Errors
    /// The table has no primary key, or a type that is not told here; it is not what it was; the server fails.
    pub async fn read(
        &mut self,
        (database, name): (&str, &str),
        behind: Option<&[Vec<u8>]>,
        rows_max: usize,
    ) -> Result<Chunk, Unreadable> {
        let link = &mut self.link;
        let definitions = definitions(link, database, name, self.timeout_ms).await?;
        let keys = parts(link, database, name, self.timeout_ms).await?;
        let table = table(database, name, &definitions, &keys)?;
        let full = format!("{}.{}", ticked(database), ticked(name));
        let sql = select(&full, &definitions, &keys, behind, rows_max)?;
        let rows = link.rows(OPERATION, &sql, READ_MS).await?;
        // What the rows show the server shows by now.
        let (position, _) = vantage(link, self.timeout_ms).await?;
        let last = rows.last().filter(|_| rows.len() >= rows_max);
        let last = last.map(|row| {
            let values = keys.iter().map(|part| bytes_at(row, part.place));
            values.map(Option::unwrap_or_default).collect()
        });
        let bytes = rows
            .iter()
            .map(|row| bytes_of(row, definitions.len()))
            .sum();
        let images = rows.iter().map(|row| image(row, &table));
        let images: Result<Vec<Image<'static>>, String> = images.collect();
        let images = images
            .map_err(|why| Unreadable::Table(format!("{database}.{name} cannot be read: {why}")))?;
        let read = ReadRows {
            table: Arc::new(table),
            rows: images,
        };
        Ok(Chunk {
            read,
            last,
            position,
            bytes,
        })
    }
}

async fn definitions(
    link: &mut Link,
    database: &str,
    name: &str,
    timeout_ms: u64,
) -> Result<Vec<Definition>, Error> {
    let sql = format!(
        "SELECT c.COLUMN_NAME, c.DATA_TYPE, c.COLUMN_TYPE, c.IS_NULLABLE, c.CHARACTER_OCTET_LENGTH, \
         (SELECT MIN(k.ID) FROM information_schema.COLLATIONS k \
          WHERE k.CHARACTER_SET_NAME=c.CHARACTER_SET_NAME) \
         FROM information_schema.COLUMNS c WHERE c.TABLE_SCHEMA={} AND c.TABLE_NAME={} \
         ORDER BY c.ORDINAL_POSITION",
        quoted(database),
        quoted(name)
    );
    let of_mariadb = link.version().engine == Engine::MariaDb;
    let rows = link.rows("list columns", &sql, timeout_ms).await?;
    let definition = |row: &Row| {
        let cell = |at| text_at(row, at).unwrap_or_default();
        Definition {
            name: cell(0),
            data_type: cell(1).to_ascii_lowercase(),
            column_type: cell(2),
            nullable: cell(3) == "YES",
            bytes_max: cell(4).parse().unwrap_or(0),
            collation: cell(5).parse().ok(),
            of_mariadb,
        }
    };
    Ok(rows.iter().map(definition).collect())
}

/// The table as the binlog would describe it.
fn table(
    database: &str,
    name: &str,
    definitions: &[Definition],
    keys: &[KeyPart],
) -> Result<Table, Unreadable> {
    if definitions.is_empty() {
        return Err(Unreadable::Changed);
    }
    if keys.is_empty() {
        return Err(Unreadable::Table(format!(
            "{database}.{name} has no primary key, by which its rows could be read in chunks; add one, or name \
             other tables by table=NAME"
        )));
    }
    if let Some(part) = keys.iter().find(|part| !part.is_known()) {
        return Err(Unreadable::Table(format!(
            "{database}.{name} has {} of the type {} in its primary key, by which rows cannot be read in order; \
             name other tables by table=NAME",
            part.name, part.data_type
        )));
    }
    let columns = definitions.iter().map(Definition::column);
    let columns: Result<Vec<_>, String> = columns.collect();
    let columns = columns.map_err(|what| {
        Unreadable::Table(format!(
            "{database}.{name} has {what}, which a snapshot cannot read; name other tables by table=NAME"
        ))
    })?;
    let table = Table {
        database: database.to_owned(),
        name: name.to_owned(),
        columns,
        key: keys.iter().map(|part| part.place).collect(),
    };
    match table.key.iter().all(|&place| place < table.columns.len()) {
        true => Ok(table),
        false => Err(Unreadable::Changed),
    }
}

fn select(
    full: &str,
    definitions: &[Definition],
    keys: &[KeyPart],
    behind: Option<&[Vec<u8>]>,
    rows_max: usize,
) -> Result<String, Unreadable> {
    let columns = definitions.iter();
    let columns: Vec<String> = columns
        .map(|column| column.expression(&ticked(&column.name)))
        .collect();
    let order: Vec<String> = keys.iter().map(|part| ticked(&part.name)).collect();
    let condition = match behind {
        None => String::new(),
        Some(values) => {
            // The values come from a token, which may be older than the key.
            let literals = keys.iter().zip(values);
            let literals = literals.map(|(part, value)| part.of_sent(value));
            let key: Option<Vec<String>> = literals.collect();
            let key = key.filter(|key| key.len() == keys.len() && values.len() == keys.len());
            let key = key.ok_or(Unreadable::Changed)?;
            format!(" WHERE {}", compared(keys, &key, true))
        }
    };
    Ok(format!(
        "SELECT {} FROM {full} FORCE INDEX (PRIMARY){condition} ORDER BY {} LIMIT {rows_max}",
        columns.join(","),
        order.join(",")
    ))
}

fn image(row: &Row, table: &Table) -> Result<Image<'static>, String> {
    let columns = table.columns.iter().enumerate();
    columns
        .map(|(at, column)| cell(bytes_at(row, at), column).map(Some))
        .collect()
}

fn bytes_of(row: &Row, columns: usize) -> usize {
    let values = (0..columns).filter_map(|at| row.as_ref(at));
    values
        .map(|value| match value {
            mysql_async::Value::Bytes(bytes) => bytes.len(),
            _ => 0,
        })
        .sum()
}
