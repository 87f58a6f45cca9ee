//! What tests start beside Heddle: database servers, etcd, networks, and what stands between them.
//!
//! Job: real servers of the releases at hand ([`server`], [`bundle`], [`cluster`]), an etcd, certificates, free
//! ports, and ways that break where a test wants it ([`proxy`], [`disguise`], [`network`]).
//!
//! Invariants: a process ends with its handle, or with the test's process ([`keeper`]).
//!
//! Must not know: routers, doors, sessions.

pub mod bundle;
pub mod certificates;
pub mod cluster;
pub mod disguise;
pub mod etcd;
pub(crate) mod keeper;
pub mod network;
pub mod ports;
pub mod proxy;
pub mod server;
