//! Changes as statements that make them again, in a session whose time zone is UTC and whose `sql_mode` is
//! empty.

use crate::cell::Cell;
use crate::json::name;
use crate::rows::{Change, Image, Rows};
use crate::table::Table;

/// The statement of one row's change, without a semicolon. Columns that the log does not name have their places as names
/// (`@1`), in quotes: no server runs it, because with bare ones it would take them for variables.
pub fn statement(rows: &Rows, change: &Change<'_>) -> String {
    let table = &rows.table;
    let name = format!(
        "{}.{}",
        identifier(&table.database),
        identifier(&table.name)
    );
    match (&change.before, &change.after) {
        (None, Some(after)) => format!("INSERT INTO {name} SET {}", assignments(after, table)),
        (Some(before), Some(after)) => {
            let set = assignments(after, table);
            format!("UPDATE {name} SET {set} WHERE {}", condition(before, table))
        }
        (Some(before), None) => format!("DELETE FROM {name} WHERE {}", condition(before, table)),
        (None, None) => String::new(),
    }
}

fn identifier(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn column(table: &Table, at: usize) -> String {
    let column = table.columns.get(at);
    column.map_or(String::new(), |column| identifier(&name(column, at)))
}

fn assignments(image: &Image<'_>, table: &Table) -> String {
    let mut parts = Vec::new();
    for (at, cell) in image.iter().enumerate() {
        if let Some(cell) = cell {
            parts.push(format!(
                "{}={}",
                column(table, at),
                literal(cell, table, at)
            ));
        }
    }
    parts.join(", ")
}

/// By the primary key, or else by all columns that the image has, of one row.
fn condition(image: &Image<'_>, table: &Table) -> String {
    let is_key = |at: &usize| table.key.is_empty() || table.key.contains(at);
    let mut parts = Vec::new();
    for (at, cell) in image.iter().enumerate().filter(|(at, _)| is_key(at)) {
        if let Some(cell) = cell {
            parts.push(format!(
                "{}<=>{}",
                column(table, at),
                literal(cell, table, at)
            ));
        }
    }
    let one = if table.key.is_empty() { " LIMIT 1" } else { "" };
    parts.join(" AND ") + one
}

fn literal(cell: &Cell<'_>, table: &Table, at: usize) -> String {
    let mut text = Vec::new();
    if let Some(column) = table.columns.get(at) {
        cell.literal(column.unsigned == Some(true), column, &mut text);
        if let Some(other) = column.other_reading(cell) {
            text.extend(format!(" /* or {other} */").bytes());
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use farm::Engine;

    use super::*;
    use crate::table::table;

    #[test]
    fn columns_without_names_are_told_by_their_places() {
        let mut map = vec![7, 0, 0, 0, 0, 0, 1, 0];
        map.extend(b"\x01d\0\x01t\0");
        // TINYINT, VARCHAR(10).
        map.extend([2, 1, 15, 2, 10, 0, 0b10]);
        let (_, table) = table(&map, Engine::MariaDb).expect("a table map");
        let event = [7, 0, 0, 0, 0, 0, 1, 0, 2, 3, 0b00, 0xC8, 1, b'x', 0b10, 7];
        let of = |kind: u8| {
            let rows = Rows::of(kind, &event, Arc::new(table.clone())).expect("rows");
            let all = rows
                .changes()
                .map(|it| statement(&rows, &it.expect("a change")));
            all.collect::<Vec<_>>()
        };
        let inserts = of(23);
        assert_eq!(
            inserts[0],
            "INSERT INTO `d`.`t` SET `@1`=-56 /* or 200 */, `@2`=x'78'"
        );
        assert_eq!(inserts[1], "INSERT INTO `d`.`t` SET `@1`=7, `@2`=NULL");
        let one = "DELETE FROM `d`.`t` WHERE `@1`<=>7 AND `@2`<=>NULL LIMIT 1";
        assert_eq!(of(25)[1], one);
    }
}
