//! What the control plane is told at its start. The binary fills it from its own table of settings.

use std::path::PathBuf;
use std::sync::Arc;

use routing::rules::Rulebook;

/// How Heddle itself logs in to the servers.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// An account with all privileges on every server of the farm.
    pub user: String,
    pub password: String,
    /// The account with which replicas connect to their primary.
    pub replication_user: String,
    pub replication_password: String,
    /// TLS of Heddle's own connections to the servers.
    pub tls: engine::LinkTls,
}

/// One line of `dump fabric_nodes`.
#[derive(Clone, Debug)]
pub struct Node {
    /// For example `protocol.xmlrpc`.
    pub protocol: String,
    pub host: String,
    pub port: u16,
}

/// All that the control plane can be told.
#[derive(Clone, Debug)]
pub struct Settings {
    pub credentials: Credentials,
    /// Time between two probes of one server.
    pub probe_interval_ms: u64,
    /// A probe without an answer by then has failed.
    pub probe_timeout_ms: u64,
    /// Time between two heartbeats of a group with replicas.
    pub heartbeat_interval_ms: u64,
    /// Time between two looks at the servers' positions, while sessions could use them.
    pub position_interval_ms: u64,
    /// So many failed probes in a row make a server dead; one answer makes it alive again.
    pub probe_failures: u32,
    /// Time between two readings of the accounts from the home group's primary.
    pub accounts_interval_ms: u64,
    /// How long a primary with exactly one replica waits for its acknowledgement before it goes on
    /// alone. With two replicas or more it waits as long as it takes.
    pub last_replica_wait_ms: u64,
    /// Limit for one step of a command on one server.
    pub step_timeout_ms: u64,
    /// A server with errant transactions is filled anew by itself; otherwise it is set faulty.
    pub rejoin_by_clone: bool,
    /// Where errant transactions are saved before they are given up.
    pub errant_dir: PathBuf,
    /// Where `mariadb-binlog` and `mysqlbinlog` are looked for before PATH.
    pub tool_dirs: Vec<PathBuf>,
    /// The rules in force, to be shown.
    pub rules: Arc<Rulebook>,
    /// What `dump fabric_nodes` answers.
    pub nodes: Vec<Node>,
    /// The router's own version, for `manage ping`.
    pub version: String,
}

impl Settings {
    /// The defaults, for servers that one account administers.
    pub fn new(credentials: Credentials) -> Settings {
        Settings {
            credentials,
            probe_interval_ms: 500,
            probe_timeout_ms: 1000,
            heartbeat_interval_ms: 500,
            position_interval_ms: 50,
            probe_failures: 2,
            accounts_interval_ms: 1000,
            last_replica_wait_ms: engine::replication::ACK_WAIT_FOREVER_MS,
            step_timeout_ms: 10_000,
            rejoin_by_clone: false,
            errant_dir: PathBuf::from("errant"),
            tool_dirs: Vec::new(),
            rules: Arc::default(),
            nodes: Vec::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}
