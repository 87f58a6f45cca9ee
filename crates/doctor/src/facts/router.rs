//! What was read of one router and of the machine that it runs on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::server::DiskFacts;

/// A router.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouterFacts {
    pub name: String,
    /// Why nothing could be read; empty where it could.
    pub unreachable: String,
    pub version: String,
    /// The settings in force, by name; secrets are hidden.
    pub settings: BTreeMap<String, String>,
    /// Settings whose file says something else since the start, which a restart puts in force.
    pub waiting: Vec<String>,
    /// Milliseconds since 1970 by its own clock.
    pub clock_ms: u64,
    /// Milliseconds by which its clock is ahead of the one of the router that looks.
    pub clock_ahead_ms: Option<i64>,
    pub doors: Vec<DoorFacts>,
    /// Files with secrets.
    pub files: Vec<FileFacts>,
    pub certificates: Vec<CertificateFacts>,
    pub store: StoreFacts,
    pub host: HostFacts,
}

impl RouterFacts {
    /// The setting of this name as a number.
    pub fn number(&self, setting: &str) -> Option<u64> {
        self.settings.get(setting)?.parse().ok()
    }
}

/// A door of a router.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DoorFacts {
    /// `SQL`, `KV`, `HTTP`, `Fabric`.
    pub name: String,
    pub address: String,
    /// Other machines can reach it.
    pub public: bool,
    /// Clients can come inside TLS.
    pub tls: bool,
    /// Clients have to come inside TLS.
    pub tls_only: bool,
    /// Clients have to show who they are.
    pub authenticates: bool,
}

/// A file with a secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileFacts {
    /// What it is, for people.
    pub what: String,
    pub path: String,
    /// The permission bits.
    pub mode: u32,
}

/// A certificate that a router shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CertificateFacts {
    pub what: String,
    /// Seconds since 1970.
    pub ends_s: u64,
}

/// The state store as a router sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreFacts {
    /// It is an etcd cluster; else a file.
    pub etcd: bool,
    /// Why it does not answer; empty while it does.
    pub error: String,
    pub answered_ms: Option<u64>,
    /// URLs of etcd's members that the router was given.
    pub urls: Vec<String>,
    /// What is said to it crosses a network without TLS.
    pub in_clear: bool,
}

/// The machine of a router.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostFacts {
    /// How many files the process may have open.
    pub files_max: Option<u64>,
    /// What the machine or the process's control group has.
    pub memory_bytes: Option<u64>,
    /// What the clients of the router may take of it.
    pub memory_bytes_max: Option<u64>,
    /// `vm.overcommit_memory`.
    pub overcommit: Option<u64>,
    /// The file system of `state_dir`.
    pub state_disk: Option<DiskFacts>,
}
