//! Where tables are: the farm's shard maps, the tables on them, and the groups of databases.
//!
//! A farm without maps and assignments has none of this. A table that nobody declared is on the group
//! that its database is assigned to; else, when its database has tables of a map, on that map's global
//! group; else on the home group. Databases and tables are told apart by case, columns are not.

pub mod relations;
pub mod shard;
pub mod sizes;
mod undescribed;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::sharding::shard::{ShardMap, ShardedTable};
use crate::sharding::sizes::{Measured, TableSizes};

/// What is declared of the tables of a farm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sharding {
    /// Grows with every change of maps, tables, assignments and table definitions; what is cached
    /// from them is keyed by it.
    pub epoch: u64,
    /// Ordered by id.
    maps: Vec<Arc<Mapped>>,
    /// The numbers of maps that have a name for people.
    names: HashMap<Box<str>, u32>,
    databases: HashMap<Arc<str>, Database>,
    /// Parts of maps that are on their way to another group.
    moves: Vec<Moving>,
    sizes: Arc<TableSizes>,
    /// By database the declared tables whose columns have still to be asked for.
    undescribed: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
}

/// A part of a map that is on its way to another group, or has just got there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moving {
    /// Of the job that moves it.
    pub job: Arc<str>,
    pub map: u32,
    pub from: Arc<str>,
    pub to: Arc<str>,
    /// The epoch from which on no new transaction reaches the group that it leaves.
    pub held_since: Option<u64>,
    /// Definitions of the map's tables stay as they are.
    pub defined: bool,
    /// A group that has rows of the map's tables which are not its shard's.
    pub mixed: Option<Arc<str>>,
}

/// A map, and the groups that it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    pub map: ShardMap,
    /// The global group, then those of the shards in the order of the shards; each once. Global
    /// tables, databases, and the definitions of all the map's tables are on all of them.
    pub groups: Vec<Arc<str>>,
}

/// What is declared of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Its rows are where their shard keys belong.
    Sharded(ShardedTable),
    /// It is on all groups of the map, equal.
    Global { map: u32 },
}

impl Placement {
    /// The number of its map.
    pub fn map(&self) -> u32 {
        match self {
            Placement::Sharded(table) => table.map,
            Placement::Global { map } => *map,
        }
    }
}

/// Where a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed<'a> {
    Sharded(&'a ShardedTable),
    /// On all groups of the map of that number.
    Global(u32),
    /// On the group of that name.
    Group(&'a Arc<str>),
    /// On the home group.
    Home,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Database {
    /// Where its undeclared tables are, when it is not the home group.
    group: Option<Arc<str>>,
    tables: HashMap<Arc<str>, Table>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Table {
    placement: Option<Placement>,
    /// Where it will be once it is made. Statements do not go by it.
    expected: Option<Placement>,
    schema: Option<Arc<TableSchema>>,
    look: Option<Look>,
}

impl Table {
    fn placed(&self) -> Option<&Placement> {
        match (&self.placement, &self.look) {
            (Some(placement), _) | (None, Some(Look::Placed(placement))) => Some(placement),
            _ => None,
        }
    }
}

/// The columns and unique keys of a table, as the global group of its map has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableSchema {
    /// In the order of the table.
    pub columns: Vec<Column>,
    /// Places in [`TableSchema::columns`], in the order of the key; empty without a primary key.
    pub primary: Vec<u16>,
    /// The other unique keys, likewise.
    pub unique: Vec<Vec<u16>>,
    /// It is made of others.
    pub view: bool,
    /// Of a view: the query that it is, with the databases of all names.
    pub body: Option<Arc<str>>,
}

/// What a view is to those who read it, where its name may stand as a table's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// A table so placed: what each group has of it is made of what the group has of its tables.
    Placed(Placement),
    /// An undeclared table of its database.
    Plain,
    /// The same, as long as the maps of its tables have no other group.
    Alone,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: Arc<str>,
    /// `DATA_TYPE` of information_schema: `int`, `varchar`, …
    pub data_type: Arc<str>,
    /// `COLUMN_TYPE`: `int(10) unsigned`, `enum('a','b')`, …
    pub full_type: Arc<str>,
    /// Columns of text have one.
    pub collation: Option<Arc<str>>,
    pub nullable: bool,
    pub auto_increment: bool,
    /// It is computed: an INSERT does not give it.
    pub generated: bool,
    /// `SELECT *` does not show it, and an INSERT without columns does not fill it.
    pub invisible: bool,
    /// The expression that fills it where an INSERT does not; `None` for a constant.
    pub default: Option<Arc<str>>,
}

impl TableSchema {
    /// The place of the column of that name, in any case.
    pub fn column(&self, name: &str) -> Option<usize> {
        let same = |column: &Column| same_column(&column.name, name);
        self.columns.iter().position(same)
    }

    /// The column that gives ids, if there is one.
    pub fn auto_increment(&self) -> Option<&Column> {
        self.columns.iter().find(|column| column.auto_increment)
    }
}

/// These groups in their order, each where it comes first.
fn each_once<'a>(groups: impl Iterator<Item = &'a Arc<str>>) -> Vec<Arc<str>> {
    let mut known = HashSet::new();
    groups
        .filter(|group| known.insert(&***group))
        .cloned()
        .collect()
}

/// Servers compare names of columns without case.
fn same_column(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
        || (!one.is_ascii() && one.to_lowercase() == other.to_lowercase())
}

impl Mapped {
    /// With its groups.
    pub fn new(map: ShardMap) -> Mapped {
        let global = std::iter::once(&map.global_group);
        let groups = each_once(global.chain(map.shards.iter().map(|shard| &shard.group)));
        Mapped { map, groups }
    }
}

impl Sharding {
    /// Of these maps; tables and assignments are added. `epoch` is the caller's.
    pub fn new(epoch: u64, maps: Vec<ShardMap>) -> Sharding {
        let mut maps: Vec<Arc<Mapped>> = maps
            .into_iter()
            .map(|map| Arc::new(Mapped::new(map)))
            .collect();
        maps.sort_by_key(|mapped| mapped.map.id);
        Sharding {
            epoch,
            maps,
            names: HashMap::new(),
            databases: HashMap::new(),
            moves: Vec::new(),
            sizes: Arc::default(),
            undescribed: HashMap::new(),
        }
    }

    /// The same of these tables alone, by database and name.
    pub fn only<'n>(&self, tables: impl Iterator<Item = (&'n str, &'n str)>) -> Sharding {
        let mut only = Sharding {
            epoch: self.epoch,
            maps: self.maps.clone(),
            moves: self.moves.clone(),
            sizes: self.sizes.clone(),
            ..Sharding::default()
        };
        for (database, table) in tables {
            let Some(of) = self.databases.get(database) else {
                continue;
            };
            let known = only.databases.entry(database.into()).or_default();
            known.group.clone_from(&of.group);
            if let Some(described) = of.tables.get(table) {
                known.tables.insert(table.into(), described.clone());
            }
        }
        only
    }

    /// Where the sizes of its tables are found.
    pub fn measure_by(&mut self, sizes: Arc<TableSizes>) {
        self.sizes = sizes;
    }

    /// How many rows tables have, as it was measured last.
    pub fn measured(&self) -> Arc<Measured> {
        self.sizes.load()
    }

    /// Says that a part of a map is on its way.
    pub fn moving(&mut self, moving: Moving) {
        self.moves.push(moving);
    }

    /// The parts of maps that are on their way.
    pub fn moves(&self) -> &[Moving] {
        &self.moves
    }

    /// The move that keeps transactions of this epoch from a group.
    pub fn held(&self, group: &str, epoch: u64) -> Option<&Moving> {
        let holds = |it: &&Moving| {
            it.held_since.is_some_and(|since| since <= epoch)
                && (*it.from == *group || *it.to == *group)
        };
        self.moves.iter().find(holds)
    }

    /// The group has rows of this map's tables that are not its shard's: whoever asks for all rows
    /// there must say which.
    pub fn is_mixed(&self, map: u32, group: &str) -> bool {
        let mixes = |it: &Moving| it.map == map && it.mixed.as_deref() == Some(group);
        self.moves.iter().any(mixes)
    }

    /// Gives a map a name.
    pub fn name(&mut self, map: u32, name: &str) {
        self.names.insert(name.into(), map);
    }

    /// Declares a table. One whose map does not exist is left out.
    pub fn declare(&mut self, database: &str, table: &str, placement: Placement) {
        let Some(global) = self
            .map(placement.map())
            .map(|mapped| mapped.map.global_group.clone())
        else {
            return;
        };
        let of = self.databases.entry(database.into()).or_default();
        of.group.get_or_insert(global);
        of.tables.entry(table.into()).or_default().placement = Some(placement);
    }

    /// Says where a table will be that is not made yet. One whose map does not exist is left out.
    pub fn expect(&mut self, database: &str, table: &str, placement: Placement) {
        if self.map(placement.map()).is_none() {
            return;
        }
        let of = self.databases.entry(database.into()).or_default();
        of.tables.entry(table.into()).or_default().expected = Some(placement);
    }

    /// Where a table is, or will be, by its own declaration: for those who ask, not for statements.
    pub fn named(&self, database: &str, table: &str) -> Option<&Placement> {
        let table = self.databases.get(database)?.tables.get(table)?;
        table.placement.as_ref().or(table.expected.as_ref())
    }

    /// What was said of a table that is not made yet.
    pub fn expected(&self, database: &str, table: &str) -> Option<&Placement> {
        let table = self.databases.get(database)?.tables.get(table)?;
        table
            .expected
            .as_ref()
            .filter(|_| table.placement.is_none())
    }

    /// All tables that are declared or expected, in no order: database, table, placement.
    pub fn all_named(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, &Placement)> {
        self.databases.iter().flat_map(|(database, of)| {
            of.tables.iter().filter_map(move |(name, table)| {
                let placement = table.placement.as_ref().or(table.expected.as_ref())?;
                Some((database, name, placement))
            })
        })
    }

    /// Puts the undeclared tables of a database on a group.
    pub fn assign(&mut self, database: &str, group: Arc<str>) {
        self.databases.entry(database.into()).or_default().group = Some(group);
    }

    /// Tells a table's columns.
    pub fn describe(&mut self, database: &str, table: &str, schema: Arc<TableSchema>) {
        let of = self.databases.entry(database.into()).or_default();
        of.tables.entry(table.into()).or_default().schema = Some(schema);
    }

    /// Tells what a view is like.
    pub fn see(&mut self, database: &str, view: &str, look: Look) {
        let of = self.databases.entry(database.into()).or_default();
        of.tables.entry(view.into()).or_default().look = Some(look);
    }

    /// What a view is like; `None` also for tables.
    pub fn look(&self, database: &str, view: &str) -> Option<&Look> {
        self.databases
            .get(database)?
            .tables
            .get(view)?
            .look
            .as_ref()
    }

    /// The map of that number.
    pub fn map(&self, id: u32) -> Option<&Arc<Mapped>> {
        let at = self.maps.binary_search_by_key(&id, |mapped| mapped.map.id);
        at.ok().map(|at| &self.maps[at])
    }

    /// The map of that number or name.
    pub fn map_called(&self, text: &str) -> Option<&Arc<Mapped>> {
        let by_number = text.parse().ok().and_then(|id| self.map(id));
        by_number.or_else(|| self.map(*self.names.get(text)?))
    }

    /// All maps, by their numbers.
    pub fn maps(&self) -> &[Arc<Mapped>] {
        &self.maps
    }

    /// Where a table is.
    pub fn placed(&self, database: &str, table: &str) -> Placed<'_> {
        let Some(of) = self.databases.get(database) else {
            return Placed::Home;
        };
        match of.tables.get(table).and_then(Table::placed) {
            Some(Placement::Sharded(table)) => Placed::Sharded(table),
            Some(Placement::Global { map }) => Placed::Global(*map),
            None => of.group.as_ref().map_or(Placed::Home, Placed::Group),
        }
    }

    /// The columns of a table, when they are known: those of declared tables are unless they are
    /// [undescribed](Sharding::is_undescribed), and those of the other tables and views on the maps' global groups.
    pub fn schema(&self, database: &str, table: &str) -> Option<&Arc<TableSchema>> {
        let of = self.databases.get(database)?;
        of.tables.get(table)?.schema.as_ref()
    }

    /// Where undeclared tables of a database are; `None` for the home group.
    pub fn database(&self, database: &str) -> Option<&Arc<str>> {
        self.databases.get(database)?.group.as_ref()
    }

    /// All groups that have a part: `home`, those of the maps and of the assigned databases; each once.
    pub fn groups(&self, home: &Arc<str>) -> Vec<Arc<str>> {
        let maps = self.maps.iter().flat_map(|mapped| &mapped.groups);
        let databases = self.databases.values().filter_map(|of| of.group.as_ref());
        each_once(std::iter::once(home).chain(maps).chain(databases))
    }

    /// The groups on which the definitions of a database are: that of its undeclared tables, then those
    /// of the maps that have tables of it; each once.
    pub fn groups_of(&self, database: &str, home: &Arc<str>) -> Vec<Arc<str>> {
        let Some(of) = self.databases.get(database) else {
            return vec![home.clone()];
        };
        // Many tables are of one map.
        let placed = of
            .tables
            .values()
            .filter_map(|table| table.placement.as_ref());
        let maps: BTreeSet<u32> = placed.map(Placement::map).collect();
        let maps = maps.into_iter().filter_map(|map| self.map(map));
        let own = std::iter::once(of.group.as_ref().unwrap_or(home));
        let mut all = each_once(own.chain(maps.flat_map(|mapped| &mapped.groups)));
        // In one order, whatever that of the tables is.
        all[1..].sort();
        all
    }

    /// True for a database that has declared tables.
    pub fn has_declared(&self, database: &str) -> bool {
        self.databases
            .get(database)
            .is_some_and(|of| of.tables.values().any(|table| table.placement.is_some()))
    }

    /// All tables and views whose columns are known, in no order: database, name, columns.
    pub fn described(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, &Arc<TableSchema>)> {
        self.databases.iter().flat_map(|(database, of)| {
            let tables = of.tables.iter();
            tables.filter_map(move |(name, table)| Some((database, name, table.schema.as_ref()?)))
        })
    }

    /// All declared tables, in no order: database, table, placement.
    pub fn declared(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, &Placement)> {
        self.databases.iter().flat_map(|(database, of)| {
            let tables = of.tables.iter();
            tables
                .filter_map(move |(name, table)| Some((database, name, table.placement.as_ref()?)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{range_map, sharded};

    fn farm() -> Sharding {
        let mut sharding = Sharding::new(1, vec![range_map(7, &[("g2", 0), ("g1", 100)])]);
        let orders = sharded("shop", "orders", "customer_id", 7);
        sharding.declare("shop", "orders", orders);
        sharding.declare("shop", "products", Placement::Global { map: 7 });
        sharding.assign("logs", "g3".into());
        sharding
    }

    #[test]
    fn tables_are_where_they_were_declared_or_where_their_database_is() {
        let sharding = farm();
        assert!(matches!(
            sharding.placed("shop", "orders"),
            Placed::Sharded(table) if &*table.column == "customer_id"
        ));
        assert_eq!(sharding.placed("shop", "products"), Placed::Global(7));
        let group = |database: &str, table: &str| match sharding.placed(database, table) {
            Placed::Group(group) => group.to_string(),
            other => format!("{other:?}"),
        };
        assert_eq!(group("shop", "notes"), "g1");
        assert_eq!(group("logs", "lines"), "g3");
        assert_eq!(group("other", "orders"), "Home");
        assert!(sharding.has_declared("shop") && !sharding.has_declared("logs"));
        assert_eq!(sharding.declared().count(), 2);
        let mapped = sharding.map(7).expect("it was given");
        assert_eq!(mapped.groups, ["g1".into(), "g2".into()]);
        assert_eq!(sharding.map(1), None);
    }

    #[test]
    fn an_assignment_is_stronger_than_a_map() {
        let mut sharding = farm();
        sharding.assign("shop", "g2".into());
        sharding.declare("shop", "more", Placement::Global { map: 7 });
        let group: Arc<str> = "g2".into();
        assert_eq!(sharding.placed("shop", "notes"), Placed::Group(&group));
        sharding.declare("shop", "lost", Placement::Global { map: 9 });
        assert_eq!(sharding.placed("shop", "lost"), Placed::Group(&group));
    }
}
