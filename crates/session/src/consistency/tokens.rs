//! Tokens: what a session has written and read, of all groups, as a value that can be handed over.

use farm::token::Promise;
use farm::{ClientError, Group, Snapshot, Token, error};

use crate::authentication::login::SessionUser;
use crate::connections::group_connections::{GroupConnections, group_of};
use crate::consistency::promises;
use crate::per_core::Core;
use crate::session::Session;
use crate::variables::session_variables::SessionVariables;

impl Session {
    /// The session's token: what it has written and what it has read, in all groups.
    pub(crate) async fn token(&mut self) -> Result<String, ClientError> {
        let snapshot = self.core.snapshot();
        let here = self.connections.group(&snapshot).ok_or(error::NO_GROUP)?.clone();
        let mut groups: Vec<Promise> = self.promise(&snapshot, &here).await?.into_iter().collect();
        let others: Vec<u32> = self.connections.others.iter().map(|seat| seat.group).collect();
        let others = others.iter().filter_map(|&seat| group_of(&snapshot, seat));
        for group in others {
            self.connections.switch_to(group, &self.core);
            let promise = self.promise(&snapshot, group).await;
            self.connections.switch_to(&here, &self.core);
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
        &mut self,
        snapshot: &Snapshot,
        group: &Group,
    ) -> Result<Option<Promise>, ClientError> {
        if self.connections.current.seen.unproved {
            self.prove_writes().await;
        }
        if self.connections.current.seen.unproved || self.connections.current.seen.unlogged {
            return Err(error::TOKEN_UNKNOWN);
        }
        let mut promised = self.connections.current.seen.floor.as_deref().cloned();
        if let Some(last) = self.connections.current.seen.last_read {
            let server = snapshot.server(last.server);
            let seen = promises::position_after(
                &self.core,
                &self.user,
                &self.variables,
                server.map(|s| &**s),
                &last,
            )
            .await;
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
        promises::require(core, connections, promise.position);
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
    match promises::ask_position(core, user, variables, primary).await {
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
