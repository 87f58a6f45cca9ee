//! A sharded farm of `heddle up`: maps, tables, transactions, scratch servers, moves of shards.

mod broadcast;
mod choices;
mod chosen_tables;
mod dist_txn;
mod explain;
mod filling;
mod first;
mod load;
mod overloaded;
mod plans;
mod profile;
mod reshard;
mod reshard_kinds;
mod scratch;
mod shards;
mod shuffle;
mod snapshot;
mod traces;
