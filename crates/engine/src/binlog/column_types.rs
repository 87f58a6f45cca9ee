//! The types of columns that a server's log does not tell.

use changes::Types;
use enginesql::quoted;

use crate::error::Error;
use crate::link::{Link, Login, text_at};

/// The types of a table's columns as the server has them now; none where it has no such table.
///
/// # Errors
/// The server cannot be asked.
pub(super) async fn column_types(
    login: &Login,
    (database, name): (&str, &str),
    timeout_ms: u64,
) -> Result<Types, Error> {
    let sql = format!(
        "SELECT COLUMN_NAME, LOWER(DATA_TYPE) FROM information_schema.COLUMNS \
         WHERE TABLE_SCHEMA={} AND TABLE_NAME={}",
        quoted(database),
        quoted(name)
    );
    let mut link = Link::open(login, timeout_ms).await?;
    let rows = link.rows("list types of columns", &sql, timeout_ms).await?;
    let pair = |row: &_| Some((text_at(row, 0)?, text_at(row, 1)?));
    Ok(rows.iter().filter_map(pair).collect())
}
