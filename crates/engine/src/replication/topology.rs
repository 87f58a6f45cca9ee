//! A server's place in a replication setup that somebody else made: whom it follows, who follows it, what
//! it takes over of what it receives, and which farms' routers wrote to it.
//!
//! Everything here only looks. What the answers mean for a farm is the caller's matter.

use enginesql::{Version, quoted, words};
use farm::Engine;
use mysql_async::Row;

use crate::error::Error;
use crate::galera;
use crate::link::{Link, text, text_at};
use crate::probe::{Observation, Replica, is_on, probe, replica};

/// What one server says of its place.
#[derive(Clone, Debug)]
pub struct Place {
    pub version: Version,
    pub observation: Observation,
    /// The account that Heddle is there, as GRANT has it.
    pub account: String,
    /// Whom it follows: more than one with named connections (MariaDB) or channels (MySQL).
    pub follows: Vec<Upstream>,
    /// Who is registered as following it; `None` where Heddle's account may not ask.
    pub followers: Option<Vec<Follower>>,
    /// The clients that read its binary log, as `user@host:port`: replicas, and programs.
    pub readers: Vec<String>,
    /// Whether it acknowledges what it receives; `None` without semi-sync.
    pub acknowledges: Option<bool>,
    /// Other kinds of replication that it takes part in: Galera, Group Replication.
    pub cluster: Option<&'static str>,
    /// Routers' heartbeats: their names, and how old each is by the server's clock, in seconds.
    pub heartbeats: Vec<(String, u64)>,
}

/// A server that is followed, as its follower knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// The connection's or channel's name; empty for the one without.
    pub channel: String,
    pub replica: Replica,
    /// 0 where it was never reached.
    pub server_id: u64,
    /// MySQL's.
    pub uuid: Option<String>,
    /// What it takes over only or not at all, each as `VARIABLE=VALUE`.
    pub filters: Vec<String>,
    /// For so long it holds back what it received, in seconds.
    pub delay_s: u64,
}

/// A replica as it is registered at the server that it follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follower {
    pub server_id: u64,
    /// What its `report_host` says; empty where nothing does.
    pub host: String,
    pub port: u16,
}

impl Follower {
    /// Where it says that it is; `None` where it does not.
    pub fn address(&self) -> Option<String> {
        (!self.host.is_empty() && self.port != 0).then(|| format!("{}:{}", self.host, self.port))
    }
}

const OPERATION: &str = "say whom it follows";

/// Looks at a server's place in its replication setup. Changes nothing.
///
/// # Errors
/// The server does not answer, or Heddle's account may not ask what every probe asks.
pub async fn place(link: &mut Link, timeout_ms: u64) -> Result<Place, Error> {
    let observation = probe(link, true, timeout_ms).await?;
    let version = link.version().clone();
    let all = match version.engine {
        Engine::MariaDb => "SHOW ALL SLAVES STATUS",
        Engine::MySql => words::SHOW_STATUS.of(&version),
    };
    let follows = link.rows(OPERATION, all, timeout_ms).await?;
    let account = link
        .cell("ask for the account", "SELECT CURRENT_USER()", timeout_ms)
        .await?
        .unwrap_or_default();
    Ok(Place {
        account: account_of(&account),
        follows: follows.iter().map(upstream).collect(),
        followers: followers(link, timeout_ms).await?,
        readers: readers(link, timeout_ms).await?,
        acknowledges: acknowledges(link, timeout_ms).await?,
        cluster: cluster(link, timeout_ms).await?,
        heartbeats: heartbeats(link, timeout_ms).await?,
        version,
        observation,
    })
}

/// What a row of SHOW ALL SLAVES STATUS or SHOW REPLICA STATUS calls a filter.
const FILTERS: [&str; 9] = [
    "Replicate_Do_DB",
    "Replicate_Ignore_DB",
    "Replicate_Do_Table",
    "Replicate_Ignore_Table",
    "Replicate_Wild_Do_Table",
    "Replicate_Wild_Ignore_Table",
    "Replicate_Rewrite_DB",
    "Replicate_Do_Domain_Ids",
    "Replicate_Ignore_Domain_Ids",
];

fn upstream(row: &Row) -> Upstream {
    let either = |old: &str, new: &str| text(row, old).or_else(|| text(row, new));
    let number = |text: Option<String>| text.and_then(|it| it.parse().ok()).unwrap_or(0);
    let filter = |name: &&str| {
        let value = text(row, name).filter(|value| !value.is_empty())?;
        Some(format!("{}={value}", name.to_ascii_lowercase()))
    };
    Upstream {
        channel: either("Connection_name", "Channel_Name").unwrap_or_default(),
        replica: replica(row),
        server_id: number(either("Master_Server_Id", "Source_Server_Id")),
        uuid: either("Master_UUID", "Source_UUID").filter(|uuid| !uuid.is_empty()),
        filters: FILTERS.iter().filter_map(filter).collect(),
        delay_s: number(text(row, "SQL_Delay")),
    }
}

/// `user@host` as GRANT has it.
fn account_of(current: &str) -> String {
    let (user, host) = current.rsplit_once('@').unwrap_or((current, "%"));
    format!("{}@{}", quoted(user), quoted(host))
}

/// ER_SPECIFIC_ACCESS_DENIED_ERROR and ER_ACCESS_DENIED_ERROR: the account may not ask.
const DENIED: [u16; 2] = [1227, 1045];

async fn followers(link: &mut Link, timeout_ms: u64) -> Result<Option<Vec<Follower>>, Error> {
    let sql = words::SHOW_FOLLOWERS.of(link.version());
    let rows = match link.rows(OPERATION, sql, timeout_ms).await {
        Err(error) if error.number().is_some_and(|it| DENIED.contains(&it)) => return Ok(None),
        other => other?,
    };
    let follower = |row: &Row| {
        // MariaDB writes `Server_id`, MySQL `Server_Id`; both have it first.
        let server_id = text_at(row, 0)?.parse().ok()?;
        let port = text(row, "Port").and_then(|port| port.parse().ok());
        Some(Follower {
            server_id,
            host: text(row, "Host").unwrap_or_default(),
            port: port.unwrap_or(0),
        })
    };
    Ok(Some(rows.iter().filter_map(follower).collect()))
}

async fn readers(link: &mut Link, timeout_ms: u64) -> Result<Vec<String>, Error> {
    let rows = link
        .rows("list its clients", "SHOW PROCESSLIST", timeout_ms)
        .await?;
    let own = link.own_ids();
    let reader = |row: &Row| {
        let id: u64 = text(row, "Id")?.parse().ok()?;
        let reads = text(row, "Command")?.starts_with("Binlog Dump");
        let (user, host) = (text(row, "User")?, text(row, "Host")?);
        (reads && !own.contains(&id)).then(|| format!("{user}@{host}"))
    };
    Ok(rows.iter().filter_map(reader).collect())
}

/// Whether the receiver that runs now acknowledges. A receiver that began before semi-sync was switched on
/// does not, whatever the variable says.
pub(crate) async fn acknowledges(link: &mut Link, timeout_ms: u64) -> Result<Option<bool>, Error> {
    let sql = "SHOW GLOBAL STATUS WHERE Variable_name IN \
               ('Rpl_semi_sync_slave_status','Rpl_semi_sync_replica_status')";
    let rows = link.rows("look for semi-sync", sql, timeout_ms).await?;
    let value = rows.first().and_then(|row| text_at(row, 1));
    Ok(value.map(|value| is_on(&value)))
}

async fn cluster(link: &mut Link, timeout_ms: u64) -> Result<Option<&'static str>, Error> {
    if galera::node(link, timeout_ms).await?.is_some() {
        return Ok(Some("a Galera cluster"));
    }
    if link.version().engine == Engine::MariaDb {
        return Ok(None);
    }
    let sql =
        "SELECT 1 FROM performance_schema.replication_group_members WHERE MEMBER_STATE<>'OFFLINE'";
    let found = link.rows("look for its group", sql, timeout_ms).await;
    // Without the right to look, or without the table, nothing says that it is a member.
    Ok(found
        .is_ok_and(|rows| !rows.is_empty())
        .then_some("a group of Group Replication"))
}

/// ER_NO_SUCH_TABLE, ER_BAD_DB_ERROR: no router ever wrote here. ER_TABLEACCESS_DENIED_ERROR and
/// ER_DBACCESS_DENIED_ERROR: the account lacks what every farm needs, which is told elsewhere.
const MISSING: [u16; 4] = [1146, 1049, 1142, 1044];

async fn heartbeats(link: &mut Link, timeout_ms: u64) -> Result<Vec<(String, u64)>, Error> {
    let sql = "SELECT router, GREATEST(0, TIMESTAMPDIFF(SECOND, at, NOW())) FROM heddle.heartbeat \
               ORDER BY router";
    let rows = match link.rows("look for heartbeats", sql, timeout_ms).await {
        Err(error) if error.number().is_some_and(|it| MISSING.contains(&it)) => {
            return Ok(Vec::new());
        }
        other => other?,
    };
    let heartbeat = |row: &Row| Some((text_at(row, 0)?, text_at(row, 1)?.parse().ok()?));
    Ok(rows.iter().filter_map(heartbeat).collect())
}

/// True when the account of this link may receive a binary log.
///
/// # Errors
/// The server does not answer.
pub async fn may_replicate(link: &mut Link, timeout_ms: u64) -> Result<bool, Error> {
    let rows = link
        .rows("show its privileges", "SHOW GRANTS", timeout_ms)
        .await?;
    let grants = rows.iter().filter_map(|row| text_at(row, 0));
    let replicates = |grant: String| {
        let given = grant.strip_prefix("GRANT ").unwrap_or_default();
        // «REPLICATION SLAVE ADMIN» is another one.
        let privileges = given.split_once(" ON *.* ").map_or("", |(all, _)| all);
        let mut all = privileges.split(", ");
        all.any(|privilege| matches!(privilege, "REPLICATION SLAVE" | "ALL PRIVILEGES"))
    };
    Ok(grants.into_iter().any(replicates))
}

/// The statement by which a server follows this primary, without the password.
pub fn follow_statement(version: &Version, primary: &crate::Login) -> String {
    let shown = crate::Login {
        password: match primary.password.is_empty() {
            true => String::new(),
            false => "…".to_owned(),
        },
        ..primary.clone()
    };
    let change = words::change_primary(version, shown.as_source());
    let (stop, start) = (words::STOP.of(version), words::START.of(version));
    format!("{stop}; {change}; {start}")
}

/// The statement by which a server refuses writes.
pub fn refuse_writes_statement(engine: Engine) -> &'static str {
    match engine {
        Engine::MariaDb => "SET GLOBAL read_only=1",
        Engine::MySql => "SET GLOBAL super_read_only=1",
    }
}

/// The statement by which replication starts, and the one by which a server forgets whom it follows.
pub fn start_and_forget(version: &Version) -> (&'static str, String) {
    let (stop, reset) = (words::STOP.of(version), words::RESET.of(version));
    (words::START.of(version), format!("{stop}; {reset}"))
}
