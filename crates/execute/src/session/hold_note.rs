//! What others may know of a connection that a session keeps between its commands.

use mysql_wire::status::Status;

use crate::connections::group_connections::GroupConnections;
use crate::per_core::Core;
use crate::per_core::handle::{Handle, Hold};
use crate::transaction::state::Transaction;
use crate::transaction::unit_of_work;
use crate::variables::session_variables::SessionVariables;

/// Notes for others whether the session keeps a connection, and why.
pub fn note_hold(
    core: &Core,
    handle: &Handle,
    variables: &SessionVariables,
    connections: &GroupConnections,
    transaction: &Transaction,
) {
    unit_of_work::end_unit_of_work(handle, variables, connections, transaction);
    let hold = connections.current.held.as_ref().map(|held| {
        let connection = held.lease.connection();
        Hold {
            server: connection.server,
            thread_id: connection.thread_id,
            pins: held.pins,
            transaction: held.pins.is_empty() || variables.status.contains(Status::IN_TRANS),
        }
    });
    if handle.kept.holds.replace(hold).is_none() && hold.is_some() {
        handle.kept.held_since_s.set(core.now_s.get());
    }
}
