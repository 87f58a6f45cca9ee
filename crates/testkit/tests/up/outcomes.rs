//! A whole farm finds out what became of writes whose connections an administrator kills.

use std::time::Duration;

use testkit::{Farm, Release, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);

fn killed_writes_happen_once(release: Release) {
    let Some(farm) = Farm::start_on(release, &["--replicas", "2"]) else {
        return;
    };
    let mut client = farm.client();
    client.run("CREATE DATABASE killed");
    client.run("CREATE TABLE killed.t (a INT PRIMARY KEY AUTO_INCREMENT, b INT)");
    let mut primary = farm
        .members()
        .into_iter()
        .find(|member| member.client().value("SELECT @@global.read_only") == "0")
        .expect("a primary")
        .client();
    let kill = |primary: &mut testkit::Client, text: &str| {
        let ask = format!(
            "SELECT MAX(id) FROM information_schema.processlist WHERE info LIKE '%{text}%' \
             AND id != CONNECTION_ID()"
        );
        let mut id = String::new();
        wait_until(PATIENCE, "the statement runs", || {
            id = primary.value(&ask);
            id != "NULL"
        });
        primary.run(&format!("KILL {id}"));
    };
    // In the middle of a computation that hears nothing of it: MySQL commits the row after the client
    // has lost the connection. The servers are seconds old, as are the connections to them.
    let deaf = ["SHA2(REPEAT(CONCAT(RAND(), 1), 800000), 512)"; 12].join(", ");
    let deaf = format!("INSERT INTO killed.t (b) SELECT LENGTH(CONCAT({deaf}))");
    let writing = std::thread::spawn(move || (client.run(&deaf).affected_rows, client));
    kill(&mut primary, "REPEAT(CONCAT(RAND(), 1)");
    let (affected, mut client) = writing.join().expect("it runs");
    assert_eq!(affected, 1);
    assert_eq!(client.value("SELECT COUNT(*) FROM killed.t"), "1");
    // While it sleeps.
    let slow = "INSERT INTO killed.t (b) SELECT SLEEP(3)";
    let writing = std::thread::spawn(move || (client.run(slow).affected_rows, client));
    kill(&mut primary, slow);
    let (affected, mut client) = writing.join().expect("it runs");
    assert_eq!(affected, 1);
    assert_eq!(client.value("SELECT COUNT(*) FROM killed.t"), "2");
    // In a transaction: it goes on.
    client.run("BEGIN");
    let id = client
        .run("INSERT INTO killed.t (b) VALUES (7)")
        .last_insert_id;
    let own = client.value("SELECT COUNT(*) FROM killed.t");
    let slow = "UPDATE killed.t SET b = b + 1 + SLEEP(3) WHERE b = 7";
    let writing = std::thread::spawn(move || (client.run(slow).affected_rows, client));
    kill(&mut primary, slow);
    let (affected, mut client) = writing.join().expect("it runs");
    assert_eq!((affected, &*own), (1, "3"));
    client.run("COMMIT");
    let found = client.value(&format!(
        "/*ms=master*/ SELECT b FROM killed.t WHERE a = {id}"
    ));
    assert_eq!(found, "8");
}

#[test]
fn killed_writes_happen_once_on_mariadb() {
    killed_writes_happen_once(Release::Installed);
}

#[test]
fn killed_writes_happen_once_on_mysql() {
    killed_writes_happen_once(Release::newest_mysql());
}
