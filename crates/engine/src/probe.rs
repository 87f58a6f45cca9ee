//! What a probe asks of a server, in one round trip.

use enginesql::words;
use farm::Engine;
use mysql_async::Row;

use crate::error::Error;
use crate::link::{Link, text, text_at};

/// How a replication thread fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thread {
    Running,
    /// Tries to reach the primary.
    Connecting,
    Stopped,
}

/// A server's own word on whom it follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    pub primary_host: String,
    pub primary_port: u16,
    /// Follows by GTID, not by file and offset.
    pub by_gtid: bool,
    pub io: Thread,
    pub sql: Thread,
    /// The last errors, if there are any.
    pub io_error: Option<ThreadError>,
    pub sql_error: Option<ThreadError>,
    /// The GTID position (MariaDB) or set (MySQL) that the relay log holds.
    pub received: String,
}

/// The last error of a thread that replicates, by the server's number for it. What it means is judged by the
/// number alone: the text quotes addresses and users' data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadError {
    pub number: u32,
    pub text: String,
}

impl ThreadError {
    /// The primary's binary logs do not lead on from where the server is: 1236
    /// (ER_MASTER_FATAL_ERROR_READING_BINLOG), which MySQL 8.0 calls 13114
    /// (ER_SERVER_SOURCE_FATAL_ERROR_READING_BINLOG).
    pub fn log_is_gone(&self) -> bool {
        matches!(self.number, 1236 | 13114)
    }

    /// The server's own log has what it should receive: MariaDB's 1950 (ER_GTID_STRICT_OUT_OF_ORDER).
    pub fn is_out_of_order(&self) -> bool {
        self.number == 1950
    }

    /// There is no prepared branch of the name that is to be ended: 1397 (ER_XAER_NOTA).
    pub fn branch_is_unknown(&self) -> bool {
        self.number == 1397
    }
}

/// Semi-sync on the side of a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acks {
    /// Commits are meant to wait for a replica.
    pub enabled: bool,
    /// They do: the server did not fall back to answering alone.
    pub active: bool,
    /// Replicas that can acknowledge.
    pub replicas: u64,
}

/// What one probe learnt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// `@@version`.
    pub version: String,
    /// MySQL's `@@server_uuid`; MariaDB has none.
    pub uuid: Option<String>,
    pub server_id: u64,
    pub read_only: bool,
    /// `@@global.sql_mode`: what sessions begin with, and by which their texts are read.
    pub sql_mode: String,
    /// `@@global.init_connect` gives sessions another one.
    pub logins_set_mode: bool,
    /// The executed position, in the engine's notation.
    pub gtid: String,
    /// `None` when no replication is configured.
    pub replica: Option<Replica>,
    /// `None` when the server has no semi-sync, or was not asked.
    pub acks: Option<Acks>,
}

/// Asks a server how it is. With `acks`, also for semi-sync as a primary sees it, which costs the
/// server 0.2 ms more. After an error the link must be dropped.
pub async fn probe(link: &mut Link, acks: bool, timeout_ms: u64) -> Result<Observation, Error> {
    const OPERATION: &str = "probe";
    let version = link.version().clone();
    let mut sql = String::from(match version.engine {
        Engine::MariaDb => {
            "SELECT @@version, @@server_id, @@read_only, @@gtid_current_pos, NULL, @@global.sql_mode, \
             @@global.init_connect LIKE '%sql_mode%'"
        }
        Engine::MySql => {
            "SELECT @@version, @@server_id, @@read_only, @@global.gtid_executed, @@server_uuid, \
             @@global.sql_mode, @@global.init_connect LIKE '%sql_mode%'"
        }
    });
    sql.push_str("; ");
    sql.push_str(words::SHOW_STATUS.of(&version));
    if acks {
        sql.push_str("; SHOW GLOBAL STATUS WHERE Variable_name LIKE 'Rpl\\_semi\\_sync\\_%'");
        sql.push_str("; SHOW GLOBAL VARIABLES WHERE Variable_name LIKE 'rpl\\_semi\\_sync\\_%'");
    }
    let sets = link.sets(OPERATION, &sql, timeout_ms).await?;
    let odd = |what: &str| Error::Reply {
        operation: OPERATION,
        server: link.address().to_owned(),
        what: what.to_owned(),
    };
    let basics = sets
        .first()
        .and_then(|rows| rows.first())
        .ok_or_else(|| odd("no row"))?;
    let cell = |index| text_at(basics, index);
    let server_id = cell(1)
        .and_then(|id| id.parse().ok())
        .ok_or_else(|| odd("no server_id"))?;
    Ok(Observation {
        version: cell(0).ok_or_else(|| odd("no version"))?,
        uuid: cell(4),
        server_id,
        read_only: cell(2).is_none_or(|value| is_on(&value)),
        sql_mode: cell(5).unwrap_or_default(),
        logins_set_mode: cell(6).is_some_and(|value| is_on(&value)),
        // MySQL breaks long sets into lines.
        gtid: cell(3).unwrap_or_default().replace('\n', ""),
        replica: sets.get(1).and_then(|rows| rows.first()).map(replica),
        acks: acks_of(
            sets.get(2).map_or(&[], Vec::as_slice),
            sets.get(3).map_or(&[], Vec::as_slice),
        ),
    })
}

/// A switch that servers show as 0/1, OFF/ON, or (`read_only` from MariaDB 12 on) as one of several words.
pub(crate) fn is_on(value: &str) -> bool {
    !matches!(value, "0" | "OFF" | "")
}

/// Reads a row of SHOW SLAVE STATUS or SHOW REPLICA STATUS.
pub(crate) fn replica(row: &Row) -> Replica {
    let either = |old: &str, new: &str| text(row, old).or_else(|| text(row, new));
    let field = |old: &str, new: &str| either(old, new).unwrap_or_default();
    let by_gtid = match text(row, "Using_Gtid") {
        Some(mariadb) => mariadb != "No",
        None => text(row, "Auto_Position").is_some_and(|value| is_on(&value)),
    };
    Replica {
        primary_host: field("Master_Host", "Source_Host"),
        primary_port: either("Master_Port", "Source_Port")
            .and_then(|port| port.parse().ok())
            .unwrap_or(0),
        by_gtid,
        io: thread(&field("Slave_IO_Running", "Replica_IO_Running")),
        sql: thread(&field("Slave_SQL_Running", "Replica_SQL_Running")),
        io_error: thread_error(row, "IO"),
        sql_error: thread_error(row, "SQL"),
        received: field("Gtid_IO_Pos", "Retrieved_Gtid_Set").replace('\n', ""),
    }
}

fn thread_error(row: &Row, thread: &str) -> Option<ThreadError> {
    let number = text(row, &format!("Last_{thread}_Errno"))?.parse().ok()?;
    let text = text(row, &format!("Last_{thread}_Error")).unwrap_or_default();
    (number != 0).then_some(ThreadError { number, text })
}

fn thread(state: &str) -> Thread {
    match state {
        "Yes" => Thread::Running,
        "Connecting" | "Preparing" => Thread::Connecting,
        _ => Thread::Stopped,
    }
}

/// The variables and counters are called `…_master_…`, since MySQL 8.0.26 also `…_source_…`.
fn acks_of(status: &[Row], variables: &[Row]) -> Option<Acks> {
    let find = |rows: &[Row], ending: &str| {
        let named = |row: &&Row| {
            text_at(row, 0).is_some_and(|name| {
                let name = name.to_ascii_lowercase();
                name == format!("rpl_semi_sync_master_{ending}")
                    || name == format!("rpl_semi_sync_source_{ending}")
            })
        };
        rows.iter().find(named).and_then(|row| text_at(row, 1))
    };
    Some(Acks {
        enabled: is_on(&find(variables, "enabled")?),
        active: find(status, "status").is_some_and(|value| is_on(&value)),
        replicas: find(status, "clients")
            .and_then(|count| count.parse().ok())
            .unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_of_all_versions() {
        assert!(is_on("1") && is_on("ON") && is_on("NO_LOCK"));
        assert!(!is_on("0") && !is_on("OFF"));
    }

    #[test]
    fn thread_states() {
        assert_eq!(thread("Yes"), Thread::Running);
        assert_eq!(thread("Connecting"), Thread::Connecting);
        assert_eq!(thread("Preparing"), Thread::Connecting);
        assert_eq!(thread("No"), Thread::Stopped);
    }
}
