//! Up to where a group's binlog has changed each table, so that a read need only wait for what was written
//! to its own tables.
//!
//! A clock runs while a router reads the group's binlog; without one a read needs everything. What is
//! not known counts for all tables: transactions before the clock began, DDL, statements instead of
//! rows, tables that there is no room for. Names are told apart by their last part alone, in lower
//! case: two tables of one name are one. Foreign keys that change other tables and names behind which
//! other tables stand (views) are known as of everything that was read, else the clock stands.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use farm::Position;
use farm::relations::Relations;

/// Tables of one group whose changes are told apart.
const TABLES_MAX: usize = 10_000;

/// A clock that nobody has asked for so long need not run.
const WANTED_US: u64 = 10_000_000;

/// What a transaction changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// Rows of these tables.
    Tables(HashSet<u64>),
    Anything,
}

#[derive(Debug)]
struct Running {
    /// All that was read.
    read: Position,
    /// Reads of any table need this.
    all: Position,
    tables: HashMap<u64, Position>,
    /// `None` while they may be other ones.
    relations: Option<Relations>,
}

/// The clock of one group.
#[derive(Debug, Default)]
pub struct TableClock {
    running: Mutex<Option<Running>>,
    wanted_us: AtomicU64,
}

impl TableClock {
    /// The binlog is read from here on.
    pub fn start(&self, from: Position) {
        *self.lock() = Some(Running {
            read: from.clone(),
            all: from,
            tables: HashMap::new(),
            relations: None,
        });
    }

    /// Nothing is read any more.
    pub fn stop(&self) {
        *self.lock() = None;
    }

    /// Relations were looked at, and everything that was there before the look has been read; or they may
    /// be other ones.
    pub fn relate(&self, relations: Option<Relations>) {
        if let Some(running) = &mut *self.lock() {
            running.relations = relations;
        }
    }

    /// A transaction was read.
    pub fn tick(&self, transaction: &Position, changed: Changed) {
        let mut running = self.lock();
        let Some(running) = &mut *running else { return };
        running.read.join(transaction);
        let read = Some(&running.read);
        match (changed, &running.relations) {
            (Changed::Tables(tables), Some(relations)) => {
                let all = tables.iter().map(|table| relations.changed_with(*table));
                for table in all.flatten().collect::<HashSet<u64>>() {
                    match running.tables.get_mut(&table) {
                        Some(known) => known.join_among(transaction, read),
                        None => drop(running.tables.insert(table, transaction.clone())),
                    }
                }
            }
            _ => running.all.join_among(transaction, read),
        }
        if running.tables.len() > TABLES_MAX {
            for (_, position) in running.tables.drain() {
                running.all.join_among(&position, read);
            }
        }
    }

    /// What of `floor` a read of these tables needs; `None` where that may be all of it.
    pub fn narrowed(&self, floor: &Position, tables: &[u64]) -> Option<Position> {
        let running = self.lock();
        let running = running.as_ref()?;
        let relations = running.relations.as_ref()?;
        let indirect = |table: &u64| relations.indirect.contains(table);
        if tables.is_empty() || tables.iter().any(indirect) || !running.read.covers(floor) {
            return None;
        }
        let mut changed = running.all.clone();
        for table in tables {
            if let Some(position) = running.tables.get(table) {
                changed.join(position);
            }
        }
        Some(floor.meet(&changed))
    }

    /// Somebody could use it.
    pub fn want(&self, now_us: u64) {
        self.wanted_us.store(now_us.max(1), Relaxed);
    }

    /// True while somebody wants it.
    pub fn is_wanted(&self, now_us: u64) -> bool {
        let wanted_us = self.wanted_us.load(Relaxed);
        wanted_us > 0 && now_us.saturating_sub(wanted_us) <= WANTED_US
    }

    /// Every step is whole, whatever its holder did.
    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The clocks of all groups, by their names.
#[derive(Debug, Default)]
pub struct TableClocks {
    by_group: Mutex<HashMap<Arc<str>, Arc<TableClock>>>,
}

impl TableClocks {
    /// The clock of this group.
    pub fn of(&self, group: &str) -> Arc<TableClock> {
        let mut clocks = self.by_group.lock().unwrap_or_else(PoisonError::into_inner);
        match clocks.get(group) {
            Some(clock) => Arc::clone(clock),
            None => Arc::clone(clocks.entry(group.into()).or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farm::Engine;
    use farm::relations::table_number;

    fn at(sequence: u64) -> Position {
        Position::parse(Engine::MariaDb, &format!("0-1-{sequence}")).expect("a position")
    }

    fn n(name: &str) -> u64 {
        table_number(name.as_bytes()).expect("ASCII")
    }

    fn tables(names: &[&str]) -> Changed {
        Changed::Tables(names.iter().map(|name| n(name)).collect())
    }

    /// A clock from 10 on; `v` is a view, and rows of `child` go with those of `parent`.
    fn clock() -> TableClock {
        let clock = TableClock::default();
        clock.start(at(10));
        clock.relate(Some(Relations {
            indirect: HashSet::from([n("v")]),
            cascades: HashMap::from([
                (n("parent"), vec![n("child")]),
                (n("child"), vec![n("grandchild"), n("parent")]),
            ]),
        }));
        clock
    }

    #[test]
    fn a_read_needs_what_was_written_to_its_tables() {
        let clock = clock();
        let needs = |floor, names: &[&str]| {
            let names: Vec<u64> = names.iter().map(|name| n(name)).collect();
            clock.narrowed(&at(floor), &names)
        };
        clock.tick(&at(11), tables(&["a"]));
        clock.tick(&at(12), tables(&["b", "c"]));
        assert_eq!(needs(12, &["a"]), Some(at(11)));
        assert_eq!(needs(12, &["B"]), Some(at(12)));
        assert_eq!(needs(12, &["a", "c"]), Some(at(12)));
        assert_eq!(needs(12, &["d"]), Some(at(10)), "from before the clock");
        // What others wrote later is not needed.
        clock.tick(&at(13), tables(&["a"]));
        assert_eq!(needs(12, &["a"]), Some(at(12)));
        // Not read yet, named nowhere, or a view.
        assert_eq!(needs(14, &["a"]), None);
        assert_eq!(needs(12, &[]), None);
        assert_eq!(needs(12, &["a", "v"]), None);
        clock.tick(&at(14), Changed::Anything);
        assert_eq!(needs(14, &["d"]), Some(at(14)));
        clock.stop();
        assert_eq!(needs(14, &["d"]), None);
    }

    #[test]
    fn rows_that_go_with_others_count_for_their_tables() {
        let clock = clock();
        clock.tick(&at(11), tables(&["parent"]));
        for (name, needed) in [("child", 11), ("grandchild", 11), ("other", 10)] {
            assert_eq!(
                clock.narrowed(&at(11), &[n(name)]),
                Some(at(needed)),
                "{name}"
            );
        }
        // After DDL nobody knows until somebody has looked; what came between counts for all.
        clock.relate(None);
        clock.tick(&at(12), tables(&["a"]));
        assert_eq!(clock.narrowed(&at(11), &[n("a")]), None);
        clock.relate(Some(Relations::default()));
        assert_eq!(clock.narrowed(&at(12), &[n("b")]), Some(at(12)));
    }

    #[test]
    fn many_tables_are_all() {
        let clock = clock();
        for table in 0..=TABLES_MAX as u64 {
            clock.tick(&at(11 + table), Changed::Tables(HashSet::from([table])));
        }
        let last = at(11 + TABLES_MAX as u64);
        assert_eq!(clock.narrowed(&last, &[3]), Some(last.clone()));
        assert!(clock.lock().as_ref().expect("it runs").tables.is_empty());
    }

    #[test]
    fn names_that_servers_may_fold_are_none() {
        assert_eq!(table_number(b"Orders"), table_number(b"orders"));
        assert_eq!(table_number("Größe".as_bytes()), None);
    }
}
