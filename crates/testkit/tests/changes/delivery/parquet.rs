//! Files of Parquet, read by Apache Arrow: every change once, over deaths, with every type as the page says.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};
use testkit::{Client, Farm, Release, skip, wait_until};

use crate::reading::SOON;

const READ: &str = r#"
import datetime, decimal, glob, json, sys
import pyarrow.parquet as pq

def plain(value):
    if isinstance(value, dict):
        return {name: plain(of) for name, of in value.items()}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, (decimal.Decimal, datetime.date)):
        return str(value)
    return value

for path in sorted(glob.glob(sys.argv[1])):
    file = pq.ParquetFile(path)
    for row in file.read().to_pylist():
        print(json.dumps(plain(row)))
"#;

/// A Python with Apache Arrow; it is installed where packages can be had. Tests run side by side, and one of them installs
/// it.
fn python() -> Option<PathBuf> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(find_python).clone()
}

fn find_python() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from)?;
    let dir = home.join(".cache/heddle/arrow");
    let python = dir.join("bin/python");
    let has_it = |python: &Path| {
        let mut asked = Command::new(python);
        asked.args(["-c", "import pyarrow.parquet"]);
        asked.stderr(Stdio::null());
        asked.status().is_ok_and(|it| it.success())
    };
    if !has_it(&python) {
        let made = Command::new("python3")
            .args(["-m", "venv"])
            .arg(&dir)
            .output();
        let mut install = Command::new(&python);
        install.args(["-m", "pip", "install", "--quiet", "pyarrow"]);
        install.stdout(Stdio::null()).stderr(Stdio::null());
        if !made.is_ok_and(|it| it.status.success())
            || install.status().is_err()
            || !has_it(&python)
        {
            skip(&"Python is not here, or cannot have pyarrow");
            return None;
        }
    }
    Some(python)
}

/// The rows of the files that a pattern names.
fn read(python: &Path, pattern: &Path) -> Vec<Value> {
    let output = Command::new(python)
        .args(["-c", READ])
        .arg(pattern)
        .output()
        .expect("Python runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows = text.lines().map(serde_json::from_str);
    rows.collect::<Result<_, _>>().expect("JSON")
}

/// Rows of a table that has another column for a while.
fn change_columns(client: &mut Client) {
    for sql in [
        "ALTER TABLE d.t ADD c DECIMAL(10,2)",
        "INSERT INTO d.t VALUES (1000, 'new', 1.50)",
        "DELETE FROM d.t WHERE a = 1000",
        "INSERT INTO d.t VALUES (1000, 'new', 2.50)",
        "ALTER TABLE d.t DROP c",
    ] {
        client.run(sql);
    }
}

#[test]
fn files_of_parquet_have_every_change_once_over_deaths() {
    let Some(python) = python() else {
        return;
    };
    let Some(mut farm) = Farm::start(&["--replicas", "0"]) else {
        return;
    };
    let mut client = farm.member("g1-1").client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (a INT PRIMARY KEY, b VARCHAR(20))");
    client.run("CREATE TABLE d.other (a INT PRIMARY KEY)");
    let flags = [
        "--format",
        "parquet",
        "--rotate_rows",
        "20",
        "--rotate_s",
        "1",
    ];
    farm.json(&[&["sink", "create", "lake", "file:lake"][..], &flags].concat());
    let dir = farm.dir().join("sinks").join("lake");
    let rows = |table: &str| read(&python, &dir.join("d").join(table).join("*.parquet"));
    let numbers = |rows: &[Value], side: &str| -> Vec<i64> {
        rows.iter()
            .filter_map(|row| row[side]["a"].as_i64())
            .collect()
    };
    for round in 0..3_i64 {
        for number in round * 20..round * 20 + 20 {
            client.run(&format!("INSERT INTO d.t VALUES ({number}, 'x')"));
        }
        client.run(&format!("INSERT INTO d.other VALUES ({round})"));
        wait_until(SOON, "some of it", || {
            numbers(&rows("t"), "after")
                .iter()
                .any(|it| *it >= round * 20)
        });
        farm.kill_up();
        if round == 1 {
            change_columns(&mut client);
        }
        farm.start_again();
    }
    client.run("UPDATE d.t SET b = 'last' WHERE a = 59");
    // The files of one table come before those of another.
    wait_until(SOON, "the last row", || {
        rows("t").iter().any(|row| row["after"]["b"] == "last") && rows("other").len() == 3
    });
    let all = rows("t");
    let of = |kind: &str| -> Vec<Value> {
        let rows = all.iter().filter(|row| row["kind"] == kind);
        rows.cloned().collect()
    };
    let mut inserted = numbers(&of("insert"), "after");
    inserted.sort_unstable();
    let expected: Vec<i64> = (0..60).chain([1000, 1000]).collect();
    assert_eq!(inserted, expected, "each once");
    let with_c = all.iter().filter(|row| row["after"]["c"] == "2.50");
    assert_eq!(with_c.count(), 1, "a file with the columns of then");
    assert_eq!(numbers(&of("delete"), "before"), [1000]);
    let updated = of("update");
    assert_eq!(updated[0]["before"]["b"], "x");
    let ids: std::collections::BTreeSet<String> =
        all.iter().map(|it| it["id"].to_string()).collect();
    assert_eq!(ids.len(), all.len(), "nothing twice");
    assert_eq!(numbers(&rows("other"), "after"), [0, 1, 2]);
    let events = read(&python, &dir.join("_events").join("*.parquet"));
    let altered = events.iter().filter(|it| it["event"] == "ddl");
    assert_eq!(altered.count(), 2);
}

const TYPES: &str = "CREATE TABLE d.types (id INT PRIMARY KEY, u BIGINT UNSIGNED, n DECIMAL(38,10), s VARCHAR(20), \
                     d DATE, t TIME(3), m DATETIME(6), z TIMESTAMP(3) NULL, b VARBINARY(10), f BIT(12), \
                     e ENUM('a','b'), g SET('x','y'), y YEAR, r FLOAT, w DOUBLE, i TINYINT UNSIGNED)";

fn values_of_every_type_are_what_the_page_says(release: Release) {
    let Some(python) = python() else {
        return;
    };
    let Some(farm) = Farm::start_on(release, &["--replicas", "0"]) else {
        return;
    };
    let mut client = farm.member("g1-1").client();
    client.run("CREATE DATABASE d");
    client.run(TYPES);
    let flags = [
        "--format",
        "parquet",
        "--compress",
        "none",
        "--rotate_s",
        "1",
    ];
    farm.json(&[&["sink", "create", "lake", "file:lake"][..], &flags].concat());
    client.run("SET time_zone = '+00:00', sql_mode = ''");
    client.run(
        "INSERT INTO d.types VALUES (1, 18446744073709551615, -1234567890123456789012345678.0123456789, 'sm\u{f6}r', \
         '2024-02-29', '-01:02:03.5', '2024-02-29 12:34:56.789012', '2024-02-29 12:34:56.5', X'00FF', \
         b'101010101010', 'b', 'x,y', 2024, 1.5, -2.25, 200)",
    );
    client.run("INSERT INTO d.types (id) VALUES (2)");
    client.run("INSERT INTO d.types (id, d, m) VALUES (3, '0000-00-00', '2024-00-00 00:00:00')");
    let pattern = farm.dir().join("sinks/lake/d/types/*.parquet");
    let mut rows = Vec::new();
    wait_until(SOON, "the rows", || {
        rows = read(&python, &pattern);
        rows.len() == 3
    });
    let expected = json!({
        "id": 1, "u": 18_446_744_073_709_551_615_u64, "n": "-1234567890123456789012345678.0123456789",
        "s": "sm\u{f6}r", "d": "2024-02-29", "t": -3_723_500_000_i64, "m": "2024-02-29 12:34:56.789012",
        "z": "2024-02-29 12:34:56.500000+00:00", "b": "00ff", "f": 0b1010_1010_1010, "e": "b", "g": "x,y", "y": 2024,
        "r": 1.5, "w": -2.25, "i": 200,
    });
    assert_eq!(rows[0]["after"], expected);
    assert_eq!(
        (&rows[0]["kind"], &rows[0]["before"]),
        (&json!("insert"), &Value::Null)
    );
    let nulls = rows[1]["after"].as_object().expect("an image");
    assert!(
        nulls
            .iter()
            .all(|(name, value)| value.is_null() == (name != "id"))
    );
    assert_eq!(rows[2]["after"]["d"], Value::Null);
    let unmapped: Value =
        serde_json::from_str(rows[2]["unmapped"].as_str().expect("it has some")).expect("JSON");
    let odd = json!({"after": {"d": "0000-00-00", "m": "2024-00-00 00:00:00.000000"}});
    assert_eq!(unmapped, odd);
    assert_eq!(rows[0]["unmapped"], Value::Null);
}

testkit::on_both_engines! {
    values_of_every_type_are_what_the_page_says,
}
