//! Waiting for a copy of what a session has committed, and asking the replicas for it.

use std::rc::Rc;
use std::sync::Arc;

use backend::{Connection, Lease, Pass, SessionState};
use enginesql::position::wait_for;
use farm::{Group, Position, Server, ServerId, Snapshot};
use futures_channel::oneshot;
use reactor::rarely;
use recorder::Awaited;
use rowcache::ClientWrites;

use crate::connections::home::group_of;
use crate::connections::target::target;
use crate::consistency::acks::{ASK_MS, PAUSE, Waiter, followers, limit};
use crate::consistency::promises::executed;
use crate::counters::count;
use crate::per_core::Core;
use crate::per_core::handle::Handle;
use crate::recorded;
use crate::session::Session;
use crate::session::user::SessionUser;
use crate::transaction::state::Transaction;
use crate::variables::changes::Changes;

/// Looks at who waits, after a publication.
pub(crate) fn follow_acks(core: &Core, snapshot: &Snapshot) {
    if core.waits.acks.waiters.borrow().is_empty() {
        return;
    }
    let holds = |waiter: &Waiter| limit(snapshot, waiter.seat).is_some();
    core.waits.acks.release(true, |waiter| !holds(waiter));
    core.waits.acks.release(false, |waiter| {
        let (id, term) = waiter.primary;
        snapshot.server(id).is_none_or(|server| server.term > term)
    });
    ask_followers(core, snapshot);
}

/// Has every replica asked that is not being asked yet.
fn ask_followers(core: &Core, snapshot: &Snapshot) {
    let Some(core) = core.me.upgrade() else {
        return;
    };
    let mut asks: Vec<(u32, Pass, ServerId)> = Vec::new();
    for waiter in core.waits.acks.waiters.borrow().iter() {
        let group = group_of(snapshot, waiter.seat).into_iter();
        for server in group.flat_map(|group| followers(group)) {
            if core.waits.acks.asked.borrow_mut().insert(server.id) {
                asks.push((waiter.seat, waiter.pass.clone(), server.id));
            }
        }
    }
    for (seat, pass, id) in asks {
        let core = core.clone();
        reactor::spawn(async move {
            ask_follower(&core, seat, id, &pass).await;
            core.waits.acks.asked.borrow_mut().remove(&id);
            // Somebody may have come since the last question.
            follow_acks(&core, &core.glance());
        })
        .detach();
    }
}

/// Asks one replica for as long as somebody waits.
async fn ask_follower(core: &Core, seat: u32, id: ServerId, pass: &Pass) {
    let mut lease: Option<Lease> = None;
    while let Some(wanted) = core.waits.acks.wanted(seat) {
        let snapshot = core.shared.published.load_full();
        let follows = |group: &std::sync::Arc<Group>| followers(group).any(|s| s.id == id);
        let Some(target) = target(&snapshot, id, true).filter(|_| {
            limit(&snapshot, seat).is_some() && group_of(&snapshot, seat).is_some_and(follows)
        }) else {
            break;
        };
        if lease.is_none() {
            let key = core.pools.key(id, true, pass);
            let state = Rc::new(SessionState::new(None));
            lease = core.pools.take(&target, key, &state, 0).await.ok();
        }
        let has = match &mut lease {
            Some(lease) => ask(lease.connection_mut(), wanted).await,
            None => None,
        };
        let Some(has) = has else {
            lease = None;
            reactor::sleep(PAUSE).await;
            continue;
        };
        if let Some(server) = snapshot.server(id) {
            server.fresh.raise(&has);
        }
        core.waits.acks.release(true, |waiter| waiter.seat == seat && has.covers(&waiter.position));
    }
    if let Some(lease) = lease {
        lease.release();
    }
}

/// What of `wanted`, or more, this replica has, after a while at most; `None` when it failed.
async fn ask(connection: &mut Connection, wanted: Position) -> Option<Position> {
    let wait = wait_for(connection.engine(), &wanted.to_string(), ASK_MS);
    let ask = format!("SELECT {wait}");
    let answer = connection.ask(ask.as_bytes()).await.ok()?;
    match answer.first().is_some_and(|value| value == b"0") {
        true => Some(wanted),
        false => executed(connection).await,
    }
}

/// Knows whether what one session commits is safe, on whichever group.
pub struct Copies {
    core: Rc<Core>,
    session: u32,
    pass: Pass,
    writes: Arc<ClientWrites>,
}

impl Copies {
    /// Waits until a replica of the group has what this connection has committed, where that is the
    /// router's task, and notes that somebody may hear of it. False when nobody knows what will become
    /// of it.
    pub async fn have(&self, seat: u32, connection: &Connection, gtid: &[u8]) -> bool {
        if gtid.is_empty() {
            return !connection.is_cut();
        }
        let holds = limit(&self.core.glance(), seat).is_some();
        if holds && !self.await_copy(seat, connection, gtid).await {
            return false;
        }
        let position = Position::read(connection.engine(), gtid);
        note_acknowledged(&self.core, connection, position.as_ref(), &self.writes)
    }

    async fn await_copy(&self, seat: u32, connection: &Connection, gtid: &[u8]) -> bool {
        let snapshot = self.core.shared.published.load_full();
        let position = Position::read(connection.engine(), gtid);
        let (Some(limit), Some(position)) = (limit(&snapshot, seat), position) else {
            return true;
        };
        if connection.is_guarded() || connection.is_cut() {
            return !connection.is_cut();
        }
        let safe = |server: &Server| server.fresh.covers(&position);
        if group_of(&snapshot, seat).is_some_and(|group| followers(group).any(safe)) {
            return true;
        }
        count(&self.core.counters.commits_held);
        let (tell, told) = oneshot::channel();
        let waiter = Waiter {
            session: self.session,
            seat,
            position,
            primary: (connection.server, connection.term),
            pass: self.pass.clone(),
            tell,
        };
        self.core.waits.acks.waiters.borrow_mut().push(waiter);
        ask_followers(&self.core, &snapshot);
        recorded::wait_began(self.session, Awaited::Acknowledgement, connection.server.0);
        let waited = reactor::timeout(limit, told).await;
        let came = matches!(waited, Some(Ok(true)));
        recorded::wait_ended(self.session, Awaited::Acknowledgement, connection.server.0, came);
        match waited {
            Some(told) => told.unwrap_or(false),
            None => {
                // As the servers do with their last replica, when the setting says so.
                count(&self.core.counters.commits_held_in_vain);
                let id = self.session;
                let waits = |waiter: &Waiter| waiter.session == id && waiter.seat == seat;
                self.core.waits.acks.release(true, waits);
                true
            }
        }
    }
}

/// The client is about to hear of what was committed: a failover must not lose it, and its other
/// connections must read it. False when the primary was cut off before this was noted: who reads the
/// notes after a cut must have them all, though this core may not have seen the cut yet.
fn note_acknowledged(
    core: &Core,
    connection: &Connection,
    position: Option<&Position>,
    writes: &ClientWrites,
) -> bool {
    let snapshot = core.glance();
    let mut groups = snapshot.groups.iter();
    let found = groups.find_map(|group| Some((group, group.server(connection.server)?)));
    let Some((group, server)) = found else {
        return true;
    };
    let Some(position) = position else {
        writes.doubt(group);
        return true;
    };
    writes.note(group, position);
    server.fresh.acknowledge(position);
    let now = core.shared.published.load();
    now.server(connection.server).is_none_or(|server| server.term <= connection.term)
}

/// Before the OK of what this connection has committed goes to the client: waits until a replica
/// has it, where that is the router's task. False when the primary was cut off meanwhile, or the
/// session killed: nobody knows what will become of the commit.
pub(crate) async fn may_tell(
    session: &mut Session,
    connection: &Connection,
    changes: &mut Changes,
) -> bool {
    let gtid = changes.gtid.as_deref().unwrap_or_default();
    let holds = limit(&session.core.glance(), session.connections.current.group).is_some();
    if holds
        && !rarely(
            copies(&session.core, &session.handle, &session.user, &session.transaction).await_copy(
                session.connections.current.group,
                connection,
                gtid,
            ),
        )
        .await
    {
        return false;
    }
    changes.held = gtid.len();
    let position = changes.position(connection.engine());
    note_acknowledged(&session.core, connection, position, &session.transaction.writes)
}

/// What tells whether this session's commits are safe.
pub fn copies(
    core: &Rc<Core>,
    handle: &Handle,
    user: &SessionUser,
    transaction: &Transaction,
) -> Copies {
    Copies {
        core: core.clone(),
        session: handle.id,
        pass: user.identity.pass.clone(),
        writes: Arc::clone(&transaction.writes),
    }
}
