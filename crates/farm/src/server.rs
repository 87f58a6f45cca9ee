//! One server of a group: its identity, its standing in the group, and what probes last saw of it.
//!
//! Status and mode are Fabric's, with its numbers (`dump.servers` sends them), except that the word
//! for a server that follows a primary is *replica*; Fabric's name for it appears only in output that
//! promises Fabric's columns ([`Status::fabric_name`]).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::position::freshness::Freshness;

/// Names a server for as long as the farm lives; assigned once by the state store, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ServerId(pub u32);

/// What software a server runs. What differs between the two lives in the crates `enginesql` and `engine`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    MariaDb,
    MySql,
}

impl Engine {
    /// The name used in configuration, JSON and the command line.
    pub fn name(self) -> &'static str {
        match self {
            Engine::MariaDb => "mariadb",
            Engine::MySql => "mysql",
        }
    }
}

/// A server's standing in its group. The numbers are Fabric's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Takes no part until an operator or the rejoin procedure makes it a spare again.
    Faulty = 0,
    /// Replicates but serves no statement.
    Spare = 1,
    /// Replicates and serves reads.
    Replica = 2,
    /// Takes the group's writes. At most one server of a group has it, but in a Galera group all.
    Primary = 3,
}

impl Status {
    /// The word that Fabric's replies use; replicas are SECONDARY there.
    pub fn fabric_name(self) -> &'static str {
        match self {
            Status::Faulty => "FAULTY",
            Status::Spare => "SPARE",
            Status::Replica => "SECONDARY",
            Status::Primary => "PRIMARY",
        }
    }

    /// Reads a status from Fabric's name, our own name (any case) or Fabric's number.
    pub fn parse(text: &str) -> Option<Status> {
        match text.to_ascii_uppercase().as_str() {
            "FAULTY" | "0" => Some(Status::Faulty),
            "SPARE" | "1" => Some(Status::Spare),
            "SECONDARY" | "REPLICA" | "2" => Some(Status::Replica),
            "PRIMARY" | "3" => Some(Status::Primary),
            _ => None,
        }
    }

    /// Fabric's rule which modes a server of this status may have.
    pub fn allows(self, mode: Mode) -> bool {
        match self {
            Status::Faulty => false,
            Status::Spare | Status::Replica => matches!(mode, Mode::Offline | Mode::ReadOnly),
            Status::Primary => matches!(mode, Mode::WriteOnly | Mode::ReadWrite),
        }
    }
}

/// Which statements an operator lets a server have. The numbers are Fabric's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    Offline = 0,
    ReadOnly = 1,
    WriteOnly = 2,
    ReadWrite = 3,
}

impl Mode {
    /// The word that commands and replies use.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Offline => "OFFLINE",
            Mode::ReadOnly => "READ_ONLY",
            Mode::WriteOnly => "WRITE_ONLY",
            Mode::ReadWrite => "READ_WRITE",
        }
    }

    /// Reads a mode from its name (any case) or Fabric's number.
    pub fn parse(text: &str) -> Option<Mode> {
        match text.to_ascii_uppercase().as_str() {
            "OFFLINE" | "0" => Some(Mode::Offline),
            "READ_ONLY" | "1" => Some(Mode::ReadOnly),
            "WRITE_ONLY" | "2" => Some(Mode::WriteOnly),
            "READ_WRITE" | "3" => Some(Mode::ReadWrite),
            _ => None,
        }
    }

    /// True where reads may be sent to a server in this mode.
    pub fn reads(self) -> bool {
        matches!(self, Mode::ReadOnly | Mode::ReadWrite)
    }

    /// True where writes may be sent to a server in this mode.
    pub fn writes(self) -> bool {
        matches!(self, Mode::WriteOnly | Mode::ReadWrite)
    }
}

/// What the probes last learnt of a server. Text fields are for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// Answered its last probes.
    pub alive: bool,
    /// `@@read_only`, as last seen.
    pub read_only: bool,
    /// `@@global.sql_mode`, as last seen: what sessions begin with, and by which their texts are read.
    pub sql_mode: String,
    /// `@@global.init_connect` gives sessions another one.
    pub logins_set_mode: bool,
    /// Replication threads, `None` on a server that is not configured as a replica.
    pub io_running: Option<bool>,
    pub sql_running: Option<bool>,
    /// The last errors of the replication threads, empty when there are none.
    pub io_error: String,
    pub sql_error: String,
    /// The server's executed GTID position, in the engine's own notation.
    pub gtid: String,
    /// Why the server is not alive, empty while it is.
    pub error: String,
}

impl Health {
    /// The state of a server that no probe has reached yet.
    pub fn unknown() -> Health {
        Health {
            alive: false,
            read_only: true,
            sql_mode: String::new(),
            logins_set_mode: false,
            io_running: None,
            sql_running: None,
            io_error: String::new(),
            sql_error: String::new(),
            gtid: String::new(),
            error: "not probed yet".to_owned(),
        }
    }
}

/// SHA-256 of the public key in a server's certificate.
pub type ServerKey = [u8; 32];

/// One server as the farm sees it. Shared by snapshots; replaced, never changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Server {
    pub id: ServerId,
    /// The server's own UUID (MySQL `@@server_uuid`), or one that Heddle assigned (MariaDB has none).
    pub uuid: Arc<str>,
    /// The name in `farm.json`, or the address when the operator gave none.
    pub name: Arc<str>,
    pub group: Arc<str>,
    /// Host name or IP address, without brackets.
    pub host: Arc<str>,
    pub port: u16,
    pub status: Status,
    pub mode: Mode,
    /// Share of reads relative to the other servers of the group; above 0.
    pub weight: f64,
    pub engine: Engine,
    /// `@@version` as the server says it, for example `10.11.6-MariaDB-0+deb12u1`.
    pub version: Arc<str>,
    pub health: Health,
    /// How often Heddle has cut itself off from the server, because it was fenced or lost the writes:
    /// connections that were opened under an earlier term are closed, whatever runs on them.
    pub term: u32,
    /// What whoever answers there must hold, where certificates are not verified; None while the farm
    /// knows nothing of it.
    #[serde(skip)]
    pub key: Option<ServerKey>,
    /// How far its data reach: the same from snapshot to snapshot.
    #[serde(skip)]
    pub fresh: Fresh,
}

/// A server's [`Freshness`], which makes no difference between two pictures of it.
#[derive(Clone, Debug, Default)]
pub struct Fresh(pub Arc<Freshness>);

impl PartialEq for Fresh {
    fn eq(&self, _: &Fresh) -> bool {
        true
    }
}

impl std::ops::Deref for Fresh {
    type Target = Freshness;

    fn deref(&self) -> &Freshness {
        &self.0
    }
}

impl Server {
    /// `host:port`, the form in which commands show and take a server's address.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// How far it is behind the group's primary, in microseconds; `None` while nobody knows.
    pub fn lag_us(&self) -> Option<u64> {
        match self.status {
            Status::Primary => Some(0),
            _ => self.fresh.lag_us().filter(|_| self.health.alive),
        }
    }

    /// True when reads may go there now.
    pub fn serves_reads(&self) -> bool {
        self.health.alive
            && self.mode.reads()
            && matches!(self.status, Status::Replica | Status::Primary)
    }

    /// True when writes may go there now. A primary that restarted is read-only until the control
    /// plane has restored it: a write before that would not be acknowledged by any replica, and an
    /// account with SUPER would not even be refused.
    pub fn serves_writes(&self) -> bool {
        self.health.alive
            && !self.health.read_only
            && self.mode.writes()
            && self.status == Status::Primary
    }
}
