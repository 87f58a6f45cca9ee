//! What the commands of an operator do: one struct per subject, which holds the parts that its commands need.
//!
//! Calls, answers and the table of all commands are in [`catalog::command`].

mod changes;
pub(crate) mod config;
mod digest;
pub(crate) mod dispatch;
pub(crate) mod dump;
pub(crate) mod failover;
mod farmwide;
pub(crate) mod group;
pub(crate) mod inspect;
pub(crate) mod job;
pub(crate) mod kv;
mod meta_store;
mod reshard;
pub(crate) mod router;
mod rules;
pub(crate) mod server;
pub(crate) mod sharding;
mod shards;
pub(crate) mod transaction;

use crate::commands::inspect::InspectCommands;
use crate::context::Context;
use crate::leadership::election::Election;
use crate::links::Links;
use crate::provision::jobs::Jobs;
use crate::reshard::Resharding;
use crate::sharding::ShardedTables;
use std::sync::Arc;

/// The commands about the configuration and its rules.
pub(crate) struct ConfigCommands {
    context: Arc<Context>,
    links: Arc<Links>,
}

impl ConfigCommands {
    pub(crate) fn new(context: &Arc<Context>, links: &Arc<Links>) -> ConfigCommands {
        ConfigCommands {
            context: Arc::clone(context),
            links: Arc::clone(links),
        }
    }
}

/// The commands about jobs and moves.
pub(crate) struct JobCommands {
    context: Arc<Context>,
    reshard: Arc<Resharding>,
    jobs: Arc<Jobs>,
}

impl JobCommands {
    pub(crate) fn new(
        context: &Arc<Context>,
        reshard: &Arc<Resharding>,
        jobs: &Arc<Jobs>,
    ) -> JobCommands {
        JobCommands {
            context: Arc::clone(context),
            reshard: Arc::clone(reshard),
            jobs: Arc::clone(jobs),
        }
    }
}

/// The commands about routers and their store.
pub(crate) struct RouterCommands {
    context: Arc<Context>,
    election: Arc<Election>,
}

impl RouterCommands {
    pub(crate) fn new(context: &Arc<Context>, election: &Arc<Election>) -> RouterCommands {
        RouterCommands {
            context: Arc::clone(context),
            election: Arc::clone(election),
        }
    }
}

/// The commands about shard maps.
pub(crate) struct ShardingCommands {
    context: Arc<Context>,
    sharding: Arc<ShardedTables>,
    reshard: Arc<Resharding>,
    inspect: Arc<InspectCommands>,
    sizes: sharding::ShardSizes,
}

impl ShardingCommands {
    pub(crate) fn new(
        context: &Arc<Context>,
        sharding: &Arc<ShardedTables>,
        reshard: &Arc<Resharding>,
        inspect: &Arc<InspectCommands>,
    ) -> ShardingCommands {
        ShardingCommands {
            context: Arc::clone(context),
            sharding: Arc::clone(sharding),
            reshard: Arc::clone(reshard),
            inspect: Arc::clone(inspect),
            sizes: sharding::ShardSizes::default(),
        }
    }
}
