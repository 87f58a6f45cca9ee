//! `heddle up --engine mysql`: a farm of MySQL servers, from the first start to kill -9 of everything,
//! and what a farm says to a server of the other engine.

use std::process::{Command, Output};
use std::time::Duration;

use testkit::client::Reply;
use testkit::farm::heddle;
use testkit::ports::free_port;
use testkit::server::{Release, Server};
use testkit::{Client, Farm, wait_until};

/// For what takes a server's restart and a probe or two.
const SOON: Duration = Duration::from_secs(60);

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Inserts through Heddle, again and again while the farm changes hands.
fn insert(farm: &Farm, id: usize) {
    wait_until(SOON, &format!("row {id} is written"), || {
        let insert = format!("REPLACE INTO kept.t VALUES ({id})");
        let client = Client::connect(farm.sql, "root", "");
        client.and_then(|mut c| c.query(insert)).is_ok()
    });
}

/// Waits until every server has so many rows.
fn all_have(farm: &Farm, rows: usize) {
    for member in farm.members() {
        wait_until(SOON, &format!("{rows} rows on {}", member.name), || {
            let client = Client::connect(([127, 0, 0, 1], member.port).into(), "root", "");
            let count = client.and_then(|mut c| c.query("SELECT id FROM kept.t"));
            matches!(&count.as_deref(), Ok([Reply::Rows(found)]) if found.rows.len() == rows)
        });
    }
}

#[test]
fn a_farm_of_mysql_lives_through_restarts_and_crashes() {
    let Some(mut farm) = Farm::start_on(Release::MySql80, &[]) else {
        return;
    };
    let before = farm.members();
    let names: Vec<&str> = before.iter().map(|member| member.name.as_str()).collect();
    assert_eq!(names, ["g1-1", "g1-2", "g1-3"]);
    let mut client = farm.client();
    let version = client.value("SELECT @@version");
    assert!(before.iter().all(|member| member.version == version));
    let json = std::fs::read_to_string(farm.dir().join("farm.json")).expect("written");
    assert_eq!(json.matches("\"engine\": \"mysql\"").count(), 3, "{json}");
    // Where a build has no semi-sync plugin, the operator has to know.
    let warned = |line: &String| line.contains("WARNING") && line.contains("may be lost");
    let plain = version == "8.0.12";
    assert_eq!(farm.lines().iter().any(warned), plain, "{:?}", farm.lines());
    client.run("CREATE DATABASE kept");
    client.run("CREATE TABLE kept.t (id INT PRIMARY KEY)");
    drop(client);
    insert(&farm, 1);
    all_have(&farm, 1);
    // A replica refuses writes, root's too.
    let mut replica = before[1].client();
    let refused = replica.query("INSERT INTO kept.t VALUES (99)");
    assert_eq!(refused.expect_err("read-only").number(), 1290);
    drop(replica);

    // Heddle killed: its servers run on and are adopted.
    farm.kill_up();
    farm.start_again();
    assert_eq!(farm.members(), before, "the same processes");
    insert(&farm, 2);
    all_have(&farm, 2);

    survives_killed_servers(&farm);
    // An orderly end, and a second start on the data.
    assert!(farm.stop().success());
    farm.start_again();
    insert(&farm, 5);
    all_have(&farm, 5);
    wait_until(SOON, "two servers that replicate", || {
        let rows = farm.json(&["group", "health", "g1"]);
        let fine = |row: &&serde_json::Value| {
            row["is_alive"] == true && row["is_not_configured"] == false && row["io_error"] == ""
        };
        rows.iter().filter(fine).count() == 3
    });
    assert!(farm.stop().success());
    mariadb_refuses_the_directory(&farm);
}

/// Servers are killed, the primary too: started again, they replicate again.
fn survives_killed_servers(farm: &Farm) {
    for (round, name) in ["g1-3", "g1-1"].into_iter().enumerate() {
        let old = farm.member(name);
        old.signal("KILL");
        wait_until(SOON, "another pid in farm.json", || {
            farm.member(name).pid != old.pid
        });
        insert(farm, 3 + round);
        all_have(farm, 3 + round);
    }
}

fn mariadb_refuses_the_directory(farm: &Farm) {
    let mut other = Command::new(heddle());
    let dir = farm.dir().display().to_string();
    other.args(["up", "--data", &dir]);
    for door in ["--sql", "--kv", "--http", "--fabric"] {
        other.args([door, &format!("127.0.0.1:{}", free_port())]);
    }
    other.args(["--set", "fabric_mysql_listen="]);
    let output = other.output().expect("the program can be run");
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(
        said.contains("holds mysql servers") && said.contains("--engine mysql"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn a_binary_of_the_other_engine_is_refused_in_one_line() {
    for (release, engine, is) in [
        (Release::Installed, "mysql", "it is MariaDB"),
        (Release::MySql80, "mariadb", "it is MySQL"),
    ] {
        let Ok(binary) = release.binary() else {
            continue;
        };
        let home = tempfile::tempdir().expect("a temporary directory");
        let dir = home.path().join("farm");
        let mut command = Command::new(heddle());
        command
            .args(["up", "--engine", engine, "--mysqld"])
            .arg(&binary.path)
            .arg("--data")
            .arg(&dir);
        let output = command.output().expect("the program can be run");
        assert_eq!(output.status.code(), Some(1));
        let said = stderr(&output);
        assert!(said.contains(is) && said.lines().count() == 1, "{said}");
        assert!(!dir.exists(), "nothing is left behind");
    }
}

/// Engines do not replicate from each other; as groups of one farm they get along, and clients see
/// the home group's engine.
#[test]
fn engines_mix_in_a_farm_and_not_in_a_group() {
    let Some(farm) = Farm::start(&["--replicas", "0"]) else {
        return;
    };
    let Some(mysql) = Server::start(Release::MySql80) else {
        return;
    };
    let address = mysql.address().to_string();
    let output = farm.command(&["group", "add", "g1", &address]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(
        said.contains("runs mysql but group g1 runs mariadb") && said.contains("group of its own"),
        "{said}"
    );
    farm.json(&["group", "create", "g2"]);
    farm.json(&["group", "add", "g2", &address]);
    let servers = farm.json(&["dump", "servers"]);
    assert_eq!(servers.len(), 2, "{servers:?}");
    let mut client = farm.client();
    assert!(client.value("SELECT @@version").contains("MariaDB"));
}
