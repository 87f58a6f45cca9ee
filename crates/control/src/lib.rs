//! The control plane: what the farm is, who of it lives, and everything an operator can change.
//!
//! Job: read the farm from the state store, watch every server, publish an immutable snapshot on each
//! change, refresh the accounts, and carry out the commands of [`catalog::command::TABLE`] for every door.
//!
//! Invariants: the state store is written before the snapshot says so; only this crate publishes;
//! every task is owned by [`Control::run`] and has ended when it returns; commands that change the
//! farm run one at a time.
//!
//! Must not know: client sessions beyond the trait [`Sessions`], protocols of doors, child processes.
//! It runs on the control thread's tokio runtime; other threads reach it through [`Commander`].

mod background;
mod change_stream;
pub mod commander;
mod commands;
pub mod configuration;
mod context;
mod diagnosis;
mod failover;
pub mod fence;
mod layout;
mod leadership;
mod links;
mod observe;
pub mod pace;
pub mod peers;
mod provision;
mod reshard;
mod row_cache_feed;
mod runtime;
pub mod sessions;
pub mod settings;
mod sharding;
mod sinks;
mod subscriptions;
mod txn_recovery;

pub use change_stream::{ChangeStreams, ChangesCounts, ChangesOpened, ChangesWanted, Gap};
pub use commander::{Commander, Suspicion};
pub use configuration::{Documents, NoDocuments};
pub use diagnosis::Premises;
pub use engine::LinkTls;
pub use fence::{Fence, FenceTarget, Fenced, NoFence};
pub use layout::{Contents, check_layout, farm_id, read_to_leave, seal};
pub use leadership::election::{Contact, Router};
pub use observe::privileges::{grants, replication_grant};
pub use peers::{Leads, NoPeers, Peer, PeerError, Peers, Roster, is_gone, is_refusal};
pub use provision::backup;
pub use provision::backup::{Backup, BackupOrder, NoBackup};
pub use provision::rejoin::Rejoined;
pub use runtime::{Control, Counters};
pub use sessions::{NoSessions, SessionInfo, Sessions};
pub use settings::{
    Credentials, DetectionSettings, FailoverSettings, Membership, Node, ObservationSettings,
    PeerSettings, ProvisionSettings, Settings, TxnRecoverySettings,
};
pub use sinks::{SinkCounts, Sinks};
pub use subscriptions::{Lag, Lags, Subscriptions};
pub use txn_recovery::DistTxns;
pub use txn_recovery::sequence::WantedIds;
