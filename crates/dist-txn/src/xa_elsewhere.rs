//! XA transactions of clients that another session or another router has.

use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::sink::ReplySink;
use execute::connections::group_connections::GroupConnections;
use execute::consistency::client_level;
use execute::consistency::promises::Promises;
use execute::execution::exec::Shape;
use execute::per_core::Core;
use execute::transaction::distributed::XaState;
use execute::transaction::state::Transaction;

use crate::waits::SETTLE_MS;
use farm::dist_txn::{Owned, Verdict};
use farm::{ClientError, Xid, error};
use futures_channel::oneshot;
use sqltext::{Class, Facts, Verb};
use std::sync::Arc;

/// Answers what cannot be done within the client's own transaction: what would end it. False:
/// something else.
pub async fn own_bars(
    client: &mut impl ReplySink,
    transaction: &Transaction,
    shape: &Shape,
) -> Result<bool, End> {
    let Some(own) = transaction.own() else {
        return Ok(false);
    };
    let state = own.state;
    let savepoint =
        matches!(shape.verb, Verb::Savepoint | Verb::RollbackTo | Verb::ReleaseSavepoint);
    let barred = match (savepoint, shape.verb) {
        (_, Verb::Xa) => false,
        (true, _) => state != XaState::Active,
        (false, Verb::UnlockTables) => false,
        (false, _) => {
            matches!(shape.class, Class::Transaction | Class::Lock)
                || shape.facts.contains(Facts::IMPLICIT_COMMIT)
        }
    };
    if barred {
        client.error(&error::XA_STATE, &[state.name()]).await?;
    }
    Ok(barred)
}

/// A prepared one has this name, on any group that answers.
pub(crate) async fn own_is_taken(core: &Core, xid: &Xid) -> bool {
    let (tell, heard) = oneshot::channel();
    let reply = Box::new(move |groups| {
        // The session may be gone.
        let _ = tell.send(groups);
    });
    core.shared.operator.find_own(xid.clone(), reply);
    let groups: Vec<String> = heard.await.unwrap_or_default();
    !groups.is_empty()
}

/// Ends one that no connection of the session has.
pub(crate) async fn own_elsewhere(
    core: &Core,
    connections: &mut GroupConnections,
    transaction: &Transaction,
    promises: &Promises,
    xid: &Xid,
    verdict: Verdict,
) -> Told {
    if xid.is_reserved() {
        return told(error::XA_RESERVED);
    }
    let limit_ms = promises.failover_wait_ms + SETTLE_MS;
    let (tell, heard) = oneshot::channel();
    let reply = Box::new(move |owned| {
        // The session may be gone.
        let _ = tell.send(owned);
    });
    let operator = Arc::clone(&core.shared.operator);
    operator.end_own(xid.clone(), verdict, limit_ms, reply);
    // Where it wrote is not known here: the session's reads ask the primaries first.
    connections.lose_proof();
    for seat in &mut connections.others {
        seat.seen.unproved = true;
    }
    let heard = heard.await;
    client_level::tell_client_everywhere(core, transaction);
    match heard {
        Ok(Owned::Ended) => None,
        Ok(Owned::Unknown) => told(error::XA_UNKNOWN),
        Ok(Owned::Several(groups)) => {
            let groups = groups.join(" and ");
            let why = format!("groups {groups} have each one of this name: end them there");
            Some((error::XA_PENDING, why))
        }
        Ok(Owned::Pending(why)) => Some((error::XA_PENDING, why)),
        Err(_) => Some((error::XA_PENDING, "the control plane ends".to_owned())),
    }
}

/// What the client hears instead of OK.
pub(super) type Told = Option<(ClientError, String)>;

pub(super) fn told(error: ClientError) -> Told {
    Some((error, String::new()))
}
