//! Keeping promises: what a reply adds to them, what a read needs by them, and what is asked so that a replica may
//! serve it.

use std::net::IpAddr;
use std::rc::Rc;

use backend::Connection;
use farm::{Position, Server};
use routing::{LastRead, Level, Need};
use sqltext::{Class, Verb};

use crate::connections::group_connections::GroupConnections;
use crate::consistency::client_level;
use crate::consistency::defaults::{Consistency, bound_us};
use crate::consistency::promises::{ASK_EVERY_US, Promises, executed};
use crate::execution::exec::Shape;
use crate::execution::rules;
use crate::per_core::Core;
use crate::session::Session;
use crate::session::user::SessionUser;
use crate::transaction::state::Transaction;
use crate::variables::changes::Changes;
use crate::variables::session_variables::SessionVariables;

/// After a reply: what was written, what was read, and what nobody can say; true when there is
/// such a thing.
pub fn note_promises(
    session: &mut Session,
    connection: &Connection,
    shape: &Shape,
    changes: &mut Changes,
    failed: bool,
    in_transaction: bool,
) -> bool {
    let mut doubt = false;
    if changes.gtid.is_some() {
        match changes.position(connection.engine()) {
            Some(position) => require(&session.core, &mut session.connections, position),
            None => (session.connections.current.seen.unproved, doubt) = (true, true),
        }
    }
    let may_write = shape.writes || (failed && shape.class == Class::Transaction);
    if may_write && !connection.tells_gtids {
        (session.connections.current.seen.unlogged, doubt) = (true, true);
    } else if may_write && failed && (!in_transaction || shape.class != Class::Write) {
        (session.connections.current.seen.unproved, doubt) = (true, true);
    }
    session.promises.wrote |= shape.writes;
    let began_us = std::mem::take(&mut session.promises.began_us);
    let counts = session.promises.counts || session.promises.row_cache;
    if counts && (shape.class == Class::Read || matches!(shape.verb, Verb::Select)) {
        let (server, ended_us) = (connection.server, session.core.now_us());
        session.connections.current.seen.last_read = Some(LastRead { server, ended_us });
        if connection.is_guarded() {
            session.connections.current.seen.last_replica = Some(server);
            if began_us > 0 {
                let took_us = ended_us.saturating_sub(began_us);
                let mut balance = session.core.balance.borrow_mut();
                balance.answered(server, took_us, ended_us);
            }
        }
    }
    doubt
}

/// Asks what lets a replica, or another one, serve this read.
pub(crate) async fn ask_before_read(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    transaction: &mut Transaction,
    promises: &Promises,
    shape: &Shape,
) {
    match may_prove(connections, promises, shape) {
        true => prove_writes(core, user, variables, connections, transaction).await,
        false => ask_to_move(core, user, variables, connections).await,
    }
}

/// Before a read: asks the primary how far it is, where the session may have written more than
/// it was told. Without an answer the session's reads stay on the primary.
pub(crate) async fn prove_writes(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    transaction: &mut Transaction,
) {
    let taken = core
        .take_from_primary(connections.current.group, &user.identity.pass, &variables.state, false)
        .await;
    let Ok(mut lease) = taken else { return };
    let connection = lease.connection_mut();
    let writable = !connection.is_guarded();
    let Some(position) = executed(connection).await else {
        return;
    };
    lease.release();
    if writable {
        client_level::prove_to_client(core, connections, transaction, &position);
        require(core, connections, &position);
        connections.current.seen.unproved = false;
    }
}

/// What this statement needs, if it is a read.
pub fn need<'a>(
    core: &'a Core,
    connections: &'a GroupConnections,
    promises: &'a Promises,
    shape: &Shape,
    now_us: u64,
) -> Need<'a> {
    let (promises, seen) = (promises, &connections.current.seen);
    let level = match promises.level_of(shape) {
        Level::Eventual { max_lag_us: None } => Level::Eventual {
            max_lag_us: bound_us(promises.max_lag_ms),
        },
        other => other,
    };
    let to_primary = core.settings().reads.master_on_write && promises.wrote;
    let level = if to_primary { Level::Strong } else { level };
    Need {
        level,
        required: promises.required(seen),
        unproved: seen.unproved || seen.unlogged,
        last_read: seen.last_read.filter(|_| promises.monotonic),
        now_us,
        wait_us: core.settings().consistency.wait_ms * 1000,
    }
}

impl GroupConnections {
    /// What the session wrote may be more than it was told.
    pub fn lose_proof(&mut self) {
        self.current.seen.unproved = true;
    }
}

/// The session has this of the current group from now on.
pub fn require(core: &Core, connections: &mut GroupConnections, position: &Position) {
    let snapshot = core.glance();
    let mut executed = None;
    if let Some(group) = connections.group(&snapshot) {
        connections.current.seen.turn(group.timeline());
        executed = position.may_have_gaps().then(|| group.executed()).flatten();
    }
    let executed = executed.as_ref().map(|known| &known.position);
    connections.current.seen.raise(position, executed);
}

/// A statement was sent and nobody knows what became of it.
pub fn note_committed(
    core: &Core,
    connections: &mut GroupConnections,
    transaction: &Transaction,
    promises: &mut Promises,
    gtid: &str,
) {
    let snapshot = core.glance();
    let primary = connections.group(&snapshot).and_then(|group| group.primary());
    let engine = primary.map(|server| server.engine);
    match engine.and_then(|engine| Position::parse(engine, gtid)) {
        Some(position) => {
            client_level::tell_client(core, connections, transaction, Some(&position));
            require(core, connections, &position);
        }
        None => {
            client_level::tell_client(core, connections, transaction, None);
            connections.current.seen.unproved = true;
        }
    }
    promises.wrote = true;
}

/// True when [`prove_writes`] may let a replica serve this statement.
pub(crate) fn may_prove(
    connections: &GroupConnections,
    promises: &Promises,
    shape: &Shape,
) -> bool {
    connections.current.seen.unproved
        && !connections.current.seen.unlogged
        && shape.class == Class::Read
        && connections.current.held.is_none()
        && promises.level_of(shape).has_required()
}

/// True when the server of the last read has served too much, and asking it for its position may
/// let another one serve. Looks of the control plane seldom come between two reads of a session
/// that reads without a pause.
pub(crate) fn may_ask_to_move(
    core: &Core,
    connections: &GroupConnections,
    promises: &Promises,
    shape: &Shape,
) -> bool {
    let Some(last) = connections.current.seen.last_read else {
        return false;
    };
    shape.class == Class::Read
        && promises.monotonic
        && promises.counts
        && connections.current.held.is_none()
        && core.balance.borrow().overdrawn(last.server)
        && core.now_us().saturating_sub(connections.current.seen.asked_us) > ASK_EVERY_US
}

/// Asks the server of the last read for its position.
async fn ask_to_move(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
) {
    connections.current.seen.asked_us = core.now_us();
    let snapshot = core.snapshot();
    let last = connections.current.seen.last_read.map(|last| last.server);
    if let Some(server) = last.and_then(|id| snapshot.server(id)) {
        ask_position(core, user, variables, server).await;
    }
}

/// A position that the server of a read has had since.
pub(crate) async fn position_after(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    server: Option<&Server>,
    last: &LastRead,
) -> Option<Position> {
    let server = server?;
    if let Some(known) = server.fresh.known()
        && known.asked_us > last.ended_us
    {
        return Some(known.position.clone());
    }
    ask_position(core, user, variables, server).await
}

/// Asks a server for its position, on a connection of this session's account.
pub(crate) async fn ask_position(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    server: &Server,
) -> Option<Position> {
    let snapshot = core.snapshot();
    let target = crate::connections::target::target(&snapshot, server.id, !server.serves_writes())?;
    let pools = &core.pools;
    let key = pools.key(server.id, target.read_only, &user.identity.pass);
    let state = Rc::clone(&variables.state);
    let mut lease = pools.take(&target, key, &state, 0).await.ok()?;
    let asked_us = core.now_us();
    let position = executed(lease.connection_mut()).await?;
    lease.release();
    server.fresh.learn(position.clone(), asked_us);
    Some(position)
}

/// What the session began with.
pub(crate) fn default_promises(core: &Core, user: &SessionUser) -> Consistency {
    let name = user.name();
    rules::consistency_of(core, name, user.peer.ip())
}

/// The session starts anew with the defaults of its account. What it has written and seen, its
/// reads must have as before.
pub fn renew_promises(core: &Core, user: &SessionUser, promises: &mut Promises) {
    let name = user.name();
    let mut renewed = promises_of(core, name, user.peer.ip());
    renewed.wrote = promises.wrote;
    *promises = renewed;
}

/// What a new session of this user is promised.
pub(crate) fn promises_of(core: &Core, user: &[u8], address: IpAddr) -> Promises {
    let version = core.heed_settings();
    let (tags_on, wait_ms) =
        (rules::marks_of(core, user, address), core.settings().failover_wait_ms);
    let mut promises = Promises::new(&rules::consistency_of(core, user, address), tags_on, wait_ms);
    promises.version = version;
    promises
}
