//! How many rows tables have on each group, as the servers' statistics say.
//!
//! The control plane measures from time to time; statements read what is there. The cell is the same from one
//! picture of the farm to the next, so that a new measurement makes no new picture. What it says is a guess: it may
//! choose how a statement is answered, never what the answer is.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

/// The cell that holds the last measurement.
#[derive(Default)]
pub struct TableSizes(ArcSwap<Measured>);

/// The rows of one table, by group.
type RowsOfGroups = Vec<(Arc<str>, u64)>;

/// What was measured, and when.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    databases: HashMap<Box<str>, HashMap<Box<str>, RowsOfGroups>>,
    at: Option<Instant>,
}

impl TableSizes {
    /// What was measured last; nothing at first.
    pub fn load(&self) -> Arc<Measured> {
        self.0.load_full()
    }

    /// Takes up a measurement.
    pub fn store(&self, measured: Measured) {
        self.0.store(Arc::new(measured));
    }
}

impl Measured {
    /// Nothing yet, at this moment.
    pub fn new(at: Instant) -> Measured {
        Measured {
            databases: HashMap::new(),
            at: Some(at),
        }
    }

    /// A group has so many rows of a table.
    pub fn put(&mut self, database: &str, table: &str, group: &Arc<str>, rows: u64) {
        let of = self.databases.entry(database.into()).or_default();
        let of = of.entry(table.into()).or_default();
        of.push((group.clone(), rows));
    }

    /// The rows of a table on these groups together; with `any`, on one of them that has them all. `None` where
    /// one has not been measured.
    pub fn rows(
        &self,
        (database, table): (&str, &str),
        groups: &[Arc<str>],
        any: bool,
    ) -> Option<u64> {
        let of = self.databases.get(database)?.get(table)?;
        let rows = |group: &Arc<str>| Some(of.iter().find(|(name, _)| name == group)?.1);
        match any {
            true => groups.iter().find_map(rows),
            false => groups.iter().map(rows).sum(),
        }
    }

    /// How long ago; `None` where nothing has been measured.
    pub fn age(&self) -> Option<Duration> {
        self.at.map(|at| at.elapsed())
    }
}

impl fmt::Debug for TableSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TableSizes").finish()
    }
}

/// Sizes are no part of what is declared.
impl PartialEq for TableSizes {
    fn eq(&self, _: &TableSizes) -> bool {
        true
    }
}

impl Eq for TableSizes {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_groups_are_added_up() {
        let (one, other): (Arc<str>, Arc<str>) = ("g1".into(), "g2".into());
        let mut measured = Measured::new(Instant::now());
        measured.put("shop", "orders", &one, 3);
        measured.put("shop", "orders", &other, 4);
        measured.put("shop", "items", &one, 5);
        let both = [one.clone(), other];
        assert_eq!(measured.rows(("shop", "orders"), &both, false), Some(7));
        assert_eq!(measured.rows(("shop", "orders"), &both, true), Some(3));
        assert_eq!(
            measured.rows(("shop", "orders"), &both[..1], false),
            Some(3)
        );
        assert_eq!(measured.rows(("shop", "items"), &both, false), None);
        assert_eq!(measured.rows(("shop", "items"), &both, true), Some(5));
        assert_eq!(measured.rows(("bank", "items"), &[one], false), None);
        let cell = TableSizes::default();
        assert!(cell.load().age().is_none());
        cell.store(measured);
        assert!(cell.load().age().is_some());
    }
}
