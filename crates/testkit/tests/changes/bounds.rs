//! What has a bound: how long binlogs are there for consumers, of which they are told before and behind the end; what one
//! long transaction takes; how many streams read by themselves.

use std::fs;

use serde_json::Value;
use testkit::{Client, Farm, Release, wait_until};

use crate::reading::{SOON, Stream, metric, rows};
use crate::resume::purge;

fn start(release: Release, flags: &[&str]) -> Option<(Farm, Client)> {
    let farm = Farm::start_on(release, flags)?;
    let mut client = farm.member("g1-1").client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.last (a INT PRIMARY KEY, b LONGBLOB)");
    Some((farm, client))
}

fn listed(farm: &Farm) -> Value {
    farm.json(&["subscription", "list"])[0].clone()
}

fn has_event(farm: &Farm, kind: &str) -> bool {
    let events = farm.json(&["group", "events"]);
    events.iter().any(|event| event["event"] == kind)
}

fn late(farm: &Farm) -> Vec<String> {
    let found = farm.json(&["doctor"]);
    let late = found.iter().filter(|it| it["check"] == "consumer_late");
    late.map(|it| it["evidence"].to_string()).collect()
}

fn a_consumer_is_told_of_before_and_behind_the_end(release: Release) {
    let Some((farm, mut client)) = start(release, &["--replicas", "0"]) else {
        return;
    };
    farm.json(&["subscription", "create", "index"]);
    client.run("SET GLOBAL binlog_expire_logs_seconds = 4");
    client.run("INSERT INTO d.last VALUES (1, NULL)");
    wait_until(SOON, "it is near the end", || {
        listed(&farm)["expiry_percent"]
            .as_u64()
            .is_some_and(|it| it >= 75)
    });
    assert_eq!(listed(&farm)["gap"], Value::Null);
    wait_until(SOON, "an event", || has_event(&farm, "consumer_near_gap"));
    let found = late(&farm);
    assert!(
        found.len() == 1 && found[0].contains("subscription index is so far behind"),
        "{found:?}"
    );
    purge(&mut client);
    wait_until(SOON, "the gap", || listed(&farm)["gap"].is_string());
    wait_until(SOON, "its event", || has_event(&farm, "consumer_gap"));
    let found = late(&farm);
    assert!(
        found.len() == 1 && found[0].contains("purged: g1: behind "),
        "{found:?}"
    );
    let mut stream = Stream::open(&farm, "subscription=index");
    let mut end = Value::Null;
    while let Some(event) = stream.next() {
        end = event;
    }
    let missing = |side: &str| {
        end["missing"][side]
            .as_str()
            .expect("a position")
            .to_owned()
    };
    let (from, to) = (missing("from"), missing("to"));
    assert!(end["event"] == "gap" && from != to, "{end}");
    assert_eq!(
        listed(&farm)["gap"],
        format!("g1: behind {from} up to {to}")
    );
    assert!(end["error"].to_string().contains("--snapshot"), "{end}");
    // Who begins anew has none.
    farm.json(&["subscription", "drop", "index"]);
    farm.json(&["subscription", "create", "index", "--snapshot"]);
    wait_until(SOON, "nothing is found", || late(&farm).is_empty());
    assert_eq!(listed(&farm)["gap"], Value::Null);
}

fn a_lag_is_known_from_before_the_routers_start(release: Release) {
    let Some((mut farm, mut client)) = start(release, &["--replicas", "0"]) else {
        return;
    };
    farm.json(&["subscription", "create", "index"]);
    client.run("SET timestamp = UNIX_TIMESTAMP() - 5000");
    client.run("INSERT INTO d.last VALUES (1, REPEAT('x', 70000))");
    drop(client);
    assert!(farm.stop().success());
    farm.start_again();
    wait_until(SOON, "the lag", || {
        let lag = listed(&farm);
        let is_more = |name: &str, least| lag[name].as_u64().is_some_and(|it| it >= least);
        is_more("lag_ms", 5_000_000) && is_more("lag_bytes", 70_000)
    });
}

fn servers_keep_binlogs_for_longer(release: Release) {
    let flags = ["--replicas", "1", "--set", "subscription_binlogs_h=2"];
    let Some((farm, _)) = start(release, &flags) else {
        return;
    };
    let mut clients = ["g1-1", "g1-2"].map(|name| farm.member(name).client());
    for client in &mut clients {
        client.run("SET GLOBAL binlog_expire_logs_seconds = 600");
    }
    farm.json(&["subscription", "create", "index"]);
    for client in &mut clients {
        wait_until(SOON, "two hours", || {
            client.value("SELECT @@global.binlog_expire_logs_seconds") == "7200"
        });
    }
    wait_until(SOON, "an event", || has_event(&farm, "binlogs_kept"));
}

/// What a process has, or had at most, in memory.
fn memory_bytes(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| {
        line.trim_start_matches(':')
            .split_whitespace()
            .next()?
            .parse::<u64>()
            .ok()
    });
    kib.expect("a number") * 1024
}

/// A transaction far longer than all that may be kept of it.
const LONG_ROWS: i64 = 1600;
const LONG_ROW_BYTES: i64 = 100_000;
const LONG_KEPT_MAX: u64 = 80 << 20;

#[test]
fn a_long_transaction_takes_little_memory() {
    let Some((farm, mut client)) = start(Release::Installed, &["--replicas", "0"]) else {
        return;
    };
    let mut stream = Stream::now(&farm, "");
    client.run("INSERT INTO d.last VALUES (-1, NULL)");
    stream.until_last(-1);
    let before = memory_bytes(farm.pid(), "VmRSS");
    fs::write(format!("/proc/{}/clear_refs", farm.pid()), "5").expect("the peak begins anew");
    client.run("BEGIN");
    for number in 0..LONG_ROWS {
        client.run(&format!(
            "INSERT INTO d.last VALUES ({number}, REPEAT('x', {LONG_ROW_BYTES}))"
        ));
    }
    client.run("COMMIT");
    let mut told = 0;
    loop {
        let event = stream.next().expect("it goes on");
        match event["event"].as_str() {
            Some("row") => {
                assert_eq!(event["after"]["a"], told);
                told += 1;
            }
            Some("commit") => break,
            _ => {}
        }
    }
    assert_eq!(told, LONG_ROWS);
    let more = memory_bytes(farm.pid(), "VmHWM").saturating_sub(before);
    assert!(more < LONG_KEPT_MAX, "{more} bytes");
}

/// More than may read by themselves, by some.
const SLOW: usize = 20;
const ALONE_MAX: f64 = 16.0;

/// More than what is under way to a client that does not read.
const SLOW_ROWS: i64 = 8;

#[test]
fn streams_that_are_slow_let_others_read() {
    let most = format!("change_streams_max={}", SLOW + 1);
    let flags = [
        "--replicas",
        "0",
        "--set",
        "http_write_timeout_s=600",
        "--set",
        &most,
    ];
    let Some((farm, mut client)) = start(Release::Installed, &flags) else {
        return;
    };
    let token = Stream::now(&farm, "").token;
    for number in 0..SLOW_ROWS {
        client.run(&format!(
            "INSERT INTO d.last VALUES ({number}, REPEAT('x', 1048576))"
        ));
    }
    let mut slow: Vec<Stream> = (0..SLOW)
        .map(|_| Stream::behind(&farm, &token, ""))
        .collect();
    // The last ones come when those in front of them, of whom nothing is read, have given up their seats.
    while let Some(mut stream) = slow.pop() {
        let readings = metric(&farm, "heddle_change_stream_readings");
        assert!(readings <= ALONE_MAX + 1.0, "{readings} readings");
        let told = stream.until_last(SLOW_ROWS - 1);
        let numbers = rows(&told)
            .into_iter()
            .map(|row| row["after"]["a"].as_i64());
        assert_eq!(
            numbers.collect::<Option<Vec<_>>>(),
            Some((0..SLOW_ROWS).collect())
        );
    }
}

testkit::on_both_engines! {
    a_consumer_is_told_of_before_and_behind_the_end,
    a_lag_is_known_from_before_the_routers_start,
    servers_keep_binlogs_for_longer,
}
