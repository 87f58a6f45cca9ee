//! Tables that get another name.

use sqltext::PieceKind;

use super::{Defines, Named, Reader, Then};

impl Reader<'_> {
    pub(super) fn rename(&self, at: usize) -> Defines {
        let mut names = Vec::new();
        let mut at = at + 1;
        while let Some((name, next)) = self.name(self.behind_if(at)) {
            names.push(name);
            if self.is(next, "to") || self.kind(next) == Some(PieceKind::Comma) {
                at = next + 1;
            } else {
                break;
            }
        }
        match names.iter().find(|name| self.is_declared(name)) {
            Some((database, table)) => Defines::Refused(renamed(database, table)),
            None => self.on(&names, Then::Nothing),
        }
    }

    /// Here an ALTER TABLE gives the table another name.
    pub(super) fn renames(&self, at: usize) -> bool {
        let part = ["column", "index", "key"];
        self.is(at, "rename") && !part.iter().any(|word| self.is(at + 1, word))
    }

    /// The name that an ALTER TABLE gives to its table.
    pub(super) fn new_name(&self, from: usize) -> Option<Named> {
        let at = (from..self.words.len()).find(|&at| self.renames(at))?;
        let word = ["to", "as"].iter().any(|word| self.is(at + 1, word));
        let sign = self.kind(at + 1) == Some(PieceKind::Operator);
        Some(self.name(at + 1 + usize::from(word || sign))?.0)
    }
}

/// Why a declared table keeps its name.
pub(super) fn renamed(database: &str, table: &str) -> String {
    format!(
        "{database}.{table} is on a shard map by its name; make a table of the new name, declare it, \
         and move the rows with INSERT INTO … SELECT"
    )
}
