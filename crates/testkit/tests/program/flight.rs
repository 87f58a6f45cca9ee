//! The flight recorder: what a router did last is there after its death, whatever it died of.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use faults::Chore;
use serde_json::Value;
use testkit::{Client, Farm, wait_until};

/// For what a file and a step take on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// Sessions that load the router.
const SESSIONS: usize = 4;

/// Statements that each of them has had answered when the router is killed.
const ANSWERED_MIN: u64 = 200;

fn signal(farm: &Farm, name: &str) {
    let status = Command::new("kill")
        .args([name, &farm.pid().to_string()])
        .status();
    assert!(status.is_ok_and(|status| status.success()));
}

fn traces(farm: &Farm) -> PathBuf {
    farm.dir().join("state/trace")
}

/// The dumps that were made for this cause.
fn dumps(farm: &Farm, cause: &str) -> Vec<PathBuf> {
    let end = format!("-{cause}.trace");
    let entries = std::fs::read_dir(traces(farm))
        .into_iter()
        .flatten()
        .flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| path.to_string_lossy().ends_with(&end))
        .collect()
}

fn dump_of(farm: &Farm, cause: &str) -> PathBuf {
    wait_until(SOON, "a dump", || !dumps(farm, cause).is_empty());
    dumps(farm, cause).remove(0)
}

/// The steps that `heddle trace show` tells.
#[track_caller]
fn shown(farm: &Farm, words: &[&str]) -> Vec<Value> {
    farm.json(&[&["trace", "show"], words].concat())
}

fn names(steps: &[Value]) -> Vec<&str> {
    steps
        .iter()
        .filter_map(|step| step["step"].as_str())
        .collect()
}

/// The names of the last statement's steps.
fn last_statement(steps: &[Value]) -> Vec<&str> {
    let names = names(steps);
    let at = names.iter().rposition(|&name| name == "statement");
    names[at.expect("a statement")..].to_vec()
}

fn id_of(client: &mut Client) -> String {
    let id = client.rows("SELECT CONNECTION_ID()");
    id[0][0].clone().expect("a number")
}

#[test]
fn a_router_that_is_killed_under_load_leaves_its_last_statements() {
    // A ring has the first step still, however long the load goes on before the kill.
    let ring = "flight_recorder=500000";
    let Some(mut farm) = Farm::start(&["--replicas", "0", "--set", ring]) else {
        return;
    };
    let mut client = farm.client();
    client.run("CREATE DATABASE test");
    client.run("CREATE TABLE test.t (id INT PRIMARY KEY)");
    client.run("INSERT INTO test.t VALUES (1)");
    let writer = id_of(&mut client);
    client.rows("SELECT 'the last one'");
    let dir = farm.dir();
    let dir = dir.to_str().expect("a path");
    let primary = primary_of(&farm);
    wait_until(SOON, "the names of servers beside the rings", || {
        let steps = shown(&farm, &[dir, "--session", &writer]);
        steps
            .iter()
            .any(|step| step["values"]["server"] == primary.as_str())
    });
    let answered = load_and_kill(&mut farm);
    tells_the_last_statements(&farm, dir, &writer, &answered);
    // The next start keeps them.
    farm.start_again();
    let crash = dump_of(&farm, "crash");
    tells_the_last_statements(&farm, crash.to_str().expect("a path"), &writer, &answered);
    tells_the_last_statements(&farm, dir, &writer, &answered);
    // An orderly end leaves nothing behind.
    let live = std::fs::read_link(traces(&farm).join("live")).expect("it leads to the rings");
    assert_eq!(std::fs::read_dir(&live).expect("rings").count(), 1);
    assert!(farm.stop().success());
    assert_eq!(std::fs::read_dir(&live).expect("rings").count(), 0);
    std::fs::remove_dir(&live).expect("it is empty");
}

/// Gives how many statements of each session were answered at least.
fn load_and_kill(farm: &mut Farm) -> BTreeMap<String, u64> {
    let over = AtomicBool::new(false);
    let counts: [AtomicU64; SESSIONS] = Default::default();
    let mut clients: Vec<Client> = counts.iter().map(|_| farm.client()).collect();
    let ids: Vec<String> = clients.iter_mut().map(id_of).collect();
    std::thread::scope(|scope| {
        for (mut client, count) in clients.into_iter().zip(&counts) {
            let over = &over;
            scope.spawn(move || {
                while client.query("SELECT id FROM test.t WHERE id = 1").is_ok() {
                    count.fetch_add(1, Ordering::SeqCst);
                }
                assert!(over.load(Ordering::SeqCst), "the router lives");
            });
        }
        let is_loaded = || {
            counts
                .iter()
                .all(|count| count.load(Ordering::SeqCst) >= ANSWERED_MIN)
        };
        wait_until(SOON, "statements", is_loaded);
        over.store(true, Ordering::SeqCst);
        farm.kill_up();
    });
    ids.into_iter()
        .zip(counts.map(AtomicU64::into_inner))
        .collect()
}

fn tells_the_last_statements(
    farm: &Farm,
    of: &str,
    writer: &str,
    answered: &BTreeMap<String, u64>,
) {
    for (session, &count) in answered {
        let steps = shown(farm, &[of, "--session", session, "--step", "answered"]);
        // With the question for its id. The client may not have heard of the last.
        let there = steps.len() as u64;
        assert!(
            (count..=count + 2).contains(&there),
            "{count} answered, {there} told"
        );
        assert_eq!(steps[0]["values"]["error"], "0");
    }
    let steps = shown(farm, &[of, "--session", writer]);
    let told = names(&steps);
    assert_eq!(told[..2], ["accepted", "logged_in"]);
    assert!(told.contains(&"commit_acknowledged"), "{told:?}");
    let last = last_statement(&steps);
    let expected = [
        "statement",
        "server_chosen",
        "connection_taken",
        "sent",
        "answered",
    ];
    assert_eq!(last[..5], expected, "{last:?}");
    let chosen = steps
        .iter()
        .rfind(|step| step["step"] == "server_chosen")
        .expect("told");
    assert_eq!(chosen["values"]["server"], primary_of(farm).as_str());
}

fn primary_of(farm: &Farm) -> String {
    format!("127.0.0.1:{}", farm.members()[0].port)
}

#[test]
fn a_command_a_signal_and_a_panic_keep_the_last_steps() {
    let Some(farm) = Farm::start(&["--replicas", "0"]) else {
        return;
    };
    let mut client = farm.client();
    let id = id_of(&mut client);
    let dumped = farm.json(&["trace", "dump"]);
    let path = dumped[0]["path"].as_str().expect("a path").to_owned();
    let length = std::fs::metadata(&path).expect("a dump").len();
    assert_eq!(dumped[0]["bytes"], length);
    let steps = shown(&farm, &[&path, "--session", &id]);
    assert_eq!(last_statement(&steps)[0], "statement");
    // For people: a line for each step.
    let text = farm
        .command(&["trace", "show", &path, "--session", &id, "--last", "2"])
        .stdout;
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(
        text.lines().count() == 2 && text.contains("core-"),
        "{text}"
    );
    // By SQL.
    let by_sql = client.rows("HEDDLE TRACE DUMP");
    assert_eq!(by_sql.len(), 1);
    assert_eq!(dumps(&farm, "command").len(), 2);
    signal(&farm, "-USR1");
    let of_signal = dump_of(&farm, "signal");
    let started = shown(
        &farm,
        &[
            of_signal.to_str().expect("a path"),
            "--step",
            "router_started",
        ],
    );
    assert_eq!((started.len(), &started[0]["core"]), (1, &Value::Null));
    std::fs::write(farm.faults().join(Chore::CoreTick.name()), "panic").expect("planted");
    let of_panic = dump_of(&farm, "panic");
    let panicked = shown(
        &farm,
        &[of_panic.to_str().expect("a path"), "--step", "panicked"],
    );
    assert_eq!(panicked.len(), 1);
    assert!(panicked[0]["core"].is_number(), "{panicked:?}");
    client.rows("SELECT 'it serves'");
}

#[test]
fn an_abort_is_told_of_at_the_next_start() {
    let Some(mut farm) = Farm::start(&["--replicas", "0"]) else {
        return;
    };
    let id = id_of(&mut farm.client());
    signal(&farm, "-ABRT");
    wait_until(SOON, "the end of the router", || !farm.is_running());
    farm.start_again();
    let crash = dump_of(&farm, "crash");
    let steps = shown(&farm, &[crash.to_str().expect("a path"), "--session", &id]);
    assert!(names(&steps).contains(&"answered"), "{steps:?}");
}

#[test]
fn it_can_be_off_and_foreign_files_are_refused() {
    let flags = ["--replicas", "0", "--set", "flight_recorder=0"];
    let Some(farm) = Farm::start(&flags) else {
        return;
    };
    farm.client().rows("SELECT 1");
    let refused = farm.command(&["trace", "dump"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("flight_recorder is 0"),
        "{said}"
    );
    assert!(!traces(&farm).join("live").exists());
    let file = farm.dir().join("farm.json");
    for of in [file, farm.dir(), farm.dir().join("nothing")] {
        let refused = farm.command(&["trace", "show", of.to_str().expect("a path")]);
        assert_eq!(refused.status.code(), Some(1), "{}", of.display());
        assert!(!refused.stderr.is_empty());
    }
}
