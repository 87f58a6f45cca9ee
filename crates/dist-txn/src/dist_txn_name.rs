//! The name of a distributed transaction: the row that its decision will stand in.

use execute::connections::group_connections::GroupConnections;
use execute::consistency::promises::Promises;
use execute::counters::count;
use execute::per_core::Core;
use execute::session::user::SessionUser;
use execute::transaction::state::Transaction;
use execute::variables::dist_txn_terms as of_session;

use super::waits::shorten;
use crate::held;
use backend::ConnectionError;
use farm::dist_txn::{Atomic, Place, farm_number};
use mysql_wire::command::Command;

/// The transaction crosses to its second group, if it did not before: it gets its name, and its
/// coordinator group waits for locks no longer than the others.
pub(crate) async fn name_dist_txn(
    core: &Core,
    connections: &mut GroupConnections,
    transaction: &mut Transaction,
    plain: bool,
) -> Result<(), ConnectionError> {
    let Some(dist_txn) = transaction.dist_txn.as_ref().filter(|it| !it.has_crossed()) else {
        return Ok(());
    };
    let Some(coordinator) = dist_txn.parts.first().map(|part| part.group) else {
        return Ok(());
    };
    if !dist_txn.of_read {
        count(&core.counters.xa_begin);
    }
    let farm = farm_number(&core.glance().farm_id);
    let lock_wait_ms = core.settings().dist_txns.lock_wait_ms;
    // It could be done again on its own group only.
    if let Some(seat) = connections.others.iter_mut().find(|seat| seat.group == coordinator) {
        seat.replay = None;
    }
    let Some(held) = held::held_in(core, connections, coordinator) else {
        return Err(crate::refused("Heddle: the transaction was lost".to_owned()));
    };
    let connection = held.lease.connection_mut();
    let at = Place {
        server: connection.server,
        connection: connection.thread_id.into(),
    };
    if lock_wait_ms > 0 {
        let text = shorten(lock_wait_ms);
        connection.run(&[(Command::Query, text.as_bytes())]).await?;
        transaction.hurry(true);
    }
    let operator = &core.shared.operator;
    let id = (!plain).then(|| operator.name(farm, coordinator, at));
    if let Some(dist_txn) = &mut transaction.dist_txn {
        dist_txn.id = match dist_txn.own.is_some() {
            true => id.map(farm::dist_txn::GlobalId::of_client),
            false => id,
        };
    }
    Ok(())
}

/// The transaction's parts are plain transactions, of which each ends by itself.
pub(crate) fn has_plain_parts(
    core: &Core,
    user: &SessionUser,
    transaction: &Transaction,
    promises: &Promises,
) -> bool {
    let best_effort = of_session::dist_txn_terms(core, user, promises).atomic == Atomic::BestEffort;
    let dist_txn = transaction.dist_txn.as_ref();
    dist_txn.is_some_and(|it| it.own.is_none() && (it.read_only || best_effort))
}
