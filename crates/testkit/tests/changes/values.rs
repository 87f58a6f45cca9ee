//! Rows in the change stream have the values that SELECT shows, for every type of column.

use serde_json::Value;
use testkit::{Client, Farm, Release};

use crate::reading::{Stream, rows};

mod applied;
mod documents;
mod encrypted;
mod images;

/// How a value of the stream is compared with what SELECT shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Text in quotes.
    Text,
    /// A number, or text where it is a big one.
    Integer,
    Float,
    Double,
    /// `{"base64": …}`, compared in hexadecimal.
    Bytes,
    /// A list of labels.
    Set,
    Json,
}

/// A type, what of its column `v` is selected, the form, and literals.
struct Kind(&'static str, &'static str, Form, &'static [&'static str]);

const ALL: &[Kind] = &[
    Kind("TINYINT", "v", Form::Integer, &["-128", "0", "127"]),
    Kind("TINYINT UNSIGNED", "v", Form::Integer, &["0", "128", "255"]),
    Kind("SMALLINT", "v", Form::Integer, &["-32768", "32767"]),
    Kind("SMALLINT UNSIGNED", "v", Form::Integer, &["65535"]),
    Kind("MEDIUMINT", "v", Form::Integer, &["-8388608", "8388607"]),
    Kind("MEDIUMINT UNSIGNED", "v", Form::Integer, &["16777215"]),
    Kind("INT", "v", Form::Integer, &["-2147483648", "2147483647"]),
    Kind("INT UNSIGNED", "v", Form::Integer, &["4294967295"]),
    Kind(
        "BIGINT",
        "v",
        Form::Integer,
        &[
            "-9223372036854775808",
            "9223372036854775807",
            "9007199254740991",
            "9007199254740992",
        ],
    ),
    Kind(
        "BIGINT UNSIGNED",
        "v",
        Form::Integer,
        &["18446744073709551615", "1"],
    ),
    Kind("BOOLEAN", "v", Form::Integer, &["TRUE", "FALSE"]),
    Kind("YEAR", "v", Form::Integer, &["1901", "2155", "0"]),
    Kind("BIT(1)", "v+0", Form::Integer, &["b'1'", "b'0'"]),
    Kind("BIT(10)", "v+0", Form::Integer, &["b'1000000001'"]),
    Kind(
        "BIT(64)",
        "v+0",
        Form::Integer,
        &["18446744073709551615", "9007199254740992"],
    ),
    Kind(
        "FLOAT",
        "v+0.0e0",
        Form::Float,
        &["1.1", "-0.5", "3.4e38", "1e-30", "0", "16777217"],
    ),
    Kind(
        "DOUBLE",
        "v",
        Form::Double,
        &["1.1", "-2.25", "1e300", "5e-324", "123456789012345680"],
    ),
    Kind(
        "DECIMAL(65,30)",
        "v",
        Form::Text,
        &[
            "-12345678901234567890123456789012345.000000000000000000000000000001",
            "0",
            "0.5",
        ],
    ),
    Kind(
        "DECIMAL(14,4)",
        "v",
        Form::Text,
        &["-1234567890.1234", "9999999999.9999", "0.0001"],
    ),
    Kind("DECIMAL(5,0)", "v", Form::Text, &["-99999", "12"]),
    Kind(
        "DATE",
        "v",
        Form::Text,
        &[
            "'1000-01-01'",
            "'9999-12-31'",
            "'0000-00-00'",
            "'2024-02-29'",
        ],
    ),
    Kind(
        "TIME",
        "v",
        Form::Text,
        &["'-838:59:59'", "'838:59:59'", "'00:00:01'"],
    ),
    Kind(
        "TIME(1)",
        "v",
        Form::Text,
        &["'-00:00:00.1'", "'12:34:56.7'"],
    ),
    Kind(
        "TIME(6)",
        "v",
        Form::Text,
        &["'-01:02:03.000004'", "'00:00:00.999999'"],
    ),
    Kind(
        "DATETIME",
        "v",
        Form::Text,
        &[
            "'1000-01-01 00:00:00'",
            "'9999-12-31 23:59:59'",
            "'0000-00-00 00:00:00'",
        ],
    ),
    Kind(
        "DATETIME(3)",
        "v",
        Form::Text,
        &["'2024-02-29 12:34:56.789'"],
    ),
    Kind(
        "DATETIME(6)",
        "v",
        Form::Text,
        &["'2024-02-29 12:34:56.000001'"],
    ),
    Kind(
        "TIMESTAMP NULL",
        "v",
        Form::Text,
        &[
            "'1970-01-01 00:00:01'",
            "'2038-01-19 03:14:07'",
            "'0000-00-00 00:00:00'",
        ],
    ),
    Kind(
        "TIMESTAMP(2) NULL",
        "v",
        Form::Text,
        &["'2024-03-31 01:30:00.25'"],
    ),
    Kind(
        "TIMESTAMP(6) NULL",
        "v",
        Form::Text,
        &["'2024-03-31 01:30:00.000025'"],
    ),
    Kind(
        "CHAR(5)",
        "v",
        Form::Text,
        &["'ab'", "''", "'sm\u{f6}r'", "' a '"],
    ),
    Kind(
        "CHAR(255)",
        "v",
        Form::Text,
        &["'long'", "REPEAT('\u{20ac}', 255)"],
    ),
    Kind(
        "VARCHAR(300)",
        "v",
        Form::Text,
        &["'x'", "REPEAT('\u{20ac}', 300)", "'\\'\"\\\\\\n\\0'"],
    ),
    Kind("VARCHAR(10)", "v", Form::Text, &["'\u{1f600}'", "'a  '"]),
    Kind("TINYTEXT", "v", Form::Text, &["'t'"]),
    Kind("TEXT", "v", Form::Text, &["REPEAT('t', 60000)"]),
    Kind("MEDIUMTEXT", "v", Form::Text, &["REPEAT('t', 70000)"]),
    Kind("LONGTEXT", "v", Form::Text, &["REPEAT('\u{f6}', 70000)"]),
    Kind(
        "BINARY(4)",
        "HEX(v)",
        Form::Bytes,
        &["x'00FF'", "x''", "x'01020300'", "x'20202020'"],
    ),
    Kind("BINARY(255)", "HEX(v)", Form::Bytes, &["x'00FF'"]),
    Kind(
        "VARBINARY(300)",
        "HEX(v)",
        Form::Bytes,
        &["x'00FF00'", "x''", "REPEAT(x'FE', 300)"],
    ),
    Kind("TINYBLOB", "HEX(v)", Form::Bytes, &["x'00'"]),
    Kind("BLOB", "HEX(v)", Form::Bytes, &["REPEAT(x'80', 3000)"]),
    Kind(
        "MEDIUMBLOB",
        "HEX(v)",
        Form::Bytes,
        &["REPEAT(x'80', 70000)"],
    ),
    Kind("LONGBLOB", "HEX(v)", Form::Bytes, &["x'61'"]),
    Kind(
        "ENUM('a','b c','sm\u{f6}r')",
        "v",
        Form::Text,
        &["'a'", "3", "'b c'"],
    ),
    Kind(
        "ENUM('\u{20ac}') CHARACTER SET utf8mb4",
        "v",
        Form::Text,
        &["1"],
    ),
    Kind(
        "SET('x','y','\u{f6}')",
        "v",
        Form::Set,
        &["'x,\u{f6}'", "''", "'y'"],
    ),
    Kind(
        "POINT",
        "HEX(v)",
        Form::Bytes,
        &["ST_GeomFromText('POINT(1 2)')"],
    ),
    Kind(
        "GEOMETRY",
        "HEX(v)",
        Form::Bytes,
        &["ST_GeomFromText('LINESTRING(0 0,1 1.5)')"],
    ),
];

const OF_MYSQL: &[Kind] = &[Kind(
    "JSON",
    "v",
    Form::Json,
    &[
        "'{\"b\": [1, -2, 1.5, true, null, \"x\\\\\"y\"], \"a\": {\"deep\": [[], {}]}}'",
        "'3'",
        "'\"text \u{1f600}\"'",
        "'null'",
        "'[18446744073709551615, -9223372036854775808, 1e100]'",
        "JSON_OBJECT('d', CAST(12.50 AS DECIMAL(10,2)), 't', CAST('12:34:56.5' AS TIME(1)), 'n', \
         CAST('2024-02-29 01:02:03' AS DATETIME), 'y', CAST('2024-02-29' AS DATE))",
        "JSON_OBJECT('long', REPEAT('x', 70000), 'list', JSON_ARRAY(40000, 70000, -70000))",
    ],
)];

const OF_MARIADB: &[Kind] = &[
    Kind("JSON", "v", Form::Text, &["'{\"a\": 1}'"]),
    Kind(
        "INET4",
        "v",
        Form::Text,
        &["'1.2.3.4'", "'0.0.0.0'", "'255.255.255.255'", "'10.0.0.0'"],
    ),
    Kind(
        "INET6",
        "v",
        Form::Text,
        &[
            "'2001:db8::1'",
            "'::'",
            "'::1'",
            "'ff::'",
            "'::ffff:1.2.3.4'",
            "'::1.2.3.4'",
            "'1:0:2:3:4:5:6:7'",
            "'1:0:0:2:0:0:3:0'",
            "'1:2:3:4:5:6:7:0'",
            "'2001:db8:0:0:1:0:0:1'",
            "'::5:6:7:8'",
        ],
    ),
    // Of each version; the servers store some with their parts swapped.
    Kind(
        "UUID",
        "v",
        Form::Text,
        &[
            "'00000000-0000-0000-0000-000000000000'",
            "'c232ab00-9414-11ec-b3c8-9e6bdeced846'",
            "'5df41881-3aed-3515-88a7-2f4a814cf09e'",
            "'919108f7-52d1-4320-9bac-f847db4148a8'",
            "'2ed6657d-e927-568b-95e1-2665a8aea6a2'",
            "'1ec9414c-232a-6b00-b3c8-9e6bdeced846'",
            "'017f22e2-79b0-7cc3-98c4-dc0c0c07398f'",
            "'123e4567-e89b-12d3-a456-426655440000'",
            "'ffffffff-ffff-4fff-bfff-ffffffffff00'",
            "'00112233-4455-0677-0899-aabbccddeeff'",
        ],
    ),
    // Of the same size.
    Kind(
        "BINARY(16)",
        "HEX(v)",
        Form::Bytes,
        &["x'00112233445566778899AABBCCDDEE00'"],
    ),
    Kind(
        "VARCHAR(3000) COMPRESSED",
        "v",
        Form::Text,
        &["REPEAT('abc', 1000)", "''", "'x'"],
    ),
    Kind("TEXT COMPRESSED", "v", Form::Text, &["REPEAT('abc', 1000)"]),
    Kind(
        "BLOB COMPRESSED",
        "HEX(v)",
        Form::Bytes,
        &["REPEAT(x'80', 1000)"],
    ),
];

/// The bytes of a value's base64, in hexadecimal.
fn hex_of(value: &Value) -> String {
    let text = value["base64"]
        .as_str()
        .unwrap_or_else(|| panic!("no bytes: {value}"));
    let mut hex = String::new();
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            hex.push_str(&format!("{:02X}", bits >> count & 0xFF));
        }
    }
    hex
}

#[track_caller]
fn is_same(form: Form, told: &Value, selected: Option<&String>, of: &str) {
    let Some(selected) = selected else {
        assert!(told.is_null(), "{of}: {told}");
        return;
    };
    let float = |text: &str| text.parse::<f64>().expect("a number");
    match form {
        Form::Text => assert_eq!(told.as_str(), Some(&**selected), "{of}"),
        Form::Integer => {
            let shown = told
                .as_str()
                .map_or_else(|| told.to_string(), str::to_owned);
            assert_eq!(
                shown.trim_start_matches('0'),
                selected.trim_start_matches('0'),
                "{of}"
            );
            let small = float(selected).abs() < 9_007_199_254_740_992.0;
            assert_eq!(told.is_number(), small, "{of}: {told}");
        }
        Form::Float => {
            let told = told.as_f64().expect("a number");
            assert!(
                (told - float(selected)).abs() <= float(selected).abs() * 1e-7,
                "{of}: {told} {selected}"
            );
        }
        Form::Double => assert_eq!(told.as_f64(), Some(float(selected)), "{of}"),
        Form::Bytes => assert_eq!(hex_of(told), *selected, "{of}"),
        Form::Set => {
            let labels = told.as_array().expect("a list").iter();
            let labels: Vec<&str> = labels.map(|it| it.as_str().expect("a label")).collect();
            assert_eq!(labels.join(","), *selected, "{of}");
        }
        Form::Json => {
            let read: Value = serde_json::from_str(selected).expect("JSON");
            assert_eq!(*told, read, "{of}");
        }
    }
}

/// Writes every kind into a table of its own, and compares the stream with the tables.
fn values_are_right(farm: &Farm, direct: &mut Client, own: &[Kind]) {
    direct.run("CREATE DATABASE d CHARACTER SET utf8mb4");
    direct.run("SET NAMES utf8mb4, time_zone='+00:00', sql_mode=''");
    direct.run("CREATE TABLE d.last (a INT PRIMARY KEY)");
    let mut stream = Stream::now(farm, "database=d");
    let kinds: Vec<&Kind> = ALL.iter().chain(own).collect();
    let mut selected = Vec::new();
    for (number, Kind(of, shown, _, literals)) in kinds.iter().enumerate() {
        let table = format!("d.t{number}");
        direct.run(&format!(
            "CREATE TABLE {table} (id INT PRIMARY KEY, v {of}, w INT)"
        ));
        for (id, literal) in literals.iter().enumerate() {
            direct.run(&format!("INSERT INTO {table} VALUES ({id}, {literal}, 0)"));
        }
        direct.run(&format!("INSERT INTO {table} VALUES (1000, NULL, 0)"));
        selected.push(direct.rows(&format!("SELECT id, {shown} FROM {table} ORDER BY id")));
        direct.run(&format!("UPDATE {table} SET w = 1"));
        direct.run(&format!("DELETE FROM {table}"));
    }
    direct.run("INSERT INTO d.last VALUES (1)");
    let events = stream.until_last(1);
    for (number, Kind(of, _, form, _)) in kinds.iter().enumerate() {
        let name = format!("t{number}");
        let changes = rows(&events)
            .into_iter()
            .filter(|row| row["table"] == *name);
        let changes: Vec<&Value> = changes.collect();
        let expected = &selected[number];
        assert_eq!(changes.len(), 3 * expected.len(), "{of}");
        for (at, row) in expected.iter().enumerate() {
            let (inserted, updated) = (changes[at], changes[expected.len() + at]);
            let deleted = changes[2 * expected.len() + at];
            let id: i64 = row[0]
                .as_ref()
                .and_then(|it| it.parse().ok())
                .expect("an id");
            for (event, kind) in [
                (inserted, "insert"),
                (updated, "update"),
                (deleted, "delete"),
            ] {
                assert_eq!(
                    (&event["kind"], &event["key"]["id"]),
                    (&kind.into(), &id.into()),
                    "{of}"
                );
            }
            assert!(
                inserted["before"].is_null() && deleted["after"].is_null(),
                "{of}"
            );
            for image in [
                &inserted["after"],
                &updated["before"],
                &updated["after"],
                &deleted["before"],
            ] {
                is_same(*form, &image["v"], row[1].as_ref(), of);
            }
            assert_eq!(
                (&updated["before"]["w"], &updated["after"]["w"]),
                (&0.into(), &1.into())
            );
        }
    }
    statements_are_told(&events);
}

/// Writes every kind into a table of its own, and compares a snapshot with the tables.
fn snapshot_is_right(farm: &Farm, direct: &mut Client, own: &[Kind]) {
    direct.run("CREATE DATABASE s CHARACTER SET utf8mb4");
    let kinds: Vec<&Kind> = ALL.iter().chain(own).collect();
    let mut selected = Vec::new();
    for (number, Kind(of, shown, _, literals)) in kinds.iter().enumerate() {
        let table = format!("s.t{number}");
        direct.run(&format!(
            "CREATE TABLE {table} (id INT PRIMARY KEY, v {of})"
        ));
        for (id, literal) in literals.iter().enumerate() {
            direct.run(&format!("INSERT INTO {table} VALUES ({id}, {literal})"));
        }
        direct.run(&format!("INSERT INTO {table} VALUES (1000, NULL)"));
        selected.push(direct.rows(&format!("SELECT id, {shown} FROM {table} ORDER BY id")));
    }
    let mut stream = Stream::open(farm, "database=s&snapshot=true");
    let mut events = Vec::new();
    while events
        .last()
        .is_none_or(|last: &Value| last["event"] != "snapshot")
    {
        let event = stream
            .next()
            .unwrap_or_else(|| panic!("it ended: {:?}", events.last()));
        events.push(event);
    }
    for (number, Kind(of, _, form, _)) in kinds.iter().enumerate() {
        let name = format!("t{number}");
        let read = rows(&events)
            .into_iter()
            .filter(|row| row["table"] == *name);
        let read: Vec<&Value> = read.collect();
        assert_eq!(read.len(), selected[number].len(), "{of}");
        for (event, row) in read.into_iter().zip(&selected[number]) {
            assert_eq!(event["kind"], "read");
            is_same(*form, &event["after"]["v"], row[1].as_ref(), of);
        }
    }
}

/// The statements that changed the rows, and those that made the tables.
fn statements_are_told(events: &[Value]) {
    let sql = |event: &Value| event["sql"].as_str().unwrap_or_default().to_owned();
    let made = events.iter().filter(|it| it["event"] == "ddl").map(sql);
    assert!(
        made.into_iter()
            .any(|it| it.starts_with("CREATE TABLE d.t0"))
    );
    let updates = rows(events)
        .into_iter()
        .map(sql)
        .filter(|it| it.starts_with("UPDATE d.t"));
    let tables = rows(events).into_iter().filter(|it| it["kind"] == "update");
    let tables: std::collections::BTreeSet<_> = tables.map(|it| it["table"].to_string()).collect();
    assert_eq!(updates.count(), tables.len(), "each statement is told once");
}

fn on(release: Release, own: &[Kind]) {
    let Some(farm) = Farm::start_on(release, &["--replicas", "1"]) else {
        return;
    };
    let mut direct = farm.member("g1-1").client();
    values_are_right(&farm, &mut direct, own);
    snapshot_is_right(&farm, &mut direct, own);
}

#[test]
fn values_are_those_of_select_on_mariadb_10_11() {
    on(Release::Installed, OF_MARIADB);
}

#[test]
fn values_are_those_of_select_on_mariadb_11_4() {
    on(Release::MariaDb114, OF_MARIADB);
}

#[test]
fn values_are_those_of_select_on_mysql() {
    on(Release::newest_mysql(), OF_MYSQL);
}

#[test]
fn compressed_logs_are_read() {
    for (release, setting, own) in [
        (Release::Installed, "log_bin_compress=1", OF_MARIADB),
        (
            Release::newest_mysql(),
            "binlog_transaction_compression=1",
            OF_MYSQL,
        ),
    ] {
        let Some(farm) = Farm::start_on(release, &["--replicas", "0"]) else {
            continue;
        };
        farm.member("g1-1")
            .client()
            .run(&format!("SET GLOBAL {setting}"));
        let mut direct = farm.member("g1-1").client();
        values_are_right(&farm, &mut direct, own);
    }
}
