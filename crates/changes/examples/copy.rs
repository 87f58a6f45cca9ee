//! Keeps a copy of the table d.t, but for its column p, of a binlog's file:
//! `cargo run -p changes --example copy < binlog.000001`.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{Read, Write, stdin, stdout};

use changes::Column;
use changes::apply::{Change, Transaction};
use changes::replication::{Applier, Filter, Local, LogReader, carry};
use serde_json::{Map, Value};

/// Wants d.t without p.
struct OneTable;

impl Filter for OneTable {
    fn has_table(&self, database: &str, table: &str) -> bool {
        (database, table) == ("d", "t")
    }

    fn shows(&self, column: &Column) -> bool {
        column.name.as_deref() != Some("p")
    }
}

/// The rows, by their ids.
#[derive(Default)]
pub struct Copy {
    pub rows: BTreeMap<String, Map<String, Value>>,
    /// All transactions up to here are in it.
    pub token: String,
}

impl Applier for Copy {
    type Error = String;

    async fn apply(&mut self, transaction: Transaction) -> Result<(), String> {
        for change in transaction.changes {
            let Change::Row(row) = change else { continue };
            if let Some(before) = row.before {
                self.rows.remove(&before["id"].to_string());
            }
            if let Some(after) = row.after {
                self.rows.insert(after["id"].to_string(), after);
            }
        }
        self.token = transaction.token;
        Ok(())
    }
}

/// The table as it is behind all that a binlog's file tells.
pub async fn copy(file: impl Read + Send) -> Result<Copy, Box<dyn Error>> {
    let log = LogReader::open(file)?;
    let mut copy = Copy::default();
    let carried = carry(&mut Local::new(log, "g1", OneTable), &mut copy).await;
    carried.map_err(|stopped| format!("{stopped:?}"))?;
    Ok(copy)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let copy = copy(stdin()).await?;
    serde_json::to_writer_pretty(stdout(), &copy.rows)?;
    Ok(writeln!(stdout())?)
}
