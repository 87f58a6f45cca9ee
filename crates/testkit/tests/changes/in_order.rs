//! `order=global`: one order over all groups, the same for every reader and behind every token, in which a transaction
//! over several groups is one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

use serde_json::Value;
use testkit::{Client, Farm, Release, connect_unless, wait_until};

use crate::reading::{SOON, Stream, admin, ask, rows};

const ACCOUNTS: i64 = 12;
const START: i64 = 100;
const CLIENTS: u64 = 3;

/// A farm of two groups with a database each.
fn farm_of_two(release: Release, replicas: &str) -> Option<Farm> {
    let flags = [
        &["--groups", "2", "--replicas", replicas][..],
        release.xa_flags(),
    ]
    .concat();
    let farm = Farm::start_on(release, &flags)?;
    farm.json(&["sharding", "assign_database", "one", "g1"]);
    farm.json(&["sharding", "assign_database", "two", "g2"]);
    let mut root = farm.client();
    for name in ["one", "two"] {
        root.run(&format!("CREATE DATABASE {name}"));
        root.run(&format!(
            "CREATE TABLE {name}.t (id INT PRIMARY KEY, v BIGINT NOT NULL)"
        ));
        root.run(&format!("CREATE TABLE {name}.log (id INT PRIMARY KEY)"));
        for id in 0..ACCOUNTS {
            root.run(&format!("INSERT INTO {name}.t VALUES ({id}, {START})"));
        }
    }
    root.run("CREATE TABLE two.last (a INT PRIMARY KEY)");
    Some(farm)
}

/// Clients that move money between the groups, and within each of them.
struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    workers: Vec<JoinHandle<()>>,
}

impl Load {
    fn begin(farm: &Farm) -> Load {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let worker = |who| {
            let (stop, done, address) = (Arc::clone(&stop), Arc::clone(&done), farm.sql);
            thread::spawn(move || work(address, who, &stop, &done))
        };
        let workers = (0..CLIENTS).map(worker).collect();
        Load {
            stop,
            done,
            workers,
        }
    }

    fn wait(&self, more: u64) {
        let before = self.done.load(Relaxed);
        wait_until(SOON, "transfers", || {
            self.done.load(Relaxed) > before + more
        });
    }

    /// Ends; the last row of all is in `two.last` then.
    fn end(self, farm: &Farm, number: i64) {
        self.stop.store(true, Relaxed);
        for worker in self.workers {
            worker.join().expect("it works");
        }
        wait_until(SOON, "the last row", || {
            let client = Client::connect(farm.sql, "root", "");
            let sql = format!("INSERT INTO two.last VALUES ({number})");
            client.and_then(|mut client| client.query(&sql)).is_ok()
        });
    }
}

fn work(address: std::net::SocketAddr, who: u64, stop: &AtomicBool, done: &AtomicU64) {
    let mut client = None;
    let mut number = 0;
    while !stop.load(Relaxed) {
        let Some(open) = client.as_mut() else {
            client = connect_unless(stop, || Client::connect(address, "root", "").ok());
            continue;
        };
        number += 1;
        match transfer(open, who, number) {
            Ok(()) => drop(done.fetch_add(1, Relaxed)),
            Err(_) => client = None,
        }
    }
}

fn transfer(client: &mut Client, who: u64, number: u64) -> Result<(), testkit::client::Failure> {
    let (from, to) = match number % 4 {
        0 => ("one", "two"),
        1 => ("two", "one"),
        2 => ("one", "one"),
        _ => ("two", "two"),
    };
    let accounts = ACCOUNTS.unsigned_abs();
    let (id, other) = (
        (number * 7 + who) % accounts,
        (number * 5 + who + 1) % accounts,
    );
    if number.is_multiple_of(5) {
        let id = who * 1_000_000 + number;
        client.query(format!("INSERT INTO {from}.log VALUES ({id})"))?;
    }
    client.query("BEGIN")?;
    client.query(format!("UPDATE {from}.t SET v = v - 1 WHERE id = {id}"))?;
    client.query(format!("UPDATE {to}.t SET v = v + 1 WHERE id = {other}"))?;
    client.query("COMMIT").map(drop)
}

/// What a consumer has: the balances.
#[derive(Default)]
struct Copy(BTreeMap<(String, i64), i64>);

impl Copy {
    fn of(farm: &Farm) -> Copy {
        let mut copy = Copy::default();
        let mut client = farm.client();
        for name in ["one", "two"] {
            for row in client.rows(&format!("SELECT id, v FROM {name}.t")) {
                let number = |at: usize| row[at].as_deref().and_then(|it| it.parse().ok());
                let id = (name.to_owned(), number(0).expect("an id"));
                copy.0.insert(id, number(1).expect("a balance"));
            }
        }
        copy
    }

    /// Takes a row; what it was before has to be what this has.
    fn take(&mut self, event: &Value) {
        let id = event["key"]["id"].as_i64().expect("a key");
        let id = (event["database"].as_str().expect("one").to_owned(), id);
        let value = |image: &Value| image["v"].as_i64();
        if event["kind"] != "read" {
            let before = self.0.get(&id).copied();
            assert_eq!(before, value(&event["before"]), "{event}");
        }
        match value(&event["after"]) {
            Some(after) => drop(self.0.insert(id, after)),
            None => drop(self.0.remove(&id)),
        }
    }

    fn sum(&self) -> i64 {
        self.0.values().sum()
    }
}

/// The events of a stream up to the last row: whole transactions, at the end of each of which all money is there.
fn read(stream: &mut Stream, copy: &mut Copy, number: i64) -> Vec<Value> {
    let events = stream.until_last(number);
    let mut open: Option<&Value> = None;
    let mut groups = 0;
    for event in &events {
        match event["event"].as_str().expect("a name") {
            "begin" => {
                assert!(open.is_none(), "{event}");
                open = Some(event);
                groups += usize::from(event["groups"].as_array().is_some());
            }
            "commit" => {
                let begun = open.take().expect("it has begun");
                assert_eq!(begun["gtid"], event["gtid"]);
                assert_eq!(copy.sum(), 2 * ACCOUNTS * START, "{event}");
            }
            "row" => {
                let begun = open.expect("it has begun");
                assert_eq!(begun["xid"], event["xid"], "{event}");
                if event["table"] == "t" {
                    copy.take(event);
                }
            }
            _ => {}
        }
    }
    assert!(groups > 10, "only {groups} transactions over both groups");
    events
}

/// Events without what differs between streams that tell the same. The time is that of the server whose log was read:
/// another one has logged the same transaction a moment later, and does not know the client's connection.
fn plain(events: &[Value]) -> Vec<Value> {
    let told = events.iter().filter(|event| event["event"] != "columns");
    told.map(|event| {
        let mut event = event.clone();
        let fields = event.as_object_mut().expect("an object");
        for name in ["token", "sql", "time", "told_ms", "connection"] {
            fields.remove(name);
        }
        event
    })
    .collect()
}

fn all_readers_tell_one_order(release: Release) {
    let Some(farm) = farm_of_two(release, "0") else {
        return;
    };
    let mut copy = Copy::of(&farm);
    let mut first = Stream::now(&farm, "order=global");
    let load = Load::begin(&farm);
    load.wait(40);
    let mut second = Stream::now(&farm, "order=global");
    load.wait(40);
    let mut hidden = Stream::now(&farm, "order=global&table=two.t&table=two.last");
    let mut of_group = Stream::now(&farm, "order=global&group=g2&table=t&table=last");
    load.wait(60);
    load.end(&farm, 1);
    let events = read(&mut first, &mut copy, 1);
    assert_eq!(Copy::of(&farm).0, copy.0);
    let all = plain(&events);
    let told = plain(&second.until_last(1));
    assert_eq!(told, all[all.len() - told.len()..], "another reader");
    // Without one of the groups the others' rows have the same order.
    for stream in [&mut hidden, &mut of_group] {
        let told = stream.until_last(1);
        let of = |events: &[Value]| -> Vec<Value> {
            let rows = rows(events).into_iter();
            let rows = rows.filter(|it| it["group"] == "g2" && it["table"] != "log");
            plain(&rows.cloned().collect::<Vec<_>>())
        };
        let (told, whole) = (of(&told), of(&events));
        assert!(told.len() > 10, "{told:?}");
        assert_eq!(told, whole[whole.len() - told.len()..]);
    }
    goes_on_behind(&farm, &events);
}

/// Behind any event the rest comes, in the same order.
fn goes_on_behind(farm: &Farm, events: &[Value]) {
    let inside = |event: &&Value| event["xid"].is_string() && event["event"] == "row";
    let some = events.iter().step_by(events.len() / 12);
    let within = events.iter().filter(inside).step_by(9).take(12);
    let begins = events.iter().filter(|it| it["groups"].is_array());
    for event in some.chain(within).chain(begins.take(2)) {
        let at = events
            .iter()
            .position(|it| it["token"] == event["token"] && it == event)
            .expect("it is one of them");
        if at + 2 >= events.len() {
            continue;
        }
        let token = event["token"].as_str().expect("every event has one");
        let rest = Stream::behind(farm, token, "order=global").until_last(1);
        assert_eq!(plain(&rest), plain(&events[at + 1..]), "behind {event}");
    }
}

fn a_group_that_is_silent_is_waited_for(release: Release) {
    let Some(farm) = farm_of_two(release, "0") else {
        return;
    };
    let mut stream = Stream::now(&farm, "order=global");
    let mut client = farm.member("g2-1").client();
    // What g2 has can be told when g1 has said that it has nothing in front of it.
    client.run("INSERT INTO two.last VALUES (1)");
    assert_eq!(rows(&stream.until_last(1)).len(), 1);
    let silent = farm.member("g1-1");
    silent.signal("STOP");
    client.run("INSERT INTO two.last VALUES (2)");
    loop {
        let event = stream.next().expect("it goes on");
        assert_eq!(event["event"], "heartbeat", "{event}");
        if event["waits_for"] == serde_json::json!(["g1"]) {
            break;
        }
    }
    silent.signal("CONT");
    assert_eq!(rows(&stream.until_last(2)).len(), 1);
}

fn the_order_holds_over_a_failover(release: Release) {
    let Some(farm) = farm_of_two(release, "2") else {
        return;
    };
    let mut copy = Copy::of(&farm);
    let mut stream = Stream::now(&farm, "order=global");
    let load = Load::begin(&farm);
    for group in ["g1", "g2"] {
        load.wait(40);
        let primary = farm.primary(group);
        primary.signal("KILL");
        wait_until(SOON, "another primary", || {
            let now = farm.primary_of(group);
            now.is_some_and(|it| it.pid != primary.pid)
        });
        load.wait(40);
    }
    load.end(&farm, 1);
    let events = read(&mut stream, &mut copy, 1);
    wait_until(SOON, "every branch has ended", || {
        farm.json(&["transaction", "list"]).is_empty()
    });
    assert_eq!(Copy::of(&farm).0, copy.0);
    goes_on_behind(&farm, &events);
}

/// So many rows of 20,000 bytes are more than a stream keeps of one transaction.
const LONG_ROWS: usize = 500;

fn a_long_transaction_over_groups_is_told_whole(release: Release) {
    let Some(farm) = farm_of_two(release, "0") else {
        return;
    };
    let mut client = farm.client();
    for name in ["one", "two"] {
        client.run(&format!(
            "CREATE TABLE {name}.long (id INT PRIMARY KEY, v LONGTEXT)"
        ));
    }
    let mut stream = Stream::now(&farm, "order=global");
    client.run("BEGIN");
    for id in 0..LONG_ROWS {
        for name in ["one", "two"] {
            client.run(&format!(
                "INSERT INTO {name}.long VALUES ({id}, REPEAT('x', 20000))"
            ));
        }
    }
    client.run("COMMIT");
    client.run("INSERT INTO two.last VALUES (1)");
    let events = stream.until_last(1);
    let long = rows(&events).into_iter().filter(|it| it["table"] == "long");
    let long: Vec<&Value> = long.collect();
    assert_eq!(long.len(), 2 * LONG_ROWS);
    assert!(long.iter().all(|it| it["xid"] == long[0]["xid"]));
    for at in [LONG_ROWS / 2, LONG_ROWS + LONG_ROWS / 2] {
        let token = long[at]["token"].as_str().expect("a token");
        let rest = Stream::behind(&farm, token, "order=global").until_last(1);
        let rest = rows(&rest).into_iter().filter(|it| it["table"] == "long");
        let rest: Vec<Value> = rest.cloned().collect();
        let expected: Vec<Value> = long[at + 1..].iter().map(|it| (*it).clone()).collect();
        assert!(plain(&rest) == plain(&expected), "{} rows", rest.len());
    }
}

fn a_snapshot_beside_the_order_is_the_farm(release: Release) {
    let Some(farm) = farm_of_two(release, "0") else {
        return;
    };
    let load = Load::begin(&farm);
    load.wait(20);
    let mut stream = Stream::open(&farm, "order=global&snapshot=true&table=t&table=last");
    let (mut copy, mut complete) = (Copy::default(), 0);
    while complete < 2 {
        let event = stream.next().expect("it goes on");
        if event["event"] == "row" && event["table"] == "t" {
            replace(&mut copy, &event);
        }
        complete += usize::from(event["event"] == "snapshot");
    }
    load.wait(20);
    load.end(&farm, 1);
    for event in stream.until_last(1) {
        if event["event"] == "row" && event["table"] == "t" {
            replace(&mut copy, &event);
        }
    }
    assert_eq!(Copy::of(&farm).0, copy.0);
}

/// What a snapshot tells comes beside changes of rows that were not read.
fn replace(copy: &mut Copy, event: &Value) {
    let id = event["key"]["id"].as_i64().expect("a key");
    let id = (event["database"].as_str().expect("one").to_owned(), id);
    copy.0
        .insert(id, event["after"]["v"].as_i64().expect("a balance"));
}

#[test]
fn tokens_of_another_order_are_refused() {
    let Some(farm) = farm_of_two(Release::Installed, "0") else {
        return;
    };
    let bearer = admin(&farm);
    let token = Stream::now(&farm, "").token;
    let (status, _) = ask(&farm, &format!("order=global&from={token}"), Some(&bearer));
    assert_eq!(status, 400);
    let in_order = Stream::now(&farm, "order=global").token;
    assert_eq!(
        ask(&farm, &format!("from={in_order}"), Some(&bearer)).0,
        400
    );
    assert_eq!(ask(&farm, "order=any", Some(&bearer)).0, 400);
    farm.json(&["subscription", "create", "all", "--order", "global"]);
    let refused = farm.command(&["subscription", "ack", "all", &token]);
    assert!(!refused.status.success());
    farm.client().run("INSERT INTO two.last VALUES (1)");
    let mut stream = Stream::open(&farm, "subscription=all");
    stream.until_last(1);
    farm.json(&["subscription", "ack", "all", &stream.token]);
    let shown = farm.json(&["subscription", "show", "all"]);
    assert_eq!(shown[0]["order"], "global");
}

testkit::on_both_engines! {
    all_readers_tell_one_order,
    a_group_that_is_silent_is_waited_for,
    the_order_holds_over_a_failover,
    a_long_transaction_over_groups_is_told_whole,
    a_snapshot_beside_the_order_is_the_farm,
}
