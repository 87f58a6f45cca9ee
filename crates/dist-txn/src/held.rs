//! What the session holds in the groups of its transaction.

use backend::Lease;
use execute::connections::group_connections::{GroupConnections, Held, seat_number};
use execute::per_core::Core;

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

/// The version of the server that a lease is of, as numbers are compared.
pub(super) fn version_of(core: &Core, lease: &Lease) -> (farm::Engine, u32) {
    let snapshot = core.glance();
    let server = snapshot.server(lease.connection().server);
    let version = server.map_or(0, |it| execute::variables::reading::version_number(&it.version));
    (lease.connection().engine(), version)
}
