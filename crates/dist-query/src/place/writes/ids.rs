//! Taking ids from the blocks, and asking the control plane for more.

use std::sync::Arc;

use execute::per_core::Core;
use execute::per_core::id_blocks::{BLOCK, Block, PASSED_MAX};
use execute::per_core::operator::Ids;
use farm::{ClientError, error};
use planner::load::IdsOf;
use planner::place::{Goes, InsertPlan, Plan, Spot, Statement};

/// The greatest id that an INSERT brings along, where the farm must hear of it first: the ids
/// that it gives out are to be greater.
#[inline]
pub(crate) fn unheard_id(
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
    (!core.statements.ids.pass(&insert.name, id)).then_some(id)
}

/// So many ids for rows of the plan's table, one behind the other; gives the first.
pub(crate) async fn ids(
    core: &Core,
    plan: &InsertPlan,
    count: u64,
) -> Result<u64, (ClientError, String)> {
    if let Some(first) = core.statements.ids.take(&plan.name, count) {
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
    if let Some(first) = core.statements.ids.take(&name, count) {
        return Ok(first);
    }
    let block = count.max(BLOCK);
    let first = take_ids(core, of, 0, block, false).await?;
    let left = first + count..first + block;
    core.statements.ids.put(&name, Block::Ids(left));
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
    match core.statements.ids.pass(&name, id) {
        true => Ok(()),
        false => raise(core, of, &name, id).await,
    }
}

/// Has the farm give no ids up to this one, which a client chose.
pub(crate) async fn raise_ids(
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
    core.statements.ids.put(name, block);
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
