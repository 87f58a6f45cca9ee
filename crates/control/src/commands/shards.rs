//! Commands about shards: making, switching, removing and finding them, and their rows.

use engine::definitions::Extent;
use farm::shard::{SLOTS, ShardKind, ShardMap};
use planner::belongs::key_of_map;
use routing::shard::{Literal, Nowhere, locate, stored};
use serde_json::Value;

use super::group::{done, find_group};
use crate::commands::ShardingCommands;
use crate::leadership::lead::Lead;
use crate::sharding::accept::rows_of;
use crate::sharding::key::check_key;
use crate::sharding::named::{find_map, find_named, find_shard, find_table, no_map, table_name};
use crate::sharding::wanted::Which;
use catalog::bounds;
use catalog::command::{Arguments, CommandError, Table};
use catalog::identity;
use catalog::record::{DEFINED, Declared, ShardRecord, TableRecord, json};

/// So many rows are deleted in one statement, as Fabric does it.
const PRUNED_AT_ONCE: u64 = 10_000;

/// For one statement of pruning.
const PRUNE_MS: u64 = 600_000;

impl ShardingCommands {
    /// Adds shards in one step: none of them or all.
    pub(crate) async fn add_shard(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let records = self.context.state().records.clone();
        let declared = &records.declared;
        let id = find_map(declared, args.text("mapping_id"))?;
        let kind = declared.maps.get(&id).ok_or_else(|| no_map(id))?.kind;
        let enabled = state(args)?;
        self.reshard.no_move(id)?;
        let mut next = declared.clone();
        let mut change = declared.change();
        let mut added = Vec::new();
        for (group, bound) in groups(args, kind)? {
            find_group(&records, &group)?;
            let record = ShardRecord {
                map: id,
                group,
                bound,
                enabled,
                slots: Vec::new(),
            };
            check_shard(&next, id, kind, &record)?;
            let shard = change.next_shard();
            next.shards.insert(shard, record);
            added.push(shard);
        }
        divide_slots(&mut next, id, kind);
        for (shard, record) in next.shards_of(id) {
            if declared.shards.get(&shard) != Some(record) {
                change = change.put_shard(shard, record);
            }
        }
        let map = next.map(id).ok_or_else(|| no_map(id))?;
        let tables: Vec<TableRecord> = declared.tables_of(id).cloned().collect();
        let whole = tables.iter().map(|table| table.database.clone()).collect();
        self.sharding
            .spread(lead, &map, &Extent::Databases(whole))
            .await?;
        self.sharding.check_rows(&map, &tables, &[]).await?;
        for table in tables.iter().filter(|table| table.key.is_none()) {
            self.sharding.fill_global(&map, table).await?;
        }
        self.context
            .commit_as(lead, &args.author(), change.finish())
            .await?;
        let added: Vec<Value> = added.into_iter().map(Value::from).collect();
        done(Value::Array(added))
    }

    pub(crate) fn list_shards(&self, args: &Arguments) -> Result<Table, CommandError> {
        let declared = self.context.state().records.declared.clone();
        let only = match args.get("mapping_id") {
            None => None,
            Some(given) => Some(find_map(&declared, given)?),
        };
        let columns = ["shard_id", "mapping_id", "group_id", "state", "lower_bound"];
        let mut table = Table::new(&columns);
        for (id, shard) in &declared.shards {
            if only.is_none_or(|only| only == shard.map) {
                let state = if shard.enabled { "ENABLED" } else { "DISABLED" };
                table.rows.push(vec![
                    (*id).into(),
                    shard.map.into(),
                    shard.group.as_str().into(),
                    state.into(),
                    shard.shown_bound().into(),
                ]);
            }
        }
        Ok(table)
    }

    pub(crate) async fn set_shard(
        &self,
        lead: &Lead,
        args: &Arguments,
        enabled: bool,
    ) -> Result<Table, CommandError> {
        let declared = self.context.state().records.declared.clone();
        let (id, shard) = find_shard(&declared, args)?;
        self.reshard.no_move(shard.map)?;
        if shard.enabled != enabled {
            let shard = ShardRecord {
                enabled,
                ..shard.clone()
            };
            let change = declared.change().put_shard(id, &shard);
            self.context
                .commit_as(lead, &args.author(), change.finish())
                .await?;
        }
        done(Value::Bool(true))
    }

    /// Only a disabled one, without rows.
    pub(crate) async fn remove_shard(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let declared = self.context.state().records.declared.clone();
        let (id, shard) = find_shard(&declared, args)?;
        if shard.enabled {
            return Err(CommandError::Refused(format!(
                "shard {id} is enabled; `sharding disable_shard {id}` first: its keys are refused from \
                 then on"
            )));
        }
        self.reshard.no_move(shard.map)?;
        let kind = declared.maps.get(&shard.map).map(|map| map.kind);
        let mut next = declared.clone();
        next.shards.remove(&id);
        let mut change = declared.change().remove_shard(id);
        divide_slots(&mut next, shard.map, kind.unwrap_or(ShardKind::Range));
        for (other, record) in next.shards_of(shard.map) {
            if declared.shards.get(&other) != Some(record) {
                change = change.put_shard(other, record);
            }
        }
        let map = next.map(shard.map).ok_or_else(|| no_map(shard.map))?;
        let sharded = declared.tables_of(shard.map).filter(|it| it.key.is_some());
        let sharded: Vec<TableRecord> = sharded.cloned().collect();
        let group = [shard.group.clone()];
        self.sharding.check_rows(&map, &sharded, &group).await?;
        self.context
            .commit_as(lead, &args.author(), change.finish())
            .await?;
        done(Value::Bool(true))
    }

    /// The servers for a key of a table, or for its map's global group.
    pub(crate) fn shard_servers(&self, args: &Arguments) -> Result<Table, CommandError> {
        let declared = self.context.state().records.declared.clone();
        let hint = args.get("hint").unwrap_or("LOCAL");
        let group = match hint.to_ascii_uppercase().as_str() {
            "LOCAL" => self.group_of_key(&declared, args)?,
            // Fabric takes the number of a map here.
            "GLOBAL" => {
                let id = match find_map(&declared, args.text("table_name")) {
                    Ok(id) => id,
                    Err(error) => find_named(&declared, args).map_err(|_| error)?.map,
                };
                let map = declared.maps.get(&id).ok_or_else(|| no_map(id))?;
                map.global_group.clone()
            }
            _ => return Err(args.bad("hint", hint, "LOCAL or GLOBAL")),
        };
        Ok(self.inspect.servers_of(&group, |_, _| true))
    }

    fn group_of_key(&self, declared: &Declared, args: &Arguments) -> Result<String, CommandError> {
        let record = find_named(declared, args)?;
        let map = declared.map(record.map).ok_or_else(|| no_map(record.map))?;
        let Some(of) = &record.key else {
            return Ok(map.global_group.to_string());
        };
        let given = args.get("key").unwrap_or_default();
        let of_column = match find_table(declared, args) {
            Ok(_) => of.key,
            // Nobody knows its column yet.
            Err(_) => key_of_map(&map),
        };
        let key = stored(Literal::Text(given.as_bytes()), of_column);
        let Some(key) = key.filter(|_| args.get("key").is_some()) else {
            return Err(args.bad("key", given, &format!("a value of {}", of.column)));
        };
        match locate(&map, &key) {
            Ok(at) => Ok(map.shard(at).group.to_string()),
            Err(Nowhere::OutOfRange) => Err(CommandError::Refused(format!(
                "no shard of map {} has the key {given}; `dump shard_index` shows their bounds",
                map.id
            ))),
            Err(Nowhere::Disabled { shard }) => Err(CommandError::Refused(format!(
                "the key {given} belongs to shard {shard}, which is disabled; `sharding enable_shard \
                 {shard}` enables it"
            ))),
        }
    }

    /// Deletes the rows of a table that are on a group where no statement looks for them.
    pub(crate) async fn prune_shard(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let declared = self.context.state().records.declared.clone();
        let record = find_table(&declared, args)?;
        self.reshard.no_move(record.map)?;
        let map = declared.map(record.map).ok_or_else(|| no_map(record.map))?;
        if record.key.is_none() {
            return Err(CommandError::Refused(format!(
                "{} is a global table: all its rows are on every group",
                record.full_name()
            )));
        }
        let groups = map.shards.iter().map(|shard| &*shard.group);
        let mut pruned = 0;
        for group in groups {
            let Some(condition) = rows_of(&map, group, record) else {
                continue;
            };
            let mut link = self.sharding.reach_group(lead, group).await?;
            loop {
                let rows = engine::tables::delete_others(
                    &mut link,
                    &record.database,
                    &record.table,
                    &condition,
                    PRUNED_AT_ONCE,
                    PRUNE_MS,
                )
                .await?;
                pruned += rows;
                if rows < PRUNED_AT_ONCE {
                    break;
                }
            }
        }
        done(pruned.into())
    }

    pub(crate) async fn refresh(&self, args: &Arguments) -> Result<Table, CommandError> {
        let which = match args.get("table_name") {
            None => Which::All,
            Some(_) => Which::These([table_name(args)?].into()),
        };
        let news = self.sharding.refresh_tables(&which).await;
        let news = news.map_err(CommandError::Refused)?;
        self.sharding.measure().await;
        if news && !self.context.leadership.is_alone() {
            // The other routers look, too. Nothing of the farm is changed, so anybody may write it.
            let mark = identity::uuid().map_err(|it| CommandError::Internal(it.to_string()))?;
            let tell = meta::Transaction::new().put(DEFINED, &json(&mark));
            self.context.store().commit(tell).await?;
        }
        done(Value::Bool(true))
    }

    /// What is not as it is declared, of one table or of all.
    pub(crate) async fn verify(&self, args: &Arguments) -> Result<Table, CommandError> {
        let declared = self.context.state().records.declared.clone();
        let only = match args.get("table_name") {
            None => None,
            Some(_) => Some(find_table(&declared, args)?.clone()),
        };
        let mut table = Table::new(&["mapping_id", "group_id", "what", "problem", "rows"]);
        let maps = declared.maps.keys();
        for id in maps.filter(|id| only.as_ref().is_none_or(|only| only.map == **id)) {
            let map = declared.map(*id).ok_or_else(|| no_map(id))?;
            let wanted = |table: &&TableRecord| only.as_ref().is_none_or(|only| only == *table);
            let tables: Vec<TableRecord> =
                declared.tables_of(*id).filter(wanted).cloned().collect();
            let whole = tables.iter().map(|table| table.database.clone()).collect();
            let mut push = |group: &str, what: String, problem: &str, rows: Value| {
                let group = Value::from(group);
                table
                    .rows
                    .push(vec![(*id).into(), group, what.into(), problem.into(), rows]);
            };
            for sharded in tables.iter().filter(|table| table.key.is_some()) {
                if let Some(why) = self.unfit(&map, sharded).await? {
                    let what = format!("table {}", sharded.full_name());
                    push(&map.global_group, what, &why, Value::Null);
                }
            }
            for drift in self.sharding.drift(&map, whole).await? {
                push(&drift.group, drift.what, drift.kind.name(), Value::Null);
            }
            for it in self.sharding.misplaced(&map, &tables, &[]).await? {
                let what = format!("table {}", it.table);
                push(&it.group, what, "rows of other shards", it.rows.into());
            }
            for global in tables.iter().filter(|table| table.key.is_none()) {
                for group in self.sharding.unequal(&map, global).await? {
                    let what = format!("table {}", global.full_name());
                    push(
                        &group,
                        what,
                        "other rows than the global group",
                        Value::Null,
                    );
                }
            }
        }
        let changes = self.context.state().records.changes.clone();
        for (id, change) in changes.iter().filter(|_| only.is_none()) {
            table.rows.push(vec![
                Value::Null,
                change.groups.join(",").into(),
                format!("change {id}").into(),
                "has not run on all its groups".into(),
                Value::Null,
            ]);
        }
        Ok(table)
    }

    /// Why a sharded table could not be declared as it is now.
    async fn unfit(
        &self,
        map: &ShardMap,
        table: &TableRecord,
    ) -> Result<Option<String>, CommandError> {
        let Some(key) = &table.key else {
            return Ok(None);
        };
        let mut now = key.clone();
        let checked = match self.schema_of(&map.global_group, table).await {
            Ok(Some(schema)) => check_key(&map.kind, &table.full_name(), &schema, &mut now),
            Ok(None) => {
                let full = table.full_name();
                let group = &map.global_group;
                let why = format!(
                    "group {group} has no table {full}; `sharding remove_table` it, or make it"
                );
                return Ok(Some(why));
            }
            Err(error) => Err(error),
        };
        match checked {
            Ok(()) if now.key == key.key => Ok(None),
            Ok(()) => Ok(Some(format!(
                "{} compares its values otherwise than when the table was declared; make it again, and \
                 move the rows",
                key.column
            ))),
            Err(CommandError::Refused(why)) => Ok(Some(why)),
            Err(error) => Err(error),
        }
    }
}

/// ENABLED or DISABLED; Fabric's shards begin disabled.
fn state(args: &Arguments) -> Result<bool, CommandError> {
    let given = args.get("state").unwrap_or("DISABLED");
    match given.to_ascii_uppercase().as_str() {
        "ENABLED" => Ok(true),
        "DISABLED" => Ok(false),
        _ => Err(args.bad("state", given, "ENABLED or DISABLED")),
    }
}

/// `group/bound, group/bound, …`, checked one by one.
fn groups(args: &Arguments, kind: ShardKind) -> Result<Vec<(String, String)>, CommandError> {
    let given = args.text("groupid_lb_list");
    let mut all = Vec::new();
    for part in given.split(',').map(str::trim) {
        let (group, bound) = match part.split_once('/') {
            Some((group, bound)) => (group.trim(), Some(bound.trim().to_owned())),
            None => (part, bounds::default(kind, part)),
        };
        let Some(bound) = bound.filter(|_| !group.is_empty()) else {
            let what = format!(
                "GROUP/BOUND, GROUP/BOUND, … for a map of the kind {}",
                kind.name()
            );
            return Err(args.bad("groupid_lb_list", part, &what));
        };
        bounds::read(kind, &bound)
            .map_err(|why| CommandError::Usage(format!("the bound of group {group}: {why}")))?;
        all.push((group.to_owned(), bound));
    }
    Ok(all)
}

/// One shard of a map on each group, and no key on two shards.
fn check_shard(
    declared: &Declared,
    map: u32,
    kind: ShardKind,
    new: &ShardRecord,
) -> Result<(), CommandError> {
    for (id, shard) in declared.shards_of(map) {
        if shard.group == new.group {
            return Err(CommandError::Refused(format!(
                "group {} has shard {id} of map {map} already; each shard needs a group of its own",
                new.group
            )));
        }
        let read = |text: &str| bounds::read(kind, text).ok();
        if let (Some(a), Some(b)) = (read(&shard.bound), read(&new.bound))
            && let Some(why) = bounds::overlap(&a, &b)
        {
            return Err(CommandError::Refused(format!(
                "the shard on group {} and shard {id} on group {} overlap: {why}",
                new.group, shard.group
            )));
        }
        if kind == ShardKind::List && mixed(&shard.bound, &new.bound) {
            return Err(CommandError::Refused(format!(
                "the keys of shard {id} ({}) and of the one on group {} ({}) must all be integers, or \
                 all be text",
                shard.bound, new.group, new.bound
            )));
        }
    }
    Ok(())
}

/// One list has integers, the other text.
fn mixed(a: &str, b: &str) -> bool {
    use farm::shard::{Bound, Key};
    let integers = |text: &str| match bounds::read(ShardKind::List, text) {
        Ok(Bound::Keys(keys)) => keys.iter().all(|key| matches!(key, Key::Int(_))),
        _ => false,
    };
    integers(a) != integers(b)
}

/// Gives every shard of a map of the kind SLOTS an equal part of the slots.
fn divide_slots(declared: &mut Declared, map: u32, kind: ShardKind) {
    if kind != ShardKind::Slots {
        return;
    }
    let ids: Vec<u32> = declared.shards_of(map).map(|(id, _)| id).collect();
    let end = |at: usize| at * SLOTS / ids.len().max(1);
    for (at, id) in ids.iter().enumerate() {
        if let Some(shard) = declared.shards.get_mut(id) {
            let number = |slot: usize| u16::try_from(slot).unwrap_or(u16::MAX);
            shard.slots = vec![(number(end(at)), number(end(at + 1) - 1))];
        }
    }
}
