//! The farm's declarations as the planner's catalog.

use std::sync::Arc;

use farm::Sharding;
use farm::sharding::{Look, Placed};
use sqltext::{Mode, tables};

use crate::catalog::{Catalog, Kind};
use crate::views::behind::base_of;

/// What is declared, and the home group.
#[derive(Clone, Copy, Debug)]
pub struct Tables<'a> {
    pub sharding: &'a Sharding,
    pub home: &'a Arc<str>,
}

impl Tables<'_> {
    /// A text names tables of which no group has all rows. `session`: its database.
    pub fn names_shards(&self, text: &[u8], session: &str, mode: &Mode) -> bool {
        tables(text, mode).iter().any(|name| {
            let database = name.database.as_deref().map(String::from_utf8_lossy);
            let database = database.as_deref().unwrap_or(session);
            let kind = self.table(database, &String::from_utf8_lossy(&name.name));
            matches!(kind, Kind::Sharded(_) | Kind::Opaque)
        })
    }
}

impl Catalog for Tables<'_> {
    fn table(&self, database: &str, table: &str) -> Kind<'_> {
        let view = self.sharding.schema(database, table);
        if view.is_some_and(|schema| schema.view) {
            match self.sharding.look(database, table) {
                Some(Look::Plain | Look::Alone | Look::Placed(_)) => {}
                None => return Kind::Opaque,
            }
        }
        match self.sharding.placed(database, table) {
            Placed::Sharded(table) => Kind::Sharded(table),
            Placed::Global(map) => Kind::Global { map },
            Placed::Group(group) => Kind::Single { group },
            Placed::Home => Kind::Single { group: self.home },
        }
    }

    fn is_view(&self, database: &str, table: &str) -> bool {
        let view = self.sharding.schema(database, table);
        view.is_some_and(|schema| schema.view)
            && self.sharding.look(database, table) != Some(&Look::Plain)
    }

    fn is_changeable(&self, database: &str, table: &str) -> bool {
        self.is_view(database, table) && base_of(self.sharding, database, table).is_some()
    }
}
