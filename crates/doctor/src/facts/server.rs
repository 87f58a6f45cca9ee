//! What was read of one server.

use std::collections::BTreeMap;

use enginesql::Version;
use farm::{Engine, Status};
use serde::{Deserialize, Serialize};

/// A server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerFacts {
    /// `host:port`.
    pub address: String,
    /// `None` for a server that is not in the farm yet.
    pub status: Option<Status>,
    /// Why nothing could be read; empty where it could.
    pub unreachable: String,
    /// It is on the machine of the router that looks.
    pub near: bool,
    /// `@@version`.
    pub version: String,
    /// An operator said that it shall never be the primary.
    pub never_primary: bool,
    pub lag_ms: Option<u64>,
    /// Global variables by lower-case names.
    pub variables: BTreeMap<String, String>,
    /// Status counters by lower-case names.
    pub counters: BTreeMap<String, String>,
    /// Where the values of some variables come from, in the engine's word.
    pub origins: BTreeMap<String, String>,
    /// Whom it follows, one entry for each channel.
    pub sources: Vec<SourceFacts>,
    pub binlog: BinlogFacts,
    /// The executed position, in the engine's notation.
    pub gtid: String,
    /// Transactions that it has and its primary has not, as GTIDs.
    pub errant: String,
    /// Milliseconds by which its clock is ahead of the router's.
    pub clock_ahead_ms: Option<i64>,
    /// The file system of its data, where it is on the router's machine.
    pub disk: Option<DiskFacts>,
    pub accounts: Option<Vec<AccountFacts>>,
    pub schema: SchemaFacts,
    /// Named time zones that its tables have.
    pub time_zones: Option<u64>,
    /// What Heddle's own account may not do.
    pub lacks: Vec<LackFacts>,
}

impl ServerFacts {
    pub fn was_read(&self) -> bool {
        self.unreachable.is_empty() && !self.variables.is_empty()
    }

    pub fn is_primary(&self) -> bool {
        self.status == Some(Status::Primary)
    }

    pub fn is_replica(&self) -> bool {
        matches!(self.status, Some(Status::Replica | Status::Spare))
    }

    pub fn parsed_version(&self) -> Option<Version> {
        Version::parse(&self.version)
    }

    pub fn engine(&self) -> Engine {
        let version = self.parsed_version();
        version.map_or(Engine::MariaDb, |version| version.engine)
    }

    /// The first of these variables that the server has.
    pub fn variable(&self, names: &[&str]) -> Option<&str> {
        let mut found = names.iter().filter_map(|name| self.variables.get(*name));
        found.next().map(String::as_str)
    }

    /// The same with the name that the server has it by.
    pub fn named<'n>(&self, names: &[&'n str]) -> Option<(&'n str, &str)> {
        let each = names.iter();
        let mut found = each.filter_map(|name| Some((*name, self.variables.get(*name)?.as_str())));
        found.next()
    }

    pub fn number(&self, names: &[&str]) -> Option<u64> {
        // Some servers write seconds with a fraction.
        let text = self.variable(names)?;
        text.split('.').next()?.parse().ok()
    }

    pub fn counter(&self, names: &[&str]) -> Option<&str> {
        let mut found = names.iter().filter_map(|name| self.counters.get(*name));
        found.next().map(String::as_str)
    }

    /// Whether a switch is on; `None` where the server has none of these names.
    pub fn is_on(&self, names: &[&str]) -> Option<bool> {
        let value = self.variable(names)?;
        Some(!matches!(value, "OFF" | "0" | "" | "NO"))
    }
}

/// One channel of replication.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceFacts {
    pub host: String,
    pub port: u16,
    /// It follows by GTID, not by file and offset.
    pub by_gtid: bool,
    /// `Yes`, `No`, `Connecting`.
    pub receives: String,
    pub applies: String,
    /// The last errors with their numbers; empty when there are none.
    pub receive_error: String,
    pub apply_error: String,
    /// Seconds that an operator keeps it behind.
    pub delay_s: u64,
    /// Filters, as `Replicate_Do_DB=shop`.
    pub filters: Vec<String>,
}

impl SourceFacts {
    /// `host:port`.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// The binary log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BinlogFacts {
    pub files: u64,
    pub bytes: u64,
    /// As `Binlog_Do_DB=shop`.
    pub filters: Vec<String>,
}

/// A file system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskFacts {
    pub path: String,
    pub free_bytes: u64,
    pub total_bytes: u64,
}

/// One account of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AccountFacts {
    pub user: String,
    pub host: String,
    /// The plugin by which it proves who it is.
    pub plugin: String,
    /// Stands for its passwords and plugins; equal for equal ones.
    pub proof: u64,
    pub locked: bool,
    pub expired: bool,
    /// Heddle can log in for its clients with a backend credential only.
    pub needs_credential: bool,
}

impl AccountFacts {
    /// As GRANT has it.
    pub fn name(&self) -> String {
        format!("'{}'@'{}'", self.user, self.host)
    }
}

/// The first names of a list, and how long it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Names {
    pub first: Vec<String>,
    pub count: u64,
}

impl Names {
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The names, and how many more there are.
    pub fn text(&self) -> String {
        let named = self.first.join(", ");
        match self.count.saturating_sub(self.first.len() as u64) {
            0 => named,
            more => format!("{named} and {more} more"),
        }
    }
}

/// A table of an engine other than InnoDB.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TableEngine {
    /// `database.table`.
    pub table: String,
    pub engine: String,
}

/// A foreign key; tables are `database.table`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ForeignKey {
    pub name: String,
    pub table: String,
    pub references: String,
}

/// What the databases of users have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SchemaFacts {
    /// Tables without a primary key.
    pub keyless: Names,
    pub other_engines: Vec<TableEngine>,
    /// Events that the server itself runs.
    pub enabled_events: Names,
    pub triggers: Names,
    pub foreign_keys: Vec<ForeignKey>,
}

/// What Heddle's account lacks for one feature.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LackFacts {
    pub feature: String,
    /// The account and what it lacks.
    pub text: String,
    /// The GRANT statements.
    pub cure: String,
    /// No farm can do without it.
    pub essential: bool,
    /// This farm uses it.
    pub used: bool,
}
