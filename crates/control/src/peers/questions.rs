//! What only routers ask each other, and how the answers travel.
//!
//! These questions are no commands of an operator: the asked router takes them from peers only, and
//! the asking one has looked into its client's rights.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::peers::roster::Peer;
use crate::peers::transport::PeerError;
use crate::sessions::SessionInfo;
use catalog::command::{CommandError, Table};

/// The first word of questions that only peers ask.
pub(crate) const GROUP: &str = "peer";
pub(crate) const SESSIONS: &str = "sessions";
pub(crate) const KILL: &str = "kill";
pub(crate) const RELEASE: &str = "release";
pub(crate) const WRITES: &str = "writes";
pub(crate) const DRAINED: &str = "drained";
pub(crate) const FACTS: &str = "facts";

/// What one peer said of its sessions; an error is a text for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSessions {
    pub peer: Arc<Peer>,
    pub sessions: Result<Vec<SessionInfo>, String>,
}

/// A table of one column, whose cells are the values.
pub(crate) fn column<T: Serialize>(values: &[T]) -> Result<Table, CommandError> {
    let mut table = Table::new(&["value"]);
    for value in values {
        let cell = serde_json::to_value(value)
            .map_err(|error| CommandError::Internal(error.to_string()))?;
        table.rows.push(vec![cell]);
    }
    Ok(table)
}

/// The values of such a table, from whatever version of Heddle.
pub(crate) fn cells<T: DeserializeOwned>(table: &Table) -> Result<Vec<T>, PeerError> {
    let read = |row: &Vec<Value>| {
        let cell = row.first().cloned().unwrap_or_default();
        serde_json::from_value(cell).map_err(|error| PeerError::Strange(error.to_string()))
    };
    table.rows.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_peers_say_survives_the_way_and_other_versions() {
        let session = SessionInfo {
            id: 3 << 24 | 7,
            running: Some((2, 99)),
            ..SessionInfo::default()
        };
        let table = column(std::slice::from_ref(&session)).expect("a table");
        assert_eq!(cells::<SessionInfo>(&table), Ok(vec![session]));
        let mut newer = Table::new(&["value"]);
        newer
            .rows
            .push(vec![serde_json::json!({"id": 5, "mood": "good"})]);
        let read = cells::<SessionInfo>(&newer).expect("readable");
        assert_eq!((read[0].id, read[0].running), (5, None));
        newer.rows.push(vec![Value::from("garbage")]);
        assert!(cells::<SessionInfo>(&newer).is_err());
    }
}
