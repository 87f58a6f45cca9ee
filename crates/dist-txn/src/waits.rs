//! How long transactions over several groups wait for locks: no server sees a deadlock over two of them,
//! so each part waits for a bounded time only, and the whole transaction ends with an error that says to
//! try again. A transaction of one group waits as long as its client wants.

use execute::connections::group_connections::GroupConnections;
use execute::per_core::Core;
use execute::transaction::state::Transaction;
use execute::variables::session_variables::SessionVariables;
use mysql_wire::command::Command;

use crate::held;

/// No second group came in: the first one waits for locks as long as its client wants.
pub(super) async fn stay_alone(
    core: &Core,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    transaction: &mut Transaction,
) {
    let parts = transaction.dist_txn.as_ref().map(|it| &it.parts[..]);
    let Some([only]) = parts.filter(|parts| parts.iter().all(|part| part.hurried)) else {
        return;
    };
    let group = only.group;
    transaction.hurry(false);
    let text = give_back_waits(variables);
    if let Some(held) = held::held_in(core, connections, group) {
        let connection = held.lease.connection_mut();
        let given_back = connection.run(&[(Command::Query, text.as_bytes())]).await;
        if given_back.is_err() {
            // The statement finds out.
            connection.condemn();
        }
    }
}

/// Restores how long the connections wait for locks.
pub(super) fn give_back_waits(variables: &SessionVariables) -> String {
    let own = variables.state.variable("innodb_lock_wait_timeout");
    let own = own.and_then(|value| str::from_utf8(value).ok()?.parse::<u64>().ok());
    let value = own.map_or_else(|| "DEFAULT".to_owned(), |seconds| seconds.to_string());
    format!("SET SESSION innodb_lock_wait_timeout={value}")
}

/// Lets the connection wait for locks no longer than this.
pub(super) fn shorten(wait_ms: u64) -> String {
    let seconds = wait_ms.div_ceil(1000);
    // MySQL makes a decimal of numbers of two kinds, and does not take one.
    format!(
        "SET SESSION innodb_lock_wait_timeout=\
         LEAST(@@innodb_lock_wait_timeout,CAST({seconds} AS UNSIGNED))"
    )
}

/// A decision is asked for so long on top of the wait for a primary.
pub(super) const SETTLE_MS: u64 = 10_000;
