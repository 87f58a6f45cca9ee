//! Commands on containers: tables as key-value clients see them.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use engine::definitions::run_again;
use farm::Container;
use rowcache::Space;
use serde_json::Value;
use sqltext::ticked;

use super::group::done;
use crate::context::Context;
use crate::leadership::lead::Lead;
use crate::sharding::ShardedTables;
use catalog::command::{Arguments, CommandError, Table};
use catalog::record::{CONTAINER, json};

const COLUMNS: &[&str] = &[
    "name",
    "table",
    "key",
    "values",
    "separator",
    "escape",
    "flags",
    "cas",
    "expire",
    "flush",
    "consistency",
    "cache_bytes",
    "w_batch_size",
    "value_bytes_max",
    "origin",
];

const CACHE_COLUMNS: &[&str] = &[
    "name", "group", "state", "rows", "bytes", "hits", "misses", "filled", "refused", "voided",
    "evicted", "emptied",
];

/// Where the plugin of MySQL has its containers.
const PLUGIN: &str = "innodb_memcache.containers";

/// Longest name; the plugin of MySQL has the same limit.
const NAME_BYTES_MAX: usize = 50;

/// The commands about containers.
pub(crate) struct KvCommands {
    context: Arc<Context>,
    sharding: Arc<ShardedTables>,
}

impl KvCommands {
    pub(crate) fn new(context: &Arc<Context>, sharding: &Arc<ShardedTables>) -> KvCommands {
        KvCommands {
            context: Arc::clone(context),
            sharding: Arc::clone(sharding),
        }
    }
}

impl KvCommands {
    pub(crate) async fn kv_create(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let container = declared(args)?;
        self.heed_batch(&container)?;
        if args.switch("make")? {
            self.make_table(lead, &container).await?;
        }
        let key = format!("{CONTAINER}{}", container.name);
        let put = meta::Transaction::new().put(&key, &json(&container));
        self.context.commit_as(lead, &args.author(), put).await?;
        done(Value::Bool(true))
    }

    /// Whether the operator allows what a batch of writes means.
    fn heed_batch(&self, container: &Container) -> Result<(), CommandError> {
        if container.w_batch_size == 1 || self.context.reads.early.commit_within().is_some() {
            return Ok(());
        }
        Err(CommandError::Refused(
            "w_batch_size acknowledges writes before their commit, and this router allows that to nobody: set \
             kv_ack_before_commit = on first (docs/KV.md says what may be lost), or leave w_batch_size out"
                .to_owned(),
        ))
    }

    pub(crate) async fn kv_drop(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let name = args.text("name");
        if self.context.state().records.containers.get(name).is_none() {
            let elsewhere = self.context.state().containers().get(name).is_some();
            return Err(CommandError::Refused(match elsewhere {
                true => format!("container {name} stands in {PLUGIN}; delete its row there"),
                false => {
                    format!("there is no container {name}; `kv list` shows those that there are")
                }
            }));
        }
        let delete = meta::Transaction::new().delete(&format!("{CONTAINER}{name}"));
        self.context.commit_as(lead, &args.author(), delete).await?;
        done(Value::Bool(true))
    }

    pub(crate) fn kv_list(&self) -> Table {
        let mut table = Table::new(COLUMNS);
        let declared = self.context.state().records.containers.clone();
        let all = self.context.state().containers();
        let rows = all.iter().map(|one| {
            let ours = declared.get(&one.name).is_some();
            row(one, if ours { "kv create" } else { PLUGIN })
        });
        table.rows = rows.collect();
        table.rows.sort_by(|a, b| a[0].as_str().cmp(&b[0].as_str()));
        table
    }

    pub(crate) fn kv_cache(&self) -> Table {
        let mut table = Table::new(CACHE_COLUMNS);
        let spaces = self.context.reads.rows.spaces();
        table.rows = spaces.iter().map(|space| remembered(space)).collect();
        table
            .rows
            .sort_by(|a, b| (a[0].as_str(), a[1].as_str()).cmp(&(b[0].as_str(), b[1].as_str())));
        table
    }

    /// In the home group, where tables are that no map is about.
    async fn make_table(&self, lead: &Lead, container: &Container) -> Result<(), CommandError> {
        let home = self.context.state().records.groups.keys().next().cloned();
        let home = home.ok_or_else(|| {
            CommandError::Refused("there is no group yet; make one with `group create`".to_owned())
        })?;
        let timeout_ms = self.context.settings().step_timeout_ms;
        let mut link = self.sharding.reach_group(lead, &home).await?;
        for text in definition(container) {
            let made = run_again(&mut link, "", "", &text, timeout_ms).await;
            made.map_err(|error| {
                CommandError::Refused(format!("the table cannot be made: {error}"))
            })?;
        }
        Ok(())
    }
}

/// The statements that make a container's table.
fn definition(container: &Container) -> [String; 2] {
    let database = ticked(&container.database);
    let mut columns = vec![format!(
        "{} VARBINARY(250) NOT NULL",
        ticked(&container.key)
    )];
    let values = container.values.iter();
    columns.extend(values.map(|name| format!("{} MEDIUMBLOB", ticked(name))));
    let sides = [
        (&container.flags, "INT UNSIGNED"),
        (&container.cas, "BIGINT UNSIGNED"),
        (&container.expiry, "BIGINT UNSIGNED"),
    ];
    for (name, kind) in sides {
        let made = |name| format!("{} {kind} NOT NULL DEFAULT 0", ticked(name));
        columns.extend(name.as_deref().map(made));
    }
    columns.push(format!("PRIMARY KEY ({})", ticked(&container.key)));
    if let Some(expiry) = &container.expiry {
        columns.push(format!("KEY ({})", ticked(expiry)));
    }
    [
        format!("CREATE DATABASE IF NOT EXISTS {database}"),
        format!(
            "CREATE TABLE IF NOT EXISTS {database}.{} ({}) ENGINE=InnoDB",
            ticked(&container.table),
            columns.join(", ")
        ),
    ]
}

fn declared(args: &Arguments) -> Result<Container, CommandError> {
    let name = args.text("name");
    let fits = name.len() <= NAME_BYTES_MAX;
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !fits || !name.chars().all(good) {
        return Err(args.bad("name", name, "up to 50 letters, digits, _ and -"));
    }
    let mut needed = ["table", "key", "values"].into_iter();
    if let Some(missing) = needed.find(|name| args.get(name).is_none()) {
        return Err(CommandError::Usage(format!(
            "{missing} is missing; for example: kv create default --table=heddle.kv --key=k --values=v"
        )));
    }
    let table = args.text("table");
    let halves = table.split_once('.');
    let (database, table) = halves
        .filter(|(database, table)| !database.is_empty() && !table.is_empty())
        .ok_or_else(|| args.bad("table", table, "DATABASE.TABLE"))?;
    let values: Vec<&str> = args.text("values").split(',').map(str::trim).collect();
    if values.iter().any(|value| value.is_empty()) {
        return Err(args.bad(
            "values",
            args.text("values"),
            "names of columns between commas",
        ));
    }
    let side = |name: &str| args.get(name).map(str::to_owned);
    let mut container = Container::new(name, database, table, args.text("key"), &values);
    container.flags = side("flags");
    container.cas = side("cas");
    container.expiry = side("expire");
    container.escape = args.switch("escape")?;
    container.flush = args.switch("flush")?;
    if let Some(separator) = args.get("separator") {
        container.separator = separator.to_owned();
    }
    if let Some(level) = args.get("consistency") {
        if !["eventual", "session", "client", "strong"].contains(&level) {
            let levels = "eventual, session, client or strong";
            return Err(args.bad("consistency", level, levels));
        }
        container.consistency = Some(level.to_owned());
    }
    if let Some(bytes) = args.get("cache_bytes") {
        let read = bytes.parse().ok();
        container.cache_bytes =
            read.ok_or_else(|| args.bad("cache_bytes", bytes, "a number of bytes"))?;
        if container.cache_bytes > 0 && container.consistency.as_deref() == Some("strong") {
            return Err(CommandError::Usage(
                "reads at the level strong are the primary's alone: leave out cache_bytes, or take \
                 consistency=session"
                    .to_owned(),
            ));
        }
    }
    read_sizes(args, &mut container)?;
    Ok(container)
}

/// How many writes share a commit, and how large a value may be.
fn read_sizes(args: &Arguments, container: &mut Container) -> Result<(), CommandError> {
    if let Some(size) = args.get("w_batch_size") {
        let read = size
            .parse()
            .ok()
            .filter(|size| (1..=1 << 20).contains(size));
        container.w_batch_size =
            read.ok_or_else(|| args.bad("w_batch_size", size, "a number from 1 to 1048576"))?;
    }
    if let Some(bytes) = args.get("value_bytes_max") {
        let read = bytes
            .parse()
            .ok()
            .filter(|bytes| (1..=1 << 30).contains(bytes));
        container.value_bytes_max =
            read.ok_or_else(|| args.bad("value_bytes_max", bytes, "a number up to 1073741824"))?;
    }
    Ok(())
}

fn remembered(space: &Space) -> Vec<Value> {
    let (rows, bytes) = space.size();
    let counts = &space.counts;
    let numbers = [
        &counts.hits,
        &counts.misses,
        &counts.filled,
        &counts.refused,
        &counts.voided,
        &counts.evicted,
        &counts.emptied,
    ];
    let mut row = vec![
        space.container.name.as_str().into(),
        space.group.as_str().into(),
        space.state().into(),
        rows.into(),
        bytes.into(),
    ];
    row.extend(numbers.map(|number| Value::from(number.load(Relaxed))));
    row
}

fn row(container: &Container, origin: &str) -> Vec<Value> {
    let side = |name: &Option<String>| name.as_deref().unwrap_or_default().into();
    vec![
        container.name.as_str().into(),
        format!("{}.{}", container.database, container.table).into(),
        container.key.as_str().into(),
        container.values.join(",").into(),
        container.separator.as_str().into(),
        container.escape.into(),
        side(&container.flags),
        side(&container.cas),
        side(&container.expiry),
        container.flush.into(),
        side(&container.consistency),
        container.cache_bytes.into(),
        container.w_batch_size.into(),
        container.value_bytes_max.into(),
        origin.into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_columns_of_its_container() {
        let mut container = Container::new("default", "heddle", "kv", "k", &["v"]);
        container.expiry = Some("e`".to_owned());
        let [database, table] = definition(&container);
        assert_eq!(database, "CREATE DATABASE IF NOT EXISTS `heddle`");
        assert_eq!(
            table,
            "CREATE TABLE IF NOT EXISTS `heddle`.`kv` (`k` VARBINARY(250) NOT NULL, `v` MEDIUMBLOB, \
             `e``` BIGINT UNSIGNED NOT NULL DEFAULT 0, PRIMARY KEY (`k`), KEY (`e```)) ENGINE=InnoDB"
        );
    }
}
