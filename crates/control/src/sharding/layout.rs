//! Where tables are, for the snapshot: what is declared in the store, the moves that are under way, and what the
//! servers say of the tables, put together.
//!
//! Pure, but for the word in the log about a declaration that cannot be read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use farm::Sharding;
use farm::shard::ShardedTable;
use farm::sharding::sizes::TableSizes;
use farm::sharding::{Moving, Placement, TableSchema};
use machines::reshard::Phase;
use planner::belongs::key_of_map;

use crate::sharding::wanted::Which;
use catalog::record::{Declared, Moves, Records, TableRecord};

/// The columns of tables, by database and table.
pub(crate) type Schemas = BTreeMap<(String, String), Arc<TableSchema>>;

/// Declared tables by database and name.
pub(crate) type Names = BTreeSet<(String, String)>;

/// The epochs from which on moves hold clients, by their jobs.
type Holds = BTreeMap<String, u64>;

/// What was put together last.
#[derive(Default)]
pub(crate) struct Layout {
    declared: Declared,
    pub(crate) schemas: Arc<Schemas>,
    /// Those that servers were asked for, whether they have them or not.
    pub(crate) sought: Names,
    epoch: u64,
    sharding: Option<Arc<Sharding>>,
    /// How many rows there are, the same from snapshot to snapshot.
    sizes: Arc<TableSizes>,
    moves: Vec<Moving>,
    holds: Holds,
}

impl Layout {
    /// For the snapshot.
    pub(crate) fn sharding(&self) -> Option<Arc<Sharding>> {
        self.sharding.clone()
    }

    /// Where measured sizes are put.
    pub(crate) fn sizes(&self) -> Arc<TableSizes> {
        Arc::clone(&self.sizes)
    }

    /// The epoch from which on a move holds clients; `None` while it does not.
    pub(crate) fn held_since(&self, job: &str) -> Option<u64> {
        self.holds.get(job).copied()
    }

    /// Puts it together anew where the records say something else than before; gives the tables that
    /// have to be read then.
    pub(crate) fn follow(&mut self, records: &Records) -> Option<Which> {
        let changed = self.declared != records.declared;
        let read = changed.then(|| match self.declared.changed_tables(&records.declared) {
            Some(tables) => Which::These(tables),
            None => Which::All,
        });
        let moves = moving(&records.moves, &mut self.holds, self.epoch + 1);
        if changed || moves != self.moves {
            self.declared = records.declared.clone();
            self.moves = moves;
            self.put_together();
        }
        read
    }

    /// Takes over what the servers say of the tables, and which declared ones they were asked for; true when it is news.
    pub(crate) fn describe(&mut self, schemas: Schemas, sought: Names) -> bool {
        if *self.schemas == schemas && self.sought == sought {
            return false;
        }
        self.schemas = Arc::new(schemas);
        self.sought = sought;
        self.put_together();
        true
    }

    fn put_together(&mut self) {
        self.epoch += 1;
        let sharding = together(&self.declared, &self.schemas, self.epoch);
        self.sharding = sharding.map(|mut sharding| {
            for (database, table) in undescribed(&sharding, &self.schemas, &self.sought) {
                sharding.leave_undescribed(&database, &table);
            }
            let moves = self.moves.iter().cloned();
            moves.for_each(|moving| sharding.moving(moving));
            sharding.measure_by(Arc::clone(&self.sizes));
            Arc::new(sharding)
        });
    }
}

/// The declared tables that nobody was asked for.
fn undescribed(sharding: &Sharding, schemas: &Schemas, sought: &Names) -> Names {
    let declared = sharding.declared();
    let names = declared.map(|(database, table, _)| (database.to_string(), table.to_string()));
    let is_unknown = |it: &(String, String)| !schemas.contains_key(it) && !sought.contains(it);
    names.filter(is_unknown).collect()
}

/// `None` while nothing is declared.
fn together(declared: &Declared, schemas: &Schemas, epoch: u64) -> Option<Sharding> {
    if declared.is_empty() {
        return None;
    }
    let maps = declared.maps.keys().filter_map(|&id| declared.map(id));
    let mut sharding = Sharding::new(epoch, maps.collect());
    for (id, map) in declared.maps.iter().filter(|(_, map)| !map.name.is_empty()) {
        sharding.name(*id, &map.name);
    }
    for (database, group) in &declared.databases {
        sharding.assign(database, group.as_str().into());
    }
    for record in declared.tables.values() {
        sharding.declare(&record.database, &record.table, placement(record));
    }
    for record in declared.expected.values() {
        let mut placement = placement(record);
        // Nobody knows its column yet.
        if let Placement::Sharded(table) = &mut placement
            && let Some(map) = declared.map(record.map)
        {
            table.key = key_of_map(&map);
        }
        sharding.expect(&record.database, &record.table, placement);
    }
    for ((database, table), schema) in schemas {
        sharding.describe(database, table, Arc::clone(schema));
    }
    planner::views::see(&mut sharding);
    Some(sharding)
}

/// Where a table is by its declaration.
fn placement(record: &TableRecord) -> Placement {
    match &record.key {
        None => Placement::Global { map: record.map },
        Some(key) => Placement::Sharded(ShardedTable {
            database: record.database.as_str().into(),
            table: record.table.as_str().into(),
            column: key.column.as_str().into(),
            key: key.key,
            map: record.map,
        }),
    }
}

/// What the snapshot says of moves. `holds` keeps since when they hold clients; new ones do so from
/// `epoch` on.
fn moving(moves: &Moves, holds: &mut Holds, epoch: u64) -> Vec<Moving> {
    holds.retain(|job, _| moves.get(job).is_some_and(|kept| kept.value.holds()));
    let under_way = moves
        .iter()
        .filter(|(_, kept)| !kept.value.phase().is_over());
    let told = under_way.map(|(job, kept)| {
        let record = &kept.value;
        Moving {
            job: job.as_str().into(),
            map: record.map,
            from: record.from.as_str().into(),
            to: record.to.as_str().into(),
            held_since: record
                .holds()
                .then(|| *holds.entry(job.clone()).or_insert(epoch)),
            defined: !matches!(record.phase(), Phase::Prune | Phase::Clean),
            mixed: record.mixed().map(Arc::from),
        }
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use catalog::record::{Kept, MapRecord, MoveRecord};
    use farm::shard::ShardKind;

    use super::*;

    fn with_move(phase: Phase) -> Records {
        let mut records = Records::default();
        let record = MoveRecord {
            map: 1,
            from: "a".to_owned(),
            to: "b".to_owned(),
            phase: phase.name().to_owned(),
            ..MoveRecord::default()
        };
        let kept = Kept {
            value: record,
            revision: 1,
        };
        records.moves.insert("job".to_owned(), kept);
        let home = ("shop".to_owned(), "a".to_owned());
        records.declared.databases.insert(home.0, home.1);
        records
    }

    #[test]
    fn clients_are_held_from_the_epoch_of_the_cut_on() {
        let mut layout = Layout::default();
        layout.follow(&with_move(Phase::Follow));
        let sharding = layout.sharding().expect("something is declared");
        assert_eq!(sharding.moves()[0].held_since, None);
        assert_eq!(layout.held_since("job"), None);
        layout.follow(&with_move(Phase::Cut));
        let since = layout.held_since("job").expect("it holds");
        let sharding = layout.sharding().expect("something is declared");
        assert_eq!(sharding.moves()[0].held_since, Some(since));
        // Whatever else changes meanwhile, they are held since then.
        let schema = (("shop".to_owned(), "t".to_owned()), Arc::default());
        assert!(layout.describe(Schemas::from([schema]), Names::new()));
        layout.follow(&with_move(Phase::Cut));
        assert_eq!(layout.held_since("job"), Some(since));
        layout.follow(&with_move(Phase::Done));
        assert_eq!(layout.held_since("job"), None);
        let sharding = layout.sharding().expect("something is declared");
        assert!(sharding.moves().is_empty());
    }

    #[test]
    fn what_is_declared_otherwise_is_read_anew() {
        let mut layout = Layout::default();
        let mut records = Records::default();
        assert_eq!(layout.follow(&records), None);
        let name = ("shop".to_owned(), "orders".to_owned());
        let table = TableRecord {
            database: name.0.clone(),
            table: name.1.clone(),
            map: 1,
            key: None,
        };
        records.declared.tables.insert(name.clone(), table);
        let read = layout.follow(&records);
        assert_eq!(read, Some(Which::These([name].into())));
        assert_eq!(layout.follow(&records), None, "once");
        assert!(!layout.describe(Schemas::new(), Names::new()), "no news");
    }

    #[test]
    fn a_table_is_undescribed_until_somebody_was_asked_for_it() {
        let mut layout = Layout::default();
        let mut records = Records::default();
        let map = MapRecord {
            kind: ShardKind::Hash,
            global_group: "a".to_owned(),
            name: String::new(),
        };
        records.declared.maps.insert(1, map);
        let name = |table: &str| ("shop".to_owned(), table.to_owned());
        let declare = |records: &mut Records, table: &str| {
            let record = TableRecord {
                database: "shop".to_owned(),
                table: table.to_owned(),
                map: 1,
                key: None,
            };
            records.declared.tables.insert(name(table), record);
        };
        let are_undescribed = |layout: &Layout| {
            let sharding = layout.sharding().expect("something is declared");
            ["orders", "items"].map(|table| sharding.is_undescribed("shop", table))
        };
        declare(&mut records, "orders");
        layout.follow(&records);
        assert_eq!(
            are_undescribed(&layout),
            [true, true],
            "nothing is known of the database"
        );
        // A reading that began before another table was declared.
        declare(&mut records, "items");
        layout.follow(&records);
        let orders = Schemas::from([(name("orders"), Arc::default())]);
        assert!(layout.describe(orders.clone(), [name("orders")].into()));
        assert_eq!(are_undescribed(&layout), [false, true]);
        // The servers do not have it: there is nothing to wait for.
        let sought: Names = [name("orders"), name("items")].into();
        assert!(layout.describe(orders.clone(), sought.clone()));
        assert_eq!(are_undescribed(&layout), [false, false]);
        assert!(!layout.describe(orders, sought), "no news");
    }
}
