//! Durable subscriptions: they go on behind what was acknowledged, also over restarts of the router, and what was
//! purged is a gap. Server-sent events go on by their ids.

use std::io::Read;

use serde_json::Value;
use testkit::{Farm, Release, wait_until};

use crate::reading::{SOON, Stream, admin, ask, ask_with, rows};
use crate::resume::purge;

/// The value of a metric with this subscription's label.
fn lag(farm: &Farm, name: &str) -> Option<f64> {
    let head = format!("{name}{{subscription=\"index\"}} ");
    let text = crate::reading::metrics(farm);
    let line = text.lines().find_map(|line| line.strip_prefix(&*head));
    line.and_then(|value| value.parse().ok())
}

fn acknowledge(farm: &Farm, token: &str) {
    farm.json(&["subscription", "ack", "index", token]);
}

fn a_subscription_goes_on_behind_what_was_acknowledged(release: Release) {
    let Some(mut farm) = Farm::start_on(release, &["--replicas", "0"]) else {
        return;
    };
    let mut client = farm.member("g1-1").client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.last (a INT PRIMARY KEY)");
    client.run("CREATE TABLE d.other (a INT PRIMARY KEY)");
    farm.json(&["subscription", "create", "index", "--tables", "d.last"]);
    assert!(
        !farm
            .command(&["subscription", "create", "index"])
            .status
            .success()
    );
    wait_until(SOON, "a first look", || {
        lag(&farm, "heddle_subscription_lag_ms").is_some()
    });
    client.run("INSERT INTO d.other VALUES (1)");
    client.run("INSERT INTO d.last VALUES (1)");
    let mut stream = Stream::open(&farm, "subscription=index");
    let first = stream.until_last(1);
    assert_eq!(rows(&first).len(), 1, "no other table: {first:?}");
    // Nothing was acknowledged.
    let mut stream = Stream::open(&farm, "subscription=index");
    stream.until_last(1);
    let earlier = stream.token.clone();
    acknowledge(&farm, &earlier);
    client.run("INSERT INTO d.last VALUES (2)");
    wait_until(SOON, "a lag", || {
        lag(&farm, "heddle_subscription_lag_ms").is_some_and(|ms| ms > 0.0)
            && lag(&farm, "heddle_subscription_lag_bytes").is_some_and(|bytes| bytes > 0.0)
    });
    assert!(farm.stop().success());
    farm.start_again();
    let mut stream = Stream::open(&farm, "subscription=index");
    let told = stream.until_last(2);
    assert_eq!(rows(&told).len(), 1, "{told:?}");
    acknowledge(&farm, &stream.token);
    let back = farm.command(&["subscription", "ack", "index", &earlier]);
    let said = String::from_utf8_lossy(&back.stderr).into_owned();
    assert!(
        !back.status.success() && said.contains("behind what was acknowledged"),
        "{said}"
    );
    let listed = farm.json(&["subscription", "list"]);
    assert_eq!(
        (&listed[0]["name"], &listed[0]["tables"]),
        (&"index".into(), &"d.last".into())
    );
    let shown = farm.json(&["subscription", "show", "index"]);
    assert_eq!(shown[0]["token"], *stream.token);
    let bearer = admin(&farm);
    let (status, _) = ask(&farm, "subscription=index&table=x", Some(&bearer));
    assert_eq!(status, 400, "it has its own filters");
    what_was_purged_is_a_gap(&farm);
    farm.json(&["subscription", "drop", "index"]);
    assert_eq!(ask(&farm, "subscription=index", Some(&bearer)).0, 409);
}

fn what_was_purged_is_a_gap(farm: &Farm) {
    let mut client = farm.member("g1-1").client();
    client.run("INSERT INTO d.last VALUES (3)");
    purge(&mut client);
    let mut stream = Stream::open(farm, "subscription=index");
    let mut end = Value::Null;
    while let Some(event) = stream.next() {
        assert_ne!(event["event"], "row", "{event}");
        end = event;
    }
    assert_eq!(end["event"], "gap", "{end}");
}

/// What of server-sent events comes until this number was inserted: the ids, and the data.
fn events(farm: &Farm, query: &str, headers: &str, number: i64) -> Vec<(String, Value)> {
    let bearer = admin(farm);
    let headers = format!("Accept: text/event-stream\r\nConnection: close\r\n{headers}");
    let (status, mut from) = ask_with(farm, query, Some(&bearer), &headers);
    assert_eq!(status, 200);
    let (mut text, mut all) = (String::new(), Vec::new());
    loop {
        let mut bytes = [0; 4096];
        let read = from.read(&mut bytes).expect("bytes in time");
        assert!(read > 0, "it ended: {text}");
        text.push_str(&String::from_utf8_lossy(&bytes[..read]));
        while let Some((event, rest)) = text.split_once("\n\n") {
            // A chunk's size may stand in front.
            let mut id = String::new();
            let mut data = Value::Null;
            for line in event.lines() {
                if let Some(value) = line.strip_prefix("id: ") {
                    value.clone_into(&mut id);
                } else if let Some(value) = line.strip_prefix("data: ") {
                    data = serde_json::from_str(value).expect("JSON");
                }
            }
            text = rest.to_owned();
            let is_last = data["after"]["a"] == number;
            all.push((id, data));
            if is_last {
                return all;
            }
        }
    }
}

#[test]
fn server_sent_events_go_on_by_their_ids() {
    let Some(farm) = Farm::start(&["--replicas", "0"]) else {
        return;
    };
    let mut client = farm.member("g1-1").client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.last (a INT PRIMARY KEY)");
    let token = Stream::now(&farm, "").token;
    for number in 1..=3 {
        client.run(&format!("INSERT INTO d.last VALUES ({number})"));
    }
    let all = events(&farm, &format!("from={token}"), "", 2);
    assert!(
        all.iter().all(|(id, data)| data["token"] == **id),
        "{all:?}"
    );
    let (id, _) = all.last().expect("the second row");
    let rest = events(
        &farm,
        &format!("from={token}"),
        &format!("Last-Event-ID: {id}\r\n"),
        3,
    );
    let told: Vec<&Value> = rest.iter().map(|(_, data)| &data["after"]["a"]).collect();
    assert!(
        !told.contains(&&1.into()) && !told.contains(&&2.into()),
        "{rest:?}"
    );
}

testkit::on_both_engines! {
    a_subscription_goes_on_behind_what_was_acknowledged,
}
