//! A session's life: login, one command after the other, the end.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use ::auth::account_places::AccountPlace;
use ::auth::entrance::Places;
use backend::SessionState;
use channel::Channel;
use farm::{AuthPlugin, ClientError, error};
use mysql_wire::auth;
use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use mysql_wire::reply::{OkPacket, SessionChange};
use mysql_wire::status::Status;
use reactor::{Sock, Stream};
use recorder::{Step, note};
use sqltext::Dialect;

use crate::authentication::expired;
use crate::authentication::login::{Identity, SessionUser};
use crate::binlog;
use crate::client::answer::Answers;
use crate::client::end::End;
use crate::client::refuse::no_memory;
use crate::client::request::Request;
use crate::client::sink::ReplySink;
use crate::client::{Client, ReadError};
use crate::connections::group_connections::GroupConnections;
use crate::connections::home::HOME;
use crate::connections::renew;
use crate::consistency::client_level;
use crate::consistency::promises::keeping;
use crate::counters::count;
use crate::dist_txn::end;
use crate::execution::statement_run::StatementRun;
use crate::introspection::recorded;
use crate::introspection::registry::Entry;
use crate::introspection::rights;
use crate::per_core::handle::Handle;
use crate::per_core::{Core, Drain};
use crate::place::moving;
use crate::prepared::cursor;
use crate::prepared::prepared_bytes::PreparedBytes;
use crate::prepared::statements::PreparedStatements;
use crate::session::hold_note::note_hold;
use crate::session::{Session, last_word, status_now};
use crate::transaction::state::Transaction;
use crate::variables::own_variables;
use crate::variables::reading::{self, logins_set_mode, mode_of, tells_of_timeouts};
use crate::variables::session_variables::SessionVariables;

/// Whoever has not logged in is kept no longer packets for: MySQL's own limit for a login's attributes, the
/// longest that it has.
const LOGIN_BYTES_MAX: usize = 64 << 10;

/// What is answered to those who do not speak the protocol.
const NO_LOGIN: [ClientError; 5] = [
    error::PROXY_HEADER_REFUSED,
    error::PROXY_HEADER_BAD,
    error::HANDSHAKE_BAD,
    error::PACKETS_OUT_OF_ORDER,
    error::PACKET_TOO_LARGE,
];

/// Serves one accepted connection to its end.
pub async fn serve(core: Rc<Core>, stream: Stream, mut peer: SocketAddr, mut places: Places) {
    let Ok(sock) = Sock::adopt(stream) else {
        return;
    };
    let id = core.shared.registry.next_id();
    note(id, Step::Accepted {});
    core.heed_settings();
    let bytes_max = core.settings().packet_bytes_max;
    let channel = Channel::new(sock);
    let memory = core.shared.live.memory();
    let mut client = Client::new(channel, bytes_max.min(LOGIN_BYTES_MAX), memory);
    let limit = Duration::from_secs(core.settings().handshake_timeout_s);
    let login = Box::pin(core.login(&mut client, &mut peer, id));
    let identity = match reactor::timeout(limit, login).await {
        Some(Ok(identity)) => identity,
        Some(Err(end)) => {
            if matches!(end, End::Refused(why) if NO_LOGIN.contains(&why)) {
                core.shared.entrance.failed(peer.ip(), &core.settings().logins);
            }
            return refused(&core, &end, (peer, id));
        }
        None => {
            // Whom the router itself kept waiting has not failed.
            if client.owes {
                core.shared.entrance.failed(peer.ip(), &core.settings().logins);
            }
            let end = client.refuse(&error::NET_READ_INTERRUPTED, &[]).await;
            return refused(&core, &end, (peer, id));
        }
    };
    note(id, Step::LoggedIn {});
    places.logged_in();
    let of_account = identity.account_place.as_ref().map(AccountPlace::memory);
    client.admit(bytes_max, of_account.unwrap_or(core.shared.live.memory()));
    let mut session = Session::new(core.clone(), client, identity, peer, id);
    let end = match Box::pin(begin(
        &session.core,
        &mut session.user,
        &mut session.client,
        &mut session.variables,
        &mut session.connections,
    ))
    .await
    {
        Ok(()) => {
            session.client.start_compression();
            session.run().await
        }
        Err(end) => end,
    };
    if session.transaction.dist_txn.is_some() {
        Box::pin(end::leave_dist_txn(&mut session)).await;
    }
    for held in session.connections.take_all_held() {
        renew::start_renewal(&core, &session.handle, held);
    }
    drop(session);
    // Its pass is gone, and with it the reason for some connections.
    core.close_unneeded();
    recorded::ended(id, &end);
    tracing::debug!(session = id, peer = %peer, end = end.name(), "session ended");
    if matches!(end, End::Refused(_)) {
        count(&core.counters.protocol_errors);
    }
    if end == End::TornResult {
        count(&core.counters.results_torn);
    }
}

fn refused(core: &Core, end: &End, (peer, id): (SocketAddr, u32)) {
    recorded::refused(id, end);
    tracing::info!(peer = %peer, reason = end.name(), "login refused");
    count(&core.counters.logins_refused);
}

/// What others may know of a new session.
pub(super) fn handle(
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
        started: Default::default(),
        running: Default::default(),
        running_elsewhere: Default::default(),
        ends_with_client: Default::default(),
        in_pipeline: Default::default(),
        killed: Default::default(),
        waiting: Default::default(),
        killing: Default::default(),
        active_s: core.now_s.clone(),
        wait_timeout_s: Default::default(),
        login_timeout_s: Default::default(),
        timed_out: Default::default(),
        waits_for_client: Default::default(),
        internal_runs: Default::default(),
        streams: Default::default(),
        entered: Default::default(),
        holds: Default::default(),
        held_since_s: Default::default(),
        parked: Default::default(),
        in_line: Default::default(),
    })
}

impl Session {
    pub(crate) fn new(
        core: Rc<Core>,
        client: Client,
        identity: Identity,
        peer: SocketAddr,
        id: u32,
    ) -> Session {
        let state = Rc::new(SessionState::new(identity.database.as_deref()));
        let handle = handle(&core, &client, &identity, peer, id, &state);
        core.handles.borrow_mut().insert(id, handle.clone());
        core.shared.registry.enter(Entry {
            id,
            core: core.index,
            user: String::from_utf8_lossy(&identity.pass.profile().user).into_owned(),
            peer,
        });
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
                stays: Some(moving::stays),
                ..StatementRun::default()
            },
        }
    }

    /// The loop: one command after the other, until an end.
    async fn run(&mut self) -> End {
        loop {
            if self.core.stage.get() >= Drain::Hurries && self.connections.holds_none() {
                return killed(&self.core, &self.handle, &mut self.client, false).await;
            }
            self.handle.active_s.set(self.core.now_s.get());
            note_hold(
                &self.core,
                &self.handle,
                &self.variables,
                &self.connections,
                &self.transaction,
            );
            self.handle.waits_for_client.set(true);
            let read = self.client.read(0).await;
            self.handle.waits_for_client.set(false);
            if self.handle.killed.get() {
                return killed(&self.core, &self.handle, &mut self.client, read.is_ok()).await;
            }
            if self.handle.progress.over.get() {
                return self.client.refuse(&error::NET_READ_INTERRUPTED, &[]).await;
            }
            let done = match read {
                Ok(())
                    if self.core.is_draining()
                        && self.connections.holds_none()
                        && is_check(&self.client.request) =>
                {
                    return killed(&self.core, &self.handle, &mut self.client, true).await;
                }
                Ok(()) => {
                    // Not a part of this task, which is as large as what it waits for: an idle session
                    // is small.
                    let session = &mut *self;
                    reactor::pooled(move || session.command()).await
                }
                Err(ReadError::NoMemory(full)) => {
                    no_memory::refuse_command(&mut self.client, &mut self.prepared, full).await
                }
                Err(read) => return self.client.refuse_read(read).await,
            };
            if let Err(end) = done {
                return end;
            }
            if self.transaction.dist_txn.is_some() {
                Box::pin(end::after_command(self)).await;
            }
        }
    }

    /// One command. The rare ones are boxed, so that an idle session is small.
    pub(crate) async fn command(&mut self) -> Result<(), End> {
        let Some(&byte) = self.client.request.payload().first() else {
            return Err(self.client.refuse(&error::MALFORMED_PACKET, &["an empty command"]).await);
        };
        self.handle.command.set(byte);
        if self.promises.version != self.core.heed_settings() {
            own_variables::follow_defaults(&self.core, &self.user, &mut self.promises);
        }
        match Command::try_from(byte) {
            Ok(command) if self.user.sandboxed => {
                Box::pin(expired::in_sandbox(self, command)).await
            }
            Ok(Command::Query) => self.query().await,
            Ok(Command::StmtExecute) => self.execute().await,
            Ok(Command::StmtPrepare) => Box::pin(self.prepare()).await,
            Ok(Command::StmtClose) => {
                Box::pin(cursor::close_statement(
                    &self.core,
                    &self.handle,
                    &self.client.request,
                    &self.variables,
                    &mut self.connections,
                    &mut self.prepared,
                ))
                .await
            }
            Ok(Command::StmtReset) => Box::pin(self.reset_statement()).await,
            Ok(Command::StmtSendLongData) if cursor::takes_choice(self) => Ok(()),
            Ok(Command::StmtSendLongData) => Box::pin(self.long_data()).await,
            Ok(Command::StmtBulkExecute) => Box::pin(self.bulk_execute()).await,
            Ok(Command::StmtFetch) => Box::pin(self.fetch()).await,
            Ok(Command::Quit) => Err(End::Quit),
            Ok(Command::Ping) => {
                self.client.ok(status_now(&self.variables, &self.transaction)).await
            }
            Ok(Command::InitDb) => Box::pin(self.init_db()).await,
            Ok(Command::FieldList) => Box::pin(self.field_list()).await,
            Ok(Command::ResetConnection) => Box::pin(self.reset()).await,
            Ok(Command::ChangeUser) => Box::pin(self.change_user()).await,
            Ok(Command::SetOption) => Box::pin(self.set_option()).await,
            Ok(Command::ProcessKill) => Box::pin(self.process_kill()).await,
            Ok(
                command @ (Command::Statistics
                | Command::ProcessInfo
                | Command::Refresh
                | Command::Debug),
            ) => Box::pin(self.pass_on(command)).await,
            Ok(Command::RegisterSlave) => Box::pin(binlog::register_replica(self)).await,
            Ok(Command::BinlogDump | Command::BinlogDumpGtid) => {
                Box::pin(binlog::read_binlog(self)).await
            }
            Ok(Command::Shutdown) => {
                Box::pin(rights::refuse_shutdown(
                    &self.core,
                    &self.user,
                    &mut self.client,
                    &self.variables,
                    &mut self.connections,
                ))
                .await
            }
            _ => self.client.error(&error::UNKNOWN_COMMAND, &[]).await,
        }
    }
}

/// Ends the login: a database that the client named must be there for it.
pub(crate) async fn begin(
    core: &Core,
    user: &mut SessionUser,
    client: &mut Client,
    variables: &mut SessionVariables,
    connections: &mut GroupConnections,
) -> Result<(), End> {
    user.sandboxed = user.identity.pass.profile().entitlement.expired;
    user.mode = None;
    if user.identity.database.is_some() || user.sandboxed || logins_set_mode(core) {
        match core.take_from_primary(HOME, &user.identity.pass, &variables.state, true).await {
            Ok(lease) if user.sandboxed => expired::stay_on(core, connections, lease),
            Ok(lease) => {
                let own = lease.connection().variable("sql_mode");
                user.mode = own.map(|own| String::from_utf8_lossy(own).into());
                reading::read_by_mode(core, user, variables);
                lease.release();
            }
            Err(error) => return Err(client.refuse_pool(&error).await),
        }
    }
    let (info, mut session_state) = (vouch(user, client, variables), Vec::new());
    let mut ok = OkPacket::new(variables.status);
    let tracks = client.capabilities;
    if let Some(database) = &user.identity.database
        && tracks.contains(Capabilities::SESSION_TRACK)
    {
        SessionChange::Schema(database).encode(&mut session_state);
        ok.status |= Status::SESSION_STATE_CHANGED;
    }
    (ok.info, ok.session_state) = (&info, &session_state);
    client.answer_ok(&ok).await
}

/// What tells MariaDB's client that the certificate it was shown is that of somebody who knows
/// its password; empty where that cannot be said.
fn vouch(user: &SessionUser, client: &Client, variables: &SessionVariables) -> Vec<u8> {
    let way = &user.identity.pass.profile().entitlement.way;
    match (&client.fingerprint, way, variables.mode.dialect) {
        (Some(shown), AuthPlugin::Native(Some(stage2)), Dialect::MariaDb) => {
            auth::certificate_proof(stage2, &client.salt, shown)
        }
        _ => Vec::new(),
    }
}

/// The command is one by which pools ask whether a connection is good.
fn is_check(request: &Request) -> bool {
    let command = request.payload().first().copied().map(Command::try_from);
    matches!(command, Some(Ok(Command::Ping | Command::ResetConnection | Command::ChangeUser)))
}

/// The end from outside: the answer to a command that the client has sent. Who waits for none
/// hears that the router ends, and, as on the servers, nothing of a KILL.
async fn killed(core: &Core, handle: &Handle, client: &mut Client, commanded: bool) -> End {
    if !commanded {
        if handle.timed_out.get() && tells_of_timeouts(core) {
            client.sequence = 0;
            return client.refuse(&error::IDLE_TOO_LONG, &[]).await;
        }
        if !core.is_draining() {
            return End::Killed;
        }
        client.sequence = 0;
    }
    last_word(core, client).await
}
