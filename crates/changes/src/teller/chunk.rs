//! Rows that a snapshot read, as lines: a transaction of its own, whose rows have the kind `read`.

use std::sync::Arc;

use crate::json;
use crate::replication::Filter;
use crate::rows::{Change, Image};
use crate::table::Table;

use super::{Teller, named, of_table, shown};

/// Rows of one table that were read together.
#[derive(Clone, Debug)]
pub struct Rows {
    pub table: Arc<Table>,
    pub rows: Vec<Image<'static>>,
}

impl<F: Filter> Teller<F> {
    /// How a table is made, in front of everything that is told of it.
    pub fn made(&mut self, database: &str, table: &str, sql: &str, time_s: u32) -> String {
        let mut line = self.head_of_reading("table", time_s);
        named(database, table, &mut line);
        line.push_str(",\"sql\":");
        json::text(sql, &mut line);
        let (changes, _) = self.note_definition(database, sql);
        line + &self.record_definition((database, sql), &changes, Some(time_s))
    }

    /// The lines of the rows, without those whose keys `is_stale` names; the last one ends the transaction.
    ///
    /// # Errors
    /// A row cannot be told in the form that is wanted; the text says why.
    pub fn read(
        &mut self,
        read: &Rows,
        time_s: u32,
        is_stale: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>, String> {
        let mut lines = vec![self.head_of_reading("begin", time_s)];
        let is_own = self.debezium().is_none();
        let (description, schema) = self.new_description(&read.table);
        if let Some(description) = description.filter(|_| is_own) {
            let mut line = self.head_of_reading("columns", time_s);
            line.push_str(&description);
            lines.push(line);
        }
        let mut told = 0_u64;
        for row in &read.rows {
            let key = json::key_of(row, &read.table);
            let is_meant = self.wanted.has_read(&read.table, row)?;
            if !is_meant || key.as_deref().is_some_and(&is_stale) {
                continue;
            }
            told += 1;
            let mut line = self.head_of_reading("row", time_s);
            of_table(&read.table, &mut line);
            if !is_own {
                let change = Change {
                    before: None,
                    after: Some(row.clone()),
                };
                line.push_str(&self.record_read(&read.table, &change, time_s)?);
                lines.push(line);
                continue;
            }
            line.push_str(&schema);
            line.push_str(",\"kind\":\"read\",\"key\":");
            line.push_str(key.as_deref().unwrap_or("null"));
            line.push_str(",\"before\":null,\"after\":");
            json::image(
                &shown(&self.wanted, row, &read.table),
                &read.table,
                &mut line,
            );
            lines.push(line);
        }
        let mut line = self.head_of_reading("commit", time_s);
        line.push_str(&format!(",\"rows\":{told}"));
        lines.push(line);
        Ok(lines)
    }

    /// Everything has been read.
    pub fn read_all(&self, time_s: u32) -> String {
        self.head_of_reading("snapshot", time_s)
    }

    fn head_of_reading(&self, event: &str, time_s: u32) -> String {
        let mut line = format!("\"event\":\"{event}\",\"group\":");
        json::text(&self.group, &mut line);
        line.push_str(&format!(",\"snapshot\":true,\"time\":{time_s}"));
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Definition, cell};
    use crate::teller::Wanted;

    #[test]
    fn rows_that_were_read_are_a_transaction() {
        let definition = |name: &str, data_type: &str| Definition {
            name: name.to_owned(),
            data_type: data_type.to_owned(),
            collation: Some(45),
            ..Definition::default()
        };
        let columns = [definition("a", "int"), definition("b", "varchar")];
        let columns = columns.map(|it| it.column().expect("known")).to_vec();
        let row = |a: &str, b: &str| -> Image<'static> {
            let values = [a, b].map(|it| Some(it.as_bytes().to_vec()));
            let cells = values.into_iter().zip(&columns);
            cells
                .map(|(value, column)| Some(cell(value, column).expect("a value")))
                .collect()
        };
        let rows = vec![row("1", "x"), row("2", "y")];
        let table = Table {
            database: "d".to_owned(),
            name: "t".to_owned(),
            columns: columns.clone(),
            key: vec![0],
        };
        let read = Rows {
            table: Arc::new(table),
            rows,
        };
        let mut teller = Teller::new("g", Wanted::default());
        let lines = teller.read(&read, 9, |key| key == r#"{"a":1}"#);
        let lines = lines.expect("it can be told");
        const HEAD: &str = r#""group":"g","snapshot":true,"time":9"#;
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[0], format!(r#""event":"begin",{HEAD}"#));
        assert!(lines[1].starts_with(r#""event":"columns""#), "{}", lines[1]);
        let (_, schema) = lines[1].split_once("],").expect("behind the columns");
        let row = format!(
            r#""event":"row",{HEAD},"database":"d","table":"t",{schema},"kind":"read","key":{{"a":2}},"before":null,"after":{{"a":2,"b":"y"}}"#
        );
        assert_eq!(lines[2], row);
        assert_eq!(lines[3], format!(r#""event":"commit",{HEAD},"rows":1"#));
        let again = teller.read(&read, 9, |_| true).expect("it can be told");
        assert_eq!(again.len(), 2, "the columns were told");
    }
}
