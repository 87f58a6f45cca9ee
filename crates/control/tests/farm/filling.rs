//! Servers that are filled by MySQL's clone plugin, on real servers that nobody supervises.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::plane::{PATIENCE, Plane, farm_of, servers_of};
use serde_json::Value;
use testkit::{Release, Server, wait_until};

/// Slow enough that something can happen in the middle.
const SLOW_MIB_PER_S: u64 = 20;

fn address(server: &Server) -> String {
    server.address().to_string()
}

fn start() -> Option<Server> {
    Server::start_with(Release::MySqlNewer, &[("read_only", "ON")])
}

/// About 70 MB.
fn fill(server: &Server) {
    let mut client = server.client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(2000))");
    client.run("INSERT INTO d.t (v) VALUES (REPEAT('x', 1000))");
    for _ in 0..16 {
        client.run("INSERT INTO d.t (v) SELECT v FROM d.t");
    }
    client.run("CREATE USER app@'%' IDENTIFIED BY 'secret'");
}

fn checksum(server: &Server) -> String {
    format!("{:?}", server.client().rows("CHECKSUM TABLE d.t"))
}

/// Begins a job; gives its id.
fn begin(plane: &Plane, words: &[&str]) -> String {
    let begun = plane.rows(&[words, &["--synchronous=false"]].concat());
    begun[0]["uuid"].as_str().expect("an id").to_owned()
}

fn job(plane: &Plane, id: &str) -> Value {
    plane.rows(&["job", "show", id])[0].clone()
}

/// Bytes arrive.
#[track_caller]
fn wait_half_way(plane: &Plane, id: &str) {
    wait_until(PATIENCE, "a clone under way", || {
        let job = job(plane, id);
        assert_eq!(job["state"], "running", "{job}");
        job["method"] == "clone" && job["bytes"].as_u64().is_some_and(|bytes| bytes > 1_000_000)
    });
}

/// The recipient ends behind its clone; somebody starts it.
#[track_caller]
fn start_behind_clone(plane: &Plane, id: &str, recipient: &mut Server) {
    wait_until(PATIENCE * 2, "the end of the cloned server", || {
        let job = job(plane, id);
        assert_eq!(job["state"], "running", "{job}");
        let waits = job["step"]
            .as_str()
            .is_some_and(|step| step.contains("3707"));
        waits && !recipient.is_running()
    });
    recipient.restart();
    wait_until(PATIENCE, "the end of the job", || {
        let job = job(plane, id);
        assert_ne!(job["state"], "failed", "{job}");
        job["state"] == "done"
    });
}

/// Nothing of a clone stays but the plugin.
fn nothing_left(server: &Server) {
    let accounts = "SELECT User FROM mysql.user WHERE User LIKE 'heddle\\_clone%'";
    let left = server.client().rows(accounts);
    assert!(left.is_empty(), "{}: {left:?}", server.address());
    let marks = "SHOW DATABASES LIKE 'heddle_unfinished%'";
    assert!(server.client().rows(marks).is_empty());
}

fn details(plane: &Plane, kind: &str) -> Vec<String> {
    let events = plane.control.events();
    let of_kind = events.iter().filter(|event| event.kind == kind);
    of_kind.map(|event| event.detail.clone()).collect()
}

fn slow(dir: &std::path::Path, servers: &[Server]) -> Plane {
    let plane = Plane::start_with(dir, |settings| {
        settings.provision.clone_mib_per_s_max = SLOW_MIB_PER_S;
    });
    plane.rows(&["group", "create", "g"]);
    for server in servers {
        plane.rows(&["group", "add", "g", &address(server)]);
    }
    plane
}

/// Writes until it is told to stop.
fn writer(server: &Server) -> (Arc<AtomicBool>, JoinHandle<u64>) {
    let stop = Arc::new(AtomicBool::new(false));
    let (mut client, stops) = (server.client(), Arc::clone(&stop));
    let thread = std::thread::spawn(move || {
        let mut written = 0;
        while !stops.load(Ordering::Relaxed) {
            client.run("INSERT INTO d.t (v) VALUES ('while it is cloned')");
            written += 1;
        }
        written
    });
    (stop, thread)
}

#[test]
fn a_server_joins_by_a_clone_while_clients_write() {
    let Some(first) = servers_of::<1>(Release::MySqlNewer) else {
        return;
    };
    let (Some(mut second), Some(mut third)) = (start(), start()) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = farm_of(dir.path(), &first);
    let [first] = &first;
    fill(first);
    let (stop, thread) = writer(first);
    // A prepared branch travels with the files; its end comes by replication.
    let mut owner = first.client();
    for sql in ["XA START 'b'", "INSERT INTO d.t (v) VALUES ('branch')"] {
        owner.run(sql);
    }
    owner.run("XA END 'b'");
    owner.run("XA PREPARE 'b'");
    let id = begin(
        &plane,
        &["group", "add", "g", &address(&second), "--method=clone"],
    );
    start_behind_clone(&plane, &id, &mut second);
    plane.wait_replica_again(&second);

    // The next one gets it from the replica, which is closed for everybody.
    let id = begin(
        &plane,
        &["group", "add", "g", &address(&third), "--method=clone"],
    );
    start_behind_clone(&plane, &id, &mut third);
    let job = job(&plane, &id);
    assert_eq!(job["source"], address(&second), "{job}");
    assert_eq!(job["method"], "clone");
    let (bytes, total) = (job["bytes"].as_u64(), job["bytes_total"].as_u64());
    assert!(
        bytes > Some(60_000_000) && total > Some(60_000_000),
        "{job}"
    );
    assert!(job["bytes_per_s"].as_u64() > Some(0), "{job}");
    assert_eq!(
        second.client().value("SELECT @@global.super_read_only"),
        "1"
    );
    assert_eq!(third.client().rows("XA RECOVER").len(), 1);
    owner.run("XA COMMIT 'b'");
    stop.store(true, Ordering::Relaxed);
    assert!(thread.join().expect("it ends") > 0);
    for replica in [&second, &third] {
        wait_until(PATIENCE, "equal rows", || {
            checksum(replica) == checksum(first)
        });
        nothing_left(replica);
    }
    nothing_left(first);
    let gtids = |server: &Server| server.client().value("SELECT @@global.gtid_executed");
    wait_until(PATIENCE, "equal positions", || {
        gtids(&third) == gtids(first) && gtids(&second) == gtids(first)
    });
    let chosen = details(&plane, "clone_method");
    assert!(
        chosen.len() == 2 && !chosen[0].contains("not faster"),
        "{chosen:?}"
    );
    let done = details(&plane, "clone_done");
    assert!(done[0].contains("by the clone plugin") && done[0].contains("MB/s"));
    assert!(third.client().rows("SHOW GRANTS FOR app@'%'").len() == 1);
}

#[test]
fn a_recipient_that_dies_half_way_is_cloned_again() {
    let Some(first) = servers_of::<1>(Release::MySqlNewer) else {
        return;
    };
    let Some(mut second) = start() else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = slow(dir.path(), &first);
    let [first] = &first;
    fill(first);
    let id = begin(
        &plane,
        &["group", "add", "g", &address(&second), "--method=clone"],
    );
    wait_half_way(&plane, &id);
    second.kill();
    second.restart();
    wait_until(PATIENCE, "the second attempt", || {
        !details(&plane, "clone_repeated").is_empty()
    });
    let why = details(&plane, "clone_repeated");
    assert!(why[0].contains("died while it cloned"), "{why:?}");
    start_behind_clone(&plane, &id, &mut second);
    wait_until(PATIENCE, "equal rows", || {
        checksum(&second) == checksum(first)
    });
    let job = job(&plane, &id);
    let rate = job["bytes_per_s"].as_u64().expect("a rate");
    assert!(
        rate < (SLOW_MIB_PER_S << 20) * 3 / 2,
        "it is throttled: {job}"
    );
    nothing_left(first);
    nothing_left(&second);
}

#[test]
fn a_donor_that_dies_half_way_is_replaced() {
    let Some(mut servers) = servers_of::<2>(Release::MySqlNewer) else {
        return;
    };
    let Some(mut third) = start() else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = slow(dir.path(), &servers);
    fill(&servers[0]);
    wait_until(PATIENCE, "equal rows", || {
        servers[1].client().rows("SHOW DATABASES LIKE 'd'").len() == 1
            && checksum(&servers[1]) == checksum(&servers[0])
    });
    let id = begin(
        &plane,
        &["group", "add", "g", &address(&third), "--method=clone"],
    );
    wait_half_way(&plane, &id);
    assert_eq!(job(&plane, &id)["source"], address(&servers[1]));
    servers[1].kill();
    servers[1].restart();
    wait_until(PATIENCE, "the second attempt", || {
        !details(&plane, "clone_repeated").is_empty()
    });
    start_behind_clone(&plane, &id, &mut third);
    wait_until(PATIENCE, "equal rows", || {
        checksum(&third) == checksum(&servers[0])
    });
    nothing_left(&third);
}

#[test]
fn an_aborted_clone_leaves_an_empty_server() {
    let Some(first) = servers_of::<1>(Release::MySqlNewer) else {
        return;
    };
    let Some(mut second) = start() else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = slow(dir.path(), &first);
    let [first] = &first;
    fill(first);
    let words = ["group", "add", "g", &address(&second), "--method=clone"];
    let id = begin(&plane, &words);
    wait_half_way(&plane, &id);
    plane.rows(&["job", "abort", &id]);
    assert_eq!(job(&plane, &id)["state"], "aborted");
    let mut client = second.client();
    assert_eq!(client.rows("SHOW DATABASES LIKE 'd'").len(), 0);
    assert_eq!(client.value("SELECT @@global.gtid_executed"), "");
    nothing_left(first);
    nothing_left(&second);
    let id = begin(&plane, &words);
    start_behind_clone(&plane, &id, &mut second);
    wait_until(PATIENCE, "equal rows", || {
        checksum(&second) == checksum(first)
    });
}

#[test]
fn what_cannot_be_cloned_is_copied_or_refused() {
    let Some(first) = servers_of::<1>(Release::MySqlNewer) else {
        return;
    };
    let Some(second) = start() else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = farm_of(dir.path(), &first);
    let mut client = first[0].client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (id INT PRIMARY KEY) ENGINE=MyISAM");
    client.run("INSERT INTO d.t VALUES (1), (2)");
    let refused = |method: &str, words: &str| {
        let error = plane.error(&["group", "add", "g", &address(&second), method]);
        assert!(error.contains(words), "{method}: {error}");
    };
    refused("--method=rsync", "clone, backup or copy");
    refused("--method=backup", "is for the other engine");
    refused("--method=clone", "1 tables of other engines than InnoDB");
    assert_eq!(second.client().rows("SHOW DATABASES LIKE 'd'").len(), 0);

    plane.rows(&["group", "add", "g", &address(&second)]);
    assert_eq!(checksum(&second), checksum(&first[0]));
    let chosen = details(&plane, "clone_method");
    let last = chosen.last().expect("an event");
    assert!(
        last.contains("by a copy over SQL; not faster: ") && last.contains("InnoDB"),
        "{last}"
    );
    let jobs = plane.rows(&["job", "list"]);
    let jobs = jobs.as_array().expect("a list");
    assert_eq!(jobs.last().expect("a job")["method"], "copy");

    // Nothing else speaks against the plugin, but nobody would start the server again.
    first[0].client().run("ALTER TABLE d.t ENGINE=InnoDB");
    let Some(third) = start() else { return };
    plane.rows(&["group", "add", "g", &address(&third)]);
    let chosen = details(&plane, "clone_method");
    let last = chosen.last().expect("an event");
    assert!(
        last.contains("not faster") && last.contains("--method=clone"),
        "{last}"
    );
}

#[test]
fn mariadb_that_this_router_did_not_start_is_copied() {
    let Some(first) = servers_of::<1>(Release::Installed) else {
        return;
    };
    let second = Server::start_with(Release::Installed, &[("read_only", "ON")]);
    let second = second.expect("a server");
    let dir = tempfile::tempdir().expect("a directory");
    let plane = farm_of(dir.path(), &first);
    first[0].client().run("CREATE DATABASE d");
    first[0]
        .client()
        .run("CREATE TABLE d.t (id INT PRIMARY KEY)");
    let error = plane.error(&["server", "clone", "g", &address(&second), "--method=backup"]);
    assert!(error.contains("did not start the servers"), "{error}");
    plane.rows(&["server", "clone", "g", &address(&second)]);
    let chosen = details(&plane, "clone_method");
    let last = chosen.last().expect("an event");
    assert!(last.contains("not faster: this router did not"), "{last}");
}
