//! What ends a transaction over two groups, or a part of it, otherwise than by COMMIT and ROLLBACK alone:
//! through one door, on real servers of both engines; database `one` is on the first group, `two` on the
//! second.

use testkit::{Client, Two};

/// Writes on both groups, last on that of this database.
fn on_both(client: &mut Client, id: u32, last: &str) {
    let first = if last == "one" { "two" } else { "one" };
    for name in [first, last] {
        client.run(&format!("INSERT INTO {name}.t VALUES ({id}, 0)"));
    }
}

/// As of one server: it commits what is open, on whichever group the session was last.
#[test]
fn autocommit_that_is_switched_on_commits_on_all_groups() {
    for two in Two::farms() {
        let mut client = two.client();
        for (id, set) in [
            (1, "SET autocommit = 1"),
            (2, "SET @@session.autocommit = ON"),
            (3, "SET sql_mode = DEFAULT, autocommit = true"),
        ] {
            for (id, last) in [(id, "one"), (id + 10, "two")] {
                client.run("SET autocommit = 0");
                on_both(&mut client, id, last);
                // The first group's part is that which a server would commit by itself.
                client.run("UPDATE one.t SET v = 1");
                client.run(set);
                client.run("ROLLBACK");
            }
        }
        assert_eq!(two.ids(), ["1,2,3,11,12,13", "1,2,3,11,12,13"]);
        client.run("SET autocommit = 0");
        on_both(&mut client, 4, "one");
        client.run("SET autocommit = 0");
        // What only a server could tell is asked for otherwise.
        assert_eq!(client.error("SET autocommit = (SELECT 1)"), 1105);
        client.run("ROLLBACK");
        client.run("SET autocommit = 1");
        // In a transaction that was begun with it on, it is no end.
        client.run("BEGIN");
        on_both(&mut client, 5, "one");
        client.run("SET autocommit = 1");
        client.run("ROLLBACK");
        assert_eq!(two.ids(), ["1,2,3,11,12,13", "1,2,3,11,12,13"]);
        two.nothing_is_prepared();
    }
}

#[test]
fn statements_that_commit_do_so_on_all_groups() {
    for two in Two::farms() {
        let mysql = two.is_mysql();
        let all = [
            "CREATE OR REPLACE VIEW one.v AS SELECT 1",
            "FLUSH STATUS",
            "ANALYZE TABLE one.t",
            "BEGIN",
            "BACKUP LOCK one.t",
            "BACKUP STAGE START",
        ];
        let all = if mysql { &all[..4] } else { &all[..] };
        for (id, sql) in (1..).zip(all) {
            let mut client = two.client();
            client.run("BEGIN");
            on_both(&mut client, id, "one");
            client.query(sql).expect(sql);
            client.run("ROLLBACK");
            let id = id.to_string();
            let last = two.ids().map(|ids| ids.rsplit(',').next() == Some(&id));
            assert_eq!(last, [true, true], "{sql}");
        }
        two.nothing_is_prepared();
    }
}

/// What the session left to its completion type is the client's; no server ends a part by it.
#[test]
fn completion_types_are_the_clients_matter() {
    for two in Two::farms() {
        let mut client = two.client();
        client.run("SET completion_type = 'CHAIN'");
        client.run("BEGIN");
        on_both(&mut client, 1, "two");
        client.run("COMMIT");
        on_both(&mut client, 2, "two");
        client.run("ROLLBACK");
        on_both(&mut client, 3, "one");
        client.run("COMMIT AND NO CHAIN");
        assert_eq!(client.value("SELECT COUNT(*) FROM two.t"), "2");
        on_both(&mut client, 4, "one");
        assert_eq!(two.ids(), ["1,3,4", "1,3,4"]);
        client.run("SET completion_type = 'RELEASE'");
        client.run("BEGIN");
        on_both(&mut client, 5, "one");
        client.run("COMMIT NO RELEASE");
        client.run("BEGIN");
        on_both(&mut client, 6, "two");
        client.run("COMMIT");
        assert!(client.query("SELECT 1").is_err(), "it is released");
        assert_eq!(two.ids(), ["1,3,4,5,6", "1,3,4,5,6"]);
        two.nothing_is_prepared();
    }
}

/// AND CHAIN keeps what was set for the transaction before.
#[test]
fn a_chain_keeps_its_level() {
    for two in Two::farms() {
        let (mut client, mut other) = (two.client(), two.client());
        client.run("SET TRANSACTION ISOLATION LEVEL READ COMMITTED");
        client.run("BEGIN");
        on_both(&mut client, 1, "two");
        client.run("COMMIT AND CHAIN");
        for (id, name) in [(2, "one"), (3, "two")] {
            let count = format!("SELECT COUNT(*) FROM {name}.t");
            assert_eq!(client.value(&count), "1");
            other.run(&format!("INSERT INTO {name}.t VALUES ({id}, 0)"));
            assert_eq!(client.value(&count), "2", "{name}");
        }
        client.run("COMMIT");
        client.run("BEGIN");
        assert_eq!(client.value("SELECT COUNT(*) FROM one.t"), "2");
        other.run("INSERT INTO one.t VALUES (4, 0)");
        assert_eq!(client.value("SELECT COUNT(*) FROM one.t"), "2", "the next");
        client.run("COMMIT");
    }
}

/// Savepoints are known by their names, however these are written; what is none is told once.
#[test]
fn savepoints_that_are_gone_undo_nothing() {
    for two in Two::farms() {
        let mut client = two.client();
        client.run("BEGIN");
        client.run("SAVEPOINT a /* first */");
        client.run("INSERT INTO one.t VALUES (1, 0)");
        client.run("RELEASE SAVEPOINT `A` -- now");
        assert_eq!(client.error("SAVEPOINT 'b'"), 1064);
        client.run("INSERT INTO two.t VALUES (1, 0)");
        assert_eq!(client.error("ROLLBACK TO a"), 1305);
        assert_eq!(client.error("SAVEPOINT b c"), 1064);
        client.run("SAVEPOINT `b``c`");
        on_both(&mut client, 2, "one");
        client.run("ROLLBACK TO SAVEPOINT `B``C`;");
        client.run("COMMIT");
        assert_eq!(two.ids(), ["1", "1"]);
        two.nothing_is_prepared();
    }
}

/// What is in no binlog, a failover would lose: such a session has one group per transaction.
#[test]
fn sessions_without_a_binlog_stay_on_one_group() {
    for two in Two::farms() {
        let mut client = two.client();
        client.run("SET sql_log_bin = 0");
        for begin in ["BEGIN", "START TRANSACTION WITH CONSISTENT SNAPSHOT"] {
            client.run(begin);
            client.run("INSERT INTO two.t VALUES (1, 0)");
            let refused = client.query("INSERT INTO one.t VALUES (1, 0)");
            let why = refused.expect_err("a refusal").to_string();
            let said = if begin == "BEGIN" {
                "sql_log_bin"
            } else {
                "snapshot"
            };
            assert!(why.contains(said), "{why}");
            client.run("ROLLBACK");
        }
        client.run("SET sql_log_bin = 1");
        client.run("BEGIN");
        on_both(&mut client, 2, "one");
        client.run("COMMIT");
        assert_eq!(two.ids(), ["2", "2"]);
        two.nothing_is_prepared();
    }
}

/// CALL runs where the routine's database is, with parentheses and without.
#[test]
fn routines_are_called_where_they_are() {
    for two in Two::farms() {
        two.on_both("CREATE PROCEDURE {}.adds() INSERT INTO {}.t VALUES (60, 0)");
        // As everywhere but in these tests.
        two.stage.primary.client().run("CREATE DATABASE two");
        let mut client = two.client();
        assert_eq!(client.value("SELECT COUNT(*) FROM two.t"), "0");
        client.run("CALL one.adds");
        client.run("BEGIN");
        client.run("INSERT INTO one.t VALUES (1, 0)");
        client.run("CALL two.adds");
        client.run("ROLLBACK");
        client.run("USE two");
        client.run("BEGIN");
        client.run("INSERT INTO one.t VALUES (2, 0)");
        client.run("CALL adds");
        client.run("COMMIT");
        assert_eq!(two.ids(), ["2,60", "60"]);
        two.nothing_is_prepared();
    }
}
