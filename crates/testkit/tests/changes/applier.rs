//! The program of docs/CHANGES.md rebuilds a table from the stream.

use std::process::Command;

use testkit::{Farm, skip, wait_until};

use crate::reading::{SOON, admin};

/// The page's program: its only block of Python.
fn program() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/CHANGES.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let (_, rest) = page.split_once("```python\n").expect("a program");
    rest.split_once("```").expect("its end").0.to_owned()
}

#[test]
fn the_applier_of_the_page_rebuilds_a_table() {
    if Command::new("python3").arg("--version").output().is_err() {
        return skip(&"python3 is not installed");
    }
    let Some(farm) = Farm::start(&["--replicas", "1"]) else {
        return;
    };
    let mut client = farm.client();
    client.run("CREATE DATABASE shop");
    client.run("CREATE TABLE shop.t (id INT PRIMARY KEY, name VARCHAR(20), price DECIMAL(10,2))");
    let copy = farm.dir().join("copy.sqlite");
    let start = || {
        let mut python = Command::new("python3");
        python.arg("-c").arg(program()).arg(&copy);
        python.env("HEDDLE_HTTP", farm.http.to_string());
        python.env("HEDDLE_TOKEN", admin(&farm));
        python.spawn().expect("python runs")
    };
    let shown = |sql: &str| {
        let read = "import sqlite3, sys\n\
                    for row in sqlite3.connect(sys.argv[1]).execute(sys.argv[2]): print(*row)";
        let output = Command::new("python3")
            .arg("-c")
            .arg(read)
            .arg(&copy)
            .arg(sql)
            .output();
        String::from_utf8_lossy(&output.expect("python runs").stdout).into_owned()
    };
    const ROWS: &str = "SELECT id, name, price FROM t ORDER BY id";
    let mut python = start();
    wait_until(SOON, "the stream has begun", || {
        !shown("SELECT token FROM place").is_empty()
    });
    for id in 0..50 {
        client.run(&format!("INSERT INTO shop.t VALUES ({id}, 'first', 1.50)"));
    }
    wait_until(SOON, "a row", || !shown(ROWS).is_empty());
    // What it was told before it dies is kept with the place at which it goes on.
    python.kill().expect("it runs");
    python.wait().expect("it ends");
    for sql in [
        "INSERT INTO shop.t VALUES (1000, 'sm\u{f6}r', 10.00), (1001, NULL, NULL)",
        "UPDATE shop.t SET price = price + 1, id = id + 5000 WHERE id < 3",
        "DELETE FROM shop.t WHERE id = 1001",
    ] {
        client.run(sql);
    }
    let mut python = start();
    let cells = |row: &Vec<Option<String>>| {
        let cells = row
            .iter()
            .map(|it| it.clone().unwrap_or_else(|| "None".to_owned()));
        cells.collect::<Vec<_>>().join(" ") + "\n"
    };
    let table: String = client
        .rows("SELECT id, name, price FROM shop.t ORDER BY id")
        .iter()
        .map(cells)
        .collect();
    wait_until(SOON, "the copy is the table", || shown(ROWS) == table);
    python.kill().expect("it runs");
    python.wait().expect("it ends");
}
