//! Replicas and readers of the binlog: COM_REGISTER_SLAVE, COM_BINLOG_DUMP, COM_BINLOG_DUMP_GTID.
//!
//! What such a client sets up (its registration, its user variables) must be on the connection that
//! the stream comes from, so the session keeps one of the primary's from then on, and nobody else
//! gets it afterwards. Who may read what is decided by the server. The stream passes as it comes, and
//! has no end but the client's, the server's, a KILL, or the end of the router.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;

use channel::Duplex;
use farm::error;
use mysql_wire::binlog::{Events, acknowledgements};
use mysql_wire::packet::HEADER_BYTES;
use mysql_wire::relay::Expect;

use crate::client::Client;
use crate::client::answer::Answers;
use crate::client::end::End;
use crate::client::sink::ReplySink;
use crate::client::stall::{Progress, Wait};
use crate::connections::group_connections::GroupConnections;
use crate::connections::group_connections::Held;
use crate::connections::parked::reclaim;
use crate::connections::pin::Pins;
use crate::counters::count;
use crate::execution::exec::{Job, Shape};
use crate::execution::pipe::make_room;
use crate::execution::{route, servers_tried, without};
use crate::per_core::Core;
use crate::per_core::handle::Handle;
use crate::query::by_rules;
use crate::session::{self, Session};
use crate::variables::session_variables::SessionVariables;
use crate::variables::{self, user_variables};

/// Receive room for what a client says within a stream: acknowledgements are short.
const CLIENT_BYTES: usize = 1024;

/// So much may a client send ahead of the stream's end; then it is not read from any more.
const AHEAD_BYTES_MAX: usize = 65_536;

/// Once a stream has filled this many buffers it goes on in larger pieces.
const SMALL_BUFFERS_MAX: usize = 2;

/// Why a stream is over.
enum Over {
    /// This is the server's last packet, an EOF or an error.
    Ended(Vec<u8>),
    /// The server's connection broke.
    ServerGone,
    /// The client's did, or it was shut from here.
    ClientGone,
}

/// The two connections of a stream, and how far it has come.
struct Stream<'a> {
    client: Duplex<'a>,
    server: Duplex<'a>,
    progress: &'a Progress,
    /// What the client sent and the server did not get.
    ahead: RefCell<Vec<u8>>,
    /// The number of the client's next packet; `None` in the middle of one.
    sequence: Cell<Option<u8>>,
}

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
    if !hold_for_replication(session).await? {
        return Ok(());
    }
    let Some(mut held) = session.connections.current.held.take() else {
        return Ok(());
    };
    count(&session.core.counters.statements);
    let connection = held.lease.connection_mut();
    session.handle.at_servers.running.set(Some((connection.server, connection.thread_id)));
    let mut moved = Ok(());
    if user_variables::variables_differ(
        &session.handle,
        &session.variables,
        connection,
        &Shape::command(),
    ) {
        let job = Job::Frame(Expect::Single);
        moved = variables::user_variables::move_variables(
            &session.handle,
            &session.client.request,
            &mut session.variables,
            &session.prepared,
            connection,
            &Shape::command(),
            job,
        )
        .await;
    }
    let mut over = Over::ServerGone;
    let mut sequence = Some(1);
    if moved.is_ok() {
        let (frame, range) = session.client.request.lend();
        let (sent, frame) = connection.send(frame, range).await;
        session.client.request.restore(frame);
        let mut ahead = Vec::new();
        session.client.request.take_rest(&mut ahead);
        if sent.is_ok()
            && let Some(client) = session.client.duplex()
        {
            session.handle.streams.set(true);
            let progress = session.handle.progress.clone();
            let stream = Stream {
                client,
                server: connection.duplex(),
                progress: &progress,
                ahead: RefCell::new(ahead),
                sequence: Cell::new(Some(1)),
            };
            over = stream.run(session.core.take_buffer()).await;
            sequence = stream.sequence.get();
            ahead = stream.ahead.into_inner();
            session.handle.streams.set(false);
        }
        session.client.request.give_rest(&ahead);
    }
    session.handle.at_servers.running.set(None);
    end_of_stream(
        (&session.core, &session.handle),
        &mut session.client,
        &mut session.variables,
        &mut session.connections,
        held,
        over,
        sequence,
    )
    .await
}

/// Has the session keep a connection of the primary to itself, with its variables there. False
/// when the client has been told why there is none.
async fn hold_for_replication(session: &mut Session) -> Result<bool, End> {
    let shape = Shape::command();
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

/// Tells the client how its stream ended. `sequence` is the number of the next packet, where one
/// can be sent.
async fn end_of_stream(
    (core, handle): (&Core, &Handle),
    client: &mut Client,
    variables: &mut SessionVariables,
    connections: &mut GroupConnections,
    held: Held,
    over: Over,
    sequence: Option<u8>,
) -> Result<(), End> {
    client.sequence = sequence.unwrap_or_default();
    let said = match over {
        Over::Ended(packet) => {
            let refused = denied(&packet);
            client.say(packet).await?;
            if !refused {
                // As the servers do, whether the end is an error or not.
                return Err(End::Quit);
            }
            connections.current.held = Some(held);
            return Ok(());
        }
        Over::ClientGone if !handle.killed.get() => return Err(End::Gone),
        _ if sequence.is_none() => return Err(End::TornResult),
        Over::ClientGone => return Err(session::last_word(core, client).await),
        Over::ServerGone if handle.killed.get() => {
            return Err(session::last_word(core, client).await);
        }
        Over::ServerGone => {
            count(&core.counters.servers_lost);
            let server = core.snapshot();
            let server = server.server(held.lease.connection().server);
            let server = server.map(|s| format!("{}:{}", s.host, s.port));
            let server = server.unwrap_or_default();
            client.error(&error::SERVER_LOST, &[&server]).await
        }
    };
    if let Some(own) = variables.user_variables.as_mut() {
        own.lose_silently();
    }
    connections.ties = None;
    said
}

/// The packet is ER_SPECIFIC_ACCESS_DENIED_ERROR: no stream has begun.
fn denied(packet: &[u8]) -> bool {
    let number = packet.get(HEADER_BYTES + 1..HEADER_BYTES + 3);
    packet.get(HEADER_BYTES) == Some(&0xFF) && number == Some(&1227u16.to_le_bytes())
}

impl Stream<'_> {
    /// Passes the stream on until either side ends it.
    async fn run(&self, buffer: Vec<u8>) -> Over {
        let mut down = pin!(self.pass_events(buffer));
        let mut up = pin!(self.pass_acknowledgements());
        poll_fn(|context| {
            if let Poll::Ready(over) = down.as_mut().poll(context) {
                return Poll::Ready(over);
            }
            up.as_mut().poll(context)
        })
        .await
    }

    /// From the server to the client. The last packet is not sent: before it is, nobody may be
    /// receiving from the client any more, or its next command would be lost.
    async fn pass_events(&self, mut buffer: Vec<u8>) -> Over {
        let (mut events, mut pieces) = (Events::new(), 0);
        loop {
            make_room(&mut buffer, 0, pieces > SMALL_BUFFERS_MAX);
            let (received, filled) = self.server.recv(buffer).await;
            buffer = filled;
            if !matches!(received, Ok(1..)) {
                return Over::ServerGone;
            }
            pieces += 1;
            let walked = events.walk(&buffer);
            if walked.events > 0 {
                self.sequence.set(None);
                self.progress.begin(Wait::Send);
                let (sent, back) = self.client.send(buffer, 0..walked.events).await;
                self.progress.end();
                buffer = back;
                if sent.is_err() {
                    return Over::ClientGone;
                }
                buffer.drain(..walked.events);
            }
            self.sequence.set(events.next_sequence());
            if walked.last > 0 {
                buffer.truncate(walked.last);
                return Over::Ended(buffer);
            }
        }
    }

    /// From the client to the server: acknowledgements of a semi-synchronous replica. Anything else
    /// is a command, which has to wait for the stream's end.
    async fn pass_acknowledgements(&self) -> Over {
        let mut buffer = Vec::with_capacity(CLIENT_BYTES);
        loop {
            let (received, filled) = self.client.recv(buffer).await;
            buffer = filled;
            if !matches!(received, Ok(1..)) {
                return Over::ClientGone;
            }
            let told: Vec<u8> = {
                let mut ahead = self.ahead.borrow_mut();
                ahead.append(&mut buffer);
                let bytes = acknowledgements(&ahead);
                ahead.drain(..bytes).collect()
            };
            if !told.is_empty() && self.tell(told).await.is_err() {
                return Over::ServerGone;
            }
            if self.ahead.borrow().len() > AHEAD_BYTES_MAX {
                std::future::pending::<()>().await;
            }
        }
    }

    async fn tell(&self, bytes: Vec<u8>) -> io::Result<()> {
        let range = 0..bytes.len();
        self.server.send(bytes, range).await.0
    }
}
