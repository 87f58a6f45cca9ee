//! Programs that read a server's binlog read a group's.

use std::process::{Command, Output};

use testkit::farm::heddle;
use testkit::{Farm, Release};

#[track_caller]
fn text(output: std::io::Result<Output>) -> String {
    let output = output.expect("the program can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn the_door_says_what_the_server_says(release: Release) {
    let Some(farm) = Farm::start_on(release, &[]) else {
        return;
    };
    let mut client = farm.client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20))");
    client.run("INSERT INTO d.t VALUES (1, 'one'), (2, 'two')");
    client.run("UPDATE d.t SET v = 'changed' WHERE id = 1");
    let straight = farm.primary("g1").port;
    let dump = |port: u16| {
        let address = format!("127.0.0.1:{port}");
        let mut command = Command::new(heddle());
        text(
            command
                .args(["binlog", "dump", &address, "--database", "d"])
                .output(),
        )
    };
    let through = dump(farm.sql.port());
    assert!(through.contains("changed"), "{through}");
    assert_eq!(dump(straight), through);
}

#[test]
fn heddle_binlog_dump_reads_a_group_on_mariadb() {
    the_door_says_what_the_server_says(Release::Installed);
}

#[test]
fn heddle_binlog_dump_reads_a_group_on_mysql() {
    the_door_says_what_the_server_says(Release::newest_mysql());
}

#[test]
fn mariadb_binlog_begins_at_a_gtid() {
    let Some(farm) = Farm::start(&[]) else {
        return;
    };
    let mut client = farm.client();
    client.run("CREATE DATABASE d");
    let from = client.value("SELECT @@global.gtid_binlog_pos");
    client.run("CREATE TABLE d.behind (id INT PRIMARY KEY)");
    let straight = farm.primary("g1");
    let files = straight.client().rows("SHOW BINARY LOGS");
    let file = files.last().and_then(|row| row[0].clone()).expect("a file");
    let printed = |port: u16| {
        let mut command = Command::new("mariadb-binlog");
        command.args(["--no-defaults", "--read-from-remote-server", "--user=root"]);
        command.args(["--host=127.0.0.1", &format!("--port={port}")]);
        command.arg(format!("--start-position={from}"));
        command.arg(&file).output()
    };
    if printed(straight.port).is_err() {
        return testkit::skip(&"mariadb-binlog is not installed");
    }
    let through = text(printed(farm.sql.port()));
    assert!(through.contains("CREATE TABLE d.behind"), "{through}");
    assert!(!through.contains("CREATE DATABASE d"), "{through}");
}
