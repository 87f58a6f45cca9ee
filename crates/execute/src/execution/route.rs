//! Chooses the server of a statement: what is known of the session, put to [`routing::plan`].

use backend::Target;
use farm::{Position, ServerId, error};
use mysql_wire::status::Status;
use routing::{Plan, Reason, Refusal, Standing};
use sqltext::Class;

use crate::connections::group_connections::GroupConnections;
use crate::connections::target::target;
use crate::consistency::client_level;
use crate::consistency::promises::Promises;
use crate::consistency::promises::keeping;
use crate::consistency::reads::{self, want_positions};
use crate::counters::count;
use crate::execution::exec::{Job, Shape};
use crate::execution::statement_run::StatementRun;
use crate::per_core::Core;
use crate::recorded;
use crate::session::Session;
use crate::variables::session_variables::SessionVariables;

/// Chooses the server.
pub fn route(
    session: &mut Session,
    shape: &Shape,
    job: Option<Job>,
    avoid: &[ServerId],
) -> Result<(Plan, Target), Refusal> {
    let mut routed = choose(session, shape, job, avoid);
    recorded::routed(session.handle.id, &mut routed);
    routed
}

/// The same for a read of which it is known what part of the required GTID it needs.
fn route_for(
    session: &mut Session,
    shape: &Shape,
    avoid: &[ServerId],
    need: Position,
) -> Result<(Plan, Target), Refusal> {
    count(&session.core.counters.reads_narrowed);
    session.promises.narrowed = Some(Box::new(need));
    route_once(
        &session.core,
        &session.variables,
        &session.connections,
        &mut session.promises,
        &session.run,
        shape,
        avoid,
    )
}

/// The same for a text that is not the current command's, and is not run.
pub fn foresee_route(
    session: &mut Session,
    shape: &Shape,
    text: &[u8],
) -> Result<(Plan, Target), Refusal> {
    let routed = choose(session, shape, None, &[])?;
    match client_level::need_of_text(
        &session.core,
        &session.variables,
        &session.connections,
        &session.promises,
        shape,
        text,
    ) {
        Some(need) => route_for(session, shape, &[], need),
        None => Ok(routed),
    }
}

fn choose(
    session: &mut Session,
    shape: &Shape,
    job: Option<Job>,
    avoid: &[ServerId],
) -> Result<(Plan, Target), Refusal> {
    client_level::heed_client(
        &session.core,
        &mut session.connections,
        &mut session.transaction,
        &session.promises,
        shape,
    );
    session.promises.narrowed = None;
    let routed = route_once(
        &session.core,
        &session.variables,
        &session.connections,
        &mut session.promises,
        &session.run,
        shape,
        avoid,
    )?;
    let (plan, _) = &routed;
    let late = plan.wait || plan.reason == Reason::TooOld;
    match job
        .filter(|_| late)
        .and_then(|job| client_level::need_of(&session.context(), &session.promises, shape, job))
    {
        Some(need) => route_for(session, shape, avoid, need),
        None => Ok(routed),
    }
}

fn route_once(
    core: &Core,
    variables: &SessionVariables,
    connections: &GroupConnections,
    promises: &mut Promises,
    run: &StatementRun,
    shape: &Shape,
    avoid: &[ServerId],
) -> Result<(Plan, Target), Refusal> {
    let held = match &connections.current.held {
        Some(held) => Some(held.lease.connection().server),
        None => connections.current.last_server.filter(|_| shape.asks_back()),
    };
    let snapshot = core.glance();
    // A server that is gone knows nothing more of the statement before.
    let gone = |id: ServerId| snapshot.server(id).is_none_or(|s| !s.health.alive);
    let held = held.filter(|&id| connections.current.held.is_some() || !gone(id));
    core.heed(&snapshot.accounts);
    let group = connections.group(&snapshot);
    promises.counts = group.is_some_and(|group| group.servers.len() > 1);
    let begins = reads::begins_reading(core, shape);
    let read = shape.class == Class::Read || begins;
    let reads = promises.counts && read && held.is_none();
    let now_us = if reads { core.now_us() } else { 0 };
    promises.began_us = now_us;
    let standing = Standing {
        group: group.map(|group| &**group),
        held,
        last_used: connections.current.last_server,
        last_replica: connections.current.seen.last_replica(),
        autocommit: begins || variables.status.contains(Status::AUTOCOMMIT),
        need: keeping::need(core, connections, promises, shape, now_us),
        among: run.ruled.as_ref().and_then(|r| r.servers.as_deref()),
    };
    let mut balance = core.balance.borrow_mut();
    let plan =
        routing::plan(&snapshot, read, shape.hint, &standing, avoid, &mut balance, &|server| {
            core.pools.in_use(server)
        })?;
    if reads {
        want_positions(&snapshot, &standing.need, &plan);
    }
    let target = target(&snapshot, plan.server, plan.read_only).ok_or_else(|| Refusal {
        error: error::NO_SERVER,
        detail: "of this session".to_owned(),
    })?;
    Ok((plan, target))
}
