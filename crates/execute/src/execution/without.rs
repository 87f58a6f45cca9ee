//! Connections that cannot have the session's database or role: what may be done on them all the same.

use crate::per_core::Core;
use crate::per_core::handle::Handle;
use crate::session::user::SessionUser;
use crate::session::{self};
use crate::variables::defaults;
use crate::variables::session_variables::SessionVariables;
use backend::{ConnectionError, NO_ROLE, PoolError, ROLE};
use std::rc::Rc;

/// After a server refused the session's state: it goes on with less of it. False when there is
/// nothing that it could do without.
pub fn does_without(
    core: &Core,
    handle: &Handle,
    user: &SessionUser,
    variables: &mut SessionVariables,
    error: &PoolError,
) -> bool {
    does_without_database(core, handle, user, variables, error)
        || does_without_role(core, handle, user, variables, error)
        || defaults::does_without_variables(core, handle, user, variables, error)
}

/// After a server refused the session's database, which somebody dropped: the session goes on
/// without one, as it would have to on a connection of its own. False when it was not that.
pub(crate) fn does_without_database(
    core: &Core,
    handle: &Handle,
    user: &SessionUser,
    variables: &mut SessionVariables,
    error: &PoolError,
) -> bool {
    let dropped = database_refused(error) && variables.state.database().is_some();
    if dropped {
        session::set_state(
            core,
            handle,
            user,
            variables,
            Rc::new(variables.state.with_database(None)),
        );
    }
    dropped
}

/// After a server refused the session's role, which was taken from its account: the session goes
/// on without one, which gives it as little. False when it was not that.
pub(crate) fn does_without_role(
    core: &Core,
    handle: &Handle,
    user: &SessionUser,
    variables: &mut SessionVariables,
    error: &PoolError,
) -> bool {
    let taken = role_refused(error) && variables.state.variable(ROLE).is_some_and(|r| r != NO_ROLE);
    if taken {
        session::set_state(
            core,
            handle,
            user,
            variables,
            Rc::new(variables.state.with_variable(ROLE, NO_ROLE)),
        );
    }
    taken
}

/// The session's role is not there, or not granted any more (ER_INVALID_ROLE of MariaDB,
/// ER_ROLE_NOT_GRANTED of MySQL).
pub(crate) fn role_refused(error: &PoolError) -> bool {
    matches!(
        error,
        PoolError::Connection(ConnectionError::Refused {
            number: 1959 | 3530,
            ..
        })
    )
}

/// The session's database is not there (ER_BAD_DB_ERROR), or not for this account any more
/// (ER_DBACCESS_DENIED_ERROR).
pub(crate) fn database_refused(error: &PoolError) -> bool {
    matches!(
        error,
        PoolError::Connection(ConnectionError::Refused {
            number: 1049 | 1044,
            ..
        })
    )
}
