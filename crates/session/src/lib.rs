//! One SQL client's life on one core: login, the command loop, and what Heddle answers itself.
//!
//! Job: let a client in, take its commands one after the other, and answer each of them, or have it answered by the
//! layers below: `dist_query` places and merges, `dist_txn` commits over groups, `execute` runs statements on servers.
//!
//! Invariants: one session is one task with one loop; what a client may believe about its connection (variables,
//! transaction, statement ids, last insert id) is true whatever server connection serves it.
//!
//! Must not know: how a socket gets here, what a probe is, where state is stored; the other doors.

mod authentication;
mod binlog;
mod command;
mod internal;
mod introspection;
mod query;
mod serve;

pub use execute::client::heard::{Heard, Sheet};
pub use execute::client::refuse::ServerRefusal;
pub use execute::client::stall::watch::{end_late_statements, statement_limit};
pub use execute::client::transport::{ClientTls, Transport};
pub use execute::consistency::client_level::own_writes;
pub use execute::consistency::defaults::{Consistency, UNBOUNDED_MS};
pub use execute::consistency::read_terms::{Failover, Reads, Stickiness, Transient};
pub use execute::counters::{Counters, count};
pub use execute::door_clients::stay::Stay;
pub use execute::own_account::Own;
pub use execute::per_core::keeper::{
    Allowed, BarrierPassed, BarriersHeld, Keeper, LetGo, OwnEnded, OwnFound, Pass, Settled,
    Verified,
};
pub use execute::per_core::message::{How, Message, Visit};
pub use execute::per_core::operator::{Answer, Fault, Ids, Operator, Reply, TakenIds};
pub use execute::per_core::peers::{Elsewhere, NoPeers, Peers};
pub use execute::per_core::registry::{Entry, Registry};
pub use execute::per_core::view::{Door, Lister, SessionView};
pub use execute::per_core::{Core, LoginWork, Shared};
pub use execute::scratch::{Scratch, ScratchServer};
pub use execute::settings::dist_txn_terms::DistTxnTerms;
pub use execute::settings::{Gathering, InForce, Live, Settings};
pub use execute::transaction::claimed_ids::ClaimedIds;
pub use execute::transaction::unit_of_work::units_of_work_before;

pub use crate::authentication::vouch::{Admitted, Denied, PlainLogin, Standing, admit};
pub use crate::internal::{Internal, Lost, Param, Written, join_written, merge_written, token_of};
pub use crate::introspection::views::views;
pub use crate::serve::serve;
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
