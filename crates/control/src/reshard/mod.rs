//! Moves of parts of shard maps between groups: who works on them.
//!
//! A move is a record in the store ([`MoveRecord`]); the router that leads works on it, one task per
//! move, as [`machines::reshard`] says. Whatever a task knows beyond the record it can find out again,
//! so that another router, or the same one after a crash, goes on where it stopped.

mod condition;
mod cut;
mod feed;
pub(crate) mod order;
mod run;
mod verify;
mod work;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::background::Background;
use crate::context::Context;
use crate::context::editing::TRIES;
use crate::leadership::election::Election;
use crate::leadership::lead::Lead;
use crate::links::Links;
use crate::pace;
use crate::peers::routers::PeerRouters;
use crate::sharding::ShardedTables;
use catalog::command::CommandError;
use catalog::record::{Kept, MOVE, MoveRecord, json};

/// How often it is looked whether there is a move to work on.
const LOOK: Duration = Duration::from_millis(100);

/// Moves parts of shard maps from group to group.
pub(crate) struct Resharding {
    context: Arc<Context>,
    links: Arc<Links>,
    background: Arc<Background>,
    election: Arc<Election>,
    peers: Arc<PeerRouters>,
    sharding: Arc<ShardedTables>,
}

impl Resharding {
    pub(crate) fn new(
        context: &Arc<Context>,
        links: &Arc<Links>,
        background: &Arc<Background>,
        election: &Arc<Election>,
        peers: &Arc<PeerRouters>,
        sharding: &Arc<ShardedTables>,
    ) -> Resharding {
        Resharding {
            context: Arc::clone(context),
            links: Arc::clone(links),
            background: Arc::clone(background),
            election: Arc::clone(election),
            peers: Arc::clone(peers),
            sharding: Arc::clone(sharding),
        }
    }
}

impl Resharding {
    /// Works on all moves for as long as the control plane runs.
    pub(crate) async fn tend_moves(self: Arc<Self>) {
        let mut running: JoinSet<String> = JoinSet::new();
        let mut busy: BTreeSet<String> = BTreeSet::new();
        loop {
            tokio::select! {
                () = pace::next_look(self.context.started, LOOK) => {}
                Some(ended) = running.join_next() => match ended {
                    Ok(job) => drop(busy.remove(&job)),
                    Err(error) => {
                        tracing::error!(%error, "a move's task ended");
                        busy.clear();
                    }
                },
            }
            if self.context.leadership.lead().is_none() {
                continue;
            }
            let waiting: Vec<String> = {
                let state = self.context.state();
                let moves = state.records.moves.iter();
                let open = moves.filter(|(_, kept)| wants_work(&kept.value));
                open.map(|(job, _)| job.clone()).collect()
            };
            for job in waiting {
                if busy.insert(job.clone()) {
                    let reshard = Arc::clone(&self);
                    running.spawn(async move {
                        reshard.run_move(&job).await;
                        job
                    });
                }
            }
        }
    }

    /// A move as it is recorded; `None` when it is forgotten.
    pub(crate) fn move_record(&self, job: &str) -> Option<Kept<MoveRecord>> {
        self.context.state().records.moves.get(job).cloned()
    }

    /// Changes a move's record, unless somebody else has changed it since it was read.
    pub(crate) async fn change_move(
        &self,
        lead: &Lead,
        job: &str,
        change: impl Fn(&mut MoveRecord),
    ) -> Result<(), CommandError> {
        for tried in 0.. {
            let Some(kept) = self.move_record(job) else {
                return Err(CommandError::Refused(format!(
                    "there is no job {job} any more"
                )));
            };
            let mut record = kept.value.clone();
            change(&mut record);
            if record == kept.value {
                return Ok(());
            }
            let key = format!("{MOVE}{job}");
            let transaction = meta::Transaction::new()
                .when_revision(&key, kept.revision)
                .put(&key, &json(&record));
            match self.context.commit(lead, transaction).await {
                Err(CommandError::Stale) if tried < TRIES => {}
                other => return other,
            }
        }
        Ok(())
    }

    /// The move that keeps a map from being changed otherwise.
    pub(crate) fn no_move(&self, map: u32) -> Result<(), CommandError> {
        let state = self.context.state();
        let moves = state.records.moves.iter();
        let mut of_map = moves.filter(|(_, kept)| kept.value.map == map);
        match of_map.find(|(_, kept)| !kept.value.phase().is_over()) {
            None => Ok(()),
            Some((job, kept)) => Err(CommandError::Refused(format!(
                "job {job} moves a part of map {map} from group {} to group {}; wait until it has \
                 ended (`job show {job}`), or `job abort {job}`",
                kept.value.from, kept.value.to
            ))),
        }
    }
}

fn wants_work(record: &MoveRecord) -> bool {
    let still = record.paused || record.stuck;
    !record.phase().is_over() && (!still || (record.aborted && !record.stuck))
}
