//! Transactions over two groups through one door, on real servers of both engines: database `one` is on
//! the first group, `two` on the second.

use std::sync::Arc;

use farm::Sharding;
use testkit::client::Failure;
use testkit::{Client, Door, Release, Stage};

struct Two {
    stage: Stage,
    door: Door,
}

fn farms() -> Vec<Two> {
    let releases = [Release::Installed, Release::MySql80];
    let stages = releases.into_iter().filter_map(Stage::start_with);
    stages.map(Two::new).collect()
}

impl Two {
    fn new(stage: Stage) -> Two {
        stage.let_decide();
        for (server, name) in [(&stage.primary, "one"), (&stage.replica, "two")] {
            let mut client = server.client();
            client.run(&format!("CREATE DATABASE {name}"));
            client.run(&format!(
                "CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT NOT NULL)"
            ));
            client.run("CREATE DATABASE both_of_them");
        }
        // The MySQL that is installed may be older than its safe XA.
        let door = stage.door_with(|tuning| tuning.settings.crossings.unsafe_xa = true);
        door.spread();
        door.publish(|snapshot| {
            let mut sharding = Sharding::new(1, Vec::new());
            sharding.assign("one", "g1".into());
            sharding.assign("two", "g2".into());
            snapshot.sharding = Some(Arc::new(sharding));
        });
        Two { stage, door }
    }

    /// The ids that stand in both tables, past the door.
    fn ids(&self) -> [String; 2] {
        let ids =
            |name: &str| format!("SELECT COALESCE(GROUP_CONCAT(id ORDER BY id), '') FROM {name}.t");
        [
            self.stage.primary.client().value(&ids("one")),
            self.stage.replica.client().value(&ids("two")),
        ]
    }

    /// Nothing is left prepared; empties the tables.
    #[track_caller]
    fn clean(&self) {
        for (server, name) in [(&self.stage.primary, "one"), (&self.stage.replica, "two")] {
            let mut client = server.client();
            assert_eq!(client.rows("XA RECOVER"), Vec::<Vec<Option<String>>>::new());
            client.run(&format!("DELETE FROM {name}.t"));
        }
    }

    fn client(&self) -> Client {
        self.door.client()
    }
}

#[track_caller]
fn number(client: &mut Client, sql: &str) -> u16 {
    client.error(sql)
}

#[test]
fn both_or_none() {
    for two in farms() {
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
    for two in farms() {
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
        assert_eq!(
            two.stage.primary.client().value(marks),
            "0",
            "one writer needs no row"
        );
        two.clean();
    }
}

#[test]
fn savepoints_are_over_all_groups() {
    for two in farms() {
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
    for two in farms() {
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
    for two in farms() {
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
    for two in farms() {
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

/// Ends the connections of the door's to this server.
fn end_connections(admin: &mut Client) {
    let ask = "SELECT id FROM information_schema.processlist \
               WHERE id <> CONNECTION_ID() AND user = 'root' AND command = 'Sleep'";
    let rows = admin.rows(ask);
    assert!(!rows.is_empty(), "the door has connections there");
    for id in rows.into_iter().filter_map(|row| row[0].clone()) {
        admin.run(&format!("KILL {id}"));
    }
}

#[test]
fn a_lost_part_undoes_the_others() {
    for two in farms() {
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
    for two in farms() {
        two.door
            .tune(|live| live.settings.crossings.atomic = session::Atomic::Single);
        let mut client = two.client();
        client.run("BEGIN");
        client.run("INSERT INTO one.t VALUES (1, 0)");
        assert_eq!(number(&mut client, "INSERT INTO two.t VALUES (2, 0)"), 1105);
        client.run("INSERT INTO one.t VALUES (3, 0)");
        client.run("COMMIT");
        assert_eq!(two.ids(), ["1,3", ""]);
        two.door
            .tune(|live| live.settings.crossings.atomic = session::Atomic::BestEffort);
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
    for two in farms() {
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
