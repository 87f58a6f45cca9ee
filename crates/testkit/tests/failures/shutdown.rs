//! A primary that is shut down in order or restarted, and connections that an administrator kills at
//! the server: clients see no more of it than of a crash.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use testkit::client::Failure;
use testkit::fate::fate_on;
use testkit::{Client, Door, Release, Stage, wait_until};

/// For what must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// Dropped, also by a failure, it ends the writers.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Writes of one client until it is told to stop: the ids that it was told, by its numbers.
fn writer(
    mut client: Client,
    first: usize,
    written: &AtomicUsize,
    over: &AtomicBool,
) -> Vec<(String, String)> {
    let mut all = Vec::new();
    while !over.load(SeqCst) {
        let b = first + all.len();
        let done = client.run(&format!("INSERT INTO stage.t (b) VALUES ({b})"));
        assert_eq!(done.affected_rows, 1);
        all.push((done.last_insert_id.to_string(), b.to_string()));
        written.fetch_add(1, SeqCst);
    }
    all
}

/// Runs a read that waits at the primary for a lock of `locker`.
fn read_in_flight(door: &Door, locker: &mut Client) -> thread::JoinHandle<(String, Client)> {
    locker.run("LOCK TABLES stage.locked WRITE");
    let mut client = door.client();
    let reader = thread::spawn(move || {
        let count = client.value("/*ms=master*/ SELECT COUNT(*) FROM stage.locked");
        (count, client)
    });
    wait_until(PATIENCE, "the read waits", || {
        let waits = "SELECT COUNT(*) FROM information_schema.processlist \
                     WHERE state LIKE 'Waiting for table%'";
        locker.value(waits) == "1"
    });
    reader
}

/// What idle sessions find: a transaction that goes on, one that cannot be done again, and a
/// temporary table that is lost.
fn sessions_go_on(
    direct: &mut Client,
    open: &mut Client,
    refused: &mut Client,
    pinned: &mut Client,
) {
    assert_eq!(
        open.run("UPDATE stage.t SET b = 2 WHERE b = 1")
            .affected_rows,
        1
    );
    open.run("COMMIT");
    assert_eq!(
        direct.value("SELECT COUNT(*) FROM stage.t WHERE b = 2"),
        "1"
    );
    assert_eq!(
        refused.error("DO @kept"),
        1213,
        "user variables of a transaction"
    );
    let lost = pinned.query("SELECT * FROM stage.mine").expect_err("lost");
    let lost = lost.to_string();
    assert!(lost.contains("temporary tables"), "{lost}");
    assert_eq!(
        pinned.value("/*ms=master*/ SELECT name FROM stage.who"),
        "primary"
    );
}

fn a_restart_is_not_seen(release: Release) {
    let Some(mut stage) = Stage::start_with(release) else {
        return;
    };
    let server = stage.primary.address();
    let back = Arc::new(AtomicBool::new(false));
    let gate = back.clone();
    let door = stage.door_with(|tuning| {
        tuning.settings.failover_wait_ms = 60_000;
        tuning.fates = Some(Arc::new(move |lost| {
            wait_until(PATIENCE, "the primary is back", || gate.load(SeqCst));
            fate_on(server, &lost)
        }));
    });
    let mut direct = stage.primary.client();
    direct.run("CREATE TABLE stage.t (a INT UNSIGNED PRIMARY KEY AUTO_INCREMENT, b INT UNIQUE)");
    direct.run("CREATE TABLE stage.locked (a INT)");
    let mut open = door.client();
    open.run("BEGIN");
    open.run("INSERT INTO stage.t (b) VALUES (1)");
    let mut refused = door.client();
    refused.run("BEGIN");
    refused.run("SET @kept = 1");
    let mut pinned = door.client();
    pinned.run("CREATE TEMPORARY TABLE stage.mine (a INT)");
    let (written, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let told = thread::scope(|scope| {
        let over = Over(&over);
        let writers: Vec<_> = (1..=4)
            .map(|n| {
                let (client, written, over) = (door.client(), &written, over.0);
                scope.spawn(move || writer(client, n * 1_000_000, written, over))
            })
            .collect();
        wait_until(PATIENCE, "writes pass", || written.load(SeqCst) >= 50);
        let reader = read_in_flight(&door, &mut direct);
        stage.primary.stop();
        stage.primary.restart();
        back.store(true, SeqCst);
        assert_eq!(reader.join().expect("answered").0, "0");
        let before = written.load(SeqCst);
        wait_until(PATIENCE, "writes pass again", || {
            written.load(SeqCst) >= before + 50
        });
        drop(over);
        let told = writers
            .into_iter()
            .flat_map(|w| w.join().expect("no error"));
        told.collect::<Vec<_>>()
    });
    let mut direct = stage.primary.client();
    let rows = direct.rows("SELECT a, b FROM stage.t WHERE b >= 1000000 ORDER BY b");
    let rows: Vec<_> = rows
        .into_iter()
        .map(|mut row| (row[0].take().expect("a"), row[1].take().expect("b")))
        .collect();
    assert_eq!(rows, told, "each write once, as its client was told");
    sessions_go_on(&mut direct, &mut open, &mut refused, &mut pinned);
    assert_eq!(door.counter("outcomes_unknown"), 0);
    drop((open, refused, pinned));
    door.wait_unused();
}

#[test]
fn a_restart_is_not_seen_on_mariadb() {
    a_restart_is_not_seen(Release::Installed);
}

#[test]
fn a_restart_is_not_seen_on_mysql() {
    a_restart_is_not_seen(Release::MySql80);
}

fn a_kill_at_the_server_is_not_seen(release: Release) {
    let Some(stage) = Stage::start_with(release) else {
        return;
    };
    let server = stage.primary.address();
    let door = stage.door_with(|tuning| {
        tuning.settings.failover_wait_ms = 60_000;
        tuning.fates = Some(Arc::new(move |lost| fate_on(server, &lost)));
    });
    let mut direct = stage.primary.client();
    direct.run("CREATE TABLE stage.t (b INT UNIQUE, c VARCHAR(5))");
    direct.run("CREATE TABLE stage.locked (a INT)");
    let kill_all = |direct: &mut Client| {
        let mine = "SELECT id FROM information_schema.processlist \
                    WHERE user = 'root' AND id <> CONNECTION_ID()";
        for row in direct.rows(mine) {
            let id = row[0].as_deref().expect("an id");
            // It may be gone by itself.
            let _ = direct.query(format!("KILL {id}"));
        }
    };
    let reader = read_in_flight(&door, &mut direct);
    let mut pinned = door.client();
    pinned.run("CREATE TEMPORARY TABLE stage.mine (a INT)");
    let mut open = door.client();
    open.run("BEGIN");
    open.run("INSERT INTO stage.t (b) VALUES (80)");
    let mut free = door.client();
    free.run("INSERT INTO stage.t (b) VALUES (81)");
    kill_all(&mut direct);
    direct.run("UNLOCK TABLES");
    assert_eq!(reader.join().expect("answered").0, "0");
    assert_eq!(
        free.run("UPDATE stage.t SET c = 'k' WHERE b = 81")
            .affected_rows,
        1
    );
    assert_eq!(
        open.run("UPDATE stage.t SET c = 'k' WHERE b = 80")
            .affected_rows,
        1
    );
    open.run("COMMIT");
    assert_eq!(
        direct.value("SELECT COUNT(*) FROM stage.t WHERE c = 'k'"),
        "2"
    );
    let lost = pinned.query("SELECT * FROM stage.mine").expect_err("lost");
    let lost = lost.to_string();
    assert!(lost.contains("temporary tables"), "{lost}");
    assert_eq!(door.counter("outcomes_unknown"), 0);
}

#[test]
fn a_kill_at_the_server_is_not_seen_on_mariadb() {
    a_kill_at_the_server_is_not_seen(Release::Installed);
}

#[test]
fn a_kill_at_the_server_is_not_seen_on_mysql() {
    a_kill_at_the_server_is_not_seen(Release::MySql80);
}

/// The router's own end: a client that checks its connection is told so as the answer, and one that
/// holds a transaction to the end of the drain is told, too.
#[test]
fn a_drain_tells_its_clients() {
    let Some(stage) = Stage::start_with(Release::Installed) else {
        return;
    };
    let door = stage.door();
    let (mut asks, mut holds) = (door.client(), door.client());
    holds.run("START TRANSACTION WITH CONSISTENT SNAPSHOT");
    let drain = thread::spawn(move || door.drain(Duration::from_secs(1)));
    let refused = loop {
        if let Err(failure) = asks.ping() {
            break failure;
        }
    };
    let ended = |failure: &Failure| matches!(failure, Failure::Server { number: 1053, .. });
    assert!(ended(&refused), "{refused:?}");
    // It comes unasked: an ERR packet, number 1053.
    holds.sequence = 0;
    let told = holds.read_packet().expect("a last word");
    assert_eq!(told.get(..3), Some(&[0xFF, 0x1D, 0x04][..]), "{told:?}");
    drain.join().expect("it ends");
}
