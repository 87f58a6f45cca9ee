//! mysqlnd_ms's statistics: what each of them means here stands in docs/STATISTICS.md.

use farm::ServerId;
use mysql_wire::status::Status;
use sqltext::{Class, MsHint, Verb};

use crate::connections::group_connections::GroupConnections;
use crate::counters::count;
use crate::execution::exec::Shape;
use crate::execution::statement_run::StatementRun;
use crate::per_core::Core;
use crate::session::is_free;
use crate::variables::session_variables::SessionVariables;

/// After a complete reply, before the session has learnt from it.
pub fn note_served(
    core: &Core,
    variables: &SessionVariables,
    connections: &GroupConnections,
    run: &StatementRun,
    shape: &Shape,
    server: ServerId,
    replica: bool,
) {
    let counters = &core.counters;
    let read = shape.class == Class::Read;
    count(if replica {
        &counters.use_slave
    } else {
        &counters.use_master
    });
    match shape.hint {
        Some(MsHint::Master) if !replica => count(&counters.use_master_sql_hint),
        Some(MsHint::Slave) if replica => count(&counters.use_slave_sql_hint),
        Some(MsHint::LastUsed) if connections.current.last_server == Some(server) => {
            count(&counters.use_last_used_sql_hint);
        }
        _ if read => count(&counters.use_slave_guess),
        _ => count(&counters.use_master_guess),
    }
    let free = is_free(variables.status);
    if read && !replica && !free {
        count(&counters.trx_master_forced);
    }
    if read && free && run.ruled.as_ref().is_some_and(|ruled| ruled.by_hook) {
        count(if replica {
            &counters.use_slave_callback
        } else {
            &counters.use_master_callback
        });
    }
}

/// The server's flags after a reply.
pub(crate) fn note_autocommit(core: &Core, variables: &SessionVariables, now: Status) {
    if (variables.status ^ now).contains(Status::AUTOCOMMIT) {
        count(match now.contains(Status::AUTOCOMMIT) {
            true => &core.counters.trx_autocommit_on,
            false => &core.counters.trx_autocommit_off,
        });
    }
}

/// A reply told what its statement has written, or left a doubt about it.
pub fn note_gtid(core: &Core, shape: &Shape, told: bool, doubt: bool, in_transaction: bool) {
    if !told && !doubt {
        return;
    }
    let counters = &core.counters;
    let commits = matches!(shape.verb, Verb::Commit { .. });
    count(match (in_transaction, commits, doubt) {
        (false, _, false) => &counters.gtid_autocommit_injections_success,
        (false, _, true) => &counters.gtid_autocommit_injections_failure,
        (true, true, false) => &counters.gtid_commit_injections_success,
        (true, true, true) => &counters.gtid_commit_injections_failure,
        (true, false, false) => &counters.gtid_implicit_commit_injections_success,
        (true, false, true) => &counters.gtid_implicit_commit_injections_failure,
    });
}
