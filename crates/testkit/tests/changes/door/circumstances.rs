//! What lines say besides values: when a transaction was committed and told, by which connection, by which version of its
//! table's definition a row is made, and what a definition leads to.

use serde_json::Value;
use testkit::{Client, Farm, Release};

use crate::reading::{Stream, rows};

const STATEMENTS: &[&str] = &[
    "CREATE TABLE d.t (id INT UNSIGNED PRIMARY KEY, v VARCHAR(20), e ENUM('x','y') NOT NULL)",
    "INSERT INTO d.t VALUES (1, 'a', 'x')",
    "UPDATE d.t SET v = 'b'",
    "ALTER TABLE d.t ADD COLUMN w DECIMAL(9,2) AFTER id, ADD COLUMN m DATETIME(3)",
    "INSERT INTO d.t VALUES (2, 1.5, 'c', 'y', NULL)",
    "DELETE FROM d.t WHERE id = 1",
    "INSERT INTO d.last VALUES (1)",
];

fn number(client: &mut Client, sql: &str) -> u64 {
    client.value(sql).parse().expect("a number")
}

/// The events of this kind of the table `d.t`.
fn of<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let of_kind = events.iter().filter(|it| it["event"] == kind);
    of_kind.filter(|it| it["table"] == "t").collect()
}

/// A column without its character set, which a definition may leave to the database.
fn bare(column: &Value) -> Value {
    let mut column = column.clone();
    column
        .as_object_mut()
        .expect("an object")
        .retain(|name, _| name != "charset");
    column
}

fn bare_all(columns: &Value) -> Vec<Value> {
    let columns = columns.as_array().expect("columns");
    columns.iter().map(bare).collect()
}

/// Both ends of each transaction say when and by whom it was.
fn have_circumstances(events: &[Value], connection: u64, is_mysql: bool) {
    for end in events
        .iter()
        .filter(|it| ["begin", "commit"].contains(&it["event"].as_str().expect("a name")))
    {
        let (time, told_ms) = (end["time"].as_u64(), end["told_ms"].as_u64());
        let (time, told_ms) = (time.expect("a time"), told_ms.expect("a time"));
        assert!(told_ms / 1000 >= time, "{end}");
        let committed_us = end["committed_us"].as_u64();
        assert_eq!(committed_us.is_some(), is_mysql, "{end}");
        if let Some(us) = committed_us {
            assert!(us / 1_000_000 >= time && us / 1000 <= told_ms, "{end}");
        }
        let is_known = is_mysql || !end["connection"].is_null();
        assert!(!is_known || end["connection"] == connection, "{end}");
    }
    let definition = events.iter().position(|it| it["event"] == "ddl");
    let begin = &events[definition.expect("a definition") - 1];
    assert_eq!(begin["connection"], connection, "every log has it");
}

/// Rows have the version of their table's definition, which another stream and a snapshot have, too.
fn have_versions(farm: &Farm, events: &[Value], again: &[Value]) {
    let versions = |events: &[Value], kind: &str| -> Vec<Value> {
        let all = of(events, kind).into_iter();
        all.map(|it| it["schema"].clone()).collect()
    };
    let [one, other] = &versions(events, "columns")[..] else {
        panic!("{events:#?}");
    };
    assert!(one.is_string() && one != other);
    let expected = [one, one, other, other].map(Value::clone);
    assert_eq!(versions(events, "row"), expected);
    assert_eq!(versions(again, "row"), expected);
    let mut snapshot = Stream::open(farm, "snapshot=true&table=d.t");
    let read = snapshot.until(|event| event["event"] == "row");
    for kind in ["columns", "row"] {
        assert_eq!(versions(&read, kind), std::slice::from_ref(other));
    }
}

/// A definition says the columns that the next rows have.
fn have_columns(events: &[Value]) {
    let definitions = events.iter().filter(|it| it["event"] == "ddl");
    let tables: Vec<&Value> = definitions.map(|it| &it["tables"][0]).collect();
    let changes: Vec<&Value> = tables.iter().map(|it| &it["change"]).collect();
    assert_eq!(changes, ["create", "alter"]);
    for (table, columns) in tables.iter().zip(of(events, "columns")) {
        assert_eq!(
            (&table["database"], &table["table"]),
            (&"d".into(), &"t".into())
        );
        assert_eq!(bare_all(&table["columns"]), bare_all(&columns["columns"]));
    }
}

/// Debezium's records say the same in their own words.
fn have_sources(farm: &Farm, token: &str, events: &[Value], (connection, server): (u64, u64)) {
    let query = "types=debezium&database=d";
    let told = Stream::behind(farm, token, query)
        .until(|event| event["table"] == "last" && event["event"] == "row");
    let begins = events.iter().filter(|it| it["event"] == "begin");
    for row in rows(&told) {
        let source = &row["value"]["source"];
        let begin = begins.clone().find(|it| it["gtid"] == row["gtid"]);
        let begin = begin.expect("it was told");
        assert_eq!(source["server_id"], server, "{row}");
        assert_eq!(source["thread"], begin["connection"], "{row}");
        assert!(source["thread"].is_null() || source["thread"] == connection);
        let us = match begin["committed_us"].as_u64() {
            Some(us) => us,
            None => begin["time"].as_u64().expect("a time") * 1_000_000,
        };
        assert_eq!(source["ts_us"], us, "{row}");
        assert_eq!(source["ts_ms"], us / 1000, "{row}");
        assert_eq!(source["ts_ns"], us * 1000, "{row}");
    }
}

fn lines_say_when_by_whom_and_of_what(release: Release) {
    let Some(farm) = Farm::start_on(release, &["--replicas", "0"]) else {
        return;
    };
    let mut client = farm.member("g1-1").client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.last (a INT PRIMARY KEY)");
    let mut stream = Stream::now(&farm, "database=d");
    let token = stream.token.clone();
    STATEMENTS.iter().for_each(|sql| drop(client.run(sql)));
    let events = stream.until_last(1);
    let connection = number(&mut client, "SELECT CONNECTION_ID()");
    let server = number(&mut client, "SELECT @@server_id");
    have_circumstances(&events, connection, release != Release::Installed);
    let again = Stream::behind(&farm, &token, "database=d").until_last(1);
    have_versions(&farm, &events, &again);
    have_columns(&events);
    have_sources(&farm, &token, &events, (connection, server));
}

testkit::on_both_engines! {
    lines_say_when_by_whom_and_of_what,
}
