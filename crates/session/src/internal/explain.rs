//! What the farm would do for a read, told and not done.
//!
//! A text that does not surely read is refused before any server is asked: EXPLAIN of another statement may do a part
//! of it. A statement of several groups is explained by Heddle itself, as to every client.

use execute::client::heard::Heard;
use execute::client::sink::Row;
use sqltext::{Class, Facts, ticked};

use crate::internal::Internal;

/// Why such a statement is not explained.
const NO_READ: &str = "only a statement that surely reads is explained, and nothing else";

impl Internal {
    /// The plan of a text in this database, a line for each row of the answer.
    ///
    /// # Errors
    /// It is no read, or could not be explained; for people.
    pub async fn explain(&mut self, database: &[u8], text: &str) -> Result<Vec<String>, String> {
        if !database.is_empty() {
            let database = ticked(&String::from_utf8_lossy(database));
            self.told(&format!("USE {database}")).await?;
        }
        let session = &self.session;
        let shape = session.core.shape(text.as_bytes(), &session.variables.mode);
        let several = Facts::MULTIPLE | Facts::COMPOUND;
        if shape.class != Class::Read || shape.writes || shape.facts.intersects(several) {
            return Err(NO_READ.to_owned());
        }
        match self.told(&format!("EXPLAIN {text}")).await? {
            Heard::Rows(sheet) => Ok(lines(&sheet.names, &sheet.rows)),
            _ => Err("the server answered EXPLAIN without rows".to_owned()),
        }
    }

    async fn told(&mut self, text: &str) -> Result<Heard, String> {
        match self.ask(text.as_bytes()).await {
            Ok(Heard::Refused(refusal)) => {
                let message = String::from_utf8_lossy(&refusal.message);
                Err(format!("error {}: {message}", refusal.number))
            }
            Ok(heard) => Ok(heard),
            Err(lost) => Err(lost.0),
        }
    }
}

/// A tree as it is; a table's row as names with values.
fn lines(names: &[String], rows: &[Row]) -> Vec<String> {
    let line = |row: &Row| {
        let cells = names.iter().zip(row).filter_map(|(name, cell)| {
            let cell = String::from_utf8_lossy(cell.as_deref()?);
            Some(match names.len() {
                1 => cell.into_owned(),
                _ => format!("{name}={cell}"),
            })
        });
        cells.collect::<Vec<_>>().join(", ")
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_lines() {
        let cell = |text: &str| Some(text.as_bytes().to_vec());
        let names = ["id", "table", "key"].map(str::to_owned);
        let table = [vec![cell("1"), cell("t"), None]];
        assert_eq!(lines(&names, &table), ["id=1, table=t"]);
        let tree = [vec![cell("a")], vec![cell("  b")]];
        assert_eq!(lines(&["EXPLAIN".to_owned()], &tree), ["a", "  b"]);
    }
}
