//! Asking a replica for what the reads of a session need.

use backend::{Connection, Lease};
use enginesql::position::wait_for;
use farm::Position;
use recorder::Awaited;

use crate::connections::group_connections::GroupConnections;
use crate::consistency::promises::Promises;
use crate::counters::count;
use crate::per_core::Core;
use crate::recorded;

/// Waits on a replica until it has what the session's reads need; false when it has not come in
/// time, or the connection broke and is to be closed.
pub async fn await_required(
    (core, session): (&Core, u32),
    connections: &GroupConnections,
    promises: &Promises,
    lease: &mut Lease,
) -> bool {
    let Some(required) = promises.required(&connections.current.seen) else {
        return true;
    };
    count(&core.counters.reads_waited);
    let connection = lease.connection_mut();
    let server = connection.server.0;
    recorded::wait_began(session, Awaited::Position, server);
    let joined = core.waits.required_waits.join(connection.server, required).await;
    let came = match joined {
        Some(came) => came,
        None => ask_for_required(core, connection, required).await,
    };
    recorded::wait_ended(session, Awaited::Position, server, came);
    if !came {
        count(&core.counters.reads_waited_in_vain);
    }
    came
}

/// Has a replica wait until it has this; false when it has not come in time.
async fn ask_for_required(core: &Core, connection: &mut Connection, required: &Position) -> bool {
    let server = connection.server;
    let question = core.waits.required_waits.ask(server, required.clone());
    let wait_ms = core.settings().consistency.wait_ms;
    let wait = wait_for(connection.engine(), &required.to_string(), wait_ms);
    let ask = format!("SELECT {wait}");
    let Ok(answer) = connection.ask(ask.as_bytes()).await else {
        connection.condemn();
        return false;
    };
    let came = answer.first().is_some_and(|value| value == b"0");
    if came && let Some(server) = core.glance().server(server) {
        server.fresh.raise(required);
    }
    question.answer(came);
    came
}
