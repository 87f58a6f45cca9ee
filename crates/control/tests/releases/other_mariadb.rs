//! The whole control plane towards MariaDB 10.6, 11.8 and 12 by their words, and groups whose servers run
//! different releases.

use crate::plane::life::{Later, a_life_of_a_group};
use crate::plane::{PATIENCE, Plane, servers};
use farm::Status;
use testkit::{Release, Server, wait_until};

#[test]
fn a_life_of_a_group_of_mariadb_10_6() {
    a_life_of_a_group(Release::Installed, "10.6.22-MariaDB");
}

#[test]
fn a_life_of_a_group_of_mariadb_11_8() {
    a_life_of_a_group(Release::Installed, "11.8.3-MariaDB");
}

/// Its `read_only` is a word.
#[test]
fn a_life_of_a_group_of_mariadb_12() {
    a_life_of_a_group(Release::Installed, "12.0.2-MariaDB");
}

/// A disguise that refuses nothing would prove nothing.
#[test]
fn other_releases_refuse_what_they_do_not_have() {
    for (version, refused) in [
        ("10.6.22-MariaDB", "SELECT 1 COLLATE utf8mb4_uca1400_ai_ci"),
        ("11.8.3-MariaDB", "SELECT @@innodb_change_buffering"),
        ("12.0.2-MariaDB", "SELECT @@tx_isolation"),
    ] {
        let Some(later) = Later::start(Release::Installed, version) else {
            return;
        };
        let mut client = later.client();
        client.query(refused).expect_err("it does not have it");
        assert_eq!(later.disguise.refused(), [refused]);
        assert_eq!(client.value("SELECT @@version"), version);
        let read_only = client.value("SELECT @@global.read_only");
        assert_eq!(read_only == "ON", version.starts_with("12"), "{read_only}");
    }
}

fn address(server: &Server) -> String {
    server.address().to_string()
}

/// The release of a member, as `group health` has it.
fn version(plane: &Plane, server: &Server) -> String {
    let health = plane.rows(&["group", "health", "g"]);
    let rows = health.as_array().expect("rows");
    let row = rows.iter().find(|row| row["address"] == *address(server));
    let version = &row.expect("a member")["version"];
    version.as_str().expect("a text").to_owned()
}

/// Stops a server, has the newer software go on with its data, and waits until it follows.
fn upgrade(plane: &Plane, server: &mut Server) {
    let release = Release::MariaDb114;
    server.upgrade(release).expect("it was there before");
    wait_until(PATIENCE, "the upgraded server follows", || {
        version(plane, server).starts_with("11.4") && is(plane, server, Status::Replica)
    });
}

/// It stands so in the group, and answers; a replica receives.
fn is(plane: &Plane, server: &Server, status: Status) -> bool {
    let snapshot = plane.published.load();
    let group = snapshot.group("g").expect("the group");
    let mut members = group.servers.iter();
    members.any(|member| {
        member.address() == address(server)
            && member.status == status
            && member.health.alive
            && (status == Status::Primary || member.health.io_running == Some(true))
    })
}

fn rows(server: &Server) -> String {
    server.client().value("SELECT COUNT(*) FROM d.t")
}

/// Replicas first, then the primary after a switch-over: nothing is lost, and nobody leads whom others
/// could not follow.
#[test]
fn a_group_is_upgraded_server_by_server() {
    if let Err(why) = Release::MariaDb114.binary() {
        testkit::skip(&why);
        return;
    }
    let Some([mut first, mut second, mut third, late]) = servers() else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = Plane::start(dir.path());
    plane.rows(&["group", "create", "g"]);
    for server in [&first, &second, &third] {
        plane.rows(&["group", "add", "g", &address(server)]);
    }
    plane.rows(&["group", "activate", "g"]);
    let mut client = first.client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (a INT PRIMARY KEY)");
    client.run("INSERT INTO d.t VALUES (1)");

    upgrade(&plane, &mut second);
    let refused = plane.error(&["group", "promote", "g", &address(&second)]);
    let why = format!("newer release than {}", address(&third));
    assert!(refused.contains(&why), "{refused}");
    first.client().run("INSERT INTO d.t VALUES (2)");
    upgrade(&plane, &mut third);
    plane.promote("g", &address(&second));
    wait_until(PATIENCE, "the second leads", || {
        is(&plane, &second, Status::Primary)
    });
    plane.wait_event("replica_older");
    second.client().run("INSERT INTO d.t VALUES (3)");
    upgrade(&plane, &mut first);
    for server in [&first, &third] {
        wait_until(PATIENCE, "all rows", || rows(server) == "3");
    }

    // Nobody comes in who is older than the primary.
    let refused = plane.error(&["group", "add", "g", &address(&late)]);
    assert!(
        refused.contains("older than the primary's 11.4"),
        "{refused}"
    );
    // All are of one release again: anybody may lead.
    plane.promote("g", &address(&first));
    first.client().run("INSERT INTO d.t VALUES (4)");
    wait_until(PATIENCE, "the row on the others", || {
        rows(&second) == "4" && rows(&third) == "4"
    });
}
