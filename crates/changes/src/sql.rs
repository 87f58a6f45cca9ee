//! Changes as statements that make them again, in a session whose time zone is UTC and whose `sql_mode` is
//! empty.

use crate::cell::Cell;
use crate::rows::{Change, Image, Rows};
use crate::table::Table;

/// The statement of one row's change, without a semicolon.
///
/// # Errors
/// The log does not name the columns by which a row is found.
pub fn statement(rows: &Rows, change: &Change<'_>) -> Result<String, String> {
    let table = &rows.table;
    let name = format!(
        "{}.{}",
        identifier(&table.database),
        identifier(&table.name)
    );
    Ok(match (&change.before, &change.after) {
        (None, Some(after)) => format!("INSERT INTO {name} SET {}", assignments(after, table)?),
        (Some(before), Some(after)) => {
            let set = assignments(after, table)?;
            format!(
                "UPDATE {name} SET {set} WHERE {}",
                condition(before, table)?
            )
        }
        (Some(before), None) => format!("DELETE FROM {name} WHERE {}", condition(before, table)?),
        (None, None) => String::new(),
    })
}

fn identifier(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn column(table: &Table, at: usize) -> Result<String, String> {
    let name = table
        .columns
        .get(at)
        .and_then(|column| column.name.as_deref());
    let unnamed = || {
        format!(
            "the binlog does not name the columns of {}.{} (binlog_row_metadata=FULL)",
            table.database, table.name
        )
    };
    name.map(identifier).ok_or_else(unnamed)
}

fn assignments(image: &Image<'_>, table: &Table) -> Result<String, String> {
    let mut parts = Vec::new();
    for (at, cell) in image.iter().enumerate() {
        if let Some(cell) = cell {
            parts.push(format!(
                "{}={}",
                column(table, at)?,
                literal(cell, table, at)
            ));
        }
    }
    Ok(parts.join(", "))
}

/// By the primary key, or else by all columns that the image has, of one row.
fn condition(image: &Image<'_>, table: &Table) -> Result<String, String> {
    let is_key = |at: &usize| table.key.is_empty() || table.key.contains(at);
    let mut parts = Vec::new();
    for (at, cell) in image.iter().enumerate().filter(|(at, _)| is_key(at)) {
        if let Some(cell) = cell {
            parts.push(format!(
                "{}<=>{}",
                column(table, at)?,
                literal(cell, table, at)
            ));
        }
    }
    let one = if table.key.is_empty() { " LIMIT 1" } else { "" };
    Ok(parts.join(" AND ") + one)
}

fn literal(cell: &Cell<'_>, table: &Table, at: usize) -> String {
    let mut text = Vec::new();
    if let Some(column) = table.columns.get(at) {
        cell.literal(column.unsigned == Some(true), column, &mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}
