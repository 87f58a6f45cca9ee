//! Sinks that deliver to message brokers: nothing is lost when the router or the broker dies; what comes twice has an
//! id that was there.

use std::collections::BTreeMap;

use serde_json::Value;
use testkit::{Farm, wait_until};

use super::kafka::Kafka;
use super::nats::Nats;
use crate::reading::SOON;

pub(super) fn farm() -> Option<(Farm, testkit::Client)> {
    let farm = Farm::start(&["--replicas", "0"])?;
    let mut client = farm.member("g1-1").client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (a INT PRIMARY KEY, b INT)");
    Some((farm, client))
}

pub(super) fn number(event: &Value) -> Option<i64> {
    event["after"]["a"].as_i64()
}

#[test]
fn jetstream_has_every_change_once_over_deaths() {
    let Some(mut nats) = Nats::start() else {
        return;
    };
    let Some((mut farm, mut client)) = farm() else {
        return;
    };
    let to = format!("nats://127.0.0.1:{}/farm", nats.port);
    // Nobody has made the stream.
    farm.json(&["sink", "create", "bus", &to, "--tables", "d.t"]);
    client.run("INSERT INTO d.t VALUES (0, 0)");
    wait_until(SOON, "it fails", || {
        let shown = farm.json(&["sink", "show", "bus"]);
        shown[0]["error"]
            .as_str()
            .is_some_and(|it| it.contains("no stream"))
    });
    nats.make_stream("farm");
    farm.json(&["sink", "resume", "bus"]);
    for number in 1..=20 {
        client.run(&format!("INSERT INTO d.t VALUES ({number}, 0)"));
    }
    let has = |nats: &Nats, wanted: i64| {
        let all = nats.read("farm");
        all.iter().any(|(_, event)| number(event) == Some(wanted))
    };
    wait_until(SOON, "the first rows", || has(&nats, 20));
    nats.kill();
    for number in 21..=30 {
        client.run(&format!("INSERT INTO d.t VALUES ({number}, 0)"));
    }
    nats.start_again();
    farm.json(&["sink", "resume", "bus"]);
    wait_until(SOON, "what was while it was dead", || has(&nats, 30));
    farm.kill_up();
    client.run("INSERT INTO d.t VALUES (31, 0)");
    farm.start_again();
    wait_until(SOON, "the last row", || has(&nats, 31));
    let all = nats.read("farm");
    let rows: Vec<&(String, Value)> = all.iter().filter(|(_, it)| it["event"] == "row").collect();
    let numbers: Vec<i64> = rows.iter().filter_map(|(_, it)| number(it)).collect();
    assert_eq!(
        numbers,
        (0..=31).collect::<Vec<_>>(),
        "each once, in its order"
    );
    assert!(rows.iter().all(|(subject, _)| subject == "farm.g1.d.t"));
}

#[test]
fn kafka_has_every_change_over_deaths() {
    let Some(mut kafka) = Kafka::start() else {
        return;
    };
    let Some((mut farm, mut client)) = farm() else {
        return;
    };
    kafka.make_topic("farm", "3");
    let to = format!("kafka://127.0.0.1:{}/farm", kafka.port);
    farm.json(&["sink", "create", "log", &to, "--tables", "d.t"]);
    for number in 0..30 {
        client.run(&format!("INSERT INTO d.t VALUES ({number}, 0)"));
        client.run(&format!("UPDATE d.t SET b = 1 WHERE a = {number}"));
    }
    let delivered = |farm: &Farm, least: u64| {
        let shown = farm.json(&["sink", "show", "log"]);
        shown[0]["delivered"].as_u64().is_some_and(|it| it >= least)
    };
    wait_until(SOON, "the first rows", || delivered(&farm, 60));
    kafka.kill();
    client.run("UPDATE d.t SET b = 2");
    farm.kill_up();
    kafka.start_again();
    farm.start_again();
    client.run("INSERT INTO d.t VALUES (1000, 0)");
    let mut all = Vec::new();
    wait_until(SOON * 3, "the last row", || {
        all = kafka.read("farm");
        all.iter().any(|(.., event)| number(event) == Some(1000))
    });
    let mut rows: BTreeMap<String, (i32, Vec<(String, i64)>)> = BTreeMap::new();
    for (partition, key, id, event) in all {
        assert_eq!(event["id"], *id);
        if event["event"] == "row" {
            let of_key = rows.entry(key).or_insert((partition, Vec::new()));
            assert_eq!(of_key.0, partition, "a key is in one partition");
            let value = event["after"]["b"].as_i64().expect("a number");
            // What was there is there again.
            if !of_key.1.iter().any(|(seen, _)| *seen == id) {
                of_key.1.push((id, value));
            }
        }
    }
    assert_eq!(rows.len(), 31);
    for number in 0..30 {
        let key = format!(r#"{{"table":"d.t","key":{{"a":{number}}}}}"#);
        let values: Vec<i64> = rows[&key].1.iter().map(|(_, value)| *value).collect();
        assert_eq!(values, [0, 1, 2], "{key}");
    }
}
