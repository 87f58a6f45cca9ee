//! Who may have a stream, how many there may be, and that nobody's slowness costs others.

use std::process::Command;

use serde_json::Value;
use testkit::{Farm, wait_until};

use super::farm_for_http_2;
use crate::reading::{SOON, Stream, admin, ask, metric, rows};

#[test]
fn a_stream_needs_the_admin_right_and_a_place() {
    let Some(farm) = Farm::start(&["--replicas", "0", "--set", "change_streams_max=2"]) else {
        return;
    };
    assert_eq!(ask(&farm, "", None).0, 401);
    let monitor = std::fs::read_to_string(farm.dir().join("monitor-token")).expect("written");
    assert_eq!(ask(&farm, "", Some(monitor.trim())).0, 403);
    let bearer = admin(&farm);
    for wrong in ["from=x", "from=MTt4Oy4", "group=g9", "nothing=1"] {
        assert_eq!(ask(&farm, wrong, Some(&bearer)).0, 400, "{wrong}");
    }
    let one = Stream::now(&farm, "");
    let _other = Stream::now(&farm, "group=g1");
    assert_eq!(ask(&farm, "", Some(&bearer)).0, 503);
    // A client that leaves gives up its place.
    drop(one);
    wait_until(SOON, "the place of who left", || {
        metric(&farm, "heddle_change_streams") == 1.0
    });
    Stream::now(&farm, "");
}

#[test]
fn a_router_that_stops_ends_its_streams() {
    let Some(mut farm) = Farm::start(&["--replicas", "0"]) else {
        return;
    };
    let mut stream = Stream::now(&farm, "");
    assert!(farm.stop().success());
    while stream.next().is_some() {}
    assert!(
        !farm.stderr().contains("did not end in time"),
        "{}",
        farm.stderr()
    );
}

/// Rows of 50,000 bytes: more than sockets take of a stream that is not read.
const BIG_ROWS: usize = 800;
const UNREAD_BYTES_MAX: f64 = 16e6;

#[test]
fn who_does_not_read_is_not_read_for() {
    let Some(farm) = Farm::start(&["--replicas", "0"]) else {
        return;
    };
    let mut client = farm.member("g1-1").client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.last (a INT PRIMARY KEY)");
    client.run("CREATE TABLE d.t (id INT PRIMARY KEY, v LONGTEXT)");
    let (mut slow, mut fast) = (Stream::now(&farm, ""), Stream::now(&farm, ""));
    for id in 0..BIG_ROWS {
        client.run(&format!(
            "INSERT INTO d.t VALUES ({id}, REPEAT('x', 50000))"
        ));
    }
    client.run("INSERT INTO d.last VALUES (1)");
    let told = fast.until_last(1);
    let bytes: usize = told.iter().map(|event| event.to_string().len()).sum();
    let taken = metric(&farm, "heddle_change_stream_bytes_total");
    assert!(
        taken < bytes as f64 + UNREAD_BYTES_MAX,
        "{taken} of {bytes}"
    );
    // It has not missed anything.
    let late = slow.until_last(1);
    assert_eq!(rows(&late).len(), BIG_ROWS + 1);
}

#[test]
fn transactions_over_groups_have_one_name() {
    let Some(farm) = Farm::start(&["--groups", "2", "--replicas", "1"]) else {
        return;
    };
    let mut client = farm.client();
    client.run("CREATE DATABASE d");
    for words in [
        &["sharding", "create_definition", "HASH", "g1"][..],
        &["sharding", "add_table", "1", "d.t", "id"],
        &["sharding", "add_shard", "1", "g1,g2", "--state=ENABLED"],
    ] {
        let output = farm.command(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
    }
    client.run("CREATE TABLE d.t (id INT PRIMARY KEY, v INT)");
    client.run("CREATE TABLE d.last (a INT PRIMARY KEY)");
    let mut stream = Stream::now(&farm, "");
    client.run("BEGIN");
    for id in 0..20 {
        client.run(&format!("INSERT INTO d.t VALUES ({id}, 1)"));
    }
    client.run("COMMIT");
    client.run("INSERT INTO d.last VALUES (1)");
    let mut events: Vec<Value> = Vec::new();
    while rows(&events).len() < 21 {
        events.extend(stream.next());
    }
    let of = |events: &[Value], group: &str| {
        let commits = events
            .iter()
            .filter(|it| it["event"] == "commit" && it["group"] == group);
        let xids: Vec<String> = commits
            .filter_map(|it| it["xid"].as_str().map(str::to_owned))
            .collect();
        xids
    };
    // The commit of the last group's part may come behind the last row.
    while of(&events, "g1").is_empty() || of(&events, "g2").is_empty() {
        events.extend(stream.next());
    }
    assert_eq!(of(&events, "g1"), of(&events, "g2"));
    assert!(
        of(&events, "g1")[0].starts_with("484401"),
        "{:?}",
        of(&events, "g1")
    );
    let of_group = |group: &str| {
        let all = rows(&events).into_iter();
        all.filter(|row| row["group"] == group && row["table"] == "t")
            .count()
    };
    assert_eq!(of_group("g1") + of_group("g2"), 20);
    assert!(of_group("g1") > 0 && of_group("g2") > 0);
    // Each stream has a token for both groups.
    let token = stream.token.clone();
    client.run("INSERT INTO d.last VALUES (2)");
    let told = Stream::behind(&farm, &token, "").until_last(2);
    assert_eq!(rows(&told).len(), 1, "{told:#?}");
}

#[test]
fn changes_are_told_over_http_2() {
    let Some(farm) = farm_for_http_2() else {
        return;
    };
    let mut client = farm.client();
    let bearer = format!("Authorization: Bearer {}", admin(&farm));
    let curl = |query: &str| {
        let mut curl = Command::new("curl");
        curl.args([
            "--http2-prior-knowledge",
            "--no-buffer",
            "--silent",
            "--header",
            &bearer,
        ]);
        curl.arg(format!("http://{}/v1/changes?{query}", farm.http));
        curl
    };
    let refused = curl("from=wrong")
        .args(["--write-out", " HTTP/%{http_version}"])
        .output();
    let refused = refused.expect("curl runs");
    let said = String::from_utf8_lossy(&refused.stdout);
    assert!(
        said.contains("token") && said.ends_with(" HTTP/2"),
        "{said}"
    );
    let out = farm.dir().join("told");
    let mut stream = curl("table=d.t")
        .arg("--output")
        .arg(&out)
        .spawn()
        .expect("curl runs");
    let told = || std::fs::read_to_string(&out).unwrap_or_default();
    wait_until(SOON, "the stream begins", || told().contains("heartbeat"));
    client.run("INSERT INTO d.t VALUES (7)");
    wait_until(SOON, "a row", || told().contains(r#""after":{"a":7}"#));
    stream.kill().expect("it runs");
    stream.wait().expect("it ends");
    wait_until(SOON, "its place is free", || {
        metric(&farm, "heddle_change_streams") == 0.0
    });
}
