//! Sinks: change streams that the farm itself delivers to targets outside, as jobs that outlive every router.
//!
//! Job: the router that leads delivers each sink that is not paused, from where its target has it; what sinks are and
//! how far they are stands in the state store.
//!
//! Invariants: a position is written after the target has what is in front of it, and only by a router that leads and
//! has the sink as it is now; so after any death the delivery goes on behind it or a little before, with the same ids,
//! and nothing is left out. An event that the target refuses is kept as a letter in front of the position.
//!
//! Must not know: how a target is spoken to ([`sinks`]), and what changes look like.

pub(crate) mod commands;
mod delivery;
mod gathering;
mod named;
mod progress;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use catalog::sink::{SINK, SinkRecord};
use catalog::subscription::all_kept;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};

use crate::context::Context;
use crate::context::supervision::caught;
use crate::subscriptions::Subscriptions;

/// How often it is looked which sinks there are.
const LOOK: Duration = Duration::from_secs(1);

/// Before a delivery that panicked is begun again.
const PANICKED: Duration = Duration::from_secs(10);

/// What this router delivered of one sink since its start.
#[derive(Debug, Default)]
pub struct SinkCounts {
    pub events: AtomicU64,
    pub bytes: AtomicU64,
    pub batches: AtomicU64,
    /// Tries that failed.
    pub failures: AtomicU64,
    /// Events that the target refused.
    pub refused: AtomicU64,
}

/// The sinks of the farm, as one router sees them.
pub struct Sinks {
    context: Arc<Context>,
    pub(crate) subscriptions: Arc<Subscriptions>,
    counts: Mutex<BTreeMap<String, Arc<SinkCounts>>>,
    /// Somebody has changed one.
    changed: Notify,
}

impl Sinks {
    pub(crate) fn new(context: &Arc<Context>, subscriptions: &Arc<Subscriptions>) -> Sinks {
        Sinks {
            context: Arc::clone(context),
            subscriptions: Arc::clone(subscriptions),
            counts: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// What this router delivered since its start, by sink.
    pub fn counts(&self) -> BTreeMap<String, Arc<SinkCounts>> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.clone()
    }

    fn counts_of(&self, name: &str) -> Arc<SinkCounts> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(counts.entry(name.to_owned()).or_default())
    }

    /// Delivers while this router leads, until `end` is ready.
    pub async fn run(self: Arc<Self>, end: impl Future<Output = ()>) {
        let mut tasks = JoinSet::new();
        let mut running: HashMap<String, (u64, AbortHandle)> = HashMap::new();
        let mut role = self.context.leadership.watch_role();
        tokio::pin!(end);
        loop {
            self.tend(&mut running, &mut tasks).await;
            tokio::select! {
                () = &mut end => break,
                () = tokio::time::sleep(LOOK) => {}
                () = self.changed.notified() => {}
                _ = role.changed() => {}
                Some(_) = tasks.join_next() => {}
            }
        }
        tasks.shutdown().await;
    }

    /// Begins and ends deliveries, as the store has them.
    async fn tend(
        self: &Arc<Self>,
        running: &mut HashMap<String, (u64, AbortHandle)>,
        tasks: &mut JoinSet<()>,
    ) {
        let mut wanted: HashMap<String, (SinkRecord, u64)> = HashMap::new();
        if self.context.leadership.lead().is_some() {
            // While the store does not answer, what runs finds out by itself that it writes no position.
            let Ok(all) = all_kept::<SinkRecord>(self.context.store(), SINK).await else {
                return;
            };
            let due = all.into_iter().filter(|(_, record, _)| !record.paused);
            wanted.extend(due.map(|(name, record, revision)| (name, (record, revision))));
        }
        running.retain(|name, (revision, task)| {
            let stays = wanted.get(name).is_some_and(|(_, now)| now == revision);
            if !stays {
                task.abort();
            }
            stays
        });
        for (name, (record, revision)) in wanted {
            running.entry(name.clone()).or_insert_with(|| {
                let sinks = Arc::clone(self);
                let task = tasks.spawn(sinks.keep_delivering(name, record, revision));
                (revision, task)
            });
        }
    }

    async fn keep_delivering(self: Arc<Self>, name: String, record: SinkRecord, revision: u64) {
        loop {
            let delivering = delivery::live(&self, &name, &record, revision);
            let Err(text) = caught(delivering).await else {
                return;
            };
            self.context.tell_panic("sink", "", &text);
            tokio::time::sleep(PANICKED).await;
        }
    }
}
