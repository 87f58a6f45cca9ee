//! The programs of docs/CHANGES.md rebuild a table from the stream.

use std::process::Command;

use testkit::server::Server;
use testkit::{Farm, Release, skip, wait_until};

use crate::reading::{SOON, admin};

/// The page's program: its only block in this language.
fn program(language: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/CHANGES.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let (_, rest) = page
        .split_once(&format!("```{language}\n"))
        .expect("a program");
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
        python.arg("-c").arg(program("python")).arg(&copy);
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

#[test]
fn the_applier_in_php_rebuilds_a_table() {
    let modules = Command::new("php").arg("-m").output();
    let has_mysqli = modules.is_ok_and(|it| String::from_utf8_lossy(&it.stdout).contains("mysqli"));
    if !has_mysqli {
        return skip(&"php-mysql is not installed");
    }
    let Some(farm) = Farm::start(&["--replicas", "0"]) else {
        return;
    };
    let Some(copy) = Server::start(Release::Installed) else {
        return;
    };
    let mut client = farm.client();
    client.run("CREATE DATABASE shop");
    client.run("CREATE TABLE shop.t (id INT PRIMARY KEY, name VARCHAR(20), price DECIMAL(10,2))");
    client.run("INSERT INTO shop.t VALUES (1, 'sm\u{f6}r', 1.50), (2, NULL, NULL), (3, 'x', 3.00)");
    let script = farm.dir().join("applier.php");
    std::fs::write(&script, program("php")).expect("a file");
    let start = || {
        let mut php = Command::new("php");
        php.arg(&script);
        php.env("HEDDLE_HTTP", farm.http.to_string());
        php.env("HEDDLE_TOKEN", admin(&farm));
        php.env("COPY_PORT", copy.address().port().to_string());
        php.spawn().expect("php runs")
    };
    let is_copied = |client: &mut testkit::Client| {
        let there = client.rows("SELECT id, name, price FROM shop.t ORDER BY id");
        let copied = copy.client().query("SELECT 1 FROM copy.t LIMIT 1");
        copied.is_ok() && {
            let copied = copy
                .client()
                .rows("SELECT id, name, price FROM copy.t ORDER BY id");
            copied == there
        }
    };
    let mut php = start();
    wait_until(SOON, "the rows that were there", || is_copied(&mut client));
    client.run("UPDATE shop.t SET price = 9.99, id = 10 WHERE id = 1");
    wait_until(SOON, "a change", || is_copied(&mut client));
    php.kill().expect("it runs");
    php.wait().expect("it ends");
    client.run("DELETE FROM shop.t WHERE id = 2");
    client.run("INSERT INTO shop.t VALUES (4, 'y', 4.00)");
    let mut php = start();
    wait_until(SOON, "what was changed meanwhile", || {
        is_copied(&mut client)
    });
    php.kill().expect("it runs");
    php.wait().expect("it ends");
}
