//! The control plane: what the farm is, who of it lives, and everything an operator can change.
//!
//! Job: read the farm from the state store, watch every server, publish an immutable snapshot on each
//! change, refresh the accounts, and carry out the commands of [`commands::TABLE`] for every door.
//!
//! Invariants: the state store is written before the snapshot says so; only this crate publishes;
//! every task is owned by [`Control::run`] and has ended when it returns; commands that change the
//! farm run one at a time.
//!
//! Must not know: client sessions beyond the trait [`Sessions`], protocols of doors, child processes.
//! It runs on the control thread's tokio runtime; other threads reach it through [`Commander`].

mod admin;
mod admission;
mod adoption;
mod aside;
mod attending;
pub mod backup;
mod client_writes;
mod cloning;
pub mod commander;
pub mod commands;
pub mod configuration;
mod crossing;
mod detect;
mod editing;
mod error;
pub mod events;
mod failover;
pub mod fence;
mod filling;
mod following;
mod identity;
mod jobs;
mod joining;
mod layout;
mod mistaken;
mod nodes;
mod office;
mod outcome;
pub mod peers;
mod permits;
mod picture;
mod pin;
mod privileges;
mod probes;
mod pulse;
mod reach;
mod record;
mod rejoin;
mod releases;
mod remembering;
mod reshard;
mod restore;
mod runtime;
mod sequence;
pub mod sessions;
pub mod settings;
mod sharding;
mod standing;
mod supervision;
mod table_clock;
mod trail;

pub use backup::{Backup, BackupOrder, NoBackup};
pub use commander::{Commander, Suspicion};
pub use commands::{Call, CommandError, Table, cure};
pub use configuration::{Documents, NoDocuments};
pub use crossing::Crossings;
pub use engine::LinkTls;
pub use error::Error;
pub use events::Event;
pub use fence::{Fence, FenceTarget, Fenced, NoFence};
pub use layout::{Contents, check_layout, farm_id, read_to_leave, seal};
pub use office::{Contact, Router};
pub use peers::{Leads, NoPeers, Peer, PeerError, Peers, Roster, is_gone, is_refusal};
pub use privileges::{grants, replication_grant};
pub use rejoin::Rejoined;
pub use runtime::{Control, Counters};
pub use sequence::WantedIds;
pub use sessions::{NoSessions, SessionInfo, Sessions};
pub use settings::{Credentials, Membership, Node, Settings};
