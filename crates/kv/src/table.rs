//! What a container's table says of itself: its columns, and whether a key is one row.

use farm::Container;
use rustc_hash::FxHashMap;
use session::{Heard, Internal, Lost, Sheet};
use sqltext::ticked;

use crate::columns::{Columns, Kind, kind_of};
use crate::op::Refusal;
use crate::sure::may_refuse;

/// What a table says of one column.
pub(crate) struct Found {
    pub name: String,
    pub kind: Kind,
    pub nullable: bool,
    pub collation: String,
    /// As the server writes it.
    pub full_type: String,
    /// A row that does not say what it has here is refused.
    pub demands: bool,
}

impl Columns {
    /// Asks a server what the container's columns are.
    ///
    /// # Errors
    /// The table is not there, or lacks a column, or cannot be read now: for the client.
    pub async fn find(
        internal: &mut Internal,
        container: &Container,
    ) -> Result<Result<Columns, Refusal>, Lost> {
        let table = format!(
            "{}.{}",
            ticked(&container.database),
            ticked(&container.table)
        );
        let text = format!("SHOW FULL COLUMNS FROM {table}");
        let sheet = match sheet(internal, container, &text).await? {
            Ok(sheet) => sheet,
            Err(why) => return Ok(Err(why)),
        };
        let found = sheet.rows.iter().map(|row| found(&sheet, row));
        let found: FxHashMap<String, Found> = found
            .map(|found| (found.name.to_ascii_lowercase(), found))
            .collect();
        if let Err(why) = keeps_unique(internal, container, &table).await? {
            return Ok(Err(why));
        }
        let sure = match container.w_batch_size > 1 && is_plain(internal, container, &table).await?
        {
            true => Columns::sure_of(container, &found),
            false => None,
        };
        let mut columns = Columns::of(container, &found, table);
        if let Ok(columns) = &mut columns {
            columns.sure = sure;
        }
        Ok(columns)
    }
}

async fn sheet(
    internal: &mut Internal,
    container: &Container,
    text: &str,
) -> Result<Result<Sheet, Refusal>, Lost> {
    Ok(match internal.ask(text.as_bytes()).await? {
        Heard::Rows(sheet) => Ok(sheet),
        Heard::Refused(refusal) => {
            let why = String::from_utf8_lossy(&refusal.message).into_owned();
            Err(of_container(container, &why))
        }
        Heard::Ok { .. } => Err(of_container(container, "no columns were told")),
    })
}

/// Whether a key is one row: its column has a unique index of its own. Of a view nobody knows.
async fn keeps_unique(
    internal: &mut Internal,
    container: &Container,
    table: &str,
) -> Result<Result<(), Refusal>, Lost> {
    let indexes = match sheet(internal, container, &format!("SHOW INDEX FROM {table}")).await? {
        Ok(sheet) => sheet,
        Err(why) => return Ok(Err(why)),
    };
    let parts = indexes.rows.iter().map(|row| part(&indexes, row));
    if is_unique(&parts.collect::<Vec<Part>>(), &container.key) {
        return Ok(Ok(()));
    }
    if indexes.rows.is_empty() {
        let shown = sheet(internal, container, &format!("SHOW CREATE TABLE {table}")).await?;
        if shown.is_ok_and(|shown| shown.names.first().is_some_and(|name| name == "View")) {
            return Ok(Ok(()));
        }
    }
    let key = &container.key;
    let why = format!("column {key} has no unique index of its own, so a key may be many rows");
    Ok(Err(of_container(container, &why)))
}

/// Whether nothing but the types of its columns may make the table refuse a row.
async fn is_plain(
    internal: &mut Internal,
    container: &Container,
    table: &str,
) -> Result<bool, Lost> {
    let shown = sheet(internal, container, &format!("SHOW CREATE TABLE {table}")).await?;
    let plain = shown.is_ok_and(|shown| {
        shown
            .names
            .get(1)
            .is_some_and(|name| name == "Create Table")
            && (shown.rows.first())
                .is_some_and(|row| !may_refuse(&cell(&shown, row, "Create Table")))
    });
    let indexes = sheet(internal, container, &format!("SHOW INDEX FROM {table}")).await?;
    let other_unique = |row: &Vec<Option<Vec<u8>>>, indexes: &Sheet| {
        let part = part(indexes, row);
        let plain_key = part.column.eq_ignore_ascii_case(&container.key);
        cell(indexes, row, "Non_unique") == "0" && !plain_key
    };
    let one_key = indexes.is_ok_and(|it| !it.rows.iter().any(|row| other_unique(row, &it)));
    if !plain || !one_key {
        return Ok(false);
    }
    let mut text = format!(
        "SHOW TRIGGERS FROM {} WHERE `Table`=",
        ticked(&container.database)
    )
    .into_bytes();
    sqltext::put_string(container.table.as_bytes(), false, &mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    let triggers = sheet(internal, container, &text).await?;
    Ok(triggers.is_ok_and(|it| it.rows.is_empty()))
}

/// A column of an index.
struct Part {
    index: String,
    column: String,
    /// The index is unique, and by all of the column.
    unique: bool,
}

fn part(sheet: &Sheet, row: &[Option<Vec<u8>>]) -> Part {
    let cell = |name| cell(sheet, row, name);
    Part {
        index: cell("Key_name"),
        column: cell("Column_name"),
        unique: cell("Non_unique") == "0" && cell("Sub_part").is_empty(),
    }
}

/// Whether one of the indexes is a unique one on this column alone.
fn is_unique(parts: &[Part], column: &str) -> bool {
    let alone = |it: &Part| parts.iter().filter(|other| other.index == it.index).count() == 1;
    let is_it = |it: &&Part| it.unique && it.column.eq_ignore_ascii_case(column);
    parts.iter().filter(is_it).any(alone)
}

/// What a client hears of a container that cannot be used.
pub(crate) fn of_container(container: &Container, why: &str) -> Refusal {
    Refusal::server(format!("container {}: {why}", container.name))
}

/// Empty for NULL.
fn cell(sheet: &Sheet, row: &[Option<Vec<u8>>], name: &str) -> String {
    let at = sheet
        .names
        .iter()
        .position(|has| has.eq_ignore_ascii_case(name));
    let cell = at.and_then(|at| row.get(at)?.as_deref());
    String::from_utf8_lossy(cell.unwrap_or_default()).into_owned()
}

fn found(sheet: &Sheet, row: &[Option<Vec<u8>>]) -> Found {
    let default_at = sheet.names.iter().position(|name| name == "Default");
    let defaults = default_at.is_some_and(|at| row.get(at).is_some_and(Option::is_some));
    let cell = |name| cell(sheet, row, name);
    let (full_type, nullable) = (cell("Type"), cell("Null") == "YES");
    Found {
        name: cell("Field"),
        kind: kind_of(&full_type),
        nullable,
        collation: cell("Collation"),
        full_type,
        // Whatever stands in Extra gives the column a value, or is none of a plain table's.
        demands: !nullable && !defaults && cell("Extra").is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_one_row_by_a_unique_index_of_its_own() {
        let part = |index: &str, column: &str, unique| Part {
            index: index.to_owned(),
            column: column.to_owned(),
            unique,
        };
        let mut parts = vec![
            part("PRIMARY", "a", true),
            part("PRIMARY", "b", true),
            part("i", "a", false),
        ];
        assert!(!is_unique(&[], "a") && !is_unique(&parts, "a"));
        parts.push(part("u", "A", true));
        assert!(is_unique(&parts, "a") && !is_unique(&parts, "b"));
    }
}
