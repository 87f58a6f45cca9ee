//! `sharding advise`: which shard keys and global tables would save most of what the farm's statements move.
//!
//! Job: gather what was counted of statements on all routers, the tables' columns and sizes, have the planner
//! weigh them ([`planner::advise`]), and say the commands that carry its proposals out. Nothing is changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use farm::shard::{Bound, SLOTS, Shard, ShardIx, ShardMap};
use farm::sharding::{Placed, Sharding, TableSchema};
use farm::{Access, Engine};
use planner::advise::{
    Change, Counted, KIND, Proposal, Size, Sizes, To, Work, advise, tears_unique,
};
use serde_json::Value;
use sqltext::{Dialect, Mode, ticked};

use crate::background::Background;
use crate::commands::digest;
use crate::commands::dispatch::Commands;
use crate::commands::{ShardingCommands, digest::LIST};
use catalog::command::{Arguments, Call, CommandError, Table};

const COLUMNS: [&str; 9] = [
    "rank",
    "change",
    "bytes_saved",
    "rows_saved",
    "calls",
    "statements",
    "statement",
    "command",
    "note",
];

/// Nobody shards them.
const SYSTEM: [&str; 5] = [
    "mysql",
    "information_schema",
    "performance_schema",
    "sys",
    "heddle",
];

/// What stands for a second group where the farm has one only.
const ANOTHER: &str = "another group";

/// The name that is proposed for the first map.
const MAP: &str = "main";

impl Commands {
    /// What was counted of statements, on all routers. One that does not answer is left out.
    pub(crate) async fn counted_everywhere(&self) -> Result<Vec<Counted>, CommandError> {
        let mut call = Call::new(LIST.0, LIST.1, &[]).with(Access::Admin);
        call.options.insert("limit".to_owned(), "0".to_owned());
        let arguments = Arguments::resolve(call.spec()?, &call)?;
        let peers = self.election.roster().others.clone();
        let (own, others) = tokio::join!(
            digest::list(&self.background, &arguments),
            self.peers.ask_these(peers, &call)
        );
        let others = others.into_iter().filter_map(|(_, table)| table.ok());
        Ok(counted([own?].into_iter().chain(others)))
    }
}

/// The same text in the same database is one statement, whoever sent it.
fn counted(tables: impl Iterator<Item = Table>) -> Vec<Counted> {
    let mut all: BTreeMap<(String, String), Counted> = BTreeMap::new();
    for table in tables {
        let place = |name: &str| table.columns.iter().position(|column| column == name);
        for row in &table.rows {
            let cell = |name: &str| place(name).and_then(|at| row.get(at));
            let text = |name: &str| cell(name).and_then(Value::as_str).unwrap_or_default();
            let number = |name: &str| cell(name).and_then(Value::as_u64).unwrap_or_default();
            if text("text").is_empty() || SYSTEM.contains(&text("database")) {
                continue;
            }
            let name = (text("database").to_owned(), text("text").to_owned());
            let one = all.entry(name.clone()).or_insert_with(|| Counted {
                text: name.1,
                database: name.0,
                ..Counted::default()
            });
            one.calls += number("calls");
            one.rows_read += number("rows_read");
            one.bytes_read += number("bytes_read");
            one.rows_changed += number("rows_changed");
        }
    }
    all.into_values().collect()
}

/// Where tables are, or would be, and on which groups they may be.
struct Farm {
    sharding: Sharding,
    home: Arc<str>,
    map: u32,
    /// As commands name the map.
    map_name: String,
    groups: Vec<String>,
    fresh: bool,
    mode: Mode,
}

impl ShardingCommands {
    /// Proposals, the one that saves most first.
    pub(crate) async fn advise(
        &self,
        background: &Background,
        statements: Vec<Counted>,
    ) -> Result<Table, CommandError> {
        let mut farm = self.farm_to_advise()?;
        let databases = databases(&statements, &farm);
        let sizes = self.look(&mut farm, &databases).await?;
        background
            .in_turn(move |_| {
                let work = move || {
                    let proposals = advise(&Work {
                        sharding: &farm.sharding,
                        home: &farm.home,
                        map: farm.map,
                        mode: &farm.mode,
                        sizes: &sizes,
                        statements: &statements,
                        fresh: farm.fresh,
                    });
                    shown(&farm, &proposals)
                };
                // Statements are read on a stack of this size.
                let thread = std::thread::Builder::new().stack_size(planner::STACK_BYTES);
                let done = thread.spawn(work).map(std::thread::JoinHandle::join);
                match done {
                    Ok(Ok(table)) => Ok(table),
                    Ok(Err(_)) => {
                        Err("weighing the statements panicked; please report it".to_owned())
                    }
                    Err(error) => Err(format!("no thread to weigh the statements: {error}")),
                }
            })
            .await?
            .map_err(CommandError::Internal)
    }

    /// The farm as it is declared, or, where nothing is, with a map of slots over all its groups.
    fn farm_to_advise(&self) -> Result<Farm, CommandError> {
        let snapshot = self.context.snapshot_now();
        let home = snapshot.home().ok_or_else(|| {
            CommandError::Refused("the farm has no group yet: `group create` makes one".to_owned())
        })?;
        let dialect = match home.primary().map(|server| server.engine) {
            Some(Engine::MySql) => Mode::new(Dialect::MySql, 80_000),
            _ => Mode::new(Dialect::MariaDb, 101_100),
        };
        let groups: Vec<String> = snapshot
            .groups
            .iter()
            .map(|it| it.name.to_string())
            .collect();
        let declared = snapshot
            .sharding
            .as_ref()
            .filter(|it| !it.maps().is_empty());
        let records = self.context.state().records.clone();
        Ok(match declared {
            Some(sharding) => {
                let map = sharding.maps()[0].map.id;
                let record = records.declared.maps.get(&map);
                let name = record.map_or("", |record| &record.name);
                Farm {
                    sharding: (**sharding).clone(),
                    home: home.name.clone(),
                    map,
                    map_name: match name {
                        "" => map.to_string(),
                        name => name.to_owned(),
                    },
                    groups,
                    fresh: sharding.declared().next().is_none(),
                    mode: dialect,
                }
            }
            None => Farm {
                sharding: Sharding::new(0, vec![slots(&groups)]),
                home: home.name.clone(),
                map: 1,
                map_name: MAP.to_owned(),
                groups,
                fresh: true,
                mode: dialect,
            },
        })
    }

    /// Reads the columns of tables that nobody declared yet, and the sizes of all.
    async fn look(
        &self,
        farm: &mut Farm,
        databases: &BTreeSet<String>,
    ) -> Result<Sizes, CommandError> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let mut sizes = Sizes::new();
        for (at, group) in farm.groups.iter().enumerate() {
            let mut link = self.sharding.ask_group(group).await?;
            for database in databases {
                if at == 0 && farm.fresh {
                    let read = engine::tables::schemas(&mut link, database, None, timeout_ms);
                    for (table, schema) in read.await? {
                        let schema: Arc<TableSchema> = Arc::new(schema);
                        farm.sharding.describe(database, &table, schema);
                    }
                }
                let read = engine::tables::sizes(&mut link, database, timeout_ms).await?;
                for (table, rows, bytes) in read {
                    let parted =
                        matches!(farm.sharding.placed(database, &table), Placed::Sharded(_));
                    let size = sizes.entry((database.clone(), table)).or_default();
                    add(size, Size { rows, bytes }, parted);
                }
            }
        }
        planner::views::see(&mut farm.sharding);
        Ok(sizes)
    }
}

/// What a group has of a table: a part of its rows, or a copy of all.
fn add(size: &mut Size, more: Size, parted: bool) {
    match parted {
        true => {
            size.rows += more.rows;
            size.bytes += more.bytes;
        }
        false => {
            size.rows = size.rows.max(more.rows);
            size.bytes = size.bytes.max(more.bytes);
        }
    }
}

/// The databases that statements name, and those of declared tables.
fn databases(statements: &[Counted], farm: &Farm) -> BTreeSet<String> {
    let mut all: BTreeSet<String> = statements.iter().map(|it| it.database.clone()).collect();
    for statement in statements {
        for name in sqltext::tables(statement.text.as_bytes(), &farm.mode) {
            let database = name
                .database
                .map(|it| String::from_utf8_lossy(&it).into_owned());
            all.extend(database);
        }
    }
    let declared = farm.sharding.declared();
    all.extend(declared.map(|(database, _, _)| database.to_string()));
    all.retain(|database| !database.is_empty() && !SYSTEM.contains(&&**database));
    all
}

/// A map with a shard on each of these groups; with one only, as if there were another.
fn slots(groups: &[String]) -> ShardMap {
    let mut groups: Vec<&str> = groups.iter().map(String::as_str).collect();
    if groups.len() < 2 {
        groups.push(ANOTHER);
    }
    let shard = |(id, group): (u32, &&str)| Shard {
        id,
        group: (*group).into(),
        bound: Bound::Slots,
        enabled: true,
    };
    let count = u16::try_from(groups.len()).unwrap_or(u16::MAX);
    ShardMap {
        id: 1,
        kind: KIND,
        global_group: groups[0].into(),
        shards: (1..).zip(&groups).map(shard).collect(),
        slots: (0..count).map(ShardIx).cycle().take(SLOTS).collect(),
    }
}

fn shown(farm: &Farm, proposals: &[Proposal]) -> Table {
    let mut table = Table::new(&COLUMNS);
    if farm.fresh && !proposals.is_empty() && farm.sharding.maps()[0].map.id == 1 {
        table.rows.extend(first(farm));
    }
    for (at, proposal) in (1u64..).zip(proposals) {
        let changes = proposal.changes.iter();
        let (mut said, mut commands, mut notes) = (Vec::new(), Vec::new(), BTreeSet::new());
        for change in changes {
            said.push(change.to_string());
            let (command, note) = command(farm, change);
            commands.push(command);
            notes.extend(note);
        }
        let notes: Vec<String> = notes.into_iter().collect();
        table.rows.push(vec![
            at.into(),
            said.join(" and ").into(),
            proposal.bytes_saved.into(),
            proposal.rows_saved.into(),
            proposal.calls.into(),
            proposal.statements.into(),
            proposal.text.as_str().into(),
            commands.join("; ").into(),
            notes.join("; ").into(),
        ]);
    }
    table
}

/// What has to be there before the first table is declared.
fn first(farm: &Farm) -> Option<Vec<Value>> {
    if farm.sharding.epoch != 0 {
        return None;
    }
    let mut groups = farm.groups.clone();
    let mut note = "needed before any of the others";
    if groups.len() < 2 {
        groups.push("GROUP".to_owned());
        note = "needed before any of the others; the farm has one group only: `group create` and \
                `group add` make another";
    }
    let (kind, map) = (KIND.name(), &farm.map_name);
    let command = format!(
        "heddle sharding create_definition {kind} {} {map}; heddle sharding add_shard {map} {} ENABLED",
        farm.groups[0],
        groups.join(",")
    );
    Some(vec![
        0.into(),
        format!("make a shard map of the kind {kind}").into(),
        Value::Null,
        Value::Null,
        Value::Null,
        Value::Null,
        Value::Null,
        command.into(),
        note.into(),
    ])
}

/// What carries a change out, and what to know of it. The texts are for the SQL door; those that begin with
/// `heddle` are the same on the command line.
fn command(farm: &Farm, change: &Change) -> (String, Option<String>) {
    let (database, table, map) = (&change.database, &change.table, &farm.map_name);
    let full = format!("{database}.{table}");
    let (declare, note) = match &change.to {
        To::Global => (
            format!("heddle sharding add_global_table {map} {full}"),
            None,
        ),
        To::Key(column) => {
            let declare = format!("heddle sharding add_table {map} {full} {column}");
            let schema = farm.sharding.schema(database, table);
            match schema.is_some_and(|schema| tears_unique(schema, column)) {
                false => (declare, None),
                true => (
                    format!("{declare} --checked"),
                    Some(format!(
                        "{full} has unique keys without {column}, which each shard would keep unique for \
                         itself only: say --checked if the application sees to it, or add {column} to them"
                    )),
                ),
            }
        }
    };
    let placed = farm.sharding.placed(database, table);
    if !matches!(placed, Placed::Sharded(_) | Placed::Global(_)) {
        return (declare, note);
    }
    let kept = ticked(&format!("{table}_kept"));
    let (database, table) = (ticked(database), ticked(table));
    let (name, kept) = (format!("{database}.{table}"), format!("{database}.{kept}"));
    let still = "the table is declared otherwise already: nobody may write to it while its rows are put aside";
    let note = match note {
        Some(note) => format!("{note}; {still}"),
        None => still.to_owned(),
    };
    (
        format!(
            "CREATE TABLE {kept} LIKE {name}; INSERT INTO {kept} SELECT * FROM {name}; TRUNCATE TABLE \
             {name}; heddle sharding remove_table {full}; {declare}; INSERT INTO {name} SELECT * FROM \
             {kept}; DROP TABLE {kept}"
        ),
        Some(note),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_routers_counted_is_added_up() {
        let table = |calls: u64| Table {
            rows: vec![
                vec![
                    "SELECT ?".into(),
                    "d".into(),
                    calls.into(),
                    5.into(),
                    "g1".into(),
                ],
                vec![Value::Null, "d".into(), 1.into(), 5.into(), "g1".into()],
                vec![
                    "SELECT ?".into(),
                    "mysql".into(),
                    1.into(),
                    5.into(),
                    "g1".into(),
                ],
            ],
            ..Table::new(&["text", "database", "calls", "bytes_read", "group"])
        };
        let all = counted([table(2), table(3)].into_iter());
        assert_eq!(all.len(), 1);
        assert_eq!(
            (all[0].calls, all[0].bytes_read, all[0].rows_read),
            (5, 10, 0)
        );
    }

    #[test]
    fn parts_are_added_and_copies_are_not() {
        let one = Size { rows: 2, bytes: 30 };
        let (mut parts, mut copies) = (one, one);
        add(&mut parts, one, true);
        add(&mut copies, one, false);
        assert_eq!((parts.rows, parts.bytes, copies), (4, 60, one));
    }
}
