//! The SQL door while a group changes its primary: statements wait, connections are cut, and clients
//! see only time pass.

use std::thread;
use std::time::{Duration, Instant};

use session::Fault;
use testkit::client::Login;
use testkit::{Client, Door, Release, Stage, wait_until};

const WHO: &str = "SELECT name FROM stage.who";
const ON_PRIMARY: &str = "/*ms=master*/ SELECT name FROM stage.who";

/// For what must come.
const PATIENCE: Duration = Duration::from_secs(10);

/// A door whose statements wait for a primary for so long.
fn holding(stage: &Stage, wait_ms: u64) -> Door {
    stage.door_with(|tuning| tuning.settings.failover_wait_ms = wait_ms)
}

/// Runs a statement of its own client on a thread, until its answer is there.
fn later<T: Send + 'static>(
    mut client: Client,
    run: impl FnOnce(&mut Client) -> T + Send + 'static,
) -> thread::JoinHandle<(T, Client)> {
    thread::spawn(move || {
        let answer = run(&mut client);
        (answer, client)
    })
}

fn held(door: &Door, sessions: u64) {
    wait_until(PATIENCE, "statements wait", || {
        door.counter("statements_held_now") == sessions
    });
}

#[test]
fn a_write_waits_for_a_new_primary_and_runs_there() {
    let Some(stage) = Stage::shared() else { return };
    stage.database("hold_write");
    stage.everywhere("CREATE TABLE hold_write.t (a INT)");
    let door = holding(&stage, 60_000);
    let mut client = door.client_in("hold_write");
    client.run("SET @kept = 5");
    let statement = client
        .prepare("INSERT INTO t SELECT ? FROM stage.who WHERE name = 'replica'")
        .expect("prepared");
    door.cut(0);
    assert_eq!(door.client().value(WHO), "replica", "reads go on");
    let writer = later(client, move |client| {
        client.execute(&statement, &[1.into()]).expect("held");
        client.run("INSERT INTO t VALUES (@kept)").affected_rows
    });
    held(&door, 1);
    door.promote(1);
    let (rows, mut client) = writer.join().expect("answered");
    assert_eq!(rows, 1);
    assert_eq!(client.value(ON_PRIMARY), "replica");
    assert_eq!(
        client.value("SELECT GROUP_CONCAT(a ORDER BY a) FROM t"),
        "1,5"
    );
    assert_eq!(door.counter("statements_held"), 1);
    assert!(door.counter("statements_held_us") > 0);
    drop(client);
    door.wait_unused();
}

#[test]
fn a_paused_group_is_waited_for_by_all_and_nobody_errs() {
    let Some(stage) = Stage::shared() else { return };
    stage.database("hold_pause");
    stage.everywhere("CREATE TABLE hold_pause.t (a INT)");
    let door = holding(&stage, 60_000);
    let mut open = door.client_in("hold_pause");
    open.run("BEGIN");
    open.run("INSERT INTO t VALUES (100)");
    door.pause(true);
    let clients: Vec<_> = (0..50)
        .map(|a| {
            later(door.client_in("hold_pause"), move |client| match a % 2 {
                0 => {
                    client
                        .run(&format!("INSERT INTO t VALUES ({a})"))
                        .affected_rows
                }
                _ => client.rows(ON_PRIMARY).len() as u64,
            })
        })
        .collect();
    held(&door, 50);
    // What is open goes on to its end.
    open.run("COMMIT");
    door.pause(false);
    for client in clients {
        assert_eq!(client.join().expect("no error").0, 1);
    }
    assert_eq!(
        door.client_in("hold_pause")
            .value("/*ms=master*/ SELECT COUNT(*) FROM t"),
        "26"
    );
    assert_eq!(door.counter("statements_held_in_vain"), 0);
}

#[test]
fn so_many_wait_and_no_more() {
    let Some(stage) = Stage::shared() else { return };
    stage.database("hold_many");
    stage.everywhere("CREATE TABLE hold_many.t (a INT)");
    let door = stage.door_with(|tuning| {
        tuning.settings.failover_wait_ms = 60_000;
        tuning.settings.failover_waiters_max = 2;
    });
    let insert = |a: u32| format!("INSERT INTO t VALUES ({a})");
    let mut open = door.client_in("hold_many");
    open.run("BEGIN");
    open.run(&insert(1));
    let mut refused = door.client_in("hold_many");
    let first = [2, 3].map(|a| (door.client_in("hold_many"), insert(a)));
    door.cut(0);
    let waiters = first.map(|(client, text)| later(client, move |client| client.run(&text)));
    held(&door, 2);
    let failure = refused.query(insert(4)).expect_err("two wait already");
    let text = failure.to_string();
    assert!(text.starts_with("1041 (HY000)"), "{text}");
    assert!(text.contains("failover_waiters_max"), "{text}");
    assert_eq!(door.counter("statements_held_refused"), 1);
    assert_eq!(refused.value(WHO), "replica", "reads go on");
    // A transaction that is open is not given up for that.
    let open = later(open, |client| client.run("INSERT INTO t VALUES (5)"));
    held(&door, 3);
    door.promote(1);
    let mut clients = waiters.map(|waiter| waiter.join().expect("no error").1);
    let (_, mut open) = open.join().expect("no error");
    open.run("COMMIT");
    let values = "/*ms=master*/ SELECT GROUP_CONCAT(a ORDER BY a) FROM t";
    assert_eq!(clients[0].value(values), "1,2,3,5");
}

#[test]
fn the_wait_is_bounded_and_the_session_may_choose() {
    let Some(stage) = Stage::start() else { return };
    let door = holding(&stage, 30);
    let mut client = door.client();
    door.cut(0);
    let failure = client.query("DO 1").expect_err("nobody came");
    let text = failure.to_string();
    assert!(
        text.starts_with("1290 (HY000)") && text.contains("(waited "),
        "{text}"
    );
    assert_eq!(door.counter("statements_held_in_vain"), 1);
    assert_eq!(client.value("SELECT @@heddle_failover_wait_ms"), "30");
    client.run("SET heddle_failover_wait_ms = 0");
    let failure = client.query("DO 1").expect_err("at once").to_string();
    assert!(!failure.contains("waited"), "{failure}");
    assert_eq!(client.error("SET heddle_failover_wait_ms = -1"), 1231);
    client.run("SET SESSION heddle_failover_wait_ms = DEFAULT");
    assert_eq!(client.value("SELECT @@heddle_failover_wait_ms"), "30");
    // Nobody repairs this group.
    door.regroup(|group| group.active = false);
    let failure = client.query("DO 1").expect_err("at once").to_string();
    assert!(!failure.contains("waited"), "{failure}");
}

#[test]
fn a_wait_ends_with_a_kill_a_limit_and_its_client() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door_with(|tuning| {
        tuning.settings.failover_wait_ms = 600_000;
        tuning.settings.statement_timeout_ms = 1_500;
    });
    let mut killer = door.client();
    let victims: Vec<Client> = (0..3).map(|_| door.client()).collect();
    let ids: Vec<u32> = victims.iter().map(|client| client.connection_id).collect();
    let mut untimed = victims.into_iter();
    door.pause(true);
    let mut next = || untimed.next().expect("three");
    let limited = later(next(), |client| client.error("DO 1"));
    let (number, mut client) = limited.join().expect("answered");
    assert_eq!(number, 1317);
    assert_eq!(client.value(WHO), "replica", "the session goes on");
    // The end of a transaction has no limit.
    let one = later(next(), |client| client.error("COMMIT"));
    held(&door, 1);
    killer.run(&format!("KILL QUERY {}", ids[1]));
    assert_eq!(one.join().expect("answered").0, 1317);
    let other = later(next(), |client| client.query("COMMIT").is_err());
    held(&door, 1);
    killer.run(&format!("KILL {}", ids[2]));
    assert!(other.join().expect("ended").0);
    let mut gone = door.client();
    gone.send_command(mysql_wire::command::Command::Query, b"COMMIT")
        .expect("sent");
    held(&door, 1);
    drop(gone);
    held(&door, 0);
    drop((killer, client));
    door.wait_unused();
}

#[test]
fn a_drain_ends_the_wait() {
    let Some(stage) = Stage::shared() else { return };
    let door = holding(&stage, 600_000);
    let client = door.client();
    door.pause(true);
    let waiting = later(client, |client| client.error("DO 1"));
    held(&door, 1);
    door.drain(PATIENCE);
    assert_eq!(waiting.join().expect("answered").0, 1053);
}

#[test]
fn a_frozen_primary_is_cut_and_statements_go_on() {
    let Some(mut stage) = Stage::start() else {
        return;
    };
    stage.database("hold_frozen");
    let door = holding(&stage, 60_000);
    let mut open = door.client();
    open.run("BEGIN");
    assert_eq!(open.value(WHO), "primary");
    let mut pinned = door.client_in("hold_frozen");
    pinned.run("CREATE TEMPORARY TABLE mine (a INT)");
    let mut idle = door.client();
    assert_eq!(idle.value(ON_PRIMARY), "primary");
    stage.primary.freeze();
    // Sent, and never answered; and one that waits for a login.
    let reader = later(door.client(), |client| client.value(ON_PRIMARY));
    let opens: Vec<_> = (0..4)
        .map(|_| later(door.client(), |client| client.value(ON_PRIMARY)))
        .collect();
    wait_until(PATIENCE, "statements are under way", || {
        door.counter("pool_in_use") >= 7
    });
    door.cut(0);
    held(&door, 5);
    door.promote(1);
    assert_eq!(reader.join().expect("answered").0, "replica");
    for client in opens {
        assert_eq!(client.join().expect("answered").0, "replica");
    }
    assert_eq!(
        open.error(WHO),
        1213,
        "the other server answers differently"
    );
    assert_eq!(open.value(ON_PRIMARY), "replica");
    let lost = pinned
        .query("SELECT * FROM mine")
        .expect_err("lost")
        .to_string();
    assert!(lost.contains("temporary tables"), "{lost}");
    assert_eq!(pinned.value(ON_PRIMARY), "replica");
    wait_until(PATIENCE, "they are counted", || {
        door.counter("connections_cut") >= 3
    });
    stage.primary.thaw();
    drop((open, pinned, idle));
    door.wait_unused();
}

#[test]
fn a_primary_that_is_gone_is_waited_for_and_suspected() {
    let Some(mut stage) = Stage::start() else {
        return;
    };
    stage.database("hold_gone");
    stage.database("hold_unseen");
    stage.everywhere("CREATE TABLE hold_gone.t (a INT)");
    let door = holding(&stage, 60_000);
    let mut client = door.client_in("hold_gone");
    client.run("INSERT INTO t VALUES (1)");
    stage.primary.kill();
    // The farm believes in its primary still.
    let writer = later(client, |client| {
        client.run("SET SESSION sql_mode = ''");
        client.run("BEGIN");
        client.run("INSERT INTO t VALUES (2)");
        client.run("COMMIT");
    });
    held(&door, 1);
    let suspects = door.suspects();
    assert!(
        suspects.iter().any(|(_, fault)| *fault == Fault::Reset),
        "{suspects:?}"
    );
    wait_until(PATIENCE, "it refused", || {
        let suspects = door.suspects();
        suspects.iter().any(|(_, fault)| *fault == Fault::Refused)
    });
    let login = Login {
        database: Some("hold_gone"),
        ..Login::default()
    };
    let address = door.address();
    // Nobody has entered this database, so a server has to say whether it is there.
    let newcomer = thread::spawn(move || {
        let login = Login {
            database: Some("hold_unseen"),
            ..Login::default()
        };
        Client::login(address, &login).map(|_| ())
    });
    held(&door, 2);
    stage.primary.restart();
    writer.join().expect("answered");
    newcomer.join().expect("no panic").expect("logged in");
    let mut client = door.login(&login).expect("there it is");
    // What was written just before the end may be gone: these servers do not flush.
    let asked = "/*ms=master*/ SELECT COUNT(*) FROM t WHERE a = 2";
    assert_eq!(client.value(asked), "1");
}

fn read_only_is_waited_out(release: Release) {
    let Some(stage) = Stage::start_with(release) else {
        return;
    };
    stage.everywhere("CREATE USER app@localhost; GRANT ALL ON *.* TO app@localhost");
    for revoked in ["SUPER", "READ_ONLY ADMIN", "CONNECTION_ADMIN"] {
        let _ = stage
            .primary
            .client()
            .query(format!("REVOKE {revoked} ON *.* FROM app@localhost"));
    }
    stage.database("hold_ro");
    stage.everywhere("CREATE TABLE hold_ro.t (a INT)");
    let door = stage.door_with(|tuning| {
        tuning.settings.failover_wait_ms = 60_000;
        tuning.accounts = vec![testkit::door::account("app", "localhost", "")];
    });
    let login = Login {
        user: "app",
        database: Some("hold_ro"),
        ..Login::default()
    };
    let mut client = door.login(&login).expect("app may");
    client.run("INSERT INTO t VALUES (1)");
    let mut root = stage.primary.client();
    root.run("SET GLOBAL read_only = ON");
    let writer = later(client, |client| {
        client.run("INSERT INTO t VALUES (2)").affected_rows
    });
    held(&door, 1);
    root.run("SET GLOBAL read_only = OFF");
    assert_eq!(writer.join().expect("answered").0, 1);
}

#[test]
fn a_primary_that_became_read_only_is_waited_for() {
    read_only_is_waited_out(Release::Installed);
}

#[test]
fn a_primary_that_became_read_only_is_waited_for_on_mysql() {
    read_only_is_waited_out(Release::MySql80);
}

#[test]
fn the_profile_shows_the_wait() {
    let Some(stage) = Stage::shared() else { return };
    let door = holding(&stage, 60_000);
    let mut client = door.client();
    client.run("DO 1");
    client.rows("HEDDLE PROFILE");
    door.pause(true);
    let began = Instant::now();
    let waiting = later(client, |client| client.run("DO 1"));
    held(&door, 1);
    door.pause(false);
    let (_, mut client) = waiting.join().expect("answered");
    let waited = began.elapsed().as_micros();
    let row = client.rows("HEDDLE PROFILE").remove(0);
    let hold: u128 = row[16]
        .as_deref()
        .and_then(|us| us.parse().ok())
        .expect("a number");
    assert!(hold > 0 && hold <= waited, "{row:?}");
}
