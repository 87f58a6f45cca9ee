//! What tables are made of, in front of their rows, and the circumstances of a transaction at its ends.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

use crate::json;
use crate::replication::Filter;
use crate::rows::{Change, Image};
use crate::table::Table;

use super::{Current, Teller, Told, Wanted, of_table};

/// How a table was described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Described {
    text: String,
    /// The version of its definition, as a member of a line.
    schema: String,
}

impl Described {
    fn of(table: &Table, wanted: &impl Filter) -> Described {
        // A version is of the whole definition, whatever is wanted of it.
        let whole = description(table, &Wanted::default());
        let schema = format!(",\"schema\":\"{:016x}\"", version(&whole));
        let text = description(table, wanted) + &schema;
        Described { text, schema }
    }
}

/// FNV-1a: the same in every router, and over restarts.
fn version(text: &str) -> u64 {
    const BASIS: u64 = 0xCBF2_9CE4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01B3;
    text.bytes().fold(BASIS, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    })
}

impl<F: Filter> Teller<F> {
    /// Tells columns that the log does not name by their places, `@1` and so on, in place of an error.
    pub fn number_columns(&mut self) {
        self.numbers_columns = true;
    }

    /// Tells the definition of a table, unless it was told and is still the same. Gives its version as a member of a line.
    pub(super) fn describe(
        &mut self,
        table: &Arc<Table>,
        index: u32,
        out: &mut Vec<Told>,
    ) -> String {
        let (new, schema) = self.new_description(table);
        if let Some(description) = new {
            let mut line = self.head("columns", &self.current);
            line.push_str(&description);
            out.push(Told {
                line,
                index: Some(index),
            });
        }
        schema
    }

    /// Warns in front of the first row that the log does not have whole, and names the setting.
    pub(super) fn warn(
        &mut self,
        table: &Table,
        change: &Change<'_>,
        index: u32,
        out: &mut Vec<Told>,
    ) {
        if self.has_warned || !change.is_partial() {
            return;
        }
        self.has_warned = true;
        let mut line = self.head("warning", &self.current);
        of_table(table, &mut line);
        line.push_str(
            ",\"warning\":\"the servers log only some columns of rows; set binlog_row_image=FULL on every \
             server of the group\"",
        );
        out.push(Told {
            line,
            index: Some(index),
        });
    }

    /// The line that describes a table, and its version; no line when the consumer has it already.
    pub(super) fn new_description(&mut self, table: &Arc<Table>) -> (Option<String>, String) {
        let name = (table.database.clone(), table.name.clone());
        if let Some((known, described)) = self.described.get(&name)
            && (Arc::ptr_eq(known, table) || known == table)
        {
            return (None, described.schema.clone());
        }
        let described = Described::of(table, &self.wanted);
        if self.debezium().is_none() {
            self.defined.learn(table);
        }
        let now = (Arc::clone(table), described.clone());
        let before = self.described.insert(name, now);
        // A table map and the catalogue say the same in two ways.
        let is_new = before.is_none_or(|(_, before)| before != described);
        (is_new.then_some(described.text), described.schema)
    }

    /// Appends what the log says of how a transaction came, and when it is told.
    pub(super) fn circumstances(&self, of: &Current, line: &mut String) {
        if self.debezium().is_some() {
            return;
        }
        // Writing to a String never fails.
        if let Some(us) = of.logged.committed_us {
            let _ = write!(line, ",\"committed_us\":{us}");
        }
        if let Some(connection) = of.logged.connection {
            let _ = write!(line, ",\"connection\":{connection}");
        }
        if self.now_ms > 0 {
            let _ = write!(line, ",\"told_ms\":{}", self.now_ms);
        }
    }
}

/// The image without what is not told.
pub(super) fn shown<'a, 'b>(
    filter: &impl Filter,
    image: &'a Image<'b>,
    table: &Table,
) -> Cow<'a, Image<'b>> {
    if filter.shows_all() {
        return Cow::Borrowed(image);
    }
    let cells = image.iter().zip(&table.columns);
    let cells = cells.map(|(cell, column)| cell.clone().filter(|_| filter.shows(column)));
    Cow::Owned(cells.collect())
}

/// What a table's columns are.
fn description(table: &Table, wanted: &impl Filter) -> String {
    let mut line = String::new();
    of_table(table, &mut line);
    line.push_str(",\"columns\":[");
    let columns = table.columns.iter().enumerate();
    let told = columns.filter(|(at, column)| wanted.shows(column) || table.key.contains(at));
    for (count, (at, column)) in told.enumerate() {
        line.push_str(if count > 0 {
            ",{\"name\":"
        } else {
            "{\"name\":"
        });
        json::text(&json::name(column, at), &mut line);
        line.push_str(&format!(
            ",\"type\":\"{}\",\"nullable\":{}",
            column.type_name(),
            column.nullable
        ));
        if column.unsigned == Some(true) {
            line.push_str(",\"unsigned\":true");
        }
        for (name, size) in column.sizes() {
            line.push_str(&format!(",\"{name}\":{size}"));
        }
        if let Some(place) = table.key.iter().position(|&place| place == at) {
            line.push_str(&format!(",\"key\":{}", place + 1));
        }
        if let Some(charset) = column.charset() {
            line.push_str(&format!(",\"charset\":\"{}\"", charset.name()));
        }
        json::members(column, &mut line);
        line.push('}');
    }
    line.push(']');
    line
}
