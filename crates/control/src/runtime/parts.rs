//! The parts of the control plane, and what each of them needs of the others.
//!
//! Invariant: a part knows those that are made before it, so that none of them needs itself. What they share is in the
//! [`Context`].

use std::sync::Arc;

use crate::background::Background;
use crate::commander::Commander;
use crate::commands::ConfigCommands;
use crate::commands::JobCommands;
use crate::commands::RouterCommands;
use crate::commands::ShardingCommands;
use crate::commands::dispatch::Commands;
use crate::commands::dump::DumpCommands;
use crate::commands::failover::ThreatCommands;
use crate::commands::group::GroupCommands;
use crate::commands::inspect::InspectCommands;
use crate::commands::kv::KvCommands;
use crate::commands::server::ServerCommands;
use crate::commands::transaction::TransactionCommands;
use crate::context::Context;
use crate::failover::FailoverDrivers;
use crate::leadership::Election;
use crate::leadership::follower::StoreFollower;
use crate::links::Links;
use crate::observe::Probes;
use crate::observe::accounts::AccountsReader;
use crate::observe::heartbeat::Heartbeats;
use crate::observe::privileges::OwnAccount;
use crate::peers::PeerRouters;
use crate::peers::permits::PermitShares;
use crate::provision::Provision;
use crate::provision::Rejoin;
use crate::provision::jobs::Jobs;
use crate::reshard::Resharding;
use crate::row_cache_feed::RowCacheFeed;
use crate::row_cache_feed::client_writes::ClientWrites;
use crate::sharding::ShardedTables;
use crate::txn_recovery::TxnRecovery;
use crate::txn_recovery::lost_writes::LostWrites;
use crate::txn_recovery::sequence::Sequences;

/// The parts that have loops, or that are asked from outside.
pub(crate) struct Parts {
    pub(crate) links: Arc<Links>,
    pub(crate) accounts: Arc<AccountsReader>,
    pub(crate) election: Arc<Election>,
    pub(crate) peers: Arc<PeerRouters>,
    pub(crate) permits: Arc<PermitShares>,
    pub(crate) client_writes: Arc<ClientWrites>,
    pub(crate) sharding: Arc<ShardedTables>,
    pub(crate) probes: Arc<Probes>,
    pub(crate) heartbeats: Arc<Heartbeats>,
    pub(crate) lost_writes: Arc<LostWrites>,
    pub(crate) txn_recovery: Arc<TxnRecovery>,
    pub(crate) sequences: Arc<Sequences>,
    pub(crate) row_cache_feed: Arc<RowCacheFeed>,
    pub(crate) provision: Arc<Provision>,
    pub(crate) rejoin: Arc<Rejoin>,
    pub(crate) failover: Arc<FailoverDrivers>,
    pub(crate) follower: Arc<StoreFollower>,
    pub(crate) reshard: Arc<Resharding>,
    pub(crate) commands: Arc<Commands>,
}

impl Parts {
    pub(crate) fn new(context: &Arc<Context>, commander: &Commander, jobs: &Arc<Jobs>) -> Parts {
        let links = Arc::new(Links::new(Arc::clone(context)));
        let background = Arc::new(Background::new(Arc::clone(context)));
        let own_account = Arc::new(OwnAccount::new(
            Arc::clone(context),
            Arc::clone(&links),
            Arc::clone(&context.privileges),
        ));
        let accounts = Arc::new(AccountsReader::new(Arc::clone(context), Arc::clone(&links)));
        let election = Arc::new(Election::new(
            Arc::clone(context),
            commander.clone(),
            Arc::clone(commander.crossings()),
        ));
        let peers = Arc::new(PeerRouters::new(
            Arc::clone(context),
            Arc::clone(&background),
            Arc::clone(&election),
        ));
        let permits = Arc::new(PermitShares::new(
            Arc::clone(context),
            Arc::clone(&election),
            Arc::clone(&peers),
            commander.clone(),
        ));
        let client_writes = Arc::new(ClientWrites::new(
            Arc::clone(context),
            Arc::clone(&election),
            Arc::clone(&peers),
        ));
        let sharding = Arc::new(ShardedTables::new(
            Arc::clone(context),
            Arc::clone(&links),
            Arc::clone(&context.tables),
        ));
        let probes = Arc::new(Probes::new(
            Arc::clone(context),
            Arc::clone(&links),
            Arc::clone(&own_account),
        ));
        let heartbeats = Arc::new(Heartbeats::new(Arc::clone(context), Arc::clone(&links)));
        let lost_writes = Arc::new(LostWrites::new(Arc::clone(context), Arc::clone(&links)));
        let txn_recovery = Arc::new(TxnRecovery::new(
            Arc::clone(context),
            Arc::clone(&links),
            Arc::clone(commander.crossings()),
        ));
        let sequences = Arc::new(Sequences::new(
            Arc::clone(context),
            Arc::clone(&links),
            Arc::clone(&txn_recovery),
        ));
        let row_cache_feed = Arc::new(RowCacheFeed::new(Arc::clone(context), Arc::clone(&links)));
        let provision = Arc::new(Provision::new(
            Arc::clone(context),
            Arc::clone(&links),
            Arc::clone(&own_account),
            Arc::clone(&accounts),
            Arc::clone(&probes),
            Arc::clone(jobs),
        ));
        let rejoin = Arc::new(Rejoin::new(
            Arc::clone(context),
            Arc::clone(&links),
            Arc::clone(&probes),
            Arc::clone(&provision),
            Arc::clone(jobs),
        ));
        let failover = Arc::new(FailoverDrivers::new(
            Arc::clone(context),
            Arc::clone(&links),
            Arc::clone(&background),
            Arc::clone(&probes),
            Arc::clone(&rejoin),
        ));
        let follower = Arc::new(StoreFollower::new(
            Arc::clone(context),
            Arc::clone(&election),
            Arc::clone(&failover),
        ));
        let reshard = Arc::new(Resharding::new(
            Arc::clone(context),
            Arc::clone(&links),
            Arc::clone(&background),
            Arc::clone(&election),
            Arc::clone(&peers),
            Arc::clone(&sharding),
        ));
        let config = Arc::new(ConfigCommands::new(Arc::clone(context), Arc::clone(&links)));
        let dumps = Arc::new(DumpCommands::new(Arc::clone(context)));
        let groups = Arc::new(GroupCommands::new(
            Arc::clone(context),
            Arc::clone(&links),
            Arc::clone(&provision),
        ));
        let inspect = Arc::new(InspectCommands::new(
            Arc::clone(context),
            Arc::clone(&background),
            Arc::clone(&own_account),
            Arc::clone(&peers),
            Arc::clone(&context.privileges),
        ));
        let moves = Arc::new(JobCommands::new(
            Arc::clone(context),
            Arc::clone(&reshard),
            Arc::clone(jobs),
        ));
        let kv = Arc::new(KvCommands::new(Arc::clone(context), Arc::clone(&sharding)));
        let routers = Arc::new(RouterCommands::new(
            Arc::clone(context),
            Arc::clone(&election),
        ));
        let servers = Arc::new(ServerCommands::new(
            Arc::clone(context),
            Arc::clone(&links),
            Arc::clone(&provision),
        ));
        let maps = Arc::new(ShardingCommands::new(
            Arc::clone(context),
            Arc::clone(&sharding),
            Arc::clone(&reshard),
            Arc::clone(&inspect),
        ));
        let transactions = Arc::new(TransactionCommands::new(
            Arc::clone(context),
            Arc::clone(&txn_recovery),
            Arc::clone(commander.crossings()),
        ));
        let threats = Arc::new(ThreatCommands::new(
            Arc::clone(context),
            Arc::clone(&links),
            Arc::clone(&own_account),
            Arc::clone(&probes),
            Arc::clone(&failover),
        ));
        let commands = Arc::new(Commands {
            context: Arc::clone(context),
            background: Arc::clone(&background),
            election: Arc::clone(&election),
            peers: Arc::clone(&peers),
            permits: Arc::clone(&permits),
            client_writes: Arc::clone(&client_writes),
            reshard: Arc::clone(&reshard),
            config,
            dumps,
            groups,
            inspect,
            moves,
            kv,
            routers,
            servers,
            maps,
            transactions,
            threats,
        });
        Parts {
            links,
            accounts,
            election,
            peers,
            permits,
            client_writes,
            sharding,
            probes,
            heartbeats,
            lost_writes,
            txn_recovery,
            sequences,
            row_cache_feed,
            provision,
            rejoin,
            failover,
            follower,
            reshard,
            commands,
        }
    }
}
