//! The engine on real servers of every release.

mod binlog;
mod copy;
mod dist_txn;
mod gtid_sets;
mod moved;
mod own_plugins;
mod partly_read;
mod root;
mod servers;
mod stranger;
mod term;
mod torn;
mod under_way;
