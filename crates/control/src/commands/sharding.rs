//! Commands about shard maps and the tables on them.

mod advise;
mod sizes;

pub(super) use sizes::ShardSizes;

use super::ShardingCommands;

use engine::definitions::Extent;
use farm::shard::ShardKind;
use farm::sharding::TableSchema;
use serde_json::Value;

use super::group::{done, find_group};
use crate::leadership::lead::Lead;
use crate::sharding::key::check_key;
use crate::sharding::named::{find_map, find_named, no_map, table_name};
use crate::sharding::wanted::Which;
use catalog::command::{Arguments, CommandError, Table};
use catalog::record::{Declared, KeyRecord, MapRecord, TableRecord};

/// Longest name of a map.
const NAME_BYTES_MAX: usize = 64;

impl ShardingCommands {
    pub(crate) async fn create_definition(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let given = args.text("type_name");
        let names: Vec<&str> = ShardKind::ALL.iter().map(|kind| kind.name()).collect();
        let kind = ShardKind::parse(given)
            .ok_or_else(|| args.bad("type_name", given, &names.join(", ")))?;
        let group = args.text("group_id");
        let records = self.context.state().records.clone();
        find_group(&records, group)?;
        let name = args.get("name").unwrap_or_default();
        check_map_name(args, &records.declared, name)?;
        let map = MapRecord {
            kind,
            global_group: group.to_owned(),
            name: name.to_owned(),
        };
        let (id, change) = records.declared.change().add_map(&map);
        self.context
            .commit_as(lead, &args.author(), change.finish())
            .await?;
        done(id.into())
    }

    pub(crate) async fn remove_definition(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let declared = self.context.state().records.declared.clone();
        let id = find_map(&declared, args.text("mapping_id"))?;
        let tables = declared.named().filter(|table| table.map == id);
        let tables: Vec<String> = tables.map(TableRecord::full_name).collect();
        let shards: Vec<String> = declared
            .shards_of(id)
            .map(|(id, _)| id.to_string())
            .collect();
        if !tables.is_empty() || !shards.is_empty() {
            return Err(CommandError::Refused(format!(
                "map {id} is in use: tables [{}], shards [{}]; `sharding remove_table` and `sharding \
                 remove_shard` take them out",
                tables.join(", "),
                shards.join(", ")
            )));
        }
        let change = declared.change().remove_map(id);
        self.context
            .commit_as(lead, &args.author(), change.finish())
            .await?;
        done(Value::Bool(true))
    }

    pub(crate) async fn add_table(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let (database, table) = table_name(args)?;
        let column = args.text("column_name");
        self.declare_table(
            lead,
            args,
            TableRecord {
                database,
                table,
                map: 0,
                key: Some(KeyRecord {
                    column: column.to_owned(),
                    key: farm::shard::KeyType::Integer,
                    checked: args.switch("checked")?,
                }),
            },
        )
        .await
    }

    pub(crate) async fn add_global_table(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let (database, table) = table_name(args)?;
        self.declare_table(
            lead,
            args,
            TableRecord {
                database,
                table,
                map: 0,
                key: None,
            },
        )
        .await
    }

    /// Checks everything, makes the table on all groups, and only then declares it.
    async fn declare_table(
        &self,
        lead: &Lead,
        args: &Arguments,
        mut record: TableRecord,
    ) -> Result<Table, CommandError> {
        let declared = self.context.state().records.declared.clone();
        let id = find_map(&declared, args.text("mapping_id"))?;
        record.map = id;
        self.reshard.no_move(id)?;
        let name = (record.database.clone(), record.table.clone());
        let full = record.full_name();
        if let Some(there) = declared.tables.get(&name) {
            return Err(CommandError::Refused(format!(
                "{full} is on map {} already; `sharding remove_table {full}` takes it out",
                there.map
            )));
        }
        let map = declared.map(id).ok_or_else(|| no_map(id))?;
        let Some(schema) = self.schema_of(&map.global_group, &record).await? else {
            return self.expect_table(lead, args, &declared, record).await;
        };
        if let Some(key) = &mut record.key {
            check_key(&map.kind, &full, &schema, key)?;
        }
        // The other groups have all of a database of which they have a table by this map already.
        let mut there = declared.tables_of(id);
        let extent = match there.any(|table| table.database == record.database) {
            true => Extent::Table(record.database.clone(), record.table.clone()),
            false => Extent::Databases([record.database.clone()].into()),
        };
        self.sharding.spread(lead, &map, &extent).await?;
        let tables = [record.clone()];
        match &record.key {
            Some(_) if map.shards.is_empty() => {}
            Some(_) => self.sharding.check_rows(&map, &tables, &[]).await?,
            None => self.sharding.fill_global(&map, &record).await?,
        }
        let change = declared.change().put_table(&record);
        self.context
            .commit_as(lead, &args.author(), change.finish())
            .await?;
        let read = self
            .sharding
            .refresh_tables(&Which::These([name].into()))
            .await;
        read.map_err(CommandError::Internal)?;
        // A statement that was under way may have put a row where it no longer belongs.
        if record.key.is_some()
            && !map.shards.is_empty()
            && let Err(error) = self.sharding.check_rows(&map, &tables, &[]).await
        {
            let declared = self.context.state().records.declared.clone();
            let change = declared.change();
            let change = change.remove_table(&record.database, &record.table);
            self.context
                .commit_as(lead, &args.author(), change.finish())
                .await?;
            return Err(error);
        }
        done(Value::Bool(true))
    }

    /// Writes down where a table will be that is not made yet. CREATE TABLE through Heddle declares it then,
    /// as if its text said so; until then no statement goes by it.
    async fn expect_table(
        &self,
        lead: &Lead,
        args: &Arguments,
        declared: &Declared,
        record: TableRecord,
    ) -> Result<Table, CommandError> {
        let change = declared.change().expect_table(&record);
        self.context
            .commit_as(lead, &args.author(), change.finish())
            .await?;
        done(Value::Bool(true))
    }

    /// The table's columns as the group has them now; `None` while there is no such table.
    pub(super) async fn schema_of(
        &self,
        group: &str,
        table: &TableRecord,
    ) -> Result<Option<TableSchema>, CommandError> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let mut link = self.sharding.ask_group(group).await?;
        let (database, name) = (&table.database, &table.table);
        let read = engine::tables::schemas(&mut link, database, Some(name), timeout_ms);
        let mut all = read.await?;
        let full = table.full_name();
        let Some(schema) = all.remove(&table.table) else {
            return Ok(None);
        };
        if schema.view {
            return Err(CommandError::Refused(format!(
                "{full} is a view; declare the tables that it is made of"
            )));
        }
        let asked =
            engine::tables::engine_without_transactions(&mut link, database, name, timeout_ms);
        if let Some(engine) = asked.await? {
            return Err(CommandError::Refused(format!(
                "{full} is of engine {engine}, which keeps no transactions, and a transaction over \
                 several groups could not be undone there; ALTER TABLE … ENGINE=InnoDB"
            )));
        }
        // Rows of a sharded table are on one group each. What has to tell them apart refuses it by itself.
        if schema.primary.is_empty() && table.key.is_none() {
            return Err(CommandError::Refused(format!(
                "{full} has no primary key, and without one its rows cannot be told apart on several \
                 groups; add one (ALTER TABLE … ADD PRIMARY KEY)"
            )));
        }
        Ok(Some(schema))
    }

    pub(crate) async fn remove_table(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let declared = self.context.state().records.declared.clone();
        let record = find_named(&declared, args)?.clone();
        self.reshard.no_move(record.map)?;
        let full = record.full_name();
        let is_made = declared.tables.values().any(|table| *table == record);
        if record.key.is_some()
            && is_made
            && !args.switch("force")?
            && let Some(mut map) = declared.map(record.map)
        {
            // Only the global group will be asked then.
            let groups = map.shards.iter().map(|shard| shard.group.to_string());
            let groups: Vec<String> = groups.filter(|it| **it != *map.global_group).collect();
            map.shards.clear();
            let found = self
                .sharding
                .misplaced(&map, std::slice::from_ref(&record), &groups)
                .await?;
            let elsewhere: Vec<String> = found
                .iter()
                .filter(|it| *it.group != *map.global_group)
                .map(|it| format!("{} on group {}", it.rows, it.group))
                .collect();
            if !elsewhere.is_empty() {
                return Err(CommandError::Refused(format!(
                    "{full} has rows on other groups than {}, which nobody would find then: {}; move \
                     or delete them first, or say --force",
                    map.global_group,
                    elsewhere.join(", ")
                )));
            }
        }
        let change = declared.change();
        let change = change.remove_table(&record.database, &record.table);
        self.context
            .commit_as(lead, &args.author(), change.finish())
            .await?;
        done(Value::Bool(true))
    }

    pub(crate) fn lookup_table(&self, args: &Arguments) -> Result<Table, CommandError> {
        let declared = self.context.state().records.declared.clone();
        let record = find_named(&declared, args)?;
        let mut table = Table::new(TABLE_COLUMNS);
        table.rows.extend(table_row(&declared, record));
        Ok(table)
    }

    pub(crate) fn list_tables(&self, args: &Arguments) -> Result<Table, CommandError> {
        let only = match args.get("sharding_type") {
            None => None,
            Some(text) => Some(
                ShardKind::parse(text)
                    .ok_or_else(|| args.bad("sharding_type", text, "a kind of maps, as RANGE"))?,
            ),
        };
        let declared = self.context.state().records.declared.clone();
        let mut table = Table::new(TABLE_COLUMNS);
        for record in declared.named() {
            let kind = declared.maps.get(&record.map).map(|map| map.kind);
            if only.is_none() || only == kind {
                table.rows.extend(table_row(&declared, record));
            }
        }
        Ok(table)
    }

    pub(crate) fn list_definitions(&self) -> Table {
        let state = self.context.state();
        let mut table = Table::new(&["mapping_id", "type_name", "global_group_id", "name"]);
        for (id, map) in &state.records.declared.maps {
            table.rows.push(vec![
                (*id).into(),
                map.kind.name().into(),
                map.global_group.as_str().into(),
                map.name.as_str().into(),
            ]);
        }
        table
    }

    /// A database's undeclared tables go to a group, or back to where they would be without.
    pub(crate) async fn assign_database(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let records = self.context.state().records.clone();
        let database = args.text("database");
        let group = args.get("group_id");
        if let Some(group) = group {
            find_group(&records, group)?;
        }
        let change = records.declared.change().assign(database, group);
        self.context
            .commit_as(lead, &args.author(), change.finish())
            .await?;
        done(Value::Bool(true))
    }
}

/// Fabric's columns.
const TABLE_COLUMNS: &[&str] = &[
    "mapping_id",
    "type_name",
    "table_name",
    "global_group",
    "column_name",
];

fn table_row(declared: &Declared, record: &TableRecord) -> Option<Vec<Value>> {
    let map = declared.maps.get(&record.map)?;
    let column = record.key.as_ref().map(|key| key.column.as_str());
    Some(vec![
        record.map.into(),
        map.kind.name().into(),
        record.full_name().into(),
        map.global_group.as_str().into(),
        column.map_or(Value::Null, Value::from),
    ])
}

fn check_map_name(args: &Arguments, declared: &Declared, name: &str) -> Result<(), CommandError> {
    let number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    let odd = |c: char| c.is_control() || c.is_whitespace() || "*/'\"`".contains(c);
    if name.len() > NAME_BYTES_MAX || number || name.chars().any(odd) {
        return Err(args.bad(
            "name",
            name,
            "at most 64 letters, no number, no blanks or quotes",
        ));
    }
    let taken = |map: &MapRecord| !name.is_empty() && map.name == name;
    match declared.maps.iter().find(|(_, map)| taken(map)) {
        None => Ok(()),
        Some((id, _)) => Err(CommandError::Refused(format!(
            "map {id} has the name {name} already; choose another one"
        ))),
    }
}
