//! The control plane itself: its state, its loop, its shutdown.

use std::future::Future;
use std::sync::Arc;

use farm::{Published, Snapshot};

use crate::commander::Commander;
use crate::commands::{Call, CommandError, Table};
use crate::error::Error;
use crate::events::Event;
use crate::sessions::Sessions;
use crate::settings::Settings;

/// Counters since the start, for metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Events by kind.
    pub events: Vec<(&'static str, u64)>,
    pub commands: u64,
    pub commands_failed: u64,
    pub probes: u64,
    pub probes_failed: u64,
}

/// The control plane of one router.
pub struct Control {
    settings: Settings,
    published: Arc<Published>,
    sessions: Arc<dyn Sessions>,
    commander: Commander,
}

impl Control {
    /// Reads the farm from the store (making its id in an empty store) and publishes it. Nothing is
    /// probed before [`Control::run`].
    pub async fn open(
        store: Arc<dyn meta::Store>,
        published: Arc<Published>,
        sessions: Arc<dyn Sessions>,
        settings: Settings,
    ) -> Result<Arc<Control>, Error> {
        let _ = store;
        let (commander, _) = Commander::new();
        Ok(Arc::new(Control { settings, published, sessions, commander }))
    }

    /// Runs all loops and serves the commanders until `shutdown` is ready; when it returns, every
    /// task of the control plane has ended.
    pub async fn run(self: Arc<Self>, shutdown: impl Future<Output = ()>) {
        shutdown.await;
    }

    /// Carries one command out. Commands that change the farm wait for each other.
    pub async fn execute(&self, call: Call) -> Result<Table, CommandError> {
        let _ = (call, &self.sessions, &self.settings);
        Err(CommandError::Internal("not there yet".to_owned()))
    }

    /// Makes a group writable again after its servers were restarted (servers start read-only). The
    /// recorded primary takes the writes, unless another server holds more: then that one does. Gives
    /// the primary's UUID. Idempotent.
    pub async fn restore_primary(&self, group: &str) -> Result<String, CommandError> {
        let _ = group;
        Err(CommandError::Internal("not there yet".to_owned()))
    }

    /// A handle for other threads.
    pub fn commander(&self) -> Commander {
        self.commander.clone()
    }

    /// The farm with the newest GTID positions, which alone do not make a new snapshot.
    pub fn snapshot(&self) -> Snapshot {
        (**self.published.load()).clone()
    }

    /// The last events, oldest first.
    pub fn events(&self) -> Vec<Event> {
        Vec::new()
    }

    /// What was counted since the start.
    pub fn counters(&self) -> Counters {
        Counters::default()
    }
}
