//! Which servers are worth a try for a statement, and when another one may help.

use crate::execution::exec::Shape;
use crate::execution::statement_run::StatementRun;
use crate::execution::without;
use crate::per_core::{Core, Handle};
use crate::variables::diagnostics::answers;
use crate::variables::session_variables::SessionVariables;
use backend::{Connection, ConnectionError, PoolError};
use sqltext::Class;

/// The statement cannot run on this connection as it is, or not at all.
pub(crate) fn is_barred(
    handle: &Handle,
    variables: &SessionVariables,
    run: &StatementRun,
    connection: &Connection,
    shape: &Shape,
) -> bool {
    handle.killed.get()
        || variables.user_variables.as_ref().is_some_and(|own| own.lost())
        || (shape.asks_back() && answers::must_recall(handle, variables, run, connection, shape))
}

pub(crate) fn is_known_writer(core: &Core, shape: &Shape) -> bool {
    shape.class == Class::Read && {
        let writers = core.writers.borrow();
        !writers.is_empty() && writers.contains(&shape.hash)
    }
}

/// True when the connection's last statement was this session's last statement.
pub(crate) fn still_knows(handle: &Handle, run: &StatementRun, connection: &Connection) -> bool {
    let owner = connection.owner;
    owner.session == handle.id && owner.statement == run.number
}

/// True for failures that say nothing about the session: another server may do better. So may a
/// replica's refusal of a database or an account that it does not have yet.
pub(crate) fn elsewhere_may_help(error: &PoolError, replica: bool) -> bool {
    let refused = |number| matches!(number, 1040 | 1203 | 1226 | 1053);
    match error {
        PoolError::Connection(ConnectionError::Refused { number, .. }) => {
            let missing =
                *number == 1045 || without::database_refused(error) || without::role_refused(error);
            refused(*number) || (replica && missing)
        }
        _ => true,
    }
}
