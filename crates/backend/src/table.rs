//! The answer to a question of Heddle's own as a table, for questions with many rows.

use mysql_wire::Malformed;
use mysql_wire::command::Command;
use mysql_wire::result::TextRow;

use crate::connection::{Connection, ConnectionError};
use crate::residue::results;

/// A result set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The definitions of its columns, as the server sent them.
    pub columns: Vec<Box<[u8]>>,
    /// Text rows; NULL is `None`.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
}

impl Connection {
    /// The rows of a query of Heddle's own.
    pub async fn table(&mut self, query: &[u8]) -> Result<Table, ConnectionError> {
        let mut packets = Vec::new();
        self.run_rows(&[(Command::Query, query)], &mut packets)
            .await?;
        let Some(result) = results(&packets).into_iter().next() else {
            return Ok(Table::default());
        };
        let row = |row: &&[u8]| -> Result<Vec<Option<Vec<u8>>>, Malformed> {
            let cells = TextRow::new(row).map(|cell| Ok(cell?.map(<[u8]>::to_vec)));
            cells.collect()
        };
        let rows = result.rows.iter().map(row).collect::<Result<_, _>>();
        Ok(Table {
            columns: result.columns.iter().map(|&column| column.into()).collect(),
            rows: rows.map_err(|source| ConnectionError::Protocol {
                operation: "reading a table",
                source,
            })?,
        })
    }
}
