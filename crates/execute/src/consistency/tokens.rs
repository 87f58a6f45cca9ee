//! Tokens: what a session has written and read, of all groups, as a value that can be handed over.

use farm::token::Promise;
use farm::{ClientError, Group, Snapshot, Token, error};

use crate::connections::group_connections::GroupConnections;
use crate::connections::home::group_of;
use crate::consistency::promises::keeping;
use crate::consistency::promises::keeping::prove_writes;
use crate::per_core::Core;
use crate::session::user::SessionUser;
use crate::transaction::state::Transaction;
use crate::variables::session_variables::SessionVariables;

/// The session's token: what it has written and what it has read, in all groups.
pub(crate) async fn token(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    transaction: &mut Transaction,
) -> Result<String, ClientError> {
    let snapshot = core.snapshot();
    let here = connections.group(&snapshot).ok_or(error::NO_GROUP)?.clone();
    let mut groups: Vec<Promise> =
        promise(core, user, variables, connections, transaction, &snapshot, &here)
            .await?
            .into_iter()
            .collect();
    let others: Vec<u32> = connections.others.iter().map(|seat| seat.group).collect();
    let others = others.iter().filter_map(|&seat| group_of(&snapshot, seat));
    for group in others {
        connections.switch_to(group, core);
        let promise =
            promise(core, user, variables, connections, transaction, &snapshot, group).await;
        connections.switch_to(&here, core);
        groups.extend(promise?);
    }
    let token = Token {
        farm: snapshot.farm_id.to_string(),
        groups,
    };
    Ok(token.to_string())
}

/// What the session has of its current seat's group; `None` for nothing.
async fn promise(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    transaction: &mut Transaction,
    snapshot: &Snapshot,
    group: &Group,
) -> Result<Option<Promise>, ClientError> {
    if connections.current.seen.unproved {
        prove_writes(core, user, variables, connections, transaction).await;
    }
    if connections.current.seen.unproved || connections.current.seen.unlogged {
        return Err(error::TOKEN_UNKNOWN);
    }
    let mut promised = connections.current.seen.required.as_deref().cloned();
    if let Some(last) = connections.current.seen.last_read {
        let server = snapshot.server(last.server);
        let seen =
            keeping::position_after(core, user, variables, server.map(|s| &**s), &last).await;
        let seen = seen.ok_or(error::TOKEN_UNKNOWN)?;
        match &mut promised {
            Some(promised) => promised.join(&seen),
            None => promised = Some(seen),
        }
    }
    Ok(promised.map(|position| Promise {
        group: group.name.to_string(),
        timeline: group.timeline(),
        position,
    }))
}

/// Takes a token up: from now on the session's reads have what it promises. What the group's
/// primary does not have is refused, as nothing could ever fulfil it.
pub(crate) async fn take_token(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    text: &str,
) -> Result<(), String> {
    let snapshot = core.snapshot();
    let token = Token::parse(text, &snapshot).map_err(|error| error.to_string())?;
    for promise in token.groups {
        check_promise(core, user, variables, &snapshot, &promise).await?;
        let (Some(here), Some(group)) =
            (connections.group(&snapshot), snapshot.group(&promise.group))
        else {
            continue;
        };
        connections.switch_to(group, core);
        keeping::require(core, connections, &promise.position);
        connections.switch_to(here, core);
    }
    Ok(())
}

async fn check_promise(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    snapshot: &Snapshot,
    promise: &Promise,
) -> Result<(), String> {
    let group = snapshot.group(&promise.group);
    let Some(primary) = group.and_then(|group| group.primary()) else {
        return Err(format!("group '{}' has no primary now", promise.group));
    };
    if primary.fresh.covers(&promise.position) {
        return Ok(());
    }
    match keeping::ask_position(core, user, variables, primary).await {
        Some(position) if position.covers(&promise.position) => Ok(()),
        Some(_) => Err(format!(
            "group '{}' does not have what it promises: it is from another time of this farm",
            promise.group
        )),
        None => Err(format!(
            "the primary of group '{}' cannot be asked whether it has what the token promises",
            promise.group
        )),
    }
}
