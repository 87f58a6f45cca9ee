//! Waits for a part of a shard map that changes its group, when a statement needs the group which it leaves, and for the
//! columns of tables that a statement names, when they are not known yet.

use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::sink::ReplySink;
use execute::connections::group_connections::seat_number;
use execute::connections::hold::Hold;
use execute::connections::hold::wait::wait_once;
use execute::counters::count;
use execute::execution::exec::{Job, Shape};
use execute::execution::statement_run::{StatementRun, clock};
use execute::per_core::Core;
use execute::per_core::handle::Handle;
use execute::session::Session;
use execute::session::context::StatementContext;
use execute::transaction::unit_of_work::{begin_unit_of_work, end_unit_of_work, opens_views};
use farm::{Snapshot, error};
use reactor::rarely;

use crate::place::{self, Where, place};

/// The same for START TRANSACTION WITH CONSISTENT SNAPSHOT, whose views are of all groups. False: the
/// client has been answered.
pub(crate) async fn await_views(
    session: &mut Session,
    shape: &Shape,
    job: Job,
) -> Result<bool, End> {
    let Some(snapshot) = begin_unit_of_work(&session.core, &session.handle, shape, job)
        .filter(|_| opens_views(shape))
    else {
        return Ok(true);
    };
    let place = Where::Several;
    if !is_kept_from(&session.handle, &place, shape, &snapshot) {
        return Ok(true);
    }
    Ok(rarely(wait_for_place(session, place, shape, job)).await?.is_some())
}

/// Nobody knows yet where it goes, or a move keeps it from there.
pub(crate) fn has_to_wait(
    handle: &Handle,
    place: &Where,
    shape: &Shape,
    kept: Option<&Snapshot>,
) -> bool {
    matches!(place, Where::Undescribed(_))
        || kept.is_some_and(|snapshot| is_kept_from(handle, place, shape, snapshot))
}

/// Waits until the statement may run; where it goes then. `None`: the client has been answered.
pub(crate) async fn wait_for_place(
    session: &mut Session,
    mut place: Where,
    shape: &Shape,
    job: Job,
) -> Result<Option<Where>, End> {
    let began_us = session.core.now_us();
    let limit_us = session.promises.failover_wait_ms * 1000;
    let mut hold = Hold::new(began_us);
    count(&session.core.counters.statements_held);
    clock::start_clock(&session.core, &session.handle, &mut session.run, shape);
    loop {
        let waited_us = session.core.now_us() - began_us;
        if waited_us >= limit_us {
            return give_up(&session.core, &session.handle, &mut session.client, &place)
                .await
                .map(|()| None);
        }
        if !wait_once(session, &mut hold, limit_us - waited_us).await? {
            return Ok(None);
        }
        end_unit_of_work(
            &session.handle,
            &session.variables,
            &session.connections,
            &session.transaction,
        );
        let kept = begin_unit_of_work(&session.core, &session.handle, shape, job);
        place = place::place(&session.context(), &session.run, shape, job);
        if !has_to_wait(&session.handle, &place, shape, kept.as_deref()) {
            let waited_us = session.core.now_us() - began_us;
            let held_us = &session.core.counters.statements_held_us;
            held_us.fetch_add(waited_us, std::sync::atomic::Ordering::Relaxed);
            return Ok(Some(place));
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
        Where::Stay
        | Where::Refuse(..)
        | Where::Several
        | Where::Explain(_)
        | Where::Undescribed(_) => false,
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

/// The move did not come to an end in time, or the columns did not come.
async fn give_up(
    core: &Core,
    handle: &Handle,
    client: &mut impl ReplySink,
    place: &Where,
) -> Result<(), End> {
    handle.at_servers.started.set(None);
    count(&core.counters.statements_held_in_vain);
    if let Where::Undescribed(database) = place {
        return client.error(&error::TABLES_UNDESCRIBED, &[database]).await;
    }
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

/// A command that came behind the one under way belongs to the current group as that one does, and no move of
/// shards keeps it from there. An open transaction is the reason to go on by an older map.
pub fn stays(
    context: &StatementContext<'_>,
    handle: &Handle,
    run: &StatementRun,
    shape: &Shape,
    job: Job,
) -> bool {
    let (core, place) = (context.core, place(context, run, shape, job));
    let here = match &place {
        Where::Stay => true,
        Where::Group(group) => group.number == seat_number(core, context.connections),
        _ => false,
    };
    let snapshot = core.glance();
    let Some(sharding) = &snapshot.sharding else {
        return here;
    };
    // Alone it would be placed by the map of now, and wait for a move like any other.
    let open = context.transaction.dist_txn.is_some();
    let current = open || sharding.epoch == handle.entered.get();
    here && current && !is_kept_from(handle, &place, shape, &snapshot)
}
