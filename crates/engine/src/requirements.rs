//! The server settings that a farm needs, each with its reason.

use enginesql::Version;
use enginesql::words;
use farm::Engine;

use crate::error::Error;
use crate::link::{Link, text, text_at};

/// One server variable and what it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirement {
    pub variable: &'static str,
    /// The accepted values; the first is the one to set.
    pub wanted: &'static [&'static str],
    /// What breaks otherwise.
    pub reason: &'static str,
    /// True when `SET GLOBAL` can mend it; otherwise the server's configuration and a restart.
    pub at_run_time: bool,
    /// True when a farm refuses the server without it.
    pub essential: bool,
}

/// A requirement that a server does not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    pub requirement: Requirement,
    /// The value found; `None` when the server has no such variable.
    pub found: Option<String>,
}

impl Missing {
    /// What to write into the server's configuration.
    pub fn cure(&self) -> String {
        let Requirement {
            variable,
            wanted,
            at_run_time,
            ..
        } = self.requirement;
        let value = wanted.first().copied().unwrap_or_default();
        if at_run_time {
            format!(
                "SET GLOBAL {variable} = {value}, and {variable} = {value} in its configuration"
            )
        } else {
            format!("set {variable} = {value} in its configuration and restart it")
        }
    }
}

const fn essential(variable: &'static str, reason: &'static str) -> Requirement {
    Requirement {
        variable,
        wanted: &["ON", "1"],
        reason,
        at_run_time: false,
        essential: true,
    }
}

const fn advised(
    variable: &'static str,
    wanted: &'static [&'static str],
    at_run_time: bool,
    reason: &'static str,
) -> Requirement {
    Requirement {
        variable,
        wanted,
        reason,
        at_run_time,
        essential: false,
    }
}

const BOTH: &[Requirement] = &[
    essential(
        "log_bin",
        "without a binary log nothing can replicate from the server",
    ),
    essential(
        "log_slave_updates",
        "a replica that is promoted must be able to hand on what it received",
    ),
    advised(
        "binlog_format",
        &["ROW"],
        true,
        "statements can have other effects on a replica",
    ),
    advised(
        "sync_binlog",
        &["1"],
        true,
        "a crash of the machine would lose acknowledged commits",
    ),
    advised(
        "innodb_flush_log_at_trx_commit",
        &["1"],
        true,
        "a crash of the machine would lose acknowledged commits",
    ),
    advised(
        "binlog_row_image",
        &["FULL"],
        true,
        "saved transactions and changed rows are to be read without the table",
    ),
    advised(
        "relay_log_recovery",
        &["ON", "1"],
        false,
        "a replica that crashed could read a torn relay log",
    ),
];

const MARIADB: &[Requirement] = &[
    advised(
        "gtid_strict_mode",
        &["ON", "1"],
        true,
        "a diverged replica must stop instead of going on in silence",
    ),
    advised(
        "rpl_semi_sync_master_wait_point",
        &["AFTER_SYNC"],
        true,
        "otherwise other sessions see rows that a failover may take back",
    ),
    advised(
        "rpl_semi_sync_slave_enabled",
        &["ON", "1"],
        true,
        "a replica that does not acknowledge protects no commit",
    ),
    advised(
        "binlog_annotate_row_events",
        &["ON", "1"],
        true,
        "a COMMIT whose answer was lost is found by its statement's comment",
    ),
    advised(
        "replicate_annotate_row_events",
        &["ON", "1"],
        false,
        "a promoted replica must know the comments of what it received",
    ),
];

const MYSQL: &[Requirement] = &[
    essential("gtid_mode", "replicas find their place by GTID"),
    essential(
        "enforce_gtid_consistency",
        "statements without a GTID would break replicas",
    ),
    advised(
        "binlog_rows_query_log_events",
        &["ON", "1"],
        true,
        "a COMMIT whose answer was lost is found by its statement's comment",
    ),
];

/// `init_rpl_role` exists since MariaDB 10.11 (10.6 and 10.5 have it in late patch versions).
const MARIADB_ROLE: Requirement = advised(
    "init_rpl_role",
    &["SLAVE"],
    false,
    "a primary that crashed must undo what no replica acknowledged, or it cannot rejoin",
);

/// Every variable that a server of this version must have, with the reasons, the essential first.
pub fn replication_settings(version: &Version) -> Vec<Requirement> {
    let mut all: Vec<Requirement> = BOTH.to_vec();
    match version.engine {
        Engine::MariaDb => {
            all.extend_from_slice(MARIADB);
            if version.number >= 101_100 {
                all.push(MARIADB_ROLE);
            }
        }
        Engine::MySql => all.extend_from_slice(MYSQL),
    }
    all.sort_by_key(|requirement| !requirement.essential);
    all
}

/// Which requirements a server does not meet.
pub async fn missing(link: &mut Link, timeout_ms: u64) -> Result<Vec<Missing>, Error> {
    let requirements = replication_settings(link.version());
    let names: Vec<String> = requirements
        .iter()
        .map(|requirement| format!("'{}'", requirement.variable))
        .collect();
    let sql = format!(
        "SHOW GLOBAL VARIABLES WHERE Variable_name IN ({})",
        names.join(",")
    );
    let rows = link.rows("read its settings", &sql, timeout_ms).await?;
    let found: Vec<(String, String)> = rows
        .iter()
        .filter_map(|row| Some((text_at(row, 0)?.to_ascii_lowercase(), text_at(row, 1)?)))
        .collect();
    Ok(unmet(&requirements, &found))
}

/// Advice for a server that applies transactions in several threads and has tables without a primary key;
/// `None` where rows are read alike on all servers.
///
/// InnoDB reads such a table in the order of its hidden row ids. Each server hands these out by itself, as
/// rows come, and parallel threads let them come in another order than on the primary.
///
/// # Errors
/// The server does not answer.
pub async fn unordered_tables(link: &mut Link, timeout_ms: u64) -> Result<Option<String>, Error> {
    let operation = "look for tables without a primary key";
    let rows = link.rows(operation, PARALLEL, timeout_ms).await?;
    let parallel = rows.iter().find_map(|row| {
        let threads: u32 = text_at(row, 1)?.parse().ok()?;
        // MySQL counts a single worker as one, MariaDB counts threads beside the one.
        (threads > u32::from(link.version().engine == Engine::MySql)).then(|| text_at(row, 0))?
    });
    let Some(variable) = parallel else {
        return Ok(None);
    };
    let keyless = format!("{KEYLESS} LIMIT {NAMED_MAX}");
    let rows = link.rows(operation, &keyless, timeout_ms).await?;
    let mut names: Vec<String> = rows.iter().filter_map(|row| text_at(row, 0)).collect();
    if names.is_empty() {
        return Ok(None);
    }
    if names.len() == NAMED_MAX {
        names[NAMED_MAX - 1] = "…".to_owned();
    }
    Ok(Some(format!(
        "give {} a primary key, or set {variable} = 0 (without ORDER BY, replicas that apply in parallel \
         give the rows of such tables in another order than the primary)",
        names.join(", ")
    )))
}

/// Tables that [`unordered_tables`] names, and the sign that there are more.
const NAMED_MAX: usize = 6;

const PARALLEL: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN \
     ('slave_parallel_threads','slave_parallel_workers','replica_parallel_workers')";

const KEYLESS: &str = "SELECT CONCAT(TABLE_SCHEMA,'.',TABLE_NAME) FROM information_schema.TABLES WHERE \
     TABLE_TYPE='BASE TABLE' AND TABLE_SCHEMA NOT IN \
     ('mysql','information_schema','performance_schema','sys','heddle') AND (TABLE_SCHEMA,TABLE_NAME) NOT IN \
     (SELECT TABLE_SCHEMA,TABLE_NAME FROM information_schema.STATISTICS WHERE INDEX_NAME='PRIMARY') \
     ORDER BY 1";

/// The databases of `binlog_do_db` and `binlog_ignore_db`.
pub(crate) async fn binlog_filters(
    link: &mut Link,
    operation: &'static str,
    timeout_ms: u64,
) -> Result<[Vec<String>; 2], Error> {
    let sql = words::SHOW_LOG.of(link.version());
    let rows = link.rows(operation, sql, timeout_ms).await?;
    let listed = |name| {
        let list = rows.first().and_then(|row| text(row, name));
        let names = list.unwrap_or_default();
        let names = names.split(',').filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    };
    Ok(["Binlog_Do_DB", "Binlog_Ignore_DB"].map(listed))
}

fn unmet(requirements: &[Requirement], found: &[(String, String)]) -> Vec<Missing> {
    let value_of = |name: &str| {
        found
            .iter()
            .find(|(variable, _)| variable == name)
            .map(|(_, value)| value.clone())
    };
    requirements
        .iter()
        .filter_map(|&requirement| {
            let value = value_of(requirement.variable);
            let fits = value.as_ref().is_some_and(|value| {
                requirement
                    .wanted
                    .iter()
                    .any(|wanted| wanted.eq_ignore_ascii_case(value))
            });
            (!fits).then_some(Missing {
                requirement,
                found: value,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn essential_settings_come_first_and_depend_on_the_engine() {
        let of = |text| replication_settings(&Version::parse(text).expect("a version"));
        let mysql = of("8.0.36");
        assert!(
            mysql
                .iter()
                .any(|r| r.variable == "gtid_mode" && r.essential)
        );
        assert!(!mysql.iter().any(|r| r.variable == "gtid_strict_mode"));
        let mariadb = of("10.11.19-MariaDB");
        assert!(mariadb.iter().any(|r| r.variable == "init_rpl_role"));
        assert!(
            !of("10.5.20-MariaDB")
                .iter()
                .any(|r| r.variable == "init_rpl_role")
        );
        let last_essential = mariadb.iter().rposition(|r| r.essential);
        let first_advised = mariadb.iter().position(|r| !r.essential);
        assert!(last_essential < first_advised);
    }

    #[test]
    fn what_is_missing_is_named_with_the_cure() {
        let requirements = [
            essential("log_bin", "r"),
            advised("sync_binlog", &["1"], true, "r"),
        ];
        let found = vec![("log_bin".to_owned(), "OFF".to_owned())];
        let missing = unmet(&requirements, &found);
        assert_eq!(missing.len(), 2);
        assert_eq!(missing[0].found.as_deref(), Some("OFF"));
        assert_eq!(
            missing[0].cure(),
            "set log_bin = ON in its configuration and restart it"
        );
        assert!(missing[1].cure().starts_with("SET GLOBAL sync_binlog = 1"));
        let found = vec![
            ("log_bin".to_owned(), "on".to_owned()),
            ("sync_binlog".to_owned(), "1".to_owned()),
        ];
        assert!(unmet(&requirements, &found).is_empty());
    }
}
