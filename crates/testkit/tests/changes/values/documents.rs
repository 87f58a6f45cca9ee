//! JSON documents of which MySQL logs only what an UPDATE changed (`binlog_row_value_options=PARTIAL_JSON`) are told whole, as
//! SELECT shows them.

use std::collections::HashMap;

use serde_json::Value;
use testkit::{Client, Farm, Release};

use crate::reading::{Stream, rows};

/// What becomes of the columns `v` and `w`.
const CHANGES: &[&str] = &[
    "v = JSON_SET(v, '$.b', 3)",
    "v = JSON_REPLACE(v, '$.a.deep[1]', JSON_OBJECT('x', 1.5))",
    "v = JSON_REMOVE(v, '$.a.deep[0]')",
    "v = JSON_SET(v, '$.list[9]', 'at the end')",
    "v = JSON_SET(v, '$.list[last]', CAST('null' AS JSON), '$.list[last-1]', TRUE)",
    "v = JSON_SET(v, '$.\"odd \\\\\"name\\\\\" \\\\\\\\\"', 'q', '$.\"a.b[0]\"', 'dots', '$.sm\u{f6}r', '\u{1f600}')",
    "v = JSON_REMOVE(v, '$.\"odd \\\\\"name\\\\\" \\\\\\\\\"')",
    // Nothing of these is there.
    "v = JSON_SET(v, '$.none.er', 1, '$.none[3].x', 1)",
    "v = JSON_SET(v, '$.b', 4, '$.c', CAST('2024-02-29' AS DATE), '$.e', CAST(1.25 AS DECIMAL(5,2)), \
     '$.f', CAST('12:34:56.5' AS TIME(1)), '$.g', 1e300, '$.h', 18446744073709551615), \
     w = JSON_REMOVE(w, '$.list[1]')",
    "w = JSON_SET(w, '$.copied', v->'$.a')",
    "v = JSON_REMOVE(JSON_SET(JSON_REPLACE(v, '$.b', 5), '$.x', 1, '$.y', JSON_ARRAY(1, 2)), '$.x', '$.y[0]'), \
     w = JSON_SET(w, '$.n', n)",
    // A value in the place of a list is a list of it.
    "v = JSON_SET(v, '$.b[0]', 6, '$.b[1]', 'list now'), w = JSON_REMOVE(w, '$[0]')",
    "v = JSON_SET(v, '$.b[0]', 6)",
    "v = JSON_SET(v, '$.big', REPEAT('y', 100000))",
    "v = JSON_SET(v, '$.big', 'small again')",
    "v = JSON_SET(v, '$.list[40]', 40000, '$.list[0]', -70000)",
    // Of a list as a document.
    "v = JSON_SET(v, '$[1][0]', 7, '$[1][9]', 8, '$[last].a', JSON_OBJECT()), w = JSON_SET(w, '$.b', 'x')",
    "v = JSON_REMOVE(v, '$[0]', '$[0][0]')",
    "v = JSON_SET(v, '$[last]', JSON_ARRAY(JSON_ARRAY(), JSON_ARRAY(1)), '$[0][last-5]', 3)",
    // Whole documents beside changed ones.
    "v = JSON_OBJECT('other', REPEAT('p', 300), 'list', JSON_ARRAY(1, 2, 3)), w = JSON_SET(w, '$.m', 0.5)",
    "v = JSON_ARRAY_INSERT(v, '$.list[1]', 'between'), w = JSON_REMOVE(w, '$.pad')",
    "v = NULL, w = JSON_SET(w, '$.k', 'v gone')",
    "v = JSON_SET(v, '$.b', 1), w = JSON_REPLACE(w, '$.k', NULL)",
];

/// Rows with documents of all sizes, and without one.
const ROWS: [&str; 5] = [
    "(1, '{\"x\": 1}', CONCAT('{\"a\": {\"deep\": [1, [2], 3]}, \"b\": 2, \"list\": [1, \"two\", 3.5], \"pad\": \"', \
     REPEAT('p', 300), '\"}'), 0, CONCAT('{\"list\": [1, 2, 3], \"pad\": \"', REPEAT('p', 300), '\"}'))",
    "(2, NULL, NULL, 0, NULL)",
    "(3, NULL, CONCAT('[1, [2, 3], {\"a\": 1}, \"', REPEAT('p', 300), '\"]'), 0, '[1, 2]')",
    // Its offsets have four bytes.
    "(4, '[]', CONCAT('{\"a\": {\"deep\": [[], {}, null]}, \"list\": [false], \"pad\": \"', REPEAT('p', 90000), '\"}'), 0, \
     '{}')",
    "(5, '1', '2', 0, '\"text\"')",
];

fn documents(client: &mut Client) -> HashMap<String, [Value; 3]> {
    let all = client.rows("SELECT id, x, v, w FROM d.t");
    let read = all.into_iter().map(|row| {
        let mut cells = row.into_iter();
        let id = cells.next().flatten().expect("an id");
        let mut document = || match cells.next().expect("a column") {
            Some(text) => serde_json::from_str(&text).expect("a document"),
            None => Value::Null,
        };
        (id, [document(), document(), document()])
    });
    read.collect()
}

#[test]
fn documents_are_told_whole_when_only_changes_are_logged() {
    let Some(farm) = Farm::start_on(Release::newest_mysql(), &["--replicas", "0"]) else {
        return;
    };
    let mut direct = farm.member("g1-1").client();
    direct.run("SET NAMES utf8mb4");
    direct.run("CREATE DATABASE d CHARACTER SET utf8mb4");
    direct.run("CREATE TABLE d.last (a INT PRIMARY KEY)");
    direct.run("CREATE TABLE d.t (id INT PRIMARY KEY, x JSON, v JSON, n INT, w JSON)");
    direct.run(&format!("INSERT INTO d.t VALUES {}", ROWS.join(",")));
    // Of 20,000 values.
    direct.run("SET cte_max_recursion_depth = 100000");
    direct.run(
        "INSERT INTO d.t WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 20000) \
         SELECT 6, NULL, JSON_OBJECT('b', 1, 'list', JSON_ARRAYAGG(i)), 0, JSON_OBJECTAGG(CONCAT('k', i), i) FROM s",
    );
    direct.run("FLUSH BINARY LOGS");
    direct.run("SET binlog_row_value_options = 'PARTIAL_JSON'");
    let mut stream = Stream::now(&farm, "database=d");
    let mut states = vec![documents(&mut direct)];
    for (number, change) in CHANGES.iter().enumerate() {
        direct.run(&format!("UPDATE d.t SET n = {}, {change}", number + 1));
        states.push(documents(&mut direct));
    }
    direct.run("INSERT INTO d.last VALUES (1)");
    let files = direct.rows("SHOW BINARY LOGS");
    let file = files.last().and_then(|row| row[0].clone()).expect("a file");
    let logged = direct.rows(&format!("SHOW BINLOG EVENTS IN '{file}'"));
    let is_partial = |row: &&Vec<Option<String>>| row[2].as_deref() == Some("Update_rows_partial");
    assert!(logged.iter().filter(is_partial).count() >= CHANGES.len() / 2);

    let events = stream.until_last(1);
    let updates = rows(&events).into_iter().filter(|row| row["table"] == "t");
    let mut count = 0;
    for row in updates {
        let number = usize::try_from(row["after"]["n"].as_u64().expect("a number")).expect("small");
        let id = row["key"]["id"].to_string();
        for (image, state) in [("before", &states[number - 1]), ("after", &states[number])] {
            for (name, expected) in ["x", "v", "w"].into_iter().zip(&state[&id]) {
                let told = &row[image][name];
                assert_eq!(
                    told,
                    expected,
                    "{} {image} {id} {name}",
                    CHANGES[number - 1]
                );
            }
        }
        assert!(row.get("partial").is_none());
        count += 1;
    }
    assert_eq!(count, CHANGES.len() * states[0].len());
}

#[test]
fn changes_of_documents_that_are_not_logged_end_the_stream_with_their_reason() {
    let Some(farm) = Farm::start_on(Release::newest_mysql(), &["--replicas", "0"]) else {
        return;
    };
    let mut direct = farm.member("g1-1").client();
    direct.run("CREATE DATABASE d");
    direct.run("CREATE TABLE d.t (id INT PRIMARY KEY, v JSON)");
    direct.run("INSERT INTO d.t VALUES (1, JSON_OBJECT('a', REPEAT('p', 300), 'b', 2))");
    direct.run("SET binlog_row_value_options = 'PARTIAL_JSON', binlog_row_image = 'MINIMAL'");
    let mut others = Stream::now(&farm, "table=d.last");
    let mut stream = Stream::now(&farm, "");
    direct.run("UPDATE d.t SET v = JSON_SET(v, '$.b', 3)");
    direct.run("CREATE TABLE d.last (a INT PRIMARY KEY)");
    direct.run("INSERT INTO d.last VALUES (1)");
    let mut last = Value::Null;
    while let Some(event) = stream.next() {
        last = event;
    }
    assert_eq!(last["event"], "error", "{last}");
    let why = last["error"].as_str().expect("a reason");
    assert!(
        why.contains("binlog_row_value_options") && why.contains("d.t"),
        "{why}"
    );
    // Who does not want the table goes on.
    others.until_last(1);
}
