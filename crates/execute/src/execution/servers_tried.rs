//! Which servers are worth a try for a statement, how a connection of one is come by, and when another server
//! may help.

use crate::connections::group_connections::GroupConnections;
use crate::connections::parked::{Parked, reclaim};
use crate::connections::pin::Pins;
use crate::connections::target::target;
use crate::consistency::reads::is_known_writer;
use crate::counters::count;
use crate::execution::exec::Shape;
use crate::execution::statement_run::StatementRun;
use crate::execution::without;
use crate::per_core::Core;
use crate::per_core::handle::Handle;
use crate::session::Session;
use crate::variables::defaults;
use crate::variables::diagnostics::answers;
use crate::variables::session_variables::SessionVariables;
use backend::{Connection, ConnectionError, Lease, PoolError, Target, share_state};
use farm::{ClientError, error};
use reactor::rarely;
use routing::{Plan, Refusal, plan_all};
use sqltext::{Class, Facts};

/// The statement cannot run on this connection as it is, or not at all.
pub(crate) fn is_barred(
    handle: &Handle,
    variables: &SessionVariables,
    run: &StatementRun,
    connection: &Connection,
    shape: &Shape,
) -> bool {
    handle.killed.get()
        || variables.user_variables.as_ref().is_some_and(|own| own.lost())
        || (shape.asks_back() && answers::must_recall(handle, variables, run, connection, shape))
}

/// One of all servers that a statement asks for.
pub type Asked = (Plan, Target);

/// The servers of the current group for a statement that asks all of them, and where each is.
pub fn all_servers(
    core: &Core,
    connections: &GroupConnections,
    run: &StatementRun,
) -> Result<Vec<Asked>, Refusal> {
    let snapshot = core.glance();
    let refuse = |error: ClientError| Refusal {
        error,
        detail: "of this session".to_owned(),
    };
    let group = connections.group(&snapshot).ok_or_else(|| refuse(error::NO_GROUP))?;
    let among = run.ruled.as_ref().and_then(|ruled| ruled.servers.as_deref());
    let plans = plan_all(group, among)?.into_iter();
    let reached = plans.map(|plan| {
        let target = target(&snapshot, plan.server, plan.read_only);
        Ok((plan, target.ok_or_else(|| refuse(error::NO_SERVER))?))
    });
    reached.collect()
}

/// Why no text of this shape runs on all servers.
pub fn bars_all_servers(core: &Core, shape: &Shape) -> Option<&'static str> {
    if shape.facts.contains(Facts::MULTIPLE) {
        return Some("is for one statement, and the text has several");
    }
    let reads = shape.class == Class::Read && !is_known_writer(core, shape);
    (!reads).then_some(
        "is for what surely reads: the primary runs everything else, and replication takes its changes \
         to the other servers",
    )
}

/// True for failures that say nothing about the session: another server may do better. So may a
/// replica's refusal of a database or an account that it does not have yet.
pub(crate) fn elsewhere_may_help(error: &PoolError, replica: bool) -> bool {
    let refused = |number| matches!(number, 1040 | 1203 | 1226 | 1053);
    match error {
        PoolError::Connection(ConnectionError::Refused { number, .. }) => {
            let missing =
                *number == 1045 || without::database_refused(error) || without::role_refused(error);
            refused(*number) || (replica && missing)
        }
        _ => true,
    }
}

/// A connection of the planned server in the session's state: the held one with its pins, the
/// one that was parked for diagnostics, or one from the pool.
pub async fn checkout(
    session: &mut Session,
    plan: &Plan,
    target: &Target,
    shape: &Shape,
) -> Result<(Lease, Pins), PoolError> {
    if session.handle.kept.parked.borrow().is_asked() {
        rarely(reclaim::hear_parked(
            &session.core,
            &session.handle,
            &mut session.variables,
            &mut session.connections,
        ))
        .await;
    }
    if let Some(held) = session.connections.take_held(&session.variables.state).await? {
        return Ok((held.lease, held.pins));
    }
    let key = session.core.pools.key(plan.server, plan.read_only, &session.user.identity.pass);
    let parked = session.handle.kept.parked.take();
    if let Parked::Kept(kept) = parked
        && let Some(lease) = rarely(reclaim::take_up(
            &session.core,
            &session.handle,
            &mut session.variables,
            &mut session.connections,
            *kept,
            key,
        ))
        .await
    {
        return Ok((lease, Pins::empty()));
    }
    if let Some(held) = session.connections.current.held.take() {
        return Ok((held.lease, held.pins));
    }
    if session.variables.defaults != session.core.shared.defaults.globals() {
        defaults::keep_defaults(
            &session.core,
            &session.handle,
            &session.user,
            &mut session.variables,
        );
    }
    let back = shape.asks_back() || shape.facts.contains(Facts::LAST_INSERT_ID);
    let prefer = match &session.variables.user_variables {
        _ if back => session.connections.current.last_connection,
        Some(own) => own.home(),
        None => 0,
    };
    let taken = session.core.pools.take(target, key, &session.variables.state, prefer).await;
    if matches!(taken, Err(PoolError::WaitTimeout { .. })) {
        count(&session.core.counters.pool_waits_failed);
    }
    let mut lease = taken?;
    share_state(lease.connection_mut(), &mut session.variables.state);
    defaults::accept(
        &session.core,
        &session.handle,
        &session.user,
        &mut session.variables,
        lease.connection(),
    );
    let pins = match session.variables.lasting.is_empty() {
        true => Pins::empty(),
        false => rarely(session.variables.bring_lasting(lease.connection_mut())).await?,
    };
    Ok((lease, pins))
}
