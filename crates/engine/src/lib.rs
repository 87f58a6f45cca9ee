//! What differs between MariaDB and MySQL, for the control plane.
//!
//! Job: one administrative connection to one server ([`Link`]); what a probe asks; the accounts; how
//! a server becomes a primary or a replica; which server settings a farm needs and why; the rows and
//! branches of transactions over several groups.
//!
//! Invariants: every call has a deadline in milliseconds and ends by then; after a timeout the link
//! is dropped, never used again; nothing here chooses which server gets which role.
//!
//! Must not know: groups, the state store, commands, the data plane's connections.

pub mod accounts;
pub mod binlog;
pub mod chunk;
pub mod clone_plugin;
pub mod commits;
pub mod copy;
mod dist_txn;
mod error;
pub mod examination;
pub mod galera;
mod link;
pub mod part;
pub mod probe;
pub mod replication;
pub mod requirements;
mod schema;
pub mod target;

pub use accounts::{grants, needed, own_privileges};
pub use dist_txn::{barriers, decisions, held};
pub use link::watch;
pub use replication::{clock, errant, exchange, heartbeat, term, topology};
pub use schema::{definitions, memcached, relations, remembering, sequence, tables};

pub use accounts::{accounts, seen_as};
pub use dist_txn::branches::{
    Prepared, end_branch, free_branch, is_still_connected, lost_branches, prepared, prepared_names,
};
pub use dist_txn::torn::{Mended, mend_branches};
pub use enginesql::Version;
pub use error::Error;
pub use link::tunnel::{key_at, proxy_objection};
pub use link::watch::{Greeting, greeting};
pub use link::{Known, Link, LinkTls, Login};
pub use probe::{Acks, Observation, Replica, Thread, ThreadError, probe};
pub use replication::divergence::{Divergence, divergence, is_out_of_reach};
pub use replication::retirement::take_no_writes;
pub use replication::{
    detach, drain, keep_columns, keep_statements, make_primary, make_replica, set_acks,
};
pub use requirements::{Missing, Requirement, replication_settings};
