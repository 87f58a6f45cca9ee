//! What is written of a batch. With Parquet each file of lines has to say what the columns of its tables are, which a
//! stream tells once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::scan::REPEATED;
use crate::message::Message;
use crate::spec::Format;

/// A table, by database and name.
type Name = (String, String);

/// The columns of tables, as lines without ids and tokens.
#[derive(Default)]
pub(super) struct Known(BTreeMap<Name, Arc<Vec<u8>>>);

/// One event's line, and what has to stand in front of it in a file that does not have it.
pub(super) struct Piece {
    line: Vec<u8>,
    table: Option<Name>,
    /// It tells the table's columns itself.
    describes: bool,
    columns: Option<Arc<Vec<u8>>>,
}

impl Piece {
    pub(super) fn bytes(&self) -> usize {
        self.line.len() + 1
    }
}

impl Known {
    /// The lines of a batch; columns that it tells are known from there on.
    pub(super) fn pieces(&mut self, batch: &[Message], format: Format) -> Vec<Piece> {
        let piece = |message: &Message| {
            let table = message.table.clone().filter(|_| format == Format::Parquet);
            let describes = message.event == "columns";
            if let Some(name) = table.clone().filter(|_| describes)
                && let Some(line) = repeated(&message.line)
            {
                self.0.insert(name, Arc::new(line));
            }
            Piece {
                line: message.line.clone(),
                columns: table.as_ref().and_then(|name| self.0.get(name).cloned()),
                table,
                describes,
            }
        };
        batch.iter().map(piece).collect()
    }
}

/// The lines as bytes; `described` are the tables whose columns the file has.
pub(super) fn text(pieces: &[Piece], described: &mut BTreeSet<Name>) -> Vec<u8> {
    let mut text = Vec::new();
    for piece in pieces {
        if let Some(name) = &piece.table
            && !described.contains(name)
            && let Some(columns) = &piece.columns
        {
            if !piece.describes {
                text.extend_from_slice(columns);
                text.push(b'\n');
            }
            described.insert(name.clone());
        }
        text.extend_from_slice(&piece.line);
        text.push(b'\n');
    }
    text
}

/// What a line says of a table's columns, without its place in the stream: the position of a file is its last event's.
fn repeated(line: &[u8]) -> Option<Vec<u8>> {
    const FROM: &[u8] = b",\"database\":";
    let at = line.windows(FROM.len()).position(|it| it == FROM)?;
    Some([REPEATED, &line[at..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_says_once_what_its_tables_are() {
        let message = |event: &str, rest: &str| Message {
            line: format!(r#"{{"id":"1","token":"x","event":"{event}","database":"d",{rest}}}"#)
                .into_bytes(),
            event: event.to_owned(),
            table: Some(("d".to_owned(), "t".to_owned())),
            ..Message::default()
        };
        let columns = message("columns", r#""table":"t","columns":[]"#);
        let row = message("row", r#""table":"t""#);
        let mut known = Known::default();
        let count = |pieces: &[Piece], described: &mut BTreeSet<Name>| {
            let text = text(pieces, described);
            text.split(|it| *it == b'\n')
                .filter(|it| !it.is_empty())
                .count()
        };
        let mut first = BTreeSet::new();
        let pieces = known.pieces(&[columns, row.clone(), row.clone()], Format::Parquet);
        assert_eq!(count(&pieces, &mut first), 3);
        let more = known.pieces(std::slice::from_ref(&row), Format::Parquet);
        assert_eq!(count(&more, &mut first), 1);
        let mut second = BTreeSet::new();
        let again = text(&more, &mut second);
        let expected = r#"{"event":"columns","database":"d","table":"t","columns":[]}"#;
        assert!(again.starts_with(expected.as_bytes()));
        let lines = known.pieces(&[row], Format::Lines);
        assert_eq!(count(&lines, &mut BTreeSet::new()), 1);
    }
}
