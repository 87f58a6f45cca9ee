//! `types=debezium`: every type has the value and the schema that Debezium's documentation of its connector for MySQL says
//! (its tables of basic, temporal, decimal and spatial types, by the connector's defaults), of changes and of a snapshot.

use serde_json::{Value, json};
use testkit::{Client, Farm, Release};

use crate::reading::{Stream, admin, ask, rows};

/// A type, literals with their values in JSON, and the schema's type and name.
struct Kind(
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static str,
    &'static str,
);

const DECIMAL: &str = "org.apache.kafka.connect.data.Decimal";

const ALL: &[Kind] = &[
    Kind("TINYINT", &[("-128", "-128")], "int16", ""),
    Kind("TINYINT UNSIGNED", &[("255", "255")], "int16", ""),
    Kind("SMALLINT", &[("-32768", "-32768")], "int16", ""),
    Kind("SMALLINT UNSIGNED", &[("65535", "65535")], "int32", ""),
    Kind("MEDIUMINT", &[("-8388608", "-8388608")], "int32", ""),
    Kind(
        "MEDIUMINT UNSIGNED",
        &[("16777215", "16777215")],
        "int32",
        "",
    ),
    Kind("INT", &[("-2147483648", "-2147483648")], "int32", ""),
    Kind("INT UNSIGNED", &[("4294967295", "4294967295")], "int64", ""),
    Kind(
        "BIGINT",
        &[("9223372036854775807", "9223372036854775807")],
        "int64",
        "",
    ),
    Kind(
        "BIGINT UNSIGNED",
        &[("5", "5"), ("18446744073709551615", "-1")],
        "int64",
        "",
    ),
    Kind("FLOAT", &[("1.5", "1.5")], "float", ""),
    Kind("DOUBLE", &[("-2.25", "-2.25")], "double", ""),
    Kind(
        "DECIMAL(5,2)",
        &[
            ("123.45", "\"MDk=\""),
            ("-1.28", "\"gA==\""),
            ("0", "\"AA==\""),
        ],
        "bytes",
        DECIMAL,
    ),
    Kind(
        "BIT(1)",
        &[("b'1'", "true"), ("b'0'", "false")],
        "boolean",
        "",
    ),
    Kind(
        "BIT(10)",
        &[("b'1000000001'", "\"AQI=\"")],
        "bytes",
        "io.debezium.data.Bits",
    ),
    Kind("CHAR(5)", &[("'ab'", "\"ab\"")], "string", ""),
    Kind(
        "VARCHAR(20)",
        &[("'sm\u{f6}r'", "\"sm\u{f6}r\"")],
        "string",
        "",
    ),
    Kind("TEXT", &[("'text'", "\"text\"")], "string", ""),
    Kind("BINARY(4)", &[("x'01'", "\"AQAAAA==\"")], "bytes", ""),
    Kind("VARBINARY(4)", &[("x'00FF'", "\"AP8=\"")], "bytes", ""),
    Kind("BLOB", &[("x'00FF10'", "\"AP8Q\"")], "bytes", ""),
    Kind(
        "ENUM('small','big')",
        &[("'big'", "\"big\"")],
        "string",
        "io.debezium.data.Enum",
    ),
    Kind(
        "SET('a','b','c')",
        &[("'c,a'", "\"a,c\""), ("''", "\"\"")],
        "string",
        "io.debezium.data.EnumSet",
    ),
    Kind(
        "YEAR",
        &[("2018", "2018")],
        "int32",
        "io.debezium.time.Year",
    ),
    Kind(
        "DATE",
        &[("'2018-06-20'", "17702"), ("'0000-00-00'", "null")],
        "int32",
        "io.debezium.time.Date",
    ),
    Kind(
        "TIME",
        &[("'17:51:04'", "64264000000")],
        "int64",
        "io.debezium.time.MicroTime",
    ),
    Kind(
        "TIME(6)",
        &[("'17:51:04.777777'", "64264777777")],
        "int64",
        "io.debezium.time.MicroTime",
    ),
    Kind(
        "DATETIME",
        &[("'2018-06-20 06:37:03'", "1529476623000")],
        "int64",
        "io.debezium.time.Timestamp",
    ),
    Kind(
        "DATETIME(3)",
        &[("'2018-06-20 06:37:03.123'", "1529476623123")],
        "int64",
        "io.debezium.time.Timestamp",
    ),
    Kind(
        "DATETIME(6)",
        &[("'2018-06-20 06:37:03.123456'", "1529476623123456")],
        "int64",
        "io.debezium.time.MicroTimestamp",
    ),
    Kind(
        "TIMESTAMP NULL",
        &[("'2018-06-20 13:37:03'", "\"2018-06-20T13:37:03Z\"")],
        "string",
        "io.debezium.time.ZonedTimestamp",
    ),
    Kind(
        "TIMESTAMP(6) NULL",
        &[("'2018-06-20 13:37:03.5'", "\"2018-06-20T13:37:03.500000Z\"")],
        "string",
        "io.debezium.time.ZonedTimestamp",
    ),
    Kind(
        "GEOMETRY",
        &[(
            "ST_GeomFromText('POINT(1 1)')",
            "{\"wkb\":\"AQEAAAAAAAAAAADwPwAAAAAAAPA/\",\"srid\":0}",
        )],
        "struct",
        "io.debezium.data.geometry.Geometry",
    ),
];

const OF_MYSQL: &[Kind] = &[Kind(
    "JSON",
    &[("'{\"a\": [1, true]}'", "\"{\\\"a\\\": [1, true]}\"")],
    "string",
    "io.debezium.data.Json",
)];

/// JSON of MariaDB is a text.
const OF_MARIADB: &[Kind] = &[Kind(
    "JSON",
    &[("'{\"a\":1}'", "\"{\\\"a\\\":1}\"")],
    "string",
    "",
)];

fn own(release: Release) -> &'static [Kind] {
    match release {
        Release::Installed | Release::MariaDb114 => OF_MARIADB,
        _ => OF_MYSQL,
    }
}

fn make(client: &mut Client, kinds: &[&Kind]) {
    client.run("SET NAMES utf8mb4, time_zone='+00:00', sql_mode=''");
    client.run("CREATE DATABASE d CHARACTER SET utf8mb4");
    client.run("CREATE TABLE d.last (a INT PRIMARY KEY)");
    for (number, Kind(of, ..)) in kinds.iter().enumerate() {
        client.run(&format!(
            "CREATE TABLE d.t{number} (id INT PRIMARY KEY, v {of})"
        ));
    }
}

fn fill(client: &mut Client, kinds: &[&Kind]) {
    for (number, Kind(_, values, ..)) in kinds.iter().enumerate() {
        for (id, (literal, _)) in values.iter().enumerate() {
            client.run(&format!("INSERT INTO d.t{number} VALUES ({id}, {literal})"));
        }
        client.run(&format!("INSERT INTO d.t{number} VALUES (1000, NULL)"));
    }
}

/// The records of a kind's table, against what they have to be.
fn check(kinds: &[&Kind], events: &[Value], op: &str) {
    for (number, Kind(of, values, kind, name)) in kinds.iter().enumerate() {
        let table = format!("t{number}");
        let found = rows(events).into_iter().filter(|it| it["table"] == *table);
        let found: Vec<&Value> = found.collect();
        assert_eq!(found.len(), values.len() + 1, "{of}");
        for (event, (literal, expected)) in found.iter().zip(*values) {
            let (key, value) = (&event["key"], &event["value"]);
            let expected: Value = serde_json::from_str(expected).expect("JSON");
            assert_eq!(value["payload"]["after"]["v"], expected, "{of} {literal}");
            assert_eq!(
                (&value["payload"]["op"], &value["payload"]["before"]),
                (&op.into(), &Value::Null)
            );
            assert_eq!(event["topic"], format!("shop.d.{table}"));
            assert_eq!(key["payload"]["id"], value["payload"]["after"]["id"]);
            assert_eq!(key["schema"]["name"], format!("shop.d.{table}.Key"));
            let field = |at: usize| &value["schema"]["fields"][at];
            assert_eq!(
                (&field(0)["field"], &field(1)["field"]),
                (&"before".into(), &"after".into())
            );
            let schema = &field(1)["fields"][1];
            assert_eq!(
                (&schema["field"], &schema["type"]),
                (&"v".into(), &(*kind).into()),
                "{of}"
            );
            let named = schema["name"].as_str().unwrap_or_default();
            assert_eq!(named, *name, "{of}");
        }
        let nothing = &found[values.len()]["value"]["payload"]["after"]["v"];
        assert!(nothing.is_null(), "{of}: {nothing}");
    }
}

fn every_type_is_as_debezium_documents_it(release: Release) {
    let Some(farm) = Farm::start_on(release, &["--replicas", "0"]) else {
        return;
    };
    let mut client = farm.member("g1-1").client();
    let kinds: Vec<&Kind> = ALL.iter().chain(own(release)).collect();
    make(&mut client, &kinds);
    const QUERY: &str = "database=d&types=debezium&schema=true&prefix=shop";
    let mut stream = Stream::now(&farm, QUERY);
    fill(&mut client, &kinds);
    client.run("INSERT INTO d.last VALUES (1)");
    let events = stream.until(|event| event["value"]["payload"]["after"]["a"] == 1);
    check(&kinds, &events, "c");
    let parameters = |of: &str| {
        let number = kinds.iter().position(|it| it.0 == of).expect("a kind");
        let row = rows(&events)
            .into_iter()
            .find(|it| it["table"] == format!("t{number}"));
        row.expect("a row")["value"]["schema"]["fields"][1]["fields"][1]["parameters"].clone()
    };
    assert_eq!(
        parameters("DECIMAL(5,2)"),
        json!({"scale": "2", "connect.decimal.precision": "5"})
    );
    assert_eq!(parameters("BIT(10)"), json!({"length": "10"}));
    assert_eq!(
        parameters("ENUM('small','big')"),
        json!({"allowed": "small,big"})
    );
    // The same of a snapshot.
    let mut stream = Stream::open(&farm, &format!("{QUERY}&snapshot=true"));
    let mut read = Vec::new();
    while read
        .last()
        .is_none_or(|it: &Value| it["event"] != "snapshot")
    {
        read.push(stream.next().expect("it goes on"));
    }
    check(&kinds, &read, "r");
    let first = rows(&read)[0]["value"]["payload"].clone();
    assert_eq!(first["source"]["snapshot"], "incremental");
}

const RECORDS: &str = "database=d&types=debezium&tombstones=true";

/// Topic, key, what became of it, and the number of each record.
fn shown(events: &[Value]) -> Vec<String> {
    events
        .iter()
        .map(|it| {
            let value = &it["value"];
            let word = |of: &Value| of.as_str().unwrap_or_default().to_owned();
            let what = format!("{}{}", word(&value["op"]), word(&value["status"]));
            let order = &value["transaction"]["total_order"];
            format!("{} {} {what} {order}", word(&it["topic"]), it["key"])
        })
        .collect()
}

fn changes_are_envelopes(release: Release) {
    let Some(farm) = Farm::start_on(release, &["--replicas", "0"]) else {
        return;
    };
    let mut client = farm.member("g1-1").client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.last (a INT PRIMARY KEY)");
    client.run("CREATE TABLE d.keyless (a INT)");
    let mut stream = Stream::now(&farm, RECORDS);
    for sql in [
        "BEGIN",
        "INSERT INTO d.last VALUES (5)",
        "UPDATE d.last SET a = 6",
        "INSERT INTO d.keyless VALUES (1)",
        "DELETE FROM d.last",
        "COMMIT",
        "ALTER TABLE d.keyless ADD b INT",
        "INSERT INTO d.last VALUES (9)",
    ] {
        client.run(sql);
    }
    let events = stream.until(|event| event["value"]["after"]["a"] == 9);
    let shown = shown(&events);
    let gtid = events[0]["gtid"].as_str().expect("a GTID");
    let boundary = |status: &str, gtid: &str| {
        format!("heddle.transaction {{\"id\":\"{gtid}\"}} {status} null")
    };
    let last = events.last().expect("one")["gtid"]
        .as_str()
        .expect("a GTID");
    let defined = events[10]["gtid"].as_str().expect("a GTID");
    let expected = [
        boundary("BEGIN", gtid),
        "heddle.d.last {\"a\":5} c 1".to_owned(),
        "heddle.d.last {\"a\":5} d 2".to_owned(),
        "heddle.d.last {\"a\":5}  null".to_owned(),
        "heddle.d.last {\"a\":6} c 3".to_owned(),
        "heddle.d.keyless null c 4".to_owned(),
        "heddle.d.last {\"a\":6} d 5".to_owned(),
        "heddle.d.last {\"a\":6}  null".to_owned(),
        boundary("END", gtid),
        boundary("BEGIN", defined),
        "heddle {\"databaseName\":\"\"}  null".to_owned(),
        boundary("END", defined),
        boundary("BEGIN", last),
        "heddle.d.last {\"a\":9} c 1".to_owned(),
        boundary("END", last),
    ];
    assert_eq!(shown, expected);
    assert_eq!(events[2]["headers"], json!({"__debezium.newkey": {"a": 6}}));
    assert_eq!(events[4]["headers"], json!({"__debezium.oldkey": {"a": 5}}));
    let end = &events[8]["value"];
    assert_eq!(end["event_count"], 5);
    let collections = json!([
        {"data_collection": "d.keyless", "event_count": 1},
        {"data_collection": "d.last", "event_count": 4},
    ]);
    assert_eq!(end["data_collections"], collections);
    assert_eq!(
        events[10]["value"]["ddl"],
        "ALTER TABLE d.keyless ADD b INT"
    );
    goes_on(&farm, &events);
}

/// Its source, and what comes behind each of its records.
fn goes_on(farm: &Farm, events: &[Value]) {
    let gtid = events[0]["gtid"].as_str().expect("a GTID");
    let source = &events[1]["value"]["source"];
    assert_eq!(
        (&source["db"], &source["table"]),
        (&"d".into(), &"last".into())
    );
    assert_eq!(source["gtid"], gtid);
    assert!(
        source["file"].as_str().is_some_and(|it| !it.is_empty()),
        "{source}"
    );
    assert!(
        source["query"]
            .as_str()
            .is_some_and(|it| it.contains("VALUES (5)")),
        "{source}"
    );
    // Behind a record that is not the last one of its change the change comes once more.
    for (at, from) in [(1, 2), (2, 2), (3, 2), (4, 5), (6, 6), (7, 8)] {
        let token = events[at]["token"].as_str().expect("a token");
        let mut rest = Stream::behind(farm, token, RECORDS);
        let told = rest.until(|event| event["value"]["after"]["a"] == 9);
        let names = |events: &[Value]| -> Vec<String> {
            events
                .iter()
                .map(|it| format!("{} {}", it["key"], it["value"]["op"]))
                .collect()
        };
        assert_eq!(
            names(&told),
            names(&events[from..]),
            "behind {}",
            events[at]
        );
    }
}

#[test]
fn what_is_no_form_is_refused() {
    let Some(farm) = Farm::start(&["--replicas", "0"]) else {
        return;
    };
    let bearer = admin(&farm);
    for query in [
        "types=avro",
        "schema=true",
        "types=debezium&prefix=a/b",
        "types=debezium&schema=x",
    ] {
        assert_eq!(ask(&farm, query, Some(&bearer)).0, 400, "{query}");
    }
    let refused = farm.command(&["sink", "create", "a", "file:a", "--types", "avro"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("debezium is the only one"));
}

/// A sink of files has the records, too.
#[test]
fn a_sink_delivers_records() {
    let Some(farm) = Farm::start(&["--replicas", "0"]) else {
        return;
    };
    let mut client = farm.member("g1-1").client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.last (a INT PRIMARY KEY)");
    farm.json(&[
        "sink", "create", "a", "file:a", "--types", "debezium", "--order", "global",
    ]);
    client.run("INSERT INTO d.last VALUES (1)");
    let dir = farm.dir().join("sinks/a");
    let mut written = String::new();
    testkit::wait_until(crate::reading::SOON, "the record", || {
        let files = std::fs::read_dir(&dir).into_iter().flatten().flatten();
        written = files
            .filter_map(|it| std::fs::read_to_string(it.path()).ok())
            .collect();
        written.contains("\"after\":{\"a\":1}")
    });
    let line = written
        .lines()
        .find(|it| it.contains("\"after\":{\"a\":1}"));
    let event: Value = serde_json::from_str(line.expect("it is there")).expect("JSON");
    assert_eq!(
        (&event["topic"], &event["key"]),
        (&"heddle.d.last".into(), &json!({"a": 1}))
    );
    assert!(
        event["id"]
            .as_str()
            .is_some_and(|it| it.ends_with(":1:row")),
        "{event}"
    );
}

testkit::on_both_engines! {
    every_type_is_as_debezium_documents_it,
    changes_are_envelopes,
}
