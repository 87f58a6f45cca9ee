//! Measuring how many rows the declared tables have on each group, by the servers' own statistics: once in
//! a minute, and when an operator asks for a refresh. Statements read what was measured last, and never wait for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use farm::sharding::Placed;
use farm::sharding::sizes::Measured;

use crate::sharding::ShardedTables;

/// All tables are measured so long after they were measured last, by whomever.
const AGAIN: Duration = Duration::from_secs(60);

/// So often that is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The tables of each database, by group.
type Tables = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

impl ShardedTables {
    /// Keeps the sizes of tables known, while statements make use of them. A minute begins with each measurement.
    pub(crate) async fn measure_tables(self: Arc<Self>) {
        loop {
            let age = self.context.state().layout.sizes().load().age();
            if age.is_none_or(|age| age >= AGAIN) && self.context.settings().measures_tables {
                self.measure().await;
            }
            // An operator may have them measured meanwhile.
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Measures once. What a group does not say is not known then.
    pub(crate) async fn measure(&self) {
        let mut measured = Measured::new(Instant::now());
        for (group, databases) in self.tables_to_measure() {
            if let Err(why) = self.measure_group(&group, &databases, &mut measured).await {
                tracing::debug!(group, why, "its tables are not measured");
            }
        }
        let sizes = self.context.state().layout.sizes();
        sizes.store(measured);
    }

    async fn measure_group(
        &self,
        group: &str,
        databases: &BTreeMap<String, BTreeSet<String>>,
        measured: &mut Measured,
    ) -> Result<(), String> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let mut link = self.ask_group(group).await.map_err(|it| it.to_string())?;
        let group: Arc<str> = group.into();
        for (database, tables) in databases {
            let rows = engine::tables::rows(&mut link, database, tables, timeout_ms).await;
            for (table, rows) in rows.map_err(|it| it.to_string())? {
                measured.put(database, &table, &group, rows);
            }
        }
        Ok(())
    }

    fn tables_to_measure(&self) -> Tables {
        let state = self.context.state();
        let mut all = Tables::new();
        let Some(sharding) = state.layout.sharding() else {
            return all;
        };
        for (database, table, schema) in sharding.described() {
            if schema.view {
                continue;
            }
            let map = match sharding.placed(database, table) {
                Placed::Sharded(table) => sharding.map(table.map),
                Placed::Global(map) => sharding.map(map),
                Placed::Group(group) => {
                    put(&mut all, group, database, table);
                    continue;
                }
                Placed::Home => continue,
            };
            for group in map.iter().flat_map(|mapped| &mapped.groups) {
                put(&mut all, group, database, table);
            }
        }
        all
    }
}

fn put(all: &mut Tables, group: &str, database: &str, table: &str) {
    let of = all.entry(group.to_owned()).or_default();
    of.entry(database.to_owned())
        .or_default()
        .insert(table.to_owned());
}
