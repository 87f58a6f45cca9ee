//! The control plane with real servers: groups, servers, failover, rejoin, configuration.

mod clone;
mod commands;
mod configuration;
mod dist_txn;
mod editing;
mod failover;
mod filling;
mod imports;
mod joining;
mod kills;
mod lost_writes;
#[allow(dead_code, reason = "each binary uses a part of it")]
#[path = "../plane/mod.rs"]
mod plane;
mod rejoin;
mod routers;
mod sharding;
