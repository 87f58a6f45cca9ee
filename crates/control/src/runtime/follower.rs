//! Taking over what changes in the state store, whoever changed it.

use std::sync::Arc;
use std::time::Duration;

use crate::context::Context;
use crate::failover::FailoverDrivers;
use crate::leadership::election::Election;
use catalog::event::Event;
use catalog::record::Records;

/// Before the store is tried again.
const STORE_AGAIN: Duration = Duration::from_millis(200);

/// Takes over what others write to the state store.
pub(crate) struct StoreFollower {
    context: Arc<Context>,
    election: Arc<Election>,
    failover: Arc<FailoverDrivers>,
}

impl StoreFollower {
    pub(crate) fn new(
        context: &Arc<Context>,
        election: &Arc<Election>,
        failover: &Arc<FailoverDrivers>,
    ) -> StoreFollower {
        StoreFollower {
            context: Arc::clone(context),
            election: Arc::clone(election),
            failover: Arc::clone(failover),
        }
    }
}

impl StoreFollower {
    /// Takes over what changes in the store, whoever changed it.
    pub(crate) async fn follow_store(self: Arc<Self>) {
        loop {
            let mut after = self.context.state().records.revision;
            if !self.context.leadership.is_alone() {
                match self.election.read_presence().await {
                    Ok(revision) => after = after.min(revision),
                    Err(error) => {
                        self.store_fails(&error).await;
                        continue;
                    }
                }
            }
            let ended = match self.context.store().watch("/", after).await {
                Ok(mut watch) => loop {
                    match watch.next().await {
                        Ok(update) => self.take_update(&update).await,
                        Err(ended) => break ended,
                    }
                },
                Err(error) => error,
            };
            // After a gap, what was missed is in the whole reading.
            let read = self.context.reload().await;
            if matches!(ended, meta::Error::Closed) {
                return;
            }
            if !matches!(ended, meta::Error::Gap) || read.is_err() {
                self.store_fails(&ended).await;
            }
        }
    }

    async fn store_fails(&self, error: &meta::Error) {
        self.context
            .happened(Event::now("store_unreadable", "", error.to_string()));
        tokio::time::sleep(STORE_AGAIN).await;
    }

    /// The farm's records are read again as a whole; what routers say of themselves is in the update.
    async fn take_update(&self, update: &meta::Update) {
        let mut keys = update.changes.iter().map(meta::Change::key);
        let newer = update.revision > self.context.state().records.revision;
        if newer
            && keys.any(Records::includes)
            && let Err(error) = self.context.reload().await
        {
            self.context
                .happened(Event::now("store_unreadable", "", error.to_string()));
        }
        if !self.context.leadership.is_alone() {
            self.election.take_presence(update);
        }
        if self.context.leadership.follows() {
            self.failover.take_failovers(update);
        }
    }
}
