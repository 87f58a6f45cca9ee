//! Makes a connection know a prepared statement, or have room for one.

use std::rc::Rc;

use backend::{Connection, ConnectionError, SessionState};
use reactor::rarely;

use crate::consistency::promises::Promises;
use crate::consistency::write_tags::tagging;
use crate::counters::count;
use crate::execution::exec::Job;
use crate::per_core::Core;
use crate::prepared::statements::{PreparedStatements, Statement};

/// Makes sure that the connection knows the statement.
pub async fn ready_statement(
    core: &Core,
    promises: &Promises,
    prepared: &PreparedStatements,
    connection: &mut Connection,
    id: u32,
) -> Result<(), ConnectionError> {
    let Some(statement) = prepared.statements.get(&id) else {
        return Ok(());
    };
    if connection.known(&statement.key).is_some() {
        return Ok(());
    }
    count(&core.counters.prepares_repeated);
    let tag = tagging::tag_for(core, promises, connection, &statement.shape);
    rarely(prepare_elsewhere(connection, statement, tag.as_str())).await
}

/// After a server refused to prepare one statement more: makes room on this connection, or else
/// by closing idle ones. After it did not know a statement: forgets it, so that it is prepared
/// anew.
pub(crate) async fn make_room_for_statement(
    core: &Core,
    prepared: &PreparedStatements,
    connection: &mut Connection,
    job: Job,
) {
    // A connection that breaks here is found out by its next use.
    match job {
        Job::Execute(id) => {
            if let Some(statement) = prepared.statements.get(&id) {
                let _ = connection.forget(&statement.key).await;
            }
        }
        _ => {
            if !matches!(connection.close_free_statements().await, Ok(true)) {
                core.pools.close_idle_of(connection.server);
            }
        }
    }
}

/// Prepares a statement on a connection that does not know it, under the state of its PREPARE.
pub(crate) async fn prepare_elsewhere(
    connection: &mut Connection,
    statement: &Statement,
    tag: &str,
) -> Result<(), ConnectionError> {
    let now = connection.state().clone();
    let then = Rc::new(now.parsing_as(&statement.state));
    if SessionState::same(&now, &then) || !now.can_become(&then) {
        return connection.prepare(&statement.key, tag).await.map(drop);
    }
    connection.become_state(&then).await?;
    let prepared = connection.prepare(&statement.key, tag).await;
    if connection.become_state(&now).await.is_err() {
        let (operation, source) =
            ("returning to the session's state", std::io::Error::other("refused"));
        return Err(ConnectionError::Broken { operation, source });
    }
    prepared.map(drop)
}
