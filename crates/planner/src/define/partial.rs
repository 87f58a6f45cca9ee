//! Views, and tables made of a query, in databases that are on one group: they must not be made of what
//! that group has of a table's rows.

use super::{Around, Defines, Reader, Then};
use crate::place::Tables;

impl Reader<'_> {
    /// CREATE VIEW, ALTER VIEW.
    pub(super) fn view(&self, at: usize) -> Defines {
        let names = self.names(at + 1);
        match names.first().map(|name| &*name.0) {
            Some(database) if self.reads_shards(database) => Defines::Refused(format!(
                "the rows of its tables are on several groups, and database {database} is on one: make the \
                 view in a database with declared tables"
            )),
            _ => self.on(&names, Then::Nothing),
        }
    }

    /// A definition in a database without declared tables names some whose rows are on several groups.
    pub(super) fn reads_shards(&self, database: &str) -> bool {
        let Around { sharding, home, .. } = *self.around;
        let tables = Tables { sharding, home };
        let Around {
            database: session,
            mode,
            ..
        } = *self.around;
        !sharding.has_declared(database) && tables.names_shards(self.text, session, mode)
    }
}
