//! Servers that pass for other releases, and the life of a group of them.

use farm::Status;
use testkit::disguise::Disguise;
use testkit::{Client, Release, Server, wait_until};

use super::{PATIENCE, Plane, wait_until_settled};

/// A server, and the other release that it passes for.
pub struct Later {
    pub server: Server,
    pub disguise: Disguise,
}

impl Later {
    /// `None` where this release, which knows the other's words besides its own, cannot be had.
    pub fn start(release: Release, version: &'static str) -> Option<Later> {
        let settings = [
            ("read_only", "ON"),
            ("sync_binlog", "1"),
            ("innodb_flush_log_at_trx_commit", "1"),
        ];
        let server = Server::start_with(release, &settings)?;
        let disguise = Disguise::new(server.address(), version);
        Some(Later { server, disguise })
    }

    pub fn address(&self) -> String {
        self.disguise.address.to_string()
    }

    pub fn client(&self) -> Client {
        Client::connect(self.disguise.address, "root", "").expect("it answers")
    }

    pub fn count(&self) -> String {
        self.client().value("SELECT COUNT(*) FROM d.t")
    }
}

pub fn leads(plane: &Plane, later: &Later) -> bool {
    let snapshot = plane.published.load();
    let group = snapshot.group("g").expect("the group");
    let primary = group.primary().map(|server| server.address());
    primary == Some(later.address()) && !group.paused
}

pub fn follows(plane: &Plane, later: &Later) -> bool {
    let snapshot = plane.published.load();
    let group = snapshot.group("g").expect("the group");
    let mut servers = group.servers.iter();
    servers.any(|server| {
        server.address() == later.address()
            && server.status == Status::Replica
            && server.health.io_running == Some(true)
    })
}

/// What the primary's binary logs no longer tell comes to a new server by a copy.
fn a_third_is_filled(plane: &Plane, second: &Later, third: &Later) {
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
        follows(plane, third) && third.count() == "5"
    });
}

/// A group is made, switched over, bereaved, joined again and grown by a server that has to be filled.
pub fn a_life_of_a_group(release: Release, version: &'static str) {
    let (Some(mut first), Some(second), Some(third)) = (
        Later::start(release, version),
        Later::start(release, version),
        Later::start(release, version),
    ) else {
        return;
    };
    let greeted = first.client().version.clone();
    assert_eq!(greeted.trim_start_matches("5.5.5-"), version);
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

    plane.promote("g", &second.address());
    wait_until(PATIENCE, "the second leads", || leads(&plane, &second));
    second.client().run("INSERT INTO d.t VALUES (2)");
    wait_until(PATIENCE, "the old primary follows", || {
        follows(&plane, &first) && first.count() == "2"
    });
    plane.promote("g", &first.address());
    wait_until(PATIENCE, "the second follows again", || {
        follows(&plane, &second)
    });
    first.client().run("INSERT INTO d.t VALUES (3)");
    wait_until(PATIENCE, "the row on the second", || {
        second.count() == "3" && follows(&plane, &second)
    });

    wait_until_settled(&second.server);
    first.server.kill();
    wait_until(PATIENCE, "another primary", || leads(&plane, &second));
    first.server.restart();
    wait_until(PATIENCE, "the dead one is back", || follows(&plane, &first));
    second.client().run("INSERT INTO d.t VALUES (4)");
    wait_until(PATIENCE, "the row on the other one", || {
        first.count() == "4"
    });

    a_third_is_filled(&plane, &second, &third);
    let health = plane.rows(&["group", "health", "g"]);
    for row in health.as_array().expect("rows") {
        assert_eq!(row["version"], version);
    }
    for later in [&first, &second, &third] {
        assert_eq!(later.disguise.refused(), Vec::<String>::new(), "{version}");
    }
}
