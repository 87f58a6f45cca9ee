//! What the control plane is told at its start. The binary fills it from its own table of settings.

use std::path::PathBuf;
use std::sync::Arc;

use routing::rules::Rulebook;

use crate::configuration::document::{Documents, NoDocuments};
use crate::fence::{Fence, NoFence};
use crate::peers::transport::{NoPeers, Peers};
use crate::provision::backup::{Backup, NoBackup};
use catalog::event::Listener;

/// How Heddle itself logs in to the servers.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// An account with the privileges of `docs/PRIVILEGES.md` on every server of the farm.
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

/// All that the control plane can be told: what concerns one part of it in a struct of that part's.
#[derive(Clone, Debug)]
pub struct Settings {
    pub credentials: Credentials,
    pub observation: ObservationSettings,
    pub detection: DetectionSettings,
    pub failover: FailoverSettings,
    pub provision: ProvisionSettings,
    pub txn_recovery: TxnRecoverySettings,
    pub peers: PeerSettings,
    /// Below it are the directories of the sinks that write files.
    pub sink_files_dir: PathBuf,
    /// For so many hours servers keep their binlogs at least while there are subscriptions or sinks; 0 for as long as
    /// they do by themselves.
    pub subscription_binlogs_h: u64,
    /// How it takes part in a farm of several routers, which share the store; `None` for a router
    /// that has its store for itself.
    pub membership: Option<Membership>,
    /// Statements may send small tables to the groups, so the tables' sizes have to be known.
    pub measures_tables: bool,
    /// Limit for one step of a command on one server.
    pub step_timeout_ms: u64,
    /// Who knows settings and rules, to follow the farm's configuration.
    pub documents: Arc<dyn Documents>,
    /// Who hears of events.
    pub listener: Option<Arc<dyn Listener>>,
    /// The rules in force, to be shown.
    pub rules: Arc<Rulebook>,
    /// What `dump fabric_nodes` answers.
    pub nodes: Vec<Node>,
    /// The router's own version, for `manage ping`.
    pub version: String,
}

/// How often servers are looked at.
#[derive(Clone, Debug)]
pub struct ObservationSettings {
    /// Time between two probes of one server.
    pub probe_interval_ms: u64,
    /// A probe without an answer by then has failed.
    pub probe_timeout_ms: u64,
    /// So many failed probes in a row make a server dead; one answer makes it alive again.
    pub probe_failures: u32,
    /// Time between two heartbeats of a group with replicas.
    pub heartbeat_interval_ms: u64,
    /// Time between two looks at the servers' positions, while sessions could use them.
    pub position_interval_ms: u64,
    /// Time between two readings of the accounts from the home group's primary.
    pub accounts_interval_ms: u64,
    /// Writes of key-value clients may be acknowledged so long before their commit; 0 for not at all.
    pub early_writes_ms: u64,
    /// Connections for clients tell servers by the PROXY protocol where these are.
    pub proxy: Option<proxy_wire::Version>,
}

/// When a silent server counts as dead.
#[derive(Clone, Debug)]
pub struct DetectionSettings {
    /// Signs of life in a row that must be missing before silence is believed; then a new connection
    /// must go without a greeting, too.
    pub detections: u32,
    /// Time between two signs of life that each server is asked for.
    pub detection_interval_ms: u64,
    /// A sign of life, or a greeting, that does not come by then is missing.
    pub detection_timeout_ms: u64,
}

/// How a group changes its primary, and what its commits wait for.
#[derive(Clone, Debug)]
pub struct FailoverSettings {
    /// How long a primary with exactly one replica waits for its acknowledgement before it goes on
    /// alone. With two replicas or more it waits as long as it takes.
    pub last_replica_wait_ms: u64,
    /// Replicas write to disk once in a second instead of at each commit; a promoted one does not.
    pub relaxed_replicas: bool,
    /// Whether `fence` can do anything.
    pub fences: bool,
    /// How servers are fenced from outside.
    pub fence: Arc<dyn Fence>,
    /// A switch-over lets transactions end for so long; then they are ended.
    pub switchover_drain_ms: u64,
    /// Least time between two changes of a group's primary for the same cause.
    pub failover_interval_ms: u64,
    /// So long after its primary was lost, a group goes on with a server that may lack acknowledged
    /// commits; 0 for never.
    pub lossy_promotion_after_ms: u64,
    /// A primary that takes no write for so long, though it can be read, has failed; 0 for never.
    pub write_timeout_ms: u64,
    /// Reports of errors that condemn a server: so many, from so many reporters, within so long.
    pub notifications: u32,
    pub notification_clients: u32,
    pub notification_interval_ms: u64,
}

/// How servers are filled, and what happens to the transactions that they alone have.
#[derive(Clone, Debug)]
pub struct ProvisionSettings {
    /// A server with errant transactions is filled anew by itself; otherwise it is set faulty.
    pub rejoin_by_clone: bool,
    /// Where errant transactions are saved before they are given up.
    pub errant_dir: PathBuf,
    /// Where `mariadb-binlog` and `mysqlbinlog` are looked for before PATH.
    pub tool_dirs: Vec<PathBuf>,
    /// How fast files of one server may get into another one; 0 for no limit.
    pub clone_mib_per_s_max: u64,
    /// Who fills servers by a backup of files.
    pub backup: Arc<dyn Backup>,
}

/// How distributed transactions that their router left are ended.
#[derive(Clone, Debug)]
pub struct TxnRecoverySettings {
    /// Time between two looks at what the primaries have prepared.
    pub crossing_interval_ms: u64,
    /// A prepared branch of another router that may live is left to it for so long.
    pub crossing_grace_ms: u64,
    /// So long another router may ask for a decision of its own.
    pub decisions_kept_ms: u64,
}

/// How the farm's other routers are asked.
#[derive(Clone, Debug)]
pub struct PeerSettings {
    pub transport: Arc<dyn Peers>,
    /// How long each may take for a part of a view over the farm.
    pub peer_timeout_ms: u64,
    /// Routers of releases that know no TLS between routers are asked, and answered, in clear.
    pub peers_in_clear: bool,
    /// How often routers tell each other what their clients have had acknowledged.
    pub client_exchange_ms: u64,
}

/// How a router takes part in a farm of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// For people; unique among the routers of the farm.
    pub name: String,
    /// `host:port` of the HTTP door, as the other routers reach it.
    pub http: String,
    /// `host:port` of the SQL door, for people.
    pub sql: String,
    /// A router that the store has not heard for so long is gone, and leads no more.
    pub lease_ms: u64,
    /// After so long without the store the router says so.
    pub store_silence_ms: u64,
    /// Then it also says that it is not ready, so that clients are sent elsewhere.
    pub refuses_without_store: bool,
    /// The process bound its addresses itself, so whoever registered with the same HTTP address is
    /// gone; false when it took them over from one that still serves its clients.
    pub replaces: bool,
}

impl Membership {
    /// The defaults.
    pub fn new(name: &str, http: &str, sql: &str) -> Membership {
        Membership {
            name: name.to_owned(),
            http: http.to_owned(),
            sql: sql.to_owned(),
            lease_ms: 2000,
            store_silence_ms: 10_000,
            refuses_without_store: false,
            replaces: true,
        }
    }
}

impl Settings {
    /// The defaults, for servers that one account administers.
    pub fn new(credentials: Credentials) -> Settings {
        Settings {
            credentials,
            observation: ObservationSettings::default(),
            detection: DetectionSettings::default(),
            failover: FailoverSettings::default(),
            provision: ProvisionSettings::default(),
            txn_recovery: TxnRecoverySettings::default(),
            peers: PeerSettings::default(),
            sink_files_dir: PathBuf::from("sinks"),
            subscription_binlogs_h: 0,
            membership: None,
            measures_tables: false,
            step_timeout_ms: 10_000,
            documents: Arc::new(NoDocuments),
            listener: None,
            rules: Arc::default(),
            nodes: Vec::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

impl Default for ObservationSettings {
    fn default() -> ObservationSettings {
        ObservationSettings {
            probe_interval_ms: 500,
            probe_timeout_ms: 1000,
            probe_failures: 2,
            heartbeat_interval_ms: 500,
            position_interval_ms: 50,
            accounts_interval_ms: 1000,
            early_writes_ms: 0,
            proxy: None,
        }
    }
}

impl Default for DetectionSettings {
    fn default() -> DetectionSettings {
        DetectionSettings {
            detections: 3,
            detection_interval_ms: 30,
            detection_timeout_ms: 100,
        }
    }
}

impl Default for FailoverSettings {
    fn default() -> FailoverSettings {
        FailoverSettings {
            last_replica_wait_ms: engine::replication::ACK_WAIT_FOREVER_MS,
            relaxed_replicas: false,
            fences: false,
            fence: Arc::new(NoFence),
            switchover_drain_ms: 50,
            failover_interval_ms: 0,
            lossy_promotion_after_ms: 0,
            write_timeout_ms: 5000,
            notifications: 300,
            notification_clients: 50,
            notification_interval_ms: 60_000,
        }
    }
}

impl Default for ProvisionSettings {
    fn default() -> ProvisionSettings {
        ProvisionSettings {
            rejoin_by_clone: false,
            errant_dir: PathBuf::from("errant"),
            tool_dirs: Vec::new(),
            clone_mib_per_s_max: 0,
            backup: Arc::new(NoBackup),
        }
    }
}

impl Default for TxnRecoverySettings {
    fn default() -> TxnRecoverySettings {
        TxnRecoverySettings {
            crossing_interval_ms: 1000,
            crossing_grace_ms: 2000,
            decisions_kept_ms: 600_000,
        }
    }
}

impl Default for PeerSettings {
    fn default() -> PeerSettings {
        PeerSettings {
            transport: Arc::new(NoPeers),
            peer_timeout_ms: 1000,
            peers_in_clear: false,
            client_exchange_ms: 50,
        }
    }
}
