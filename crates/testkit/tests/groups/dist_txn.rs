//! Transactions over two groups through one door, on real servers of both engines: database `one` is on
//! the first group, `two` on the second.

use testkit::client::Failure;
use testkit::{Client, Two};

#[track_caller]
fn number(client: &mut Client, sql: &str) -> u16 {
    client.error(sql)
}

#[test]
fn both_or_none() {
    for two in Two::farms() {
        let mut client = two.client();
        client.run("BEGIN");
        client.run("INSERT INTO one.t VALUES (1, 0)");
        client.run("INSERT INTO two.t VALUES (2, 0)");
        client.run("INSERT INTO one.t VALUES (3, 0)");
        assert_eq!(two.ids(), ["", ""], "nothing is seen before the commit");
        assert_eq!(client.value("SELECT COUNT(*) FROM two.t"), "1");
        client.run("COMMIT");
        assert_eq!(two.ids(), ["1,3", "2"]);
        client.run("START TRANSACTION");
        client.run("INSERT INTO two.t VALUES (4, 0)");
        client.run("INSERT INTO one.t VALUES (5, 0)");
        client.run("ROLLBACK");
        assert_eq!(two.ids(), ["1,3", "2"]);
        assert_eq!(two.door.counter("xa_commit_success"), 1);
        assert_eq!(two.door.counter("xa_rollback_success"), 1);
        two.clean();
    }
}

#[test]
fn one_group_costs_no_xa() {
    for two in Two::farms() {
        let mut client = two.client();
        client.run("BEGIN");
        client.run("INSERT INTO two.t VALUES (1, 0)");
        client.run("COMMIT");
        client.run("BEGIN");
        client.run("COMMIT");
        client.run("INSERT INTO one.t VALUES (1, 0)");
        assert_eq!(two.ids(), ["1", "1"]);
        assert_eq!(two.door.counter("xa_begin"), 0);
        let marks = "SELECT COUNT(*) FROM heddle.mark WHERE id <> X'00'";
        client.run("BEGIN");
        assert_eq!(client.value("SELECT COUNT(*) FROM one.t"), "1");
        client.run("INSERT INTO two.t VALUES (2, 0)");
        client.run("COMMIT");
        assert_eq!(two.ids(), ["1", "1,2"]);
        assert_eq!(two.stage.primary.client().value(marks), "0");
        assert_eq!(
            two.stage.replica.client().value(marks),
            "1",
            "where it wrote"
        );
        two.clean();
    }
}

#[test]
fn savepoints_are_over_all_groups() {
    for two in Two::farms() {
        let mut client = two.client();
        client.run("BEGIN");
        client.run("SAVEPOINT a");
        client.run("INSERT INTO one.t VALUES (1, 0)");
        client.run("SAVEPOINT b");
        client.run("INSERT INTO two.t VALUES (2, 0)");
        client.run("SAVEPOINT `c c`");
        client.run("INSERT INTO one.t VALUES (3, 0)");
        client.run("INSERT INTO two.t VALUES (4, 0)");
        client.run("ROLLBACK TO SAVEPOINT `c c`");
        assert_eq!(number(&mut client, "ROLLBACK TO nowhere"), 1305);
        client.run("INSERT INTO two.t VALUES (6, 0)");
        client.run("ROLLBACK TO b");
        client.run("INSERT INTO two.t VALUES (7, 0)");
        client.run("COMMIT");
        assert_eq!(two.ids(), ["1", "7"]);
        client.run("BEGIN");
        client.run("SAVEPOINT a");
        client.run("INSERT INTO one.t VALUES (11, 0)");
        client.run("INSERT INTO two.t VALUES (12, 0)");
        client.run("ROLLBACK TO a");
        client.run("RELEASE SAVEPOINT a");
        client.run("COMMIT");
        assert_eq!(two.ids(), ["1", "7"]);
        two.clean();
    }
}

#[test]
fn errors_undo_what_they_undo_on_one_server() {
    for two in Two::farms() {
        let mut client = two.client();
        client.run("BEGIN");
        client.run("INSERT INTO one.t VALUES (1, 0)");
        client.run("INSERT INTO two.t VALUES (2, 0)");
        assert_eq!(number(&mut client, "INSERT INTO two.t VALUES (2, 1)"), 1062);
        assert_eq!(
            number(&mut client, "INSERT INTO one.nowhere VALUES (2, 1)"),
            1146
        );
        assert_eq!(
            number(&mut client, "CALL one.nothing()"),
            1105,
            "it might commit"
        );
        client.run("INSERT INTO two.t VALUES (3, 0)");
        client.run("COMMIT");
        assert_eq!(two.ids(), ["1", "2,3"]);
        // DDL commits on all groups before it runs.
        client.run("BEGIN");
        client.run("INSERT INTO one.t VALUES (11, 0)");
        client.run("INSERT INTO two.t VALUES (12, 0)");
        client.run("CREATE TABLE two.u (a INT)");
        client.run("ROLLBACK");
        assert_eq!(two.ids(), ["1,11", "2,3,12"]);
        // So does the next BEGIN.
        client.run("BEGIN");
        client.run("INSERT INTO one.t VALUES (21, 0)");
        client.run("INSERT INTO two.t VALUES (22, 0)");
        client.run("BEGIN");
        client.run("ROLLBACK");
        assert_eq!(two.ids(), ["1,11,21", "2,3,12,22"]);
        two.clean();
    }
}

#[test]
fn without_autocommit_and_with_chains() {
    for two in Two::farms() {
        let mut client = two.client();
        client.run("SET autocommit = 0");
        client.run("INSERT INTO one.t VALUES (1, 0)");
        client.run("INSERT INTO two.t VALUES (2, 0)");
        client.run("ROLLBACK");
        assert_eq!(two.ids(), ["", ""]);
        client.run("INSERT INTO one.t VALUES (1, 0)");
        client.run("INSERT INTO two.t VALUES (2, 0)");
        client.run("COMMIT");
        assert_eq!(two.ids(), ["1", "2"]);
        client.run("SET autocommit = 1");
        client.run("BEGIN");
        client.run("INSERT INTO two.t VALUES (3, 0)");
        client.run("INSERT INTO one.t VALUES (4, 0)");
        client.run("COMMIT AND CHAIN");
        client.run("INSERT INTO two.t VALUES (5, 0)");
        client.run("INSERT INTO one.t VALUES (6, 0)");
        client.run("ROLLBACK");
        client.run("INSERT INTO one.t VALUES (7, 0)");
        assert_eq!(two.ids(), ["1,4,7", "2,3"]);
        two.clean();
    }
}

#[test]
fn a_deadlock_over_two_groups_ends_one_transaction() {
    for two in Two::farms() {
        let (mut first, mut second) = (two.client(), two.client());
        first.run("INSERT INTO one.t VALUES (1, 0)");
        first.run("INSERT INTO two.t VALUES (1, 0)");
        for client in [&mut first, &mut second] {
            client.run("BEGIN");
        }
        first.run("UPDATE one.t SET v = v + 1 WHERE id = 1");
        second.run("UPDATE two.t SET v = v + 10 WHERE id = 1");
        let waits = std::thread::spawn(move || {
            let failed = first.query("UPDATE two.t SET v = v + 1 WHERE id = 1").err();
            let ended = first.query("COMMIT").is_ok();
            (failed, ended)
        });
        let failed = second
            .query("UPDATE one.t SET v = v + 10 WHERE id = 1")
            .err();
        second.run("COMMIT");
        let (other, ended) = waits.join().expect("the first client ends");
        assert!(ended);
        let failures: Vec<Failure> = failed.into_iter().chain(other).collect();
        assert!(!failures.is_empty(), "somebody has to give way");
        for failure in &failures {
            assert!(failure.to_string().contains("1213"), "{failure}");
        }
        let sum = |server: &testkit::Server, name: &str| {
            server.client().value(&format!("SELECT v FROM {name}.t"))
        };
        let one = sum(&two.stage.primary, "one");
        assert_eq!(
            one,
            sum(&two.stage.replica, "two"),
            "all or nothing of each"
        );
        two.clean();
    }
}

/// MariaDB's `innodb_snapshot_isolation`, which newer releases have on, ends a transaction that changes a row
/// which others changed since it began to read.
#[test]
fn a_row_that_others_changed_undoes_all_groups() {
    for two in Two::farms() {
        let servers = [&two.stage.primary, &two.stage.replica];
        let switch = "SET GLOBAL innodb_snapshot_isolation = ON";
        if servers.iter().any(|it| it.client().query(switch).is_err()) {
            continue;
        }
        let (mut client, mut other) = (two.client(), two.client());
        other.run("INSERT INTO one.t VALUES (1, 0)");
        other.run("INSERT INTO two.t VALUES (1, 0)");
        for (changed, left) in [("one", "two"), ("two", "one")] {
            client.run("BEGIN");
            assert_eq!(
                client.value(&format!("SELECT COUNT(*) FROM {changed}.t")),
                "1"
            );
            client.run(&format!("INSERT INTO {left}.t VALUES (2, 0)"));
            other.run(&format!("UPDATE {changed}.t SET v = v + 1 WHERE id = 1"));
            let update = format!("UPDATE {changed}.t SET v = v + 10 WHERE id = 1");
            assert_eq!(number(&mut client, &update), 1020);
            client.run("COMMIT");
            assert_eq!(two.ids(), ["1", "1"], "{changed}: all or nothing");
        }
        client.run("BEGIN");
        client.run("INSERT INTO one.t VALUES (3, 0)");
        client.run("INSERT INTO two.t VALUES (3, 0)");
        client.run("COMMIT");
        assert_eq!(two.ids(), ["1,3", "1,3"]);
        two.clean();
    }
}

/// Ends the connections of the door's to this server.
fn end_connections(admin: &mut Client) {
    let ask = "SELECT id FROM information_schema.processlist \
               WHERE id <> CONNECTION_ID() AND user = 'root'";
    let rows = admin.rows(ask);
    assert!(!rows.is_empty(), "the door has connections there");
    for id in rows.into_iter().filter_map(|row| row[0].clone()) {
        admin.run(&format!("KILL {id}"));
    }
}

#[test]
fn a_lost_part_undoes_the_others() {
    for two in Two::farms() {
        let mut client = two.client();
        client.run("BEGIN");
        client.run("INSERT INTO one.t VALUES (1, 0)");
        client.run("INSERT INTO two.t VALUES (2, 0)");
        let mut admin = two.stage.replica.client();
        end_connections(&mut admin);
        assert_eq!(number(&mut client, "INSERT INTO two.t VALUES (3, 0)"), 1213);
        client.run("COMMIT");
        assert_eq!(two.ids(), ["", ""]);
        // The connection is found lost by the COMMIT itself.
        client.run("BEGIN");
        client.run("INSERT INTO one.t VALUES (1, 0)");
        client.run("INSERT INTO two.t VALUES (2, 0)");
        end_connections(&mut admin);
        assert_eq!(number(&mut client, "COMMIT"), 1213);
        client.run("INSERT INTO one.t VALUES (9, 0)");
        assert_eq!(two.ids(), ["9", ""]);
        two.clean();
    }
}

#[test]
fn a_second_group_may_be_refused() {
    for two in Two::farms() {
        two.door
            .tune(|live| live.settings.dist_txns.atomic = farm::dist_txn::Atomic::Single);
        let mut client = two.client();
        client.run("BEGIN");
        client.run("INSERT INTO one.t VALUES (1, 0)");
        assert_eq!(number(&mut client, "INSERT INTO two.t VALUES (2, 0)"), 1105);
        client.run("INSERT INTO one.t VALUES (3, 0)");
        client.run("COMMIT");
        assert_eq!(two.ids(), ["1,3", ""]);
        two.door
            .tune(|live| live.settings.dist_txns.atomic = farm::dist_txn::Atomic::BestEffort);
        client.run("BEGIN");
        client.run("INSERT INTO one.t VALUES (4, 0)");
        client.run("INSERT INTO two.t VALUES (2, 0)");
        client.run("COMMIT");
        assert_eq!(two.ids(), ["1,3,4", "2"]);
        client.run("START TRANSACTION READ ONLY");
        assert_eq!(client.value("SELECT COUNT(*) FROM one.t"), "3");
        assert_eq!(client.value("SELECT COUNT(*) FROM two.t"), "1");
        assert_eq!(number(&mut client, "INSERT INTO two.t VALUES (5, 0)"), 1792);
        client.run("COMMIT");
        drop(client);
        two.door.wait_unused();
        two.clean();
    }
}

#[test]
fn a_client_that_leaves_leaves_nothing() {
    for two in Two::farms() {
        let mut client = two.client();
        client.run("BEGIN");
        client.run("INSERT INTO one.t VALUES (1, 0)");
        client.run("INSERT INTO two.t VALUES (2, 0)");
        drop(client);
        two.door.wait_unused();
        assert_eq!(two.door.counter("xa_rollback_on_close"), 1);
        assert_eq!(two.ids(), ["", ""]);
        let mut client = two.client();
        client.run("INSERT INTO two.t VALUES (3, 0)");
        client.run("INSERT INTO one.t VALUES (3, 0)");
        assert_eq!(two.ids(), ["3", "3"]);
        two.clean();
    }
}

#[test]
fn a_session_chooses_what_dist_txn_is() {
    for two in Two::farms() {
        let mut client = two.client();
        assert_eq!(client.value("SELECT @@heddle_atomic"), "xa");
        assert_eq!(number(&mut client, "SET heddle_atomic = 'some'"), 1231);
        client.run("SET heddle_atomic = 'single'");
        assert_eq!(client.value("SELECT @@heddle_atomic"), "single");
        client.run("BEGIN");
        client.run("INSERT INTO one.t VALUES (1, 0)");
        assert_eq!(number(&mut client, "INSERT INTO two.t VALUES (1, 0)"), 1105);
        client.run("COMMIT");
        assert_eq!(two.ids(), ["1", ""]);
        client.run("SET heddle_atomic = 'best-effort'");
        client.run("BEGIN");
        client.run("INSERT INTO one.t VALUES (2, 0)");
        client.run("INSERT INTO two.t VALUES (2, 0)");
        let marks = "SELECT COUNT(*) FROM heddle.mark WHERE id <> X'00'";
        client.run("COMMIT");
        assert_eq!(two.ids(), ["1,2", "2"]);
        assert_eq!(two.stage.primary.client().value(marks), "0", "no decision");
        client.run("SET heddle_atomic = DEFAULT");
        assert_eq!(client.value("SELECT @@heddle_atomic"), "xa");
        two.clean();
    }
}

#[test]
fn what_is_set_for_one_transaction_holds_on_all_groups() {
    for two in Two::farms() {
        let mut client = two.client();
        client.run("SET TRANSACTION READ ONLY");
        client.run("BEGIN");
        assert_eq!(client.value("SELECT COUNT(*) FROM one.t"), "0");
        assert_eq!(number(&mut client, "INSERT INTO two.t VALUES (1, 0)"), 1792);
        assert_eq!(number(&mut client, "INSERT INTO one.t VALUES (1, 0)"), 1792);
        client.run("COMMIT");
        client.run("SET TRANSACTION ISOLATION LEVEL READ COMMITTED");
        client.run("BEGIN");
        for name in ["one", "two"] {
            let count = format!("SELECT COUNT(*) FROM {name}.t");
            assert_eq!(client.value(&count), "0");
            two.client()
                .run(&format!("INSERT INTO {name}.t VALUES (2, 0)"));
            assert_eq!(client.value(&count), "1", "{name} shows what is committed");
        }
        client.run("COMMIT");
        client.run("BEGIN");
        assert_eq!(client.value("SELECT COUNT(*) FROM one.t"), "1");
        assert_eq!(client.value("SELECT COUNT(*) FROM two.t"), "1");
        two.client().run("DELETE FROM two.t");
        assert_eq!(client.value("SELECT COUNT(*) FROM two.t"), "1", "only once");
        client.run("COMMIT");
        two.clean();
    }
}

/// What the client's XA RECOVER lists: names without what else there is.
#[track_caller]
fn recovered(client: &mut Client) -> Vec<String> {
    let rows = client.rows("XA RECOVER");
    let mut names: Vec<String> = rows
        .into_iter()
        .filter_map(|row| row.into_iter().nth(3)?)
        .collect();
    names.sort();
    names
}

#[test]
fn xa_of_the_clients_own_is_over_both_groups() {
    for two in Two::farms() {
        let mut client = two.client();
        for (n, end) in [(1, "XA COMMIT 'a'"), (2, "XA ROLLBACK 'a'")] {
            client.run("XA START 'a'");
            client.run(&format!("INSERT INTO two.t VALUES ({n}, 0)"));
            client.run("SAVEPOINT s");
            client.run(&format!("INSERT INTO one.t VALUES ({}, 0)", n + 10));
            client.run("ROLLBACK TO s");
            client.run(&format!("INSERT INTO one.t VALUES ({n}, 0)"));
            client.run("XA END 'a'");
            client.run("XA PREPARE 'a'");
            assert_eq!(two.stage.primary.client().rows("XA RECOVER").len(), 1);
            assert_eq!(two.stage.replica.client().rows("XA RECOVER").len(), 1);
            assert_eq!(recovered(&mut client), ["a"], "under the client's name");
            assert_eq!(recovered(&mut two.client()), ["a"], "and to others");
            client.run(end);
            assert_eq!(two.ids(), ["1", "1"], "{end}");
            assert_eq!(recovered(&mut client), Vec::<String>::new());
            two.nothing_is_prepared();
        }
        client.run("XA BEGIN 0x62,X'00ff',7");
        client.run("INSERT INTO one.t VALUES (3, 0)");
        client.run("INSERT INTO two.t VALUES (3, 0)");
        client.run("XA END 'b',0x00ff,7");
        client.run("XA COMMIT 'b',X'00ff',7 ONE PHASE");
        assert_eq!(two.ids(), ["1,3", "1,3"]);
        client.run("XA START 'c'");
        client.run("INSERT INTO one.t VALUES (4, 0)");
        client.run("INSERT INTO two.t VALUES (4, 0)");
        client.run("XA END 'c'");
        client.run("XA START 'c' RESUME");
        client.run("INSERT INTO one.t VALUES (5, 0)");
        client.run("XA END 'c'");
        client.run("XA ROLLBACK 'c'");
        assert_eq!(two.ids(), ["1,3", "1,3"]);
        // The session goes on as any.
        client.run("BEGIN");
        client.run("INSERT INTO one.t VALUES (6, 0)");
        client.run("INSERT INTO two.t VALUES (6, 0)");
        client.run("COMMIT");
        assert_eq!(two.ids(), ["1,3,6", "1,3,6"]);
        drop(client);
        two.door.wait_unused();
        two.clean();
    }
}

#[test]
fn xa_of_the_clients_own_on_one_group_or_none() {
    for two in Two::farms() {
        let mut client = two.client();
        for name in ["one", "two"] {
            client.run("XA START 'a'");
            client.run(&format!("INSERT INTO {name}.t VALUES (1, 0)"));
            client.run("XA END 'a'");
            client.run("XA PREPARE 'a'");
            assert_eq!(recovered(&mut client), ["a"]);
            client.run("XA COMMIT 'a'");
            client.run("XA START 'a'");
            client.run(&format!("INSERT INTO {name}.t VALUES (2, 0)"));
            client.run("XA END 'a'");
            client.run("XA COMMIT 'a' ONE PHASE");
        }
        assert_eq!(two.ids(), ["1,2", "1,2"]);
        for end in ["XA COMMIT 'a' ONE PHASE", "XA ROLLBACK 'a'"] {
            client.run("XA START 'a'");
            client.run("XA END 'a'");
            client.run(end);
        }
        client.run("XA START 'a'");
        client.run("XA END 'a'");
        client.run("XA PREPARE 'a'");
        assert_eq!(recovered(&mut client), ["a"], "a promise, of nothing");
        client.run("XA COMMIT 'a'");
        // What was only read on one of them is no reason to keep it.
        client.run("XA START 'a'");
        assert_eq!(client.value("SELECT COUNT(*) FROM one.t"), "2");
        client.run("INSERT INTO two.t VALUES (3, 0)");
        client.run("XA END 'a'");
        client.run("XA PREPARE 'a'");
        client.run("XA COMMIT 'a'");
        client.run("XA START 'a'");
        client.run("INSERT INTO one.t VALUES (3, 0)");
        assert_eq!(client.value("SELECT COUNT(*) FROM two.t"), "3");
        client.run("XA END 'a'");
        client.run("XA COMMIT 'a' ONE PHASE");
        assert_eq!(two.ids(), ["1,2,3", "1,2,3"]);
        drop(client);
        two.door.wait_unused();
        two.clean();
    }
}

#[test]
fn xa_in_the_wrong_order_is_told_as_by_one_server() {
    for two in Two::farms() {
        let mut client = two.client();
        let mut refused = |statements: &[(&str, u16)]| {
            for (text, wanted) in statements {
                match wanted {
                    0 => drop(client.run(text)),
                    wanted => assert_eq!(number(&mut client, text), *wanted, "{text}"),
                }
            }
        };
        refused(&[
            ("BEGIN", 0),
            ("XA START 'a'", 1400),
            ("XA COMMIT 'z'", 1400),
            ("ROLLBACK", 0),
            ("XA START 'a' JOIN", 1398),
            ("XA START 'a','b',1212435505", 1398),
            ("XA START a", 1064),
            ("XA START 'a'", 0),
            ("XA START 'b'", 1399),
            ("XA PREPARE 'a'", 1399),
            ("XA COMMIT 'a'", 1399),
            ("XA ROLLBACK 'a'", 1399),
            ("XA END 'b'", 1397),
            ("INSERT INTO one.t VALUES (1, 0)", 0),
            ("INSERT INTO one.t VALUES (1, 0)", 1062),
            ("INSERT INTO two.t VALUES (1, 0)", 0),
            ("BEGIN", 1399),
            ("COMMIT", 1399),
            ("ROLLBACK", 1399),
            ("CREATE TABLE one.u (a INT)", 1399),
            ("LOCK TABLES one.t WRITE", 1399),
            ("XA END 'a' SUSPEND", 1398),
            ("XA END 'a'", 0),
            ("INSERT INTO one.t VALUES (2, 0)", 1399),
            ("SELECT * FROM two.t", 1399),
            ("SAVEPOINT s", 1399),
            ("XA COMMIT 'a'", 1399),
            ("XA PREPARE 'b'", 1397),
            ("XA PREPARE 'a'", 0),
            ("INSERT INTO two.t VALUES (2, 0)", 1399),
            ("BEGIN", 1399),
            ("XA COMMIT 'b'", 1399),
            ("XA COMMIT 'a' ONE PHASE", 1398),
            ("XA COMMIT 'a'", 0),
            ("DO 1", 0),
        ]);
        assert_eq!(two.ids(), ["1", "1"]);
        two.clean();
    }
}

#[test]
fn xa_of_which_a_part_is_lost_can_only_be_rolled_back() {
    for two in Two::farms() {
        let mut client = two.client();
        client.run("XA START 'a'");
        client.run("INSERT INTO one.t VALUES (1, 0)");
        client.run("INSERT INTO two.t VALUES (2, 0)");
        end_connections(&mut two.stage.replica.client());
        let lost = number(&mut client, "INSERT INTO two.t VALUES (3, 0)");
        assert!([1213, 1105].contains(&lost), "{lost}");
        assert_eq!(two.ids(), ["", ""]);
        assert_eq!(number(&mut client, "INSERT INTO one.t VALUES (4, 0)"), 1399);
        assert_eq!(number(&mut client, "XA END 'a'"), 1402);
        assert_eq!(number(&mut client, "XA PREPARE 'a'"), 1399);
        client.run("XA ROLLBACK 'a'");
        client.run("INSERT INTO one.t VALUES (5, 0)");
        // The loss is found by XA PREPARE itself.
        client.run("XA START 'a'");
        client.run("INSERT INTO one.t VALUES (1, 0)");
        client.run("INSERT INTO two.t VALUES (2, 0)");
        client.run("XA END 'a'");
        end_connections(&mut two.stage.replica.client());
        assert_eq!(number(&mut client, "XA PREPARE 'a'"), 1402);
        assert_eq!(two.ids(), ["5", ""]);
        // A session that ends leaves what it prepared, and nothing else.
        client.run("XA START 'a'");
        client.run("INSERT INTO one.t VALUES (1, 0)");
        client.run("INSERT INTO two.t VALUES (2, 0)");
        drop(client);
        two.door.wait_unused();
        two.nothing_is_prepared();
        let mut client = two.client();
        client.run("XA START 'a'");
        client.run("INSERT INTO one.t VALUES (1, 0)");
        client.run("INSERT INTO two.t VALUES (2, 0)");
        client.run("XA END 'a'");
        client.run("XA PREPARE 'a'");
        drop(client);
        two.door.wait_unused();
        assert_eq!(recovered(&mut two.client()), ["a"]);
    }
}

/// A connection that breaks on another group, under a command that touches no rows there, leaves nothing
/// of the transaction open.
#[test]
fn what_is_lost_elsewhere_leaves_nothing_open() {
    for two in Two::farms() {
        let mut client = two.client();
        assert_eq!(client.value("SELECT COUNT(*) FROM two.t"), "0");
        client.run("BEGIN");
        client.run("INSERT INTO one.t VALUES (1, 0)");
        end_connections(&mut two.stage.replica.client());
        let insert = client.prepare("INSERT INTO two.t VALUES (?, 0)");
        assert!(insert.is_err(), "nobody looks for another server here");
        client.run("ROLLBACK");
        client.run("BEGIN");
        client.run("INSERT INTO one.t VALUES (2, 0)");
        client.run("COMMIT");
        assert_eq!(two.ids(), ["2", ""]);
        two.clean();
    }
}
