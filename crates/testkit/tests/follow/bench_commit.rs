//! `heddle bench-commit`: its rows, what it refuses, and that servers are as before when it has ended.

use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use serde_json::Value;
use testkit::farm::heddle;
use testkit::{Client, Farm, Release, Server, wait_until};

use crate::replica::SOON;

/// Settings that nobody has by default.
const MARIADB: [(&str, &str); 3] = [
    ("binlog_commit_wait_count", "3"),
    ("binlog_commit_wait_usec", "7"),
    ("sync_binlog", "2"),
];
const MYSQL: [(&str, &str); 3] = [
    ("binlog_group_commit_sync_no_delay_count", "3"),
    ("binlog_group_commit_sync_delay", "7"),
    ("sync_binlog", "2"),
];

fn command(address: &str, words: &[&str]) -> Command {
    let mut command = Command::new(heddle());
    command.args(["bench-commit", address]).args(words);
    command
}

fn run(address: &str, words: &[&str]) -> Output {
    command(address, words)
        .output()
        .expect("the program can be run")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn rows(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", said(output));
    serde_json::from_slice(&output.stdout).expect("--json gives an array")
}

/// The settings are those that the server began with, and nothing is left.
#[track_caller]
fn is_as_before(client: &mut Client, settings: &[(&str, &str)]) {
    for (name, value) in settings {
        assert_eq!(
            client.value(&format!("SELECT @@global.{name}")),
            *value,
            "{name}"
        );
    }
    assert!(client.rows("SHOW DATABASES LIKE 'heddle_bench'").is_empty());
}

fn measures_and_restores(release: Release, settings: &[(&str, &str)]) {
    let Some(server) = Server::start_with(release, settings) else {
        return;
    };
    let address = server.address().to_string();
    let refused = run(&address, &[]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(said(&refused).contains("--yes"), "{}", said(&refused));
    let few = ["--threads", "1,4", "--seconds", "1", "--json"];
    let found = rows(&run(&address, &[&few[..], &["--yes"]].concat()));
    assert_eq!(found.len(), 8, "{found:?}");
    for row in &found {
        assert!(
            row["commits_per_s"].as_u64().is_some_and(|it| it > 0),
            "{row}"
        );
        assert!(row["lag_ms"].is_null(), "{row}");
    }
    let mut client = server.client();
    is_as_before(&mut client, settings);
    // Whoever made an empty schema has agreed. It stays.
    client.run("CREATE DATABASE mine");
    let words = [
        "--schema",
        "mine",
        "--threads",
        "2",
        "--seconds",
        "1",
        "--json",
    ];
    assert_eq!(rows(&run(&address, &words)).len(), 4);
    assert!(client.rows("SHOW TABLES IN mine").is_empty());
    client.run("CREATE TABLE mine.t (a INT)");
    let refused = run(&address, &words);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    is_as_before(&mut client, settings);
}

#[test]
fn commits_are_measured_on_mariadb() {
    measures_and_restores(Release::Installed, &MARIADB);
}

#[test]
fn commits_are_measured_on_mysql() {
    measures_and_restores(Release::newest_mysql(), &MYSQL);
}

#[test]
fn ctrl_c_restores_what_was_changed() {
    let Some(server) = Server::start_with(Release::Installed, &MARIADB) else {
        return;
    };
    let address = server.address().to_string();
    // The test asks often.
    let words = ["--yes", "--force", "--threads", "4", "--seconds", "600"];
    let mut command = command(&address, &words);
    let mut child = command.stderr(Stdio::null()).spawn().expect("it runs");
    let mut client = server.client();
    wait_until(SOON, "rows are written", || {
        let rows = client.query("SELECT COUNT(*) FROM heddle_bench.heddle_commits");
        rows.is_ok() && client.value("SELECT COUNT(*) FROM heddle_bench.heddle_commits") != "0"
    });
    assert_eq!(client.value("SELECT @@global.sync_binlog"), "1");
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(sent.expect("kill is there").success());
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(1));
    is_as_before(&mut client, &MARIADB);
}

#[test]
fn a_server_that_others_use_is_left_alone() {
    let Some(server) = Server::start_with(Release::Installed, &MARIADB) else {
        return;
    };
    let mut client = server.client();
    client.run("CREATE DATABASE shop");
    client.run("CREATE TABLE shop.t (a INT)");
    let stop = Arc::new(AtomicBool::new(false));
    let customer = {
        let stop = Arc::clone(&stop);
        thread::spawn(move || {
            while !stop.load(Relaxed) {
                client.run("INSERT INTO shop.t VALUES (1)");
            }
            client
        })
    };
    let address = server.address().to_string();
    let words = ["--yes", "--threads", "1", "--seconds", "1", "--json"];
    let refused = run(&address, &words);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        said(&refused).contains("others use the server"),
        "{}",
        said(&refused)
    );
    let forced = [&words[..], &["--force"]].concat();
    assert_eq!(rows(&run(&address, &forced)).len(), 4);
    stop.store(true, Relaxed);
    let mut client = customer.join().expect("it writes");
    is_as_before(&mut client, &MARIADB);
}

fn replicas_lag_is_measured(release: Release) {
    let Some(farm) = Farm::start_on(release, &["--replicas", "1"]) else {
        return;
    };
    let address = |role: &str| {
        let member = farm.in_role("g1", role).expect("there is one");
        format!("127.0.0.1:{}", member.port)
    };
    let (primary, replica) = (address("PRIMARY"), address("SECONDARY"));
    let names = ["slave_parallel_threads", "slave_parallel_workers"];
    let workers = || {
        let mut client = farm
            .in_role("g1", "SECONDARY")
            .expect("there is one")
            .client();
        let of = |name: &str| client.rows(&format!("SHOW GLOBAL VARIABLES LIKE '{name}'"));
        names.map(of)
    };
    let before = workers();
    let words = [
        "--replica",
        &replica,
        "--yes",
        "--threads",
        "2",
        "--seconds",
        "1",
        "--json",
    ];
    let found = rows(&run(&primary, &words));
    assert_eq!(found.len(), 8, "{found:?}");
    assert!(found.iter().all(|row| row["lag_ms"].is_u64()), "{found:?}");
    let parallel = |on: &str| {
        found
            .iter()
            .filter(|row| row["parallel_apply"] == on)
            .count()
    };
    assert_eq!((parallel("on"), parallel("off")), (4, 4));
    assert_eq!(workers(), before);
    let mut client = farm.client();
    client.run("CREATE DATABASE behind");
}

#[test]
fn replicas_lag_is_measured_on_mariadb() {
    replicas_lag_is_measured(Release::Installed);
}

#[test]
fn replicas_lag_is_measured_on_mysql() {
    replicas_lag_is_measured(Release::newest_mysql());
}
