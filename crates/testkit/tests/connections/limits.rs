//! The SQL door: limits on time and connections, and who is served first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use testkit::client::{Failure, Login};
use testkit::door::account;
use testkit::{Client, Door, Release, Stage, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);

/// The failure's number and SQLSTATE.
#[track_caller]
fn state(answer: Result<impl std::fmt::Debug, Failure>) -> (u16, String) {
    match answer {
        Err(Failure::Server {
            number, sqlstate, ..
        }) => (number, sqlstate),
        other => panic!("expected an error of the server, got {other:?}"),
    }
}

fn late_statements_end(release: Release) {
    let Some(stage) = Stage::start_with(release) else {
        return;
    };
    stage.database("limits");
    stage.everywhere("CREATE TABLE limits.t (a INT)");
    stage.everywhere("CREATE TABLE limits.r (a INT)");
    let rows: Vec<String> = (0..500).map(|n| format!("({n})")).collect();
    stage.everywhere(&format!("INSERT INTO limits.r VALUES {}", rows.join(",")));
    let door = Door::start(&[&stage.primary], |tuning| {
        // Statements that do next to nothing take so long on no machine.
        tuning.settings.statement_timeout_ms = 1_500;
        tuning.settings.pool.connections_max = 1;
    });
    let mut client = door.client();
    // Killed functions only give NULL: a query has to go over rows.
    let read = "SELECT COUNT(*) FROM limits.r a, limits.r b, limits.r c, limits.r d, limits.r e \
                WHERE a.a + b.a + c.a + d.a + e.a > 0";
    let write = &format!("INSERT INTO limits.t {read}")[..];
    for late in [write, read] {
        assert_eq!(client.error(late), 1317, "{late}");
    }
    let statement = client.prepare(write).expect("prepared");
    assert_eq!(state(client.execute(&statement, &[])).0, 1317);
    // Within a transaction only the statement ends.
    client.run("BEGIN");
    client.run("INSERT INTO limits.t VALUES (5)");
    assert_eq!(client.error(write), 1317);
    client.run("COMMIT");
    assert_eq!(client.value("SELECT GROUP_CONCAT(a) FROM limits.t"), "5");
    assert_eq!(door.counter("statements_timed_out"), 4);
    client.quit();
    door.wait_unused();
}

#[test]
fn late_statements_end_mariadb_10() {
    late_statements_end(Release::Installed);
}

#[test]
fn late_statements_end_mariadb_11() {
    late_statements_end(Release::MariaDb114);
}

#[test]
fn late_statements_end_mysql_8() {
    late_statements_end(Release::MySql80);
}

/// Whoever names a database into which another one was let a moment ago needs no connection for it, and one that names
/// another does.
#[test]
fn a_login_with_a_database_that_is_known_needs_no_connection() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door_with(|tuning| {
        tuning.settings.pool.connections_max = 1;
        // Long enough for a connection that comes back on a busy machine.
        tuning.settings.pool.wait_ms = 2_000;
    });
    let into = |database: &'static str| Login {
        database: Some(database),
        ..Login::default()
    };
    let mut holder = door.client();
    wait_until(PATIENCE, "it is let in while no connection is free", || {
        door.login(&into("stage")).expect("it is let in").quit();
        holder.run("BEGIN");
        holder.run("INSERT INTO stage.who SELECT 'nobody' FROM stage.who WHERE FALSE");
        let known = door.login(&into("stage"));
        assert_eq!(state(door.login(&into("mysql")).map(drop)).0, 1040);
        holder.run("COMMIT");
        known.is_ok()
    });
    // The server is asked anew where clients changed databases.
    holder.run("CREATE DATABASE known");
    door.login(&into("known")).expect("it is let in").quit();
    holder.run("DROP DATABASE known");
    assert_eq!(state(door.login(&into("known")).map(drop)).0, 1049);
    holder.quit();
    door.wait_unused();
}

#[test]
fn the_wait_for_a_connection_is_bounded() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door_with(|tuning| {
        tuning.settings.pool.connections_max = 1;
        tuning.settings.pool.wait_ms = 1_000;
    });
    let mut holder = door.client();
    holder.run("BEGIN");
    holder.run("INSERT INTO stage.who SELECT 'nobody' FROM stage.who WHERE FALSE");
    let mut client = door.client();
    let full = (1040, "08004".to_owned());
    assert_eq!(state(client.query("DO 1")), full);
    assert_eq!(state(client.prepare("DO ?")), full);
    assert_eq!(door.counter("pool_waits_failed"), 2);
    holder.run("COMMIT");
    client.run("DO 1");
}

/// Runs the text over and over until `end`, counting.
fn hammer(mut client: Client, text: &'static str, end: Arc<AtomicBool>, done: Arc<AtomicU64>) {
    while !end.load(Ordering::Relaxed) {
        client.query(text).expect("the statement is right");
        done.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_user_with_many_clients_does_not_keep_another_waiting() {
    let Some(stage) = Stage::shared() else { return };
    stage.everywhere("CREATE OR REPLACE USER limits_one@localhost");
    let door = stage.door_with(|tuning| {
        tuning.settings.pool.connections_max = 2;
        tuning.accounts = vec![account("limits_one", "localhost", "")];
    });
    let (end, done) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let many: Vec<_> = (0..60)
        .map(|_| {
            let (client, end, done) = (door.client(), end.clone(), done.clone());
            std::thread::spawn(move || hammer(client, "DO SLEEP(0.002)", end, done))
        })
        .collect();
    let login = Login {
        user: "limits_one",
        ..Login::default()
    };
    let mut one = door.login(&login).expect("the account may log in");
    wait_until(PATIENCE, "the many are under way", || {
        done.load(Ordering::Relaxed) > 200
    });
    let before = done.load(Ordering::Relaxed);
    for _ in 0..20 {
        one.run("DO 1");
    }
    let meanwhile = done.load(Ordering::Relaxed) - before;
    end.store(true, Ordering::Relaxed);
    for thread in many {
        thread.join().expect("no statement failed");
    }
    // In the order of arrival it would have been 60 for each. Some run while the one has nothing to run: its
    // thread waits for a processor like all others.
    assert!(
        meanwhile < 20 * 40,
        "{meanwhile} statements of the others came first"
    );
}

#[test]
fn who_does_not_read_is_ended_and_its_connection_serves_others() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door_with(|tuning| {
        tuning.settings.pool.connections_max = 1;
        tuning.settings.client_write_timeout_s = 1;
        tuning.settings.pool.wait_ms = 60_000;
    });
    let mut slow = door.client();
    slow.run("BEGIN");
    let large = "SELECT REPEAT('x', 10000000) FROM stage.who a, \
                 (SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4) b";
    slow.send_command(Command::Query, large.as_bytes())
        .expect("sent");
    // Only the end of the other one frees the connection.
    let mut client = door.client();
    client.run("DO 1");
    assert_eq!(door.counter("clients_stopped_reading"), 1);
    assert!(slow.is_closed_within(PATIENCE));
    drop(client);
    door.wait_unused();
}

#[test]
fn who_stops_within_a_packet_is_told_and_ended() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door_with(|tuning| tuning.settings.client_read_timeout_s = 1);
    let mut idle = door.client();
    for half in [&b"\x05"[..], b"\x05\0\0\0", b"\x05\0\0\0\x03DO"] {
        let mut client = door.client();
        client.send_bytes(half).expect("sent");
        let _ = client.set_read_timeout(Some(PATIENCE));
        let bytes = client.read_bytes(1000).expect("an answer");
        assert_eq!(
            bytes.get(5..7),
            Some(&1159u16.to_le_bytes()[..]),
            "{bytes:?}"
        );
        assert!(client.is_closed_within(PATIENCE));
    }
    assert_eq!(door.counter("clients_stopped_sending"), 3);
    // Between commands a client may be silent for longer.
    idle.run("DO 1");
}

#[test]
fn each_core_can_serve_with_fewer_connections_than_cores() {
    let Some(stage) = Stage::shared() else { return };
    for limit in [1, 3] {
        let door = stage.door_with(|tuning| {
            tuning.threads = 2;
            tuning.settings.pool.connections_max = limit;
        });
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let mut client = door.client();
                std::thread::spawn(move || {
                    for _ in 0..20 {
                        client.run("DO 1");
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no statement failed");
        }
        wait_until(PATIENCE, "the gauges", || door.counter("pool_opened") > 0);
        assert!(door.counter("pool_opened") <= 1 + limit as u64);
    }
}

#[test]
fn who_is_silent_for_longer_than_its_own_wait_timeout_is_ended() {
    for release in Release::ALL {
        let Some(stage) = Stage::start_with(release) else {
            continue;
        };
        stage.everywhere("CREATE TABLE stage.t (a INT) ENGINE=InnoDB");
        let door = stage.door();
        let mut patient = door.client();
        let mut silent = door.client();
        silent.run("SET SESSION wait_timeout = 1, interactive_timeout = 1000");
        assert_eq!(silent.value("SELECT @@wait_timeout"), "1");
        silent.run("BEGIN");
        silent.run("INSERT INTO stage.t VALUES (1)");
        let end = silent
            .read_packet()
            .expect_err("the servers of this age say nothing");
        assert!(matches!(end, Failure::Io(_)), "{end}");
        assert_eq!(patient.value("SELECT @@wait_timeout"), "28800");
        wait_until(PATIENCE, "its transaction is over", || {
            patient.value("SELECT COUNT(*) FROM stage.t FOR UPDATE") == "0"
        });
    }
}

/// A login takes over the server's global value; an interactive client has one of its own.
#[test]
fn who_is_silent_for_longer_than_the_servers_wait_timeout_is_ended() {
    for release in Release::ALL {
        let Some(stage) = Stage::start_with(release) else {
            continue;
        };
        let door = stage.door();
        let mut patient = door.client();
        assert_eq!(patient.value("SELECT @@wait_timeout"), "28800");
        door.client().run("SET GLOBAL wait_timeout = 1");
        let interactive = Login {
            capabilities: Login::default().capabilities | Capabilities::INTERACTIVE,
            ..Login::default()
        };
        let mut typist = door.login(&interactive).expect("logged in");
        assert_eq!(typist.value("SELECT @@wait_timeout"), "28800");
        let mut silent = door.client();
        assert_eq!(silent.value("SELECT @@wait_timeout"), "1");
        let end = silent.read_packet().expect_err("it was silent");
        assert!(matches!(end, Failure::Io(_)), "{end}");
        assert_eq!(typist.value("SELECT 1"), "1");
        assert_eq!(patient.value("SELECT @@wait_timeout"), "28800");
        // Connections that the server ended meanwhile are no client's loss.
        assert_eq!(door.client().value("SELECT @@wait_timeout"), "1");
    }
}

#[test]
fn what_nobody_waits_for_any_more_is_ended_unless_it_writes() {
    let Some(stage) = Stage::start() else { return };
    stage.database("limits_gone");
    stage.everywhere("CREATE TABLE limits_gone.t (a INT)");
    let door = Door::start(&[&stage.primary], |_| {});
    let mut holder = stage.primary.client();
    holder.run("DO GET_LOCK('mine', 0)");
    let mut waiting = door.client();
    waiting
        .send_command(Command::Query, b"SELECT GET_LOCK('mine', 3600)")
        .expect("sent");
    let mut writing = door.client();
    let slow = "INSERT INTO limits_gone.t SELECT SLEEP(4)";
    writing
        .send_command(Command::Query, slow.as_bytes())
        .expect("sent");
    let running = |text: &str| {
        let list = stage.primary.client().rows("SHOW FULL PROCESSLIST");
        list.iter()
            .any(|row| row.iter().flatten().any(|cell| cell.ends_with(text)))
    };
    wait_until(PATIENCE, "both run", || {
        running("SELECT GET_LOCK('mine', 3600)") && running(slow)
    });
    drop(waiting);
    drop(writing);
    wait_until(PATIENCE, "the lock is not waited for any more", || {
        !running("SELECT GET_LOCK('mine', 3600)")
    });
    wait_until(PATIENCE, "the row is written", || {
        stage
            .primary
            .client()
            .value("SELECT COUNT(*) FROM limits_gone.t")
            == "1"
    });
    assert_eq!(door.counter("statements_abandoned"), 1);
    door.wait_unused();
}
