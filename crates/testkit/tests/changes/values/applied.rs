//! UUID, INET4 and INET6 replicate into another MariaDB: from a snapshot, by changes, and as keys.

use testkit::server::Server;
use testkit::{Client, Farm, Release, wait_until};

use crate::apply::{said, start};
use crate::reading::SOON;

const UUIDS: [&str; 4] = [
    "c232ab00-9414-11ec-b3c8-9e6bdeced846",
    "919108f7-52d1-4320-9bac-f847db4148a8",
    "017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
    "ffffffff-ffff-4fff-bfff-ffffffffff00",
];

/// The rows; `None` while a table is missing.
fn all(client: &mut Client) -> Option<Vec<Vec<Option<String>>>> {
    let mut all = Vec::new();
    for sql in [
        "SELECT id, u, a, b FROM d.t ORDER BY id",
        "SELECT u, n FROM d.keyed ORDER BY n, u",
    ] {
        client.query(sql).ok()?;
        all.extend(client.rows(sql));
    }
    Some(all)
}

fn addresses_are_applied(release: Release) {
    let Some(farm) = Farm::start_on(release, &["--replicas", "0"]) else {
        return;
    };
    let target = Server::start(release).expect("another one started");
    let (mut direct, mut other) = (farm.member("g1-1").client(), target.client());
    direct.run("CREATE DATABASE d");
    direct.run("CREATE TABLE d.t (id INT PRIMARY KEY, u UUID, a INET6, b INET4)");
    for (id, uuid) in UUIDS.iter().enumerate() {
        direct.run(&format!(
            "INSERT INTO d.t VALUES ({id}, '{uuid}', '2001:db8::{id}', '10.0.{id}.0')"
        ));
    }
    let mut applier = start(&farm, &target, &["--snapshot"]);
    wait_until(SOON, "the snapshot", || {
        let count = "SELECT COUNT(*) FROM d.t";
        other.query(count).is_ok() && other.value(count) == "4"
    });
    direct.run("CREATE TABLE d.keyed (u UUID PRIMARY KEY, n INT)");
    for uuid in UUIDS {
        direct.run(&format!("INSERT INTO d.keyed VALUES ('{uuid}', 0)"));
    }
    direct.run(&format!(
        "UPDATE d.keyed SET n = 1 WHERE u = '{}'",
        UUIDS[0]
    ));
    direct.run(&format!("DELETE FROM d.keyed WHERE u = '{}'", UUIDS[1]));
    direct.run(&format!(
        "UPDATE d.t SET u = '{}', a = '::1', b = NULL WHERE id = 0",
        UUIDS[3]
    ));
    direct.run("DELETE FROM d.t WHERE id = 2");
    let expected = all(&mut direct);
    wait_until(SOON, "the changes", || {
        let over = applier.try_wait().expect("it was started");
        assert!(over.is_none(), "{}", said(&farm));
        all(&mut other) == expected
    });
    assert!(!said(&farm).contains("conflict"), "{}", said(&farm));
    applier.kill().expect("it runs");
    applier.wait().expect("it ends");
}

#[test]
fn addresses_are_applied_on_mariadb_10_11() {
    addresses_are_applied(Release::Installed);
}

#[test]
fn addresses_are_applied_on_mariadb_11_4() {
    addresses_are_applied(Release::MariaDb114);
}
