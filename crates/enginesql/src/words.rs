//! What replication, the binary log and positions are asked for with, by engine and release: one table.
//!
//! MySQL renamed its statements twice. `SLAVE` and `CHANGE MASTER` became `REPLICA` and `CHANGE
//! REPLICATION SOURCE` in 8.0.22 and 8.0.23, the rest of `MASTER` became `BINARY LOG` in 8.2, and 8.4 takes
//! the old words no more (manual of 8.4, 1.4 «What Is New in MySQL 8.4 since MySQL 8.0»). Its variables
//! followed in 8.0.26. MariaDB takes the old words in every release.

use farm::Engine;

use crate::literal::quoted;
use crate::version::Version;

/// A text and the release from which on it is the one to say, as [`Version::number`].
type Since = (u32, &'static str);

/// One row: how one thing is said.
pub struct Word {
    /// Its name in the table.
    pub name: &'static str,
    /// Where the manuals of both engines have it: a page of MariaDB's, a section of the manual of MySQL 8.4.
    pub manual: [&'static str; 2],
    mariadb: &'static [Since],
    mysql: &'static [Since],
}

impl Word {
    /// As a server of this version takes it.
    pub fn of(&self, version: &Version) -> &'static str {
        self.at(version.engine, version.number)
    }

    /// As every release of an engine takes it. For those that no release changed.
    pub fn of_engine(&self, engine: Engine) -> &'static str {
        self.at(engine, u32::MAX)
    }

    fn at(&self, engine: Engine, number: u32) -> &'static str {
        let texts = match engine {
            Engine::MariaDb => self.mariadb,
            Engine::MySql => self.mysql,
        };
        let taken = texts.iter().rev().find(|(since, _)| *since <= number);
        // Each row begins with release 0.
        taken.map_or("", |(_, text)| text)
    }
}

/// Makes a constant of each row, and the list of all rows.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident:
        mariadb $mariadb:tt in $page:literal, mysql $mysql:tt in $section:literal;)*) => {
        $($(#[$doc])* pub const $name: Word = Word {
            name: stringify!($name),
            manual: [$page, $section],
            mariadb: &$mariadb,
            mysql: &$mysql,
        };)*

        /// The table.
        pub const TABLE: &[&Word] = &[$(&$name),*];
    };
}

words! {
    /// A replica's own word on its replication.
    SHOW_STATUS:
        mariadb [(0, "SHOW SLAVE STATUS")] in "SHOW REPLICA STATUS",
        mysql [(0, "SHOW SLAVE STATUS"), (80_023, "SHOW REPLICA STATUS")]
            in "15.7.7.36 SHOW REPLICA STATUS";
    /// Who is registered as following this server.
    SHOW_FOLLOWERS:
        mariadb [(0, "SHOW SLAVE HOSTS")] in "SHOW REPLICA HOSTS",
        mysql [(0, "SHOW SLAVE HOSTS"), (80_023, "SHOW REPLICAS")] in "15.7.7.34 SHOW REPLICAS";
    STOP:
        mariadb [(0, "STOP SLAVE")] in "STOP REPLICA",
        mysql [(0, "STOP SLAVE"), (80_023, "STOP REPLICA")] in "15.4.2.5 STOP REPLICA";
    /// Receives no more. On MariaDB a receiver that acknowledges connects to its primary once more when it is
    /// stopped, to end its own thread there, and waits for that as long as
    /// `rpl_semi_sync_slave_kill_conn_timeout` (5 s) when the primary is stopped, too. One that does not
    /// acknowledge any more does not.
    STOP_RECEIVER:
        mariadb [(0, "SET GLOBAL rpl_semi_sync_slave_enabled=0; STOP SLAVE IO_THREAD; \
                      SET GLOBAL rpl_semi_sync_slave_enabled=1")] in "STOP REPLICA",
        mysql [(0, "STOP SLAVE IO_THREAD"), (80_023, "STOP REPLICA IO_THREAD")]
            in "15.4.2.5 STOP REPLICA";
    START:
        mariadb [(0, "START SLAVE")] in "START REPLICA",
        mysql [(0, "START SLAVE"), (80_023, "START REPLICA")] in "15.4.2.4 START REPLICA";
    /// Forgets whom it followed.
    RESET:
        mariadb [(0, "RESET SLAVE ALL")] in "RESET REPLICA",
        mysql [(0, "RESET SLAVE ALL"), (80_023, "RESET REPLICA ALL")] in "15.4.2.3 RESET REPLICA";
    /// Names a primary.
    CHANGE:
        mariadb [(0, "CHANGE MASTER TO")] in "CHANGE MASTER TO",
        mysql [(0, "CHANGE MASTER TO"), (80_023, "CHANGE REPLICATION SOURCE TO")]
            in "15.4.2.2 CHANGE REPLICATION SOURCE TO";
    /// What its options begin with.
    CHANGE_PREFIX:
        mariadb [(0, "MASTER")] in "CHANGE MASTER TO",
        mysql [(0, "MASTER"), (80_023, "SOURCE")] in "15.4.2.2 CHANGE REPLICATION SOURCE TO";
    /// Where the binary log ends.
    SHOW_LOG:
        mariadb [(0, "SHOW MASTER STATUS")] in "SHOW BINLOG STATUS",
        mysql [(0, "SHOW MASTER STATUS"), (80_200, "SHOW BINARY LOG STATUS")]
            in "15.7.7.1 SHOW BINARY LOG STATUS";
    /// Empties the log and forgets all GTIDs.
    RESET_LOG:
        mariadb [(0, "RESET MASTER; SET GLOBAL gtid_slave_pos=''")] in "RESET MASTER",
        mysql [(0, "RESET MASTER"), (80_200, "RESET BINARY LOGS AND GTIDS")]
            in "15.4.1.2 RESET BINARY LOGS AND GTIDS";
    /// What a server has executed, as an expression.
    EXECUTED:
        mariadb [(0, "@@global.gtid_current_pos")] in "Global Transaction ID",
        mysql [(0, "@@global.gtid_executed")] in "19.1.6.5 Global Transaction ID System Variables";
    /// The function by which a replica waits for a position; 0 when it came.
    WAIT_FOR_POSITION:
        mariadb [(0, "MASTER_GTID_WAIT")] in "MASTER_GTID_WAIT",
        mysql [(0, "WAIT_FOR_EXECUTED_GTID_SET")]
            in "14.18.2 Functions Used with Global Transaction Identifiers (GTIDs)";
    /// The variable that has the statements of changed rows logged.
    KEEP_STATEMENTS:
        mariadb [(0, "binlog_annotate_row_events")] in "Replication and Binary Log System Variables",
        mysql [(0, "binlog_rows_query_log_events")] in "19.1.6.4 Binary Logging Options and Variables";
    /// The variable that keeps everybody from writing whom the engine can keep from it: on MySQL `read_only`
    /// alone lets accounts with SUPER write.
    READ_ONLY:
        mariadb [(0, "read_only")] in "Server System Variables",
        mysql [(0, "super_read_only")] in "7.1.8 Server System Variables";
    /// The variable with what a server runs when its applier starts.
    INIT_APPLIER:
        mariadb [(0, "init_slave")] in "Replication and Binary Log System Variables",
        mysql [(0, "init_slave"), (80_026, "init_replica")]
            in "19.1.6.3 Replica Server Options and Variables";
    /// Before a GRANT that must not make an account. Without the mode MariaDB makes one that is missing.
    GRANT_TO_EXISTING:
        mariadb [(0, "SET STATEMENT sql_mode='NO_AUTO_CREATE_USER' FOR ")] in "SET STATEMENT",
        mysql [(0, "")] in "15.7.1.6 GRANT Statement";
}

/// A primary as a replica is told of it.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    pub host: &'a str,
    pub port: u16,
    pub user: &'a str,
    pub password: &'a str,
}

/// The statement that names a primary, reached within a second of its return and noticed when it
/// is silent for seconds.
pub fn change_primary(version: &Version, primary: Source) -> String {
    let (verb, prefix) = (CHANGE.of(version), CHANGE_PREFIX.of(version));
    let (host, port) = (quoted(primary.host), primary.port);
    let (user, password) = (quoted(primary.user), quoted(primary.password));
    let follow = match version.engine {
        Engine::MariaDb => "MASTER_USE_GTID=slave_pos".to_owned(),
        Engine::MySql => format!("{prefix}_AUTO_POSITION=1"),
    };
    let secure = match version.engine {
        // From 11.4 a replica verifies the primary's certificate, for which it needs a password.
        Engine::MariaDb if primary.password.is_empty() => ", MASTER_SSL=0".to_owned(),
        Engine::MariaDb => String::new(),
        // Without TLS, caching_sha2_password asks the primary for its key.
        Engine::MySql => format!(", GET_{prefix}_PUBLIC_KEY=1"),
    };
    format!(
        "{verb} {prefix}_HOST={host}, {prefix}_PORT={port}, {prefix}_USER={user}, \
         {prefix}_PASSWORD={password}, {follow}, {prefix}_CONNECT_RETRY=1, \
         {prefix}_HEARTBEAT_PERIOD=2{secure}"
    )
}

/// Which of the two names semi-sync's variables have on MySQL, by the plugin that a server has: of these
/// variables, those that it lists tell. MariaDB has the old names only (manual of MySQL 8.4, 19.4.10
/// «Semisynchronous Replication»).
pub fn semi_sync_variables(old: &str, new: &str) -> String {
    format!(
        "SHOW GLOBAL VARIABLES WHERE Variable_name IN \
         ('rpl_semi_sync_{old}_enabled','rpl_semi_sync_{new}_enabled')"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_begin_with_the_first_release_and_go_up() {
        for word in TABLE {
            for texts in [word.mariadb, word.mysql] {
                assert_eq!(texts[0].0, 0, "{}", word.name);
                assert!(texts.is_sorted_by(|a, b| a.0 < b.0), "{}", word.name);
            }
            assert!(word.manual.iter().all(|it| !it.is_empty()), "{}", word.name);
        }
    }

    /// The data plane asks by the engine alone.
    #[test]
    fn no_release_changed_what_is_asked_by_engine() {
        for word in [EXECUTED, WAIT_FOR_POSITION, GRANT_TO_EXISTING] {
            assert_eq!(
                (word.mariadb.len(), word.mysql.len()),
                (1, 1),
                "{}",
                word.name
            );
        }
    }
}
