//! Servers that come back to a group, on real servers.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::plane::{PATIENCE, Plane};
use farm::Status;
use testkit::client::Reply;
use testkit::proxy::Proxy;
use testkit::{Client, Release, Server, on_both_engines, wait_until};

fn address(server: &Server) -> String {
    server.address().to_string()
}

fn status_of(plane: &Plane, server: &Server) -> String {
    let rows = plane.rows(&["group", "lookup_servers", "g"]);
    let rows = rows.as_array().expect("rows");
    let found = rows.iter().find(|row| row["address"] == address(server));
    let status = found.expect("a member")["status"].as_str();
    status.expect("text").to_owned()
}

/// Both have the same rows. A server that is just filled or restarted has no answer, and so not yet.
fn are_equal(one: &Server, other: &Server) -> bool {
    let checksum = |server: &Server| {
        let mut client = Client::connect(server.address(), "root", "").ok()?;
        match client.query("CHECKSUM TABLE d.t").ok()?.as_slice() {
            [Reply::Rows(rows)] => Some(rows.text()),
            _ => None,
        }
    };
    checksum(one).is_some_and(|rows| Some(rows) == checksum(other))
}

/// An active group of three servers with a table of some rows, or why the test is skipped.
fn group(dir: &Path, release: Release, by_clone: bool) -> Option<(Plane, [Server; 3])> {
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(Server::start_with(release, &[("read_only", "ON")])?);
    }
    let plane = Plane::start_with(dir, |settings| {
        settings.provision.rejoin_by_clone = by_clone
    });
    plane.rows(&["group", "create", "g"]);
    for server in &servers {
        plane.rows(&["group", "add", "g", &address(server)]);
    }
    plane.rows(&["group", "activate", "g"]);
    let mut client = servers[0].client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(50))");
    client.run("INSERT INTO d.t (v) VALUES ('one'), ('two'), ('three')");
    let servers: [Server; 3] = servers.try_into().ok().expect("three");
    settle(&servers);
    Some((plane, servers))
}

/// Waits until the replicas have what the primary has.
fn settle(servers: &[Server; 3]) {
    let [primary, replicas @ ..] = servers;
    for replica in replicas {
        wait_until(PATIENCE, "equal rows", || {
            let tables = "SELECT 1 FROM information_schema.TABLES WHERE TABLE_NAME='t'";
            !replica.client().rows(tables).is_empty() && are_equal(replica, primary)
        });
    }
}

/// Makes a server one that came back as somebody else: it has rows of its own and follows nobody.
fn go_astray(server: &Server) -> Client {
    let mut client = server.client();
    client.run("STOP SLAVE");
    if server.engine() == farm::Engine::MySql {
        client.run("SET GLOBAL super_read_only=0");
    }
    client.run("INSERT INTO d.t (id, v) VALUES (1001, 'errant-row-1')");
    client.run("INSERT INTO d.t (id, v) VALUES (1002, 'errant-row-2')");
    client.run("RESET SLAVE ALL");
    client
}

fn place_of(kinds: &[&str], kind: &str) -> usize {
    let place = kinds.iter().position(|it| *it == kind);
    place.unwrap_or_else(|| panic!("no {kind} in {kinds:?}"))
}

/// The saved files hold the rows, one of them as a binary log.
fn saved_in(dir: &Path) {
    let files = std::fs::read_dir(dir.join("errant")).expect("a directory");
    let mut binary = 0;
    for file in files {
        let path = file.expect("a file").path();
        let bytes = std::fs::read(&path).expect("readable");
        let holds = |text: &[u8]| bytes.windows(text.len()).any(|part| part == text);
        let ours = holds(b"errant-row-1") && holds(b"errant-row-2");
        assert!(ours && !holds(b"three"), "{}", path.display());
        binary += usize::from(bytes.starts_with(b"\xfebin"));
        let mode = std::fs::metadata(&path).expect("a file").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600, "rows of the farm are in it");
    }
    assert_eq!(binary, 1);
}

/// The router ends while it fills a server; the next one goes on.
#[test]
fn a_server_that_was_being_filled_is_brought_back_by_the_next_router() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some((plane, servers)) = group(dir.path(), Release::Installed, true) else {
        return;
    };
    // Whoever is copied keeps the copy waiting.
    let [primary, filled, other] = &servers;
    let mut holders = [primary, other].map(Server::client);
    for holder in &mut holders {
        holder.run("LOCK TABLES d.t WRITE");
    }
    let at = address(filled);
    plane.rows(&[
        "server",
        "clone",
        "g",
        &at,
        "--force=true",
        "--synchronous=false",
    ]);
    plane.wait_server("is being filled", filled, |it| it.status == Status::Faulty);
    drop(plane);
    drop(holders);
    let by_clone = |settings: &mut control::Settings| settings.provision.rejoin_by_clone = true;
    let plane = Plane::start_with(dir.path(), by_clone);
    plane.wait_server("follows again", filled, |it| {
        it.status == Status::Replica && it.health.io_running == Some(true)
    });
    wait_until(PATIENCE, "equal rows", || are_equal(filled, primary));
}

/// At a replica's address a server of another engine answers: it is not the member, and keeps what it has.
#[test]
fn a_server_of_another_engine_in_a_members_place_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some((plane, mut servers)) = group(dir.path(), Release::Installed, true) else {
        return;
    };
    let Some(foreign) = Server::start(Release::newest_mysql()) else {
        return;
    };
    let mut client = foreign.client();
    client.run("CREATE DATABASE own");
    client.run("CREATE TABLE own.t (id INT PRIMARY KEY)");
    servers[1].kill();
    let _way = Proxy::at(servers[1].address(), foreign.address());
    plane.wait_server("is known to be another one", &servers[1], |it| {
        let error = &it.health.error;
        !it.health.alive && error.contains("is not the server that the farm knows")
    });
    let refused = plane.error(&["server", "clone", "g", &address(&servers[1])]);
    assert!(refused.contains("it runs mysql"), "{refused}");
    assert_eq!(client.value("SELECT @@global.read_only"), "0");
    assert_eq!(client.value("SELECT COUNT(*) FROM own.t"), "0");
    let kinds = plane.event_kinds();
    let wrong = ["server_fenced", "errant_transactions", "rejoin_by_clone"];
    assert!(!kinds.iter().any(|it| wrong.contains(it)), "{kinds:?}");
}

fn errant_transactions_are_saved_and_given_up(release: Release) {
    let dir = tempfile::tempdir().expect("a directory");
    let Some((plane, servers)) = group(dir.path(), release, true) else {
        return;
    };
    drop(go_astray(&servers[1]));
    servers[0]
        .client()
        .run("INSERT INTO d.t (v) VALUES ('after')");
    wait_until(PATIENCE, "a server that was filled anew", || {
        plane.event_kinds().contains(&"server_rebuilt")
    });
    let kinds = plane.event_kinds();
    let order = [
        "errant_transactions",
        "errant_saved",
        "clone_started",
        "server_rebuilt",
    ];
    let places = order.map(|kind| place_of(&kinds, kind));
    assert!(places.is_sorted(), "{kinds:?}");
    let events = plane.control.events();
    assert!(
        events[places[0]].detail.contains("holds 2 transactions"),
        "{:?}",
        events[places[0]]
    );
    saved_in(dir.path());
    settle(&servers);
    plane.wait_server("serves", &servers[1], |server| server.serves_reads());
    assert_eq!(status_of(&plane, &servers[1]), "SECONDARY");
    servers[0]
        .client()
        .run("INSERT INTO d.t (v) VALUES ('last')");
    settle(&servers);
}

#[test]
fn errant_transactions_are_saved_and_given_up_on_mariadb() {
    errant_transactions_are_saved_and_given_up(Release::Installed);
}

#[test]
fn errant_transactions_are_saved_and_given_up_on_mysql() {
    errant_transactions_are_saved_and_given_up(Release::MySql80);
}

#[test]
fn without_consent_a_server_with_errant_transactions_waits_for_the_operator() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some((plane, servers)) = group(dir.path(), Release::Installed, false) else {
        return;
    };
    let mut astray = go_astray(&servers[2]);
    wait_until(PATIENCE, "a faulty server", || {
        status_of(&plane, &servers[2]) == "FAULTY"
    });
    let told = plane.control.events();
    let told = told.iter().find(|event| event.kind == "rejoin_failed");
    let cure = format!("server clone g {}", address(&servers[2]));
    assert!(told.is_some_and(|it| it.detail.contains(&cure)), "{told:?}");
    saved_in(dir.path());
    let kept = astray.value("SELECT COUNT(*) FROM d.t WHERE v LIKE 'errant%'");
    assert_eq!(kept, "2", "nothing was dropped");
    // It is not forgotten, and not touched again.
    plane.rows(&["server", "clone", "g", &address(&servers[2])]);
    assert_eq!(status_of(&plane, &servers[2]), "SECONDARY");
    settle(&servers);
}

/// What only a replica holds does not come to another one by a copy of it.
#[test]
fn nobody_is_filled_from_a_server_with_errant_transactions() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some((plane, servers)) = group(dir.path(), Release::Installed, true) else {
        return;
    };
    let [primary, astray, filled] = &servers;
    // In a domain of their own they do not stop the replication.
    let mut client = astray.client();
    client.run("SET SESSION gtid_domain_id=7");
    client.run("INSERT INTO d.t (id, v) VALUES (1001, 'errant-row-1')");
    let clone = |source: &[&str]| {
        let target = address(filled);
        let words = ["server", "clone", "g", &target, "--force=true"];
        plane.call(&[&words[..], source].concat())
    };
    let refused = clone(&["--source_id", &address(astray)])
        .expect_err("it is astray")
        .to_string();
    assert!(refused.contains("7-"), "{refused}");
    clone(&[]).expect("filled");
    let done = plane.control.events();
    let done = done.iter().rfind(|event| event.kind == "clone_done");
    let from = format!("a copy of {}", address(primary));
    assert!(done.is_some_and(|it| it.detail.contains(&from)), "{done:?}");
    assert!(are_equal(filled, primary));
}

#[test]
fn who_holds_nothing_more_follows_again_and_who_was_stopped_stays_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some((plane, servers)) = group(dir.path(), Release::Installed, true) else {
        return;
    };
    let [primary, stopped, back] = &servers;
    stopped.client().run("STOP SLAVE");
    let mut client = back.client();
    client.run("STOP SLAVE");
    client.run("RESET SLAVE ALL");
    primary
        .client()
        .run("INSERT INTO d.t (v) VALUES ('missed')");
    wait_until(PATIENCE, "the row that it missed", || {
        are_equal(back, primary)
    });
    let rejoined = || {
        let kinds = plane.event_kinds();
        kinds.iter().filter(|it| **it == "server_rejoined").count()
    };
    // Until then the server is being brought back, and what is done to it now would be done to that.
    wait_until(PATIENCE, "a server that is back", || rejoined() == 1);
    // Its notes say less than its log, as after a crash: 1950.
    let position = client.value("SELECT @@gtid_slave_pos");
    primary.client().run("INSERT INTO d.t (v) VALUES ('noted')");
    wait_until(PATIENCE, "the row", || are_equal(back, primary));
    client.run("STOP SLAVE");
    client.run(&format!("SET GLOBAL gtid_slave_pos='{position}'"));
    client.run("START SLAVE");
    primary
        .client()
        .run("INSERT INTO d.t (v) VALUES ('mended')");
    wait_until(PATIENCE, "the row after the cure", || {
        are_equal(back, primary)
    });
    wait_until(PATIENCE, "a server that is back again", || rejoined() == 2);
    let rows = stopped.client().rows("SHOW SLAVE STATUS");
    let running = rows[0].iter().flatten().filter(|cell| *cell == "Yes");
    assert_eq!(running.count(), 0, "an operator's STOP SLAVE stands");
    assert!(
        !plane.event_kinds().contains(&"clone_started"),
        "{:?}",
        plane.control.events()
    );

    // What it lacks is purged: it cannot follow any more and is filled anew.
    client.run("STOP SLAVE");
    let mut writer = primary.client();
    writer.run("SET GLOBAL rpl_semi_sync_master_enabled=0");
    writer.run("INSERT INTO d.t (v) VALUES ('purged')");
    writer.run("FLUSH BINARY LOGS");
    wait_until(PATIENCE, "purged logs", || {
        let logs = writer.rows("SHOW BINARY LOGS");
        let last = logs.last().and_then(|row| row[0].clone()).expect("a log");
        writer.run(&format!("PURGE BINARY LOGS TO '{last}'"));
        writer.rows("SHOW BINARY LOGS").len() == 1
    });
    stopped.client().run("START SLAVE");
    client.run("START SLAVE");
    wait_until(PATIENCE, "equal rows", || {
        are_equal(back, primary) && are_equal(stopped, primary)
    });
    assert!(plane.event_kinds().contains(&"rejoin_by_clone"));
}

/// The branch stands in the server's log and not in its engine, as after a crash between the two.
#[test]
fn a_prepared_branch_that_a_crash_took_is_prepared_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some((plane, servers)) = group(dir.path(), Release::Installed, true) else {
        return;
    };
    let [primary, _, torn] = &servers;
    let mut branch = primary.client();
    for sql in [
        "XA START 'b'",
        "INSERT INTO d.t (id, v) VALUES (500, 'branch')",
        "XA END 'b'",
        "XA PREPARE 'b'",
    ] {
        branch.run(sql);
    }
    drop(branch);
    let mut client = torn.client();
    wait_until(PATIENCE, "the branch on the replica", || {
        client.rows("XA RECOVER").len() == 1
    });
    client.run("STOP SLAVE");
    client.run("SET SESSION sql_log_bin=0");
    client.run("XA ROLLBACK 'b'");
    client.run("RESET SLAVE ALL");
    wait_until(PATIENCE, "a server that is back", || {
        plane.event_kinds().contains(&"server_rejoined")
    });
    assert!(plane.event_kinds().contains(&"branches_mended"));
    primary.client().run("XA COMMIT 'b'");
    settle(&servers);
    assert_eq!(
        torn.client().value("SELECT v FROM d.t WHERE id=500"),
        "branch"
    );
    assert!(!plane.event_kinds().contains(&"clone_started"));
}

/// Why servers were filled anew, in order.
fn reasons(plane: &Plane) -> Vec<String> {
    let events = plane.control.events();
    let filled = events.iter().filter(|it| it.kind == "rejoin_by_clone");
    filled.map(|it| it.detail.clone()).collect()
}

fn is_filled(plane: &Plane, servers: &[Server; 3], time: usize, why: &str) {
    wait_until(PATIENCE, "a server that was filled anew", || {
        let kinds = plane.event_kinds();
        kinds.iter().filter(|it| **it == "server_rebuilt").count() == time
    });
    let reasons = reasons(plane);
    assert!(
        reasons.len() == time && reasons[time - 1].contains(why),
        "{reasons:?}"
    );
    settle(servers);
}

/// It has no history from which it could go on: its accounts are there, and the log that makes them is not
/// executed.
fn who_was_left_by_a_copy_is_filled(release: Release) {
    let dir = tempfile::tempdir().expect("a directory");
    let Some((plane, servers)) = group(dir.path(), release, true) else {
        return;
    };
    let [primary, emptied, half] = &servers;
    primary.client().run("CREATE USER app@'%'");
    for replica in [emptied, half] {
        wait_until(PATIENCE, "the account", || {
            let accounts = "SELECT 1 FROM mysql.user WHERE User='app'";
            !replica.client().rows(accounts).is_empty()
        });
    }
    // While an operator has stopped it, nobody else is at it.
    let stop = |server: &Server| {
        let mut client = server.client();
        client.run("STOP SLAVE");
        if server.engine() == farm::Engine::MySql {
            client.run("SET GLOBAL super_read_only=0");
        }
        client.run("SET SESSION sql_log_bin=0");
        client
    };
    let mut client = stop(emptied);
    client.run("DROP DATABASE d");
    client.run("DROP DATABASE IF EXISTS heddle");
    client.run("RESET MASTER");
    if release == Release::Installed {
        client.run("SET GLOBAL gtid_slave_pos=''");
    }
    client.run("RESET SLAVE ALL");
    is_filled(&plane, &servers, 1, "it is empty and the group has data");

    let mut client = stop(half);
    client.run("CREATE DATABASE heddle_unfinished_clone");
    client.run("RESET SLAVE ALL");
    is_filled(&plane, &servers, 2, "a copy into it was cut short");
    let marks = "SHOW DATABASES LIKE 'heddle_unfinished%'";
    assert!(half.client().rows(marks).is_empty());
}

/// It would pass over what it wrote itself and its source has not applied yet: a server that replicates takes
/// nothing that bears its own id.
fn who_is_filled_has_all_that_it_wrote(release: Release) {
    let dir = tempfile::tempdir().expect("a directory");
    let Some((plane, servers)) = group(dir.path(), release, true) else {
        return;
    };
    let [first, second, late] = &servers;
    let mut client = late.client();
    client.run("STOP SLAVE");
    client.run("CHANGE MASTER TO MASTER_DELAY=3600");
    client.run("START SLAVE");
    first.client().run("INSERT INTO d.t (v) VALUES ('own')");
    plane.promote("g", &address(second));
    for replica in [first, late] {
        plane.wait_replica_again(replica);
    }
    assert!(!are_equal(late, second), "it applies nothing for an hour");
    drop(go_astray(first));
    wait_until(PATIENCE, "a server that was filled anew", || {
        plane.event_kinds().contains(&"server_rebuilt")
    });
    second.client().run("INSERT INTO d.t (v) VALUES ('more')");
    wait_until(PATIENCE, "equal rows", || are_equal(first, second));
    let events = plane.control.events();
    let done = events.iter().rfind(|event| event.kind == "clone_done");
    let from = format!("a copy of {}", address(second));
    assert!(done.is_some_and(|it| it.detail.contains(&from)), "{done:?}");
}

/// The source of a copy dies, which leaves its destination empty and faulty.
#[test]
fn a_fill_that_failed_is_begun_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some((plane, mut servers)) = group(dir.path(), Release::Installed, true) else {
        return;
    };
    // A lock on the source's table holds the copy in the middle.
    let mut lock = servers[2].client();
    lock.run("LOCK TABLES d.t WRITE");
    drop(go_astray(&servers[1]));
    let source = address(&servers[2]);
    wait_until(PATIENCE, "the copy of d.t", || {
        let jobs = plane.rows(&["job", "list"]);
        jobs[0]["step"] == "copies d.t" && jobs[0]["source"] == source
    });
    servers[2].kill();
    wait_until(PATIENCE, "a server that was filled anew", || {
        plane.event_kinds().contains(&"server_rebuilt")
    });
    assert!(plane.event_kinds().contains(&"clone_failed"));
    wait_until(PATIENCE, "equal rows", || {
        are_equal(&servers[1], &servers[0])
    });
}

on_both_engines!(
    who_was_left_by_a_copy_is_filled,
    who_is_filled_has_all_that_it_wrote,
);
