//! Which groups a statement belongs to of the open transaction in a farm with several groups.
//!
//! Must not know: how a group comes to take part.

use crate::connections::group_connections::{GroupConnections, seat_number};
use crate::execution::exec::Shape;
use crate::per_core::Core;
use crate::transaction::distributed::{is_serializable, work_of};
use crate::transaction::state::Transaction;
use crate::variables::session_variables::SessionVariables;

/// A statement joins the open transaction, which is one of the current group alone.
pub(crate) fn take_in(transaction: &mut Transaction, variables: &SessionVariables, shape: &Shape) {
    let work = work_of(shape, is_serializable(variables));
    let parts = transaction.dist_txn.iter_mut().flat_map(|it| &mut it.parts);
    for part in parts {
        part.work.wrote |= work.wrote;
        part.work.locked |= work.locked;
    }
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
