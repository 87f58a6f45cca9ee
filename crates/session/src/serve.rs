//! A session's life: login, one command after the other, the end.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use ::auth::account_places::AccountPlace;
use ::auth::entrance::Places;
use channel::Channel;
use dist_query::place::moving;
use dist_txn::end;
use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::refuse::no_memory;
use execute::client::request::Request;
use execute::client::sink::ReplySink;
use execute::client::{Client, ReadError};
use execute::connections::group_connections::GroupConnections;
use execute::connections::home::HOME;
use execute::connections::renew;
use execute::counters::count;
use execute::execution::rules::group_of;
use execute::per_core::handle::Handle;
use execute::per_core::{Core, Drain};
use execute::recorded;
use execute::session::above::Above;
use execute::session::hold_note::note_hold;
use execute::session::user::SessionUser;
use execute::session::{Session, last_word, status_now};
use execute::variables::own_variables;
use execute::variables::reading::{self, logins_set_mode, tells_of_timeouts};
use execute::variables::session_variables::SessionVariables;
use farm::{AuthPlugin, ClientError, error};
use mysql_wire::auth;
use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use mysql_wire::reply::{OkPacket, SessionChange};
use mysql_wire::status::Status;
use reactor::{Pooled, Sock, Stream, pooled, rarely};
use recorder::{Step, note};
use sqltext::Dialect;

use crate::authentication::expired;
use crate::authentication::login::steps;
use crate::command::{self, cursor, prepared};
use crate::introspection::{kill, rights};
use crate::{binlog, query};

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

/// What sessions ask of the layers above them.
pub(crate) const ABOVE: Above = Above {
    stays: moving::stays,
    run_text: query::run_text,
};

/// Serves one accepted connection to its end, in a task of its own.
pub fn serve(core: Rc<Core>, stream: Stream, peer: SocketAddr, places: Places) {
    // Not a part of the task: what a login takes, an idle session does not keep.
    let opening = pooled(move || open(core, stream, peer, places));
    // Started here, so that all of a session is compiled for this crate, and not for each that starts one.
    let life = async move {
        if let Some((session, places)) = opening.await {
            live(session).await;
            drop(places);
        }
    };
    reactor::spawn(life).detach();
}

/// Lets the client log in, and begins its session. `None`: it has been told why not, and is gone.
async fn open(
    core: Rc<Core>,
    stream: Stream,
    mut peer: SocketAddr,
    mut places: Places,
) -> Option<(Box<Session>, Places)> {
    let sock = Sock::adopt(stream).ok()?;
    let id = core.shared.registry.next_id();
    note(id, Step::Accepted {});
    core.heed_settings();
    let bytes_max = core.settings().packet_bytes_max;
    let channel = Channel::new(sock);
    let memory = core.shared.live.memory();
    let mut client = Client::new(channel, bytes_max.min(LOGIN_BYTES_MAX), memory);
    let limit = Duration::from_secs(core.settings().handshake_timeout_s);
    let login = steps::login(&core, &mut client, &mut peer, id);
    let identity = match reactor::timeout(limit, login).await {
        Some(Ok(identity)) => identity,
        Some(Err(end)) => {
            if matches!(end, End::Refused(why) if NO_LOGIN.contains(&why)) {
                core.shared.entrance.failed(peer.ip(), &core.settings().logins);
            }
            refused(&core, &end, (peer, id));
            return None;
        }
        None => {
            // Whom the router itself kept waiting has not failed.
            if client.owes {
                core.shared.entrance.failed(peer.ip(), &core.settings().logins);
            }
            let end = client.refuse(&error::NET_READ_INTERRUPTED, &[]).await;
            refused(&core, &end, (peer, id));
            return None;
        }
    };
    note(id, Step::LoggedIn {});
    places.logged_in();
    let of_account = identity.account_place.as_ref().map(AccountPlace::memory);
    client.admit(bytes_max, of_account.unwrap_or(core.shared.live.memory()));
    let mut session = Box::new(Session::new(core, client, identity, peer, id, ABOVE));
    let begun = {
        let session = &mut *session;
        begin(
            &session.core,
            &mut session.user,
            &mut session.client,
            &mut session.variables,
            &mut session.connections,
        )
        .await
    };
    match begun {
        Ok(()) => Some((session, places)),
        Err(end) => {
            bury(session, &end);
            None
        }
    }
}

/// A session's life behind its login.
async fn live(mut session: Box<Session>) {
    session.client.start_compression();
    let end = run(&mut session).await;
    if session.transaction.dist_txn.is_some() {
        rarely(end::leave_dist_txn(&mut session)).await;
    }
    bury(session, &end);
}

/// The end of a session. What it holds is given up.
fn bury(mut session: Box<Session>, end: &End) {
    let (core, id, peer) = (session.core.clone(), session.handle.id, session.handle.peer);
    for held in session.connections.take_all_held() {
        renew::start_renewal(&core, &session.handle, held);
    }
    drop(session);
    // Its pass is gone, and with it the reason for some connections.
    core.close_unneeded();
    recorded::ended(id, end);
    tracing::debug!(session = id, peer = %peer, end = end.name(), "session ended");
    if matches!(end, End::Refused(_)) {
        count(&core.counters.protocol_errors);
    }
    if *end == End::TornResult {
        count(&core.counters.results_torn);
    }
}

fn refused(core: &Core, end: &End, (peer, id): (SocketAddr, u32)) {
    recorded::refused(id, end);
    tracing::info!(peer = %peer, reason = end.name(), "login refused");
    count(&core.counters.logins_refused);
}

/// The loop: one command after the other, until an end. What is rare is boxed: while the client is idle, the task is as
/// large as the largest thing that the loop ever waits for.
async fn run(session: &mut Session) -> End {
    loop {
        if session.core.stage.get() >= Drain::Hurries && session.connections.holds_none() {
            return Box::pin(killed(&session.core, &session.handle, &mut session.client, false))
                .await;
        }
        session.handle.idle.active_s.set(session.core.now_s.get());
        note_hold(
            &session.core,
            &session.handle,
            &session.variables,
            &session.connections,
            &session.transaction,
        );
        session.handle.idle.waits_for_client.set(true);
        let read = session.client.read(0).await;
        session.handle.idle.waits_for_client.set(false);
        if session.handle.killed.get() {
            let commanded = matches!(read, Ok(()));
            return Box::pin(killed(
                &session.core,
                &session.handle,
                &mut session.client,
                commanded,
            ))
            .await;
        }
        if session.handle.progress.over.get() {
            return Box::pin(session.client.refuse(&error::NET_READ_INTERRUPTED, &[])).await;
        }
        let done = match read {
            Ok(())
                if session.core.is_draining()
                    && session.connections.holds_none()
                    && is_check(&session.client.request) =>
            {
                return Box::pin(killed(&session.core, &session.handle, &mut session.client, true))
                    .await;
            }
            Ok(()) => answering(session).await,
            Err(ReadError::NoMemory(full)) => {
                let (client, prepared) = (&mut session.client, &mut session.prepared);
                Box::pin(no_memory::refuse_command(client, prepared, full)).await
            }
            Err(read) => return Box::pin(session.client.refuse_read(read)).await,
        };
        if let Err(end) = done {
            return end;
        }
        if session.transaction.dist_txn.is_some() {
            rarely(end::after_command(session)).await;
        }
    }
}

/// One command. Not a part of the task that waits for it, which is as large as that: an idle session is small.
pub(crate) fn answering(session: &mut Session) -> Pooled<'_, Result<(), End>> {
    pooled(move || answer_command(session))
}

async fn answer_command(session: &mut Session) -> Result<(), End> {
    let Some(&byte) = session.client.request.payload().first() else {
        return Err(session.client.refuse(&error::MALFORMED_PACKET, &["an empty command"]).await);
    };
    session.handle.command.set(byte);
    if session.promises.version != session.core.heed_settings() {
        own_variables::follow_defaults(&session.core, &session.user, &mut session.promises);
    }
    match Command::try_from(byte) {
        Ok(command) if session.user.sandboxed => {
            rarely(expired::in_sandbox(session, command)).await
        }
        Ok(Command::Query) => query::query(session).await,
        Ok(Command::StmtExecute) => prepared::execute(session).await,
        Ok(Command::StmtPrepare) => rarely(prepared::prepare(session)).await,
        Ok(Command::StmtClose) => {
            rarely(cursor::close_statement(
                &session.core,
                &session.handle,
                &session.client.request,
                &session.variables,
                &mut session.connections,
                &mut session.prepared,
            ))
            .await
        }
        Ok(Command::StmtReset) => rarely(cursor::reset_statement(session)).await,
        Ok(Command::StmtSendLongData) if cursor::takes_choice(session) => Ok(()),
        Ok(Command::StmtSendLongData) => rarely(cursor::long_data(session)).await,
        Ok(Command::StmtBulkExecute) => rarely(prepared::bulk_execute(session)).await,
        Ok(Command::StmtFetch) => rarely(cursor::fetch(session)).await,
        Ok(Command::Quit) => Err(End::Quit),
        Ok(Command::Ping) => {
            session.client.ok(status_now(&session.variables, &session.transaction)).await
        }
        Ok(Command::InitDb) => rarely(command::init_db(session)).await,
        Ok(Command::FieldList) => rarely(command::field_list(session)).await,
        Ok(Command::ResetConnection) => rarely(command::reset(session)).await,
        Ok(Command::ChangeUser) => rarely(command::change_user(session)).await,
        Ok(Command::SetOption) => rarely(command::set_option(session)).await,
        Ok(Command::ProcessKill) => rarely(kill::process_kill(session)).await,
        Ok(
            command @ (Command::Statistics
            | Command::ProcessInfo
            | Command::Refresh
            | Command::Debug),
        ) => rarely(command::pass_on(session, command)).await,
        Ok(Command::RegisterSlave) => rarely(binlog::register_replica(session)).await,
        Ok(Command::BinlogDump | Command::BinlogDumpGtid) => {
            rarely(binlog::read_binlog(session)).await
        }
        Ok(Command::Shutdown) => {
            rarely(rights::refuse_shutdown(
                &session.core,
                &session.user,
                &mut session.client,
                &session.variables,
                &mut session.connections,
            ))
            .await
        }
        _ => session.client.error(&error::UNKNOWN_COMMAND, &[]).await,
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
    if user.sandboxed || logins_set_mode(core) || !may_enter(core, user) {
        match core.take_from_primary(HOME, &user.identity.pass, &variables.state, true).await {
            Ok(lease) if user.sandboxed => expired::stay_on(core, connections, lease),
            Ok(lease) => {
                let own = lease.connection().variable("sql_mode");
                if own.is_none() {
                    core.pools.note_entered(&lease);
                }
                user.mode = own.map(|own| String::from_utf8_lossy(own).into());
                reading::read_by_mode(core, user, variables);
                lease.release();
            }
            Err(error) => return Err(client.refuse_pool(&error).await),
        }
    }
    if !user.sandboxed {
        let group = group_of(core, user.name(), user.peer.ip());
        connections.begin_in(group.as_deref(), core);
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

/// No server need be asked whether the client may be in its database: it wants none, or another one of its kind was let
/// in a moment ago.
fn may_enter(core: &Core, user: &SessionUser) -> bool {
    let Some(database) = &user.identity.database else {
        return true;
    };
    let primary = core.primary_target(HOME);
    primary.is_ok_and(|primary| core.pools.has_entered(&primary, &user.identity.pass, database))
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
        if handle.idle.timed_out.get() && tells_of_timeouts(core) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn future_bytes<A, F: Future>(_: impl Fn(A) -> F) -> usize {
        size_of::<F>()
    }

    /// What ten thousand idle clients cost is this, ten thousand times.
    #[test]
    fn an_idle_session_is_small() {
        let bytes = [
            size_of::<Session>(),
            size_of::<Handle>(),
            future_bytes(live),
        ];
        assert!(bytes.iter().sum::<usize>() <= 2448, "{bytes:?}");
    }
}
