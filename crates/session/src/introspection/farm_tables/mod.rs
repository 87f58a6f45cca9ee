//! The tables about the farm (`heddle.servers`, …), as sessions read them.
//!
//! Job: say what of them a text names ([`named`]), and write the text that a server runs in its place, in which
//! the rows stand as constants ([`query`]). A SHOW or DESCRIBE has rows of its own ([`shown`]). Where no server is
//! left, the simplest SELECTs are answered from the rows themselves ([`alone`]).
//!
//! Invariants: what a server runs means what the client wrote, with the farm's rows of that moment. A text that
//! names no such table stays as it is.
//!
//! Must not know: who may see which rows, and where they come from. The caller hands them in.

pub(crate) mod alone;
pub(crate) mod query;
pub(crate) mod shown;

use std::sync::LazyLock;

use farm::tables::{self, DATABASE, FarmTable, TABLES};
use sqltext::{FarmSchema, FarmShow, Mode};

static NAMES: LazyLock<Vec<&str>> =
    LazyLock::new(|| TABLES.iter().map(|table| table.name).collect());

/// A row of text cells, as commands have them; NULL is `None`.
pub(crate) type Cells = Vec<Option<String>>;

/// A table with its rows.
pub(crate) type Filled = (&'static FarmTable, Vec<Cells>);

/// What a text asks of the tables about the farm.
#[derive(Debug, Default)]
pub(crate) struct Named {
    pub read: Vec<&'static FarmTable>,
    pub written: Option<&'static FarmTable>,
    pub show: Option<FarmShow>,
}

impl Named {
    /// It asks nothing.
    pub fn is_empty(&self) -> bool {
        self.read.is_empty() && self.written.is_none() && self.show.is_none()
    }
}

/// Reads a text; `database` is the session's current one.
pub(crate) fn named(text: &[u8], mode: &Mode, database: Option<&[u8]>) -> Named {
    let schema = schema(database);
    let found = sqltext::farm_tables(text, mode, &schema);
    Named {
        read: found.read.into_iter().filter_map(tables::find).collect(),
        written: found.written.and_then(tables::find),
        show: sqltext::farm_show(text, mode, &schema),
    }
}

/// The current database is that of the tables.
pub(crate) fn is_inside(database: Option<&[u8]>) -> bool {
    schema(database).is_current()
}

fn schema(database: Option<&[u8]>) -> FarmSchema<'_> {
    FarmSchema {
        schema: DATABASE,
        database,
        names: &NAMES,
    }
}

/// The text with the tables' rows in it; `None` where it names none.
pub(crate) fn with_rows(
    text: &[u8],
    mode: &Mode,
    database: Option<&[u8]>,
    rows: &[Filled],
) -> Option<Vec<u8>> {
    let query = |name: &str| {
        let filled = rows.iter().find(|(table, _)| table.name == name);
        filled.map_or_else(String::new, |(table, rows)| query::of_table(table, rows))
    };
    sqltext::with_farm_tables(text, mode, &schema(database), query)
}

/// The text for a PREPARE, which tells columns and parameters and needs no rows.
pub(crate) fn without_rows(text: &[u8], mode: &Mode, database: Option<&[u8]>) -> Option<Vec<u8>> {
    let named = named(text, mode, database);
    if let Some(show) = named.show {
        return shown::shown(&show, text, &[]).map(|it| it.query(&show, text));
    }
    let rows: Vec<Filled> = named.read.into_iter().map(|table| (table, Vec::new())).collect();
    with_rows(text, mode, database, &rows)
}

/// What information_schema has about tables, where a text asks for the farm's by the name of their database.
pub(crate) fn listed_elsewhere(
    text: &[u8],
    mode: &Mode,
    database: Option<&[u8]>,
) -> Vec<&'static str> {
    let quoted = [b"'heddle'", b"\"heddle\""];
    let asks = text.windows(8).any(|part| quoted.iter().any(|it| part.eq_ignore_ascii_case(*it)));
    match asks {
        true => sqltext::farm_tables(text, mode, &catalogue(database)).read,
        false => Vec::new(),
    }
}

/// Tables of information_schema in which the farm's tables have rows.
const CATALOGUE: [&str; 2] = ["tables", "columns"];

fn catalogue(database: Option<&[u8]>) -> FarmSchema<'_> {
    FarmSchema {
        schema: "information_schema",
        database,
        names: &CATALOGUE,
    }
}

/// The text with these queries in the place of tables of information_schema.
pub(crate) fn with_catalogue(
    text: &[u8],
    mode: &Mode,
    database: Option<&[u8]>,
    queries: &[(&str, String)],
) -> Option<Vec<u8>> {
    let query = |name: &str| {
        let found = queries.iter().find(|(table, _)| *table == name);
        found.map_or_else(String::new, |(_, query)| query.clone())
    };
    sqltext::with_farm_tables(text, mode, &catalogue(database), query)
}
