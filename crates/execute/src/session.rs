//! One logged-in client: the parts of its session, and what several of them have to agree on.
//!
//! Must not know: what is done with a command; a session's life is the front's affair.

pub mod above;
pub mod context;
pub mod hold_note;
pub mod user;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use backend::{Pass, SessionState};
use channel::Channel;
use farm::error;
use mysql_wire::status::Status;

use crate::client::Client;
use crate::client::answer::Answers;
use crate::client::end::End;
use crate::client::sink::ReplySink;
use crate::connections::group_connections::GroupConnections;
use crate::connections::parked::Parked;
use crate::consistency::client_level;
use crate::consistency::promises::Promises;
use crate::consistency::promises::keeping;
use crate::counters::count;
use crate::execution::statement_run::StatementRun;
use crate::per_core::Core;
use crate::per_core::handle::{Handle, Idle};
use crate::per_core::operator::Answer;
use crate::prepared::prepared_bytes::PreparedBytes;
use crate::prepared::statements::PreparedStatements;
use crate::session::above::{Above, RunText};
use crate::session::context::StatementContext;
use crate::session::user::Identity;
use crate::session::user::SessionUser;
use crate::transaction::state::Transaction;
use crate::variables::reading;
use crate::variables::reading::mode_of;
use crate::variables::session_variables::SessionVariables;

/// One logged-in client: parts that know nothing of each other. A function takes the parts that it needs.
pub struct Session {
    pub core: Rc<Core>,
    pub client: Client,
    /// What others may know of the session, and do to it.
    pub handle: Rc<Handle>,
    pub user: SessionUser,
    pub variables: SessionVariables,
    pub connections: GroupConnections,
    pub transaction: Transaction,
    /// What its reads must have.
    pub promises: Promises,
    pub prepared: PreparedStatements,
    pub run: StatementRun,
    pub run_text: RunText,
}

impl Session {
    /// What the statement under way is understood by.
    pub fn context(&self) -> StatementContext<'_> {
        StatementContext {
            core: &self.core,
            user: &self.user,
            client: &self.client,
            variables: &self.variables,
            connections: &self.connections,
            transaction: &self.transaction,
            prepared: &self.prepared,
        }
    }

    /// That of a client which has just logged in, known to the others on its core from now on.
    pub fn new(
        core: Rc<Core>,
        client: Client,
        identity: Identity,
        peer: SocketAddr,
        id: u32,
        above: Above,
    ) -> Session {
        let state = core.pools.state_after_login(identity.database.as_deref());
        let handle = handle(&core, &client, &identity, peer, id, &state);
        core.handles.borrow_mut().insert(id, handle.clone());
        core.shared.registry.enter(id, core.index, &identity.pass.profile().user, peer);
        count(&core.counters.sessions_opened);
        let mode = mode_of(&core);
        let user = &identity.pass.profile().user;
        let promises = keeping::promises_of(&core, user, peer.ip());
        let defaults = core.shared.defaults.globals();
        let prepared = PreparedBytes::new(client.reservation.budget());
        Session {
            transaction: Transaction::new(client_level::writes_of(&core, &identity, peer.ip())),
            promises,
            variables: SessionVariables::new(state, mode, defaults),
            core,
            client,
            handle,
            user: SessionUser::new(identity, peer),
            connections: GroupConnections::default(),
            prepared: PreparedStatements::new(prepared),
            run: StatementRun {
                stays: Some(above.stays),
                ..StatementRun::default()
            },
            run_text: above.run_text,
        }
    }
}

/// What others may know of a new session.
fn handle(
    core: &Core,
    client: &Client,
    identity: &Identity,
    peer: SocketAddr,
    id: u32,
    state: &Rc<SessionState>,
) -> Rc<Handle> {
    Rc::new(Handle {
        id,
        peer,
        state: RefCell::new(state.clone()),
        command: Default::default(),
        asked: Default::default(),
        user: RefCell::new(identity.pass.profile().user.clone()),
        pass: RefCell::new(identity.pass.clone()),
        closer: client.channel().map(Channel::closer),
        progress: client.progress.clone(),
        killed: Default::default(),
        waiting: Default::default(),
        internal_runs: Default::default(),
        streams: Default::default(),
        entered: Default::default(),
        at_servers: Default::default(),
        idle: Idle {
            active_s: core.now_s.clone(),
            ..Idle::default()
        },
        kept: Default::default(),
    })
}

/// True outside transactions: with autocommit, and none begun.
pub fn is_free(status: Status) -> bool {
    status & (Status::AUTOCOMMIT | Status::IN_TRANS) == Status::AUTOCOMMIT
}

/// Answers a command of a session that is ended from outside.
pub async fn last_word(core: &Core, client: &mut impl ReplySink) -> End {
    let draining = core.is_draining();
    let error = if draining {
        error::SHUTTING_DOWN
    } else {
        error::CONNECTION_KILLED
    };
    match client.error(&error, &[]).await {
        Ok(()) | Err(_) => End::Killed,
    }
}

/// The flags that an answer of our own carries.
pub fn status_now(variables: &SessionVariables, transaction: &Transaction) -> Status {
    let of_one_reply = Status::MORE_RESULTS
        | Status::CURSOR_EXISTS
        | Status::LAST_ROW_SENT
        | Status::SESSION_STATE_CHANGED
        | Status::NO_INDEX
        | Status::NO_GOOD_INDEX
        | Status::SLOW
        | Status::PS_OUT_PARAMS
        | Status::DB_DROPPED
        | Status::METADATA_CHANGED;
    let own = match &transaction.dist_txn {
        Some(dist_txn) if dist_txn.is_of_read() => Status::IN_TRANS | Status::IN_TRANS_READONLY,
        _ => Status::empty(),
    };
    variables.status - of_one_reply - own
}

/// The session uses connections by another pass from now on.
pub fn set_pass(core: &Core, handle: &Handle, user: &mut SessionUser, pass: Pass) {
    core.closing.set(true);
    *handle.pass.borrow_mut() = pass.clone();
    user.identity.pass = pass;
    core.close_unneeded();
}

/// Takes up a new state of the session and reads text by it from now on.
pub fn set_state(
    core: &Core,
    handle: &Handle,
    user: &SessionUser,
    variables: &mut SessionVariables,
    state: Rc<SessionState>,
) {
    if Rc::ptr_eq(&variables.state, &state) {
        return;
    }
    handle.state.replace(state.clone());
    variables.state = state;
    let own_s = variables.state.variable("wait_timeout");
    let own_s = own_s.and_then(|value| str::from_utf8(value).ok()?.parse().ok());
    handle.idle.wait_timeout_s.set(own_s.unwrap_or(0));
    reading::read_by_mode(core, user, variables);
}

impl Drop for Session {
    fn drop(&mut self) {
        // A connection that is still held is closed with the session: the server rolls back.
        let parked = self.handle.kept.parked.take();
        if let Parked::Kept(kept) = parked {
            kept.lease.release();
        }
        self.core.handles.borrow_mut().remove(&self.handle.id);
        if self.user.identity.pass.ends_with_sessions() {
            self.core.closing.set(true);
        }
        self.core.shared.registry.leave(self.handle.id);
        count(&self.core.counters.sessions_closed);
    }
}

/// Sends an answer of rows.
pub async fn send_answer(
    client: &mut impl ReplySink,
    variables: &SessionVariables,
    transaction: &Transaction,
    answer: Answer,
) -> Result<(), End> {
    let columns: Vec<&str> = answer.columns.iter().map(String::as_str).collect();
    let rows: Vec<Vec<Option<Vec<u8>>>> = answer
        .rows
        .into_iter()
        .map(|row| row.into_iter().map(|cell| cell.map(String::into_bytes)).collect())
        .collect();
    client.answer_rows(&columns, &rows, status_now(variables, transaction)).await
}
