//! Replicas and readers of the binlog: COM_REGISTER_SLAVE, COM_BINLOG_DUMP, COM_BINLOG_DUMP_GTID.
//!
//! What such a client sets up (its registration, its user variables) must be on the connection that
//! the stream comes from, so the session keeps one of the primary's from then on, and nobody else
//! gets it afterwards. Who may read what is decided by the server.
//!
//! A stream is of a group. It has what is as safe as an acknowledged commit and nothing else ([`source`]), and
//! ends with a network error when its server is lost or is the primary no longer. Its reader connects again and
//! goes on at the new primary by GTID. It is not carried over unseen: what a replica asked its source when it
//! connected (number, UUID, clock, checksums) would be another server's, and MariaDB's replica takes back a
//! transaction of which it has the beginning when it sees that the server's number has changed.

mod beginning;
mod source;
mod stream;
mod withheld;

use std::cell::{Cell, RefCell};

use execute::client::Client;
use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::sink::ReplySink;
use execute::connections::group_connections::{GroupConnections, Held};
use execute::connections::parked::reclaim;
use execute::connections::pin::Pins;
use execute::consistency::acks::wait;
use execute::counters::count;
use execute::execution::exec::{Job, Shape};
use execute::execution::{route, rules, servers_tried, without};
use execute::per_core::Core;
use execute::per_core::handle::Handle;
use execute::session::{self, Session};
use execute::variables::{self, user_variables};
use farm::{GroupKind, ServerId, error};
use mysql_wire::binlog::Dump;
use mysql_wire::binlog::sync::Declined;
use mysql_wire::command::Command;
use mysql_wire::packet::HEADER_BYTES;
use mysql_wire::relay::Expect;

use crate::query::by_rules;
use beginning::Asked;
use source::Source;
use stream::{Over, Stream};
use withheld::Withheld;

/// COM_REGISTER_SLAVE.
pub(crate) async fn register_replica(session: &mut Session) -> Result<(), End> {
    if !hold_for_replication(session).await? {
        return Ok(());
    }
    let job = Job::Frame(Expect::Single);
    by_rules::run_command(session, Shape::command(), job).await
}

/// COM_BINLOG_DUMP and COM_BINLOG_DUMP_GTID.
pub(crate) async fn read_binlog(session: &mut Session) -> Result<(), End> {
    let payload = session.client.request.payload();
    let by_gtid = payload.first() == Some(&(Command::BinlogDumpGtid as u8));
    let dump = payload.get(1..).and_then(|payload| Dump::decode(payload, by_gtid));
    let Some(dump) = dump else {
        return session.client.error(&error::MALFORMED_PACKET, &["a request for a binlog"]).await;
    };
    // Whoever names a file means a place of one server.
    let (ends, has_place) = (dump.ends, !by_gtid || !dump.file.is_empty());
    if !hold_for_replication(session).await? {
        return Ok(());
    }
    let Some(mut held) = session.connections.current.held.take() else {
        return Ok(());
    };
    count(&session.core.counters.statements);
    let connection = held.lease.connection_mut();
    session.handle.at_servers.running.set(Some((connection.server, connection.thread_id)));
    let prepared = bring_variables(session, &mut held).await;
    let replicates = is_of_replicas(session);
    if let Some(asked) = &prepared
        && has_place
        && replicates
        && !ends
        && !asked.has_position
    {
        session.handle.at_servers.running.set(None);
        session.connections.current.held = Some(held);
        let group = session.connections.group(&session.core.snapshot()).map(|it| it.name.clone());
        let group = group.unwrap_or_default();
        session.client.error(&error::BINLOG_BY_POSITION, &[&group]).await?;
        return Err(End::Quit);
    }
    let (over, sequence) = match prepared {
        Some(asked) => pass_stream(session, &mut held, &asked, replicates).await,
        None => (Over::ServerGone, Some(1)),
    };
    session.handle.at_servers.running.set(None);
    end_of_stream(
        (&session.core, &session.handle),
        &mut session.client,
        &mut session.connections,
        held,
        over,
        sequence,
    )
    .await
}

/// The session's group has a primary that others follow, so that a failover may take something back.
fn is_of_replicas(session: &Session) -> bool {
    let snapshot = session.core.snapshot();
    let group = session.connections.group(&snapshot);
    group.is_some_and(|group| group.kind == GroupKind::Replication)
}

/// Brings the session's variables to its connection and reads what they ask for; `None` when the server is
/// gone.
async fn bring_variables(session: &mut Session, held: &mut Held) -> Option<Asked> {
    let (connection, shape) = (held.lease.connection_mut(), Shape::command());
    if user_variables::variables_differ(&session.handle, &session.variables, connection, &shape) {
        let moved = variables::user_variables::move_variables(
            &session.handle,
            &session.client.request,
            &mut session.variables,
            &session.prepared,
            connection,
            &shape,
            Job::Frame(Expect::Single),
        );
        moved.await.ok()?;
    }
    beginning::asked(connection).await.ok()
}

/// Sends the request and passes on what comes. Also tells the number of the next packet.
async fn pass_stream(
    session: &mut Session,
    held: &mut Held,
    asked: &Asked,
    withholds: bool,
) -> (Over, Option<u8>) {
    let connection = held.lease.connection_mut();
    let mut source = withholds.then(|| {
        let copies =
            wait::copies(&session.core, &session.handle, &session.user, &session.transaction);
        let (pass, seat) = (&session.user.identity.pass, session.connections.current.group);
        Source::new(&session.core, pass, seat, connection, copies)
    });
    let (frame, range) = session.client.request.lend();
    let (sent, frame) = connection.send(frame, range).await;
    session.client.request.restore(frame);
    let mut ahead = Vec::new();
    session.client.request.take_rest(&mut ahead);
    let progress = session.client.progress.clone();
    let (mut over, mut sequence) = (Over::ServerGone, Some(1));
    if sent.is_ok()
        && let Some(client) = session.client.duplex()
    {
        session.handle.streams.set(true);
        let stream = Stream {
            client,
            withheld: RefCell::new(Withheld::new(connection.engine(), withholds)),
            server: connection.duplex(),
            progress: &progress,
            counters: &session.core.counters,
            declined: asked.semi_sync.then(|| RefCell::new(Declined::new())),
            ahead: RefCell::new(ahead),
            server_gone: Cell::new(false),
            sends: Cell::new(false),
            turn: Cell::new(0),
        };
        over = stream.run(session.core.take_buffer(), source.as_mut()).await;
        sequence = stream.next_sequence();
        ahead = stream.ahead.into_inner();
        session.handle.streams.set(false);
    }
    session.client.request.give_rest(&ahead);
    session.core.waits.acks.interrupt(session.handle.id);
    if let Some(source) = source {
        source.end();
    }
    (over, sequence)
}

/// Has the session keep a connection of the primary to itself, with its variables there. False
/// when the client has been told why there is none. What it asked before, it asked of the same primary, or the
/// session ends.
async fn hold_for_replication(session: &mut Session) -> Result<bool, End> {
    let shape = Shape::command();
    if !enter_group(session).await? {
        return Ok(false);
    }
    let (mut lease, mut pins) = loop {
        let (plan, target) = match route::route(session, &shape, None, &[]) {
            Ok(route) => route,
            Err(refusal) => {
                let told = session.client.error(&refusal.error, &[&refusal.detail]).await;
                return told.map(|()| false);
            }
        };
        match servers_tried::checkout(session, &plan, &target, &shape).await {
            Ok(taken) => break taken,
            Err(error)
                if without::does_without(
                    &session.core,
                    &session.handle,
                    &session.user,
                    &mut session.variables,
                    &error,
                ) => {}
            Err(error) => {
                let told = session.client.pool_error(&error, &target).await;
                return told.map(|()| false);
            }
        }
    };
    let server = lease.connection().server;
    if let Some(before) = session.connections.led_before(server) {
        lease.connection_mut().condemn();
        return Err(lose_primary(&session.core, &mut session.client, before).await);
    }
    if session.handle.killed.get() {
        reclaim::give_back_after_error(
            &session.core,
            &session.handle,
            &session.variables,
            &mut session.connections,
            lease,
            pins,
        );
        return Err(session::last_word(&session.core, &mut session.client).await);
    }
    if !pins.contains(Pins::REPLICATION) {
        count(&session.core.counters.pins_replication);
    }
    // No reset ends what the server knows of a replica.
    lease.connection_mut().condemn();
    pins |= Pins::REPLICATION;
    session.connections.current.held = Some(Held { lease, pins });
    Ok(true)
}

/// Makes the group that the account's sessions begin in the current one. False when the client has been told that
/// there is no such group.
async fn enter_group(session: &mut Session) -> Result<bool, End> {
    let (core, user) = (&session.core, &session.user);
    let Some(name) = rules::group_of(core, user.name(), user.peer.ip()) else {
        return Ok(true);
    };
    let snapshot = core.snapshot();
    match snapshot.group(&name) {
        Some(group) => session.connections.switch_to(group, core),
        None => {
            session.client.error(&error::BINLOG_OF_NO_GROUP, &[&name]).await?;
            return Ok(false);
        }
    }
    Ok(true)
}

/// Tells the client how its stream ended. `sequence` is the number of the next packet, where one
/// can be sent.
async fn end_of_stream(
    (core, handle): (&Core, &Handle),
    client: &mut Client,
    connections: &mut GroupConnections,
    held: Held,
    over: Over,
    sequence: Option<u8>,
) -> Result<(), End> {
    if matches!(over, Over::ServerGone) && !handle.killed.get() {
        count(&core.counters.binlog_streams_moved);
    }
    client.sequence = sequence.unwrap_or_default();
    match over {
        Over::Ended(mut packet) => {
            let refused = denied(&packet);
            if let (Some(number), Some(place)) = (sequence, packet.get_mut(HEADER_BYTES - 1)) {
                *place = number;
            }
            client.say(packet).await?;
            if !refused {
                // As the servers do, whether the end is an error or not.
                return Err(End::Quit);
            }
            connections.current.held = Some(held);
            Ok(())
        }
        Over::ClientGone if !handle.killed.get() => Err(End::Gone),
        _ if sequence.is_none() => Err(End::TornResult),
        _ if handle.killed.get() => Err(session::last_word(core, client).await),
        _ => {
            let server = held.lease.connection().server;
            Err(lose_primary(core, client, server).await)
        }
    }
}

/// Ends a session whose server is lost, or is the primary no longer: a replica takes this for a failure of the
/// network, and connects again at once.
async fn lose_primary(core: &Core, client: &mut Client, server: ServerId) -> End {
    count(&core.counters.servers_lost);
    let snapshot = core.snapshot();
    let server = snapshot.server(server).map(|it| format!("{}:{}", it.host, it.port));
    let server = server.unwrap_or_default();
    match client.error(&error::SERVER_LOST, &[&server]).await {
        Ok(()) => End::Quit,
        Err(end) => end,
    }
}

/// The packet is ER_SPECIFIC_ACCESS_DENIED_ERROR: no stream has begun.
fn denied(packet: &[u8]) -> bool {
    let number = packet.get(HEADER_BYTES + 1..HEADER_BYTES + 3);
    packet.get(HEADER_BYTES) == Some(&0xFF) && number == Some(&1227u16.to_le_bytes())
}
