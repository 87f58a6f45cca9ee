//! Statements, transactions and snapshots over two groups.

mod dist_txn;
mod dist_txn_bounds;
mod dist_txn_ends;
mod scatter;
mod snapshot;
mod traces;
