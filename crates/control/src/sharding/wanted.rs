//! Which tables have to be read from the servers anew: said by whoever learns of a change, taken by the reader.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

/// Which tables are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    All,
    /// These, by database and name; all of a database of which nothing is known.
    These(BTreeSet<(String, String)>),
}

impl Which {
    /// These and those.
    fn join(&mut self, more: Which) {
        match (&mut *self, more) {
            (Which::These(names), Which::These(more)) => names.extend(more),
            (all, _) => *all = Which::All,
        }
    }
}

/// The tables that have to be read anew, until somebody takes them.
#[derive(Default)]
pub(crate) struct WantedTables {
    wanted: Mutex<Option<Which>>,
    changed: Notify,
}

impl WantedTables {
    /// These may be others than before.
    pub(crate) fn want(&self, which: Which) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *wanted {
            Some(there) => there.join(which),
            none => *none = Some(which),
        }
        drop(wanted);
        self.changed.notify_one();
    }

    /// Waits until something is wanted, and takes all of it.
    pub(crate) async fn wanted(&self) -> Which {
        loop {
            self.changed.notified().await;
            let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(which) = wanted.take() {
                return which;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[(&str, &str)]) -> BTreeSet<(String, String)> {
        let named = |(database, table): &(&str, &str)| (database.to_string(), table.to_string());
        all.iter().map(named).collect()
    }

    #[test]
    fn what_is_wanted_is_joined() {
        let mut which = Which::These(names(&[("shop", "orders")]));
        which.join(Which::These(names(&[("shop", "items")])));
        let both = names(&[("shop", "orders"), ("shop", "items")]);
        assert_eq!(which, Which::These(both));
        which.join(Which::All);
        which.join(Which::These(names(&[("shop", "orders")])));
        assert_eq!(which, Which::All);
    }

    #[tokio::test]
    async fn one_reading_serves_all_that_was_wanted() {
        let tables = WantedTables::default();
        tables.want(Which::These(names(&[("shop", "orders")])));
        tables.want(Which::These(names(&[("shop", "items")])));
        let both = names(&[("shop", "orders"), ("shop", "items")]);
        assert_eq!(tables.wanted().await, Which::These(both));
        tables.want(Which::All);
        assert_eq!(tables.wanted().await, Which::All, "what was taken is gone");
    }
}
