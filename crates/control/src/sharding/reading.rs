//! Reading the columns and keys of tables from the servers: at the start, when something was declared,
//! when a session changed a definition, and on a slow tick.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use engine::Link;
use farm::sharding::Placed;

use crate::sharding::ShardedTables;
use crate::sharding::layout::{Names, Schemas};
use crate::sharding::wanted::Which;
use catalog::event::Event;

/// Definitions that changed behind Heddle's back are seen after so long.
const TICK: Duration = Duration::from_secs(30);

/// After a reading that failed.
const AGAIN: Duration = Duration::from_millis(500);

impl ShardedTables {
    /// Keeps what the snapshot says of tables equal to what the servers have.
    pub(crate) async fn read_tables(self: Arc<Self>) {
        let mut tick = tokio::time::interval(TICK);
        loop {
            let mut which = tokio::select! {
                _ = tick.tick() => Which::All,
                which = self.context.tables.wanted() => which,
            };
            let mut failing = false;
            while let Err(why) = self.refresh_tables(&which).await {
                if !std::mem::replace(&mut failing, true) {
                    self.context
                        .happened(Event::now("tables_unreadable", "", why));
                }
                which = Which::All;
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    /// Reads them once, and publishes what is new; true when something is.
    ///
    /// # Errors
    /// A group that has declared tables cannot be asked, in words. What others say is published all the same.
    pub(crate) async fn refresh_tables(&self, which: &Which) -> Result<bool, String> {
        // A reading that began earlier must not end later.
        let _one_at_a_time = self.reading.lock().await;
        let (known, mut sought) = {
            let state = self.context.state();
            (
                Arc::clone(&state.layout.schemas),
                state.layout.sought.clone(),
            )
        };
        let within = self.tables_to_read();
        let mut schemas = Schemas::new();
        if let Which::These(names) = which {
            schemas.clone_from(&known);
            let read: BTreeSet<&String> = within.values().flatten().map(|it| &it.0).collect();
            schemas.retain(|name, _| read.contains(&name.0) && !names.contains(name));
        }
        let mut failed = None;
        for (group, declared) in within {
            let databases: BTreeSet<&String> = declared.iter().map(|it| &it.0).collect();
            let parts = databases.iter().flat_map(|database| match which {
                Which::All => vec![(*database, None)],
                Which::These(names) => parts(names, database, &known),
            });
            let parts: Vec<_> = parts.collect();
            if parts.is_empty() {
                continue;
            }
            if let Err(why) = self.read_of(&group, &parts, &mut schemas).await {
                failed.get_or_insert(why);
                keep_known(&known, &databases, &mut schemas);
                continue;
            }
            let is_read = |(database, table): &&(String, String)| {
                let of = |it: &(&String, Option<&str>)| {
                    it.0 == database && it.1.is_none_or(|it| it == table)
                };
                parts.iter().any(of)
            };
            sought.extend(declared.iter().filter(is_read).cloned());
        }
        let changed = self.context.state().layout.describe(schemas, sought);
        if changed {
            self.context.publish();
        }
        failed.map_or(Ok(changed), Err)
    }

    /// Reads databases, or tables of them, of one group.
    async fn read_of(
        &self,
        group: &str,
        parts: &[(&String, Option<&str>)],
        schemas: &mut Schemas,
    ) -> Result<(), String> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let text = |error: engine::Error| error.to_string();
        let primary = {
            let state = self.context.state();
            let primary = state.records.primary(group);
            primary.map(|(_, server)| self.links.login(server))
        };
        let login =
            primary.ok_or_else(|| format!("group {group} has no primary to read tables from"))?;
        let mut link = Link::open(&login, timeout_ms).await.map_err(text)?;
        for (database, table) in parts {
            let read = engine::tables::schemas(&mut link, database, *table, timeout_ms).await;
            for (table, schema) in read.map_err(text)? {
                schemas.insert(((*database).clone(), table), Arc::new(schema));
            }
        }
        Ok(())
    }

    /// Declared tables, by the group that is asked for them and for the rest of their databases.
    fn tables_to_read(&self) -> BTreeMap<String, Names> {
        let state = self.context.state();
        let mut all: BTreeMap<String, Names> = BTreeMap::new();
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
                of.insert((database.to_string(), table.to_string()));
            }
        }
        all
    }
}

/// What was known of these databases stays known where nobody can be asked.
fn keep_known(known: &Schemas, databases: &BTreeSet<&String>, schemas: &mut Schemas) {
    for (name, schema) in known.iter().filter(|it| databases.contains(&it.0.0)) {
        let kept = schemas.entry(name.clone());
        kept.or_insert_with(|| Arc::clone(schema));
    }
}

/// What is read of a database for these tables.
fn parts<'a>(
    names: &'a BTreeSet<(String, String)>,
    database: &'a String,
    known: &Schemas,
) -> Vec<(&'a String, Option<&'a str>)> {
    let mut of = names.iter().filter(|(of, _)| of == database).peekable();
    if of.peek().is_some() && !known.keys().any(|(of, _)| of == database) {
        return vec![(database, None)];
    }
    of.map(|(of, table)| (of, Some(table.as_str()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[(&str, &str)]) -> BTreeSet<(String, String)> {
        let named = |(database, table): &(&str, &str)| (database.to_string(), table.to_string());
        all.iter().map(named).collect()
    }

    #[test]
    fn a_database_of_which_nothing_is_known_is_read_whole() {
        let wanted = names(&[("shop", "orders"), ("shop", "items"), ("bank", "accounts")]);
        let (shop, bank) = ("shop".to_owned(), "bank".to_owned());
        let mut known = Schemas::new();
        known.insert((shop.clone(), "other".to_owned()), Arc::default());
        let of_shop = parts(&wanted, &shop, &known);
        assert_eq!(of_shop, [(&shop, Some("items")), (&shop, Some("orders"))]);
        assert_eq!(parts(&wanted, &bank, &known), [(&bank, None)]);
        assert_eq!(parts(&wanted, &"none".to_owned(), &known), []);
    }
}
