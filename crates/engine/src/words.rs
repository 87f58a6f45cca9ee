//! What replication and the binary log are asked for with, by release.
//!
//! MySQL renamed its statements twice. `SLAVE` and `CHANGE MASTER` became `REPLICA` and `CHANGE
//! REPLICATION SOURCE` in 8.0.22 and 8.0.23, the rest of `MASTER` became `BINARY LOG` in 8.2, and 8.4 takes
//! the old words no more (manual of 8.4, 1.4 «What Is New in MySQL 8.4 since MySQL 8.0»). MariaDB takes the
//! old words in every release.

use farm::Engine;

use crate::link::{Login, quoted};
use crate::version::Version;

/// The statements of one release. The sections are those of MySQL's manual.
pub(crate) struct Words {
    /// 15.7.7.36 SHOW REPLICA STATUS.
    pub(crate) show_status: &'static str,
    /// 15.4.2.5 STOP REPLICA.
    pub(crate) stop: &'static str,
    pub(crate) stop_io: &'static str,
    /// 15.4.2.4 START REPLICA.
    pub(crate) start: &'static str,
    /// 15.4.2.3 RESET REPLICA.
    pub(crate) reset: &'static str,
    /// 15.7.7.34 SHOW REPLICAS: who is registered as following this server.
    pub(crate) show_followers: &'static str,
    /// 15.7.7.1 SHOW BINARY LOG STATUS.
    pub(crate) show_log: &'static str,
    /// Empties the log and forgets all GTIDs: 15.4.1.2 RESET BINARY LOGS AND GTIDS.
    pub(crate) reset_log: &'static str,
}

/// A receiver that acknowledges connects to its primary once more when it is stopped, to end its own
/// thread there, and waits for that as long as `rpl_semi_sync_slave_kill_conn_timeout` (5 s) when the
/// primary is stopped, too. One that does not acknowledge any more does not.
const MARIADB_STOP_IO: &str = "SET GLOBAL rpl_semi_sync_slave_enabled=0; STOP SLAVE IO_THREAD; \
                               SET GLOBAL rpl_semi_sync_slave_enabled=1";

const MARIADB: Words = Words {
    stop_io: MARIADB_STOP_IO,
    reset_log: "RESET MASTER; SET GLOBAL gtid_slave_pos=''",
    ..MYSQL_OLD
};

const MYSQL_OLD: Words = Words {
    show_status: "SHOW SLAVE STATUS",
    stop: "STOP SLAVE",
    stop_io: "STOP SLAVE IO_THREAD",
    start: "START SLAVE",
    reset: "RESET SLAVE ALL",
    show_followers: "SHOW SLAVE HOSTS",
    show_log: "SHOW MASTER STATUS",
    reset_log: "RESET MASTER",
};

const MYSQL_8_0_23: Words = Words {
    show_status: "SHOW REPLICA STATUS",
    stop: "STOP REPLICA",
    stop_io: "STOP REPLICA IO_THREAD",
    start: "START REPLICA",
    reset: "RESET REPLICA ALL",
    show_followers: "SHOW REPLICAS",
    ..MYSQL_OLD
};

const MYSQL_8_2: Words = Words {
    show_log: "SHOW BINARY LOG STATUS",
    reset_log: "RESET BINARY LOGS AND GTIDS",
    ..MYSQL_8_0_23
};

pub(crate) fn words(version: &Version) -> Words {
    match (version.engine, version.number) {
        (Engine::MariaDb, _) => MARIADB,
        (Engine::MySql, 80_200..) => MYSQL_8_2,
        (Engine::MySql, 80_023..) => MYSQL_8_0_23,
        (Engine::MySql, _) => MYSQL_OLD,
    }
}

/// The statement that names a primary, reached within a second of its return and noticed when it
/// is silent for seconds.
pub(crate) fn change_primary(version: &Version, primary: &Login) -> String {
    let host = quoted(&primary.host);
    let port = primary.port;
    let user = quoted(&primary.user);
    let password = quoted(&primary.password);
    match version.engine {
        Engine::MariaDb => {
            // From 11.4 a replica verifies the primary's certificate, for which it needs a password.
            let tls = if primary.password.is_empty() {
                ", MASTER_SSL=0"
            } else {
                ""
            };
            format!(
                "CHANGE MASTER TO MASTER_HOST={host}, MASTER_PORT={port}, MASTER_USER={user}, \
                 MASTER_PASSWORD={password}, MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1, \
                 MASTER_HEARTBEAT_PERIOD=2{tls}"
            )
        }
        Engine::MySql => {
            let (verb, prefix) = if version.number >= 80_023 {
                ("CHANGE REPLICATION SOURCE TO", "SOURCE")
            } else {
                ("CHANGE MASTER TO", "MASTER")
            };
            // Without TLS, caching_sha2_password asks the primary for its key.
            format!(
                "{verb} {prefix}_HOST={host}, {prefix}_PORT={port}, {prefix}_USER={user}, \
                 {prefix}_PASSWORD={password}, {prefix}_AUTO_POSITION=1, \
                 {prefix}_CONNECT_RETRY=1, {prefix}_HEARTBEAT_PERIOD=2, GET_{prefix}_PUBLIC_KEY=1"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::parse(text).expect("a version")
    }

    fn primary(password: &str) -> Login {
        Login {
            host: "10.0.0.1".to_owned(),
            port: 3306,
            user: "repl".to_owned(),
            password: password.to_owned(),
            tls: crate::LinkTls::Off,
            known: crate::Known::Nothing,
        }
    }

    #[test]
    fn statements_of_each_version() {
        let mariadb = change_primary(&version("11.4.5-MariaDB"), &primary(""));
        assert!(mariadb.starts_with("CHANGE MASTER TO MASTER_HOST='10.0.0.1', MASTER_PORT=3306"));
        assert!(mariadb.contains("MASTER_USE_GTID=slave_pos"));
        assert!(mariadb.ends_with("MASTER_SSL=0"));
        let secured = change_primary(&version("11.4.5-MariaDB"), &primary("it's"));
        assert!(secured.contains(r"MASTER_PASSWORD='it\'s'") && !secured.contains("MASTER_SSL"));

        let old = change_primary(&version("8.0.12"), &primary("x"));
        assert!(old.contains("MASTER_AUTO_POSITION=1") && old.contains("GET_MASTER_PUBLIC_KEY=1"));
        let new = change_primary(&version("8.4.0"), &primary("x"));
        assert!(new.starts_with("CHANGE REPLICATION SOURCE TO SOURCE_HOST="));
        assert!(!new.contains("MASTER"));
        assert_eq!(words(&version("8.4.0")).show_status, "SHOW REPLICA STATUS");
        assert_eq!(
            words(&version("11.4.5-MariaDB")).show_status,
            "SHOW SLAVE STATUS"
        );
    }

    #[test]
    fn no_release_hears_words_that_it_does_not_take() {
        for (release, taken) in [
            (
                "5.7.44",
                ["SHOW SLAVE STATUS", "SHOW MASTER STATUS", "RESET MASTER"],
            ),
            (
                "8.0.22",
                ["SHOW SLAVE STATUS", "SHOW MASTER STATUS", "RESET MASTER"],
            ),
            (
                "8.0.45",
                ["SHOW REPLICA STATUS", "SHOW MASTER STATUS", "RESET MASTER"],
            ),
            (
                "8.4.6",
                [
                    "SHOW REPLICA STATUS",
                    "SHOW BINARY LOG STATUS",
                    "RESET BINARY LOGS AND GTIDS",
                ],
            ),
            (
                "9.4.0",
                [
                    "SHOW REPLICA STATUS",
                    "SHOW BINARY LOG STATUS",
                    "RESET BINARY LOGS AND GTIDS",
                ],
            ),
        ] {
            let words = words(&version(release));
            assert_eq!(
                [words.show_status, words.show_log, words.reset_log],
                taken,
                "{release}"
            );
        }
    }
}
