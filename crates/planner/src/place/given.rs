//! The columns that an INSERT gives values to.

use farm::sharding::TableSchema;
use sqltext::{Insert, Mode, Source, Span, ticked};

use super::insert::At;

/// The names of the columns that each row has, in order; `None` when they are not known.
pub(super) fn columns(
    text: &[u8],
    insert: &Insert,
    mode: &Mode,
    schema: Option<&TableSchema>,
) -> Option<Vec<String>> {
    let name =
        |span: &Span| String::from_utf8_lossy(&sqltext::unquote(span.of(text), mode)).into_owned();
    match (&insert.columns, &insert.source) {
        (_, Source::Set(set)) => Some(set.iter().map(|(column, _)| name(column)).collect()),
        (Some(columns), _) if !columns.is_empty() => Some(columns.iter().map(name).collect()),
        // `()` and VALUES () name none.
        (Some(_), _) if is_empty(insert) => Some(Vec::new()),
        _ if is_empty(insert) => Some(Vec::new()),
        _ => {
            let shown = schema?.columns.iter().filter(|column| !column.invisible);
            Some(shown.map(|column| column.name.to_string()).collect())
        }
    }
}

/// The columns that its values are of, in quotes, where an INSERT names none.
pub(super) fn unnamed(insert: &Insert, names: Option<&[String]>) -> Vec<String> {
    match &insert.columns {
        Some(columns) if !columns.is_empty() => Vec::new(),
        _ => names
            .iter()
            .copied()
            .flatten()
            .map(|name| ticked(name))
            .collect(),
    }
}

/// Where a row has the value of a column of these.
pub(super) fn place_of(names: &[String], column: &str) -> Option<At> {
    let place = names
        .iter()
        .position(|name| name.eq_ignore_ascii_case(column));
    Some(match place {
        Some(place) => At::Place(u32::try_from(place).ok()?),
        None => At::Absent,
    })
}

fn is_empty(insert: &Insert) -> bool {
    matches!(&insert.source, Source::Rows { values, .. } if values.is_empty())
}
