//! One SQL client's life on one core: login, commands, transactions, pins, prepared statements.
//!
//! Job: keep what a client may believe about its connection (variables, transaction, statement ids,
//! last insert id) true while its statements run on whatever server connection serves them.
//!
//! Invariants: one session is one task with one loop; it holds a server connection only for a
//! statement, a transaction, a pin, or the diagnostics of its last statement; a connection is given
//! back only with its reply read to the end; nothing that may have had an effect is sent twice.
//!
//! Must not know: how a socket gets here, what a probe is, where state is stored; the other doors.

mod authentication;
mod binlog;
mod client;
mod command;
mod connections;
mod consistency;
mod counters;
mod dist_txn;
mod door_clients;
mod execution;
mod internal;
mod introspection;
mod own_account;
mod per_core;
mod place;
mod prepared;
mod query;
mod recorded;
mod scatter;
mod scratch;
mod serve;
mod session;
mod settings;
mod transaction;
mod variables;

pub use crate::authentication::vouch::{Admitted, Denied, PlainLogin, Standing, admit};
pub use crate::client::heard::{Heard, Sheet};
pub use crate::client::refuse::ServerRefusal;
pub use crate::client::stall::watch::{end_late_statements, statement_limit};
pub use crate::client::transport::{ClientTls, Transport};
pub use crate::consistency::client_level::own_writes;
pub use crate::consistency::defaults::{Consistency, UNBOUNDED_MS};
pub use crate::consistency::read_terms::{Failover, Reads, Stickiness, Transient};
pub use crate::counters::{Counters, count};
pub use crate::door_clients::stay::Stay;
pub use crate::internal::{Internal, Lost, Param, Written, join_written, token_of};
pub use crate::introspection::views::views;
pub use crate::own_account::Own;
pub use crate::per_core::keeper::{
    Allowed, BarrierPassed, BarriersHeld, Keeper, LetGo, OwnEnded, OwnFound, Pass, Settled,
    Verified,
};
pub use crate::per_core::message::{How, Message, Visit};
pub use crate::per_core::operator::{Answer, Fault, Ids, Operator, Reply, TakenIds};
pub use crate::per_core::peers::{Elsewhere, NoPeers, Peers};
pub use crate::per_core::registry::{Entry, Registry};
pub use crate::per_core::view::{Door, Lister, SessionView};
pub use crate::per_core::{Core, LoginWork, Shared};
pub use crate::scratch::{Scratch, ScratchServer};
pub use crate::serve::serve;
pub use crate::settings::dist_txn_terms::DistTxnTerms;
pub use crate::settings::{Gathering, InForce, Live, Settings};
pub use crate::transaction::claimed_ids::ClaimedIds;
pub use crate::transaction::unit_of_work::units_of_work_before;
pub use auth::account_places::AccountPlaces;
pub use auth::clients::Clients;
pub use auth::entrance::{Entrance, LoginLimits, Places, Refusal};
pub use auth::locks::Locks;
pub use auth::rsa_key::RsaKey;
pub use auth::secrets::{BackendCredential, Secrets};
pub use auth::verifiers::{VerifierQueue, Verifiers};
pub use backend::{Limits, Secret, Terms};
pub use enginesql::seal::Sealed;
pub use memory::Ceilings;
pub use mysql_wire::command::Command;
pub use routing::{Level, Near, Preferences, Slowness, Strategy};
pub use statistics::Settings as Counting;
