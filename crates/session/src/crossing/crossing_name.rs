//! The name of a distributed transaction: the row that its decision will stand in.

use super::waits::shorten;
use crate::authentication::login::SessionUser;
use crate::connections::group_connections::GroupConnections;
use crate::consistency::promises::Promises;
use crate::counters::count;
use crate::crossing::{self, admit, terms};
use crate::per_core::Core;
use crate::transaction::state::Transaction;
use backend::ConnectionError;
use farm::crossing::{Atomic, Place, farm_number};
use mysql_wire::command::Command;

/// The transaction crosses to its second group, if it did not before: it gets its name, and its
/// decider waits for locks no longer than the others.
pub(crate) async fn name_crossing(
    core: &Core,
    connections: &mut GroupConnections,
    transaction: &mut Transaction,
    plain: bool,
) -> Result<(), ConnectionError> {
    let Some(crossing) = transaction.crossing.as_ref().filter(|it| !it.has_crossed()) else {
        return Ok(());
    };
    let Some(decider) = crossing.parts.first().map(|part| part.group) else {
        return Ok(());
    };
    if !crossing.of_read {
        count(&core.counters.xa_begin);
    }
    let farm = farm_number(&core.shared.published.load().farm_id);
    let lock_wait_ms = core.settings().crossings.lock_wait_ms;
    // It could be done again on its own group only.
    if let Some(seat) = connections.others.iter_mut().find(|seat| seat.group == decider) {
        seat.replay = None;
    }
    let Some(held) = crossing::held_in(core, connections, decider) else {
        return Err(admit::refused("Heddle: the transaction was lost".to_owned()));
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
    let id = (!plain).then(|| operator.name(farm, decider, at));
    if let Some(crossing) = &mut transaction.crossing {
        crossing.id = match crossing.own.is_some() {
            true => id.map(farm::crossing::GlobalId::of_client),
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
    let best_effort = terms::cross_terms(core, user, promises).atomic == Atomic::BestEffort;
    let crossing = transaction.crossing.as_ref();
    crossing.is_some_and(|it| it.own.is_none() && (it.read_only || best_effort))
}
