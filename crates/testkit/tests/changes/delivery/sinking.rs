//! Sinks: what is delivered to webhooks and files is every change, over deaths of the router and of the target;
//! twice is only what has the same id.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use serde_json::Value;
use testkit::failover::site::Site;
use testkit::{Farm, Release, wait_until};

use crate::reading::{SOON, metrics};
use testkit::receiver::Receiver;

fn table(farm: &Farm) -> testkit::Client {
    let mut client = farm.member("g1-1").client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (a INT PRIMARY KEY, b VARCHAR(20))");
    client.run("CREATE TABLE d.other (a INT PRIMARY KEY)");
    client
}

/// The numbers of inserted rows, in their order.
fn numbers<'a>(events: impl IntoIterator<Item = &'a Value>) -> Vec<i64> {
    let rows = events.into_iter().filter(|it| it["event"] == "row");
    rows.map(|row| row["after"]["a"].as_i64().expect("a number"))
        .collect()
}

/// Events without those that came twice, which have to be the same.
fn once(events: Vec<Value>) -> Vec<Value> {
    let mut seen: BTreeMap<String, Value> = BTreeMap::new();
    let mut all = Vec::new();
    for event in events {
        let id = event["id"].as_str().expect("an id").to_owned();
        match seen.get(&id) {
            Some(before) => assert_eq!(before["after"], event["after"], "{id}"),
            None => {
                seen.insert(id, event.clone());
                all.push(event);
            }
        }
    }
    all
}

/// What of a sink is in a column of `sink show`.
fn shown(farm: &Farm, sink: &str, column: &str) -> Value {
    farm.json(&["sink", "show", sink])[0][column].clone()
}

fn webhooks_get_every_change_over_deaths(release: Release) {
    let Some(mut farm) = Farm::start_on(release, &["--replicas", "0"]) else {
        return;
    };
    let mut client = table(&farm);
    // Every third request is not answered, though it was taken.
    let asked = AtomicUsize::new(0);
    let receiver = Receiver::start(move |_| {
        let number = asked.fetch_add(1, Ordering::Relaxed);
        (number % 3 != 2).then_some(200)
    });
    let made = farm.json(&["sink", "create", "hook", &receiver.url(), "--tables", "d.t"]);
    let secret = made[0]["secret"].as_str().expect("a secret").to_owned();
    assert!(
        !farm
            .command(&["sink", "create", "hook", &receiver.url()])
            .status
            .success()
    );
    for number in 1..=20 {
        client.run(&format!("INSERT INTO d.t VALUES ({number}, 'x')"));
        client.run(&format!("INSERT INTO d.other VALUES ({number})"));
    }
    wait_until(SOON, "some of it", || {
        !numbers(&receiver.events()).is_empty()
    });
    farm.kill_up();
    client.run("INSERT INTO d.t VALUES (21, 'while it is dead')");
    farm.start_again();
    client.run("INSERT INTO d.t VALUES (22, 'x')");
    wait_until(SOON, "the last row", || {
        numbers(&receiver.events()).contains(&22)
    });
    let events = once(receiver.events());
    assert_eq!(numbers(&events), (1..=22).collect::<Vec<_>>());
    for posted in receiver.all() {
        let header = &posted.headers["heddle-signature"];
        let (time, given) = header.split_once(",v1=").expect("two parts");
        let time_s = time.trim_start_matches("t=").parse().expect("seconds");
        assert_eq!(sinks::signature(&secret, time_s, &posted.body), given);
        assert_eq!(posted.headers["heddle-sink"], "hook");
        let last = posted.events().pop().expect("an event");
        assert_eq!(posted.headers["heddle-token"], last["token"]);
    }
    let listed = farm.json(&["sink", "list"]);
    assert!(!listed[0].to_string().contains(&secret), "{listed:?}");
    wait_until(SOON, "metrics", || {
        let text = metrics(&farm);
        text.contains("heddle_sink_lag_ms{sink=\"hook\"}")
            && text.contains("heddle_sink_events_total{sink=\"hook\"}")
    });
    pause_and_drop(&farm, &receiver, &mut client);
}

fn pause_and_drop(farm: &Farm, receiver: &Receiver, client: &mut testkit::Client) {
    farm.json(&["sink", "pause", "hook"]);
    assert_eq!(shown(farm, "hook", "state"), "paused");
    client.run("INSERT INTO d.t VALUES (30, 'x')");
    wait_until(SOON, "a lag", || {
        shown(farm, "hook", "lag_ms")
            .as_u64()
            .is_some_and(|ms| ms > 0)
    });
    assert!(!numbers(&receiver.events()).contains(&30));
    farm.json(&["sink", "resume", "hook"]);
    wait_until(SOON, "it goes on", || {
        numbers(&receiver.events()).contains(&30)
    });
    farm.json(&["sink", "drop", "hook"]);
    assert!(!farm.command(&["sink", "show", "hook"]).status.success());
    assert!(farm.json(&["sink", "list"]).is_empty());
}

#[test]
fn what_a_webhook_refuses_is_kept_as_letters() {
    let Some(farm) = Farm::start(&["--replicas", "0"]) else {
        return;
    };
    let mut client = table(&farm);
    let status = Arc::new(AtomicU16::new(500));
    let answer = Arc::clone(&status);
    let receiver = Receiver::start(move |posted| {
        let has = |text: &str| String::from_utf8_lossy(&posted.body).contains(text);
        match answer.load(Ordering::Relaxed) {
            422 if !has(r#""b":"poison""#) => Some(200),
            status => Some(status),
        }
    });
    farm.json(&["sink", "create", "hook", &receiver.url()]);
    client.run("INSERT INTO d.t VALUES (1, 'x'), (2, 'poison'), (3, 'x')");
    client.run("INSERT INTO d.t VALUES (4, 'x')");
    wait_until(SOON, "it fails", || {
        shown(&farm, "hook", "state") == "failing"
    });
    let error = shown(&farm, "hook", "error");
    assert!(
        error.as_str().is_some_and(|it| it.contains("500: why")),
        "{error}"
    );
    status.store(422, Ordering::Relaxed);
    farm.json(&["sink", "resume", "hook"]);
    wait_until(SOON, "the rest", || {
        numbers(&receiver.events()).contains(&4)
    });
    let events = once(receiver.events());
    let rows = events.iter().filter(|it| it["kind"] == "insert");
    assert_eq!(numbers(rows), [1, 3, 4]);
    wait_until(SOON, "it is well", || {
        shown(&farm, "hook", "state") == "running"
    });
    let letters = farm.json(&["sink", "letters", "hook"]);
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!(letters[0]["event"]["after"]["b"], "poison");
    assert!(
        letters[0]["reason"]
            .as_str()
            .is_some_and(|it| it.contains("422"))
    );
    assert_eq!(shown(&farm, "hook", "letters"), 1);
    status.store(200, Ordering::Relaxed);
    farm.json(&["sink", "resend", "hook"]);
    wait_until(SOON, "the letter", || {
        numbers(&receiver.events()).contains(&2)
    });
    wait_until(SOON, "no letter", || shown(&farm, "hook", "letters") == 0);
    assert!(farm.json(&["sink", "letters", "hook"]).is_empty());
}

/// All lines of a sink's files, and the files' names.
fn written(dir: &PathBuf) -> (Vec<Value>, BTreeSet<String>) {
    let entries = std::fs::read_dir(dir).into_iter().flatten();
    let names = entries.map(|it| it.expect("an entry").file_name());
    let names = names.map(|it| it.to_string_lossy().into_owned());
    let names: BTreeSet<String> = names.filter(|name| name.contains(".ndjson")).collect();
    let mut lines = Vec::new();
    for name in &names {
        // One that was closed since is read the next time.
        let bytes = std::fs::read(dir.join(name)).unwrap_or_default();
        let text = match name.contains(".zst") {
            true => zstd::decode_all(&*bytes).unwrap_or_default(),
            false => bytes,
        };
        let parsed = text
            .split(|&byte| byte == b'\n')
            .filter(|it| !it.is_empty());
        lines.extend(parsed.filter_map(|it| serde_json::from_slice::<Value>(it).ok()));
    }
    (lines, names)
}

fn files_have_every_change_once(compress: &str) {
    let Some(mut farm) = Farm::start(&["--replicas", "0", "--groups", "2"]) else {
        return;
    };
    let mut client = table(&farm);
    client.run("INSERT INTO d.t VALUES (-1, 'before')");
    let flags = ["--snapshot", "--tables", "d.t", "--rotate_bytes", "3000"];
    let words = [
        &["sink", "create", "out", "file:out", "--compress", compress][..],
        &flags,
    ]
    .concat();
    farm.json(&words);
    let dir = farm.dir().join("sinks").join("out");
    for round in 0..3_i64 {
        for number in 0..20 {
            client.run(&format!(
                "INSERT INTO d.t VALUES ({}, 'x')",
                round * 20 + number
            ));
        }
        wait_until(SOON, "some of it", || {
            numbers(&written(&dir).0).contains(&(round * 20))
        });
        farm.kill_up();
        farm.start_again();
    }
    client.run("INSERT INTO d.t VALUES (1000, 'last')");
    wait_until(SOON, "the last row, and the snapshot", || {
        let lines = written(&dir).0;
        numbers(&lines).contains(&1000) && numbers(&lines).contains(&-1)
    });
    let (lines, names) = written(&dir);
    assert!(names.len() > 2, "{names:?}");
    let rows = lines
        .iter()
        .filter(|it| it["event"] == "row" && it["kind"] != "read");
    let expected: Vec<i64> = (0..60).chain([1000]).collect();
    assert_eq!(numbers(rows), expected, "each once, in its order");
    // A chunk of a snapshot whose end was not told is read again.
    let changes: Vec<&Value> = lines.iter().filter(|it| it["snapshot"].is_null()).collect();
    let ids: BTreeSet<String> = changes.iter().map(|it| it["id"].to_string()).collect();
    assert_eq!(ids.len(), changes.len(), "nothing twice");
}

#[test]
fn files_have_every_change_once_over_deaths() {
    files_have_every_change_once("none");
}

#[test]
fn packed_files_have_every_change_once_over_deaths() {
    files_have_every_change_once("zstd");
}

#[test]
fn another_router_goes_on_when_the_one_that_delivers_dies() {
    let Some(mut site) = Site::with_two_routers(Release::Installed, &[]) else {
        return;
    };
    site.settle().expect("the group becomes whole");
    let receiver = Receiver::start(|_| Some(200));
    let mut leader = None;
    wait_until(SOON, "a leader", || {
        leader = site.leader();
        leader.is_some()
    });
    let leader = leader.expect("it was waited for");
    let other = 1 - leader;
    let mut client = site.routers[other].client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (a INT PRIMARY KEY, b VARCHAR(20))");
    site.routers[other].json(&["sink", "create", "hook", &receiver.url(), "--tables", "d.t"]);
    for number in 1..=20 {
        client.run(&format!("INSERT INTO d.t VALUES ({number}, 'x')"));
        if number == 10 {
            wait_until(SOON, "some of it", || {
                !numbers(&receiver.events()).is_empty()
            });
            site.routers[leader].kill_up();
        }
    }
    wait_until(SOON, "the last row", || {
        numbers(&receiver.events()).contains(&20)
    });
    let events = once(receiver.events());
    assert_eq!(numbers(&events), (1..=20).collect::<Vec<_>>());
    wait_until(SOON, "its state at the other router", || {
        shown(&site.routers[other], "hook", "state") == "running"
    });
}

testkit::on_both_engines! {
    webhooks_get_every_change_over_deaths,
}
