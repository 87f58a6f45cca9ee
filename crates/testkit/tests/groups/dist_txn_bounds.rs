//! What a transaction over two groups cannot take, and what it leaves alone: through one door, on real
//! servers of both engines; database `one` is on the first group, `two` on the second.

use std::time::Duration;

use farm::dist_txn::Atomic;
use routing::rules::{Rules, UserDefaults};
use testkit::{Client, Release, Server, Two, wait_until};

const PATIENCE: Duration = Duration::from_secs(20);

/// A transaction that has written on both groups.
fn over_both(two: &Two, id: u32) -> Client {
    let mut client = two.client();
    client.run("BEGIN");
    client.run(&format!("INSERT INTO one.t VALUES ({id}, 0)"));
    client.run(&format!("INSERT INTO two.t VALUES ({id}, 0)"));
    client
}

/// A routine that commits would end one part alone.
#[test]
fn routines_that_commit_are_refused() {
    for two in Two::farms() {
        two.on_both(
            "CREATE PROCEDURE {}.ends() BEGIN INSERT INTO {}.t VALUES (50, 0); COMMIT; END",
        );
        two.on_both("CREATE PROCEDURE {}.adds() INSERT INTO {}.t VALUES (60, 0)");
        two.on_both("CREATE PROCEDURE {}.calls() BEGIN CALL adds(); END");
        two.on_both("CREATE PROCEDURE {}.calls_end() BEGIN CALL ends(); END");
        // A CALL goes where the statement before it went.
        let mut client = over_both(&two, 1);
        client.run("INSERT INTO one.t VALUES (3, 0)");
        assert_eq!(client.error("CALL one.ends()"), 1105);
        assert_eq!(client.error("CALL one.calls_end()"), 1105);
        client.run("CALL one.calls()");
        client.run("INSERT INTO two.t VALUES (4, 0)");
        // The server of a branch says so itself; what the routine did before stays, as on one server.
        assert_eq!(client.error("CALL two.ends()"), 1399);
        assert_eq!(two.ids(), ["", ""], "nothing is committed");
        client.run("CALL two.adds()");
        client.run("COMMIT");
        assert_eq!(two.ids(), ["1,3,60", "1,4,50,60"]);
        // Before the second group it is the matter of one server.
        client.run("BEGIN");
        client.run("INSERT INTO one.t VALUES (2, 0)");
        client.run("CALL one.ends()");
        client.run("INSERT INTO two.t VALUES (2, 0)");
        client.run("ROLLBACK");
        assert_eq!(two.ids(), ["1,2,3,50,60", "1,2,4,50,60"]);
        // Within an XA transaction the first group's server refuses it, too.
        client.run("XA START 'x'");
        client.run("DELETE FROM one.t");
        client.run("DELETE FROM two.t");
        assert_eq!(client.error("CALL one.ends()"), 1399);
        client.run("XA END 'x'");
        client.run("XA ROLLBACK 'x'");
        assert_eq!(two.ids(), ["1,2,3,50,60", "1,2,4,50,60"]);
        two.nothing_is_prepared();
    }
}

/// What a server says straight to the last of these, which come in one session.
fn straight(server: &Server, statements: &[&str]) -> Option<u16> {
    let mut client = server.client();
    let (last, before) = statements.split_last().expect("some");
    before.iter().for_each(|sql| drop(client.run(sql)));
    client.query(last).err().map(|error| error.number())
}

/// Temporary tables are their connection's: made or written in such a transaction they stay on their
/// group, or are refused by their server, and the rest goes on.
#[test]
fn temporary_tables_stay_where_they_are() {
    for two in Two::farms() {
        let (one, other) = (&two.stage.primary, &two.stage.replica);
        let before = "CREATE TEMPORARY TABLE two.before_it (a INT) ENGINE=InnoDB";
        let insert = "INSERT INTO two.before_it VALUES (1)";
        // MySQL 8.0.12 refuses to make them in a transaction, and a newer one those of a branch.
        let written = straight(other, &[before, "XA START 'x'", insert]);
        for (id, end) in [(1, "COMMIT"), (2, "ROLLBACK")] {
            let mut client = over_both(&two, id);
            for (server, begin, name) in [(one, "BEGIN", "one"), (other, "XA START 'x'", "two")] {
                let make = format!("CREATE TEMPORARY TABLE {name}.tmp (a INT) ENGINE=InnoDB");
                match straight(server, &[begin, &make]) {
                    Some(number) => assert_eq!(client.error(&make), number, "{name}"),
                    None => {
                        client.run(&make);
                        client.run(&format!("INSERT INTO {name}.tmp VALUES (7)"));
                        assert_eq!(client.value(&format!("SELECT a FROM {name}.tmp")), "7");
                    }
                }
            }
            client.run(end);
            assert_eq!(two.ids(), ["1", "1"], "{end}");
            two.nothing_is_prepared();
            // Those made before a transaction can be written in it.
            client.run(before);
            client.run("BEGIN");
            client.run("INSERT INTO one.t VALUES (9, 0)");
            let refused = client.query(insert).err().map(|error| error.number());
            assert_eq!(refused, written);
            client.run("INSERT INTO two.t VALUES (9, 0)");
            client.run("COMMIT");
            let count = if written.is_some() { "0" } else { "1" };
            let rows = "SELECT COUNT(*) FROM two.before_it WHERE a = 1";
            assert_eq!(client.value(rows), count);
            assert_eq!(two.ids(), ["1,9", "1,9"]);
            two.nothing_is_prepared();
            two.on_both("DELETE FROM {}.t WHERE id = 9");
        }
    }
}

/// A table without transactions is written at once, or refused by its server.
#[test]
fn tables_without_transactions_leave_nothing_prepared() {
    for two in Two::farms() {
        let mysql = two.is_mysql();
        two.on_both("CREATE TABLE {}.plain (id INT PRIMARY KEY) ENGINE=MyISAM");
        for (id, end, left) in [(1, "COMMIT", "1"), (2, "ROLLBACK", "1")] {
            let mut client = over_both(&two, id);
            for name in ["one", "two"] {
                let insert = format!("INSERT INTO {name}.plain VALUES ({id})");
                match mysql {
                    true => assert_eq!(client.error(&insert), 1785, "{name}"),
                    false => drop(client.run(&insert)),
                }
            }
            client.run(end);
            assert_eq!(two.ids(), [left, left], "{end}");
            two.nothing_is_prepared();
        }
        let written = if mysql { "0" } else { "2" };
        for (server, name) in [(&two.stage.primary, "one"), (&two.stage.replica, "two")] {
            let count = format!("SELECT COUNT(*) FROM {name}.plain");
            assert_eq!(server.client().value(&count), written);
        }
    }
}

/// Servers that forget prepared transactions in a crash are no second group, unless told so.
#[test]
fn servers_without_safe_xa_are_named() {
    let old = Two::start(Release::MySql80);
    for two in Two::farms().into_iter().chain(old) {
        two.door
            .tune(|live| live.settings.dist_txns.unsafe_xa = false);
        let mut client = two.client();
        let old = client.value("SELECT @@version LIKE '8.0.1%'") == "1";
        client.run("BEGIN");
        client.run("INSERT INTO one.t VALUES (1, 0)");
        let second = client.query("INSERT INTO two.t VALUES (1, 0)");
        match old {
            true => {
                let why = second.expect_err("a refusal").to_string();
                assert!(why.contains("allow_unsafe_xa"), "{why}");
            }
            false => drop(second.expect("an OK")),
        }
        if old {
            // It waits for locks as long as before: it is a transaction of one group.
            let waits = client.value("SELECT @@innodb_lock_wait_timeout FROM one.t");
            assert_eq!(waits, "50");
        }
        client.run("COMMIT");
        assert_eq!(two.ids(), ["1", if old { "" } else { "1" }]);
        client.run("BEGIN");
        client.run("UPDATE one.t SET v = 1");
        let waits = client.value("SELECT @@innodb_lock_wait_timeout FROM one.t");
        assert_eq!(waits, "50");
        client.run("COMMIT");
        two.nothing_is_prepared();
    }
}

/// Two sessions, of one router or of two, begin XA transactions of one name: none takes the other's.
#[test]
fn one_name_twice_does_no_harm() {
    for two in Two::farms() {
        let (mut first, mut second) = (two.client(), two.client());
        first.run("XA START 'x'");
        first.run("INSERT INTO one.t VALUES (1, 0)");
        // Only what is prepared can be known of before.
        second.run("XA START 'x'");
        assert_eq!(second.error("INSERT INTO one.t VALUES (2, 0)"), 1440);
        // It is over, and what comes is not done by itself.
        assert_eq!(second.error("INSERT INTO two.t VALUES (3, 0)"), 1399);
        assert_eq!(second.error("XA END 'x'"), 1402);
        second.run("XA ROLLBACK 'x'");
        second.run("INSERT INTO two.t VALUES (4, 0)");
        // Begun on another group, both have the name.
        second.run("XA START 'x'");
        second.run("INSERT INTO two.t VALUES (5, 0)");
        first.run("INSERT INTO two.t VALUES (6, 0)");
        second.run("INSERT INTO one.t VALUES (7, 0)");
        for client in [&mut first, &mut second] {
            client.run("XA END 'x'");
            client.run("XA PREPARE 'x'");
        }
        second.run("XA ROLLBACK 'x'");
        first.run("XA COMMIT 'x'");
        assert_eq!(two.ids(), ["1", "4,6"]);
        two.nothing_is_prepared();
        drop((first, second));
        two.door.wait_unused();
    }
}

#[test]
fn a_user_may_have_another_way() {
    for two in Two::farms() {
        let single = UserDefaults {
            user: "root".to_owned(),
            atomic: Some(Atomic::Single),
            ..UserDefaults::default()
        };
        two.rules.publish(Rules {
            users: vec![single],
            ..Rules::default()
        });
        let mut client = two.client();
        assert_eq!(client.value("SELECT @@heddle_atomic"), "single");
        client.run("BEGIN");
        client.run("INSERT INTO one.t VALUES (1, 0)");
        let refused = client.query("INSERT INTO two.t VALUES (1, 0)");
        let why = refused.expect_err("a refusal").to_string();
        assert!(why.contains("atomic is single"), "{why}");
        client.run("COMMIT");
        assert_eq!(two.ids(), ["1", ""]);
        // What a session says itself comes first.
        client.run("SET heddle_atomic = 'xa'");
        client.run("BEGIN");
        client.run("INSERT INTO one.t VALUES (2, 0)");
        client.run("INSERT INTO two.t VALUES (2, 0)");
        client.run("COMMIT");
        assert_eq!(two.ids(), ["1,2", "2"]);
        two.nothing_is_prepared();
        two.rules.publish(Rules::default());
        assert_eq!(two.client().value("SELECT @@heddle_atomic"), "xa");
    }
}

/// While somebody opens a snapshot, commits over groups wait; those of one group never do.
#[test]
fn barriers_hold_up_commits_over_groups_and_no_others() {
    for two in Two::farms() {
        two.door
            .tune(|live| live.settings.dist_txns.lock_wait_ms = 60_000);
        let mut dist_txn = two.client();
        dist_txn.run("BEGIN");
        dist_txn.run("INSERT INTO two.t VALUES (1, 0)");
        dist_txn.run("INSERT INTO one.t VALUES (1, 0)");
        let mut barrier = two.stage.replica.client();
        barrier.run("BEGIN");
        barrier.rows("SELECT id FROM heddle.gate WHERE id = 1 FOR UPDATE");
        std::thread::scope(|scope| {
            let commit = scope.spawn(|| dist_txn.run("COMMIT"));
            wait_until(PATIENCE, "a commit that has prepared", || {
                two.stage.primary.client().rows("XA RECOVER").len() == 1
            });
            let mut single = two.client();
            single.run("INSERT INTO two.t VALUES (2, 0)");
            single.run("BEGIN");
            single.run("INSERT INTO two.t VALUES (3, 0)");
            single.run("COMMIT");
            assert_eq!(two.ids(), ["", "2,3"]);
            assert!(!commit.is_finished());
            barrier.run("COMMIT");
            commit.join().expect("no panic");
        });
        assert_eq!(two.ids(), ["1", "1,2,3"]);
        two.nothing_is_prepared();
    }
}
