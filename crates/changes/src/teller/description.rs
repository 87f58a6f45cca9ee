//! What tables are made of, in front of their rows.

use std::borrow::Cow;
use std::sync::Arc;

use crate::json;
use crate::replication::Filter;
use crate::rows::{Change, Image};
use crate::table::Table;

use super::{Teller, Told, of_table};

impl<F: Filter> Teller<F> {
    /// Tells columns that the log does not name by their places, `@1` and so on, in place of an error.
    pub fn number_columns(&mut self) {
        self.numbers_columns = true;
    }

    /// Tells the definition of a table, unless it was told and is still the same.
    pub(super) fn describe(&mut self, table: &Arc<Table>, index: u32, out: &mut Vec<Told>) {
        if let Some(description) = self.new_description(table) {
            let mut line = self.head("columns", &self.current);
            line.push_str(&description);
            out.push(Told {
                line,
                index: Some(index),
            });
        }
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

    /// The line that describes a table; `None` when the consumer has it already.
    pub(super) fn new_description(&mut self, table: &Arc<Table>) -> Option<String> {
        let name = (table.database.clone(), table.name.clone());
        let known = self.described.get(&name);
        if known.is_some_and(|(known, _)| Arc::ptr_eq(known, table) || known == table) {
            return None;
        }
        let text = description(table, &self.wanted);
        let before = self
            .described
            .insert(name, (Arc::clone(table), text.clone()));
        // A table map and the catalogue say the same in two ways.
        before
            .is_none_or(|(_, before)| before != text)
            .then_some(text)
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
