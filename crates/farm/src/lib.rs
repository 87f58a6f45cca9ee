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

pub mod access;
pub mod account;
pub mod client_scope;
pub mod container;
pub mod dist_txn;
pub mod error;
pub mod freshness;
pub mod kill;
pub mod outcome;
pub mod permits;
pub mod position;
pub mod relations;
pub mod server;
pub mod shard;
pub mod sharding;
pub mod snapshot;
pub mod tls;
pub mod token;
pub mod turnover;
pub mod xid;

pub use access::Access;
pub use account::{Account, Accounts, AuthPlugin, GlobalRights, PasswordLocking};
pub use client_scope::ClientScope;
pub use container::{Container, Containers, Policies, Policy};
pub use error::ClientError;
pub use freshness::{Freshness, Interest};
pub use kill::{Kill, Killed, Victim};
pub use outcome::{Fate, LostWrite, TableRows};
pub use permits::Permits;
pub use position::{Last, Position};
pub use server::{Engine, Health, Mode, Server, ServerId, ServerKey, Status};
pub use sharding::Sharding;
pub use snapshot::{Acks, Group, GroupKind, Published, Snapshot};
pub use tls::{TlsDemand, TlsFacts};
pub use token::{Token, TokenError};
pub use turnover::Turnover;
pub use xid::Xid;
