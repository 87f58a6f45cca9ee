//! Units of work: what a session does by one picture of the tables, from a statement that finds it idle to
//! the end of that statement, or of the transaction that it begins.
//!
//! While a part of a shard map changes its group, new units of work wait that need the group which it leaves,
//! and those that began before go on; when none of these is left, no statement is on its way by the old
//! map, and none can come. Costs a look at the snapshot per statement in a farm with shard maps.

use std::sync::Arc;

use farm::Snapshot;
use mysql_wire::status::Status;
use sqltext::{Class, Verb};

use crate::connections::group_connections::GroupConnections;
use crate::connections::pin::Pins;
use crate::execution::exec::{Job, Shape};
use crate::per_core::Core;
use crate::per_core::handle::Handle;
use crate::transaction::state::Transaction;
use crate::variables::session_variables::SessionVariables;

/// It opens views of all groups.
pub fn opens_views(shape: &Shape) -> bool {
    matches!(shape.verb, Verb::Begin { snapshot: true, .. })
}

/// How many sessions work by a picture of the tables from before this epoch.
pub fn units_of_work_before(core: &Core, epoch: u64) -> usize {
    let handles = core.handles.borrow();
    let before = |entered: u64| entered != 0 && entered < epoch;
    handles.values().filter(|it| before(it.entered.get())).count()
}

/// Called between two commands: where no transaction and no LOCK TABLES is open, the next one is
/// placed by the tables as they are then.
pub fn end_unit_of_work(
    handle: &Handle,
    variables: &SessionVariables,
    connections: &GroupConnections,
    transaction: &Transaction,
) {
    if handle.entered.get() == 0 {
        return;
    }
    let open = match &transaction.dist_txn {
        Some(dist_txn) => dist_txn.has_begun(),
        None => variables.status.contains(Status::IN_TRANS),
    };
    let others = connections.others.iter().filter_map(|seat| seat.held.as_ref());
    let mut held = connections.current.held.iter().chain(others);
    if !open && !held.any(|held| held.pins.contains(Pins::LOCK_TABLES)) {
        handle.entered.set(0);
    }
}

/// A statement is about to be placed. Gives the farm while parts of it are held.
pub fn begin_unit_of_work(
    core: &Core,
    handle: &Handle,
    shape: &Shape,
    job: Job,
) -> Option<Arc<Snapshot>> {
    let snapshot = core.glance();
    let sharding = snapshot.sharding.as_ref()?;
    let entered = &handle.entered;
    if entered.get() == 0 {
        entered.set(sharding.epoch);
    }
    if sharding.moves().is_empty() || matches!(job, Job::Prepare(_)) {
        return None;
    }
    let own = matches!(
        shape.class,
        Class::Transaction | Class::Set | Class::Use | Class::Show | Class::Local | Class::Empty
    );
    (!own || opens_views(shape)).then(|| Arc::clone(&snapshot))
}

/// Definitions of tables that are on their way stay as they are: why this one is refused.
pub fn is_fixed(core: &Core, groups: &[Arc<str>]) -> Option<String> {
    let snapshot = core.glance();
    let moves = snapshot.sharding.as_ref()?.moves();
    let fixed = moves.iter().find(|it| it.defined && groups.contains(&it.from))?;
    Some(format!(
        "job {} moves a part of shard map {} from group {} to group {}, and definitions stay as they \
         are until it has ended: wait (`heddle job show {}`), or `heddle job abort {}`",
        fixed.job, fixed.map, fixed.from, fixed.to, fixed.job, fixed.job
    ))
}
