//! Rows that Heddle knows, as a query of constants that a server runs.
//!
//! Invariants: the query gives the rows as they are, with the columns' names and types, on both engines.
//!
//! Must not know: whose rows these are, and where the query stands.

use std::fmt::Write;

use mysql_wire::result::{ColumnKind, ValueKind};

/// A row of text cells; NULL is `None`.
type Row = Vec<Option<Vec<u8>>>;

/// A longer text column is written as a LONGTEXT.
const CHARACTERS_MAX: usize = 1024;

/// A column of such rows.
pub(crate) struct Column {
    pub name: String,
    /// As in CREATE TABLE.
    pub kind: String,
    pub collation: Option<String>,
    pub nullable: bool,
}

impl Column {
    pub fn is_number(&self) -> bool {
        ["int", "dec", "double", "float"].iter().any(|part| self.kind.contains(part))
    }

    /// The longest value, in characters.
    fn characters(&self) -> Option<usize> {
        let length = self.kind.strip_prefix("varchar(")?.split_once(')')?.0;
        length.parse().ok().filter(|length| *length <= CHARACTERS_MAX)
    }

    /// Name and kind as the lists of SHOW have them.
    pub fn as_shown(&self) -> (String, ValueKind) {
        let column = match self.is_number() {
            true => ColumnKind::LongLong,
            false => ColumnKind::VarString,
        };
        let unsigned = false;
        (self.name.to_ascii_lowercase(), ValueKind { column, unsigned })
    }

    fn is_time(&self) -> bool {
        self.kind.starts_with("datetime")
    }

    /// What JSON_TABLE makes of the column's values.
    fn read_as(&self) -> &str {
        match self.is_number() || self.is_time() || self.characters().is_some() {
            true => &self.kind,
            false => "LONGTEXT",
        }
    }

    /// The value of column `at` of JSON_TABLE, of the type that the table itself has.
    fn value(&self, at: usize) -> String {
        let value = match self.nullable {
            true => format!("j.c{at}"),
            // Every row has a number, and a literal would make another kind of most kinds.
            false if self.is_number() && !self.kind.starts_with("bigint") => format!("j.c{at}"),
            false if self.is_number() => format!("IFNULL(j.c{at}, 0)"),
            false => format!("IFNULL(j.c{at}, '')"),
        };
        match self.collation.as_deref().filter(|name| *name != "NULL") {
            Some(collation) => {
                let charset = collation.split('_').next().unwrap_or(collation);
                format!("CONVERT({value} USING {charset}) COLLATE {collation}")
            }
            None if self.is_number() || self.is_time() => value,
            None => format!("CAST({value} AS BINARY)"),
        }
    }
}

/// A query with these rows, whose columns have these names.
pub(crate) fn rows_alone(columns: &[Column], rows: &[Row]) -> String {
    let value = |(at, column): (usize, &Column)| {
        format!("{} AS {}", column.value(at), sqltext::ticked(&column.name))
    };
    let kind =
        |(at, column): (usize, &Column)| format!("c{at} {} PATH '$.c{at}'", column.read_as());
    let values: Vec<String> = columns.iter().enumerate().map(value).collect();
    let kinds: Vec<String> = columns.iter().enumerate().map(kind).collect();
    let hex = hex::encode(json(columns, rows));
    format!(
        "SELECT {} FROM JSON_TABLE(CONVERT(0x{hex} USING utf8mb4), '$[*]' COLUMNS ({})) j",
        values.join(", "),
        kinds.join(", ")
    )
}

/// The rows as an array of objects. NULL is absent: MySQL 8.0.12 takes a JSON null for a text.
fn json(columns: &[Column], rows: &[Row]) -> String {
    let mut out = "[".to_owned();
    for (at, row) in rows.iter().enumerate() {
        out.push_str(if at > 0 { ",{" } else { "{" });
        let cells = columns.iter().zip(row).enumerate();
        let known = cells.filter_map(|(at, (column, cell))| Some((at, column, cell.as_deref()?)));
        for (nth, (at, column, cell)) in known.enumerate() {
            let comma = if nth > 0 { "," } else { "" };
            let _ = write!(out, "{comma}\"c{at}\":");
            put_json(&mut out, cell, column.characters());
        }
        out.push('}');
    }
    out.push(']');
    out
}

fn put_json(out: &mut String, value: &[u8], characters_max: Option<usize>) {
    let text = String::from_utf8_lossy(value);
    out.push('"');
    for character in text.chars().take(characters_max.unwrap_or(usize::MAX)) {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_json_that_keeps_them() {
        let text = |kind: &str| Column {
            name: "c".to_owned(),
            kind: kind.to_owned(),
            collation: None,
            nullable: true,
        };
        let columns = [text("bigint(4)"), text("varchar(4)"), text("longtext")];
        let rows = [
            vec![Some(b"5".to_vec()), Some("äöüßx".into()), None],
            vec![None, None, Some(b"a\"b\\\n\xff".to_vec())],
        ];
        assert_eq!(
            json(&columns, &rows),
            "[{\"c0\":\"5\",\"c1\":\"äöüß\"},{\"c2\":\"a\\\"b\\\\\\u000a\u{fffd}\"}]"
        );
    }
}
