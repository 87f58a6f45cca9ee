//! Global tables: equal on all groups of their map.

use engine::tables;
use farm::shard::ShardMap;
use farm::sharding::Mapped;

use crate::sharding::ShardedTables;
use catalog::command::CommandError;
use catalog::record::TableRecord;

/// A table is read for so long, at most.
const READ_MS: u64 = 3_600_000;

impl ShardedTables {
    /// Fills the table on groups where it is empty with the rows that the global group has.
    ///
    /// # Errors
    /// A group has other rows.
    pub(crate) async fn fill_global(
        &self,
        map: &ShardMap,
        table: &TableRecord,
    ) -> Result<(), CommandError> {
        let (database, name) = (&table.database, &table.table);
        let mut global = self.ask_group(&map.global_group).await?;
        let (sum, _) = tables::checksum(&mut global, database, name, READ_MS).await?;
        let timeout_ms = self.context.settings().step_timeout_ms;
        for group in &Mapped::new(map.clone()).groups[1..] {
            let mut link = self.ask_group(group).await?;
            let (other, some) = tables::checksum(&mut link, database, name, READ_MS).await?;
            if other == sum {
                continue;
            }
            if some {
                return Err(CommandError::Refused(format!(
                    "group {group} has other rows of {database}.{name} than group {}; empty it on one \
                     of them: a global table is the same everywhere",
                    map.global_group
                )));
            }
            // Not a step of a leader, who might have been replaced meanwhile: to fill an empty table
            // twice fails.
            let from = self.login_of(&map.global_group)?;
            let to = self.login_of(group)?;
            engine::copy::copy_table(&from, &to, database, name, timeout_ms).await?;
        }
        Ok(())
    }

    /// The groups on which a global table is not as on the map's global group.
    pub(crate) async fn unequal(
        &self,
        map: &ShardMap,
        table: &TableRecord,
    ) -> Result<Vec<String>, CommandError> {
        let (database, name) = (&table.database, &table.table);
        let mut global = self.ask_group(&map.global_group).await?;
        let (sum, _) = tables::checksum(&mut global, database, name, READ_MS).await?;
        let mut all = Vec::new();
        for group in &Mapped::new(map.clone()).groups[1..] {
            let mut link = self.ask_group(group).await?;
            let (other, _) = tables::checksum(&mut link, database, name, READ_MS).await?;
            if other != sum {
                all.push(group.to_string());
            }
        }
        Ok(all)
    }
}
