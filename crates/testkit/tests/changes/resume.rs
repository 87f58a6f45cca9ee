//! A stream that goes on behind any of its events tells the rest, and nothing twice.

use serde_json::Value;
use testkit::{Client, Farm, Release, wait_until};

use crate::reading::{SOON, Stream, rows};

/// An event without what differs between two streams that tell the same.
fn plain(event: &Value) -> Value {
    let mut event = event.clone();
    let fields = event.as_object_mut().expect("an object");
    fields.remove("token");
    fields.remove("told_ms");
    // What is known of a table before its definition changes was told earlier.
    fields.remove("tables");
    // Told with the first row of a statement, which may have been told before.
    fields.remove("sql");
    event
}

/// Definitions are told by each stream anew.
fn plain_all(events: &[Value]) -> Vec<Value> {
    let told = events.iter().filter(|event| event["event"] != "columns");
    told.map(plain).collect()
}

/// Transactions of several statements, prepared ones that end late, DDL, changes that nobody is told of.
const STATEMENTS: &[&str] = &[
    "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20))",
    "INSERT INTO d.t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    "BEGIN",
    "UPDATE d.t SET v = 'x' WHERE id < 3",
    "CREATE TEMPORARY TABLE d.mine (a INT)",
    "INSERT INTO e.t VALUES (1)",
    "DELETE FROM d.t WHERE id = 1",
    "COMMIT",
    "BEGIN",
    "INSERT INTO d.t VALUES (9, 'undone')",
    "ROLLBACK",
    "XA START 'early'",
    "INSERT INTO d.t VALUES (10, 'early'), (11, 'early')",
    "XA END 'early'",
    "XA PREPARE 'early'",
];

const BESIDE: &[&str] = &[
    "INSERT INTO d.t VALUES (20, 'meanwhile')",
    "XA START 'undone','b',7",
    "INSERT INTO d.t VALUES (21, 'undone')",
    "XA END 'undone','b',7",
    "XA PREPARE 'undone','b',7",
    "XA ROLLBACK 'undone','b',7",
];

const DEFINITIONS: &[&str] = &[
    "ALTER TABLE d.t ADD COLUMN w INT NOT NULL DEFAULT 5",
    "INSERT INTO d.t VALUES (22, 'wider', 1)",
    "TRUNCATE TABLE e.t",
];

fn goes_on_anywhere(release: Release) {
    let Some(farm) = Farm::start_on(release, &["--replicas", "1"]) else {
        return;
    };
    let member = farm.member("g1-1");
    let (mut one, mut other) = (member.client(), member.client());
    for sql in [
        "CREATE DATABASE d",
        "CREATE DATABASE e",
        "CREATE TABLE d.last (a INT PRIMARY KEY)",
        "CREATE TABLE e.t (a INT)",
    ] {
        one.run(sql);
    }
    let mut stream = Stream::now(&farm, "database=d");
    STATEMENTS.iter().for_each(|sql| drop(one.run(sql)));
    BESIDE.iter().for_each(|sql| drop(other.run(sql)));
    one.run("XA COMMIT 'early'");
    // A definition waits for the branch that has changed the table.
    DEFINITIONS.iter().for_each(|sql| drop(other.run(sql)));
    other.run("INSERT INTO d.last VALUES (1)");
    let events = stream.until_last(1);
    let early = rows(&events)
        .into_iter()
        .filter(|row| row["after"]["v"] == "early");
    let early: Vec<&Value> = early.collect();
    let xid = &early[0]["xid"];
    assert_eq!(early.len(), 2);
    assert!(
        xid.as_str()
            .is_some_and(|it| it.starts_with("X'6561726c79'")),
        "{xid}"
    );
    let at = |value: &str| events.iter().position(|event| event["after"]["v"] == value);
    assert!(
        at("early") > at("meanwhile"),
        "a branch counts when it is committed"
    );
    assert!(at("undone").is_none());
    let last = events.len() - 2;
    for (at, event) in events[..=last].iter().enumerate() {
        let token = event["token"].as_str().expect("every event has one");
        let mut rest = Stream::behind(&farm, token, "database=d");
        let told = match at == last {
            true => rest.until(|event| event["event"] == "commit"),
            false => rest.until_last(1),
        };
        assert_eq!(
            plain_all(&told),
            plain_all(&events[at + 1..]),
            "behind {event}"
        );
    }
}

#[test]
fn a_stream_goes_on_behind_any_event_on_mariadb() {
    goes_on_anywhere(Release::Installed);
}

#[test]
fn a_stream_goes_on_behind_any_event_on_mysql() {
    goes_on_anywhere(Release::newest_mysql());
}

/// So many rows of 20,000 bytes are more than a stream keeps of one transaction.
const LONG_ROWS: usize = 600;

#[test]
fn a_transaction_that_is_too_long_to_be_kept_is_told_whole() {
    let Some(farm) = Farm::start(&["--replicas", "1"]) else {
        return;
    };
    let mut client = farm.member("g1-1").client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.last (a INT PRIMARY KEY)");
    client.run("CREATE TABLE d.t (id INT PRIMARY KEY, v LONGTEXT)");
    let mut stream = Stream::now(&farm, "");
    for (begin, end) in [("BEGIN", "COMMIT"), ("XA START 'x'", "XA COMMIT 'x'")] {
        client.run("DELETE FROM d.t");
        client.run(begin);
        for id in 0..LONG_ROWS {
            client.run(&format!(
                "INSERT INTO d.t VALUES ({id}, REPEAT('x', 20000))"
            ));
        }
        if end != "COMMIT" {
            client.run("XA END 'x'");
            client.run("XA PREPARE 'x'");
        }
        client.run(end);
    }
    client.run("INSERT INTO d.last VALUES (1)");
    let events = stream.until_last(1);
    let inserts: Vec<&Value> = rows(&events)
        .into_iter()
        .filter(|row| row["kind"] == "insert" && row["table"] == "t")
        .collect();
    assert_eq!(inserts.len(), 2 * LONG_ROWS);
    for from in [LONG_ROWS / 2, LONG_ROWS + 7] {
        let token = inserts[from]["token"].as_str().expect("a token");
        let told = Stream::behind(&farm, token, "").until_last(1);
        let again = rows(&told)
            .into_iter()
            .filter(|row| row["kind"] == "insert" && row["table"] == "t");
        let again: Vec<Value> = again.map(plain).collect();
        let expected: Vec<Value> = inserts[from + 1..].iter().map(|it| plain(it)).collect();
        assert!(
            again == expected,
            "{} rows, not {}",
            again.len(),
            expected.len()
        );
    }
}

#[test]
fn a_stream_begins_behind_branches_that_were_prepared_before() {
    let Some(farm) = Farm::start(&["--replicas", "1"]) else {
        return;
    };
    let member = farm.member("g1-1");
    let (mut one, mut other) = (member.client(), member.client());
    one.run("CREATE DATABASE d");
    one.run("CREATE TABLE d.last (a INT PRIMARY KEY)");
    for sql in [
        "XA START 'x'",
        "INSERT INTO d.last VALUES (5)",
        "XA END 'x'",
        "XA PREPARE 'x'",
    ] {
        one.run(sql);
    }
    let mut stream = Stream::open(&farm, "");
    wait_until(SOON, "the stream is open", || {
        crate::reading::metric(&farm, "heddle_change_streams") == 1.0
    });
    other.run("INSERT INTO d.last VALUES (6)");
    one.run("XA COMMIT 'x'");
    let first = stream.next().expect("a line");
    assert_eq!(first["event"], "heartbeat", "{first}");
    other.run("INSERT INTO d.last VALUES (7)");
    let events = stream.until_last(7);
    let told = rows(&events);
    assert!(!told.iter().any(|row| row["after"]["a"] == 5), "{told:#?}");
}

#[test]
fn a_binlog_that_was_purged_is_a_gap() {
    for release in [Release::Installed, Release::newest_mysql()] {
        let Some(farm) = Farm::start_on(release, &["--replicas", "0"]) else {
            continue;
        };
        let mut client = farm.member("g1-1").client();
        client.run("CREATE DATABASE d");
        client.run("CREATE TABLE d.last (a INT PRIMARY KEY)");
        let token = Stream::now(&farm, "").token;
        client.run("INSERT INTO d.last VALUES (1)");
        client.run("FLUSH BINARY LOGS");
        let files = client.rows("SHOW BINARY LOGS");
        let last = files.last().and_then(|row| row[0].clone()).expect("a file");
        client.run("INSERT INTO d.last VALUES (2)");
        wait_until(SOON, "the log is purged", || {
            client.run(&format!("PURGE BINARY LOGS TO '{last}'"));
            client.rows("SHOW BINARY LOGS").len() == 1
        });
        let mut stream = Stream::behind(&farm, &token, "");
        let mut end = Value::Null;
        while let Some(event) = stream.next() {
            assert_ne!(event["event"], "row", "{event}");
            end = event;
        }
        assert_eq!(
            (&end["event"], &end["group"]),
            (&"gap".into(), &"g1".into()),
            "{end}"
        );
        assert!(
            end["error"]
                .as_str()
                .is_some_and(|it| it.contains("begin without a token")),
            "{end}"
        );
    }
}

/// The server forgets what its binlog has so far.
pub(super) fn purge(client: &mut Client) {
    client.run("FLUSH BINARY LOGS");
    let files = client.rows("SHOW BINARY LOGS");
    let last = files.last().and_then(|row| row[0].clone()).expect("a file");
    wait_until(SOON, "the log is purged", || {
        client.run(&format!("PURGE BINARY LOGS TO '{last}'"));
        client.rows("SHOW BINARY LOGS").len() == 1
    });
}

/// As when a server leads that was cloned: its own binlog begins with the clone.
fn what_the_primary_lacks_another_server_tells(release: Release) {
    let Some(farm) = Farm::start_on(release, &["--replicas", "1"]) else {
        return;
    };
    let primary = farm.primary("g1");
    let mut client = primary.client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.last (a INT PRIMARY KEY)");
    let tokens = ["", "order=global"].map(|query| (query, Stream::now(&farm, query).token));
    for number in 1..=3 {
        client.run(&format!("INSERT INTO d.last VALUES ({number})"));
    }
    purge(&mut client);
    client.run("INSERT INTO d.last VALUES (4)");
    for (query, token) in tokens {
        let mut stream = Stream::behind(&farm, &token, query);
        let told = stream.until_last(4);
        assert_eq!(rows(&told).len(), 4, "{told:#?}");
        // It goes on where the primary has it.
        client.run("DELETE FROM d.last WHERE a = 4");
        client.run("INSERT INTO d.last VALUES (4)");
        assert_eq!(rows(&stream.until_last(4)).len(), 2);
    }
}

/// Every server of the group has been filled since: its files brought the other one's log along.
#[test]
fn what_happened_before_servers_were_filled_is_told() {
    let Some(farm) = Farm::start(&["--replicas", "1"]) else {
        return;
    };
    let binary = Release::Installed.binary().expect("it has started");
    if let Err(why) = mysqld::backup::Tool::find(&binary) {
        return testkit::skip(&why);
    }
    let mut client = farm.client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.last (a INT PRIMARY KEY)");
    let token = Stream::now(&farm, "").token;
    for number in 1..=3 {
        client.run(&format!("INSERT INTO d.last VALUES ({number})"));
        let members = farm.members();
        let leads = farm.primary("g1").port;
        let other = members.iter().find(|it| it.port != leads);
        let other = format!("127.0.0.1:{}", other.expect("a replica").port);
        let fill = ["server", "clone", "g1", &other, "--force=true"];
        farm.json(&[&fill[..], &["--method=backup"]].concat());
        farm.promote("g1", Some(&other));
    }
    let filled = farm.json(&["group", "events", "g1"]);
    let with_logs = filled.iter().filter(|event| {
        let told = event.to_string();
        event["event"] == "clone_done" && told.contains("with its binary logs")
    });
    assert_eq!(with_logs.count(), 3, "{filled:#?}");
    client.run("INSERT INTO d.last VALUES (4)");
    let told = Stream::behind(&farm, &token, "").until_last(4);
    assert_eq!(rows(&told).len(), 4, "{told:#?}");
}

/// Between a transaction's beginning and its end is nothing of another one, also where a token is between its rows.
#[test]
fn the_rest_of_a_transaction_comes_before_other_groups() {
    let Some(farm) = Farm::start(&["--groups", "2", "--replicas", "0"]) else {
        return;
    };
    let (one, two) = (farm.member("g1-1"), farm.member("g2-1"));
    for member in [&one, &two] {
        let mut client = member.client();
        client.run("CREATE DATABASE d");
        client.run("CREATE TABLE d.t (id INT PRIMARY KEY)");
        client.run("CREATE TABLE d.last (a INT PRIMARY KEY)");
    }
    let mut stream = Stream::now(&farm, "");
    one.client().run("INSERT INTO d.t VALUES (1), (2), (3)");
    one.client().run("INSERT INTO d.last VALUES (1)");
    let told = stream.until_last(1);
    let first = rows(&told)[0]["token"].as_str().expect("a token");
    // The group that has the rest says nothing for a while.
    one.signal("STOP");
    let mut stream = Stream::behind(&farm, first, "");
    two.client().run("INSERT INTO d.last VALUES (2)");
    let event = stream.next().expect("it goes on");
    assert_eq!(event["event"], "heartbeat", "{event}");
    one.signal("CONT");
    let rest = stream.until(|event| event["group"] == "g2" && event["event"] == "row");
    let groups: Vec<&Value> = rest.iter().map(|event| &event["group"]).collect();
    assert_eq!(groups[..3], ["g1", "g1", "g1"], "{rest:#?}");
    assert_eq!(
        rest.iter().rfind(|it| it["group"] == "g1").expect("some")["event"],
        "commit"
    );
}

testkit::on_both_engines! {
    what_the_primary_lacks_another_server_tells,
}
