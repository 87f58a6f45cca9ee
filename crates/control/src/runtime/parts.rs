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
use crate::diagnosis::Doctor;
use crate::failover::FailoverDrivers;
use crate::leadership::election::{Election, RosterListener};
use crate::links::Links;
use crate::observe::Probes;
use crate::observe::accounts::AccountsReader;
use crate::observe::heartbeat::Heartbeats;
use crate::observe::privileges::OwnAccount;
use crate::peers::permits::PermitShares;
use crate::peers::roster::Roster;
use crate::peers::routers::PeerRouters;
use crate::provision::Provision;
use crate::provision::Rejoin;
use crate::provision::import::Import;
use crate::provision::jobs::Jobs;
use crate::reshard::Resharding;
use crate::row_cache_feed::RowCacheFeed;
use crate::row_cache_feed::client_writes::ClientWrites;
use crate::runtime::follower::StoreFollower;
use crate::sharding::ShardedTables;
use crate::sinks::Sinks;
use crate::sinks::commands::StreamCommands;
use crate::txn_recovery::TxnRecovery;
use crate::txn_recovery::lost_writes::LostWrites;
use crate::txn_recovery::sequence::Sequences;

/// The parts that have loops, or that are asked from outside.
pub(crate) struct Parts {
    pub(crate) links: Arc<Links>,
    pub(crate) background: Arc<Background>,
    pub(crate) accounts: Arc<AccountsReader>,
    pub(crate) election: Arc<Election>,
    pub(crate) peers: Arc<PeerRouters>,
    pub(crate) doctor: Arc<Doctor>,
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
}

impl Parts {
    pub(crate) fn new(context: &Arc<Context>, commander: &Commander, jobs: &Arc<Jobs>) -> Parts {
        let dist_txns = commander.dist_txns();
        let links = Arc::new(Links::new(context));
        let background = Arc::new(Background::new(context));
        let own_account = Arc::new(OwnAccount::new(context));
        let accounts = Arc::new(AccountsReader::new(context, &links));
        let election = Arc::new(Election::new(context, listener_of(context, commander)));
        let peers = Arc::new(PeerRouters::new(context, &background, &election));
        let doctor = Arc::new(Doctor::new(context, &links, &own_account, &peers));
        let held = commander.permits_held();
        let permits = Arc::new(PermitShares::new(context, &election, &peers, held));
        let client_writes = Arc::new(ClientWrites::new(context, &election, &peers));
        let sharding = Arc::new(ShardedTables::new(context, &links));
        let probes = Arc::new(Probes::new(context, &links, &own_account));
        let heartbeats = Arc::new(Heartbeats::new(context, &links));
        let lost_writes = Arc::new(LostWrites::new(context, &links));
        let txn_recovery = Arc::new(TxnRecovery::new(context, &links, dist_txns));
        let sequences = Arc::new(Sequences::new(context, &links, &txn_recovery));
        let row_cache_feed = Arc::new(RowCacheFeed::new(context, &links));
        let provision = Arc::new(Provision::new(
            context,
            &links,
            &own_account,
            &accounts,
            &probes,
            jobs,
        ));
        let rejoin = Arc::new(Rejoin::new(context, &links, &probes, &provision, jobs));
        let failover = Arc::new(FailoverDrivers::new(
            context,
            &links,
            &background,
            &probes,
            &rejoin,
        ));
        let follower = Arc::new(StoreFollower::new(context, &election, &failover));
        let reshard = Arc::new(Resharding::new(
            context,
            &links,
            &background,
            &election,
            &peers,
            &sharding,
        ));
        Parts {
            links,
            background,
            accounts,
            election,
            peers,
            doctor,
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
        }
    }

    /// The commands, over these parts.
    pub(crate) fn commands(
        &self,
        context: &Arc<Context>,
        commander: &Commander,
        jobs: &Arc<Jobs>,
        sinks: &Arc<Sinks>,
    ) -> Commands {
        let dist_txns = commander.dist_txns();
        let config = Arc::new(ConfigCommands::new(context, &self.links));
        let dumps = Arc::new(DumpCommands::new(context));
        let groups = Arc::new(self.group_commands(context));
        let inspect = Arc::new(InspectCommands::new(
            context,
            &self.background,
            &self.doctor.own_account,
            &self.peers,
        ));
        let moves = Arc::new(JobCommands::new(context, &self.reshard, jobs));
        let kv = Arc::new(KvCommands::new(context, &self.sharding));
        let routers = Arc::new(RouterCommands::new(context, &self.election));
        let servers = Arc::new(ServerCommands::new(context, &self.links, &self.provision));
        let streams = Arc::new(StreamCommands::new(context, sinks));
        let maps = Arc::new(ShardingCommands::new(
            context,
            &self.sharding,
            &self.reshard,
            &inspect,
        ));
        let transactions = Arc::new(TransactionCommands::new(
            context,
            &self.txn_recovery,
            dist_txns,
        ));
        let threats = Arc::new(ThreatCommands::new(
            context,
            &self.links,
            &self.doctor.own_account,
            &self.probes,
            &self.failover,
        ));
        Commands {
            context: Arc::clone(context),
            background: Arc::clone(&self.background),
            election: Arc::clone(&self.election),
            peers: Arc::clone(&self.peers),
            permits: Arc::clone(&self.permits),
            client_writes: Arc::clone(&self.client_writes),
            doctor: Arc::clone(&self.doctor),
            reshard: Arc::clone(&self.reshard),
            config,
            dumps,
            groups,
            inspect,
            moves,
            kv,
            routers,
            servers,
            streams,
            maps,
            transactions,
            threats,
        }
    }

    fn group_commands(&self, context: &Arc<Context>) -> GroupCommands {
        let (links, provision) = (&self.links, &self.provision);
        let import = Import::new(context, links, &self.accounts, &self.probes, provision);
        GroupCommands::new(context, links, provision, import)
    }
}

/// Tells whoever serves sessions which place this router has among the others, and whether there are any.
fn listener_of(context: &Arc<Context>, commander: &Commander) -> RosterListener {
    let (sessions, commander) = (Arc::clone(&context.sessions), commander.clone());
    Box::new(move |roster: &Roster| {
        commander.set_alone(roster.others.is_empty());
        sessions.placed(roster.own.slot);
        commander.dist_txns().place(roster.own.slot);
    })
}
