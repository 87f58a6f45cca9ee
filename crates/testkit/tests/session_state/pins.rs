//! The SQL door: a connection that was tied to one session serves others when that is over, and
//! nothing of the session is left on it.

use testkit::door::Door;
use testkit::{Client, Release, Server};

fn servers() -> Vec<Server> {
    let servers = Release::ALL.into_iter().filter_map(Server::start);
    servers
        .inspect(|server| {
            let mut client = server.client();
            client.run("CREATE DATABASE pins");
            client.run("CREATE TABLE pins.t (a INT) ENGINE=InnoDB");
            client.run("CREATE PROCEDURE pins.p() SET @left = 1");
        })
        .collect()
}

/// A door whose sessions all share one server connection.
fn narrow(server: &Server) -> Door {
    Door::start(&[server], |tuning| {
        tuning.settings.pool.connections_max = 1;
    })
}

/// What may be left on a connection, as a fresh session sees it.
fn traces(client: &mut Client) -> Vec<String> {
    [
        "SELECT @a, @left",
        "SELECT IS_FREE_LOCK('pins')",
        "SELECT * FROM tmp",
        "EXECUTE s",
        "HANDLER h READ FIRST",
        "SELECT COUNT(*) FROM t",
        "SELECT LAST_INSERT_ID()",
        "INSERT INTO t VALUES (0)",
        "DELETE FROM t",
        "SELECT @@sql_mode, @@autocommit, @@character_set_client, @@character_set_results, \
         @@collation_connection, @@timestamp > 1500000000, @@session.transaction_isolation, \
         @@session.transaction_read_only, @@sql_select_limit, @@in_transaction",
    ]
    .into_iter()
    .map(|sql| match client.query(sql) {
        Ok(replies) => replies
            .iter()
            .map(|reply| match reply {
                testkit::client::Reply::Rows(rows) => format!("{:?}", rows.text()),
                testkit::client::Reply::Done(_) => "done".to_owned(),
            })
            .collect(),
        Err(failure) => failure.to_string(),
    })
    .collect()
}

/// Ways to be tied to a connection.
const TIES: [&[&str]; 11] = [
    &[
        "CREATE TEMPORARY TABLE tmp (a INT)",
        "INSERT INTO tmp VALUES (1)",
    ],
    &["DO GET_LOCK('pins', 0)"],
    &["LOCK TABLES t WRITE"],
    &["FLUSH TABLES WITH READ LOCK"],
    &["PREPARE s FROM 'SELECT 1'"],
    &["HANDLER t OPEN AS h"],
    &["BEGIN", "INSERT INTO t VALUES (1)"],
    &["SET autocommit = 0", "INSERT INTO t VALUES (1)"],
    &["CALL p()", "SET @a = RAND()"],
    &[
        "SET NAMES latin1",
        "SET sql_mode = 'ANSI', sql_select_limit = 1",
        "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "CREATE TEMPORARY TABLE tmp (a INT)",
    ],
    &["SET @`é` = 1, @a = 2", "LOCK TABLES t READ"],
];

#[test]
fn nothing_is_left_on_a_connection_that_was_renewed() {
    for server in servers() {
        let door = narrow(&server);
        let wanted = traces(&mut door.client_in("pins"));
        let direct = traces(&mut {
            let mut direct = server.client();
            direct.run("USE pins");
            direct
        });
        assert_eq!(wanted[..9], direct[..9]);
        for (at, statements) in TIES.into_iter().enumerate() {
            let mut tied = door.client_in("pins");
            for sql in statements {
                tied.run(sql);
            }
            match at % 3 {
                0 => tied.quit(),
                1 => drop(tied),
                _ => {
                    tied.reset().expect("reset");
                    assert_eq!(traces(&mut tied)[..9], wanted[..9], "{statements:?}");
                }
            }
            assert_eq!(
                traces(&mut door.client_in("pins")),
                wanted,
                "{statements:?}"
            );
        }
        door.wait_unused();
        assert!(
            door.counter("pool_opened") <= 1,
            "one connection served them all"
        );
        assert!(door.counter("connections_renewed") >= 6);
    }
}

#[test]
fn what_a_reset_may_leave_closes_the_connection() {
    for server in servers() {
        let door = narrow(&server);
        for sql in [
            "SET timestamp = 1000000000",
            "SET ROLE NONE",
            "XA START 'x'",
        ] {
            let before = door.counter("connections_renewed");
            let mut tied = door.client_in("pins");
            tied.run(sql);
            drop(tied);
            assert_eq!(
                door.client_in("pins")
                    .value("SELECT @@timestamp > 1500000000"),
                "1"
            );
            assert_eq!(door.counter("connections_renewed"), before, "{sql}");
        }
    }
}

/// Statements that tie a session, those that end it, and the counter of the pin.
const ENDS: [(&[&str], &[&str], &str); 9] = [
    (
        &[
            "CREATE TEMPORARY TABLE tmp (a INT)",
            "CREATE TEMPORARY TABLE pins.tmp2 LIKE t",
        ],
        &["DROP TEMPORARY TABLE tmp", "DROP TABLE IF EXISTS tmp2"],
        "pins_temporary_table",
    ),
    (
        &["LOCK TABLES t READ"],
        &["UNLOCK TABLES"],
        "pins_lock_tables",
    ),
    (
        &[
            "DO GET_LOCK('one', 0)",
            "SELECT GET_LOCK('one', 0), GET_LOCK('two', 0)",
        ],
        &[
            "DO RELEASE_LOCK('one')",
            "SELECT RELEASE_LOCK('two'), RELEASE_LOCK('one')",
        ],
        "pins_user_lock",
    ),
    (
        &["DO GET_LOCK(CONCAT('o', 'ne'), 0)"],
        &["DO RELEASE_ALL_LOCKS()"],
        "pins_user_lock",
    ),
    (
        &["HANDLER t OPEN", "HANDLER t OPEN AS h"],
        &["HANDLER t CLOSE", "HANDLER h CLOSE"],
        "pins_handler",
    ),
    (
        &[
            "PREPARE s FROM 'SELECT 1'",
            "EXECUTE s",
            "PREPARE s2 FROM 'SELECT 2'",
        ],
        &["DEALLOCATE PREPARE s", "DROP PREPARE s2"],
        "pins_text_prepare",
    ),
    (
        &["XA START 'x'", "XA END 'x'"],
        &["XA ROLLBACK 'x'"],
        "pins_xa",
    ),
    (
        &[
            "XA START 'y'",
            "INSERT INTO t VALUES (5)",
            "XA END 'y'",
            "XA PREPARE 'y'",
        ],
        &["XA COMMIT 'y'"],
        "pins_xa",
    ),
    (
        &["SET TRANSACTION READ ONLY"],
        &["BEGIN", "COMMIT"],
        "pins_next_transaction",
    ),
];

#[test]
fn ties_end_with_the_last_of_them() {
    for server in servers() {
        let door = Door::start(&[&server], |tuning| {
            tuning.settings.pool.connections_max = 1;
            tuning.settings.pool.wait_ms = 300;
        });
        let mut client = door.client_in("pins");
        let mut other = door.client_in("pins");
        for (make, end, counter) in ENDS {
            let before = door.counter(counter);
            for sql in make {
                client.query(sql).expect(sql);
            }
            assert_eq!(other.error("SELECT 1 FROM t"), 1040, "{make:?}");
            assert_eq!(door.counter(counter), before + 1, "{make:?}");
            for (at, sql) in end.iter().enumerate() {
                client.query(sql).expect(sql);
                if at + 1 < end.len() {
                    assert_eq!(other.error("SELECT 1 FROM t"), 1040, "{sql}");
                }
            }
            other
                .query("SELECT 1 FROM t")
                .expect("the connection is free");
        }
        // What only asks, or fails, ties nobody.
        for sql in [
            "SELECT IS_FREE_LOCK('one')",
            "PREPARE s FROM 'nonsense'",
            "EXECUTE nowhere",
            "CREATE TEMPORARY TABLE t3 AS SELECT nothing",
            "HANDLER nowhere OPEN",
            "DEALLOCATE PREPARE s",
            "LOCK TABLES nowhere READ",
        ] {
            let _ = client.query(sql);
            other.query("SELECT 1 FROM t").expect(sql);
        }
        // Nobody can know what such a statement left.
        client.run("SET @text = 'CREATE TEMPORARY TABLE hidden (a INT)'");
        for sql in ["PREPARE s FROM @text", "EXECUTE s", "DEALLOCATE PREPARE s"] {
            client.run(sql);
        }
        assert_eq!(other.error("SELECT 1 FROM t"), 1040);
        assert_eq!(client.value("SELECT COUNT(*) FROM hidden"), "0");
    }
}
