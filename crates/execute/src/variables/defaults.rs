//! Global variables that a client sets: sessions that begin later have the new values, and those that
//! are there keep what they found at login, as on a server.
//!
//! A session that is older than a change takes the value from before among its own variables, so that
//! it follows it over connections. The value is asked for before the statement runs, and only of
//! variables that sessions have, too.

use backend::{
    Connection, ConnectionError, Global, PoolError, SessionState, TRACKING, Tracked, classify,
};
use farm::ServerId;
use mysql_wire::relay::Outcome;
use sqltext::{Facts, Scope, Verb};
use std::rc::Rc;

use crate::client::request::Request;
use crate::execution::exec::{Job, Run, Shape};
use crate::per_core::Core;
use crate::per_core::handle::Handle;
use crate::prepared::statements::PreparedStatements;
use crate::session::user::SessionUser;
use crate::session::{self};
use crate::variables::session_variables::SessionVariables;
use crate::variables::{assigned, user_variables};

/// Both are set by SET GLOBAL TRANSACTION; a server has them under one of the names at least.
const TRANSACTION: [&str; 4] = [
    "transaction_isolation",
    "tx_isolation",
    "transaction_read_only",
    "tx_read_only",
];

/// Each changes the other one.
const COLLATION: [&str; 2] = ["character_set_server", "collation_server"];

/// What a login says itself, or its database does.
const OF_LOGIN: [&str; 6] = [
    "character_set_client",
    "character_set_connection",
    "character_set_results",
    "collation_connection",
    "character_set_database",
    "collation_database",
];

/// What the global variables are that the text is about to set.
pub(crate) async fn ask_globals(
    request: &Request,
    variables: &SessionVariables,
    prepared: &PreparedStatements,
    connection: &mut Connection,
    shape: &Shape,
    job: Job,
) -> Vec<Global> {
    let mut before = Vec::new();
    for name in globals(request, variables, prepared, shape, job) {
        let query = format!("SELECT @@global.{name}, @@session.{name}");
        match connection.ask(query.as_bytes()).await {
            Ok(values) => before.extend(values.first().map(|value| Global {
                name: name.into(),
                value: value[..].into(),
            })),
            // No session has it.
            Err(ConnectionError::Refused { .. }) => {}
            // The statement itself will find that out.
            Err(_) => break,
        }
    }
    before
}

/// The global variables that the text sets.
fn globals(
    request: &Request,
    variables: &SessionVariables,
    prepared: &PreparedStatements,
    shape: &Shape,
    job: Job,
) -> Vec<String> {
    if matches!(shape.verb, Verb::SetTransaction { global: true, .. }) {
        return TRANSACTION.map(str::to_owned).to_vec();
    }
    let mut names = Vec::new();
    for statement in user_variables::text(request, prepared, job).split(|byte| *byte == b';') {
        for item in sqltext::assignments(statement.trim_ascii_start(), &variables.mode) {
            let global = matches!(item.scope, Scope::Global | Scope::Persist);
            let name = item.name.into_owned();
            let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            let moves = classify(&name) == Tracked::State && !OF_LOGIN.contains(&&*name);
            // What clients hear of their session is theirs by login, too.
            let shown = TRACKING.contains(&&*name);
            if global && (moves || shown) && name.bytes().all(word) {
                names.push(name);
            }
        }
    }
    if names.iter().any(|name| COLLATION.contains(&&**name)) {
        names.retain(|name| !COLLATION.contains(&&**name));
        names.extend(COLLATION.map(str::to_owned));
    }
    names
}

/// True for a text that may set global variables.
pub(crate) fn may_set_globals(shape: &Shape) -> bool {
    shape.facts.contains(Facts::GLOBAL_SETTING) && assigned::may_assign(shape)
}

/// After a statement that may have set global variables of this server.
pub(crate) fn note_globals(core: &Core, run: &Run, outcome: &Outcome, server: ServerId) {
    let several = run.shape.facts.contains(Facts::MULTIPLE);
    if outcome.error.is_none() || several {
        let defaults = &core.shared.defaults;
        defaults.globals_changed(server, &run.globals);
    }
}

/// Takes what was changed since among the session's own variables.
#[cold]
pub(crate) fn keep_defaults(
    core: &Core,
    handle: &Handle,
    user: &SessionUser,
    variables: &mut SessionVariables,
) {
    let defaults = core.shared.defaults.clone();
    let (then, now) = (variables.defaults, defaults.globals());
    let mut state = (*variables.state).clone();
    for Global { name, value } in defaults.since(then) {
        if state.variable(&name).is_none() && !TRACKING.contains(&&*name) {
            state = state.with_variable(&name, &value);
        }
    }
    variables.defaults = now;
    session::set_state(core, handle, user, variables, Rc::new(state));
}

/// The session begins, or begins anew: it has what servers have now.
pub fn take_defaults(core: &Core, variables: &mut SessionVariables) {
    variables.defaults = core.shared.defaults.globals();
}

/// Goes on with what a connection has become, where its server did not set all of the state.
#[inline]
pub(crate) fn accept(
    core: &Core,
    handle: &Handle,
    user: &SessionUser,
    variables: &mut SessionVariables,
    connection: &Connection,
) {
    if !SessionState::same(connection.state(), &variables.state) {
        session::set_state(core, handle, user, variables, connection.state().clone());
    }
}

/// After a server refused to set some of the session's variables: it goes on without them, as it
/// would where nobody may set them. False when it was not that.
pub(crate) fn does_without_variables(
    core: &Core,
    handle: &Handle,
    user: &SessionUser,
    variables: &mut SessionVariables,
    error: &PoolError,
) -> bool {
    let PoolError::Connection(ConnectionError::Variables { names }) = error else {
        return false;
    };
    let state = variables.state.without_variables(names);
    let fewer = state != *variables.state;
    session::set_state(core, handle, user, variables, Rc::new(state));
    fewer
}
