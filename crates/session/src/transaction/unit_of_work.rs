//! Units of work: what a session does by one picture of the tables, from a statement that finds it idle to
//! the end of that statement, or of the transaction that it begins.
//!
//! While a part of a shard map changes its group, new units of work wait that need the group which it leaves,
//! and those that began before go on; when none of these is left, no statement is on its way by the old
//! map, and none can come. Costs a look at the snapshot per statement in a farm with shard maps.

use std::sync::Arc;

use farm::{Snapshot, error};
use mysql_wire::status::Status;
use sqltext::{Class, Verb};

use crate::client::answer::Answers;
use crate::client::end::End;
use crate::client::sink::ReplySink;
use crate::connections::group_connections::GroupConnections;
use crate::connections::hold::{Cause, Hold, Wake};
use crate::connections::pin::Pins;
use crate::counters::count;
use crate::execution::attempt;
use crate::execution::exec::{Job, Shape};
use crate::per_core::{Core, Handle};
use crate::place;
use crate::place::Where;
use crate::session::{self, Session};
use crate::transaction::state::Transaction;
use crate::variables::session_variables::SessionVariables;

/// It opens views of all groups.
fn opens_views(shape: &Shape) -> bool {
    matches!(shape.verb, Verb::Begin { snapshot: true, .. })
}

impl Core {
    /// How many sessions work by a picture of the tables from before this epoch.
    pub fn units_of_work_before(&self, epoch: u64) -> usize {
        let handles = self.handles.borrow();
        let before = |entered: u64| entered != 0 && entered < epoch;
        handles.values().filter(|it| before(it.entered.get())).count()
    }
}

impl Session {
    /// The same for START TRANSACTION WITH CONSISTENT SNAPSHOT, whose views are of all groups. False: the
    /// client has been answered.
    pub(crate) async fn await_views(&mut self, shape: &Shape, job: Job) -> Result<bool, End> {
        let Some(snapshot) =
            begin_unit_of_work(&self.core, &self.handle, shape, job).filter(|_| opens_views(shape))
        else {
            return Ok(true);
        };
        let place = Where::Several;
        if !is_kept_from(&self.handle, &place, shape, &snapshot) {
            return Ok(true);
        }
        Ok(Box::pin(self.wait_for_move(shape, job)).await?.is_some())
    }

    /// Waits until the statement may run; where it goes then. `None`: the client has been answered.
    pub(crate) async fn wait_for_move(
        &mut self,
        shape: &Shape,
        job: Job,
    ) -> Result<Option<Where>, End> {
        let began_us = self.core.now_us();
        let limit_us = self.promises.failover_wait_ms * 1000;
        let mut hold = Hold::new(began_us);
        count(&self.core.counters.statements_held);
        attempt::start_clock(&self.core, &self.handle, &mut self.run, shape);
        loop {
            let waited_us = self.core.now_us() - began_us;
            if waited_us >= limit_us {
                return give_up_move(&self.core, &self.handle, &mut self.client)
                    .await
                    .map(|()| None);
            }
            let handle = &self.handle;
            let wake = self
                .core
                .wait(
                    Some(handle),
                    self.connections.current.group,
                    &mut hold,
                    Cause::Failure,
                    limit_us - waited_us,
                )
                .await;
            if self.handle.killed.get() || self.core.is_draining() {
                return Err(session::last_word(&self.core, &mut self.client).await);
            }
            if wake == Wake::Interrupted {
                self.handle.started.set(None);
                self.client.error(&error::QUERY_KILLED, &[]).await?;
                return Ok(None);
            }
            end_unit_of_work(&self.handle, &self.variables, &self.connections, &self.transaction);
            let kept = begin_unit_of_work(&self.core, &self.handle, shape, job);
            let place = place::place(&self.context(), &self.run, shape, job);
            if !kept.is_some_and(|snapshot| is_kept_from(&self.handle, &place, shape, &snapshot)) {
                let waited_us = self.core.now_us() - began_us;
                let held_us = &self.core.counters.statements_held_us;
                held_us.fetch_add(waited_us, std::sync::atomic::Ordering::Relaxed);
                return Ok(Some(place));
            }
        }
    }
}

/// Called between two commands: where no transaction and no LOCK TABLES is open, the next one is
/// placed by the tables as they are then.
pub(crate) fn end_unit_of_work(
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
pub(crate) fn begin_unit_of_work(
    core: &Core,
    handle: &Handle,
    shape: &Shape,
    job: Job,
) -> Option<Arc<Snapshot>> {
    let snapshot = core.shared.published.load();
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

/// True for a place that new units of work may not reach now.
pub(crate) fn is_kept_from(
    handle: &Handle,
    place: &Where,
    shape: &Shape,
    snapshot: &Snapshot,
) -> bool {
    let Some(sharding) = &snapshot.sharding else {
        return false;
    };
    let entered = handle.entered.get();
    let held = |group: &str| sharding.held(group, entered).is_some();
    let any = || sharding.moves().iter().any(|it| held(&it.from));
    match place {
        _ if opens_views(shape) => any(),
        Where::Stay | Where::Refuse(..) | Where::Several | Where::Explain(_) => false,
        Where::Group(group) => held(&group.name),
        Where::Parts(writing) => writing.parts.iter().any(|part| held(&part.group)),
        Where::Define(_)
        | Where::Rows(_)
        | Where::Load(_)
        | Where::Upkeep(_)
        | Where::InText(_)
        | Where::Bulk(_)
        | Where::Later(_) => any(),
    }
}

/// Definitions of tables that are on their way stay as they are: why this one is refused.
pub(crate) fn is_fixed(core: &Core, groups: &[Arc<str>]) -> Option<String> {
    let snapshot = core.shared.published.load();
    let moves = snapshot.sharding.as_ref()?.moves();
    let fixed = moves.iter().find(|it| it.defined && groups.contains(&it.from))?;
    Some(format!(
        "job {} moves a part of shard map {} from group {} to group {}, and definitions stay as they \
         are until it has ended: wait (`heddle job show {}`), or `heddle job abort {}`",
        fixed.job, fixed.map, fixed.from, fixed.to, fixed.job, fixed.job
    ))
}

/// The move did not come to an end in time.
async fn give_up_move(
    core: &Core,
    handle: &Handle,
    client: &mut impl ReplySink,
) -> Result<(), End> {
    handle.started.set(None);
    count(&core.counters.statements_held_in_vain);
    let snapshot = core.snapshot();
    let moves = snapshot.sharding.as_ref().map_or(&[][..], |it| it.moves());
    let held = moves.iter().find(|it| it.held_since.is_some());
    let texts = held.map_or_else(Default::default, |it| {
        [
            it.map.to_string(),
            it.from.to_string(),
            it.to.to_string(),
            it.job.to_string(),
        ]
    });
    let details: Vec<&str> = texts.iter().map(String::as_str).collect();
    client.error(&error::SHARD_MOVING, &details).await
}
