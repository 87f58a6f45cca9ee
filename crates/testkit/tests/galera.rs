//! A group of the kind galera on a real cluster of three nodes.

use std::time::Duration;

use testkit::{Client, Release, Server, cluster::Cluster, router::Router, wait_until};

/// The survivors of a killed node need seconds to agree that it is gone; a restarted one to join.
const PATIENCE: Duration = Duration::from_secs(60);

fn serving(router: &Router, at: usize, cluster: &Cluster) -> bool {
    let rows = |words: &[&str]| -> Vec<serde_json::Value> {
        let said = router.run(&[words, &["--json"]].concat());
        serde_json::from_str(&said).expect("--json gives an array")
    };
    let address = cluster.address(at).to_string();
    let servers = rows(&["group", "lookup_servers", "g"]);
    let server = servers.iter().find(|row| row["address"] == *address);
    let uuid = &server.expect("the group has it")["server_uuid"];
    let health = rows(&["group", "health", "g"]);
    health
        .iter()
        .any(|row| row["uuid"] == *uuid && row["is_alive"] == true)
}

/// Where a session's statement runs.
fn port(client: &mut Client, hint: &str) -> String {
    client.value(&format!("{hint} SELECT @@port"))
}

#[test]
fn a_cluster_is_served_and_survives_its_nodes() {
    let Some(mut cluster) = Cluster::start(3) else {
        return;
    };
    let router = Router::start("probe_interval_ms = 50\n");
    router.run(&["group", "create", "g", "--kind=galera"]);
    if let Some(plain) = Server::start(Release::Installed) {
        let said = router.error(&["group", "add", "g", &plain.address().to_string()]);
        assert!(said.contains("is no Galera node"), "{said}");
    }
    for at in 0..3 {
        if at == 2 {
            let said = router.run(&["doctor", "g", "--json"]);
            assert!(said.contains("galera_majority"), "{said}");
        }
        router.run(&["group", "add", "g", &cluster.address(at).to_string()]);
    }
    router.run(&["group", "activate", "g"]);
    wait_until(PATIENCE, "three nodes", || {
        (0..3).all(|at| serving(&router, at, &cluster))
    });

    let mut client = router.client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (id INT PRIMARY KEY, at TEXT)");
    // What was written on one node is there on the others at once.
    for id in 0..200 {
        client.run(&format!("INSERT INTO d.t VALUES ({id}, @@port)"));
        let there = client.value(&format!("SELECT COUNT(*) FROM d.t WHERE id = {id}"));
        assert_eq!(there, "1", "row {id}");
    }
    let writers = client.rows("SELECT DISTINCT at FROM d.t");
    assert_eq!(writers.len(), 1, "one node takes the writes: {writers:?}");
    let first = cluster.address(0).port().to_string();
    assert_eq!(port(&mut client, "/*ms=master*/"), first);

    cluster.kill(0);
    // The same session goes on: what was in flight may fail, what comes after must not.
    wait_until(PATIENCE, "writes on another node", || {
        client
            .query("REPLACE INTO d.t VALUES (1000, @@port)")
            .is_ok()
    });
    let second = client.value("/*ms=master*/ SELECT at FROM d.t WHERE id = 1000");
    assert_ne!(second, first);
    assert_eq!(client.value("SELECT COUNT(*) FROM d.t"), "201");

    cluster.restart(0);
    wait_until(PATIENCE, "the node is back", || {
        serving(&router, 0, &cluster)
    });
    client.run("INSERT INTO d.t VALUES (1001, @@port)");
    for at in 0..3 {
        let mut node = cluster.client(at);
        wait_until(PATIENCE, "equal nodes", || {
            node.value("SELECT COUNT(*) FROM d.t") == "202"
        });
    }

    // The last one does not see the majority: it serves nobody, and says why.
    cluster.kill(0);
    cluster.kill(2);
    wait_until(PATIENCE, "the last node says that it is alone", || {
        !serving(&router, 1, &cluster)
    });
    let events = router.run(&["group", "events", "g"]);
    assert!(events.contains("majority"), "{events}");
    assert!(client.query("CREATE TABLE d.u (a INT)").is_err());
}
