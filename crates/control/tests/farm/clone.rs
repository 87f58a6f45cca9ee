//! `server clone` and `group add` of servers that have to be filled first, on real servers.

use crate::plane::{PATIENCE, farm_of, servers};
use testkit::{Release, Server, wait_until};

fn address(server: &Server) -> String {
    server.address().to_string()
}

fn start(release: Release) -> Option<Server> {
    Server::start_with(release, &[("read_only", "ON")])
}

/// Rows whose copy takes long enough to be looked at.
fn fill(server: &Server, rows: u32) {
    let mut client = server.client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(2000))");
    client.run("INSERT INTO d.t (v) VALUES (REPEAT('x', 1000)), (NULL), ('')");
    let mut there = 3;
    while there < rows {
        client.run("INSERT INTO d.t (v) SELECT v FROM d.t");
        there *= 2;
    }
    client.run("CREATE USER app@'%' IDENTIFIED BY 'secret'");
    client.run("GRANT SELECT ON d.* TO app@'%'");
}

fn checksum(server: &Server) -> String {
    format!("{:?}", server.client().rows("CHECKSUM TABLE d.t"))
}

fn an_empty_server_is_filled_and_joins(release: Release) {
    let (Some(first), Some(second), Some(third)) = (start(release), start(release), start(release))
    else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = farm_of(dir.path(), std::slice::from_ref(&first));
    fill(&first, 100);
    // What the binary logs no longer tell comes by a copy, the first time from the primary.
    let mut client = first.client();
    client.run("FLUSH BINARY LOGS");
    wait_until(PATIENCE, "purged logs", || {
        let logs = client.rows("SHOW BINARY LOGS");
        let last = logs.last().and_then(|row| row[0].clone()).expect("a log");
        client.run(&format!("PURGE BINARY LOGS TO '{last}'"));
        client.rows("SHOW BINARY LOGS").len() == 1
    });
    let added = plane.rows(&["group", "add", "g", &address(&second)]);
    assert_eq!(added[0]["finished"], true);
    let jobs = plane.rows(&["job", "list"]);
    assert_eq!(jobs[0]["state"], "done", "{jobs}");
    assert_eq!(jobs[0]["source"], address(&first));
    assert!(jobs[0]["rows"].as_u64().expect("a count") >= 100, "{jobs}");
    plane.wait_server("serves", &second, |server| server.serves_reads());
    assert_eq!(checksum(&second), checksum(&first));

    // The next one is copied from the replica, and both go on from there.
    client.run("INSERT INTO d.t (v) VALUES ('later')");
    plane.rows(&["group", "add", "g", &address(&third)]);
    let jobs = plane.rows(&["job", "list"]);
    assert_eq!(jobs[1]["source"], address(&second), "{jobs}");
    client.run("INSERT INTO d.t (v) VALUES ('last')");
    for replica in [&second, &third] {
        wait_until(PATIENCE, "equal rows", || {
            checksum(replica) == checksum(&first)
        });
    }
    let kinds = plane.event_kinds();
    assert!(kinds.contains(&"clone_started") && kinds.contains(&"clone_done"));
    // The test's servers are told to be fast, not safe.
    let events = plane.control.events();
    let advice = events.iter().find(|it| it.kind == "settings_advised");
    let cure = "SET GLOBAL sync_binlog = 1";
    assert!(
        advice.is_some_and(|it| it.detail.contains(cure)),
        "{advice:?}"
    );
}

#[test]
fn an_empty_server_is_filled_and_joins_on_mariadb() {
    an_empty_server_is_filled_and_joins(Release::Installed);
}

#[test]
fn an_empty_server_is_filled_and_joins_on_mysql() {
    an_empty_server_is_filled_and_joins(Release::MySql80);
}

#[test]
fn what_cannot_be_filled_is_refused_and_nothing_changes() {
    let Some(servers) = servers::<2>() else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = farm_of(dir.path(), &servers);
    let [primary, replica] = &servers;
    fill(primary, 10);
    let full = start(Release::Installed).expect("a server");
    full.client().run("SET GLOBAL read_only=0");
    full.client().run("CREATE DATABASE mine");
    full.client().run("CREATE TABLE mine.t (id INT)");
    let before = plane.rows(&["group", "lookup_servers", "g"]);
    let refused = |words: &[&str], reason: &str| {
        let error = plane.error(words);
        assert!(error.contains(reason), "{words:?}: {error}");
    };
    let clone = |destination: &str| ["server", "clone", "g", destination].map(str::to_owned);
    let full_address = address(&full);
    refused(
        &clone(&full_address).each_ref().map(String::as_str),
        "--force=true",
    );
    refused(&["group", "add", "g", &full_address], "2 transactions");
    refused(
        &["server", "clone", "g", &address(primary)],
        "is the primary",
    );
    refused(
        &["server", "clone", "g", &address(replica)],
        "follows its primary",
    );
    let twice = format!("--source_id={}", address(replica));
    refused(
        &["server", "clone", "g", &address(replica), &twice],
        "into itself",
    );
    refused(&["server", "clone", "x", &full_address], "no group x");
    refused(
        &["server", "clone", "g", &full_address, "--source_id=nobody"],
        "no server nobody",
    );
    let unlogged = Server::start_with(Release::Installed, &[("skip_log_bin", "")]);
    let unlogged = unlogged.expect("a server");
    refused(
        &["server", "clone", "g", &address(&unlogged)],
        "set log_bin = ON",
    );
    if let Some(other) = start(Release::MySql80) {
        refused(&["server", "clone", "g", &address(&other)], "it runs mysql");
    }
    assert_eq!(plane.rows(&["group", "lookup_servers", "g"]), before);
    assert_eq!(
        plane.rows(&["job", "list"]).as_array().map(Vec::len),
        Some(0)
    );

    // With consent it is filled, and belongs to nobody afterwards.
    let done = plane.rows(&["server", "clone", "g", &full_address, "--force=true"]);
    assert_eq!(done[0]["success"], true);
    assert_eq!(checksum(&full), checksum(primary));
    assert_eq!(full.client().rows("SHOW DATABASES LIKE 'mine'").len(), 0);
    assert_eq!(plane.rows(&["group", "lookup_servers", "g"]), before);
    plane.rows(&["group", "add", "g", &full_address]);
    primary.client().run("INSERT INTO d.t (v) VALUES ('more')");
    wait_until(PATIENCE, "equal rows", || {
        checksum(&full) == checksum(primary)
    });
}

#[test]
fn an_aborted_or_failed_copy_leaves_nothing() {
    let Some(servers) = servers::<2>() else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = farm_of(dir.path(), &servers);
    fill(&servers[0], 20_000);
    let rows = checksum(&servers[0]);
    let members = plane.rows(&["group", "lookup_servers", "g"]);
    let fresh = start(Release::Installed).expect("a server");
    // A lock on the source's table holds the copy in the middle.
    let mut lock = servers[1].client();
    lock.run("LOCK TABLES d.t WRITE");
    let words = ["group", "add", "g", &address(&fresh), "--synchronous=false"];
    let begun = plane.rows(&words);
    assert_eq!(begun[0]["finished"], false);
    let job = begun[0]["uuid"].as_str().expect("an id").to_owned();
    wait_until(PATIENCE, "the copy of d.t", || {
        let shown = plane.rows(&["job", "show", &job]);
        shown[0]["step"] == "copies d.t" && shown[0]["state"] == "running"
    });
    let again = plane.error(&words);
    assert!(again.contains(&job), "{again}");
    plane.rows(&["job", "abort", &job]);
    lock.run("UNLOCK TABLES");
    assert_eq!(plane.rows(&["job", "show", &job])[0]["state"], "aborted");
    assert!(
        plane
            .error(&["job", "abort", &job])
            .contains("aborted already")
    );
    assert_eq!(plane.rows(&["group", "lookup_servers", "g"]), members);
    assert_eq!(fresh.client().rows("SHOW DATABASES LIKE 'd'").len(), 0);
    assert_eq!(fresh.client().value("SELECT @@gtid_binlog_pos"), "");
    assert!(plane.event_kinds().contains(&"clone_aborted"));

    // A destination without room: its tablespace may not grow.
    let tight = Server::start_with(
        Release::Installed,
        &[
            ("read_only", "ON"),
            ("innodb_file_per_table", "OFF"),
            ("innodb_data_file_path", "ibdata1:12M:autoextend:max:20M"),
        ],
    );
    let tight = tight.expect("a server");
    let error = plane.error(&["group", "add", "g", &address(&tight)]);
    assert!(
        error.contains("is full") && error.contains("free space"),
        "{error}"
    );
    assert_eq!(plane.rows(&["group", "lookup_servers", "g"]), members);
    assert_eq!(checksum(&servers[0]), rows);

    // The one that was aborted can be added afterwards.
    plane.rows(&["group", "add", "g", &address(&fresh)]);
    assert_eq!(checksum(&fresh), rows);
}
