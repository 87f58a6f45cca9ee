//! The whole control plane towards servers that take the words of MySQL 8.4 and 9 only.

use crate::plane::life::{Later, a_life_of_a_group};
use crate::plane::{PATIENCE, farm_of, servers_of};
use testkit::{Release, Server, wait_until};

#[test]
fn a_life_of_a_group_of_mysql_8_4() {
    a_life_of_a_group(Release::MySqlNewer, "8.4.6");
}

#[test]
fn a_life_of_a_group_of_mysql_9() {
    a_life_of_a_group(Release::MySqlNewer, "9.4.0");
}

/// A disguise that refuses nothing would prove nothing.
#[test]
fn later_releases_refuse_what_they_gave_up() {
    let Some(later) = Later::start(Release::MySqlNewer, "8.4.6") else {
        return;
    };
    let mut client = later.client();
    for (sql, number) in [
        ("SHOW MASTER STATUS", 1064),
        ("show  slave status", 1064),
        ("RESET MASTER", 1064),
        ("SELECT @@expire_logs_days", 1193),
        (
            "CREATE USER u IDENTIFIED WITH mysql_native_password BY 'x'",
            1524,
        ),
    ] {
        let failure = client.query(sql).expect_err("it is gone");
        assert_eq!(failure.number(), number, "{sql}: {failure}");
    }
    assert_eq!(later.disguise.refused().len(), 5);
    assert_eq!(client.rows("SHOW BINARY LOG STATUS").len(), 1);
    assert_eq!(client.value("SELECT @@version"), "8.4.6");
}

/// Servers of the newer release come in empty, one of them takes over, and the older ones leave.
#[test]
fn a_group_is_upgraded_by_new_servers() {
    let (Some(old), Some(new)) = (
        servers_of::<2>(Release::MySql80),
        servers_of::<2>(Release::MySqlNewer),
    ) else {
        return;
    };
    let address = |server: &Server| server.address().to_string();
    let rows = |server: &Server| server.client().value("SELECT COUNT(*) FROM d.t");
    let dir = tempfile::tempdir().expect("a directory");
    let plane = farm_of(dir.path(), &old);
    plane.rows(&["group", "activate", "g"]);
    let mut client = old[0].client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (a INT PRIMARY KEY)");
    client.run("INSERT INTO d.t VALUES (1)");
    for server in &new {
        plane.rows(&["group", "add", "g", &address(server)]);
        plane.wait_replica_again(server);
    }
    old[0].client().run("INSERT INTO d.t VALUES (2)");
    wait_until(PATIENCE, "the row on the new servers", || {
        new.iter().all(|server| rows(server) == "2")
    });
    plane.promote("g", &address(&new[0]));
    new[0].client().run("INSERT INTO d.t VALUES (3)");
    for server in &old {
        plane.rows(&["group", "remove", "g", &address(server)]);
    }
    new[0].client().run("INSERT INTO d.t VALUES (4)");
    wait_until(PATIENCE, "the last row", || rows(&new[1]) == "4");
}
