//! Ids for AUTO_INCREMENT columns of tables on many groups.
//!
//! Each core takes ids in blocks from the farm, so an id is unique and an INSERT seldom waits. Ids of
//! one core grow; those of several cores and routers interleave, and what is left of a block when the
//! router ends is never used.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use farm::{ClientError, error};
use planner::load::IdsOf;
use planner::place::{Goes, InsertPlan, Plan, Spot, Statement};
use rustc_hash::FxHashMap;

use crate::introspection::operator::Ids;
use crate::per_core::Core;

/// Taken at once for a table; more where a statement has more rows.
const BLOCK: u64 = 1000;

/// A core that has no ids of a table passes so many ids that clients chose, before it asks again
/// whether anybody has.
const PASSED_MAX: u64 = 1000;

/// The ids that a core may still give out, by `database.table`.
#[derive(Default)]
pub(crate) struct Blocks(RefCell<FxHashMap<Box<str>, Block>>);

enum Block {
    Ids(Range<u64>),
    /// Nobody had asked for ids of the table. So many chosen ones may pass without asking.
    Unused(u64),
}

impl Blocks {
    /// Takes so many ids that follow each other, if they are here; gives the first.
    fn take(&self, name: &str, count: u64) -> Option<u64> {
        let mut blocks = self.0.borrow_mut();
        let Block::Ids(block) = blocks.get_mut(name)? else {
            return None;
        };
        let first = block.start;
        (block.end - first >= count).then(|| {
            block.start += count;
            first
        })
    }

    fn put(&self, name: &str, block: Block) {
        self.0.borrow_mut().insert(name.into(), block);
    }

    /// Takes note of an id that a client chose. False when the farm must hear of it, too, since it
    /// is above what this core knows.
    pub fn pass(&self, name: &str, id: u64) -> bool {
        let mut blocks = self.0.borrow_mut();
        match blocks.get_mut(name) {
            Some(Block::Ids(block)) if id < block.end => {
                block.start = block.start.max(id + 1);
                true
            }
            Some(Block::Unused(left)) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }
}

/// The greatest id that an INSERT brings along, where the farm must hear of it first: the ids
/// that it gives out are to be greater.
#[inline]
pub(super) fn unheard_id(
    core: &Core,
    plan: &Plan,
    spot: &Spot,
    statement: &Statement<'_>,
) -> Option<u64> {
    let Goes::Insert(insert) = &plan.goes else {
        return None;
    };
    let goes = matches!(spot, Spot::Group(_) | Spot::Rows(_) | Spot::Same(_));
    let id = goes.then(|| insert.chosen_id(statement)).flatten()?;
    (!core.ids.pass(&insert.name, id)).then_some(id)
}

/// So many ids for rows of the plan's table, one behind the other; gives the first.
pub(super) async fn ids(
    core: &Core,
    plan: &InsertPlan,
    count: u64,
) -> Result<u64, (ClientError, String)> {
    if let Some(first) = core.ids.take(&plan.name, count) {
        return Ok(first);
    }
    ids_of(core, &of(plan), count).await
}

/// The same for rows of any table.
pub(crate) async fn ids_of(
    core: &Core,
    of: &IdsOf,
    count: u64,
) -> Result<u64, (ClientError, String)> {
    let name = format!("{}.{}", of.database, of.table);
    if let Some(first) = core.ids.take(&name, count) {
        return Ok(first);
    }
    let block = count.max(BLOCK);
    let first = take_ids(core, of, 0, block, false).await?;
    let left = first + count..first + block;
    core.ids.put(&name, Block::Ids(left));
    Ok(first)
}

/// A file's rows brought ids along, up to this one: those that the farm gives out are to be
/// greater.
pub(crate) async fn hear_ids(
    core: &Core,
    of: &IdsOf,
    id: u64,
) -> Result<(), (ClientError, String)> {
    let name = format!("{}.{}", of.database, of.table);
    match core.ids.pass(&name, id) {
        true => Ok(()),
        false => raise(core, of, &name, id).await,
    }
}

/// Has the farm give no ids up to this one, which a client chose.
pub(super) async fn raise_ids(
    core: &Core,
    plan: &InsertPlan,
    id: u64,
) -> Result<(), (ClientError, String)> {
    raise(core, &of(plan), &plan.name, id).await
}

async fn raise(core: &Core, of: &IdsOf, name: &str, id: u64) -> Result<(), (ClientError, String)> {
    let first = take_ids(core, of, id + 1, BLOCK, true).await?;
    let block = match first {
        0 => Block::Unused(PASSED_MAX),
        first => Block::Ids(first..first + BLOCK),
    };
    core.ids.put(name, block);
    Ok(())
}

async fn take_ids(
    core: &Core,
    of: &IdsOf,
    least: u64,
    count: u64,
    only_known: bool,
) -> Result<u64, (ClientError, String)> {
    let wanted = Ids {
        database: of.database.clone(),
        table: of.table.clone(),
        column: of.column.clone(),
        least,
        only_known,
        count,
    };
    let (tell, told) = futures_channel::oneshot::channel();
    let operator = Arc::clone(&core.shared.operator);
    operator.take_ids(wanted, Box::new(move |taken| drop(tell.send(taken))));
    match told.await {
        Ok(Ok(first)) => Ok(first),
        Ok(Err(why)) => Err((error::IDS_UNAVAILABLE, why)),
        Err(_) => Err((error::SHUTTING_DOWN, String::new())),
    }
}

fn of(plan: &InsertPlan) -> IdsOf {
    let column = plan.auto.as_ref().map(|auto| auto.column.to_string());
    IdsOf {
        database: plan.database.clone(),
        table: plan.table.clone(),
        column: column.unwrap_or_default(),
    }
}
