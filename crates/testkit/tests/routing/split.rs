//! The SQL door: which server runs a statement, and what happens when one is gone.

use std::collections::BTreeMap;
use std::time::Duration;

use farm::{Mode, Status};
use session::{Failover, Level, Stickiness, Transient};
use testkit::client::{Login, Reply};
use testkit::staging::third;
use testkit::{Client, Door, Release, Stage, wait_until};

const WHO: &str = "SELECT name FROM stage.who";

/// How often each server answers.
fn answers(client: &mut Client, sql: &str, times: usize) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for _ in 0..times {
        *counts.entry(client.value(sql)).or_default() += 1;
    }
    counts
}

#[test]
fn reads_go_to_replicas_and_everything_else_to_the_primary() {
    for stage in &Stage::of_both_engines() {
        stage.database("route_kinds");
        stage.everywhere("CREATE TABLE route_kinds.t (a INT)");
        let door = stage.door();
        let mut client = door.client();
        let replica = [
            "SELECT name FROM stage.who",
            "(SELECT name FROM stage.who)",
            "WITH w AS (SELECT name FROM stage.who) SELECT * FROM w",
            "/*ms=slave*/ SELECT name FROM stage.who WHERE @@autocommit",
            "SELECT name FROM stage.who UNION SELECT name FROM stage.who",
        ];
        for sql in replica {
            assert_eq!(client.value(sql), "replica", "{sql}");
        }
        let primary = [
            "SELECT name FROM stage.who FOR UPDATE",
            "SELECT name FROM stage.who LOCK IN SHARE MODE",
            "/*ms=master*/ SELECT name FROM stage.who",
            "/*ms=strong*/ SELECT name FROM stage.who",
            "SELECT name FROM stage.who WHERE @@autocommit",
            "SELECT name FROM stage.who WHERE CONNECTION_ID() > 0",
            "SELECT name FROM stage.who WHERE LAST_INSERT_ID() = 0",
        ];
        for sql in primary {
            assert_eq!(client.value(sql), "primary", "{sql}");
        }
        client.value("/*ms=master*/ SELECT name FROM stage.who");
        assert_eq!(
            client.value("/*ms=last_used*/ SELECT name FROM stage.who"),
            "primary"
        );
        // What locks may be about to write, but nothing was written.
        assert_eq!(client.value(WHO), "replica");
        let mut client = door.client();
        client.rows("SELECT @@max_allowed_packet, @@session.sql_mode, CONNECTION_ID()");
        assert_eq!(client.value(WHO), "replica");
        client.run("BEGIN");
        assert_eq!(
            client.value("/*ms=slave*/ SELECT name FROM stage.who"),
            "primary"
        );
        client.run("COMMIT");
        client.run("SET autocommit = 0");
        assert_eq!(client.value(WHO), "primary");
        client.run("SET autocommit = 1");
        assert_eq!(client.value(WHO), "replica");
        client.run("INSERT INTO route_kinds.t VALUES (1)");
        assert_eq!(client.value(WHO), "primary");
        assert_eq!(
            client.value("/*ms=slave*/ SELECT name FROM stage.who"),
            "replica"
        );
        let other = format!("/*ms=session*/ {WHO}");
        assert_eq!(door.client().value(&other), "replica");
        // It would be asked first whether it has what was written.
        let explained = client.rows(&format!("HEDDLE EXPLAIN {WHO}")).remove(0);
        let last: Vec<Option<&str>> = explained
            .iter()
            .skip(3)
            .take(3)
            .map(|cell| cell.as_deref())
            .collect();
        assert_eq!(last, [Some("client"), Some("Read"), Some("true")]);
    }
}

#[test]
fn weights_divide_the_reads() {
    for stage in &Stage::of_both_engines() {
        let Some(third) = third(stage.release) else {
            continue;
        };
        let door = Door::start(&[&stage.primary, &stage.replica, &third], |tuning| {
            tuning.weights = vec![1.0, 3.0, 1.0];
        });
        let counts = answers(&mut door.client(), WHO, 40);
        assert_eq!(
            counts,
            BTreeMap::from([("replica".to_owned(), 30), ("third".to_owned(), 10)])
        );
        door.change(1, |server| server.health.alive = false);
        assert_eq!(answers(&mut door.client(), WHO, 8).get("third"), Some(&8));
        door.change(2, |server| {
            (server.status, server.mode) = (Status::Spare, Mode::Offline)
        });
        assert_eq!(answers(&mut door.client(), WHO, 4).get("primary"), Some(&4));
        door.change(1, |server| server.health.alive = true);
        assert_eq!(answers(&mut door.client(), WHO, 4).get("replica"), Some(&4));
    }
}

#[test]
fn a_read_that_writes_is_repeated_on_the_primary() {
    for stage in &Stage::of_both_engines() {
        stage.database("route_write");
        stage.everywhere("CREATE TABLE route_write.t (a INT)");
        stage.everywhere(
            "CREATE FUNCTION route_write.f(n INT) RETURNS INT DETERMINISTIC MODIFIES SQL DATA \
             BEGIN INSERT INTO route_write.t VALUES (n); RETURN n; END",
        );
        let door = stage.door();
        let mut client = door.client_in("route_write");
        assert_eq!(client.value("SELECT f(1)"), "1");
        assert_eq!(door.counter("reads_corrected"), 1);
        assert_eq!(client.value(WHO), "primary", "the session has written");
        let mut other = door.client_in("route_write");
        let statement = other.prepare("SELECT f(?)").expect("prepared");
        assert_eq!(
            other
                .execute(&statement, &[2.into()])
                .expect("repeated")
                .len(),
            1
        );
        assert_eq!(other.value("SELECT f(3)"), "3");
        assert!(
            door.counter("reads_corrected") <= 2,
            "the shape is known by now"
        );
        assert_eq!(
            stage
                .primary
                .client()
                .value("SELECT SUM(a) FROM route_write.t"),
            "6"
        );
        assert_eq!(
            stage
                .replica
                .client()
                .value("SELECT COUNT(*) FROM route_write.t"),
            "0"
        );
        // Rows were on their way already when it began to write: this time the client hears of it.
        let numbers: Vec<String> = (1..=9000).map(|n| format!("({n})")).collect();
        stage.everywhere(&format!(
            "CREATE TABLE route_write.numbers (n INT PRIMARY KEY); INSERT INTO route_write.numbers VALUES {}",
            numbers.join(",")
        ));
        let long = "SELECT IF(n < 9000, REPEAT('x', 100), f(4)) FROM numbers ORDER BY n";
        let mut third = door.client_in("route_write");
        let first = third.query(long);
        assert!(first.is_ok() || first.is_err_and(|f| f.number() == 1792));
        assert!(third.query(long).is_ok(), "the shape is known by now");
    }
}

#[test]
fn dead_replicas_are_passed_over() {
    let Some(mut stage) = Stage::start() else {
        return;
    };
    let Some(mut third) = third(Release::Installed) else {
        return;
    };
    let door = Door::start(&[&stage.primary, &stage.replica, &third], |_| {});
    let mut clients: Vec<Client> = (0..4).map(|_| door.client()).collect();
    let prepared: Vec<_> = clients
        .iter_mut()
        .map(|c| c.prepare(WHO).expect("prepared"))
        .collect();
    for client in &mut clients {
        answers(client, WHO, 4);
    }
    third.kill();
    for client in &mut clients {
        assert_eq!(answers(client, WHO, 4).get("replica"), Some(&4));
    }
    stage.replica.kill();
    for (client, statement) in clients.iter_mut().zip(&prepared) {
        assert_eq!(answers(client, WHO, 4).get("primary"), Some(&4));
        assert_eq!(client.execute(statement, &[]).expect("executed").len(), 1);
    }
    stage.replica.restart();
    // Durability is relaxed here: kill -9 may have taken the row along.
    let mut direct = stage.replica.client();
    direct.run("DELETE FROM stage.who");
    direct.run("INSERT INTO stage.who VALUES ('replica')");
    let mut late = door.client();
    wait_until(Duration::from_secs(10), "the replica serves again", || {
        late.value(WHO) == "replica"
    });
}

#[test]
fn a_replica_that_freezes_a_login_is_passed_over() {
    let Some(mut stage) = Stage::start() else {
        return;
    };
    let door = stage.door_with(|tuning| tuning.settings.pool.connect_ms = 300);
    stage.replica.freeze();
    assert_eq!(door.client().value(WHO), "primary");
    stage.replica.thaw();
    assert_eq!(door.client().value(WHO), "replica");
}

#[test]
fn without_a_primary_writes_fail_and_reads_go_on() {
    let Some(mut stage) = Stage::start() else {
        return;
    };
    stage.database("route_down");
    stage.everywhere("CREATE TABLE route_down.t (a INT)");
    let door = stage.door();
    let mut client = door.client();
    let write = "INSERT INTO route_down.t VALUES (1)";
    client.run(write);
    // One that has no part in what its client's other connections wrote.
    let mut reader = door.client();
    reader.run("SET heddle_consistency = 'session'");
    stage.primary.kill();
    let failure = client.query(write).expect_err("no primary");
    // Its answer may have been lost, and nobody here can look it up.
    assert!(matches!(failure.number(), 1105 | 1429), "{failure}");
    let failure = client.query(write).expect_err("no primary");
    assert!(failure.to_string().starts_with("1429 (HY000)"), "{failure}");
    assert_eq!(reader.value(WHO), "replica");
    assert!(client.ping().is_ok());
    // Now the farm knows it too.
    door.change(0, |server| server.health.alive = false);
    let failure = client.query(write).expect_err("no primary");
    assert!(failure.to_string().starts_with("1290 (HY000)"), "{failure}");
    assert_eq!(reader.value(WHO), "replica");
    let login = Login {
        database: Some("stage"),
        ..Login::default()
    };
    assert_eq!(
        door.login(&login)
            .expect("a reader may come")
            .value("/*ms=session*/ SELECT name FROM who"),
        "replica"
    );
    door.change(1, |server| server.health.alive = false);
    let failure = reader.query(WHO).expect_err("nobody");
    assert!(failure.to_string().starts_with("1105 (HY000)"), "{failure}");
    stage.primary.restart();
    stage.primary.client().query("CREATE DATABASE IF NOT EXISTS route_down; CREATE TABLE IF NOT EXISTS route_down.t (a INT)").expect("made");
    door.change(0, |server| server.health.alive = true);
    client.run(write);
}

#[test]
fn transactions_that_only_read_may_be_a_replicas() {
    for stage in &Stage::of_both_engines() {
        stage.database("route_trx");
        stage.everywhere("CREATE TABLE route_trx.t (a INT)");
        let door = stage.door();
        let mut client = door.client();
        for begin in [
            "START TRANSACTION READ ONLY",
            "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
        ] {
            client.run(begin);
            assert_eq!(client.value(WHO), "replica");
            assert_eq!(
                client.value(&format!("/*ms=master*/ {WHO}")),
                "replica",
                "nothing moves"
            );
            let refused = client.query("INSERT INTO route_trx.t VALUES (1)");
            assert_eq!(
                refused.map_err(|failure| failure.number()).err(),
                Some(1792)
            );
            assert_eq!(client.value(WHO), "replica");
            client.run("COMMIT");
        }
        client.run("START TRANSACTION");
        assert_eq!(client.value(WHO), "primary");
        client.run("COMMIT");
        client.run("SET autocommit = 0");
        client.run("START TRANSACTION READ ONLY");
        assert_eq!(client.value(WHO), "replica");
        client.run("ROLLBACK");
        assert_eq!(client.value(WHO), "primary");
        client.run("COMMIT");

        let door = stage.door_with(|tuning| tuning.settings.reads.stickiness = Stickiness::Master);
        let mut client = door.client();
        client.run("START TRANSACTION READ ONLY");
        assert_eq!(client.value(WHO), "primary");
    }
}

/// A replica of MySQL says first that it is read-only itself.
#[test]
fn writes_in_transactions_that_only_read_are_refused_as_by_a_primary() {
    let Some(stage) = Stage::start_with(Release::MySql80) else {
        return;
    };
    stage.everywhere("CREATE DATABASE route_only");
    stage.everywhere("CREATE TABLE route_only.t (a INT)");
    stage
        .replica
        .client()
        .run("SET GLOBAL super_read_only = ON");
    let door = stage.door();
    let mut client = door.client();
    client.run("START TRANSACTION READ ONLY");
    assert_eq!(client.value(WHO), "replica");
    for write in [
        "INSERT INTO route_only.t VALUES (1)",
        "CREATE TABLE route_only.u (a INT)",
    ] {
        assert_eq!(client.error(write), 1792, "{write}");
    }
    assert_eq!(client.value(WHO), "replica");
    client.run("COMMIT");
    client.run("INSERT INTO route_only.t VALUES (1)");
}

#[test]
fn errors_that_pass_are_met_by_repetition() {
    for stage in &Stage::of_both_engines() {
        stage.database("route_retry");
        stage.everywhere("CREATE TABLE route_retry.t (a INT)");
        stage.everywhere(
            "CREATE PROCEDURE route_retry.p(enough INT) BEGIN INSERT INTO route_retry.t VALUES (1); \
             IF (SELECT COUNT(*) FROM route_retry.t) < enough THEN \
             SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1297, MESSAGE_TEXT = 'try again'; END IF; END",
        );
        let door = stage.door_with(|tuning| {
            tuning.settings.reads.transient = Transient {
                errors: [1297, 0, 0, 0, 0, 0, 0, 0],
                tries: 2,
                pause_us: 100,
            };
        });
        let mut client = door.client();
        client.run("CALL route_retry.p(3)");
        assert_eq!(door.counter("transient_error_retries"), 2);
        let failed = client.query("CALL route_retry.p(30)");
        assert_eq!(failed.map_err(|failure| failure.number()).err(), Some(1297));
        assert_eq!(door.counter("transient_error_retries"), 4);
        // Nobody knows what a transaction has lost: it is the client's to repeat.
        let mut client = door.client();
        client.run("BEGIN");
        let failed = client.query("CALL route_retry.p(30)");
        assert_eq!(failed.map_err(|failure| failure.number()).err(), Some(1297));
        assert_eq!(door.counter("transient_error_retries"), 4);
    }
}

/// The servers of the stage do not replicate, so the replica never has what was written.
#[test]
fn a_session_that_starts_anew_must_see_what_it_wrote() {
    for stage in &Stage::of_both_engines() {
        stage.database("route_anew");
        stage.everywhere("CREATE TABLE route_anew.t (a INT)");
        let door = stage.door();
        let mut client = door.client();
        client.run("INSERT INTO route_anew.t VALUES (1)");
        assert_eq!(client.value(WHO), "primary");
        client.reset().expect("a reset");
        assert_eq!(client.value(WHO), "primary");
        client
            .change_user(&Login::default())
            .expect("the same again");
        assert_eq!(client.value(WHO), "primary");
        // Only the client itself can take that back.
        client.run("SET heddle_token = DEFAULT");
        assert_eq!(client.value(WHO), "replica");
        // Nor is it forgotten that nobody knows what a statement has written.
        let half = "INSERT INTO route_anew.t VALUES (2), ((SELECT 1 UNION SELECT 2))";
        client.query(half).expect_err("it fails half-way");
        client.reset().expect("a reset");
        assert_eq!(client.value(WHO), "primary");
    }
}

#[test]
fn a_session_that_has_written_may_be_kept_on_the_primary() {
    for stage in &Stage::of_both_engines() {
        stage.database("route_mow");
        stage.everywhere("CREATE TABLE route_mow.t (a INT)");
        let door = stage.door_with(|tuning| {
            tuning.settings.reads.master_on_write = true;
            tuning.settings.consistency.level = Level::Eventual { max_lag_us: None };
        });
        let mut client = door.client();
        assert_eq!(client.value(WHO), "replica");
        client.run("INSERT INTO route_mow.t VALUES (1)");
        assert_eq!(client.value(WHO), "primary");
        assert_eq!(client.value(&format!("/*ms=slave*/ {WHO}")), "replica");
        assert_eq!(door.client().value(WHO), "replica");
    }
}

#[test]
fn what_becomes_of_a_read_whose_replica_is_gone_is_a_setting() {
    for stage in &Stage::of_both_engines() {
        let Some(third) = third(stage.release) else {
            continue;
        };
        let servers = [&stage.primary, &stage.replica, &third];
        let gone = testkit::ports::free_port();
        for (failover, expected) in [
            (Failover::LoopBeforeMaster, Ok("third")),
            (Failover::Master, Ok("primary")),
            (Failover::Disabled, Err(1429)),
        ] {
            let door = Door::start(&servers, |tuning| {
                tuning.settings.reads.failover = failover;
                tuning.weights = vec![1.0, 1000.0, 1.0];
            });
            door.change(1, |server| server.port = gone);
            let answer = door.client().query(WHO);
            let name = match answer.as_deref() {
                Ok([Reply::Rows(rows)]) => Ok(rows.text()[0][0].clone().unwrap_or_default()),
                Ok(_) => panic!("rows"),
                Err(failure) => Err(failure.number()),
            };
            assert_eq!(name, expected.map(str::to_owned), "{failover:?}");
        }
    }
}

#[test]
fn a_late_replica_is_raced_by_another() {
    for stage in &Stage::of_both_engines() {
        let Some(mut late) = third(stage.release) else {
            continue;
        };
        let servers = [&stage.primary, &late, &stage.replica];
        let door = Door::start(&servers, |tuning| {
            // One that is well is not so late on a busy machine.
            tuning.settings.reads.hedge_ms = 1_000;
            tuning.weights = vec![1.0, 1000.0, 1.0];
        });
        let mut client = door.client();
        assert_eq!(client.value(WHO), "third");
        late.freeze();
        assert_eq!(client.value(WHO), "replica");
        assert_eq!(door.counter("reads_hedged_won"), 1);
        late.thaw();
        // A slow statement is answered by one of them, whole, and nothing is left over.
        let slow = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 100)
            SELECT COUNT(*) FROM n, stage.who WHERE SLEEP(0.015) = 0";
        assert_eq!(client.value(slow), "100");
        client.quit();
        door.wait_unused();
    }
}

#[test]
fn races_begin_when_the_setting_says_so() {
    for stage in &Stage::of_both_engines() {
        let Some(mut late) = third(stage.release) else {
            continue;
        };
        let servers = [&stage.primary, &late, &stage.replica];
        let door = Door::start(&servers, |tuning| tuning.weights = vec![1.0, 1000.0, 1.0]);
        let mut client = door.client();
        assert_eq!(client.value(WHO), "third");
        door.tune(|in_force| in_force.settings.reads.hedge_ms = 1_000);
        late.freeze();
        assert_eq!(client.value(WHO), "replica");
        assert_eq!(door.counter("reads_hedged_won"), 1);
        late.thaw();
        client.quit();
        door.wait_unused();
    }
}
