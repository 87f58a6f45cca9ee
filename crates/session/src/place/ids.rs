//! Ids for AUTO_INCREMENT columns of tables on many groups.
//!
//! Each core takes ids in blocks from the farm, so an id is unique and an INSERT seldom waits. Ids of
//! one core grow; those of several cores and routers interleave, and what is left of a block when the
//! router ends is never used.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use farm::{ClientError, error};
use planner::place::InsertPlan;
use rustc_hash::FxHashMap;

use crate::operator::Ids;
use crate::session::Session;

/// Taken at once for a table; more where a statement has more rows.
const BLOCK: u64 = 1000;

/// The ids that a core may still give out, by `database.table`.
#[derive(Default)]
pub(crate) struct Blocks(RefCell<FxHashMap<String, Range<u64>>>);

impl Blocks {
    /// Takes so many ids that follow each other, if they are here; gives the first.
    fn take(&self, name: &str, count: u64) -> Option<u64> {
        let mut blocks = self.0.borrow_mut();
        let block = blocks.get_mut(name)?;
        let first = block.start;
        (block.end - first >= count).then(|| {
            block.start += count;
            first
        })
    }

    fn put(&self, name: &str, block: Range<u64>) {
        self.0.borrow_mut().insert(name.to_owned(), block);
    }
}

impl Session {
    /// So many ids for rows of the plan's table, one behind the other; gives the first.
    pub(super) async fn ids(
        &self,
        plan: &InsertPlan,
        count: u64,
    ) -> Result<u64, (ClientError, String)> {
        let name = format!("{}.{}", plan.database, plan.table);
        if let Some(first) = self.core.ids.take(&name, count) {
            return Ok(first);
        }
        let block = count.max(BLOCK);
        let column = plan.auto.as_ref().map(|auto| auto.column.to_string());
        let wanted = Ids {
            database: plan.database.clone(),
            table: plan.table.clone(),
            column: column.unwrap_or_default(),
            least: 0,
            count: block,
        };
        let (tell, told) = futures_channel::oneshot::channel();
        let operator = Arc::clone(&self.core.shared.operator);
        operator.take_ids(wanted, Box::new(move |taken| drop(tell.send(taken))));
        match told.await {
            Ok(Ok(first)) => {
                self.core.ids.put(&name, first + count..first + block);
                Ok(first)
            }
            Ok(Err(why)) => Err((error::IDS_UNAVAILABLE, why)),
            Err(_) => Err((error::SHUTTING_DOWN, String::new())),
        }
    }
}
