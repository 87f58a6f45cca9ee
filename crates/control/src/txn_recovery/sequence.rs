//! Ids for AUTO_INCREMENT columns of sharded and global tables, which sessions ask for in blocks.

use std::sync::Arc;

use engine::sequence;
use farm::sharding::{Mapped, Placed};

use crate::context::Context;
use crate::links::Links;
use crate::txn_recovery::TxnRecovery;

/// Ids that a session wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedIds {
    pub database: String,
    pub table: String,
    pub column: String,
    /// They are not below this.
    pub least: u64,
    pub count: u64,
    /// Where nobody has asked for ids of the table yet, nobody need: 0 is the answer.
    pub only_known: bool,
}

/// Takes the first of the ids, or why there are none, on the control thread; must not block.
pub type Taken = Box<dyn FnOnce(Result<u64, String>) + Send>;

/// Gives out ids of tables that lie on several groups.
pub(crate) struct Sequences {
    context: Arc<Context>,
    links: Arc<Links>,
    txn_recovery: Arc<TxnRecovery>,
}

impl Sequences {
    pub(crate) fn new(
        context: &Arc<Context>,
        links: &Arc<Links>,
        txn_recovery: &Arc<TxnRecovery>,
    ) -> Sequences {
        Sequences {
            context: Arc::clone(context),
            links: Arc::clone(links),
            txn_recovery: Arc::clone(txn_recovery),
        }
    }
}

impl Sequences {
    /// Takes a block of ids, which nobody else gets.
    pub(crate) async fn take_ids(&self, wanted: &WantedIds) -> Result<u64, String> {
        let snapshot = self.context.snapshot_now();
        let sharding = snapshot.sharding.as_ref().ok_or("no table is sharded")?;
        let map = match sharding.placed(&wanted.database, &wanted.table) {
            Placed::Sharded(table) => table.map,
            Placed::Global(map) => map,
            Placed::Group(_) | Placed::Home => return Err("the table is on one group".to_owned()),
        };
        let mapped = sharding.map(map).ok_or("its shard map is gone")?.clone();
        let name = format!("{}.{}", wanted.database, wanted.table);
        for _ in 0..2 {
            if let Some(first) = self.take_block(&mapped, &name, wanted).await? {
                return Ok(first);
            }
            if wanted.only_known {
                return Ok(0);
            }
            self.begin_ids(&mapped, &name, wanted).await?;
        }
        Err("its row in heddle.sequence was removed meanwhile".to_owned())
    }

    /// `None` when nothing is known of the table yet.
    async fn take_block(
        &self,
        mapped: &Mapped,
        name: &str,
        wanted: &WantedIds,
    ) -> Result<Option<u64>, String> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let home = self.writable_server(&mapped.map.global_group)?;
        let mut link = self.links.lend(home).await.map_err(text)?;
        let (least, count) = (wanted.least, wanted.count);
        let taken = sequence::take(&mut link, name, least, count, timeout_ms).await;
        link.keep(taken).map_err(text)
    }

    /// Begins behind the greatest id that any group has.
    async fn begin_ids(
        &self,
        mapped: &Mapped,
        name: &str,
        wanted: &WantedIds,
    ) -> Result<(), String> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let mut next = 1;
        for group in &mapped.groups {
            let mut link = self
                .links
                .lend(self.writable_server(group)?)
                .await
                .map_err(text)?;
            let names = [&*wanted.database, &wanted.table, &wanted.column];
            let greatest = sequence::greatest(&mut link, names, timeout_ms).await;
            let greatest = link.keep(greatest).map_err(text)?;
            next = greatest.saturating_add(1).max(next);
        }
        let home = self.writable_server(&mapped.map.global_group)?;
        let mut link = self.links.lend(home).await.map_err(text)?;
        let begun = sequence::begin(&mut link, name, next, timeout_ms).await;
        link.keep(begun).map_err(text)?;
        tracing::info!(table = name, next, "ids of a table on many groups begin");
        Ok(())
    }

    fn writable_server(&self, group: &str) -> Result<u32, String> {
        let found = self.txn_recovery.writable(|it| *it.name == *group);
        let none = || format!("group {group} has no primary that takes writes");
        Ok(found.ok_or_else(none)?.1.0)
    }
}

fn text(error: engine::Error) -> String {
    error.to_string()
}
