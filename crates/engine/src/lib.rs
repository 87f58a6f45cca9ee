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
pub mod barriers;
pub mod binlog;
mod branches;
pub mod chunk;
pub mod clone_plugin;
pub mod copy;
pub mod decisions;
pub mod definitions;
mod divergence;
pub mod errant;
mod error;
pub mod exchange;
pub mod galera;
mod global_rights;
pub mod grants;
pub mod heartbeat;
pub mod held;
mod link;
pub mod memcached;
pub mod needed;
pub mod own_privileges;
pub mod part;
pub mod probe;
pub mod relations;
pub mod remembering;
pub mod replication;
pub mod requirements;
mod retirement;
pub mod sequence;
pub mod tables;
pub mod target;
pub mod term;
pub use replication::topology;
mod torn;
mod tunnel;
pub mod watch;

pub use accounts::{accounts, seen_as};
pub use branches::{
    Prepared, end_branch, free_branch, is_still_connected, lost_branches, prepared, prepared_names,
};
pub use divergence::{Divergence, divergence, is_out_of_reach};
pub use enginesql::Version;
pub use error::Error;
pub use link::{Known, Link, LinkTls, Login};
pub use probe::{Acks, Observation, Replica, Thread, ThreadError, probe};
pub use replication::{
    detach, drain, keep_columns, keep_statements, make_primary, make_replica, set_acks,
};
pub use requirements::{Missing, Requirement, replication_settings};
pub use retirement::take_no_writes;
pub use torn::{Mended, mend_branches};
pub use tunnel::{key_at, proxy_objection};
pub use watch::{Greeting, greeting};
