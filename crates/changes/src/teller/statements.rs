//! Statements of a binlog as lines: definitions, and changes whose rows are not told.

use crate::event::{Block, Statement};
use crate::json;
use crate::own::is_hidden;
use crate::replication::Filter;

use super::{Teller, Told};

impl<F: Filter> Teller<F> {
    pub(super) fn statement(&mut self, statement: &Statement, out: &mut Vec<Told>) {
        let before = self.current.so_far.index;
        self.current.so_far.index += 1;
        let is_definition = defines(&statement.text);
        let sql = statement.context.words(&statement.text);
        let (changes, tables) = match is_definition {
            true => self.note_definition(&statement.database, &sql),
            false => Default::default(),
        };
        let is_hidden = self.is_hidden || is_hidden(statement);
        if self.current.so_far.index <= self.current.skip || is_hidden {
            return;
        }
        self.ensure_begun(before, out);
        let event = if is_definition { "ddl" } else { "statement" };
        let mut line = self.head(event, &self.current);
        line.push_str(",\"database\":");
        json::text(&statement.database, &mut line);
        line.push_str(",\"sql\":");
        json::text(&sql, &mut line);
        json::context(statement, &mut line);
        line.push_str(&tables);
        if is_definition {
            let of = (&*statement.database, &*sql);
            line.push_str(&self.record_definition(of, &changes, None));
        }
        out.push(Told {
            line,
            index: Some(self.current.so_far.index),
        });
    }

    /// A piece of the file of a LOAD DATA that comes.
    pub(super) fn block(&mut self, block: &Block, out: &mut Vec<Told>) {
        let before = self.current.so_far.index;
        self.current.so_far.index += 1;
        if self.current.so_far.index <= self.current.skip || self.is_hidden {
            return;
        }
        self.ensure_begun(before, out);
        let mut line = self.head("block", &self.current);
        json::block(block, &mut line);
        out.push(Told {
            line,
            index: Some(self.current.so_far.index),
        });
    }
}

/// Words with which statements begin that change rows; every other statement in a binlog defines something.
/// A SELECT is there for a function that it calls.
const CHANGING: [&str; 9] = [
    "insert", "update", "delete", "replace", "load", "call", "select", "with", "do",
];

/// True for a statement in a binlog that is DDL, or changes accounts.
pub fn defines(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text).to_lowercase();
    let mut rest = text.trim_start();
    // Not a comment that is part of the statement.
    while rest.starts_with("/*") && !rest.starts_with("/*!") && !rest.starts_with("/*m!") {
        rest = rest
            .split_once("*/")
            .map_or("", |(_, rest)| rest.trim_start());
    }
    let word = rest.split(|c: char| !c.is_ascii_alphabetic()).next();
    !CHANGING.contains(&word.unwrap_or_default())
}
