//! What a session's reads are promised: its level, what it has written, what it has read, its token.
//!
//! A write's GTID comes with the server's OK packet and joins the session's required GTID: what every later
//! read at the level `session` must have. At the level `client` the required GTID takes in what any connection
//! of the same client has had acknowledged ([`crate::consistency::client_level`]). Where a write has told none though it may have changed
//! something (it failed half-way, its server was lost), the required GTID is unproved, and the primary is
//! asked for its position before a replica serves again.

use std::net::IpAddr;
use std::rc::Rc;

use backend::Connection;
use enginesql::position;
use farm::dist_txn::Atomic;
use farm::{ClientScope, Position, Server, ServerId};
use routing::{LastRead, Level, Need};
use sqltext::{Class, Verb};

use crate::authentication::login::SessionUser;
use crate::connections::group_connections::GroupConnections;
use crate::consistency::client_level;
use crate::execution::exec::Shape;
use crate::per_core::Core;
use crate::session::Session;
use crate::transaction::state::Transaction;
use crate::variables::changes::Changes;
use crate::variables::own_variables::Own;
use crate::variables::session_variables::SessionVariables;

/// A bound of this many milliseconds is none.
pub const UNBOUNDED_MS: u64 = u32::MAX as u64;

/// The defaults of new sessions, and what holds for all.
#[derive(Clone, Copy, Debug)]
pub struct Consistency {
    /// The bound of `Eventual` is that of `max_lag_ms`, whatever the level.
    pub level: Level,
    /// Which connections are one client's, for those that log in from now on.
    pub client_scope: ClientScope,
    pub max_lag_ms: u64,
    /// Reads of one session do not go back in time.
    pub monotonic: bool,
    /// How long a replica is waited for that lacks what a session wrote.
    pub wait_ms: u64,
}

impl Default for Consistency {
    fn default() -> Consistency {
        Consistency {
            level: Level::Client,
            client_scope: ClientScope::Address,
            max_lag_ms: 10_000,
            monotonic: true,
            wait_ms: 20,
        }
    }
}

/// A session asks its server no more often where it stands.
const ASK_EVERY_US: u64 = 50_000;

/// The bound of an eventual read.
pub(crate) fn bound_us(max_lag_ms: u64) -> Option<u64> {
    (max_lag_ms < UNBOUNDED_MS).then(|| max_lag_ms.saturating_mul(1000))
}

/// One session's promises.
#[derive(Debug)]
pub(crate) struct Promises {
    pub level: Level,
    pub max_lag_ms: u64,
    pub monotonic: bool,
    /// Its writes are marked.
    pub tags_on: bool,
    /// Eventual reads may be answered from the cache; 0 is not.
    pub cache_ttl_s: u32,
    /// Point SELECTs may be answered by the row cache.
    pub row_cache: bool,
    /// When the cache last answered; 0 for never.
    pub recalled_us: u64,
    /// The session's statements wait so long for a primary.
    pub failover_wait_ms: u64,
    /// What its transactions over several groups are; `None` is its user's or the farm's default.
    pub atomic: Option<Atomic>,
    /// What it has set itself, and so does not follow the defaults.
    pub own: Own,
    /// The version of the settings that the defaults are of.
    pub version: u32,
    /// What of the required GTID the read under way needs, where that is known to be less.
    pub narrowed: Option<Box<Position>>,
    /// It has written at all.
    wrote: bool,
    /// When the read under way was planned; 0 for none.
    pub began_us: u64,
    /// The group has more than one server; else none of this matters.
    pub counts: bool,
}

/// What a session has written to and read from one group.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub required: Option<Box<Position>>,
    /// It may have written more than `required` says.
    pub unproved: bool,
    /// It has written where no GTID tells of it.
    pub unlogged: bool,
    pub last_read: Option<LastRead>,
    /// The group's timeline when the required GTID was last looked at; 0 before that.
    timeline: u32,
    /// What of the client's writes is in the required GTID: their version, and how often they were not known.
    pub client_version: u64,
    pub client_doubts: u64,
    last_replica: Option<ServerId>,
    /// When the session's server was last asked where it stands, so that others may serve.
    asked_us: u64,
}

impl Promises {
    pub fn new(defaults: &Consistency, tags_on: bool, failover_wait_ms: u64) -> Promises {
        Promises {
            tags_on,
            level: defaults.level,
            max_lag_ms: defaults.max_lag_ms,
            monotonic: defaults.monotonic,
            cache_ttl_s: 0,
            row_cache: false,
            recalled_us: 0,
            failover_wait_ms,
            atomic: None,
            own: Own::empty(),
            version: 0,
            narrowed: None,
            wrote: false,
            began_us: 0,
            counts: false,
        }
    }

    /// The session has written at all.
    pub fn wrote(&self) -> bool {
        self.wrote
    }

    /// What the read under way needs of a group of which the session has seen this.
    pub fn required<'a>(&'a self, seen: &'a Seen) -> Option<&'a Position> {
        self.narrowed.as_deref().or(seen.required.as_deref())
    }
}

impl Seen {
    /// True while nothing is required of reads.
    pub fn is_empty(&self) -> bool {
        self.required.is_none() && !self.unproved && !self.unlogged && self.last_read.is_none()
    }

    /// The replica that served the last read of a replica.
    pub fn last_replica(&self) -> Option<ServerId> {
        self.last_replica
    }

    /// Reads of the group must have this from now on.
    fn raise(&mut self, position: Position, executed: Option<&Position>) {
        match &mut self.required {
            Some(required) => required.join_among(&position, executed),
            None => self.required = Some(Box::new(position)),
        }
    }

    /// The group may have lost a primary since. What was lost with it never comes, so the new primary
    /// is asked what there is.
    pub fn turn(&mut self, timeline: u32) {
        if self.timeline < timeline {
            if self.timeline > 0 && self.required.take().is_some() {
                self.unproved = true;
            }
            self.timeline = timeline;
        }
    }

    /// Nothing is promised any more of what was written and read so far.
    pub fn forget(&mut self) {
        self.required = None;
        self.unproved = false;
        self.last_read = None;
    }
}

impl Session {
    /// After a reply: what was written, what was read, and what nobody can say; true when there is
    /// such a thing.
    pub(crate) fn note_promises(
        &mut self,
        connection: &Connection,
        shape: &Shape,
        changes: &Changes,
        failed: bool,
        in_transaction: bool,
    ) -> bool {
        let mut doubt = false;
        if let Some(gtid) = &changes.gtid {
            let text = String::from_utf8_lossy(gtid);
            match Position::parse(connection.engine(), &text) {
                Some(position) => require(&self.core, &mut self.connections, position),
                None => (self.connections.current.seen.unproved, doubt) = (true, true),
            }
        }
        let may_write = shape.writes || (failed && shape.class == Class::Transaction);
        if may_write && !connection.tells_gtids {
            (self.connections.current.seen.unlogged, doubt) = (true, true);
        } else if may_write && failed && (!in_transaction || shape.class != Class::Write) {
            (self.connections.current.seen.unproved, doubt) = (true, true);
        }
        self.promises.wrote |= shape.writes;
        let began_us = std::mem::take(&mut self.promises.began_us);
        let counts = self.promises.counts || self.promises.row_cache;
        if counts && (shape.class == Class::Read || shape.verb == Verb::Select) {
            let (server, ended_us) = (connection.server, self.core.now_us());
            self.connections.current.seen.last_read = Some(LastRead { server, ended_us });
            if connection.is_guarded() {
                self.connections.current.seen.last_replica = Some(server);
                if began_us > 0 {
                    let took_us = ended_us.saturating_sub(began_us);
                    let mut balance = self.core.balance.borrow_mut();
                    balance.answered(server, took_us, ended_us);
                }
            }
        }
        doubt
    }

    /// Asks what lets a replica, or another one, serve this read.
    pub(crate) async fn ask_before_read(&mut self, shape: &Shape) {
        match may_prove(&self.connections, &self.promises, shape) {
            true => {
                prove_writes(
                    &self.core,
                    &self.user,
                    &self.variables,
                    &mut self.connections,
                    &mut self.transaction,
                )
                .await
            }
            false => {
                ask_to_move(&self.core, &self.user, &self.variables, &mut self.connections).await
            }
        }
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
        require(core, connections, position);
        connections.current.seen.unproved = false;
    }
}

/// What this statement needs, if it is a read.
pub(crate) fn need<'a>(
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

impl Promises {
    /// The level that this statement is asked to have, if it is a read: its own, or the session's.
    pub(crate) fn level_of(&self, shape: &Shape) -> Level {
        shape.level.unwrap_or(self.level)
    }
}

impl GroupConnections {
    /// What the session wrote may be more than it was told.
    pub(crate) fn lose_proof(&mut self) {
        self.current.seen.unproved = true;
    }
}

/// The session has this of the current group from now on.
pub(crate) fn require(core: &Core, connections: &mut GroupConnections, position: Position) {
    let snapshot = core.shared.published.load();
    let mut executed = None;
    if let Some(group) = connections.group(&snapshot) {
        connections.current.seen.turn(group.timeline());
        executed = group.executed();
    }
    let executed = executed.as_ref().map(|known| &known.position);
    connections.current.seen.raise(position, executed);
}

/// A statement was sent and nobody knows what became of it.
pub(crate) fn note_committed(
    core: &Core,
    connections: &mut GroupConnections,
    transaction: &Transaction,
    promises: &mut Promises,
    gtid: &str,
) {
    let snapshot = core.shared.published.load();
    let primary = connections.group(&snapshot).and_then(|group| group.primary());
    let engine = primary.map(|server| server.engine);
    match engine.and_then(|engine| Position::parse(engine, gtid)) {
        Some(position) => {
            client_level::tell_client(core, connections, transaction, Some(&position));
            require(core, connections, position);
        }
        None => {
            client_level::tell_client(core, connections, transaction, None);
            connections.current.seen.unproved = true;
        }
    }
    promises.wrote = true;
}

/// True when [`Session::prove_writes`] may let a replica serve this statement.
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
    core.consistency_of(name, user.peer.ip())
}

/// The session starts anew with the defaults of its account. What it has written and seen, its
/// reads must have as before.
pub(crate) fn renew_promises(core: &Core, user: &SessionUser, promises: &mut Promises) {
    let name = user.name();
    let mut renewed = core.promises_of(name, user.peer.ip());
    renewed.wrote = promises.wrote;
    *promises = renewed;
}

impl Core {
    /// What a new session of this user is promised.
    pub(crate) fn promises_of(&self, user: &[u8], address: IpAddr) -> Promises {
        let version = self.heed_settings();
        let (tags_on, wait_ms) = (self.marks_of(user, address), self.settings().failover_wait_ms);
        let mut promises = Promises::new(&self.consistency_of(user, address), tags_on, wait_ms);
        promises.version = version;
        promises
    }
}

/// What the server of this connection has executed.
pub(crate) async fn executed(connection: &mut Connection) -> Option<Position> {
    let engine = connection.engine();
    let ask = format!("SELECT {}", position::executed(engine));
    let answer = connection.ask(ask.as_bytes()).await.ok()?;
    Position::parse(engine, &String::from_utf8_lossy(answer.first()?))
}
