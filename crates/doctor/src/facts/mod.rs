//! What was read of a farm at one moment, as plain values.
//!
//! Invariant: a value that could not be read is absent (`None`, an empty map, no key), never a guess.

mod router;
mod server;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use router::{CertificateFacts, DoorFacts, FileFacts, HostFacts, RouterFacts, StoreFacts};
pub use server::{
    AccountFacts, BinlogFacts, DiskFacts, ForeignKey, LackFacts, Names, SchemaFacts, ServerFacts,
    SourceFacts, TableEngine,
};

/// A farm.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FarmFacts {
    pub groups: Vec<GroupFacts>,
    /// The routers that live; the one that looks comes first.
    pub routers: Vec<RouterFacts>,
    /// The settings in force on the router that looks, by name.
    pub settings: BTreeMap<String, String>,
    /// The sinks of the change stream that do not deliver, or have dead letters.
    pub sinks: Vec<SinkFacts>,
    /// Consumers of the change stream that are near a gap, or in one.
    pub late_consumers: Vec<ConsumerFacts>,
    /// Sharded tables (`database.table`) with the names of their maps.
    pub sharded: BTreeMap<String, String>,
}

impl FarmFacts {
    /// The setting of this name as a number; `None` where nobody knows it.
    pub fn number(&self, setting: &str) -> Option<u64> {
        self.settings.get(setting)?.parse().ok()
    }

    /// Whether a switch is on.
    pub fn is_on(&self, setting: &str) -> bool {
        self.settings
            .get(setting)
            .is_some_and(|value| value == "on")
    }
}

/// A sink that wants to be looked at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SinkFacts {
    pub name: String,
    /// Nothing is tried any more.
    pub stuck: bool,
    /// Why nothing is delivered; empty while it goes well.
    pub error: String,
    /// Dead letters.
    pub letters: u64,
}

/// A consumer that is so far behind that its servers remove, or have removed, what it lacks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConsumerFacts {
    /// For example `subscription index`.
    pub name: String,
    /// How much its lag is of what the servers keep of their binlogs.
    pub expiry_percent: u64,
    /// What they have removed; empty where that is nothing.
    pub gap: String,
}

/// A group with its servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupFacts {
    /// Empty for servers that are in no group yet.
    pub name: String,
    /// Its servers are the nodes of a Galera cluster.
    pub galera: bool,
    /// Its servers are on read-only storage: none is the primary.
    pub media: bool,
    /// It is watched and failed over.
    pub active: bool,
    pub servers: Vec<ServerFacts>,
    /// Shard maps that give it the largest part of their keys, and far more than an even one: by their names,
    /// of each hundred keys its own and an even part.
    pub overfull: BTreeMap<String, (u32, u32)>,
}

impl GroupFacts {
    /// The server that takes the writes.
    pub fn primary(&self) -> Option<&ServerFacts> {
        self.servers.iter().find(|server| server.is_primary())
    }

    /// The servers that follow the primary.
    pub fn replicas(&self) -> impl Iterator<Item = &ServerFacts> {
        self.servers.iter().filter(|server| server.is_replica())
    }

    /// The servers of which something is known.
    pub fn read(&self) -> impl Iterator<Item = &ServerFacts> {
        self.servers.iter().filter(|server| server.was_read())
    }
}
