//! What must be true before something is declared: the groups of a map have the same definitions and
//! accounts, and every row is where the map says.

use super::ShardedTables;
use std::collections::BTreeSet;

use engine::definitions::{Definitions, Drift, Extent, databases};
use engine::grants::Granted;
use engine::{Link, Login, tables};
use farm::shard::{ShardIx, ShardMap};
use farm::sharding::Mapped;
use futures_util::future::try_join_all;

use crate::leadership::lead::Lead;
use catalog::command::CommandError;
use catalog::record::TableRecord;
use planner::belongs::belongs;

/// A table is counted for so long, at most.
const COUNT_MS: u64 = 3_600_000;

/// ER_NO_SUCH_TABLE
const NO_SUCH_TABLE: u16 = 1146;

/// Rows that a group has and should not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misplaced {
    pub(crate) table: String,
    pub(crate) group: String,
    pub(crate) rows: u64,
}

/// What a group has and the global group of its map has otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Drifted {
    pub(crate) group: String,
    pub(crate) what: String,
    pub(crate) kind: Drift,
}

/// The condition on the rows that a group may have of a table.
pub(crate) fn rows_of(map: &ShardMap, group: &str, table: &TableRecord) -> Option<String> {
    let key = table.key.as_ref()?;
    let has = |at: &ShardIx| &*map.shard(*at).group == group;
    let at = map.places().find(has);
    Some(at.map_or_else(
        || "FALSE".to_owned(),
        |at| belongs(map, at, &key.column, key.key),
    ))
}

/// Definitions of a group, with its accounts where they count, and the connection to its primary by
/// which they were read.
struct Has {
    group: String,
    accounts: Option<Granted>,
    defined: Definitions,
    link: Link,
}

impl Has {
    /// Makes what `global` has and this group lacks; `bare` are all its databases without what is in
    /// them, where they count.
    async fn complete(
        &mut self,
        global: &Has,
        bare: Option<&Definitions>,
        timeout_ms: u64,
    ) -> Result<(), CommandError> {
        let link = &mut self.link;
        if let (Some(wanted), Some(there)) = (&global.accounts, &self.accounts) {
            wanted.make_missing(link, there, timeout_ms).await?;
        }
        global
            .defined
            .make_missing(link, &self.defined, timeout_ms)
            .await?;
        if let Some(bare) = bare {
            // Some of the databases have just been made.
            let there = Definitions::bare(link, timeout_ms).await?;
            bare.make_missing(link, &there, timeout_ms).await?;
        }
        Ok(())
    }
}

impl ShardedTables {
    /// A connection to the primary of a group that only asks.
    pub(crate) async fn ask_group(&self, group: &str) -> Result<Link, CommandError> {
        let login = self.login_of(group)?;
        Ok(Link::open(&login, self.context.settings().step_timeout_ms).await?)
    }

    /// How Heddle logs in to the primary of a group.
    pub(crate) fn login_of(&self, group: &str) -> Result<Login, CommandError> {
        let state = self.context.state();
        let primary = state.records.primary(group);
        let login = primary.map(|(_, server)| self.links.login(server));
        login.ok_or_else(|| no_primary(group))
    }

    /// A connection to the primary of a group for a command, which is the leader's.
    pub(crate) async fn reach_group(&self, lead: &Lead, group: &str) -> Result<Link, CommandError> {
        let primary = {
            let state = self.context.state();
            state
                .records
                .primary(group)
                .map(|(_, server)| server.clone())
        };
        let primary = primary.ok_or_else(|| no_primary(group))?;
        self.links.reach(lead, &primary).await
    }

    /// Makes on all groups of a map what the global group has: the accounts, all databases, and in
    /// these ones everything but rows and events; or one table of a database that they have already.
    ///
    /// # Errors
    /// A group has something of the same name that is not the same, or refuses something.
    pub(crate) async fn spread(
        &self,
        lead: &Lead,
        map: &ShardMap,
        extent: &Extent,
    ) -> Result<(), CommandError> {
        let mapped = Mapped::new(map.clone());
        let others = mapped.groups[1..].iter();
        // All of them are read at once: a database of many tables takes many trips.
        let (global, others) = tokio::join!(
            self.has(lead, &map.global_group, extent),
            try_join_all(others.map(|group| self.has(lead, group, extent))),
        );
        let (mut global, mut others) = (global?, others?);
        for there in &others {
            let differences = global.defined.differences(&there.defined);
            let other: Vec<String> = differences
                .into_iter()
                .filter(|it| it.kind == Drift::Different)
                .map(|it| it.what)
                .collect();
            if !other.is_empty() {
                let group = &there.group;
                return Err(CommandError::Refused(format!(
                    "group {group} has {} otherwise than group {}; make them alike (`SHOW CREATE`), \
                     or drop what is on {group}",
                    other.join(", "),
                    map.global_group
                )));
            }
        }
        let timeout_ms = self.context.settings().step_timeout_ms;
        let bare = match extent {
            Extent::Databases(_) => Some(Definitions::bare(&mut global.link, timeout_ms).await?),
            Extent::Table(..) => None,
        };
        let (bare, global) = (bare.as_ref(), &global);
        let make = others
            .iter_mut()
            .map(|there| there.complete(global, bare, timeout_ms));
        try_join_all(make).await?;
        Ok(())
    }

    /// Reads what a group has.
    async fn has(&self, lead: &Lead, group: &str, extent: &Extent) -> Result<Has, CommandError> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let mut link = self.reach_group(lead, group).await?;
        let accounts = match extent {
            Extent::Databases(_) => Some(Granted::read(&mut link, timeout_ms).await?),
            Extent::Table(..) => None,
        };
        Ok(Has {
            group: group.to_owned(),
            accounts,
            defined: Definitions::read(&mut link, extent, timeout_ms).await?,
            link,
        })
    }

    /// Counts the rows of these tables that are not where the map says, on its groups and on others
    /// that may have some.
    pub(crate) async fn misplaced(
        &self,
        map: &ShardMap,
        tables: &[TableRecord],
        others: &[String],
    ) -> Result<Vec<Misplaced>, CommandError> {
        let mapped = Mapped::new(map.clone());
        let groups = mapped.groups.iter().map(|group| group.to_string());
        let mut groups: Vec<String> = groups.collect();
        groups.extend(others.iter().cloned());
        let mut seen = BTreeSet::new();
        groups.retain(|group| seen.insert(group.clone()));
        let counted = groups
            .iter()
            .map(|group| self.misplaced_on(map, group, tables));
        Ok(try_join_all(counted).await?.concat())
    }

    /// The same on one group.
    async fn misplaced_on(
        &self,
        map: &ShardMap,
        group: &str,
        tables: &[TableRecord],
    ) -> Result<Vec<Misplaced>, CommandError> {
        let mut all = Vec::new();
        let mut link = self.ask_group(group).await?;
        for table in tables {
            let Some(condition) = rows_of(map, group, table) else {
                continue;
            };
            let (database, name) = (&table.database, &table.table);
            let counted =
                tables::count_others(&mut link, database, name, &condition, COUNT_MS).await;
            let rows = match counted {
                // A table that is not there is another matter.
                Err(error) if error.number() == Some(NO_SUCH_TABLE) => 0,
                other => other?,
            };
            if rows > 0 {
                all.push(Misplaced {
                    table: format!("{database}.{name}"),
                    group: group.to_owned(),
                    rows,
                });
            }
        }
        Ok(all)
    }

    /// Refuses what would put rows where nobody looks for them.
    pub(crate) async fn check_rows(
        &self,
        map: &ShardMap,
        tables: &[TableRecord],
        others: &[String],
    ) -> Result<(), CommandError> {
        let found = self.misplaced(map, tables, others).await?;
        if found.is_empty() {
            return Ok(());
        }
        let parts = found.iter().map(|it| {
            let Misplaced { table, group, rows } = it;
            format!("{rows} of {table} on group {group}")
        });
        let parts: Vec<String> = parts.collect();
        Err(CommandError::Refused(format!(
            "rows would be where the map does not look for them: {}; move them to the groups of their \
             keys first, or take them out and insert them again through Heddle afterwards",
            parts.join(", ")
        )))
    }

    /// How the groups of a map differ from its global group.
    pub(crate) async fn drift(
        &self,
        map: &ShardMap,
        whole: BTreeSet<String>,
    ) -> Result<Vec<Drifted>, CommandError> {
        let extent = Extent::Databases(whole);
        let timeout_ms = self.context.settings().step_timeout_ms;
        let mapped = Mapped::new(map.clone());
        let mut global = self.ask_group(&map.global_group).await?;
        let accounts = Granted::read(&mut global, timeout_ms).await?;
        let bare = Definitions::bare(&mut global, timeout_ms).await?;
        let defined = Definitions::read(&mut global, &extent, timeout_ms).await?;
        let mut all = Vec::new();
        for group in &mapped.groups[1..] {
            let mut link = self.ask_group(group).await?;
            let there = Definitions::read(&mut link, &extent, timeout_ms).await?;
            let mut found = defined.differences(&there);
            let there = databases(&mut link, timeout_ms).await?;
            found.extend(bare.missing(&there));
            let has = Granted::read(&mut link, timeout_ms).await?;
            found.extend(accounts.differences(&has));
            let mut seen = BTreeSet::new();
            found.retain(|it| seen.insert(it.what.clone()));
            all.extend(found.into_iter().map(|it| Drifted {
                group: group.to_string(),
                what: it.what,
                kind: it.kind,
            }));
        }
        Ok(all)
    }
}

fn no_primary(group: &str) -> CommandError {
    CommandError::Refused(format!(
        "group {group} has no primary; `group health {group}` says what it lacks"
    ))
}
