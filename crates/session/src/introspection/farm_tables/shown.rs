//! What SHOW and DESCRIBE say of the tables about the farm.

use farm::tables::{self, DATABASE, FarmTable, TABLES};
use sqltext::{FarmShow, ShowWhat};

use crate::introspection::farm_tables::Cells;
use crate::introspection::farm_tables::query::{SYSTEM_VIEW, of_texts};

const COLLATION: &str = "utf8mb4_general_ci";

/// The rows of such a statement.
#[derive(Debug)]
pub(crate) struct Shown {
    pub columns: Vec<&'static str>,
    pub rows: Vec<Cells>,
}

/// What the statement shows; `theirs` are the names of the tables that the servers have in the same database. `None`
/// for what is no matter of these tables alone.
pub(crate) fn shown(show: &FarmShow, text: &[u8], theirs: &[String]) -> Option<Shown> {
    let mut shown = match show.what {
        ShowWhat::Databases => return None,
        ShowWhat::Tables => tables_shown(show.full, theirs),
        ShowWhat::Status => status(),
        ShowWhat::Columns(name) => columns(tables::find(name)?, show.full),
        ShowWhat::Create(name) => {
            let table = tables::find(name)?;
            let row = vec![table.name.to_owned(), tables::definition(table)];
            of(vec!["Table", "Create Table"], vec![row])
        }
        ShowWhat::Indexes(_) => of(INDEX.to_vec(), Vec::new()),
    };
    if let Some(like) = show.like {
        let literal = like.of(text);
        let pattern = literal.trim_ascii();
        let quoted = matches!(pattern.first(), Some(b'\'' | b'"' | b'`')) && pattern.len() > 1;
        let pattern = if quoted {
            &pattern[1..pattern.len() - 1]
        } else {
            pattern
        };
        // A character behind a backslash stands for itself, which the same without one matches too.
        let plain = pattern.iter().filter(|byte| **byte != b'\\');
        let pattern: Vec<u8> = plain.map(u8::to_ascii_lowercase).collect();
        shown.rows.retain(|row| {
            let name = row[0].as_deref().unwrap_or_default();
            farm::account::like(&pattern, name.to_ascii_lowercase().as_bytes())
        });
    }
    Some(shown)
}

impl Shown {
    /// The same as a text that a server runs, with the statement's condition.
    pub fn query(&self, show: &FarmShow, text: &[u8]) -> Vec<u8> {
        let names: Vec<String> = self.columns.iter().map(|name| sqltext::ticked(name)).collect();
        let from = of_texts(&self.columns, &self.rows);
        let mut query =
            format!("SELECT {} FROM {from} AS `{DATABASE}`", names.join(", ")).into_bytes();
        if let Some(condition) = show.condition {
            query.extend_from_slice(b" WHERE ");
            query.extend_from_slice(condition.of(text));
        }
        query
    }
}

fn of(columns: Vec<&'static str>, rows: Vec<Vec<String>>) -> Shown {
    let cells = |row: Vec<String>| row.into_iter().map(Some).collect();
    Shown {
        columns,
        rows: rows.into_iter().map(cells).collect(),
    }
}

fn tables_shown(full: bool, theirs: &[String]) -> Shown {
    let own = |table: &FarmTable| vec![table.name.to_owned(), SYSTEM_VIEW.to_owned()];
    let mut rows: Vec<Vec<String>> = TABLES.iter().map(own).collect();
    let others = theirs.iter().filter(|name| tables::find(name).is_none());
    rows.extend(others.map(|name| vec![name.clone(), "BASE TABLE".to_owned()]));
    rows.sort();
    let mut columns = vec!["Tables_in_heddle", "Table_type"];
    if !full {
        columns.pop();
        rows.iter_mut().for_each(|row| row.truncate(1));
    }
    of(columns, rows)
}

const STATUS: [&str; 18] = [
    "Name",
    "Engine",
    "Version",
    "Row_format",
    "Rows",
    "Avg_row_length",
    "Data_length",
    "Max_data_length",
    "Index_length",
    "Data_free",
    "Auto_increment",
    "Create_time",
    "Update_time",
    "Check_time",
    "Collation",
    "Checksum",
    "Create_options",
    "Comment",
];

/// As of a view: a dump makes no table of it.
fn status() -> Shown {
    let row = |table: &FarmTable| {
        let cell = |name: &&str| match *name {
            "Name" => Some(table.name.to_owned()),
            "Comment" => Some("VIEW".to_owned()),
            _ => None,
        };
        STATUS.iter().map(cell).collect()
    };
    Shown {
        columns: STATUS.to_vec(),
        rows: TABLES.iter().map(row).collect(),
    }
}

const INDEX: [&str; 13] = [
    "Table",
    "Non_unique",
    "Key_name",
    "Seq_in_index",
    "Column_name",
    "Collation",
    "Cardinality",
    "Sub_part",
    "Packed",
    "Null",
    "Index_type",
    "Comment",
    "Index_comment",
];

fn columns(table: &FarmTable, full: bool) -> Shown {
    let names = match full {
        false => vec!["Field", "Type", "Null", "Key", "Default", "Extra"],
        true => vec![
            "Field",
            "Type",
            "Collation",
            "Null",
            "Key",
            "Default",
            "Extra",
            "Privileges",
            "Comment",
        ],
    };
    let row = |column: &tables::FarmColumn| {
        let cell = |name: &&str| match *name {
            "Field" => Some(column.name.to_owned()),
            "Type" => Some(column.kind.sql().to_owned()),
            "Collation" => column.kind.is_text().then(|| COLLATION.to_owned()),
            "Null" => Some("YES".to_owned()),
            "Privileges" => Some("select".to_owned()),
            "Comment" => Some(column.about.to_owned()),
            "Default" => None,
            _ => Some(String::new()),
        };
        names.iter().map(cell).collect()
    };
    let rows = table.columns.iter().map(row).collect();
    Shown {
        columns: names,
        rows,
    }
}

#[cfg(test)]
mod tests {
    use sqltext::{Dialect, Mode};

    use super::*;
    use crate::introspection::farm_tables::named;

    fn rows(text: &str) -> Vec<String> {
        let mode = Mode::new(Dialect::MariaDb, 101_100);
        let show = named(text.as_bytes(), &mode, None).show.expect("it is about them");
        let shown = shown(&show, text.as_bytes(), &["mark".to_owned()]).expect("it has rows");
        let line = |row: &Cells| {
            let cells = row.iter().map(|cell| cell.as_deref().unwrap_or("NULL"));
            cells.collect::<Vec<_>>().join("|")
        };
        shown.rows.iter().map(line).collect()
    }

    #[test]
    fn tables_and_columns_are_shown() {
        let all = rows("SHOW TABLES FROM heddle");
        assert!(all.contains(&"servers".to_owned()) && all.contains(&"mark".to_owned()));
        assert!(all.is_sorted());
        assert_eq!(rows("SHOW FULL TABLES FROM heddle LIKE 'SERV%'"), ["servers|SYSTEM VIEW"]);
        assert_eq!(rows("DESCRIBE heddle.servers lag_ms"), ["lag_ms|double|YES||NULL|"]);
        assert_eq!(
            rows("SHOW COLUMNS FROM heddle.lag LIKE 'is%'"),
            ["is_alive|tinyint(1)|YES||NULL|"]
        );
        assert_eq!(rows("SHOW INDEX FROM heddle.lag").len(), 0);
        let made = rows("SHOW CREATE TABLE heddle.groups");
        assert!(
            made[0].starts_with("groups|CREATE TABLE `groups` (\n  `group_id` varchar(255)"),
            "{made:?}"
        );
    }
}
