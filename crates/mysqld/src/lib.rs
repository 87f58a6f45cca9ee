//! One real MariaDB or MySQL server as a child process of Heddle.
//!
//! Job: find the server's binary, initialise a data directory once and copy it, write the server's
//! configuration, start it, know when it answers, stop it, and find it again after Heddle itself was
//! killed.
//!
//! Invariants: a server listens on loopback only; it starts read-only and as a replica, so that only
//! a promotion makes it take writes (a scratch server holds no data and takes them at once); it lives in a process group of its own, so that Ctrl-C in
//! Heddle's terminal does not reach it; dropping a [`Server`] does not stop it. A data directory
//! either does not exist or is whole.
//!
//! Must not know: groups, roles and replication (crate `control` joins servers to a group), SQL.
//!
//! All calls block; callers that start several servers at once use a thread for each.

pub mod backup;
mod binary;
mod config;
mod error;
pub mod logs;
mod server;
mod template;

pub use binary::Binary;
pub use config::Options;
pub use error::Error;
pub use rustix::process::Signal;
pub use server::Server;
pub use template::{cache_dir, has_template, template};
