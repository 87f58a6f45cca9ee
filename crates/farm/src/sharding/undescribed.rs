//! Declared tables whose columns nobody has asked the servers for: those of a router that has just begun, and those that have
//! just been declared.
//!
//! Without its columns a statement cannot be placed rightly: which value is the shard key, who gives ids, which name is a
//! view of rows on several groups. So statements wait that name such a table, and all that name a database of which
//! nothing is known.

use super::Sharding;

impl Sharding {
    /// Says that the columns of this declared table have still to be asked for.
    pub fn leave_undescribed(&mut self, database: &str, table: &str) {
        let of = self.undescribed.entry(database.into()).or_default();
        of.insert(table.into());
    }

    /// What this name stands for has still to be asked for.
    pub fn is_undescribed(&self, database: &str, table: &str) -> bool {
        let Some(left) = self.undescribed.get(database) else {
            return false;
        };
        left.contains(table) || !self.knows_any(database)
    }

    /// There is such a table.
    pub fn has_undescribed(&self) -> bool {
        !self.undescribed.is_empty()
    }

    /// Columns of tables of this database are known, and with them its views.
    fn knows_any(&self, database: &str) -> bool {
        let of = self.databases.get(database);
        of.is_some_and(|of| of.tables.values().any(|table| table.schema.is_some()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::samples::range_map;
    use crate::sharding::{Placement, Sharding};

    #[test]
    fn a_database_of_which_nothing_is_known_is_undescribed_as_a_whole() {
        let mut sharding = Sharding::new(1, vec![range_map(7, &[("g1", 0)])]);
        for table in ["orders", "items"] {
            sharding.declare("shop", table, Placement::Global { map: 7 });
            sharding.leave_undescribed("shop", table);
        }
        assert!(sharding.has_undescribed() && sharding.is_undescribed("shop", "a_view"));
        assert!(!sharding.is_undescribed("other", "orders"));
        sharding.describe("shop", "items", Arc::default());
        assert!(sharding.is_undescribed("shop", "orders"));
        assert!(!sharding.is_undescribed("shop", "a_view"));
    }
}
