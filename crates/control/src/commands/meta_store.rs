//! The command about the state store itself. What writes a store runs while no router does, so it
//! is no command of a router.

use crate::commands::RouterCommands;
use crate::layout::Contents;
use catalog::command::{CommandError, Table};

impl RouterCommands {
    /// Everything that the store holds of the farm.
    pub(crate) async fn meta_export(&self) -> Result<Table, CommandError> {
        let contents = Contents::read(self.context.store()).await;
        let contents = contents.map_err(|error| CommandError::Refused(error.to_string()))?;
        let mut table = Table::new(&["key", "value"]);
        for (key, value) in contents.rows() {
            table.rows.push(vec![key.into(), value.into()]);
        }
        Ok(table)
    }
}
