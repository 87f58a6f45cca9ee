//! A router whose tasks panic: each of them goes on, and the farm keeps its promises.

use std::process::Command;
use std::time::Duration;

use faults::Chore;
use testkit::farm::Member;
use testkit::{Client, Farm, wait_until};

const PATIENCE: Duration = Duration::from_secs(120);

/// The task panics when it comes there, once.
fn let_panic(farm: &Farm, chore: Chore) {
    std::fs::write(farm.faults().join(chore.name()), "panic").expect("a directory");
}

fn wait_for_panic(farm: &Farm, chore: Chore) {
    let taken = farm.faults().join(format!("{}.taken", chore.name()));
    wait_until(PATIENCE, chore.name(), || taken.exists());
    std::fs::remove_file(taken).expect("it is there");
}

fn events(farm: &Farm, kind: &str) -> usize {
    let events = farm.json(&["group", "events"]);
    events.iter().filter(|event| event["event"] == kind).count()
}

#[test]
fn tasks_that_panic_go_on() {
    let Some(farm) = Farm::start(&["--replicas", "1", "--threads", "1"]) else {
        return;
    };
    let mut client = farm.client();
    client.run("CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY)");
    client.run("INSERT INTO d.t VALUES (1)");

    // Twice each: who was begun again comes there again.
    let loops = [
        Chore::CoreTick,
        Chore::Accounts,
        Chore::Probe,
        Chore::Recovery,
    ];
    for chore in loops.into_iter().chain(loops) {
        let_panic(&farm, chore);
        wait_for_panic(&farm, chore);
    }
    // The core's panics are counted, those of the control plane are events.
    let mut status = farm.client();
    let panicked = status.rows("HEDDLE STATUS LIKE 'tasks_panicked'");
    assert_eq!(panicked[0][1].as_deref(), Some("2"));
    wait_until(PATIENCE, "an event for each", || {
        events(&farm, "task_panicked") == 6
    });

    // A step of the failover fails, and the failover does not.
    let_panic(&farm, Chore::FailoverStep);
    let primary = farm.primary("g1");
    kill(&primary);
    wait_for_panic(&farm, Chore::FailoverStep);
    client.run("INSERT INTO d.t VALUES (2)");
    assert_eq!(client.value("SELECT COUNT(*) FROM d.t"), "2");
    let now = farm.primary("g1");
    assert_ne!(now.name, primary.name);
    assert!(events(&farm, "task_panicked") >= 7);
    login_of_a_new_account(&farm, &mut client);
}

/// Accounts are read again.
fn login_of_a_new_account(farm: &Farm, root: &mut Client) {
    root.run("CREATE USER late IDENTIFIED BY ''");
    wait_until(PATIENCE, "a login", || {
        Client::connect(farm.sql, "late", "").is_ok()
    });
}

fn kill(server: &Member) {
    let ran = Command::new("kill")
        .args(["-9", &server.pid.to_string()])
        .status();
    assert!(ran.is_ok_and(|status| status.success()), "it runs");
}
