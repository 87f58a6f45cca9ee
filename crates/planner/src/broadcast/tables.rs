//! The tables of a statement as they would be sent: what their rows are fetched with, and what takes them up.

use std::sync::Arc;

use farm::sharding::{Column, Placed, TableSchema};
use sqltext::Piece;

use crate::answer::{Asked, Fragment, Part};
use crate::columns;
use crate::gather::reduce::{self, Side};
use crate::gather::references::Reference;
use crate::gather::same::same;
use crate::gather::{Met, Words, fetch, names};
use crate::parse::Traits;

/// Stands in the names of tables that are sent, between those of the session and the number.
const SENT: &str = "b";

/// A text column is expected to have so many bytes in a row, at most.
const TEXT_BYTES: usize = 24;

/// The same of columns without a bound.
const LONG_BYTES: usize = 256;

/// A table whose rows are fetched once, however often the statement names it.
pub(super) struct Table {
    /// Where the statement names it.
    pub references: Vec<usize>,
    /// What the statement calls it first.
    pub called: String,
    /// Conditions that all its rows meet, as bytes of the text.
    pub met: Vec<(usize, usize)>,
    pub fragment: Fragment,
    pub part: Part,
    /// Its name on the groups, and its columns there.
    pub name: String,
    pub schema: Arc<TableSchema>,
    /// Bytes that a row is expected to have.
    pub row_bytes: u64,
    pub place: Place,
}

/// Where its rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// On the groups of this map, each a part.
    Parted(u32),
    /// On the groups of this map, all of them.
    Everywhere(u32),
    /// On one group.
    OneGroup,
}

/// What a reading of the statement has found: its tables, what reduces what, and conditions that all rows of a table
/// meet.
type Found<'f> = (
    &'f [Reference],
    &'f [(Side, Side)],
    &'f [((usize, usize), usize)],
);

/// One for each fragment of the gather, in its order.
///
/// # Errors
/// A table's columns or groups are not known.
pub(super) fn tables(
    text: &str,
    all: &[Piece],
    asked: &Asked<'_>,
    traits: &Traits,
    (found, reductions, met): Found<'_>,
) -> Result<Vec<Table>, String> {
    let by = reduce::reduce(found, reductions, asked);
    let same = same(found, &by, asked);
    let scratch = format!("{}{SENT}", asked.scratch);
    let named_so = Asked {
        scratch: &scratch,
        ..*asked
    };
    let mut tables = Vec::new();
    for (at, reference) in found.iter().enumerate().filter(|(at, _)| same[*at] == *at) {
        let is_own = |reference: usize| same[reference] == at;
        let references: Vec<usize> = (0..found.len()).filter(|it| is_own(*it)).collect();
        let met = met.iter().filter(|(_, of)| is_own(*of));
        let met: Vec<(usize, usize)> = met.map(|(span, _)| *span).collect();
        let words = Words {
            names: names(text, all, &Met::of(&met), asked),
            all_columns: traits.all_columns,
            joined: traits,
            groups: all.iter().any(|it| it.is(text.as_bytes(), "GROUP")),
            kept: false,
        };
        let fetched = fetch::fetched(&named_so, reference, &words, at);
        let (mut fragment, part, reduced) =
            fetched.map_err(|_| format!("what {} is like is not known", reference.called()))?;
        let there: Vec<String> = by[at].iter().filter_map(|it| it.there.clone()).collect();
        fragment.text = reduced.text(&fragment.text, &there);
        let columns = fetch::chosen(asked, reference, &words)
            .map_err(|_| format!("the columns of {} are not known", reference.called()))?;
        let bytes: usize = columns.iter().map(bytes).sum();
        tables.push(Table {
            called: reference.called().to_owned(),
            references,
            met,
            fragment,
            part,
            name: format!("{scratch}{at}"),
            schema: Arc::new(TableSchema {
                columns,
                ..TableSchema::default()
            }),
            row_bytes: bytes as u64,
            place: place(asked, reference),
        });
    }
    Ok(tables)
}

fn place(asked: &Asked<'_>, reference: &Reference) -> Place {
    match asked.sharding.placed(&reference.database, &reference.table) {
        Placed::Sharded(table) => Place::Parted(table.map),
        Placed::Global(map) => Place::Everywhere(map),
        Placed::Group(_) | Placed::Home => Place::OneGroup,
    }
}

/// The bytes that a value of a column is expected to have, with its length in front.
fn bytes(column: &Column) -> usize {
    let own = match &*column.data_type {
        "tinyint" | "year" | "bit" => 3,
        "smallint" | "mediumint" => 5,
        "int" | "integer" => 7,
        "bigint" | "decimal" | "numeric" | "date" | "time" => 10,
        "double" | "real" | "float" | "datetime" | "timestamp" => 16,
        "enum" => 8,
        "char" | "varchar" | "binary" | "varbinary" => {
            columns::length(column).map_or(TEXT_BYTES, |it| it.min(TEXT_BYTES))
        }
        _ => LONG_BYTES,
    };
    own + 1
}
