//! The SQL door: what a session has set is its own, on whichever pooled connection it runs.

use std::sync::Arc;

use farm::Engine;
use testkit::client::{Login, Reply};
use testkit::door::Door;
use testkit::{Client, Release, Stage};

/// A door whose sessions all share one server connection per server.
fn narrow(stage: &Stage) -> Door {
    stage.door_with(|tuning| tuning.settings.pool.connections_max = 1)
}

/// A text by the names of this engine: MariaDB 10.11 has no `transaction_isolation`, MySQL 8.0 no `tx_isolation`.
fn named(stage: &Stage, sql: &str) -> String {
    match stage.primary.engine() {
        Engine::MariaDb => sql.to_owned(),
        Engine::MySql => (sql.replace("tx_", "transaction_"))
            .replace(
                "SET STATEMENT max_statement_time = 99 FOR SELECT",
                "SELECT /*+ SET_VAR(max_execution_time = 99) */",
            )
            .replace("max_statement_time", "max_execution_time"),
    }
}

/// What a session sees of its own settings, read on the primary.
fn settings(stage: &Stage, client: &mut Client) -> Vec<Option<String>> {
    let sql = "SELECT @@session.sql_mode, @@session.time_zone, @@session.autocommit, \
               @@session.tx_isolation, @@session.tx_read_only, @@session.character_set_client, \
               @@session.character_set_results, @@session.collation_connection, \
               @@session.max_join_size, @@session.lc_time_names, DATABASE()";
    client.rows(&named(stage, sql)).remove(0)
}

#[test]
fn settings_follow_their_session_over_a_shared_connection() {
    for stage in &Stage::of_both_engines() {
        stage.database("state_a");
        stage.database("state_b");
        let door = narrow(stage);
        let sets: [&[&str]; 6] = [
            &[],
            &["SET NAMES latin1 COLLATE latin1_german2_ci", "USE state_a"],
            &[
                "SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
                "SET time_zone = '+05:30'",
            ],
            &[
                "SET autocommit = 0",
                "SET max_join_size = 1234567",
                "USE state_b",
            ],
            &["SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY"],
            &[
                "SET lc_time_names = 'en_GB', sql_mode = DEFAULT",
                "SET character_set_results = NULL",
            ],
        ];
        let mut through: Vec<Client> = sets.iter().map(|_| door.client()).collect();
        let mut direct: Vec<Client> = sets.iter().map(|_| stage.primary.client()).collect();
        for (at, statements) in sets.iter().enumerate() {
            for sql in *statements {
                through[at].run(sql);
                direct[at].run(sql);
            }
        }
        for round in 0..3 {
            for at in 0..sets.len() {
                let at = (at * 5 + round) % sets.len();
                assert_eq!(
                    settings(stage, &mut through[at]),
                    settings(stage, &mut direct[at]),
                    "session {at}"
                );
            }
        }
        drop(through);
        assert_eq!(
            door.counter("pool_opened").max(1),
            1,
            "one connection served them all"
        );
    }
}

#[test]
fn a_read_only_session_leaves_no_trace_on_its_connection() {
    for stage in &Stage::of_both_engines() {
        stage.database("state_ro");
        stage.everywhere("CREATE TABLE state_ro.t (a INT)");
        let door = narrow(stage);
        let mut reader = door.client();
        let mut writer = door.client();
        for sql in [
            "SET SESSION TRANSACTION READ ONLY",
            "SET SESSION tx_read_only = 1",
        ] {
            reader.run(&named(stage, sql));
            writer.run("INSERT INTO state_ro.t VALUES (1)");
            assert_eq!(reader.error("INSERT INTO state_ro.t VALUES (2)"), 1792);
            reader.run("SET SESSION TRANSACTION READ WRITE");
            reader.run("INSERT INTO state_ro.t VALUES (3)");
        }
        // The replica's connection stays READ ONLY, whatever the session wants.
        let mut hopeful = door.client();
        hopeful.run("SET SESSION TRANSACTION READ WRITE");
        let who = "/*ms=slave*/ SELECT name, @@session.tx_read_only FROM stage.who";
        let row = hopeful.rows(&named(stage, who)).remove(0);
        assert_eq!(row, [Some("replica".to_owned()), Some("1".to_owned())]);
    }
}

#[test]
fn how_text_is_read_follows_sql_mode_and_charset() {
    for stage in &Stage::of_both_engines() {
        stage.database("state_text");
        stage.everywhere("CREATE TABLE state_text.t (a VARCHAR(50))");
        let door = stage.door();
        let mut client = door.client_in("state_text");
        // To a reader with the wrong mode each of these is a SELECT with a string and nothing else.
        client.run("SET sql_mode = 'NO_BACKSLASH_ESCAPES'");
        let replies = client
            .query(r"SELECT '\'; INSERT INTO t VALUES ('x') -- '")
            .expect("two");
        assert_eq!(replies.len(), 2);
        assert_eq!(client.value("SELECT COUNT(*) FROM t"), "1");
        client.run("SET sql_mode = ''");
        assert_eq!(
            client.value(r"SELECT '\'; DELETE FROM t -- '"),
            "'; DELETE FROM t -- "
        );
        assert_eq!(client.value("SELECT COUNT(*) FROM t"), "1");
        client.run("SET sql_mode = 'ANSI_QUOTES'");
        client.run(r#"INSERT INTO "t" VALUES ('y')"#);
        assert_eq!(client.value(r#"SELECT COUNT(*) FROM "t""#), "2");
        client.run("SET NAMES gbk");
        // 0xBF5C is one GBK character: the quote behind it ends the string.
        let mut sql = b"SELECT '\xbf\x5c'".to_vec();
        sql.extend_from_slice(b" ; INSERT INTO t VALUES ('z')");
        assert_eq!(client.query(&sql).expect("two").len(), 2);
        assert_eq!(client.value("SELECT COUNT(*) FROM t"), "3");
    }
}

#[test]
fn set_transaction_is_for_the_next_one_only() {
    for stage in &Stage::of_both_engines() {
        stage.database("state_next");
        stage.everywhere("CREATE TABLE state_next.t (a INT) ENGINE=InnoDB");
        let door = narrow(stage);
        let mut client = door.client();
        client.run("SET TRANSACTION READ ONLY");
        client.run("START TRANSACTION");
        assert_eq!(client.error("INSERT INTO state_next.t VALUES (1)"), 1792);
        client.run("COMMIT");
        client.run("INSERT INTO state_next.t VALUES (1)");
        assert_eq!(
            client.value(&named(stage, "SELECT @@session.tx_isolation")),
            "REPEATABLE-READ"
        );
        client.run("SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED");
        client.run("START TRANSACTION");
        client.run("INSERT INTO state_next.t VALUES (2)");
        client.run("ROLLBACK");
        let mut other = door.client();
        assert_eq!(
            other.value(&named(stage, "SELECT @@session.tx_isolation")),
            "REPEATABLE-READ"
        );
        assert_eq!(
            other.value(&named(stage, "SELECT @@session.tx_read_only")),
            "0"
        );
        assert_eq!(door.counter("pins_next_transaction"), 2);
    }
}

#[test]
fn a_failed_statement_changes_no_setting() {
    for stage in &Stage::of_both_engines() {
        stage.database("state_failed");
        let door = narrow(stage);
        let mut client = door.client_in("state_failed");
        let mut other = door.client();
        client.run("SET time_zone = '+01:00'");
        assert_eq!(client.error("SET time_zone = 'no such zone'"), 1298);
        assert_eq!(client.error("USE no_such_database"), 1049);
        assert_eq!(
            client
                .use_database("no_such_database")
                .expect_err("refused")
                .number(),
            1049
        );
        other.run("DO 1");
        assert_eq!(client.value("SELECT @@time_zone"), "+01:00");
        assert_eq!(client.value("SELECT DATABASE()"), "state_failed");
        // Half of a text that fails has happened.
        let failed = client.query("SET time_zone = '+02:00'; SELECT no_such_column");
        assert_eq!(failed.expect_err("the second fails").number(), 1054);
        other.run("DO 1");
        assert_eq!(client.value("SELECT @@time_zone"), "+02:00");
    }
}

#[test]
fn a_database_that_another_session_drops_does_not_lock_its_users_out() {
    for stage in &Stage::of_both_engines() {
        stage.database("state_dropped");
        let door = narrow(stage);
        let mut client = door.client_in("state_dropped");
        let mut other = door.client();
        assert_eq!(client.value("SELECT DATABASE()"), "state_dropped");
        other.run("DROP DATABASE state_dropped");
        other.run("DO 1");
        assert_eq!(client.value("SELECT 1 + @@autocommit"), "2");
        client.run("CREATE DATABASE state_dropped");
        client.run("USE state_dropped");
        assert_eq!(client.value("SELECT DATABASE()"), "state_dropped");
        client.run("DROP DATABASE state_dropped");
        assert_eq!(client.value("SELECT DATABASE()"), "NULL");
        assert_eq!(client.error("CREATE TABLE t (a INT)"), 1046);
        other.run("DO 1");
        assert_eq!(client.error("CREATE TABLE t (a INT)"), 1046);
    }
}

#[test]
fn what_cannot_move_pins_and_is_counted() {
    for stage in &Stage::of_both_engines() {
        stage.database("state_pins");
        stage.everywhere("CREATE TABLE state_pins.t (a INT)");
        let door = stage.door();
        let pins: [(&str, &[&str], &str, &str); 7] = [
            ("pins_user_variable", &["SET @`é` = 5"], "SELECT @`é`", "5"),
            (
                "pins_temporary_table",
                &["CREATE TEMPORARY TABLE tmp AS SELECT 7 AS a"],
                "SELECT a FROM tmp",
                "7",
            ),
            (
                "pins_user_lock",
                &["DO GET_LOCK('state_pins', 0)"],
                "SELECT IS_USED_LOCK('state_pins') = CONNECTION_ID()",
                "1",
            ),
            (
                "pins_lock_tables",
                &["LOCK TABLES t WRITE"],
                "SELECT COUNT(*) FROM t",
                "0",
            ),
            (
                "pins_text_prepare",
                &["PREPARE s FROM 'SELECT 9'"],
                "EXECUTE s",
                "9",
            ),
            (
                "pins_variable",
                &["SET timestamp = 1000000000"],
                "SELECT UNIX_TIMESTAMP()",
                "1000000000",
            ),
            ("pins_handler", &["HANDLER t OPEN AS h"], "SELECT 1", "1"),
        ];
        for (counter, make, ask, answer) in pins {
            let before = door.counter(counter);
            let mut client = door.client_in("state_pins");
            let mut others: Vec<Client> = (0..3).map(|_| door.client_in("state_pins")).collect();
            for sql in make {
                client.run(sql);
            }
            for other in &mut others {
                other.run("DO 1");
            }
            assert_eq!(client.value(ask), answer, "{counter}");
            assert_eq!(door.counter(counter), before + 1, "{counter}");
            let status = client
                .rows(&format!("HEDDLE STATUS LIKE '{counter}'"))
                .remove(0);
            assert_eq!(
                status[1].as_deref(),
                Some(door.counter(counter).to_string().as_str())
            );
        }
        door.wait_unused();
        let mut fresh = door.client_in("state_pins");
        assert_eq!(fresh.value("SELECT @`é`"), "NULL");
        assert_eq!(fresh.error("EXECUTE s"), 1243);
        assert_eq!(fresh.value("SELECT IS_FREE_LOCK('state_pins')"), "1");
    }
}

#[test]
fn unlock_tables_gives_the_connection_back() {
    for stage in &Stage::of_both_engines() {
        stage.database("state_unlock");
        stage.everywhere("CREATE TABLE state_unlock.t (a INT)");
        let door = narrow(stage);
        let mut client = door.client_in("state_unlock");
        client.run("LOCK TABLES t WRITE");
        client.run("INSERT INTO t VALUES (1)");
        client.run("UNLOCK TABLES");
        // The only connection is free again, else this would wait for it.
        assert_eq!(
            door.client_in("state_unlock")
                .value("SELECT COUNT(*) + 0 * @@autocommit FROM t"),
            "1"
        );
    }
}

#[test]
fn insert_ids_are_those_of_the_session() {
    for stage in &Stage::of_both_engines() {
        stage.database("state_ids");
        stage.everywhere("CREATE TABLE state_ids.t (id INT PRIMARY KEY AUTO_INCREMENT, s INT)");
        let door = stage.door_with(|tuning| tuning.settings.pool.connections_max = 2);
        let mut clients: Vec<Client> = (0..6).map(|_| door.client_in("state_ids")).collect();
        let mut last = vec![0u64; clients.len()];
        for round in 0..12 {
            for at in 0..clients.len() {
                let at = (at * 5 + round) % clients.len();
                if !(round + at).is_multiple_of(3) {
                    last[at] = clients[at]
                        .run("INSERT INTO t (s) VALUES (1), (2)")
                        .last_insert_id;
                }
                let other = (at + round) % clients.len();
                let said = clients[other].value("SELECT LAST_INSERT_ID()");
                assert_eq!(
                    said,
                    last[other].to_string(),
                    "round {round} of session {other}"
                );
            }
        }
        // An id that the client chose is no LAST_INSERT_ID(), although the OK reports it.
        let done = clients[0].run("INSERT INTO t VALUES (1000000, 0)");
        assert_eq!(done.last_insert_id, 1_000_000);
        assert_eq!(
            clients[0].value("SELECT LAST_INSERT_ID()"),
            last[0].to_string()
        );
        let mut fresh = door.client_in("state_ids");
        fresh.run("INSERT INTO t VALUES (1000001, 0)");
        assert_eq!(fresh.value("SELECT LAST_INSERT_ID()"), "0");
        fresh.run("UPDATE t SET s = LAST_INSERT_ID(77) WHERE id = 1000001");
        clients[1].run("INSERT INTO t (s) VALUES (1)");
        assert_eq!(fresh.value("SELECT @@identity"), "77");
    }
}

#[test]
fn insert_ids_survive_procedures_and_assignments() {
    for stage in &Stage::of_both_engines() {
        stage.database("state_proc");
        stage.everywhere("CREATE TABLE state_proc.t (id INT PRIMARY KEY AUTO_INCREMENT, s INT)");
        stage.everywhere("CREATE PROCEDURE state_proc.p() INSERT INTO t (s) VALUES (1)");
        let door = narrow(stage);
        let mut other = door.client_in("state_proc");
        other.run("INSERT INTO t VALUES (500, 1)");
        let mut client = door.client_in("state_proc");
        assert_eq!(client.value("SELECT LAST_INSERT_ID(41) + 1"), "42");
        other.run("INSERT INTO t (s) VALUES (1)");
        assert_eq!(client.value("SELECT LAST_INSERT_ID()"), "41");
        client.run("SET last_insert_id = 43");
        other.run("INSERT INTO t (s) VALUES (1)");
        assert_eq!(client.value("SELECT LAST_INSERT_ID()"), "43");
        client.run("CALL p()");
        let newest = client.value("SELECT MAX(id) FROM t");
        assert_eq!(client.value("SELECT LAST_INSERT_ID()"), newest);
    }
}

#[test]
fn diagnostics_are_those_of_the_last_statement() {
    for stage in &Stage::of_both_engines() {
        stage.database("state_diag");
        stage.everywhere("CREATE TABLE state_diag.t (a TINYINT)");
        stage.everywhere("INSERT INTO state_diag.t VALUES (1), (2), (3)");
        let door = stage.door();
        let mut client = door.client_in("state_diag");
        let mut other = door.client_in("state_diag");
        client.run("SET sql_mode = ''");
        assert_eq!(client.run("INSERT INTO t VALUES (1000)").warnings, 1);
        other.run("DO 1");
        let warnings = client.rows("SHOW WARNINGS");
        assert_eq!(
            (warnings.len(), warnings[0][1].as_deref()),
            (1, Some("1264"))
        );
        assert_eq!(client.error("SELECT no_such_column FROM t"), 1054);
        other.run("DO 1");
        assert_eq!(client.rows("SHOW ERRORS")[0][1].as_deref(), Some("1054"));
        client.run("UPDATE t SET a = a + 1 WHERE a < 3");
        other.run("UPDATE t SET a = a WHERE a = 99");
        assert_eq!(client.value("SELECT ROW_COUNT()"), "2");
        client
            .query("SELECT SQL_CALC_FOUND_ROWS a FROM t LIMIT 1")
            .expect("a row");
        other.run("DO 1");
        assert_eq!(client.value("SELECT FOUND_ROWS()"), "4");
        assert!(door.counter("holds_diagnostics") >= 4);
        // A read on the replica keeps its own diagnostics.
        client.run("SET sql_mode = ''");
        let warned = door
            .client_in("state_diag")
            .query("/*ms=session*/ SELECT 1/0 FROM stage.who, t")
            .expect("rows");
        assert!(matches!(&warned[..], [Reply::Rows(rows)] if rows.rows.len() == 3));
    }
}

#[test]
fn a_reset_or_another_user_begins_anew() {
    for stage in &Stage::of_both_engines() {
        stage.database("state_reset");
        stage.everywhere("CREATE TABLE state_reset.t (a INT) ENGINE=InnoDB");
        let door = stage.door();
        let mut client = door.client_in("state_reset");
        let mut direct = stage.primary.client();
        direct.use_database("state_reset").expect("it is there");
        for change_user in [false, true] {
            client.run("SET NAMES latin1");
            client.run("SET sql_mode = '', time_zone = '+03:00', autocommit = 0, @a = 1");
            client.run("CREATE TEMPORARY TABLE tmp (a INT)");
            client.run("INSERT INTO t VALUES (1)");
            let statement = client.prepare("SELECT 1").expect("prepared");
            client.run("DO GET_LOCK('state_reset', 0)");
            if change_user {
                let login = Login {
                    database: Some("state_reset"),
                    ..Login::default()
                };
                client.change_user(&login).expect("root again");
                direct.change_user(&login).expect("root again");
            } else {
                client.reset().expect("reset");
                // On MySQL this takes the collation of the login away, too.
                direct.reset().expect("reset");
            }
            // At once, from another session: nothing of the old one may still hold.
            assert_eq!(
                door.client().value("SELECT IS_FREE_LOCK('state_reset')"),
                "1"
            );
            assert_eq!(
                settings(stage, &mut client),
                settings(stage, &mut direct),
                "change_user {change_user}"
            );
            assert_eq!(client.value("SELECT @a"), "NULL");
            assert_eq!(client.error("SELECT * FROM tmp"), 1146);
            assert_eq!(client.value("SELECT COUNT(*) FROM t"), "0");
            assert_eq!(
                client.execute(&statement, &[]).expect_err("gone").number(),
                1243
            );
            client.reset().expect("reset");
        }
    }
}

#[test]
fn what_servers_do_not_report_follows_its_session_too() {
    // MariaDB from 11 on confuses the names of many variables in its reports.
    let mut stages = Stage::of_both_engines();
    stages.extend(Stage::start_with(Release::MariaDb114).map(Arc::new));
    for stage in &stages {
        stage.database("state_untold");
        let door = narrow(stage);
        let mut plain = door.client();
        let ask = "SELECT @@session.autocommit, @@session.sql_select_limit, @@session.sql_mode, \
                   @@session.foreign_key_checks, @@session.unique_checks, @@session.max_join_size, \
                   @@session.sql_safe_updates, @@session.long_query_time, @@session.tx_isolation, \
                   @@session.collation_connection, @@session.insert_id, @@session.max_statement_time";
        let ask = &named(stage, ask);
        let fresh = plain.rows(ask);
        let sets = [
            "SET @@autocommit = 0",
            "SET @@sql_select_limit = 5, @@sql_mode = 'ANSI'",
            "SET foreign_key_checks = 0, unique_checks = OFF",
            "SET @@local.sql_safe_updates = 1",
            "SET long_query_time = 3.5",
            "DO 1; SET @@foreign_key_checks = 0; /* more */ SET @@max_join_size = 77",
            "SET @@session.tx_isolation = 'SERIALIZABLE'",
            "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
            "SET collation_connection = latin1_bin",
            "SET STATEMENT max_statement_time = 99 FOR SELECT 1",
            "SET @@tx_isolation = 'READ-UNCOMMITTED'",
            "SET insert_id = 42",
        ];
        for sql in sets.map(|sql| named(stage, sql)) {
            let sql = sql.as_str();
            let mut setter = door.client();
            let mut direct = stage.primary.client();
            setter.query(sql).expect(sql);
            direct.query(sql).expect(sql);
            let wanted = direct.rows(ask);
            if sql.contains("insert_id") || sql.contains("'READ-UNC") {
                // It pins: nobody else can use the only connection meanwhile.
                assert_eq!(setter.rows(ask), wanted, "{sql}");
                continue;
            }
            assert_eq!(plain.rows(ask), fresh, "{sql}: another session");
            assert_eq!(setter.rows(ask), wanted, "{sql}: the session itself");
            assert_eq!(plain.rows(ask), fresh, "{sql}: another session, later");
            let prepared = sql.split(';').next_back().expect("a statement");
            let prepared = setter.prepare(prepared).expect(sql);
            setter.execute(&prepared, &[]).expect(sql);
            assert_eq!(plain.rows(ask), fresh, "{sql}: prepared");
        }
    }
}

#[test]
fn a_session_that_wants_no_rows_is_understood_all_the_same() {
    for stage in &Stage::of_both_engines() {
        stage.database("state_limit");
        stage.everywhere("CREATE TABLE state_limit.t (a INT AUTO_INCREMENT PRIMARY KEY)");
        let door = narrow(stage);
        let mut client = door.client();
        let mut other = door.client();
        client.run("SET sql_select_limit = 0");
        client.run("SET @@lc_time_names = 'en_GB'");
        client.run("SET NAMES latin1 COLLATE latin1_german2_ci");
        client.run("SET @a = 6 * 7");
        client.run("INSERT INTO state_limit.t VALUES (LAST_INSERT_ID(77))");
        client.run("DO 1 / 0, CAST('x' AS SIGNED)");
        // Somebody else's statements on the only connection.
        assert_eq!(other.value("SELECT @@sql_select_limit > 0"), "1");
        other.run("INSERT INTO state_limit.t VALUES ()");
        // MySQL cuts this one off, too.
        let mut direct = stage.primary.client();
        direct.run("SET sql_select_limit = 0");
        direct.run("DO 1 / 0, CAST('x' AS SIGNED)");
        assert_eq!(client.rows("SHOW WARNINGS"), direct.rows("SHOW WARNINGS"));
        assert!(client.rows("SELECT 1").is_empty());
        let sql = "SELECT @@lc_time_names, @@collation_connection, @a, LAST_INSERT_ID() LIMIT 1";
        let row = client.rows(sql).remove(0);
        let row: Vec<_> = row.into_iter().flatten().collect();
        assert_eq!(row, ["en_GB", "latin1_german2_ci", "42", "77"]);
        assert_eq!(door.counter("pool_opened").max(1), 1);
    }
}
