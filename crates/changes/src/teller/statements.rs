//! Statements of a binlog as lines: definitions, and changes whose rows are not told.

use crate::event::{Block, Statement, defines};
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
