//! Binlogs that a server encrypts are streamed as plain ones are: also from a token, and over a change of files.

use std::path::PathBuf;

use serde_json::Value;
use testkit::server::Server;
use testkit::{Farm, Release};

use crate::reading::{Stream, rows};

/// What stands in plain files.
const WORD: &str = "a word that is seen";

fn numbers(events: &[Value]) -> Vec<i64> {
    let told = rows(events).into_iter().filter(|row| row["table"] == "t");
    let id = |row: &Value| row["after"]["id"].as_i64().expect("a number");
    let told: Vec<&Value> = told.collect();
    assert!(told.iter().all(|row| row["after"]["v"] == WORD), "{told:?}");
    told.into_iter().map(id).collect()
}

fn encrypted_logs_are_read(release: Release) {
    let keys = tempfile::tempdir().expect("a directory");
    let file = keys.path().join("keys");
    let key = "7".repeat(64);
    std::fs::write(&file, format!("1;{key}\n")).expect("a file");
    let file = file.display().to_string();
    let settings = [
        ("plugin_load_add", "file_key_management"),
        ("file_key_management_filename", file.as_str()),
        ("encrypt_binlog", "ON"),
    ];
    let Some(server) = Server::start_with(release, &settings) else {
        return;
    };
    let farm = Farm::serve(&[]);
    farm.json(&["group", "create", "g1"]);
    farm.json(&["group", "add", "g1", &server.address().to_string()]);
    farm.json(&["group", "activate", "g1"]);
    let mut client = server.client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (id INT PRIMARY KEY, v TEXT)");
    client.run("CREATE TABLE d.last (a INT PRIMARY KEY)");
    let mut stream = Stream::now(&farm, "database=d");
    let token = stream.token.clone();
    let mut insert = |id: i64| client.run(&format!("INSERT INTO d.t VALUES ({id}, '{WORD}')"));
    insert(1);
    insert(2);
    client.run("FLUSH BINARY LOGS");
    client.run(&format!("INSERT INTO d.t VALUES (3, '{WORD}')"));
    client.run("INSERT INTO d.last VALUES (1)");
    assert_eq!(numbers(&stream.until_last(1)), [1, 2, 3]);
    let mut again = Stream::behind(&farm, &token, "database=d");
    assert_eq!(numbers(&again.until_last(1)), [1, 2, 3]);
    let mut whole = Stream::open(&farm, "database=d&snapshot=true");
    while whole.next().expect("it goes on")["event"] != "snapshot" {}
    client.run("INSERT INTO d.last VALUES (2)");
    whole.until_last(2);
    // The test is one of encrypted files.
    let data = PathBuf::from(client.value("SELECT @@datadir"));
    for row in client.rows("SHOW BINARY LOGS") {
        let file = data.join(row[0].as_deref().expect("a name"));
        let bytes = std::fs::read(file).expect("the server's file");
        let is_seen = bytes.windows(WORD.len()).any(|it| it == WORD.as_bytes());
        assert!(!is_seen);
    }
}

#[test]
fn encrypted_logs_are_read_on_mariadb_10_11() {
    encrypted_logs_are_read(Release::Installed);
}
