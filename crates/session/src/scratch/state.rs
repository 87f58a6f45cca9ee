//! What a session of the scratch server begins with.

use std::rc::Rc;
use std::sync::Arc;

use backend::{ConnectionError, Pass, PoolError, SessionState};
use farm::Engine;

use crate::authentication::login::SessionUser;
use crate::connections::target::target;
use crate::per_core::Core;
use crate::scratch::{
    BOTH, Beginnings, DATABASE, KNOWN_S, LEFT_OUT, MARIADB, MYSQL, ScratchServer, Values,
};
use crate::variables::session_variables::SessionVariables;

/// The right to use its connections for such a client.
pub(crate) fn scratch_pass(core: &Core, server: &ScratchServer, client: &Pass) -> Pass {
    core.pools.pass(server.profile(client.profile()))
}

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
