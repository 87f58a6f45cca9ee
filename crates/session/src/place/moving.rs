//! Waits for a part of a shard map that changes its group, when a statement needs the group which it leaves.

use farm::{Snapshot, error};

use crate::client::answer::Answers;
use crate::client::end::End;
use crate::client::sink::ReplySink;
use crate::connections::hold::{Cause, Hold, Wake};
use crate::counters::count;
use crate::execution::exec::{Job, Shape};
use crate::execution::statement_run::clock;
use crate::per_core::Core;
use crate::per_core::handle::Handle;
use crate::place::Where;
use crate::session::Session;
use crate::transaction::unit_of_work::{begin_unit_of_work, end_unit_of_work, opens_views};
use crate::{place, session};

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
        clock::start_clock(&self.core, &self.handle, &mut self.run, shape);
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
        Where::Stay | Where::Refuse(..) | Where::Several => false,
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
