//! Writes whose answers were lost: what became of them is found out, and the client gets the true
//! answer, or the write is done again.
//!
//! The write tag of the lost connection and the GTIDs behind the last ones that it reported name the write.
//! The control plane looks for it in the log of the primary that the group has in the end. Found, it
//! has happened, and the log's row events say what its OK would have said. Not found, it never will.

pub(crate) mod recover;

use std::time::Instant;

use farm::TableRows;
use sqltext::Verb;

/// Looking into the log takes a moment on top of the wait for a primary.
const LOOK_MS: u64 = 10_000;

/// The connection that a command was lost with.
#[derive(Clone, Debug)]
pub(crate) struct LostOn {
    thread_id: u32,
    tag: String,
    after: String,
    opened: Instant,
    began_us: u64,
}

/// What was done about a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovered {
    /// The command may be tried again.
    Again,
    /// The client has been answered.
    Answered,
    /// Nothing can be done here.
    No,
}

/// What is known of a lost write.
enum Known {
    Committed(String, Option<Vec<TableRows>>),
    Lost,
    Unknown(String),
}

/// Affected rows and insert id, as the OK of the statement would have said them. `text` is in lower
/// case.
fn answer_of(verb: Verb, text: &str, rows: &[TableRows]) -> (u64, u64) {
    // Triggers touch tables that the text does not name.
    let named = |rows: &&TableRows| text.contains(&*rows.table.to_lowercase());
    let own: Vec<&TableRows> = match rows {
        [one] => vec![one],
        rows if rows.iter().any(|one| named(&one)) => rows.iter().filter(named).collect(),
        rows => rows.iter().take(1).collect(),
    };
    let sum = |of: fn(&TableRows) -> u64| own.iter().map(|one| of(one)).sum::<u64>();
    let (inserted, updated) = (sum(|one| one.inserted), sum(|one| one.updated));
    let deleted = sum(|one| one.deleted);
    let inserts = matches!(verb, Verb::Insert | Verb::Replace);
    let affected = match verb {
        Verb::Insert | Verb::Replace => inserted + 2 * updated + deleted,
        Verb::Update => updated.max(inserted.min(deleted)),
        _ => deleted,
    };
    let id = own.iter().find_map(|one| one.insert_id);
    (affected, id.filter(|_| inserts).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(table: &str, inserted: u64, updated: u64, deleted: u64) -> TableRows {
        TableRows {
            database: "d".to_owned(),
            table: table.to_owned(),
            inserted,
            updated,
            deleted,
            insert_id: Some(7),
        }
    }

    #[test]
    fn answers_are_what_the_ok_would_have_said() {
        let one = |verb, counts: (u64, u64, u64)| {
            let rows = [rows("t", counts.0, counts.1, counts.2)];
            answer_of(verb, "… t …", &rows)
        };
        assert_eq!(one(Verb::Insert, (3, 0, 0)), (3, 7));
        assert_eq!(one(Verb::Insert, (1, 1, 0)), (3, 7), "one was a duplicate");
        assert_eq!(one(Verb::Replace, (1, 0, 1)), (2, 7));
        assert_eq!(one(Verb::Update, (0, 5, 0)), (5, 0));
        assert_eq!(one(Verb::Delete, (0, 0, 4)), (4, 0));
    }

    #[test]
    fn rows_of_triggers_do_not_count() {
        let all = [rows("log", 9, 0, 0), rows("T", 0, 2, 0)];
        assert_eq!(answer_of(Verb::Update, "update t set a = 1", &all), (2, 0));
    }
}
