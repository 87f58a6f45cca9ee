//! Reading the columns and keys of tables from the servers: at the start, when something was declared,
//! when a session changed a definition, and on a slow tick.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use engine::Link;
use farm::sharding::Placed;
use tokio::sync::{Mutex, Notify};

use super::Schemas;
use crate::events::Event;
use crate::runtime::Control;

/// Definitions that changed behind Heddle's back are seen after so long.
const TICK: Duration = Duration::from_secs(30);

/// After a reading that failed.
const AGAIN: Duration = Duration::from_millis(500);

/// When tables are read.
#[derive(Default)]
pub(crate) struct Tables {
    /// They may be others than before.
    pub(crate) changed: Notify,
    reading: Mutex<()>,
}

impl Control {
    /// Keeps what the snapshot says of tables equal to what the servers have.
    pub(crate) async fn read_tables(self: Arc<Self>) {
        let mut failing = false;
        loop {
            let pause = match self.refresh_tables().await {
                Ok(_) => {
                    failing = false;
                    TICK
                }
                Err(why) => {
                    if !std::mem::replace(&mut failing, true) {
                        self.happened(Event::now("tables_unreadable", "", why));
                    }
                    AGAIN
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.tables.changed.notified() => {}
            }
        }
    }

    /// Reads them once, and publishes what is new; true when something is.
    ///
    /// # Errors
    /// A group that has declared tables cannot be asked, in words.
    pub(crate) async fn refresh_tables(&self) -> Result<bool, String> {
        // A reading that began earlier must not end later.
        let _one_at_a_time = self.tables.reading.lock().await;
        let mut schemas = Schemas::new();
        let timeout_ms = self.settings().step_timeout_ms;
        let text = |error: engine::Error| error.to_string();
        for (group, databases) in self.databases_to_read() {
            let primary = {
                let state = self.state();
                let primary = state.records.primary(&group);
                primary.map(|(_, server)| self.login(&server.host, server.port))
            };
            let login = primary
                .ok_or_else(|| format!("group {group} has no primary to read tables from"))?;
            let mut link = Link::open(&login, timeout_ms).await.map_err(text)?;
            for database in databases {
                let read = engine::tables::schemas(&mut link, &database, timeout_ms).await;
                for (table, schema) in read.map_err(text)? {
                    schemas.insert((database.clone(), table), Arc::new(schema));
                }
            }
        }
        let changed = self.state().describe(schemas);
        if changed {
            self.publish();
        }
        Ok(changed)
    }

    /// Databases with declared tables, by the group that is asked for them.
    fn databases_to_read(&self) -> BTreeMap<String, BTreeSet<String>> {
        let state = self.state();
        let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let Some(sharding) = state.layout.sharding() else {
            return all;
        };
        for (database, table, _) in sharding.declared() {
            let map = match sharding.placed(database, table) {
                Placed::Sharded(table) => table.map,
                Placed::Global(map) => map,
                _ => continue,
            };
            if let Some(mapped) = sharding.map(map) {
                let of = all.entry(mapped.map.global_group.to_string()).or_default();
                of.insert(database.to_string());
            }
        }
        all
    }
}
