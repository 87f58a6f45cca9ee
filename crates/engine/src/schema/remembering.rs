//! Whether the rows of a table can be remembered by a key: whether its binlog tells every change of
//! them, and how it writes the key.

use enginesql::quoted;
use farm::container::KeyForm;

use crate::binlog::{Cell, Table, unsigned_value};
use crate::error::Error;
use crate::link::{Link, text, text_at};
use crate::requirements::binlog_filters;

const OPERATION: &str = "look at a table whose rows are to be remembered";

const ZEROFILL: &str =
    "keys with ZEROFILL have zeros in answers that are not in the binlog; leave it out";

/// How the binlog writes a table's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    /// As the server writes the names.
    pub database: String,
    pub table: String,
    /// The column's place, from 0.
    at: usize,
    /// How many columns the table has.
    columns: usize,
    /// The type, in the server's words, if it is an integer.
    integer: Option<String>,
    /// Only ASCII has the same bytes in the binlog as it has for clients.
    pub ascii: bool,
    /// Which texts mean the same key, where that is known.
    pub form: Option<KeyForm>,
}

impl KeyColumn {
    /// True when the rows of this table map are those of the table as it was looked at.
    pub fn fits(&self, table: &Table) -> bool {
        let column = table.columns.get(self.at);
        table.columns.len() == self.columns
            && column.is_some_and(|column| match self.integer {
                Some(_) => column.is_integer(),
                None => column.is_text(),
            })
    }

    /// The key of a row, as clients write it; `None` where the row does not tell it.
    pub fn of(&self, image: &[Option<Cell<'_>>]) -> Option<Vec<u8>> {
        match (image.get(self.at)?.as_ref()?, &self.integer) {
            (Cell::Integer(value), Some(kind)) if kind.contains("unsigned") => {
                Some(unsigned_value(kind, *value).to_string().into_bytes())
            }
            (Cell::Integer(value), Some(_)) => Some(value.to_string().into_bytes()),
            (Cell::Bytes(bytes), None) => Some(bytes.to_vec()),
            // No client asks for the row without a key.
            (Cell::Null, _) => Some(Vec::new()),
            _ => None,
        }
    }
}

/// Looks at a table; the inner error says why its rows cannot be remembered.
pub async fn key_column(
    link: &mut Link,
    database: &str,
    table: &str,
    key: &str,
    timeout_ms: u64,
) -> Result<Result<KeyColumn, String>, Error> {
    if let Some(why) = server_hides(link, timeout_ms).await? {
        return Ok(Err(why));
    }
    let of_table = format!(
        "TABLE_SCHEMA={} AND TABLE_NAME={}",
        quoted(database),
        quoted(table)
    );
    let names = match names(link, database, table, &of_table, timeout_ms).await? {
        Ok(names) => names,
        Err(why) => return Ok(Err(why)),
    };
    if is_changed_by_others(link, database, table, timeout_ms).await? {
        return Ok(Err(format!(
            "a foreign key of {database}.{table} changes its rows (CASCADE, SET NULL), which no binlog \
             tells"
        )));
    }
    let sql = format!(
        "SELECT COLUMN_NAME AS name, COLUMN_TYPE AS type, DATA_TYPE AS kind, \
         CHARACTER_SET_NAME AS charset, COLLATION_NAME AS collation, EXTRA AS extra FROM information_schema.COLUMNS \
         WHERE {of_table} ORDER BY ORDINAL_POSITION"
    );
    let rows = link.rows(OPERATION, &sql, timeout_ms).await?;
    let name = |row| text(row, "name").unwrap_or_default();
    let Some(at) = rows
        .iter()
        .position(|row| name(row).eq_ignore_ascii_case(key))
    else {
        return Ok(Err(format!("{database}.{table} has no column {key}")));
    };
    let cell = |name| {
        text(&rows[at], name)
            .unwrap_or_default()
            .to_ascii_lowercase()
    };
    let (integer, ascii) = match writing(&cell("kind"), &cell("charset")) {
        _ if cell("type").contains("zerofill") => return Ok(Err(ZEROFILL.to_owned())),
        Ok(written) => written,
        Err(why) => return Ok(Err(why)),
    };
    let by_bytes = cell("kind") == "varbinary" || cell("collation").ends_with("_bin");
    let form = match (integer, by_bytes) {
        (true, _) => Some(KeyForm::Integer),
        (false, true) => Some(KeyForm::Bytes),
        (false, false) => is_unique(link, &of_table, key, timeout_ms)
            .await?
            .then_some(KeyForm::Collated),
    };
    let (database, table) = names;
    Ok(Ok(KeyColumn {
        database,
        table,
        at,
        columns: rows.len(),
        integer: integer.then(|| cell("type")),
        ascii,
        form,
    }))
}

/// No two rows have the same key.
async fn is_unique(
    link: &mut Link,
    of_table: &str,
    key: &str,
    timeout_ms: u64,
) -> Result<bool, Error> {
    let sql = format!(
        "SELECT COUNT(*) FROM (SELECT INDEX_NAME FROM information_schema.STATISTICS WHERE {of_table} \
         AND NON_UNIQUE=0 GROUP BY INDEX_NAME HAVING COUNT(*)=1 AND MAX(COLUMN_NAME)={}) AS alone",
        quoted(key)
    );
    let count = link.cell(OPERATION, &sql, timeout_ms).await?;
    Ok(count.is_some_and(|count| count != "0"))
}

/// The names of the table as its server writes them, if its rows can be remembered.
async fn names(
    link: &mut Link,
    database: &str,
    table: &str,
    of_table: &str,
    timeout_ms: u64,
) -> Result<Result<(String, String), String>, Error> {
    let sql = format!(
        "SELECT TABLE_SCHEMA AS db, TABLE_NAME AS name, TABLE_TYPE AS type, ENGINE AS engine \
         FROM information_schema.TABLES WHERE {of_table}"
    );
    let rows = link.rows(OPERATION, &sql, timeout_ms).await?;
    let Some(found) = rows.first() else {
        return Ok(Err(format!("there is no table {database}.{table}")));
    };
    let cell = |name| text(found, name).unwrap_or_default();
    if cell("type") != "BASE TABLE" || !cell("engine").eq_ignore_ascii_case("InnoDB") {
        return Ok(Err(format!("{database}.{table} is no table of InnoDB")));
    }
    Ok(Ok((cell("db"), cell("name"))))
}

/// A foreign key of the table changes its rows when rows of another table change.
async fn is_changed_by_others(
    link: &mut Link,
    database: &str,
    table: &str,
    timeout_ms: u64,
) -> Result<bool, Error> {
    let sql = format!(
        "SELECT COUNT(*) FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE \
         CONSTRAINT_SCHEMA={} AND TABLE_NAME={} AND (UPDATE_RULE NOT IN ('RESTRICT','NO ACTION') \
         OR DELETE_RULE NOT IN ('RESTRICT','NO ACTION'))",
        quoted(database),
        quoted(table)
    );
    let rows = link.rows(OPERATION, &sql, timeout_ms).await?;
    let count = rows.first().and_then(|row| text_at(row, 0));
    Ok(count.as_deref() != Some("0"))
}

/// Whether keys of this type are integers, and whether only ASCII is alike.
fn writing(kind: &str, charset: &str) -> Result<(bool, bool), String> {
    match (kind, charset) {
        ("tinyint" | "smallint" | "mediumint" | "int" | "bigint", _) => Ok((true, false)),
        ("varbinary", _) => Ok((false, false)),
        ("char" | "varchar", "utf8mb4" | "utf8mb3" | "utf8" | "ascii") => Ok((false, false)),
        (
            "char" | "varchar",
            "latin1" | "latin2" | "latin5" | "latin7" | "cp1250" | "cp1251" | "koi8r",
        ) => Ok((false, true)),
        _ => Err(format!(
            "keys of type {kind} {charset} may be written in other bytes in the binlog; use an integer, \
             VARBINARY, or CHAR or VARCHAR of utf8mb4"
        )),
    }
}

/// Why the server's binlog may not tell every change.
async fn server_hides(link: &mut Link, timeout_ms: u64) -> Result<Option<String>, Error> {
    let sql = "SELECT CONCAT(@@global.binlog_format, ' ', @@global.binlog_row_image)";
    let said = link.cell(OPERATION, sql, timeout_ms).await?;
    if said.as_deref() != Some("ROW FULL") {
        return Ok(Some(
            "its binlog does not tell whole rows; set binlog_format=ROW and binlog_row_image=FULL"
                .to_owned(),
        ));
    }
    let filtered = binlog_filters(link, OPERATION, timeout_ms).await?;
    let filtered = filtered.iter().any(|list| !list.is_empty());
    Ok(filtered
        .then(|| "its binlog leaves out databases (binlog_do_db, binlog_ignore_db)".to_owned()))
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    fn key(integer: Option<&str>) -> KeyColumn {
        KeyColumn {
            database: "d".to_owned(),
            table: "t".to_owned(),
            at: 1,
            columns: 2,
            integer: integer.map(str::to_owned),
            ascii: false,
            form: None,
        }
    }

    #[test]
    fn keys_are_written_as_clients_write_them() {
        let image = |cell| [Some(Cell::Null), Some(cell)];
        let unsigned = key(Some("int(10) unsigned"));
        assert_eq!(
            unsigned.of(&image(Cell::Integer(-1))),
            Some(b"4294967295".to_vec())
        );
        assert_eq!(
            key(Some("int")).of(&image(Cell::Integer(-1))),
            Some(b"-1".to_vec())
        );
        let text = Cell::Bytes(Cow::Borrowed(b"ab"));
        assert_eq!(key(None).of(&image(text)), Some(b"ab".to_vec()));
        assert_eq!(key(None).of(&[Some(Cell::Null), None]), None);
        assert_eq!(writing("varchar", "latin1"), Ok((false, true)));
        assert!(writing("binary", "").is_err() && writing("varchar", "utf16").is_err());
    }
}
