//! The answer to a question of Heddle's own as a table, for questions with many rows.

use mysql_wire::Malformed;
use mysql_wire::command::Command;
use mysql_wire::result::TextRow;
use mysql_wire::status::Status;

use crate::connection::{Connection, ConnectionError};
use crate::pool::lease::Lease;
use crate::state::residue::{ResultSet, results};

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
        self::table(&packets)
    }
}

impl Lease {
    /// The rows of a query outside transactions, for which the connection was taken; it goes back.
    pub async fn ask(self, query: &[u8]) -> Result<Table, ConnectionError> {
        let tables = self.ask_each(&[query]).await?;
        Ok(tables.into_iter().next().unwrap_or_default())
    }

    /// The same of several queries, which are sent in one write: a table for each.
    ///
    /// # Errors
    /// The server refuses one of them, or the connection breaks.
    pub async fn ask_each(mut self, queries: &[&[u8]]) -> Result<Vec<Table>, ConnectionError> {
        let mut packets = Vec::new();
        let connection = self.connection_mut();
        connection.owner.statement = 0;
        let commands = queries.iter().map(|query| (Command::Query, *query));
        let commands: Vec<(Command, &[u8])> = commands.collect();
        let outcome = connection.run_rows(&commands, &mut packets).await?;
        // Where the session's autocommit is off, the question has begun a transaction.
        let status = outcome.status.unwrap_or(Status::AUTOCOMMIT);
        if status.contains(Status::IN_TRANS) || !status.contains(Status::AUTOCOMMIT) {
            connection.run(&[(Command::Query, b"COMMIT")]).await?;
        }
        self.release();
        results(&packets).iter().map(table_of).collect()
    }
}

fn table(packets: &[u8]) -> Result<Table, ConnectionError> {
    let first = results(packets).into_iter().next();
    first.map_or_else(|| Ok(Table::default()), |result| table_of(&result))
}

fn table_of(result: &ResultSet<'_>) -> Result<Table, ConnectionError> {
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
