//! What a measurement of commits asks of servers: whether they are in use, settings for a while, a table to write
//! to, and when a replica has what its primary committed.

use enginesql::position::wait_for;
use farm::Engine;

use crate::error::Error;
use crate::heartbeat::position;
use crate::link::{Link, text_at};

const OPERATION: &str = "measure commits";

/// The table in the schema of the measurement.
const TABLE: &str = "heddle_commits";

/// From here on MySQL says REPLICA.
const REPLICA_WORDS: u32 = 80_022;

/// What others do on a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Statements that wrote, and that read, since the server started.
    pub writes: u64,
    pub reads: u64,
}

/// What is being done, by counters that only grow.
///
/// # Errors
/// The server cannot be asked.
pub async fn work(link: &mut Link, timeout_ms: u64) -> Result<Work, Error> {
    let sql = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Com_insert','Com_update','Com_delete',\
               'Com_replace','Com_insert_select','Com_load','Com_select')";
    let mut work = Work::default();
    for row in link.rows(OPERATION, sql, timeout_ms).await? {
        let name = text_at(&row, 0).unwrap_or_default();
        let value = text_at(&row, 1).and_then(|value| value.parse().ok());
        match name.eq_ignore_ascii_case("Com_select") {
            true => work.reads += value.unwrap_or(0),
            false => work.writes += value.unwrap_or(0),
        }
    }
    Ok(work)
}

/// The names and values of those of these global variables that the server has.
///
/// # Errors
/// The server cannot be asked.
pub async fn variables(
    link: &mut Link,
    names: &[&str],
    timeout_ms: u64,
) -> Result<Vec<(String, String)>, Error> {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    let sql = format!(
        "SHOW GLOBAL VARIABLES WHERE Variable_name IN ({})",
        quoted.join(",")
    );
    let rows = link.rows(OPERATION, &sql, timeout_ms).await?;
    let pair = |row: &_| Some((text_at(row, 0)?, text_at(row, 1)?));
    Ok(rows.iter().filter_map(pair).collect())
}

/// The statement that sets a global variable whose value is a number.
pub fn setting(name: &str, value: &str) -> String {
    format!("SET GLOBAL {name} = {value}")
}

/// The same for a variable that a replica takes while it does not apply.
pub fn setting_of_applier(link: &Link, name: &str, value: &str) -> String {
    let is_newer = link.version().engine == Engine::MySql && link.version().number >= REPLICA_WORDS;
    let word = if is_newer { "REPLICA" } else { "SLAVE" };
    let set = setting(name, value);
    format!("STOP {word} SQL_THREAD; {set}; START {word} SQL_THREAD")
}

/// Runs statements whose rows do not matter.
///
/// # Errors
/// The server refuses one, or cannot be asked.
pub async fn run(link: &mut Link, sql: &str, timeout_ms: u64) -> Result<(), Error> {
    link.run(OPERATION, sql, timeout_ms).await
}

/// How many tables the schema has; `None` when there is no such schema.
///
/// # Errors
/// The server cannot be asked.
pub async fn tables_in(
    link: &mut Link,
    schema: &str,
    timeout_ms: u64,
) -> Result<Option<u64>, Error> {
    let schema = enginesql::quoted(schema);
    let sql = format!(
        "SELECT COUNT(t.TABLE_NAME) FROM information_schema.SCHEMATA s \
         LEFT JOIN information_schema.TABLES t ON t.TABLE_SCHEMA = s.SCHEMA_NAME \
         WHERE s.SCHEMA_NAME = {schema} GROUP BY s.SCHEMA_NAME"
    );
    let said = link.cell(OPERATION, &sql, timeout_ms).await?;
    Ok(said.map(|text| text.parse().unwrap_or(0)))
}

fn table_of(schema: &str) -> String {
    format!("`{}`.{TABLE}", schema.replace('`', "``"))
}

/// The statements that make the table of a measurement, with its schema where there is none yet, and take it away.
pub fn making(schema: &str, with_schema: bool) -> [String; 2] {
    let (table, name) = (table_of(schema), schema.replace('`', "``"));
    let made = format!(
        "CREATE TABLE {table} (writer INT, number BIGINT, v VARCHAR(40), PRIMARY KEY (writer, number)) \
         ENGINE=InnoDB"
    );
    match with_schema {
        true => [
            format!("CREATE DATABASE `{name}`; {made}"),
            format!("DROP DATABASE IF EXISTS `{name}`"),
        ],
        false => [made, format!("DROP TABLE IF EXISTS {table}")],
    }
}

/// Commits one row.
///
/// # Errors
/// The server refuses it, or cannot be asked.
pub async fn commit(
    link: &mut Link,
    schema: &str,
    writer: u32,
    number: u64,
    timeout_ms: u64,
) -> Result<(), Error> {
    let table = table_of(schema);
    let sql = format!(
        "INSERT INTO {table} VALUES ({writer}, {number}, 'a row of some forty bytes, as many have')"
    );
    link.run(OPERATION, &sql, timeout_ms).await
}

/// Waits until a replica has executed what its primary has; false when it has not after `wait_ms`.
///
/// # Errors
/// A server cannot be asked.
pub async fn catches_up(
    primary: &mut Link,
    replica: &mut Link,
    wait_ms: u64,
    timeout_ms: u64,
) -> Result<bool, Error> {
    let wanted = position(primary, timeout_ms).await?;
    let wait = wait_for(replica.version().engine, &wanted.to_string(), wait_ms);
    let said = replica
        .cell(OPERATION, &format!("SELECT {wait}"), timeout_ms + wait_ms)
        .await?;
    Ok(said.as_deref() == Some("0"))
}
