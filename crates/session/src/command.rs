//! The commands of a client: here those that are neither text nor prepared statements.

pub(crate) mod cursor;
pub(crate) mod prepared;

use ::auth::account_places::AccountPlace;
use ::auth::proof::{Claim, Offer};
use dist_txn::end;
use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::{self, Client};
use execute::connections::group_connections::GroupConnections;
use execute::connections::home::HOME;
use execute::connections::parked::{Parked, reclaim};
use execute::connections::pin::Pins;
use execute::consistency::client_level;
use execute::consistency::promises::keeping;
use execute::execution::exec::{Job, Shape};
use execute::execution::profile::Detail;
use execute::execution::rules;
use execute::per_core::Core;
use execute::per_core::handle::Handle;
use execute::session::user::SessionUser;
use execute::session::{self, Session};
use execute::variables::defaults;
use execute::variables::diagnostics::Diagnostics;
use execute::variables::session_variables::SessionVariables;
use farm::{ClientError, Engine, error};
use mysql_wire::command::Command;
use mysql_wire::handshake::ChangeUser;
use mysql_wire::relay::Expect;
use mysql_wire::status::Status;
use sqltext::{Class, Dialect};

use backend::{Pass, ROLE, SessionState};
use mysql_wire::auth;
use mysql_wire::capability::Capabilities;
use std::rc::Rc;
use std::time::Duration;

use crate::authentication::expired;
use crate::authentication::login::no_client_has;
use crate::authentication::offer::PASSED_ON;
use crate::authentication::prove;
use crate::introspection::{processlist, rights};
use crate::query::by_rules;
use crate::serve;

/// Character set and name of a collation by its number. MariaDB 10.10 and newer have numbers in this table
/// only; older ones have none above 255 that clients use.
const OF_MARIADB: &str = "SELECT CHARACTER_SET_NAME, FULL_COLLATION_NAME \
                          FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY WHERE ID";
const OF_MYSQL: &str =
    "SELECT CHARACTER_SET_NAME, COLLATION_NAME FROM information_schema.COLLATIONS WHERE ID";

/// In these nobody can write statements.
const UNFIT: [&str; 4] = ["ucs2", "utf16", "utf16le", "utf32"];

/// A collation's number that no server has: its login is given the server's own.
const NO_COLLATION: u8 = 0;

/// Refusals that are about an account or what it may use, and not about its client.
const OF_ACCOUNTS: [ClientError; 11] = [
    error::ACCESS_DENIED,
    error::ACCOUNT_LOCKED,
    error::ACCOUNT_BLOCKED,
    error::PASSWORD_EXPIRED,
    error::AUTH_PLUGIN_UNSUPPORTED,
    error::SEVERAL_FACTORS,
    error::PASSWORD_NEEDS_TLS,
    error::USER_LIMIT_REACHED,
    error::TOO_MANY_USER_CONNECTIONS,
    // What a server refused itself, such as a database.
    error::SERVER_UNREACHABLE,
    error::POOL_WAIT_TIMEOUT,
];

/// So often a client may fail to become somebody else.
const FAILED_CHANGES_MAX: u8 = 3;

/// COM_INIT_DB: the server reports the new database like any other change of state.
pub(crate) async fn init_db(session: &mut Session) -> Result<(), End> {
    let shape = Shape {
        class: Class::Use,
        ..Shape::command()
    };
    by_rules::run_command(session, shape, Job::Frame(Expect::Single)).await
}

/// COM_FIELD_LIST.
pub(crate) async fn field_list(session: &mut Session) -> Result<(), End> {
    by_rules::run_command(session, Shape::command(), Job::Frame(Expect::Columns)).await
}

/// Commands that the primary answers as they are.
pub(crate) async fn pass_on(session: &mut Session, command: Command) -> Result<(), End> {
    if command == Command::ProcessInfo {
        let job = Job::Frame(Expect::Results);
        return processlist::show_processlist(session, false, job).await;
    }
    let expect = match command {
        Command::Debug => Expect::Rows,
        _ => Expect::Single,
    };
    by_rules::run_command(session, Shape::command(), Job::Frame(expect)).await
}

/// COM_RESET_CONNECTION: the session is as after login, in its current database. Its reads have
/// what it has written and seen all the same.
pub(crate) async fn reset(session: &mut Session) -> Result<(), End> {
    // Servers leave the role as it is.
    let role = session.variables.state.variable(ROLE).map(<[u8]>::to_vec);
    forget_everything(session).await;
    if session.variables.mode.dialect == Dialect::MySql {
        take_server_charsets(&session.core, &session.handle, &session.user, &mut session.variables)
            .await;
    } else {
        let state = SessionState::new(session.variables.state.database());
        session::set_state(
            &session.core,
            &session.handle,
            &session.user,
            &mut session.variables,
            Rc::new(state),
        );
    }
    if let Some(role) = role {
        let state = session.variables.state.with_variable(ROLE, &role);
        session::set_state(
            &session.core,
            &session.handle,
            &session.user,
            &mut session.variables,
            Rc::new(state),
        );
    }
    session.client.ok(session::status_now(&session.variables, &session.transaction)).await
}

/// Ends what belongs to the session so far. A held connection is renewed first, so that its locks
/// are gone when the client goes on. What was written and read stays required of its reads: the
/// program behind a connection that its pool has reset is the same.
async fn forget_everything(session: &mut Session) {
    Box::pin(end::leave_dist_txn(session)).await;
    for held in session.connections.take_all_held() {
        expired::end_hold(&session.handle, &mut session.connections, held).await;
    }
    session.connections.keep_required(&session.core);
    let group = rules::group_of(&session.core, session.user.name(), session.user.peer.ip());
    session.connections.begin_in(group.as_deref(), &session.core);
    session.variables.lasting = Vec::new();
    session.run.chosen = None;
    session.run.profile_by(Detail::Off);
    session.prepared.texts = None;
    let parked = session.handle.kept.parked.take();
    if let Parked::Kept(kept) = parked {
        reclaim::give_back(&session.handle, kept.lease);
    }
    session.transaction.unfinished.clear();
    session.variables.user_variables = None;
    session.connections.ties = None;
    session.prepared.statements.clear();
    session.prepared.keys.clear();
    session.variables.tracking = None;
    defaults::take_defaults(&session.core, &mut session.variables);
    session.variables.status = Status::AUTOCOMMIT;
    keeping::renew_promises(&session.core, &session.user, &mut session.promises);
    session.variables.gets_diagnostics = false;
    session.variables.diagnostics = Diagnostics::default();
    session.variables.insert_id.value = 0;
    session.variables.insert_id.version += 1;
    session.run.number = 0;
    session.connections.current.last_connection = 0;
    session.connections.current.last_server = None;
}

/// COM_CHANGE_USER: another login on the same connection. Refused, MySQL ends the connection, and
/// on MariaDB the client stays who it was, with nothing set, in its database, and with the character
/// sets of the server.
pub(crate) async fn change_user(session: &mut Session) -> Result<(), End> {
    let payload = session.client.request.payload()[1..].to_vec();
    let Ok(change) = ChangeUser::decode(&payload, session.client.capabilities) else {
        let details = "COM_CHANGE_USER";
        return Err(session.client.refuse(&error::MALFORMED_PACKET, &[details]).await);
    };
    forget_everything(session).await;
    let stays = session.variables.mode.dialect == Dialect::MariaDb;
    if session.user.failed_changes >= FAILED_CHANGES_MAX {
        // MariaDB hears of no other account on this connection, whatever the password.
        let state = SessionState::new(session.variables.state.database());
        session::set_state(
            &session.core,
            &session.handle,
            &session.user,
            &mut session.variables,
            Rc::new(state),
        );
        take_server_charsets(&session.core, &session.handle, &session.user, &mut session.variables)
            .await;
        return session.client.error(&error::UNKNOWN_COMMAND, &[]).await;
    }
    // The client gives its place up and needs one again, perhaps of the same account.
    session.user.identity.account_place = None;
    let (pass, admin) = (session.user.identity.pass.clone(), session.user.identity.admin);
    let database = session.variables.state.database().map(<[u8]>::to_vec);
    let changed = become_user(session, change).await;
    match changed {
        Err(End::Refused(why)) if stays && OF_ACCOUNTS.contains(&why) => {
            let (account_place, database) =
                (account_place_again(&session.core, &pass).await, database.as_deref());
            let Some(account_place) = account_place else {
                return Err(End::Refused(why));
            };
            session.user.failed_changes += 1;
            take_identity(session, pass, database, admin, account_place);
            take_server_charsets(
                &session.core,
                &session.handle,
                &session.user,
                &mut session.variables,
            )
            .await;
            Ok(())
        }
        other => other,
    }
}

/// Proves the new user and begins as it. The client has been told when this fails.
async fn become_user(session: &mut Session, change: ChangeUser<'_>) -> Result<(), End> {
    let plugin = match change.plugin {
        // Its salt is longer than the greeting's, so the client is asked with a new one.
        Some(plugin) if plugin == auth::ED25519.as_bytes() => &b""[..],
        // MySQL's C library has its plugin wait for a salt, and says nothing before that.
        Some(plugin) if plugin == auth::CACHING_SHA2.as_bytes() && change.auth.is_empty() => b"",
        Some(plugin) => plugin,
        None => auth::NATIVE.as_bytes(),
    };
    let claim = Claim {
        user: change.user,
        peer: session.user.peer.ip(),
        offer: Offer::new(plugin, session.client.salt, change.auth),
        collation: u8::try_from(change.collation).unwrap_or(NO_COLLATION),
        flags: session.user.identity.pass.profile().flags & PASSED_ON,
    };
    if let Some(charset) = no_client_has(change.collation) {
        return Err(session.client.refuse(&error::CHARSET_UNFIT, &[charset]).await);
    }
    let core = session.core.clone();
    let limit = Duration::from_secs(core.settings().handshake_timeout_s);
    let proof = prove::authenticate(&core, &mut session.client, session.user.peer.ip(), claim);
    let proved = reactor::timeout(limit, Box::pin(proof)).await;
    let Some(proved) = proved else {
        return Err(session.client.refuse(&error::NET_READ_INTERRUPTED, &[]).await);
    };
    let admission = proved?;
    let database = change.database.filter(|name| !name.is_empty());
    let pass = core.pools.pass(admission.profile);
    take_identity(session, pass, database, admission.admin, admission.account_place);
    if u8::try_from(change.collation).is_err() {
        take_collation(
            &session.core,
            &session.handle,
            &session.user,
            &mut session.client,
            &mut session.variables,
            &mut session.connections,
            change.collation,
        )
        .await?;
    }
    serve::begin(
        &session.core,
        &mut session.user,
        &mut session.client,
        &mut session.variables,
        &mut session.connections,
    )
    .await
}

fn take_identity(
    session: &mut Session,
    pass: Pass,
    database: Option<&[u8]>,
    admin: bool,
    account_place: AccountPlace,
) {
    *session.handle.user.borrow_mut() = pass.profile().user.clone();
    let registry = &session.core.shared.registry;
    registry.rename(session.handle.id, &pass.profile().user);
    session::set_state(
        &session.core,
        &session.handle,
        &session.user,
        &mut session.variables,
        Rc::new(SessionState::new(database)),
    );
    session.user.identity.database = database.map(<[u8]>::to_vec);
    session.user.identity.admin = admin;
    client::move_to(&mut session.client, account_place.memory());
    session.prepared.bytes.move_to(account_place.memory());
    session.user.identity.account_place = Some(account_place);
    session::set_pass(&session.core, &session.handle, &mut session.user, pass);
    keeping::renew_promises(&session.core, &session.user, &mut session.promises);
    session.transaction.writes =
        client_level::writes_of(&session.core, &session.user.identity, session.user.peer.ip());
}

/// COM_SET_OPTION: several statements in one text, allowed (0) or not (1).
pub(crate) async fn set_option(session: &mut Session) -> Result<(), End> {
    let allowed = match session.client.request.payload() {
        [_, 0, 0, ..] => true,
        [_, 1, 0, ..] => false,
        _ => return session.client.error(&error::UNKNOWN_COMMAND, &[]).await,
    };
    let mut profile = session.user.identity.pass.profile().clone();
    profile.flags.set(Capabilities::MULTI_STATEMENTS, allowed);
    session::set_pass(
        &session.core,
        &session.handle,
        &mut session.user,
        session.core.pools.pass(profile),
    );
    if session.connections.current.held.is_none() {
        return session
            .client
            .eof(session::status_now(&session.variables, &session.transaction))
            .await;
    }
    by_rules::run_command(session, Shape::command(), Job::Frame(Expect::Rows)).await?;
    if let Some(held) = &mut session.connections.current.held {
        // The connection differs now from what its pool holds, and no reset changes that.
        held.pins |= Pins::VARIABLE;
        held.lease.connection_mut().condemn();
    }
    Ok(())
}

/// A login has no room for the numbers of newer collations, which this command has: the session is given
/// what the server gives it for them, if the server knows it.
async fn take_collation(
    core: &Core,
    handle: &Handle,
    user: &SessionUser,
    client: &mut Client,
    variables: &mut SessionVariables,
    connections: &mut GroupConnections,
    id: u16,
) -> Result<(), End> {
    let ask = match core.home_engine() {
        Engine::MariaDb => format!("{OF_MARIADB} = {id}"),
        Engine::MySql => format!("{OF_MYSQL} = {id}"),
    };
    let asked = rights::ask_table(core, user, variables, connections, ask.as_bytes());
    let asked = asked.await.unwrap_or_default();
    let mut cells = asked.rows.into_iter().flatten().flatten();
    let (Some(charset), Some(collation)) = (cells.next(), cells.next()) else {
        return Ok(());
    };
    if let Some(unfit) = UNFIT.iter().find(|unfit| unfit.as_bytes() == charset) {
        return Err(client.refuse(&error::CHARSET_UNFIT, &[unfit]).await);
    }
    let mut state = SessionState::clone(&variables.state);
    for name in [
        "character_set_client",
        "character_set_connection",
        "character_set_results",
    ] {
        state = state.with_variable(name, &charset);
    }
    let state = Rc::new(state.with_variable("collation_connection", &collation));
    session::set_state(core, handle, user, variables, state);
    Ok(())
}

/// The session is as after login, but its character sets are the servers' own. A server that
/// cannot be asked leaves those of the login.
async fn take_server_charsets(
    core: &Core,
    handle: &Handle,
    user: &SessionUser,
    variables: &mut SessionVariables,
) {
    let mut state = SessionState::new(variables.state.database());
    let pass = &user.identity.pass;
    if let Ok(mut lease) = core.take_from_primary(HOME, pass, &variables.state, false).await {
        let asking = lease.connection_mut().ask_reset_state(state.database());
        if let Ok(asked) = asking.await {
            state = asked;
            lease.release();
        }
    }
    session::set_state(core, handle, user, variables, Rc::new(state));
}

/// A place for the account that the session had.
async fn account_place_again(core: &Core, pass: &Pass) -> Option<AccountPlace> {
    let shared = &core.shared;
    let accounts = shared.published.load().accounts.clone();
    let entitlement = &pass.profile().entitlement;
    let account = accounts.exactly(&entitlement.user, &entitlement.host)?;
    let connections_max = core.settings().user_connections_max;
    let taken = shared.account_places.take(account, connections_max, &*shared.peers);
    taken.await.ok()
}
