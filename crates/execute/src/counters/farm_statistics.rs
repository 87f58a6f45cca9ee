//! The statistics that are read off the farm and the pools: what each of them means stands in docs/STATISTICS.md.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use backend::{ByRole, Openings, Tally};
use farm::{Snapshot, Status as Standing};

use crate::counters::Counters;

/// The statistics that are read off the farm's snapshot: name, help, value.
pub(crate) fn of_farm(snapshot: &Snapshot) -> [(&'static str, &'static str, u64); 7] {
    let (masters, slaves) =
        (snapshot.muster(Standing::Primary), snapshot.muster(Standing::Replica));
    let turns = snapshot.turnover.turns();
    [
        ("pool_masters_total", "Primaries of the farm.", masters.total),
        ("pool_slaves_total", "Replicas of the farm.", slaves.total),
        ("pool_masters_active", "Primaries that take writes now.", masters.active),
        ("pool_slaves_active", "Replicas that serve reads now.", slaves.active),
        ("pool_updates", "Changes of the set of servers or of a server's standing.", turns.updates),
        (
            "pool_master_reactivated",
            "Primaries that came back after a while.",
            turns.primaries_back,
        ),
        ("pool_slave_reactivated", "Replicas that came back after a while.", turns.replicas_back),
    ]
}

/// Publishes what became of the connections that a core opened.
pub(crate) fn publish_openings(counters: &Counters, opened: &Openings) {
    let store = |roles: &ByRole, into: [&AtomicU64; 4]| {
        let Tally { success, failure } = roles.replica;
        let of_primary = roles.primary;
        let values = [success, failure, of_primary.success, of_primary.failure];
        for (counter, value) in into.into_iter().zip(values) {
            counter.store(value, Relaxed);
        }
    };
    store(
        &opened.on_demand,
        [
            &counters.lazy_connections_slave_success,
            &counters.lazy_connections_slave_failure,
            &counters.lazy_connections_master_success,
            &counters.lazy_connections_master_failure,
        ],
    );
    store(
        &opened.at_login,
        [
            &counters.non_lazy_connections_slave_success,
            &counters.non_lazy_connections_slave_failure,
            &counters.non_lazy_connections_master_success,
            &counters.non_lazy_connections_master_failure,
        ],
    );
}
