//! What is said beside the transactions: what the log says of itself, and that it does not name columns.

use changes::{Note, Rows};
use serde_json::json;

use super::Printer;
use crate::printing::complain;

/// What is said once of a log without names.
const NUMBERED: &str = "the binlog does not name columns (binlog_row_metadata is not FULL): they are called by their \
                        places, @1, @2 and so on";

impl Printer<'_> {
    /// Tells what the log says of itself.
    pub(super) fn notes(&mut self, notes: Vec<Note>) -> Result<(), String> {
        let line = |note: Note| match self.as_sql {
            true => comment(note),
            false => event(note),
        };
        let lines = notes.into_iter().map(|it| line(it).into_bytes()).collect();
        self.write(lines)
    }

    /// Says that columns have no names, when the first rows of such a table come that are wanted.
    pub(super) fn say_numbered(&mut self, rows: &Rows, lines: &mut Vec<Vec<u8>>) {
        let table = &rows.table;
        let is_wanted = self.wanted.has(&table.database, &table.name);
        if self.is_numbered || !is_wanted || table.is_named() {
            return;
        }
        self.is_numbered = true;
        complain(NUMBERED);
        if self.as_sql {
            lines.push(format!("-- {NUMBERED}; no server runs such a statement").into_bytes());
        }
    }
}

fn comment(note: Note) -> String {
    match note {
        Note::Rotate(file) => format!("-- goes on in {file}"),
        Note::Stop => "-- the server stopped".to_owned(),
        Note::Before(gtids) => {
            let gtids = gtids.unwrap_or_else(|| "in a form that is not read here".to_owned());
            format!("-- transactions of earlier files: {gtids}")
        }
    }
}

fn event(note: Note) -> String {
    match note {
        Note::Rotate(file) => json!({ "event": "rotate", "file": file }),
        Note::Stop => json!({ "event": "stop" }),
        Note::Before(gtids) => json!({ "event": "before", "gtids": gtids }),
    }
    .to_string()
}
