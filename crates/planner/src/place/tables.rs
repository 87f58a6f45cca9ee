//! The farm's declarations as the planner's catalog.

use std::sync::Arc;

use farm::Sharding;
use farm::sharding::{Look, Placed};

use crate::catalog::{Catalog, Kind};

/// What is declared, and the home group.
#[derive(Clone, Copy, Debug)]
pub struct Tables<'a> {
    pub sharding: &'a Sharding,
    pub home: &'a Arc<str>,
    /// They are read only: views of which each group has its part are like tables.
    pub reads: bool,
}

impl Catalog for Tables<'_> {
    fn table(&self, database: &str, table: &str) -> Kind<'_> {
        let view = self.sharding.schema(database, table);
        if view.is_some_and(|schema| schema.view) {
            match self.sharding.look(database, table) {
                Some(Look::Plain) => {}
                Some(Look::Placed(_)) if self.reads => {}
                _ => return Kind::Opaque,
            }
        }
        match self.sharding.placed(database, table) {
            Placed::Sharded(table) => Kind::Sharded(table),
            Placed::Global(map) => Kind::Global { map },
            Placed::Group(group) => Kind::Single { group },
            Placed::Home => Kind::Single { group: self.home },
        }
    }
}
