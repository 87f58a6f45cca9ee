//! Which loops each group and each server of the farm has: begun when it comes, ended when it leaves.
//!
//! Must not know: what the loops do, and who waits for their end ([`Control::run`]).

use std::collections::HashMap;
use std::sync::Arc;

use farm::GroupKind;
use tokio::task::{AbortHandle, JoinSet};

use crate::runtime::Control;

impl Control {
    /// Starts the loops that are there once.
    pub(crate) fn start_loops(&self, loops: &mut JoinSet<()>) {
        macro_rules! start {
            ($($part:ident.$name:ident)*) => {$(
                let part = Arc::clone(&self.parts.$part);
                let begin = move || Arc::clone(&part).$name();
                let context = Arc::clone(&self.context);
                loops.spawn(context.keep_running(stringify!($name), String::new(), begin));
            )*};
        }
        start! {
            follower.follow_store rejoin.rejoin_when_needed election.hold_leadership
            election.attend_routers permits.return_permits client_writes.exchange_writes
            txn_recovery.recover_dist_txns txn_recovery.keep_barriers sharding.read_tables
            sharding.measure_tables
            reshard.tend_moves doctor.look_hourly
        }
        let subscriptions = Arc::clone(self.subscriptions());
        let begin = move || Arc::clone(&subscriptions).measure_lags();
        let context = Arc::clone(&self.context);
        loops.spawn(context.keep_running("measure_lags", String::new(), begin));
    }

    /// Starts a pulse for each group that has none.
    pub(crate) fn watch_groups(
        self: &Arc<Self>,
        loops: &mut JoinSet<()>,
        pulses: &mut HashMap<String, AbortHandle>,
    ) {
        pulses.retain(|_, task| !task.is_finished());
        // A cluster's nodes are never behind each other.
        let groups: Vec<String> = {
            let state = self.context.state();
            let groups = state.records.groups.iter();
            let replicated = groups.filter(|(_, kept)| kept.value.kind == GroupKind::Replication);
            replicated.map(|(name, _)| name.clone()).collect()
        };
        for group in groups {
            pulses.entry(group.clone()).or_insert_with(|| {
                let (control, about) = (Arc::clone(self), group.clone());
                let attend = move || Arc::clone(&control).attend_group(about.clone());
                loops.spawn(Arc::clone(&self.context).keep_running("group", group, attend))
            });
        }
    }

    /// Starts a probe loop for each server that has none, ends those of servers that left, and forgets them.
    pub(crate) fn watch_servers(
        self: &Arc<Self>,
        loops: &mut JoinSet<()>,
        probes: &mut HashMap<u32, AbortHandle>,
    ) {
        // Loops that ended are taken out of the set; aborted ones among them are no news.
        while loops.try_join_next().is_some() {}
        let servers: Vec<u32> = self
            .context
            .state()
            .records
            .servers
            .keys()
            .copied()
            .collect();
        self.parts.doctor.own_account.forget_all_but(&servers);
        probes.retain(|id, task| {
            let stays = servers.contains(id);
            if !stays {
                task.abort();
            }
            stays && !task.is_finished()
        });
        for id in servers {
            probes.entry(id).or_insert_with(|| {
                let control = Arc::clone(self);
                let attend = move || Arc::clone(&control).attend(id);
                loops.spawn(Arc::clone(&self.context).keep_running("probes", String::new(), attend))
            });
        }
    }

    /// Everything that is done about one group for as long as the farm has it.
    async fn attend_group(self: Arc<Self>, group: String) {
        tokio::join!(
            Arc::clone(&self.parts.failover).drive(group.clone()),
            Arc::clone(&self.parts.heartbeats).feel_pulse(group.clone()),
            Arc::clone(&self.parts.row_cache_feed).feed_rows(group.clone()),
            Arc::clone(&self.parts.row_cache_feed).run_table_clock(group)
        );
    }

    /// Everything that is done about one server for as long as the farm has it.
    async fn attend(self: Arc<Self>, id: u32) {
        tokio::join!(
            Arc::clone(&self.parts.probes).watch_life(id),
            Arc::clone(&self.parts.probes).watch_server(id),
            self.parts.links.keep_warm(id)
        );
    }
}
