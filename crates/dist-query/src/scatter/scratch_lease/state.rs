//! What a session of the scratch server begins with.

use std::rc::Rc;
use std::sync::Arc;

use backend::{ConnectionError, PoolError, SessionState};
use execute::connections::target::target;
use execute::per_core::Core;
use execute::scratch::{Beginnings, Values};
use execute::session::user::SessionUser;
use execute::variables::session_variables::SessionVariables;
use farm::Engine;

/// The database that has its tables.
const DATABASE: &[u8] = b"heddle";

/// What belongs to the session's own servers, or would keep tables from being made.
const LEFT_OUT: [&str; 4] = [
    backend::ROLE,
    "autocommit",
    "tx_read_only",
    "transaction_read_only",
];

/// Variables that decide what a SELECT gives. The scratch server's sessions begin with the farm's
/// values of them.
const BOTH: [&str; 7] = [
    "sql_mode",
    "time_zone",
    "group_concat_max_len",
    "div_precision_increment",
    "default_week_format",
    "lc_time_names",
    "max_sort_length",
];

const MARIADB: [&str; 3] = [
    "max_recursive_iterations",
    "old_mode",
    "default_regex_flags",
];

const MYSQL: [&str; 3] = [
    "cte_max_recursion_depth",
    "windowing_use_high_precision",
    "block_encryption_mode",
];

/// What others than Heddle's clients set globally is seen after so long.
const KNOWN_S: u64 = 10;

/// The session's state, as far as it matters to a statement on the scratch server.
///
/// # Errors
/// The farm's servers do not say what a session begins with.
pub(crate) async fn scratch_state(
    core: &Core,
    user: &SessionUser,
    variables: &mut SessionVariables,
) -> Result<Rc<SessionState>, PoolError> {
    let state = variables.state.with_database(Some(DATABASE));
    let mut state = state.without_variables(&LEFT_OUT.map(Arc::from));
    for (name, value) in beginnings(core, user, variables).await?.iter() {
        if state.variable(name).is_none() {
            state = state.with_variable(name, value);
        }
    }
    Ok(Rc::new(state))
}

/// What the farm's servers begin their sessions with.
async fn beginnings(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
) -> Result<Rc<Values>, PoolError> {
    let edition = core.shared.defaults.globals();
    let now_s = core.now_s.get();
    let known = core.statements.beginnings.borrow().clone();
    if let Some(known) = known.filter(|it| it.edition == edition && now_s < it.until_s) {
        return Ok(known.values);
    }
    let snapshot = core.snapshot();
    let primary = snapshot.home().and_then(|home| home.primary());
    let found = primary.and_then(|primary| target(&snapshot, primary.id, false));
    let found = found.ok_or(PoolError::Connection(ConnectionError::Timeout {
        operation: "looking for the home group's primary",
    }))?;
    let pools = core.pools.clone();
    let key = pools.key(found.server, false, &user.identity.pass);
    let mut lease = Box::pin(pools.take(&found, key, &variables.state, 0)).await?;
    let own = match lease.connection().engine() {
        Engine::MariaDb => &MARIADB[..],
        Engine::MySql => &MYSQL[..],
    };
    let names: Vec<&str> = BOTH.iter().chain(own).copied().collect();
    let query = format!("SELECT @@global.{}", names.join(", @@global."));
    let said = lease.connection_mut().ask(query.as_bytes()).await?;
    lease.release();
    let values: Values = names.into_iter().zip(said).collect();
    let known = Beginnings {
        edition,
        until_s: now_s + KNOWN_S,
        values: Rc::new(values),
    };
    let values = known.values.clone();
    core.statements.beginnings.replace(Some(known));
    Ok(values)
}
