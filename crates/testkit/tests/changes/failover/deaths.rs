//! A stream under writes while primaries die: every acknowledged change is told once, and in the order of each row.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;

use serde_json::Value;
use testkit::{Client, Farm, Release, grow_rows, wait_until};

use crate::reading::{SOON, Stream};

/// Clients that write, and primaries that die.
const WRITERS: i64 = 4;
const DEATHS: usize = 3;

/// Between two deaths so many statements are acknowledged.
const STATEMENTS: usize = 150;

/// The stream is broken off by its client behind so many rows, and goes on by its token.
const ROWS_OF_A_STREAM: usize = 97;

/// What a consumer knows: each row's last version. What is told twice or out of order does not fit.
pub(super) fn apply(table: &mut BTreeMap<i64, i64>, event: &Value) {
    let id = event["key"]["id"].as_i64().expect("a key");
    let version = |image: &Value| image["v"].as_i64();
    let before = version(&event["before"]);
    assert_eq!(table.get(&id).copied(), before, "{event}");
    match version(&event["after"]) {
        Some(after) => drop(table.insert(id, after)),
        None => drop(table.remove(&id)),
    }
}

/// Reads until the last row, by streams that are broken off and go on.
fn consume(farm: &Farm, first: Stream) -> (BTreeMap<i64, i64>, usize) {
    let (mut table, mut streams) = (BTreeMap::new(), 1);
    let mut stream = first;
    loop {
        let mut rows = 0;
        while rows < ROWS_OF_A_STREAM {
            let Some(event) = stream.next() else {
                break;
            };
            let name = event["event"].as_str().expect("a name");
            assert!(!["gap", "undone", "error"].contains(&name), "{event}");
            if event["table"] == "last" && name == "row" {
                return (table, streams);
            }
            if name == "row" {
                apply(&mut table, &event);
                rows += 1;
            }
        }
        stream = Stream::behind(farm, &stream.token.clone(), "database=d");
        streams += 1;
    }
}

/// Kills the primary under load, and waits until the group is whole again.
fn kill_a_primary(farm: &Farm, done: &AtomicUsize) {
    let before = done.load(Relaxed);
    wait_until(SOON, "statements are acknowledged", || {
        done.load(Relaxed) > before + STATEMENTS
    });
    let primary = farm.primary("g1");
    primary.signal("KILL");
    wait_until(SOON, "another primary", || {
        farm.primary_of("g1")
            .is_some_and(|it| it.pid != primary.pid)
    });
    let killed = done.load(Relaxed);
    wait_until(SOON, "writes go on", || done.load(Relaxed) > killed);
    wait_until(SOON, "both replicas are back", || {
        let servers = farm.json(&["group", "lookup_servers", "g1"]);
        let replicas = servers.iter().filter(|it| it["status"] == "SECONDARY");
        replicas.count() == 2
    });
}

/// The rows that are there, by their ids.
pub(super) fn there(farm: &Farm) -> BTreeMap<i64, i64> {
    let number = |cell: &Option<String>| cell.as_deref().and_then(|it| it.parse().ok());
    let rows = farm.client().rows("SELECT id, v FROM d.t ORDER BY id");
    rows.iter()
        .map(|row| {
            (
                number(&row[0]).expect("an id"),
                number(&row[1]).expect("a version"),
            )
        })
        .collect()
}

fn nothing_is_lost_or_doubled(release: Release) {
    let Some(farm) = Farm::start_on(release, &[]) else {
        return;
    };
    let farm = Arc::new(farm);
    let mut client = farm.client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (id BIGINT PRIMARY KEY, v INT)");
    client.run("CREATE TABLE d.last (a INT PRIMARY KEY)");
    let first = Stream::now(&farm, "database=d");
    let consumer = {
        let farm = Arc::clone(&farm);
        thread::spawn(move || consume(&farm, first))
    };
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (address, stop) = (farm.sql, Arc::clone(&stop));
            let done: Arc<AtomicUsize> = Arc::clone(&done);
            thread::spawn(move || grow_rows(address, writer, &stop, &done))
        })
        .collect();
    for _ in 0..DEATHS {
        kill_a_primary(&farm, &done);
    }
    stop.store(true, Relaxed);
    writers
        .into_iter()
        .for_each(|writer| writer.join().expect("it writes"));
    wait_until(SOON, "the last row", || {
        Client::connect(farm.sql, "root", "")
            .and_then(|mut client| client.query("INSERT INTO d.last VALUES (1)"))
            .is_ok()
    });
    let (told, streams) = consumer.join().expect("it reads");
    assert!(streams > DEATHS, "{streams}");
    let there = there(&farm);
    assert!(there.len() > DEATHS * STATEMENTS / 4, "{}", there.len());
    let lost: Vec<_> = there
        .iter()
        .filter(|(id, v)| told.get(id) != Some(v))
        .collect();
    let made_up: Vec<_> = told.keys().filter(|id| !there.contains_key(id)).collect();
    assert!(
        lost.is_empty() && made_up.is_empty(),
        "{lost:?} {made_up:?}"
    );
}

#[test]
fn a_stream_over_failovers_tells_every_change_once_on_mariadb() {
    nothing_is_lost_or_doubled(Release::Installed);
}

#[test]
fn a_stream_over_failovers_tells_every_change_once_on_mysql() {
    nothing_is_lost_or_doubled(Release::newest_mysql());
}
