//! What tests of every crate share: real servers, a whole farm, a client that can misbehave, waiting.
//!
//! Job: start real MariaDB and MySQL servers ([`server`]), an SQL door in front of
//! them ([`door`]), a `heddle up` ([`farm`]), an [`etcd`], speak the MySQL
//! protocol to either without hiding anything ([`client`]), wait for conditions instead of
//! sleeping ([`wait_until`]), and judge a farm under load while its servers fail ([`failover`]) or
//! transactions over its groups are struck between their steps ([`bank`], [`history`]) or its rows are
//! remembered ([`coherence`]), or its changes are consumed ([`consumers`]).
//!
//! Invariants: everything started here ends when its handle is dropped; every wait has a deadline
//! whose message names what was waited for; nothing listens beyond loopback and the networks of
//! [`network`], which nobody else reaches.
//!
//! Must not know: the crates under test beyond their public names. Tests only; never a dependency.
//!
//! Where a server cannot be had (no package, no network), tests are skipped with a line that says
//! why; `HEDDLE_TEST_NO_SKIP=1` makes that a failure.

pub mod bank;
pub mod changes;
pub mod client;
pub mod coherence;
pub mod consumers;
pub mod door;
pub mod failover;
pub mod farm;
mod growing;
pub mod history;
pub mod linear;
pub mod raw;
pub mod receiver;
pub mod router;
mod servers;
mod wait;

/// `detection_timeout_ms` of the routers that tests start. Servers that share two cores with many others may be silent for
/// longer than by default, and a primary that lives must not be exchanged under a test that counts on it.
pub const DETECTION_TIMEOUT_MS: u64 = 400;

pub use door::{admin, fate, rules, stage, staging};
pub use servers::{certificates, cluster, disguise, etcd, network, ports, proxy, server};

pub use client::Client;
pub use door::Door;
pub use door::stage::Stage;
pub use door::two::Two;
pub use farm::{Farm, running_with};
pub use growing::{connect_unless, grow_rows};
pub use servers::etcd::Etcd;
pub use servers::server::{Release, Server};
pub use wait::{holds_within, skip, wait_until, wait_until_listed};
