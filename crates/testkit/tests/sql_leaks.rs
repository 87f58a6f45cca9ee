//! The SQL door: limits hold, whoever waits is served in turn, and nothing is left behind.
//!
//! One test, so that the descriptors of the process are those of one door.

use std::sync::Mutex;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use mysql_wire::command::Command;
use reactor::Io;
use testkit::{Client, Door, Stage, wait_until};

const SOON: Duration = Duration::from_secs(20);

/// The tests here count the process's descriptors and clients: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn descriptors() -> usize {
    let open = std::fs::read_dir("/proc/self/fd").expect("Linux has it");
    open.count()
}

/// Polite and rude clients, in the middle of everything that a session can be in.
fn crowd(stage: &Stage, door: &Door) {
    for at in 0..40 {
        let mut client = door.client_in("leaks");
        match at % 10 {
            0 => client.quit(),
            1 => drop(
                client
                    .query("BEGIN; UPDATE t SET a = a + 1")
                    .expect("begun"),
            ),
            2 => drop(client.send_command(Command::Query, b"SELECT seq FROM seq_1_to_100000")),
            3 => drop(client.send_bytes(b"\x10\0\0\0\x03SEL")),
            4 => drop(client.run("SET @a = 1, autocommit = 0")),
            5 => {
                let statement = client
                    .prepare("SELECT seq FROM seq_1_to_10")
                    .expect("prepared");
                client.send_execute(statement.id, 1, &[]).expect("sent");
            }
            6 => {
                let statement = client.prepare("SELECT ?").expect("prepared");
                client
                    .send_long_data(statement.id, 0, b"data")
                    .expect("sent");
            }
            7 => drop(client.error("SELECT no_such_column FROM t")),
            8 => drop(Client::dial(door.address()).expect("connected")),
            _ => drop(client.send_command(Command::Query, b"INSERT INTO t VALUES (1)")),
        }
    }
    drop(stage.primary.client());
}

#[test]
fn nothing_is_left_behind() {
    let _alone = ALONE.lock();
    let Some(stage) = Stage::shared() else { return };
    stage.database("leaks");
    stage.everywhere("CREATE TABLE leaks.t (a INT) ENGINE=InnoDB");
    for io in [Io::Epoll, Io::Auto] {
        let before = descriptors();
        let door = stage.door_with(|tuning| {
            tuning.io = io;
            tuning.threads = 2;
            tuning.settings.pool.idle_s = 1;
        });
        crowd(&stage, &door);
        door.wait_unused();
        wait_until(SOON, "idle connections are closed", || {
            door.counter("pool_idle") == 0
        });
        let empty = descriptors();
        for _ in 0..2 {
            crowd(&stage, &door);
        }
        door.wait_unused();
        wait_until(
            SOON,
            "no descriptor more than after the first crowd",
            || door.counter("pool_idle") == 0 && descriptors() <= empty,
        );
        door.drain(SOON);
        wait_until(SOON, "all descriptors are closed", || {
            descriptors() <= before
        });
    }
    let mut direct = stage.primary.client();
    wait_until(SOON, "no transaction is left", || {
        let sql = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = 'leaks'";
        direct.value(sql) == "0"
    });
}

#[test]
fn a_pool_never_exceeds_its_limit() {
    let _alone = ALONE.lock();
    let Some(stage) = Stage::shared() else { return };
    stage.database("limits");
    let door = stage.door_with(|tuning| tuning.settings.pool.connections_max = 3);
    let mut direct = stage.primary.client();
    let peak = std::thread::scope(|scope| {
        let (done, ended) = mpsc::channel::<()>();
        for _ in 0..12 {
            let (door, done) = (&door, done.clone());
            scope.spawn(move || {
                let mut client = door.client_in("limits");
                for _ in 0..8 {
                    client.run("DO SLEEP(0.005)");
                }
                drop(done);
            });
        }
        drop(done);
        let mut peak = 0;
        while ended.try_recv() != Err(mpsc::TryRecvError::Disconnected) {
            let sql = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = 'limits'";
            peak = peak.max(direct.value(sql).parse::<u64>().expect("a number"));
        }
        peak
    });
    assert!((1..=3).contains(&peak), "{peak}");
    assert!(door.counter("pool_opened") <= 3);
    door.wait_unused();
}

#[test]
fn who_waits_is_served_in_turn_or_told_1040() {
    let _alone = ALONE.lock();
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door_with(|tuning| {
        tuning.settings.pool.connections_max = 1;
        tuning.settings.pool.wait_ms = 3000;
    });
    let mut holder = door.client();
    holder.run("DO GET_LOCK('held', 0)");
    let begin = Instant::now();
    let mut impatient = door.client();
    let failure = impatient.query("DO 1").expect_err("nothing is free");
    assert!(failure.to_string().starts_with("1040 (08004)"), "{failure}");
    assert!(begin.elapsed() >= Duration::from_millis(2900));
    // Those that wait from now on are not to lose their patience on a busy machine.
    door.tune(|all| all.settings.pool.wait_ms = 60_000);
    let mut waiting: Vec<Client> = Vec::new();
    for at in 0..6 {
        let mut client = door.client();
        client
            .send_command(Command::Query, b"SELECT NOW(6) + 0 * @@autocommit")
            .expect("sent");
        // The gauge is published once a second; the order of arrival is what counts here.
        if at == 0 {
            wait_until(SOON, "one waits", || door.counter("pool_waiting") >= 1);
        }
        waiting.push(client);
    }
    // One gives up: its place must not stop the others.
    drop(waiting.remove(3));
    holder.quit();
    for client in &mut waiting {
        client.read_result(false).expect("served");
    }
    assert_eq!(impatient.value("SELECT 1 + 0 * @@autocommit"), "1");
    assert_eq!(door.counter("pool_waits_failed"), 1);
    drop((impatient, waiting));
    door.wait_unused();
}

#[test]
fn draining_ends_idle_sessions_and_lets_transactions_finish() {
    let _alone = ALONE.lock();
    let Some(stage) = Stage::shared() else { return };
    stage.database("drained");
    stage.everywhere("CREATE TABLE drained.t (a INT) ENGINE=InnoDB");
    for io in [Io::Epoll, Io::Auto] {
        let door = stage.door_with(|tuning| {
            tuning.io = io;
            tuning.threads = 2;
        });
        let mut idle = door.client();
        idle.ping().expect("pong");
        let mut busy = door.client_in("drained");
        busy.run("BEGIN");
        busy.run("INSERT INTO t VALUES (1)");
        let address = door.address();
        std::thread::scope(|scope| {
            let drained = scope.spawn(|| {
                let begin = Instant::now();
                door.drain(SOON);
                begin.elapsed()
            });
            idle.sequence = 0;
            let said = idle.read_done().expect_err("the end").to_string();
            assert!(said.starts_with("1053 (08S01)"), "{said}");
            assert!(idle.is_closed_within(SOON));
            assert!(
                Client::connect(address, "root", "").is_err(),
                "nobody is let in"
            );
            busy.run("INSERT INTO t VALUES (2)");
            busy.run("COMMIT");
            assert!(busy.is_closed_within(SOON));
            assert!(drained.join().expect("no panic") < SOON);
        });
    }
    assert_eq!(
        stage
            .primary
            .client()
            .value("SELECT COUNT(*) FROM drained.t"),
        "4"
    );
}

#[test]
fn idle_clients_are_closed() {
    let _alone = ALONE.lock();
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door_with(|tuning| tuning.settings.idle_timeout_s = 1);
    let mut idle = door.client();
    let mut open = door.client_in("stage");
    open.run("BEGIN");
    assert!(idle.is_closed_within(SOON));
    assert!(open.is_closed_within(SOON));
    drop((idle, open));
    door.wait_unused();
}
