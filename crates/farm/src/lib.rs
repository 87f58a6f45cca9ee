//! The farm as a value: groups, servers, accounts, health, and the errors that clients can see.
//!
//! Job: hold what every other crate means by «group», «server», «primary», «account». A [`Snapshot`]
//! is immutable; the control plane publishes a new one through [`Published`] and the data plane reads
//! it without a lock.
//!
//! Invariants: a snapshot is consistent in itself (every primary named by a group is one of its
//! servers); `epoch` grows with every publication; nothing here changes after publication but
//! [`Freshness`], [`Interest`] and [`Turnover`], which say so.
//!
//! Must not know: sockets, tasks, clocks, SQL text, the state store's format.

mod accounts;
pub mod container;
pub mod dist_txn;
pub mod error;
pub mod kill;
mod places;
pub mod position;
pub mod samples;
pub mod server;
pub mod sharding;
pub mod snapshot;
pub mod tables;
pub mod turnover;

pub use accounts::{account, local};
pub use position::{freshness, token};
pub use sharding::{relations, shard};

pub use accounts::access::Access;
pub use accounts::account::{Account, Accounts, AuthPlugin, GlobalRights, PasswordLocking};
pub use accounts::client_scope::ClientScope;
pub use accounts::permits::Permits;
pub use accounts::tls::{TlsDemand, TlsFacts};
pub use container::{Container, Containers, Policies, Policy};
pub use dist_txn::outcome::{Fate, LostWrite, TableRows};
pub use dist_txn::xid::Xid;
pub use error::ClientError;
pub use kill::{Kill, Killed, Victim};
pub use places::Places;
pub use position::freshness::{Freshness, Interest};
pub use position::token::{Token, TokenError};
pub use position::{Domains, Last, Position};
pub use server::{Engine, Health, Mode, Server, ServerId, ServerKey, Status};
pub use sharding::Sharding;
pub use snapshot::{Acks, Group, GroupKind, Published, Snapshot};
pub use turnover::Turnover;
