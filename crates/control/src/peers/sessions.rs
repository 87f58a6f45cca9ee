//! Sessions of other routers, for SHOW PROCESSLIST and KILL.

use std::sync::Arc;

use farm::{Kill, Killed, Victim};

use crate::peers::questions::{GROUP, KILL, PeerSessions, SESSIONS, cells};
use crate::peers::roster::Peer;
use crate::peers::routers::PeerRouters;
use crate::peers::transport::PeerError;
use catalog::command::{Call, Table};

/// Where an id has its router's slot.
const NUMBER_BITS: u32 = 24;

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
