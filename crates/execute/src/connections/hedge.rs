//! Hedged reads: a replica that has not begun to answer in time is raced by another one.
//!
//! Both run the same READ ONLY statement; the client gets the answer that begins first. The other
//! one's connection is closed with its reply unread. So a read that meets a stalled disk or a lost
//! packet costs a second execution instead of the wait.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use backend::{Connection, Lease};
use mysql_wire::relay::Expect;
use routing::Plan;

use crate::client::Client;
use crate::client::end::End;
use crate::client::request::Request;
use crate::connections::group_connections::GroupConnections;
use crate::consistency::reads;
use crate::counters::count;
use crate::execution::exec::{Answer, Job, Run, text_shape};
use crate::execution::pipe::{Pipe, make_room};
use crate::execution::statement_run::clock;
use crate::execution::{attempt, route};
use crate::per_core::Core;
use crate::session::Session;

/// What one receive gives.
type Received = (io::Result<usize>, Vec<u8>);

/// Runs the read on this connection, and on another replica's when the answer is late. The lease
/// is then that of the replica which answered.
pub(crate) async fn attempt_hedged(
    session: &mut Session,
    lease: &mut Lease,
    run: &Run,
    plan: &Plan,
) -> Result<Answer, End> {
    attempt::begin_attempt(session, lease.connection(), run);
    count(&session.core.counters.statements);
    let answer = match first_bytes(session, lease, run, plan).await {
        (Ok(_), buffer) => {
            let mut pipe = Pipe { buffer, ready: 0 };
            let expect = Expect::Results;
            let connection = lease.connection_mut();
            let answer =
                attempt::answer_one(session, connection, run, expect, true, &mut pipe).await;
            session.core.give_buffer(pipe.buffer);
            answer
        }
        (Err(_), _) => Ok(Answer::LOST),
    };
    clock::end_attempt(&session.handle, &mut session.run);
    answer
}

/// Sends the read and receives the beginning of its reply, from whoever begins.
async fn first_bytes(session: &mut Session, lease: &mut Lease, run: &Run, plan: &Plan) -> Received {
    if let Err(error) = send_copy(&session.client.request, lease.connection_mut()).await {
        return (Err(error), Vec::new());
    }
    let limit = Duration::from_millis(session.core.settings().reads.hedge_ms);
    let buffer = room(&session.core);
    let (received, mut other, other_won) = {
        let mut one = Box::pin(lease.connection_mut().recv(buffer));
        if let Some(received) = reactor::timeout(limit, one.as_mut()).await {
            return received;
        }
        let Some(mut other) = second(session, run, plan, limit).await else {
            return one.await;
        };
        count(&session.core.counters.reads_hedged);
        let buffer = room(&session.core);
        let mut two = Box::pin(other.connection_mut().recv(buffer));
        let (received, other_won) = match first(one.as_mut(), two.as_mut()).await {
            // Who broke off has not answered.
            (false, (Err(_), _)) => (two.as_mut().await, true),
            (true, (Err(_), _)) => (one.as_mut().await, false),
            (other_won, received) => (received, other_won),
        };
        drop(two);
        (received, other, other_won)
    };
    if other_won {
        count(&session.core.counters.reads_hedged_won);
        std::mem::swap(lease, &mut other);
    }
    // The other reply is, or will be, unread.
    other.connection_mut().condemn();
    received
}

/// A connection of another replica, to which the read has been sent, if one can be had at once.
async fn second(session: &mut Session, run: &Run, plan: &Plan, limit: Duration) -> Option<Lease> {
    let (other, target) = route::route(session, &run.shape, Some(run.job), &[plan.server]).ok()?;
    if !other.guards() || other.wait || other.server == plan.server {
        return None;
    }
    let pools = &session.core.pools;
    let key = pools.key(other.server, other.read_only, &session.user.identity.pass);
    let taking = Box::pin(pools.take(&target, key, &session.variables.state, 0));
    let mut lease = reactor::timeout(limit, taking).await?.ok()?;
    send_copy(&session.client.request, lease.connection_mut()).await.ok()?;
    Some(lease)
}

/// True for a read that may be run twice: plain text, alone, on a replica.
pub(crate) fn hedges(
    core: &Core,
    client: &Client,
    connections: &GroupConnections,
    plan: &Plan,
    run: &Run,
) -> bool {
    core.settings().reads.hedge_ms > 0
        && plan.guards()
        && run.job == Job::Frame(Expect::Results)
        && run.shape.facts.is_empty()
        && reads::may_move(core, connections, &run.shape)
        && !client.request.has_more()
        && !client.request.is_split()
        && !text_shape::has_attributes(client)
}

async fn send_copy(request: &Request, connection: &mut Connection) -> io::Result<()> {
    let frame = request.frame().to_vec();
    let bytes = frame.len();
    connection.send(frame, 0..bytes).await.0
}

fn room(core: &Core) -> Vec<u8> {
    let mut buffer = core.take_buffer();
    make_room(&mut buffer, 0, false);
    buffer
}

/// The first of two to be ready; `true` for the second.
async fn first<F: Future<Output = Received>, G: Future<Output = Received>>(
    mut one: Pin<&mut F>,
    mut two: Pin<&mut G>,
) -> (bool, Received) {
    poll_fn(|context| {
        if let Poll::Ready(received) = one.as_mut().poll(context) {
            return Poll::Ready((false, received));
        }
        two.as_mut().poll(context).map(|received| (true, received))
    })
    .await
}
