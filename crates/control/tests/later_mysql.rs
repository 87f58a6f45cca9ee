//! The whole control plane towards servers that take the words of MySQL 8.4 and 9 only.

#[allow(dead_code, reason = "each test uses a part of it")]
mod plane;

use farm::Status;
use plane::{PATIENCE, Plane};
use testkit::disguise::Disguise;
use testkit::{Client, Release, Server, wait_until};

/// A server, and the later release that it passes for.
struct Later {
    server: Server,
    disguise: Disguise,
}

impl Later {
    /// `None` where no MySQL is there that knows the newer words besides the older ones.
    fn start(version: &'static str) -> Option<Later> {
        let settings = [
            ("read_only", "ON"),
            ("sync_binlog", "1"),
            ("innodb_flush_log_at_trx_commit", "1"),
        ];
        let server = Server::start_with(Release::MySqlNewer, &settings)?;
        let disguise = Disguise::new(server.address(), version);
        Some(Later { server, disguise })
    }

    fn address(&self) -> String {
        self.disguise.address.to_string()
    }

    fn client(&self) -> Client {
        Client::connect(self.disguise.address, "root", "").expect("it answers")
    }

    fn count(&self) -> String {
        self.client().value("SELECT COUNT(*) FROM d.t")
    }
}

fn leads(plane: &Plane, later: &Later) -> bool {
    let snapshot = plane.published.load();
    let group = snapshot.group("g").expect("the group");
    let primary = group.primary().map(|server| server.address());
    primary == Some(later.address()) && !group.paused
}

fn follows(plane: &Plane, later: &Later) -> bool {
    let snapshot = plane.published.load();
    let group = snapshot.group("g").expect("the group");
    let mut servers = group.servers.iter();
    servers.any(|server| {
        server.address() == later.address()
            && server.status == Status::Replica
            && server.health.io_running == Some(true)
    })
}

/// A group is made, switched over, bereaved, joined again and grown by a server that has to be filled.
fn a_life_of_a_group(version: &'static str) {
    let (Some(mut first), Some(second), Some(third)) = (
        Later::start(version),
        Later::start(version),
        Later::start(version),
    ) else {
        return;
    };
    assert_eq!(first.client().version, version);
    let dir = tempfile::tempdir().expect("a directory");
    let plane = Plane::start(dir.path());
    plane.rows(&["group", "create", "g"]);
    for later in [&first, &second] {
        plane.rows(&["group", "add", "g", &later.address()]);
    }
    plane.rows(&["group", "activate", "g"]);
    let mut client = first.client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (a INT PRIMARY KEY)");
    client.run("INSERT INTO d.t VALUES (1)");
    let acks = plane.published.load().groups[0].acks;
    assert!(
        !matches!(acks, farm::Acks::Router { .. }),
        "semi-sync: {acks:?}"
    );

    plane.rows(&["group", "promote", "g", &second.address()]);
    assert!(leads(&plane, &second));
    second.client().run("INSERT INTO d.t VALUES (2)");
    wait_until(PATIENCE, "the old primary follows", || {
        follows(&plane, &first) && first.count() == "2"
    });
    plane.rows(&["group", "promote", "g", &first.address()]);
    wait_until(PATIENCE, "the second follows again", || {
        follows(&plane, &second)
    });
    first.client().run("INSERT INTO d.t VALUES (3)");

    first.server.kill();
    wait_until(PATIENCE, "another primary", || leads(&plane, &second));
    first.server.restart();
    wait_until(PATIENCE, "the dead one is back", || follows(&plane, &first));
    second.client().run("INSERT INTO d.t VALUES (4)");
    wait_until(PATIENCE, "the row on the other one", || {
        first.count() == "4"
    });

    // What the binary logs no longer tell comes by a copy.
    let mut client = second.client();
    client.run("FLUSH BINARY LOGS");
    wait_until(PATIENCE, "purged logs", || {
        let logs = client.rows("SHOW BINARY LOGS");
        let last = logs.last().and_then(|row| row[0].clone()).expect("a log");
        client.run(&format!("PURGE BINARY LOGS TO '{last}'"));
        client.rows("SHOW BINARY LOGS").len() == 1
    });
    plane.rows(&["group", "add", "g", &third.address()]);
    second.client().run("INSERT INTO d.t VALUES (5)");
    wait_until(PATIENCE, "the filled one follows", || {
        follows(&plane, &third) && third.count() == "5"
    });
    plane.rows(&["group", "health", "g"]);
    for later in [&first, &second, &third] {
        assert_eq!(later.disguise.refused(), Vec::<String>::new(), "{version}");
    }
}

#[test]
fn a_life_of_a_group_of_mysql_8_4() {
    a_life_of_a_group("8.4.6");
}

#[test]
fn a_life_of_a_group_of_mysql_9() {
    a_life_of_a_group("9.4.0");
}

/// A disguise that refuses nothing would prove nothing.
#[test]
fn later_releases_refuse_what_they_gave_up() {
    let Some(later) = Later::start("8.4.6") else {
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
