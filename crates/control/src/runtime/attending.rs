//! Which loops each group and each server of the farm has: begun when it comes, ended when it leaves.
//!
//! Each loop is a task of its own: what wakes one of them has none of the others looked at. To look at all of them each
//! time was most of what an idle router cost.
//!
//! Must not know: what the loops do, and who waits for their end ([`Control::run`]).

use std::collections::HashMap;
use std::sync::Arc;

use farm::GroupKind;
use tokio::task::{AbortHandle, JoinSet};

use crate::runtime::Control;

/// The running loops of groups and of servers, by whose they are and what they do.
pub(crate) type OfGroups = HashMap<(String, &'static str), AbortHandle>;
pub(crate) type OfServers = HashMap<(u32, &'static str), AbortHandle>;

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

    /// Starts the loops of each group that has none.
    pub(crate) fn watch_groups(&self, loops: &mut JoinSet<()>, running: &mut OfGroups) {
        running.retain(|_, task| !task.is_finished());
        // A cluster's nodes are never behind each other.
        let groups: Vec<String> = {
            let state = self.context.state();
            let groups = state.records.groups.iter();
            let replicated = groups.filter(|(_, kept)| kept.value.kind == GroupKind::Replication);
            replicated.map(|(name, _)| name.clone()).collect()
        };
        macro_rules! start {
            ($group:ident, $($part:ident.$name:ident)*) => {$(
                running.entry(($group.clone(), stringify!($name))).or_insert_with(|| {
                    let (part, about) = (Arc::clone(&self.parts.$part), $group.clone());
                    let begin = move || Arc::clone(&part).$name(about.clone());
                    let context = Arc::clone(&self.context);
                    loops.spawn(context.keep_running(stringify!($name), $group.clone(), begin))
                });
            )*};
        }
        for group in groups {
            start! { group,
                failover.drive heartbeats.feel_pulse row_cache_feed.feed_rows row_cache_feed.run_table_clock
            }
        }
    }

    /// Starts the loops of each server that has none, ends those of servers that left, and forgets them.
    pub(crate) fn watch_servers(&self, loops: &mut JoinSet<()>, running: &mut OfServers) {
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
        running.retain(|(id, _), task| {
            let stays = servers.binary_search(id).is_ok();
            if !stays {
                task.abort();
            }
            stays && !task.is_finished()
        });
        macro_rules! start {
            ($id:ident, $($part:ident.$name:ident)*) => {$(
                running.entry(($id, stringify!($name))).or_insert_with(|| {
                    let part = Arc::clone(&self.parts.$part);
                    let begin = move || Arc::clone(&part).$name($id);
                    let context = Arc::clone(&self.context);
                    loops.spawn(context.keep_running(stringify!($name), String::new(), begin))
                });
            )*};
        }
        for id in servers {
            start! { id,
                probes.wait_for_its_end probes.ask_for_life probes.examine_doubts probes.watch_server
                links.keep_warm
            }
        }
    }
}
