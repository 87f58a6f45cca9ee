//! What the client of a transaction over several groups hears of a lock that was waited for too long.
//!
//! Must not know: how long connections wait, and who told them.

use farm::error;
use mysql_wire::relay::Outcome;

use crate::client::refuse::ServerRefusal;
use crate::counters::count;
use crate::execution::exec::Run;
use crate::per_core::Core;
use crate::transaction::state::Transaction;

/// ER_LOCK_WAIT_TIMEOUT.
const LOCK_WAIT: u16 = 1205;

/// What the client hears of a lock that a transaction over several groups waited for too long: it
/// may be a deadlock that no server sees.
pub(crate) fn waited_across(
    core: &Core,
    transaction: &Transaction,
    run: &Run,
    outcome: &Outcome,
) -> Option<ServerRefusal> {
    // Those behind it in the same trip are answered one by one.
    if !run.pipeline.commands.is_empty() {
        return None;
    }
    waited_for(core, transaction, outcome.error)
}

/// The same of an error of one group's part.
pub fn waited_for(
    core: &Core,
    transaction: &Transaction,
    number: Option<u16>,
) -> Option<ServerRefusal> {
    let waits = core.settings().dist_txns.lock_wait_ms > 0;
    if number != Some(LOCK_WAIT) || !waits || !transaction.is_dist_txn() {
        return None;
    }
    count(&core.counters.xa_lock_waits);
    let error = error::DIST_TXN_LOCK_WAIT;
    Some(ServerRefusal {
        number: error.number,
        sqlstate: *b"40001",
        message: error.text(&[]).into_bytes(),
    })
}
