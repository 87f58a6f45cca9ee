//! Sessions of other routers, for SHOW PROCESSLIST, KILL and limits of accounts.
//!
//! These questions are no commands of an operator: the asked router takes them from peers only, and
//! the asking one has looked into its client's rights.

use std::sync::Arc;

use farm::{Kill, Killed, Victim};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Peer, PeerError};
use crate::peers::PeerRouters;
use crate::sessions::SessionInfo;
use catalog::command::{Call, CommandError, Table};

/// The first word of questions that only peers ask.
pub(crate) const GROUP: &str = "peer";
pub(crate) const SESSIONS: &str = "sessions";
pub(crate) const KILL: &str = "kill";
pub(crate) const RELEASE: &str = "release";
pub(crate) const WRITES: &str = "writes";
pub(crate) const DRAINED: &str = "drained";

/// Where an id has its router's slot.
const NUMBER_BITS: u32 = 24;

/// What one peer said of its sessions; an error is a text for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSessions {
    pub peer: Arc<Peer>,
    pub sessions: Result<Vec<SessionInfo>, String>,
}

impl PeerRouters {
    /// The sessions of all the others.
    pub(crate) async fn sessions_elsewhere(&self) -> Vec<PeerSessions> {
        let call = Call::new(GROUP, SESSIONS, &[]);
        let others = self.election.roster().others.clone();
        let answers = self.ask_these(others, &call).await.into_iter();
        let read = |(peer, table): (Arc<Peer>, Result<Table, PeerError>)| {
            let sessions = table.and_then(|table| cells(&table));
            let sessions = sessions.map_err(|error| error.to_string());
            PeerSessions { peer, sessions }
        };
        // Who panics here has told why.
        let all = self
            .background
            .in_turn(move |_| answers.map(read).collect())
            .await;
        all.unwrap_or_default()
    }

    /// Passes a KILL on to whom it concerns: the router of the session's slot, or all. An error names
    /// the router that did not answer; others may have done it.
    pub(crate) async fn kill_elsewhere(&self, kill: &Kill) -> Result<Killed, String> {
        let roster = self.election.roster();
        let peers = match &kill.victim {
            Victim::Session(id) => {
                let peer = u8::try_from(id >> NUMBER_BITS).map(|slot| roster.in_slot(slot));
                peer.ok().flatten().into_iter().cloned().collect()
            }
            Victim::User { .. } => roster.others.clone(),
        };
        let text = serde_json::to_string(kill).map_err(|error| error.to_string())?;
        let question = Call::new(GROUP, KILL, &[&text]);
        let mut ended = 0;
        let mut silent = None;
        for (peer, table) in self.ask_these(peers, &question).await {
            let killed = table.and_then(|table| {
                let killed = cells::<Killed>(&table)?.into_iter().next();
                killed.ok_or_else(|| PeerError::Strange("its answer is empty".to_owned()))
            });
            match killed {
                Ok(Killed::Sessions(count)) => ended += count,
                Ok(Killed::Foreign(id)) => return Ok(Killed::Foreign(id)),
                Err(error) => silent = Some(format!("router {}: {error}", peer.name)),
            }
        }
        silent.map_or(Ok(Killed::Sessions(ended)), Err)
    }
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
