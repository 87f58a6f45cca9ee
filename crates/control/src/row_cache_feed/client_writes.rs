//! What clients of one router wrote, told to the others: at the level `client` their reads there have it.
//!
//! Each router asks each other one for what its clients have had acknowledged since the last answer. The
//! asked one answers when there is something, so that a quiet farm says little. Of a router that gives
//! no answer, or is gone, nobody knows what it acknowledged last: then the next read of every client
//! has what the primary has.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use farm::{Position, Snapshot};
use rowcache::client_writes::Told;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep};

use crate::context::Context;
use crate::leadership::election::Election;
use crate::peers::questions::{GROUP, WRITES, cells};
use crate::peers::roster::Peer;
use crate::peers::routers::PeerRouters;
use crate::peers::transport::PeerError;
use catalog::command::{Call, CommandError};

/// A router that has nothing to tell says so after this time.
const NOTHING: Duration = Duration::from_millis(300);

/// It looks so often whether it has.
const LOOK: Duration = Duration::from_millis(5);

/// A router that gave no answer is asked again after this time.
const PAUSE: Duration = Duration::from_secs(1);

/// A client's writes as they travel.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    client: u64,
    group: String,
    timeline: u32,
    position: Option<String>,
    unproved: bool,
    unlogged: bool,
}

impl Line {
    fn of(told: &Told) -> Line {
        Line {
            client: told.client,
            group: told.group.to_string(),
            timeline: told.timeline,
            position: told.position.as_ref().map(Position::to_string),
            unproved: told.unproved,
            unlogged: told.unlogged,
        }
    }

    /// `None` of a group that this router does not have.
    fn told(self, snapshot: &Snapshot) -> Option<Told> {
        let group = snapshot.group(&self.group)?;
        let engine = group.primary().or(group.servers.first())?.engine;
        let read = |text: &String| Position::parse(engine, text);
        let position = self.position.as_ref().map(read);
        Some(Told {
            client: self.client,
            group: group.name.clone(),
            timeline: self.timeline,
            // What cannot be read is asked for at the primary.
            unproved: self.unproved || position == Some(None),
            position: position.flatten(),
            unlogged: self.unlogged,
        })
    }
}

/// Exchanges with the other routers what clients wrote.
pub(crate) struct ClientWrites {
    context: Arc<Context>,
    election: Arc<Election>,
    peers: Arc<PeerRouters>,
}

impl ClientWrites {
    pub(crate) fn new(
        context: &Arc<Context>,
        election: &Arc<Election>,
        peers: &Arc<PeerRouters>,
    ) -> ClientWrites {
        ClientWrites {
            context: Arc::clone(context),
            election: Arc::clone(election),
            peers: Arc::clone(peers),
        }
    }
}

impl ClientWrites {
    /// Answers a peer: where it may go on, and what was acknowledged here since.
    pub(crate) async fn tell_writes(&self, since: &str) -> Result<Vec<Value>, CommandError> {
        let mut since: u64 = since
            .parse()
            .map_err(|_| CommandError::Usage(format!("{since:?} is no number of a change")))?;
        let began = Instant::now();
        loop {
            let (told, until) = self.context.reads.writes.changed_since(since);
            if !told.is_empty() || since == 0 || began.elapsed() > NOTHING {
                let lines = told.iter().map(|one| json!(Line::of(one)));
                return Ok([json!(until)].into_iter().chain(lines).collect());
            }
            since = until;
            sleep(LOOK).await;
        }
    }

    /// Asks each of the other routers, for as long as it lives.
    pub(crate) async fn exchange_writes(self: Arc<Self>) {
        let mut roster = self.election.watch_roster();
        let mut tasks = JoinSet::new();
        let mut asked: HashMap<String, AbortHandle> = HashMap::new();
        loop {
            let others = roster.borrow_and_update().others.clone();
            let left = asked.len();
            asked.retain(|id, task| {
                let lives = others.iter().any(|peer| peer.id == *id);
                if !lives {
                    task.abort();
                }
                lives
            });
            if asked.len() < left {
                self.doubt_writes();
            }
            for peer in others {
                asked
                    .entry(peer.id.clone())
                    .or_insert_with(|| tasks.spawn(Arc::clone(&self).follow_writes(peer)));
            }
            while tasks.try_join_next().is_some() {}
            if roster.changed().await.is_err() {
                return;
            }
        }
    }

    async fn follow_writes(self: Arc<Self>, peer: Arc<Peer>) {
        let mut since = 0;
        loop {
            match self.ask_writes(&peer, since).await {
                Ok(until) => {
                    since = until;
                    sleep(Duration::from_millis(
                        self.context.settings().peers.client_exchange_ms,
                    ))
                    .await;
                }
                Err(error) => {
                    tracing::debug!(router = %peer.name, "what its clients wrote is not known: {error}");
                    self.doubt_writes();
                    sleep(PAUSE).await;
                }
            }
        }
    }

    async fn ask_writes(&self, peer: &Peer, since: u64) -> Result<u64, PeerError> {
        let call = Call::new(GROUP, WRITES, &[&since.to_string()]);
        let limit = Duration::from_millis(self.context.settings().peers.peer_timeout_ms) + NOTHING;
        let table = self.peers.asking(peer, call, limit).await?;
        let strange = |error: serde_json::Error| PeerError::Strange(error.to_string());
        let mut answer = cells::<Value>(&table)?.into_iter();
        let until = serde_json::from_value(answer.next().unwrap_or_default()).map_err(strange)?;
        let snapshot = self.context.snapshot_now();
        for line in answer {
            let line: Line = serde_json::from_value(line).map_err(strange)?;
            if let Some(told) = line.told(&snapshot) {
                self.context.reads.writes.heed(&told, &snapshot);
            }
        }
        Ok(until)
    }

    fn doubt_writes(&self) {
        self.context
            .reads
            .writes
            .doubt_all(&self.context.snapshot_now());
    }
}
