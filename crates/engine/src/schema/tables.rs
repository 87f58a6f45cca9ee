//! Tables of a server: their columns and keys, and rows that a condition leaves out.
//!
//! Conditions are SQL for a session whose `sql_mode` is empty; their makers quote what they name.

use std::collections::{BTreeMap, BTreeSet};

use enginesql::quoted;
use farm::Engine;
use farm::sharding::{Column, TableSchema};
use sqltext::ticked;

use crate::error::Error;
use crate::link::{Link, text_at};

/// A string literal for the session of a [`Link`].
pub fn literal(text: &str) -> String {
    quoted(text)
}

/// The tables and views of a database by name, or the one that is named.
pub async fn schemas(
    link: &mut Link,
    database: &str,
    only: Option<&str>,
    timeout_ms: u64,
) -> Result<BTreeMap<String, TableSchema>, Error> {
    const OPERATION: &str = "list its tables";
    let mut within = quoted(database);
    if let Some(table) = only {
        within += &format!(" AND TABLE_NAME={}", quoted(table));
    }
    let mut sets = Vec::new();
    // A set without rows is left out by the driver, so the statements go one by one.
    for one in &questions(&within) {
        sets.push(link.rows(OPERATION, one, timeout_ms).await?);
    }
    let cell = |row: &mysql_async::Row, at| text_at(row, at).unwrap_or_default();
    let mut all: BTreeMap<String, TableSchema> = BTreeMap::new();
    for row in &sets[0] {
        let schema = TableSchema {
            view: cell(row, 1).contains("VIEW"),
            ..TableSchema::default()
        };
        all.insert(cell(row, 0), schema);
    }
    for row in &sets[1] {
        let extra = cell(row, 6).to_ascii_uppercase();
        let computed = ["VIRTUAL GENERATED", "STORED GENERATED", "PERSISTENT"];
        let column = Column {
            name: cell(row, 1).into(),
            data_type: cell(row, 2).to_ascii_lowercase().into(),
            full_type: cell(row, 3).into(),
            collation: text_at(row, 4).map(Into::into),
            nullable: cell(row, 5) == "YES",
            auto_increment: extra.contains("AUTO_INCREMENT"),
            generated: computed.iter().any(|word| extra.contains(word)),
            invisible: extra.contains("INVISIBLE"),
            default: text_at(row, 7)
                .filter(|text| is_expression(text, &extra))
                .map(Into::into),
        };
        if let Some(schema) = all.get_mut(&cell(row, 0)) {
            schema.columns.push(column);
        }
    }
    for row in &sets[3] {
        if let Some(schema) = all.get_mut(&cell(row, 0)) {
            schema.body = text_at(row, 1).filter(|it| !it.is_empty()).map(Into::into);
        }
    }
    put_keys(&mut all, &sets[2]);
    Ok(all)
}

/// What is asked of the tables that this names: tables, columns, unique keys, views.
fn questions(within: &str) -> [String; 4] {
    [
        format!(
            "SELECT TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA={within}"
        ),
        format!(
            "SELECT TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, COLLATION_NAME, IS_NULLABLE, \
             EXTRA, COLUMN_DEFAULT \
             FROM information_schema.COLUMNS WHERE TABLE_SCHEMA={within} \
             ORDER BY TABLE_NAME, ORDINAL_POSITION"
        ),
        format!(
            "SELECT TABLE_NAME, INDEX_NAME, COLUMN_NAME FROM information_schema.STATISTICS \
             WHERE TABLE_SCHEMA={within} AND NON_UNIQUE=0 \
             ORDER BY TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX"
        ),
        format!(
            "SELECT TABLE_NAME, VIEW_DEFINITION FROM information_schema.VIEWS \
             WHERE TABLE_SCHEMA={within}"
        ),
    ]
}

/// The table's engine, if it keeps no transactions.
pub async fn engine_without_transactions(
    link: &mut Link,
    database: &str,
    table: &str,
    timeout_ms: u64,
) -> Result<Option<String>, Error> {
    let (database, table) = (quoted(database), quoted(table));
    let sql = format!(
        "SELECT t.ENGINE FROM information_schema.TABLES t JOIN information_schema.ENGINES e \
         ON e.ENGINE = t.ENGINE WHERE t.TABLE_SCHEMA = {database} AND t.TABLE_NAME = {table} \
         AND COALESCE(e.TRANSACTIONS, 'NO') <> 'YES'"
    );
    link.cell("ask for a table's engine", &sql, timeout_ms)
        .await
}

/// Has the server count tables' sizes anew for this link: MySQL remembers for a day what it counted last.
pub async fn count_anew(link: &mut Link, timeout_ms: u64) -> Result<(), Error> {
    if link.version().engine != Engine::MySql {
        return Ok(());
    }
    let sql = "SET SESSION information_schema_stats_expiry=0";
    link.run("have its tables counted", sql, timeout_ms).await
}

/// How many rows and bytes each table of a database has, as the server thinks: name, rows, bytes with indexes.
pub async fn sizes(
    link: &mut Link,
    database: &str,
    timeout_ms: u64,
) -> Result<Vec<(String, u64, u64)>, Error> {
    let sql = format!(
        "SELECT TABLE_NAME, COALESCE(TABLE_ROWS, 0), COALESCE(DATA_LENGTH, 0) + \
         COALESCE(INDEX_LENGTH, 0) FROM information_schema.TABLES WHERE TABLE_SCHEMA={} AND \
         TABLE_TYPE='BASE TABLE'",
        quoted(database)
    );
    let rows = link
        .rows("ask for its tables' sizes", &sql, timeout_ms)
        .await?;
    let number = |row: &mysql_async::Row, at| {
        let text = text_at(row, at).unwrap_or_default();
        text.parse().unwrap_or(0)
    };
    let of = |row: &mysql_async::Row| Some((text_at(row, 0)?, number(row, 1), number(row, 2)));
    Ok(rows.iter().filter_map(of).collect())
}

/// How many rows these tables of a database have, as the server thinks now: by name.
pub async fn rows(
    link: &mut Link,
    database: &str,
    tables: &BTreeSet<String>,
    timeout_ms: u64,
) -> Result<Vec<(String, u64)>, Error> {
    const OPERATION: &str = "ask for its tables' rows";
    if link.version().engine == Engine::MySql {
        // It would tell what it thought up to a day ago.
        let fresh = "SET SESSION information_schema_stats_expiry = 0";
        link.run(OPERATION, fresh, timeout_ms).await?;
    }
    let names: Vec<String> = tables.iter().map(|table| quoted(table)).collect();
    let sql = format!(
        "SELECT TABLE_NAME, COALESCE(TABLE_ROWS, 0) FROM information_schema.TABLES \
         WHERE TABLE_SCHEMA={} AND TABLE_NAME IN ({})",
        quoted(database),
        names.join(", ")
    );
    let rows = link.rows(OPERATION, &sql, timeout_ms).await?;
    let of = |row: &mysql_async::Row| Some((text_at(row, 0)?, text_at(row, 1)?.parse().ok()?));
    Ok(rows.iter().filter_map(of).collect())
}

/// Puts in the unique keys.
fn put_keys(all: &mut BTreeMap<String, TableSchema>, rows: &[mysql_async::Row]) {
    let cell = |row: &mysql_async::Row, at| text_at(row, at).unwrap_or_default();
    let mut keys: BTreeMap<(String, String), Vec<u16>> = BTreeMap::new();
    for row in rows {
        let (table, column) = (cell(row, 0), text_at(row, 2));
        // A part that is an expression is no column: the key cannot be told by columns.
        let place = column.and_then(|column| all.get(&table)?.column(&column));
        let place = place.and_then(|place| u16::try_from(place).ok());
        let key = keys.entry((table, cell(row, 1))).or_default();
        key.push(place.unwrap_or(u16::MAX));
    }
    for ((table, index), columns) in keys {
        let Some(schema) = all.get_mut(&table) else {
            continue;
        };
        match index.as_str() {
            "PRIMARY" => schema.primary = columns,
            _ => schema.unique.push(columns),
        }
    }
}

/// A default is computed with every row. MySQL says so; MariaDB has constants in quotes. MySQL's
/// constants are not, so one with a parenthesis is taken for an expression.
fn is_expression(default: &str, extra: &str) -> bool {
    extra.contains("DEFAULT_GENERATED") || (default.contains('(') && !default.starts_with('\''))
}

/// How many rows of a table are not as the condition says, NULL included.
pub async fn count_others(
    link: &mut Link,
    database: &str,
    table: &str,
    condition: &str,
    timeout_ms: u64,
) -> Result<u64, Error> {
    let (database, table) = (ticked(database), ticked(table));
    let sql = format!("SELECT COUNT(*) FROM {database}.{table} WHERE ({condition}) IS NOT TRUE");
    let count = link.cell("count rows", &sql, timeout_ms).await?;
    Ok(count.and_then(|count| count.parse().ok()).unwrap_or(0))
}

/// Deletes at most `limit` of those rows; gives how many there were.
pub async fn delete_others(
    link: &mut Link,
    database: &str,
    table: &str,
    condition: &str,
    limit: u64,
    timeout_ms: u64,
) -> Result<u64, Error> {
    const OPERATION: &str = "delete rows";
    let (database, table) = (ticked(database), ticked(table));
    let sql = format!(
        "SET SESSION foreign_key_checks=0; \
         DELETE FROM {database}.{table} WHERE ({condition}) IS NOT TRUE LIMIT {limit}; \
         SELECT ROW_COUNT()"
    );
    let sets = link.sets(OPERATION, &sql, timeout_ms).await?;
    let last = sets.last().and_then(|rows| rows.first());
    let count = last.and_then(|row| text_at(row, 0));
    Ok(count.and_then(|count| count.parse().ok()).unwrap_or(0))
}

/// A number that equal contents have equal, and whether there are rows at all.
pub async fn checksum(
    link: &mut Link,
    database: &str,
    table: &str,
    timeout_ms: u64,
) -> Result<(String, bool), Error> {
    const OPERATION: &str = "add up a table";
    let name = format!("{}.{}", ticked(database), ticked(table));
    let sql = format!("CHECKSUM TABLE {name}");
    let rows = link.rows(OPERATION, &sql, timeout_ms).await?;
    let sum = rows.first().and_then(|row| text_at(row, 1));
    // NULL for a table that is not there.
    let Some(sum) = sum else {
        return Ok((String::new(), false));
    };
    let sql = format!("SELECT COUNT(*) FROM (SELECT 1 FROM {name} LIMIT 1) AS one");
    let some = link.cell(OPERATION, &sql, timeout_ms).await?;
    Ok((sum, some.as_deref() == Some("1")))
}
