//! What the session holds in the groups of its transaction.

use backend::Lease;

use crate::connections::group_connections::{GroupConnections, Held};
use crate::dist_txn::branch;
use crate::dist_txn::work_of;
use crate::execution::exec::Shape;
use crate::per_core::Core;
use crate::transaction::state::Transaction;
use crate::variables::session_variables::SessionVariables;

/// A statement joins the open transaction, which is one of the current group alone.
pub(crate) fn take_in(transaction: &mut Transaction, variables: &SessionVariables, shape: &Shape) {
    let work = work_of(shape, branch::is_serializable(variables));
    let parts = transaction.dist_txn.iter_mut().flat_map(|it| &mut it.parts);
    for part in parts {
        part.work.wrote |= work.wrote;
        part.work.locked |= work.locked;
    }
}

/// Where the seat of this group keeps its connection; `None` when the session has no such seat.
fn hold_of<'a>(
    core: &'a Core,
    connections: &'a mut GroupConnections,
    group: u32,
) -> Option<&'a mut Option<Held>> {
    if seat_number(core, connections) == group {
        return Some(&mut connections.current.held);
    }
    let seat = connections.others.iter_mut().find(|seat| seat.group == group)?;
    Some(&mut seat.held)
}

/// The connection that the session holds in this group.
pub(crate) fn held_in<'a>(
    core: &'a Core,
    connections: &'a mut GroupConnections,
    group: u32,
) -> Option<&'a mut Held> {
    hold_of(core, connections, group)?.as_mut()
}

/// Takes it away from its seat.
pub(crate) fn take_held_in(
    core: &Core,
    connections: &mut GroupConnections,
    group: u32,
) -> Option<Held> {
    hold_of(core, connections, group)?.take()
}

/// Puts one back that was taken away.
pub(crate) fn put_held_in(core: &Core, connections: &mut GroupConnections, group: u32, held: Held) {
    if let Some(hold) = hold_of(core, connections, group) {
        *hold = Some(held);
    }
}

impl Transaction {
    /// The open transaction has touched several groups.
    pub(crate) fn is_dist_txn(&self) -> bool {
        self.dist_txn.as_ref().is_some_and(|it| it.has_crossed())
    }

    /// A statement of the open transaction failed with this error.
    pub(crate) fn note_failure(&mut self, number: Option<u16>) {
        if let Some(dist_txn) = &mut self.dist_txn {
            dist_txn.failed = number;
        }
    }
}

/// The number of the current seat's group.
pub(crate) fn seat_number(core: &Core, connections: &GroupConnections) -> u32 {
    let snapshot = core.shared.published.load();
    connections.group(&snapshot).map_or(connections.current.group, |group| group.number)
}

/// The open transaction may have touched the current seat's group.
pub(crate) fn has_part_here(
    core: &Core,
    connections: &GroupConnections,
    transaction: &Transaction,
) -> bool {
    let here = seat_number(core, connections);
    let dist_txn = transaction.dist_txn.as_ref();
    dist_txn.is_none_or(|it| it.parts.iter().any(|part| part.group == here))
}

/// The version of the server that a lease is of, as numbers are compared.
pub(super) fn version_of(core: &Core, lease: &Lease) -> (farm::Engine, u32) {
    let snapshot = core.shared.published.load();
    let server = snapshot.server(lease.connection().server);
    let version = server.map_or(0, |it| crate::variables::reading::version_number(&it.version));
    (lease.connection().engine(), version)
}
