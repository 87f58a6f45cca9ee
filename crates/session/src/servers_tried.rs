//! Which servers are worth a try for a statement, and when another one may help.

use crate::aside::{self, Aside};
use crate::changes::Changes;
use crate::client::Client;
use crate::client_level;
use crate::consistency;
use crate::counters::count;
use crate::defaults;
use crate::diagnostics;
use crate::end::End;
use crate::exec::Shape;
use crate::floor_waits;
use crate::hedge;
use crate::hold::Hold;
use crate::loss;
use crate::outcome::{self, LostOn};
use crate::per_core::{Core, Handle};
use crate::pin::Pins;
use crate::prepared;
use crate::profile::Step;
use crate::reads::{self, Transient};
use crate::refuse::ServerRefusal;
use crate::resume::{Resume, Sent};
use crate::session::{self, Session};
use crate::session_variables::SessionVariables;
use crate::settle;
use crate::statement_run::StatementRun;
use crate::train::{self, Train};
use crate::without;
use backend::{Connection, ConnectionError, Global, Lease, PoolError, TOO_MANY_STATEMENTS, Target};
use farm::{ServerId, error};
use mysql_wire::relay::{Expect, Outcome};
use routing::{Level, Plan};
use sqltext::{Class, Facts, MsHint, Verb};

/// The statement cannot run on this connection as it is, or not at all.
pub(crate) fn is_barred(
    handle: &Handle,
    variables: &SessionVariables,
    run: &StatementRun,
    connection: &Connection,
    shape: &Shape,
) -> bool {
    handle.killed.get()
        || variables
            .user_variables
            .as_ref()
            .is_some_and(|own| own.lost())
        || (shape.asks_back()
            && diagnostics::must_recall(handle, variables, run, connection, shape))
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
