//! `heddle binlog dump`: a file and a server say the same, and the statements make the rows again.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use testkit::farm::heddle;
use testkit::{Client, Farm, Release, skip};

const STATEMENTS: &[&str] = &[
    "CREATE DATABASE d CHARACTER SET utf8mb4",
    "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20), n DECIMAL(8,2), b BLOB, e ENUM('x','y'), \
     s SET('p','q'), dt DATETIME(3), bits BIT(5), u BIGINT UNSIGNED)",
    "INSERT INTO d.t VALUES (1, 'sm\u{f6}r', 1.5, x'00FF', 'y', 'p,q', '2024-02-29 01:02:03.456', b'10101', \
     18446744073709551615), (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "UPDATE d.t SET v = 'other', n = -7 WHERE id = 2",
    "INSERT INTO d.t (id, v) VALUES (3, 'gone')",
    "DELETE FROM d.t WHERE id = 3",
    "CREATE TABLE d.keyless (a INT, b VARCHAR(9))",
    "INSERT INTO d.keyless VALUES (1, 'x'), (1, 'x'), (2, NULL)",
    "DELETE FROM d.keyless WHERE a = 1 LIMIT 1",
];

fn dump(words: &[&str]) -> Output {
    let output = Command::new(heddle())
        .args(["binlog", "dump"])
        .args(words)
        .output();
    output.expect("the program can be run")
}

#[track_caller]
fn text(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

/// The events without the statements, which a MariaDB's file has as well as the server.
fn events(text: &str) -> Vec<Value> {
    let read =
        |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text.lines().map(read).collect()
}

fn file_and_server_agree(release: Release) {
    let Some(farm) = Farm::start_on(release, &["--replicas", "0"]) else {
        return;
    };
    let member = farm.member("g1-1");
    let mut client = member.client();
    client.run("SET NAMES utf8mb4, time_zone='+00:00'");
    STATEMENTS.iter().for_each(|sql| drop(client.run(sql)));
    let data = client.value("SELECT @@datadir");
    let files = client.rows("SHOW BINARY LOGS");
    let files = files
        .iter()
        .map(|row| PathBuf::from(&data).join(row[0].as_deref().expect("a name")));
    let files: Vec<PathBuf> = files.collect();
    let address = format!("127.0.0.1:{}", member.port);
    let of_server = events(&text(&dump(&[&address, "--database", "d"])));
    let mut of_files = Vec::new();
    for file in &files {
        let path = file.display().to_string();
        of_files.extend(events(&text(&dump(&[&path, "--database", "d", "--json"]))));
    }
    let rows = |all: &[Value]| -> Vec<Value> {
        all.iter()
            .filter(|it| it["event"] == "row")
            .cloned()
            .collect()
    };
    assert_eq!(rows(&of_server), rows(&of_files));
    assert_eq!(rows(&of_server).len(), 9);
    let last = files.last().expect("a file").display().to_string();
    // From a place on.
    let from = of_server[of_server.len() - 2]["gtid"]
        .as_str()
        .expect("a GTID")
        .to_owned();
    if release == Release::Installed {
        let rest = events(&text(&dump(&[
            &address,
            "--database",
            "d",
            "--from",
            &from,
        ])));
        assert!(rows(&rest).is_empty(), "{rest:?}");
        agrees_with_mariadb_binlog(&last, &of_files);
    }
    makes_the_rows_again(&mut client, &last);
}

/// The statements make the same rows on a server that had none.
fn makes_the_rows_again(client: &mut Client, file: &str) {
    let statements = text(&dump(&[file, "--sql", "--database", "d"]));
    let before = ["t ORDER BY id", "keyless ORDER BY a"]
        .map(|it| client.rows(&format!("SELECT * FROM d.{it}")));
    client.run("DROP DATABASE d");
    client.run("SET time_zone='+00:00', sql_mode=''");
    for statement in statements
        .split(";\n")
        .skip_while(|it| !it.contains("CREATE DATABASE d"))
    {
        let statement: Vec<&str> = statement
            .lines()
            .filter(|line| !line.starts_with("--"))
            .collect();
        let statement = statement.join("\n");
        if !statement.is_empty()
            && !statement.starts_with("USE ")
            && !statement.starts_with("DROP DATABASE")
        {
            client.run(&statement);
        }
    }
    let after = ["t ORDER BY id", "keyless ORDER BY a"]
        .map(|it| client.rows(&format!("SELECT * FROM d.{it}")));
    assert_eq!(before, after, "{statements}");
}

/// `mariadb-binlog -v` says so many rows of each kind.
fn agrees_with_mariadb_binlog(file: &str, told: &[Value]) {
    let output = Command::new("mariadb-binlog")
        .args(["-v", "--base64-output=decode-rows", file])
        .output();
    let Ok(output) = output else {
        return skip(&"mariadb-binlog is not installed");
    };
    let text = String::from_utf8_lossy(&output.stdout);
    for (kind, verb) in [
        ("insert", "### INSERT INTO `d`."),
        ("update", "### UPDATE `d`."),
        ("delete", "### DELETE FROM `d`."),
    ] {
        let of_kind = told.iter().filter(|event| event["kind"] == kind).count();
        let shown = text.lines().filter(|line| line.starts_with(verb)).count();
        assert_eq!(of_kind, shown, "{kind}");
    }
    for event in told.iter().filter(|it| it["event"] == "row") {
        let gtid = event["gtid"].as_str().expect("a GTID");
        assert!(text.contains(&format!("GTID {gtid}")), "{gtid}");
    }
}

#[test]
fn a_file_and_its_server_say_the_same_on_mariadb() {
    file_and_server_agree(Release::Installed);
}

#[test]
fn a_file_and_its_server_say_the_same_on_mysql() {
    file_and_server_agree(Release::newest_mysql());
}

#[test]
fn what_is_no_binlog_is_told() {
    for (of, code, why) in [
        ("/nowhere", 2, "no HOST:PORT"),
        ("/etc/passwd", 1, "no binlog"),
        ("127.0.0.1:1", 1, "cannot connect"),
    ] {
        let output = dump(&[of]);
        assert_eq!(output.status.code(), Some(code), "{of}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(why) && said.lines().count() == 1, "{said}");
    }
}
