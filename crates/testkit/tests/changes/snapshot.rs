//! A snapshot beside the running stream: every row that is there is told once it can be, rows that change meanwhile
//! never go back, and a consumer that is broken off goes on by its token.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use serde_json::Value;
use testkit::{Client, Farm, Release};

use crate::reading::Stream;

/// Rows of the table that is written while it is read.
const ROWS: i64 = 6000;

/// The stream is broken off behind so many rows.
const ROWS_OF_A_STREAM: usize = 1700;

/// Rows by table and key, each with its values.
type Copy = BTreeMap<(String, String), Value>;

/// As a consumer does it: what is there is replaced.
fn apply(copy: &mut Copy, event: &Value) {
    let table = event["table"].as_str().expect("a table").to_owned();
    let name = |image: &Value| {
        let key = event["key"].as_object().expect("a key").keys();
        let parts: Vec<String> = key.map(|it| image[it].to_string()).collect();
        (table.clone(), parts.join(","))
    };
    let version = |row: &Value| row["v"].as_i64();
    if event["kind"] == "read" {
        let known = copy.get(&name(&event["after"]));
        let known = known.and_then(version);
        assert!(
            version(&event["after"]) >= known,
            "it goes back from {known:?}: {event}"
        );
    }
    if event["before"].is_object() {
        copy.remove(&name(&event["before"]));
    }
    if event["after"].is_object() {
        copy.insert(name(&event["after"]), event["after"].clone());
    }
}

/// Writes until it is told to stop: rows are changed, added, deleted, and get other keys.
fn write(address: SocketAddr, seed: i64, stop: &AtomicBool) {
    let mut client = Client::connect(address, "root", "").expect("root has no password");
    let mut number = seed;
    while !stop.load(Relaxed) {
        number = (number * 1_103_515_245 + 12_345) % 2_147_483_648;
        let id = number / 7 % (ROWS * 2);
        let sql = match number % 5 {
            0 => format!("DELETE FROM d.t WHERE id = {id}"),
            1 => format!("INSERT IGNORE INTO d.t VALUES ({id}, 1, 'new')"),
            2 => format!(
                "UPDATE IGNORE d.t SET id = {}, v = v + 1 WHERE id = {id}",
                (id + 977) % ROWS
            ),
            _ => format!("UPDATE d.t SET v = v + 1 WHERE id = {id}"),
        };
        // Two that want the same rows in turns.
        drop(client.query(&sql));
    }
}

fn prepare(client: &mut Client) {
    for sql in [
        "CREATE DATABASE d CHARACTER SET utf8mb4",
        "CREATE TABLE d.last (a INT PRIMARY KEY)",
        "CREATE TABLE d.empty (a INT PRIMARY KEY)",
        "CREATE TABLE d.t (id BIGINT PRIMARY KEY, v INT NOT NULL, w VARCHAR(200))",
        "CREATE TABLE d.pairs (a VARCHAR(20) CHARACTER SET latin1, b DATE, c DECIMAL(6,2), v INT, \
         PRIMARY KEY (a, b, c))",
    ] {
        client.run(sql);
    }
    for from in (0..ROWS).step_by(500) {
        let rows: Vec<String> = (from..from + 500)
            .map(|id| format!("({id}, 0, REPEAT('x', {}))", id % 200))
            .collect();
        client.run(&format!("INSERT INTO d.t VALUES {}", rows.join(",")));
    }
    for (a, b) in [("sm\u{f6}r", 1), ("", 2), ("a\\'b\\\\", 3), ("\u{e9}", 4)] {
        for c in 0..200 {
            client.run(&format!(
                "INSERT INTO d.pairs VALUES ('{a}', '2024-02-{b:02}', {c}.50, {c})"
            ));
        }
    }
}

/// Reads until the snapshot is complete and the last row is told, by streams that are broken off; gives the rows,
/// and the statements that make tables.
fn consume(farm: &Farm, query: &str) -> (Copy, Vec<String>) {
    let (mut copy, mut made) = (Copy::new(), Vec::new());
    let mut stream = Stream::now(farm, query);
    let (mut is_complete, mut is_last) = (false, false);
    while !(is_complete && is_last) {
        let mut rows = 0;
        while rows < ROWS_OF_A_STREAM && !(is_complete && is_last) {
            let event = stream.next().expect("it goes on");
            let name = event["event"].as_str().expect("a name");
            assert!(!["gap", "undone", "error"].contains(&name), "{event}");
            match name {
                "row" => {
                    is_last |= event["table"] == "last";
                    apply(&mut copy, &event);
                    rows += 1;
                }
                "table" => made.push(event["sql"].as_str().expect("a statement").to_owned()),
                "snapshot" => is_complete = true,
                _ => {}
            }
        }
        stream = Stream::behind(farm, &stream.token.clone(), "database=d");
    }
    (copy, made)
}

fn a_snapshot_beside_writes(release: Release) {
    let Some(farm) = Farm::start_on(release, &["--replicas", "1"]) else {
        return;
    };
    let farm = Arc::new(farm);
    let mut direct = farm.member("g1-1").client();
    direct.run("SET NAMES utf8mb4");
    prepare(&mut direct);
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (1..=3)
        .map(|seed| {
            let (address, stop) = (farm.sql, Arc::clone(&stop));
            thread::spawn(move || write(address, seed, &stop))
        })
        .collect();
    let consumer = {
        let farm = Arc::clone(&farm);
        thread::spawn(move || consume(&farm, "database=d&snapshot=true"))
    };
    // Definitions beside it: the table is read again from its beginning.
    direct.run("ALTER TABLE d.t ADD COLUMN x INT NOT NULL DEFAULT 7");
    direct.run("CREATE TABLE d.later (a INT PRIMARY KEY)");
    direct.run("INSERT INTO d.later VALUES (1)");
    let one = direct.rows("SELECT COUNT(*) FROM d.t");
    assert!(one[0][0].is_some());
    stop.store(true, Relaxed);
    writers
        .into_iter()
        .for_each(|writer| writer.join().expect("it writes"));
    direct.run("INSERT INTO d.last VALUES (1)");
    let (copy, made) = consumer.join().expect("it reads");
    for table in ["t", "pairs", "empty"] {
        let shown = format!("CREATE TABLE `{table}`");
        assert!(made.iter().any(|sql| sql.starts_with(&shown)), "{made:?}");
    }
    // Nobody writes any more: another snapshot is what the tables are.
    let (there, _) = consume(&farm, "database=d&snapshot=true");
    let count = |table: &str| {
        there
            .keys()
            .filter(|(of, _)| of == table)
            .count()
            .to_string()
    };
    for table in ["t", "pairs", "later"] {
        let rows = direct.rows(&format!("SELECT COUNT(*) FROM d.{table}"));
        assert_eq!(rows[0][0].as_deref(), Some(&*count(table)), "{table}");
    }
    let differs: Vec<_> = there
        .iter()
        .filter(|(name, row)| copy.get(name) != Some(row))
        .take(5)
        .collect();
    assert!(differs.is_empty(), "{differs:?}");
    let surplus: Vec<_> = copy
        .keys()
        .filter(|name| !there.contains_key(name))
        .collect();
    assert!(surplus.is_empty(), "{surplus:?}");
}

fn a_table_without_a_key_is_refused(release: Release) {
    let Some(farm) = Farm::start_on(release, &["--replicas", "0"]) else {
        return;
    };
    let mut direct = farm.member("g1-1").client();
    direct.run("CREATE DATABASE d");
    direct.run("CREATE TABLE d.t (a INT)");
    direct.run("CREATE TABLE d.u (a INT PRIMARY KEY)");
    let mut stream = Stream::open(&farm, "snapshot=true");
    let mut last = Value::Null;
    while let Some(event) = stream.next() {
        last = event;
    }
    let why = last["error"].as_str().expect("a reason");
    assert!(why.contains("d.t has no primary key"), "{last}");
    // Others can be read.
    let mut stream = Stream::open(&farm, "snapshot=true&table=d.u");
    loop {
        let event = stream.next().expect("it goes on");
        assert_ne!(event["event"], "error", "{event}");
        if event["event"] == "snapshot" {
            break;
        }
    }
}

testkit::on_both_engines! {
    a_snapshot_beside_writes,
    a_table_without_a_key_is_refused,
}
