//! The control plane with real servers: joining, watching, changing, restoring.

use crate::plane::{PATIENCE, Plane, farm_of, servers_of};
use farm::{Engine, Status};
use serde_json::json;
use testkit::{Release, Server, wait_until};

fn value(server: &Server, sql: &str) -> String {
    server.client().value(sql)
}

/// What the server says of its side of semi-sync as a primary, by a variable's last word; `None` where it
/// has none: MySQL 8.0.12 comes without the plugins.
fn semi_sync(server: &Server, last: &str) -> Option<String> {
    let list = "SHOW GLOBAL VARIABLES LIKE 'rpl\\_semi\\_sync\\_%'";
    let mut rows = server.client().rows(list).into_iter();
    let row = rows.find(|row| {
        let name = row[0].as_deref().unwrap_or_default();
        name.ends_with(last) && (name.contains("_master_") || name.contains("_source_"))
    });
    row.and_then(|row| row[1].clone())
}

/// Commits of this server wait for a replica, or do not.
#[track_caller]
fn waits_for_replicas(server: &Server, waits: bool) {
    if let Some(value) = semi_sync(server, "_enabled") {
        assert_eq!(value, if waits { "ON" } else { "OFF" });
    }
}

fn three_servers_become_a_group(release: Release) {
    let Some(servers) = servers_of::<3>(release) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = farm_of(dir.path(), &servers);
    let [a, b, _] = &servers;
    let address = |server: &Server| server.address().to_string();

    // Everything is known at once, without waiting for a probe.
    let snapshot = plane.published.load();
    let group = snapshot.group("g").expect("the group");
    assert!(snapshot.writable());
    assert!(group.servers.iter().all(|server| server.serves_reads()));
    assert_eq!(group.primary().expect("a primary").address(), address(a));

    let rows = plane.rows(&["group", "lookup_servers", "g"]);
    assert_eq!(rows.as_array().map(Vec::len), Some(3));
    let first = &rows[0];
    assert_eq!(first["address"], address(a));
    assert_eq!(first["status"], "PRIMARY");
    assert_eq!(
        (&first["mode"], &first["weight"]),
        (&json!("READ_WRITE"), &json!(1.0))
    );
    let secondary = plane.rows(&["group", "lookup_servers", "g", "--status=secondary"]);
    assert_eq!(secondary.as_array().map(Vec::len), Some(2));
    for health in plane
        .rows(&["group", "health", "g"])
        .as_array()
        .expect("rows")
    {
        assert_eq!(
            (&health["is_alive"], &health["io_not_running"]),
            (&json!(true), &json!(false))
        );
    }

    replicates_and_admits(&plane, &servers);

    // Adding twice changes nothing; the farm outlives the router.
    let again = plane.rows(&["group", "add", "g", &address(b)]);
    assert_eq!(again[0]["result"], rows[1]["server_uuid"]);
    let farm_id = plane.published.load().farm_id.clone();
    drop(plane);
    let plane = Plane::start(dir.path());
    assert_eq!(plane.published.load().farm_id, farm_id);
    assert_eq!(plane.rows(&["group", "lookup_servers", "g"]), rows);
    plane.wait_server("is alive again", a, |server| server.serves_writes());
}

/// Writes wait for a replica and arrive on both; the accounts are the primary's.
fn replicates_and_admits(plane: &Plane, [a, b, c]: &[Server; 3]) {
    waits_for_replicas(a, true);
    if let Some(point) = semi_sync(a, "_wait_point") {
        assert_eq!(point, "AFTER_SYNC");
    }
    assert_eq!(value(b, "SELECT @@read_only"), "1");
    a.client().run("CREATE DATABASE d");
    for replica in [b, c] {
        wait_until(PATIENCE, "the database on a replica", || {
            replica.client().rows("SHOW DATABASES LIKE 'd'").len() == 1
        });
    }

    a.client().run("CREATE USER app@'%' IDENTIFIED BY 'secret'");
    wait_until(PATIENCE, "the new account", || {
        let accounts = plane.published.load().accounts.clone();
        accounts
            .find("app", [10, 0, 0, 1].into())
            .is_some_and(|account| !account.admin)
    });
}

fn who_dies_and_comes_back_is_told(release: Release) {
    let Some(mut servers) = servers_of::<2>(release) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = farm_of(dir.path(), &servers);
    let epoch = plane.published.load().epoch;

    servers[1].kill();
    plane.wait_server("is dead", &servers[1], |server| !server.health.alive);
    let rows = plane.rows(&["group", "health", "g"]);
    assert_eq!(rows[1]["is_alive"], false);
    assert_eq!(rows[1]["status"], "SECONDARY");
    assert!(plane.published.load().epoch > epoch);
    plane.wait_event("server_died");

    servers[1].restart();
    plane.wait_server("replicates again", &servers[1], |server| {
        server.health.alive && server.health.io_running == Some(true)
    });
    plane.wait_event("server_alive");

    // A quiet farm publishes nothing, however often it is probed.
    let quiet = plane.published.load().epoch;
    let probes = plane.control.counters().probes;
    wait_until(PATIENCE, "twenty more probes", || {
        plane.control.counters().probes >= probes + 20
    });
    assert_eq!(plane.published.load().epoch, quiet);
}

fn a_primary_that_restarted_takes_writes_when_told(release: Release) {
    let Some(mut servers) = servers_of::<2>(release) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = farm_of(dir.path(), &servers);
    servers[0].client().run("CREATE DATABASE d");
    servers[0].kill();
    plane.wait_server("is dead", &servers[0], |server| !server.health.alive);
    servers[0].restart();
    plane.wait_server("is read-only", &servers[0], |server| {
        server.health.alive && server.health.read_only
    });
    // Nobody acts by himself on a group that is not active.
    assert_eq!(value(&servers[0], "SELECT @@read_only"), "1");

    plane.rows(&["group", "activate", "g"]);
    plane.wait_server("takes writes", &servers[0], |server| {
        server.status == Status::Primary && !server.health.read_only
    });
    waits_for_replicas(&servers[0], true);
    servers[0].client().run("CREATE DATABASE e");
    wait_until(PATIENCE, "the database on the replica", || {
        servers[1].client().rows("SHOW DATABASES LIKE 'e'").len() == 1
    });
    plane.wait_event("primary_restored");
}

fn a_group_is_restored_only_when_everybody_was_heard(release: Release) {
    let Some(mut servers) = servers_of::<3>(release) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = farm_of(dir.path(), &servers);
    servers[2].kill();
    // A primary that writes needs nobody else.
    let restored = restore(&plane).expect("it takes writes");
    let rows = plane.rows(&["group", "lookup_servers", "g"]);
    assert_eq!(rows[0]["server_uuid"], restored);

    servers[0].client().run("SET GLOBAL read_only=1");
    let error = restore(&plane).expect_err("a replica was not heard");
    assert!(
        error.contains("may hold commits that the others lack"),
        "{error}"
    );
    let gone = servers[2].address().to_string();
    assert!(
        error.contains(&format!("`server set_status {gone} FAULTY`")),
        "{error}"
    );
    plane.rows(&["server", "set_status", &gone, "FAULTY"]);
    assert_eq!(restore(&plane), Ok(restored));
    assert_eq!(value(&servers[0], "SELECT @@read_only"), "0");

    // Two that write are an operator's matter.
    servers[1].client().run("SET GLOBAL read_only=0");
    let error = restore(&plane).expect_err("two write");
    assert!(
        error.contains("SET GLOBAL read_only=1 on the others"),
        "{error}"
    );
}

/// `Control::restore_primary`, as the program calls it at its start.
fn restore(plane: &Plane) -> Result<String, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let restored = runtime.block_on(plane.control.restore_primary("g"));
    restored.map_err(|error| error.to_string())
}

/// Runs a statement on a replica that has all up to here, as if it had come from its primary.
fn plant(replica: &Server, position: &str, sql: &str) {
    let mut client = replica.client();
    if replica.engine() == Engine::MySql {
        // Not even root writes there, and the next transaction of MySQL has the name of its server.
        let (uuid, last) = position.rsplit_once([':', '-']).expect("a set");
        let uuid = uuid.split(':').next().expect("a server");
        let next = last.parse::<u64>().expect("a number") + 1;
        client.run("SET GLOBAL super_read_only = OFF");
        client.run(&format!("SET SESSION gtid_next = '{uuid}:{next}'"));
        client.run(sql);
        client.run("SET SESSION gtid_next = AUTOMATIC");
        client.run("SET GLOBAL super_read_only = ON");
        return;
    }
    client.run(sql);
}

fn a_replica_that_holds_more_becomes_the_primary(release: Release) {
    let Some(mut servers) = servers_of::<3>(release) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = farm_of(dir.path(), &servers);
    let [a, b, c] = &mut servers;
    a.client().run("CREATE DATABASE d");
    a.client().run("CREATE TABLE d.t (a INT PRIMARY KEY)");
    wait_until(PATIENCE, "the table on both replicas", || {
        let sql = "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'd'";
        [&*b, &*c].iter().all(|server| value(server, sql) == "1")
    });
    // As if `a` had crashed after `b` received a row and undone it at its start. The control plane
    // writes its heartbeats to `a`: they stop, so that `b` has all of them and the row comes behind.
    let mut still = a.client();
    still.run("FLUSH TABLES WITH READ LOCK");
    let (wrote, has) = match a.engine() {
        Engine::MariaDb => ("SELECT @@gtid_binlog_pos", "SELECT @@gtid_slave_pos"),
        Engine::MySql => ["SELECT @@global.gtid_executed"; 2].into(),
    };
    let position = still.value(wrote);
    wait_until(PATIENCE, "all of it on the replica", || {
        value(b, has) == position
    });
    b.client().run("STOP SLAVE IO_THREAD");
    plant(b, &position, "INSERT INTO d.t VALUES (1)");
    a.kill();
    a.restart();
    a.client().run("SET GLOBAL read_only=1");

    plane.rows(&["group", "activate", "g"]);
    plane.wait_server("leads", b, |server| {
        server.serves_writes() && !server.health.read_only
    });
    for follower in [&*a, &*c] {
        wait_until(PATIENCE, "the row everywhere", || {
            value(follower, "SELECT COUNT(*) FROM d.t") == "1"
        });
        assert_eq!(value(follower, "SELECT @@read_only"), "1");
    }
    plane.wait_server("follows", a, |server| server.status == Status::Replica);
    b.client().run("INSERT INTO d.t VALUES (2)");
    wait_until(PATIENCE, "the next row on the former primary", || {
        value(a, "SELECT COUNT(*) FROM d.t") == "2"
    });
    let groups = plane.rows(&["group", "lookup_groups"]);
    assert_eq!(
        groups[0]["master_uuid"],
        plane.rows(&["group", "lookup_servers", "g"])[1]["server_uuid"]
    );
    plane.wait_event("primary_changed");
}

fn servers_that_do_not_fit_are_refused(release: Release) {
    let Some([a, b]) = servers_of::<2>(release) else {
        return;
    };
    let Some(unlogged) = Server::start_with(release, &[("skip_log_bin", "")]) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = farm_of(dir.path(), std::slice::from_ref(&a));
    plane.rows(&["group", "create", "h"]);
    let port = a.address().port();

    let error = plane.error(&["group", "add", "h", &a.address().to_string()]);
    assert!(error.contains("is in group g already"), "{error}");
    let error = plane.error(&["group", "add", "g", &format!("localhost:{port}")]);
    let same = match a.engine() {
        Engine::MariaDb => "is it the same server?",
        Engine::MySql => "if it is a copy of that server, remove auto.cnf",
    };
    assert!(error.contains(same), "{error}");
    let error = plane.error(&["group", "add", "g", "127.0.0.1:1"]);
    assert!(
        error.contains("start the server, or correct the address"),
        "{error}"
    );
    let error = plane.error(&["group", "add", "g", &unlogged.address().to_string()]);
    assert!(
        error.contains("set log_bin = ON in its configuration and restart it"),
        "{error}"
    );
    let error = plane.error(&["group", "add", "none", "127.0.0.1:1"]);
    assert!(error.contains("there is no group none"), "{error}");

    b.client().run("CREATE DATABASE own");
    b.client().run("CREATE TABLE own.t (a INT)");
    let error = plane.error(&["group", "add", "g", &b.address().to_string()]);
    assert!(
        error.contains("which the primary") && error.contains("server clone g"),
        "{error}"
    );
    assert_eq!(
        plane
            .rows(&["group", "lookup_servers", "g"])
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    assert!(
        b.client().rows("SHOW SLAVE STATUS").is_empty(),
        "it was left alone"
    );
}

fn standing_mode_and_weight_are_changed(release: Release) {
    let Some(servers) = servers_of::<3>(release) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = farm_of(dir.path(), &servers);
    let b = &servers[1];
    let replica = b.address().to_string();

    plane.rows(&["server", "set_weight", &replica, "2.5"]);
    plane.rows(&["server", "set_mode", &replica, "offline"]);
    plane.wait_server("is offline", b, |server| {
        server.weight == 2.5 && !server.serves_reads()
    });
    assert!(
        plane
            .error(&["server", "set_weight", &replica, "0"])
            .contains("above 0")
    );
    assert!(
        plane
            .error(&["server", "set_weight", &replica, "NaN"])
            .contains("above 0")
    );
    let error = plane.error(&["server", "set_mode", &replica, "READ_WRITE"]);
    assert!(
        error.contains("can only be OFFLINE or READ_ONLY"),
        "{error}"
    );

    faulty_and_back(&plane, &servers);
    out_of_the_group(&plane, &servers);
}

/// A faulty server counts no more: commits wait only for the last replica, then for none. Back it
/// comes as a spare that follows again, then as a replica.
fn faulty_and_back(plane: &Plane, [a, b, c]: &[Server; 3]) {
    let (primary, replica) = (a.address().to_string(), b.address().to_string());
    plane.rows(&["server", "set_status", &replica, "FAULTY"]);
    assert_eq!(
        plane.rows(&["dump", "servers"]).as_array().map(Vec::len),
        Some(2)
    );
    plane.rows(&["server", "set_status", &c.address().to_string(), "FAULTY"]);
    waits_for_replicas(a, false);

    b.client().run("STOP SLAVE");
    a.client().run("CREATE DATABASE later");
    assert!(
        plane
            .error(&["server", "set_status", &replica, "SECONDARY"])
            .contains("SPARE first")
    );
    plane.rows(&["server", "set_status", &replica, "SPARE"]);
    wait_until(PATIENCE, "the database on the spare", || {
        b.client().rows("SHOW DATABASES LIKE 'later'").len() == 1
    });
    waits_for_replicas(a, true);
    plane.rows(&["server", "set_status", &replica, "SECONDARY"]);
    assert!(
        plane
            .error(&["server", "set_status", &primary, "SPARE"])
            .contains("is the primary")
    );
}

/// The replicas leave first, the primary last.
fn out_of_the_group(plane: &Plane, [a, b, c]: &[Server; 3]) {
    let primary = a.address().to_string();
    assert!(
        plane
            .error(&["group", "destroy", "g"])
            .contains("has 3 servers")
    );
    let error = plane.error(&["group", "remove", "g", &primary]);
    assert!(error.contains("leave as the last server"), "{error}");
    for server in [b, c] {
        plane.rows(&["group", "remove", "g", &server.address().to_string()]);
        assert!(
            server.client().rows("SHOW SLAVE STATUS").is_empty(),
            "it follows nobody"
        );
    }
    plane.rows(&["group", "remove", "g", &primary]);
    plane.rows(&["group", "destroy", "g"]);
    assert!(plane.published.load().groups.is_empty());
}

#[test]
fn calls_after_the_end_are_answered() {
    let dir = tempfile::tempdir().expect("a directory");
    let plane = Plane::start(dir.path());
    let ping = plane.rows(&["manage", "ping"]);
    assert_eq!(ping[0]["farm_id"].as_str().map(str::len), Some(36));
    let commander = plane.control.commander();
    drop(plane);
    let (send, receive) = std::sync::mpsc::channel();
    commander.submit(
        catalog::Call::new("manage", "ping", &[]),
        Box::new(move |answer| {
            let _ = send.send(answer);
        }),
    );
    let answer = receive.recv_timeout(PATIENCE).expect("an answer");
    assert!(
        answer
            .expect_err("it ended")
            .to_string()
            .contains("shutting down")
    );
}

testkit::on_both_engines! {
    three_servers_become_a_group,
    who_dies_and_comes_back_is_told,
    a_primary_that_restarted_takes_writes_when_told,
    a_group_is_restored_only_when_everybody_was_heard,
    a_replica_that_holds_more_becomes_the_primary,
    servers_that_do_not_fit_are_refused,
    standing_mode_and_weight_are_changed,
}
