//! One client from login to end: its state, and the loop that reads its commands.

use std::cell::{Cell, RefCell};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use backend::{Lease, Pass, Prepared, SessionState};
use channel::Channel;
use farm::{AuthPlugin, ClientError, ClientWrites, ServerId, error};
use mysql_wire::auth;
use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use mysql_wire::reply::{OkPacket, SessionChange, Shown};
use mysql_wire::statement::PrepareOk;
use mysql_wire::status::Status;
use reactor::Sock;
use rustc_hash::{FxHashMap, FxHashSet};
use sqltext::{Dialect, Mode};

use crate::aside::Aside;
use crate::client::{Client, ReadError};
use crate::consistency::Promises;
use crate::counters::count;
use crate::crossing::{Crossing, Unfinished};
use crate::diagnostics::Diagnostics;
use crate::end::End;
use crate::entrance::Places;
use crate::login::Identity;
use crate::per_core::{Core, Drain, Handle};
use crate::pin::Pins;
use crate::place::{Chosen, Texts};
use crate::point::Point;
use crate::prepared::Statement;
use crate::prepared_bytes::PreparedBytes;
use crate::profile::Profile;
use crate::reading::{logins_set_mode, mode_of, tells_of_timeouts};
use crate::registry::Entry;
use crate::replay::Log;
use crate::rules::Ruled;
use crate::seat::{HOME, Seat};
use crate::ties::Ties;
use crate::variables::Variables;
use crate::view::Hold;

/// A connection that this session keeps: for a transaction, or for what cannot move.
pub(crate) struct Held {
    pub lease: Lease,
    pub pins: Pins,
}

/// One logged-in client.
pub struct Session {
    pub(crate) core: Rc<Core>,
    pub(crate) client: Client,
    pub(crate) handle: Rc<Handle>,
    pub(crate) peer: SocketAddr,
    pub(crate) identity: Identity,
    pub(crate) state: Rc<SessionState>,
    /// Which changes of its state the client asked to hear of; None as at login.
    pub(crate) tracking: Option<Shown>,
    /// How the client's text is to be read: follows sql_mode and character set.
    pub(crate) mode: Mode,
    /// The flags of the last OK or EOF.
    pub(crate) status: Status,
    pub(crate) held: Option<Held>,
    /// The number of the group whose seat is the current one, and the seats of other groups.
    pub(crate) seat: u32,
    pub(crate) seats: Vec<Seat>,
    /// Texts that set what only they can bring to another group's connection.
    pub(crate) lasting: Vec<Box<[u8]>>,
    /// The password has expired and was not changed yet: the held connection's server answers
    /// everything.
    pub(crate) sandboxed: bool,
    /// The sql_mode that its logins at servers give it, where it is not the servers' global one.
    pub(crate) login_mode: Option<Box<str>>,
    /// How often COM_CHANGE_USER was refused.
    pub(crate) failed_changes: u8,
    /// The reply under way, where it may be kept in the cache.
    pub(crate) recording: Option<Vec<u8>>,
    /// The row that it is of, where the row cache may vouch for it.
    pub(crate) point: Option<Box<Point>>,
    /// What rules want of the statement that runs.
    pub(crate) ruled: Option<Box<Ruled>>,
    /// The open transaction, so that it can be done again.
    pub(crate) replay: Option<Box<Log>>,
    /// The open transaction, in a farm with several groups.
    pub(crate) crossing: Option<Box<Crossing>>,
    /// What was set for the next transaction only, on the connection that has the pin.
    pub(crate) next_transaction: Vec<Box<[u8]>>,
    /// What recovery has to end of the last ones before they are read.
    pub(crate) unfinished: Vec<Unfinished>,
    /// What its reads must have.
    pub(crate) promises: Promises,
    /// What its client has had acknowledged.
    pub(crate) writes: Arc<ClientWrites>,
    /// The client uses GET DIAGNOSTICS: connections are kept for it from then on.
    pub(crate) gets_diagnostics: bool,
    pub(crate) diagnostics: Diagnostics,
    /// What ties the session to its connection, once anything has.
    pub(crate) ties: Option<Box<Ties>>,
    /// The user variables, once there are any.
    pub(crate) variables: Option<Box<Variables>>,
    /// The edition of the global variables that it has.
    pub(crate) defaults: u64,
    /// The shard that the client has chosen.
    pub(crate) chosen: Option<Box<Chosen>>,
    /// Statements prepared in SQL that several groups may have to run, once there are any.
    pub(crate) texts: Option<Box<Texts>>,
    pub(crate) last_server: Option<ServerId>,
    /// The connection that ran the last statement; 0 for none.
    pub(crate) last_connection: u64,
    /// What became of the last statement.
    pub(crate) profile: Profile,
    /// Statements so far; names the one whose diagnostics a connection still has.
    pub(crate) statement: u64,
    /// What LAST_INSERT_ID() is; what it was before the last OK that reported an id; and how often
    /// it has changed, by which connections with an older value are known.
    pub(crate) insert_id: u64,
    pub(crate) insert_id_before: u64,
    pub(crate) insert_id_version: u64,
    pub(crate) statements: FxHashMap<u32, Statement>,
    pub(crate) statement_bytes: PreparedBytes,
    /// What the statements above are on any connection.
    pub(crate) statement_keys: FxHashSet<Prepared>,
    /// One of them may have an open cursor or long data.
    pub(crate) statement_ties: Cell<bool>,
    pub(crate) last_statement_id: u32,
    /// The statement that a PREPARE under way is about, and the server's reply to it.
    pub(crate) preparing: Option<(Prepared, Option<PrepareOk>)>,
}

/// True outside transactions: with autocommit, and none begun.
pub(crate) fn is_free(status: Status) -> bool {
    status & (Status::AUTOCOMMIT | Status::IN_TRANS) == Status::AUTOCOMMIT
}

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
pub async fn serve(core: Rc<Core>, stream: TcpStream, mut peer: SocketAddr, mut places: Places) {
    let Ok(sock) = Sock::adopt(stream) else {
        return;
    };
    let id = core.shared.registry.next_id();
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
                core.login_failed(peer.ip());
            }
            return refused(&core, end, peer);
        }
        None => {
            // Whom the router itself kept waiting has not failed.
            if client.owes {
                core.login_failed(peer.ip());
            }
            let end = client.refuse(&error::NET_READ_INTERRUPTED, &[]).await;
            return refused(&core, end, peer);
        }
    };
    places.logged_in();
    client.admit(bytes_max);
    let mut session = Session::new(core.clone(), client, identity, peer, id);
    let end = match Box::pin(session.begin()).await {
        Ok(()) => {
            session.client.start_compression();
            session.run().await
        }
        Err(end) => end,
    };
    if session.crossing.is_some() {
        Box::pin(session.leave_crossing()).await;
    }
    for held in session.take_all_held() {
        core.renew(&session.handle, held);
    }
    drop(session);
    // Its pass is gone, and with it the reason for some connections.
    core.close_unneeded();
    tracing::debug!(session = id, peer = %peer, end = end.name(), "session ended");
    if matches!(end, End::Refused(_)) {
        count(&core.counters.protocol_errors);
    }
    if end == End::TornResult {
        count(&core.counters.results_torn);
    }
}

fn refused(core: &Core, end: End, peer: SocketAddr) {
    tracing::info!(peer = %peer, reason = end.name(), "login refused");
    count(&core.counters.logins_refused);
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
        digest: Default::default(),
        user: RefCell::new(identity.pass.profile().user.clone()),
        pass: RefCell::new(identity.pass.clone()),
        closer: client.channel().closer(),
        progress: client.progress.clone(),
        started: Default::default(),
        running: Default::default(),
        running_elsewhere: Default::default(),
        ends_with_client: Default::default(),
        in_train: Default::default(),
        killed: Default::default(),
        waiting: Default::default(),
        killing: Default::default(),
        active_s: core.now_s.clone(),
        wait_timeout_s: Default::default(),
        login_timeout_s: Default::default(),
        timed_out: Default::default(),
        waits_for_client: Default::default(),
        lane_runs: Default::default(),
        streams: Default::default(),
        entered: Default::default(),
        holds: Default::default(),
        held_since_s: Default::default(),
        aside: Default::default(),
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
        let promises = core.promises_of(user, peer.ip());
        let defaults = core.shared.defaults.globals();
        let statement_bytes = PreparedBytes::new(core.shared.live.memory());
        Session {
            writes: core.writes_of(&identity, peer.ip()),
            promises,
            recording: None,
            point: None,
            replay: None,
            crossing: None,
            next_transaction: Vec::new(),
            unfinished: Vec::new(),
            state,
            core,
            client,
            handle,
            peer,
            identity,
            tracking: None,
            mode,
            status: Status::AUTOCOMMIT,
            held: None,
            seat: HOME,
            seats: Vec::new(),
            lasting: Vec::new(),
            ruled: None,
            sandboxed: false,
            login_mode: None,
            failed_changes: 0,
            gets_diagnostics: false,
            diagnostics: Diagnostics::default(),
            ties: None,
            variables: None,
            defaults,
            chosen: None,
            texts: None,
            last_server: None,
            last_connection: 0,
            profile: Profile::default(),
            statement: 0,
            insert_id: 0,
            insert_id_before: 0,
            insert_id_version: 0,
            statements: FxHashMap::default(),
            statement_bytes,
            statement_keys: FxHashSet::default(),
            statement_ties: Cell::new(false),
            last_statement_id: 0,
            preparing: None,
        }
    }

    /// Ends the login: a database that the client named must be there for it.
    pub(crate) async fn begin(&mut self) -> Result<(), End> {
        self.sandboxed = self.identity.pass.profile().entitlement.expired;
        self.login_mode = None;
        if self.identity.database.is_some() || self.sandboxed || logins_set_mode(&self.core) {
            match self
                .core
                .take_from_primary(HOME, &self.identity.pass, &self.state, true)
                .await
            {
                Ok(lease) if self.sandboxed => self.stay_on(lease),
                Ok(lease) => {
                    let own = lease.connection().variable("sql_mode");
                    self.login_mode = own.map(|own| String::from_utf8_lossy(own).into());
                    self.read_by_mode();
                    lease.release();
                }
                Err(error) => return Err(self.client.refuse_pool(&error).await),
            }
        }
        let (info, mut session_state) = (self.vouch(), Vec::new());
        let mut ok = OkPacket::new(self.status);
        let tracks = self.client.capabilities;
        if let Some(database) = &self.identity.database
            && tracks.contains(Capabilities::SESSION_TRACK)
        {
            SessionChange::Schema(database).encode(&mut session_state);
            ok.status |= Status::SESSION_STATE_CHANGED;
        }
        (ok.info, ok.session_state) = (&info, &session_state);
        self.client.ok_with(&ok).await
    }

    /// What tells MariaDB's client that the certificate it was shown is that of somebody who knows
    /// its password; empty where that cannot be said.
    fn vouch(&self) -> Vec<u8> {
        let way = &self.identity.pass.profile().entitlement.way;
        match (&self.client.fingerprint, way, self.mode.dialect) {
            (Some(shown), AuthPlugin::Native(Some(stage2)), Dialect::MariaDb) => {
                auth::certificate_proof(stage2, &self.client.salt, shown)
            }
            _ => Vec::new(),
        }
    }

    /// The loop: one command after the other, until an end.
    async fn run(&mut self) -> End {
        loop {
            if self.core.stage.get() >= Drain::Hurries && self.holds_none() {
                return self.killed(false).await;
            }
            self.handle.active_s.set(self.core.now_s.get());
            self.note_hold();
            self.handle.waits_for_client.set(true);
            let read = self.client.read(0).await;
            self.handle.waits_for_client.set(false);
            if self.handle.killed.get() {
                return self.killed(read.is_ok()).await;
            }
            if self.handle.progress.over.get() {
                return self.client.refuse(&error::NET_READ_INTERRUPTED, &[]).await;
            }
            let done = match read {
                Ok(()) if self.core.is_draining() && self.holds_none() && self.is_check() => {
                    return self.killed(true).await;
                }
                Ok(()) => self.command().await,
                Err(ReadError::NoMemory) => self.refuse_command().await,
                Err(read) => return self.client.refuse_read(read).await,
            };
            if let Err(end) = done {
                return end;
            }
            if self.crossing.is_some() {
                Box::pin(self.after_command()).await;
            }
        }
    }

    /// The command is one by which pools ask whether a connection is good.
    fn is_check(&self) -> bool {
        let command = self
            .client
            .payload()
            .first()
            .copied()
            .map(Command::try_from);
        matches!(
            command,
            Some(Ok(Command::Ping
                | Command::ResetConnection
                | Command::ChangeUser))
        )
    }

    /// Notes for others whether the session keeps a connection, and why.
    pub(crate) fn note_hold(&self) {
        self.end_stint();
        let hold = self.held.as_ref().map(|held| {
            let connection = held.lease.connection();
            Hold {
                server: connection.server,
                thread_id: connection.thread_id,
                pins: held.pins,
                transaction: held.pins.is_empty() || self.status.contains(Status::IN_TRANS),
            }
        });
        if self.handle.holds.replace(hold).is_none() && hold.is_some() {
            self.handle.held_since_s.set(self.core.now_s.get());
        }
    }

    /// The end from outside: the answer to a command that the client has sent. Who waits for none
    /// hears that the router ends, and, as on the servers, nothing of a KILL.
    async fn killed(&mut self, commanded: bool) -> End {
        if !commanded {
            if self.handle.timed_out.get() && tells_of_timeouts(&self.core) {
                self.client.sequence = 0;
                return self.client.refuse(&error::IDLE_TOO_LONG, &[]).await;
            }
            if !self.core.is_draining() {
                return End::Killed;
            }
            self.client.sequence = 0;
        }
        self.last_word().await
    }

    /// Answers a command of a session that is ended from outside.
    pub(crate) async fn last_word(&mut self) -> End {
        let draining = self.core.is_draining();
        let error = if draining {
            error::SHUTTING_DOWN
        } else {
            error::CONNECTION_KILLED
        };
        match self.client.error(&error, &[]).await {
            Ok(()) | Err(_) => End::Killed,
        }
    }

    /// One command. The rare ones are boxed, so that an idle session is small.
    pub(crate) async fn command(&mut self) -> Result<(), End> {
        let Some(&byte) = self.client.payload().first() else {
            return Err(self
                .client
                .refuse(&error::MALFORMED_PACKET, &["an empty command"])
                .await);
        };
        self.handle.command.set(byte);
        if self.promises.version != self.core.heed_settings() {
            self.follow_defaults();
        }
        match Command::try_from(byte) {
            Ok(command) if self.sandboxed => Box::pin(self.in_sandbox(command)).await,
            Ok(Command::Query) => self.query().await,
            Ok(Command::StmtExecute) => self.execute().await,
            Ok(Command::StmtPrepare) => Box::pin(self.prepare()).await,
            Ok(Command::StmtClose) => Box::pin(self.close_statement()).await,
            Ok(Command::StmtReset) => Box::pin(self.reset_statement()).await,
            Ok(Command::StmtSendLongData) => Box::pin(self.long_data()).await,
            Ok(Command::StmtBulkExecute) => Box::pin(self.bulk_execute()).await,
            Ok(Command::StmtFetch) => Box::pin(self.fetch()).await,
            Ok(Command::Quit) => Err(End::Quit),
            Ok(Command::Ping) => self.client.ok(self.status_now()).await,
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
            Ok(Command::RegisterSlave) => Box::pin(self.register_replica()).await,
            Ok(Command::BinlogDump | Command::BinlogDumpGtid) => Box::pin(self.read_binlog()).await,
            Ok(Command::Shutdown) => Box::pin(self.refuse_shutdown()).await,
            _ => self.client.error(&error::UNKNOWN_COMMAND, &[]).await,
        }
    }

    /// The flags that an answer of our own carries.
    pub(crate) fn status_now(&self) -> Status {
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
        let own = match &self.crossing {
            Some(crossing) if crossing.is_of_read() => Status::IN_TRANS | Status::IN_TRANS_READONLY,
            _ => Status::empty(),
        };
        self.status - of_one_reply - own
    }

    /// The session uses connections by another pass from now on.
    pub(crate) fn set_pass(&mut self, pass: Pass) {
        self.core.closing.set(true);
        *self.handle.pass.borrow_mut() = pass.clone();
        self.identity.pass = pass;
        self.core.close_unneeded();
    }

    /// Takes up a new state of the session and reads text by it from now on.
    pub(crate) fn set_state(&mut self, state: Rc<SessionState>) {
        if Rc::ptr_eq(&self.state, &state) {
            return;
        }
        self.handle.state.replace(state.clone());
        self.state = state;
        let own_s = self.state.variable("wait_timeout");
        let own_s = own_s.and_then(|value| str::from_utf8(value).ok()?.parse().ok());
        self.handle.wait_timeout_s.set(own_s.unwrap_or(0));
        self.read_by_mode();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A connection that is still held is closed with the session: the server rolls back.
        let aside = self.handle.aside.take();
        if let Aside::Kept(kept) = aside {
            kept.lease.release();
        }
        self.core.handles.borrow_mut().remove(&self.handle.id);
        if self.identity.pass.ends_with_sessions() {
            self.core.closing.set(true);
        }
        self.core.shared.registry.leave(self.handle.id);
        count(&self.core.counters.sessions_closed);
    }
}
