//! The level `client`: a session's reads have what any connection of its client has had acknowledged.
//!
//! A write is told to the client's other connections before its OK goes out ([`crate::consistency::acks`]); a read
//! takes all of it into its session's required GTID. Where that is more than a replica is known to have, the read
//! may need only a part of it: what was written to its own tables, by the clock of the group's binlog.

use std::net::IpAddr;
use std::sync::Arc;

use farm::relations::table_number;
use farm::{ClientScope, Position};
use mysql_wire::relay::Expect;
use routing::Level;
use rowcache::ClientWrites;
use sqltext::{Class, Facts, Verb};

use crate::connections::group_connections::GroupConnections;
use crate::consistency::promises::Promises;
use crate::consistency::promises::keeping;
use crate::consistency::reads;
use crate::door_clients::NOWHERE;
use crate::execution::exec::text_shape::calls_only_quiet;
use crate::execution::exec::{Job, Shape};
use crate::own_account::{Own, is_own};
use crate::per_core::Core;
use crate::session::context::StatementContext;
use crate::session::user::Identity;
use crate::transaction::state::Transaction;
use crate::variables::session_variables::SessionVariables;
use crate::variables::user_variables;

/// All internal sessions of Heddle's own account are one client, and stay it whatever the setting says.
const OF_OWN: ClientScope = ClientScope::Address;

/// The writes of the client that has this connection.
pub fn writes_of(core: &Core, identity: &Identity, address: IpAddr) -> Arc<ClientWrites> {
    let profile = identity.pass.profile();
    let scope = match is_own(&profile.entitlement) {
        true => OF_OWN,
        false => core.settings().consistency.client_scope,
    };
    let number = scope.number(&profile.user, address, identity.process.as_deref());
    let snapshot = core.glance();
    core.shared.reads.writes.of(number, &snapshot)
}

/// The writes of all internal sessions of Heddle's own account.
pub fn own_writes(core: &Core, own: &Own) -> Arc<ClientWrites> {
    let number = OF_OWN.number(own.user.as_bytes(), NOWHERE.ip(), None);
    let snapshot = core.glance();
    core.shared.reads.writes.of(number, &snapshot)
}

/// No replica is known to have the required GTID: what of it this read needs, where that is known to be less.
pub(crate) fn need_of(
    context: &StatementContext<'_>,
    promises: &Promises,
    shape: &Shape,
    job: Job,
) -> Option<Position> {
    match job {
        Job::Frame(Expect::Results) if context.client.request.is_split() => None,
        Job::Frame(Expect::Results) | Job::Execute(_) => need_of_text(
            context.core,
            context.variables,
            context.connections,
            promises,
            shape,
            user_variables::text(&context.client.request, context.prepared, job),
        ),
        Job::Frame(_) | Job::Prepare(_) => None,
    }
}

impl SessionVariables {
    /// The tables that a SELECT reads; `None` where a function, or what is not understood, may read others.
    fn tables_read(&self, shape: &Shape, text: &[u8]) -> Option<Vec<u64>> {
        if shape.facts.contains(Facts::SERVER_SCHEMA) || !calls_only_quiet(text) {
            return None;
        }
        let tables = sqltext::read_tables(text, &self.mode)?;
        tables.iter().map(|table| table_number(&table.name)).collect()
    }
}

/// Before a read: at the level client what the client's connections have had acknowledged joins the
/// required GTID. Costs one look at a number while nothing was.
pub(crate) fn heed_client(
    core: &Core,
    connections: &mut GroupConnections,
    transaction: &mut Transaction,
    promises: &Promises,
    shape: &Shape,
) {
    let free = connections.current.held.is_none() && promises.level_of(shape) == Level::Client;
    if free
        && (shape.class == Class::Read || reads::begins_reading(core, shape))
        && connections.current.seen.client_version != transaction.writes.version()
    {
        take_client_writes(core, connections, transaction);
    }
}

#[inline(never)]
fn take_client_writes(
    core: &Core,
    connections: &mut GroupConnections,
    transaction: &mut Transaction,
) {
    let snapshot = core.glance();
    let Some(group) = connections.group(&snapshot) else {
        return;
    };
    let required = transaction.writes.required(group);
    let seen = &mut connections.current.seen;
    seen.client_version = required.version;
    seen.client_doubts = required.doubts;
    seen.unproved |= required.doubts > 0;
    seen.unlogged |= required.unlogged;
    if let Some(position) = required.position {
        keeping::require(core, connections, &position);
    }
}

/// Something was committed in the current seat's group, at this position where it is known, and the
/// client is about to hear of it.
pub fn tell_client(
    core: &Core,
    connections: &GroupConnections,
    transaction: &Transaction,
    position: Option<&Position>,
) {
    let snapshot = core.glance();
    let Some(group) = connections.group(&snapshot) else {
        return;
    };
    match position {
        Some(position) => transaction.writes.note(group, position),
        None => transaction.writes.doubt(group),
    }
}

/// The same in groups of which nothing is known.
pub fn tell_client_everywhere(core: &Core, transaction: &Transaction) {
    for group in &core.glance().groups {
        transaction.writes.doubt(group);
    }
}

/// The same of what no GTID tells of.
#[cold]
pub(crate) fn tell_client_unlogged(
    core: &Core,
    connections: &GroupConnections,
    transaction: &Transaction,
) {
    let snapshot = core.glance();
    if let Some(group) = connections.group(&snapshot) {
        transaction.writes.note_unlogged(group);
    }
}

/// The primary has this position, and was asked after the client's writes were last looked at.
pub(crate) fn prove_to_client(
    core: &Core,
    connections: &GroupConnections,
    transaction: &Transaction,
    position: &Position,
) {
    let doubts = connections.current.seen.client_doubts;
    let snapshot = core.glance();
    if let Some(group) = connections.group(&snapshot).filter(|_| doubts > 0) {
        transaction.writes.prove(group, doubts, position);
    }
}

/// The same of this text.
pub(crate) fn need_of_text(
    core: &Core,
    variables: &SessionVariables,
    connections: &GroupConnections,
    promises: &Promises,
    shape: &Shape,
    text: &[u8],
) -> Option<Position> {
    let plain = shape.class == Class::Read && matches!(shape.verb, Verb::Select);
    let seen = &connections.current.seen;
    if !plain || !promises.level_of(shape).has_required() || seen.unproved || seen.unlogged {
        return None;
    }
    let required = seen.required.as_deref()?;
    let snapshot = core.glance();
    let clock = core.shared.reads.clocks.of(&connections.group(&snapshot)?.name);
    clock.want(core.now_us());
    let need = clock.narrowed(required, &variables.tables_read(shape, text)?)?;
    (!need.covers(required)).then_some(need)
}
