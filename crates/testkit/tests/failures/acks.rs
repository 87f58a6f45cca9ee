//! The SQL door in front of servers that cannot make a commit wait for a replica: the router holds the
//! OK until a replica has it.

use std::thread;
use std::time::Duration;

use farm::Acks;
use testkit::{Client, Door, Release, Server, Stage, wait_until};

const PATIENCE: Duration = Duration::from_secs(20);

/// A primary and a replica that follows it, and a door that holds commits for at most so long.
fn following(wait_ms: u64) -> Option<(Stage, Door)> {
    let stage = Stage::start_with(Release::MySql80)?;
    stage.database("acks");
    stage.everywhere("CREATE TABLE acks.t (a INT PRIMARY KEY)");
    stage.everywhere("RESET MASTER");
    let port = stage.primary.address().port();
    let mut replica = stage.replica.client();
    replica.run(&format!(
        "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, MASTER_USER = 'root', \
         MASTER_AUTO_POSITION = 1"
    ));
    replica.run("START SLAVE");
    let door = stage.door_with(|tuning| tuning.settings.failover_wait_ms = 0);
    door.regroup(|group| group.acks = Acks::Router { wait_ms });
    Some((stage, door))
}

fn count(server: &Server) -> String {
    server.client().value("SELECT COUNT(*) FROM acks.t")
}

/// Runs a text on a thread, until its answer is there.
fn later(mut client: Client, sql: &'static str) -> thread::JoinHandle<(bool, Client)> {
    thread::spawn(move || (client.query(sql).is_ok(), client))
}

#[test]
fn an_ok_comes_when_a_replica_has_the_commit() {
    let Some((stage, door)) = following(600_000) else {
        return;
    };
    let mut client = door.client_in("acks");
    for (sql, rows) in [
        ("INSERT INTO t VALUES (1)", 1),
        ("INSERT INTO t VALUES (2), (3)", 3),
        ("BEGIN; INSERT INTO t VALUES (4); COMMIT", 4),
    ] {
        client.query(sql).expect("committed");
        assert_eq!(count(&stage.replica), rows.to_string(), "{sql}");
    }
    let statement = client.prepare("INSERT INTO t VALUES (?)").expect("ok");
    client.execute(&statement, &[5.into()]).expect("committed");
    assert_eq!(count(&stage.replica), "5");
    assert!(door.counter("commits_held") >= 1);
    let mut replica = stage.replica.client();
    replica.run("STOP SLAVE SQL_THREAD");
    let writers: Vec<_> = ["INSERT INTO t VALUES (6)", "INSERT INTO t VALUES (7)"]
        .into_iter()
        .map(|sql| later(door.client_in("acks"), sql))
        .collect();
    wait_until(PATIENCE, "they are committed", || {
        count(&stage.primary) == "7"
    });
    assert!(writers.iter().all(|writer| !writer.is_finished()));
    // What writes nothing does not wait.
    assert_eq!(client.value("/*ms=master*/ SELECT COUNT(*) FROM t"), "7");
    client.run("UPDATE t SET a = 6 WHERE a = 6");
    replica.run("START SLAVE SQL_THREAD");
    for writer in writers {
        assert!(writer.join().expect("no panic").0);
    }
    assert_eq!(count(&stage.replica), "7");
    drop(client);
    door.wait_unused();
}

#[test]
fn the_last_replica_is_waited_for_as_long_as_is_set() {
    let Some((stage, door)) = following(30) else {
        return;
    };
    let mut client = door.client_in("acks");
    client.run("INSERT INTO t VALUES (1)");
    stage.replica.client().run("STOP SLAVE SQL_THREAD");
    client.run("INSERT INTO t VALUES (2)");
    assert!(door.counter("commits_held_in_vain") >= 1);
    // The group goes on without replicas.
    door.regroup(|group| group.acks = Acks::Router { wait_ms: 600_000 });
    let writer = later(client, "INSERT INTO t VALUES (3)");
    wait_until(PATIENCE, "it is committed", || count(&stage.primary) == "3");
    door.regroup(|group| group.acks = Acks::Servers);
    door.turned();
    assert!(writer.join().expect("no panic").0);
}

#[test]
fn a_commit_that_is_held_when_its_primary_is_cut_off_is_no_ok() {
    let Some((stage, door)) = following(600_000) else {
        return;
    };
    stage.replica.client().run("STOP SLAVE SQL_THREAD");
    let writer = later(door.client_in("acks"), "INSERT INTO t VALUES (1)");
    wait_until(PATIENCE, "it is committed", || count(&stage.primary) == "1");
    assert!(!writer.is_finished());
    door.cut(0);
    assert!(!writer.join().expect("no panic").0, "nobody knows");
    let killed = door.client_in("acks");
    let id = killed.connection_id;
    door.promote(1);
    door.promote(0);
    door.change(0, |server| server.health.alive = true);
    let writer = later(killed, "INSERT INTO t VALUES (2)");
    wait_until(PATIENCE, "it is committed", || count(&stage.primary) == "2");
    door.client().run(&format!("KILL {id}"));
    assert!(!writer.join().expect("no panic").0);
    door.wait_unused();
}
