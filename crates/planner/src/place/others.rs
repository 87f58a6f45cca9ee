//! Queries in statements that bring rows to a table, and whether its groups have what they read.

use sqltext::Mode;

use super::tables::Tables;
use crate::catalog::{Catalog, Kind};

pub(super) fn has_query(text: &[u8], mode: &Mode) -> bool {
    let all = sqltext::pieces(text, mode).unwrap_or_default();
    all.iter().any(|piece| piece.is(text, "SELECT"))
}

/// What brings rows to a table of this map names other tables that each of its groups does not have
/// whole. `session`: its database.
pub(crate) fn reads_others(
    text: &[u8],
    map: u32,
    tables: &Tables<'_>,
    session: &str,
    mode: &Mode,
) -> bool {
    if !has_query(text, mode) {
        return false;
    }
    // The first one is the table that gets them.
    let names = sqltext::tables(text, mode);
    let mut others = names.iter().skip(1).map(|name| {
        let database = name.database.as_deref().map(String::from_utf8_lossy);
        let database = database.as_deref().unwrap_or(session);
        tables.table(database, &String::from_utf8_lossy(&name.name))
    });
    !others.all(|kind| matches!(kind, Kind::Global { map: theirs } if map == theirs))
}
