//! Failover with real servers: who takes over, with which positions, who follows, who is fenced.

use crate::plane::{PATIENCE, Plane, farm_of, servers, servers_of, wait_until_settled};
use farm::Status;
use testkit::{Release, Server, wait_until};

fn value(server: &Server, sql: &str) -> String {
    server.client().value(sql)
}

/// An active group whose primary has table `d.t`, on all servers.
fn active_farm(dir: &std::path::Path, servers: &[Server]) -> Plane {
    let plane = farm_of(dir, servers);
    plane.rows(&["group", "activate", "g"]);
    servers[0].client().run("CREATE DATABASE d");
    let table = "CREATE TABLE d.t (a INT PRIMARY KEY)";
    servers[0].client().run(table);
    for server in &servers[1..] {
        let sql = "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'd'";
        wait_until(PATIENCE, "the table", || value(server, sql) == "1");
    }
    // What a server had received before it was started just now would be in doubt.
    for server in servers {
        wait_until_settled(server);
    }
    plane
}

/// `read_only` does not stop an administrator, and a commit of his that has begun ends as a commit though
/// his connection is killed.
#[test]
fn a_switch_over_waits_for_commits_of_whom_it_ends() {
    let Some(servers) = servers::<2>() else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = active_farm(dir.path(), &servers);
    // A commit is in no log for so long.
    let slow = "SET GLOBAL binlog_commit_wait_count=100, binlog_commit_wait_usec=200000";
    servers[0].client().run(slow);
    let writers: Vec<_> = (1..9_usize)
        .map(|writer| {
            let mut client = servers[0].client();
            std::thread::spawn(move || {
                let mut inserts = (0..).map(|n| format!("INSERT INTO d.t VALUES ({writer}{n:06})"));
                while inserts.next().is_some_and(|sql| client.query(sql).is_ok()) {}
            })
        })
        .collect();
    let count = "SELECT COUNT(*) FROM d.t";
    wait_until(PATIENCE, "writes", || value(&servers[0], count) != "0");
    let to = servers[1].address().to_string();
    plane.promote("g", &to);
    for writer in writers {
        writer.join().expect("no writer panics");
    }
    assert_eq!(value(&servers[1], count), value(&servers[0], count));
    let forks = plane.published.load().groups[0].forks.len();
    assert_eq!(forks, 0, "nothing was lost: the timeline goes on");
}

/// An idle transaction has a row lock for which a statement waits. A server does not become read-only before
/// that statement ends, and the statement does not end before the transaction does.
fn a_switch_over_ends_those_who_wait_for_the_idle(release: Release) {
    let Some(servers) = servers_of::<2>(release) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = active_farm(dir.path(), &servers);
    servers[0].client().run("INSERT INTO d.t VALUES (1)");
    // Connections are ended in the order in which they began. With the idle one gone first, the other would have
    // the row for a moment.
    let (mut waiter, mut idle) = (servers[0].client(), servers[0].client());
    idle.run("BEGIN");
    idle.run("UPDATE d.t SET a = 2");
    let id = waiter.value("SELECT CONNECTION_ID()");
    let update = std::thread::spawn(move || waiter.query("UPDATE d.t SET a = 3").is_ok());
    wait_until(PATIENCE, "a statement that waits for the lock", || {
        let sql = format!(
            "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {id} AND INFO LIKE 'UPDATE%'"
        );
        value(&servers[0], &sql) == "1"
    });
    let to = servers[1].address().to_string();
    plane.promote("g", &to);
    assert!(!update.join().expect("no client panics"), "it was ended");
    assert!(idle.query("COMMIT").is_err());
    servers[1].client().run("UPDATE d.t SET a = 4");
    wait_until(PATIENCE, "the row on the old primary", || {
        value(&servers[0], "SELECT a FROM d.t") == "4"
    });
}

#[test]
fn a_switch_over_ends_those_who_wait_for_the_idle_on_mariadb() {
    a_switch_over_ends_those_who_wait_for_the_idle(Release::Installed);
}

#[test]
fn a_switch_over_ends_those_who_wait_for_the_idle_on_mysql() {
    a_switch_over_ends_those_who_wait_for_the_idle(Release::MySql80);
}

/// The index of the server that leads now.
fn leader(plane: &Plane, servers: &[Server]) -> Option<usize> {
    let snapshot = plane.published.load();
    let primary = snapshot.group("g")?.primary()?.clone();
    let is_it = |server: &Server| server.address().to_string() == primary.address();
    (primary.serves_writes() && !snapshot.group("g")?.paused)
        .then(|| servers.iter().position(is_it))?
}

/// Waits until this server leads. A busy machine may doubt a living primary for a moment, and nobody leads then.
#[track_caller]
fn wait_leads(plane: &Plane, servers: &[Server], at: usize) {
    wait_until(PATIENCE, &format!("server {at} leads"), || {
        leader(plane, servers) == Some(at)
    });
}

/// Waits until another server than the first leads, and says which.
#[track_caller]
fn another_leads(plane: &Plane, servers: &[Server]) -> usize {
    let mut found = None;
    wait_until(PATIENCE, "another primary", || {
        found = leader(plane, servers).filter(|at| *at > 0);
        found.is_some()
    });
    found.expect("it was waited for")
}

#[test]
fn a_killed_primary_is_replaced_and_comes_back() {
    let Some(mut servers) = servers::<3>() else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = active_farm(dir.path(), &servers);
    servers[0].client().run("INSERT INTO d.t VALUES (1)");
    servers[0].kill();
    let at = another_leads(&plane, &servers);
    let new = &servers[at];
    new.client().run("INSERT INTO d.t VALUES (2)");
    let other = &servers[3 - at];
    wait_until(PATIENCE, "both rows on the other replica", || {
        value(other, "SELECT COUNT(*) FROM d.t") == "2"
    });
    // The winner takes writes before the end of the change is recorded.
    wait_until(PATIENCE, "a new timeline", || {
        let snapshot = plane.published.load();
        snapshot
            .group("g")
            .is_some_and(|group| group.forks.len() == 1)
    });
    for kind in ["primary_lost", "primary_changed", "server_promoted"] {
        plane.wait_event(kind);
    }
    steps_are_told(&plane);

    servers[0].restart();
    plane.wait_server("is a replica again", &servers[0], |server| {
        server.status == Status::Replica && server.health.io_running == Some(true)
    });
    wait_until(PATIENCE, "both rows on the old primary", || {
        value(&servers[0], "SELECT COUNT(*) FROM d.t") == "2"
    });
    assert_eq!(value(&servers[0], "SELECT @@read_only"), "1");
}

/// What an operator looks at afterwards. The records that were waited for end with that of the winner.
#[track_caller]
fn steps_are_told(plane: &Plane) {
    wait_until(PATIENCE, "the last step", || {
        let rows = plane.rows(&["group", "failovers", "g"]);
        let rows = rows.as_array().expect("rows");
        rows.iter().all(|row| !row["took_ms"].is_null())
    });
    let rows = plane.rows(&["group", "failovers", "g"]);
    let steps: Vec<(&str, &str)> = rows
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| {
            ["step", "detail"]
                .map(|cell| row[cell].as_str().expect("a text"))
                .into()
        })
        .collect();
    let is = |step: &'static str| steps.iter().filter(move |(word, _)| *word == step);
    // On a busy machine an answer may come too late, and then a step is taken once more.
    assert!(is("stop_receiving").count() >= 2, "{steps:?}");
    for step in [
        "confirm_loss",
        "cut_off",
        "lead",
        "take_writes",
        "follow",
        "publish",
        "first_write",
    ] {
        assert!(is(step).count() >= 1, "{step} in {steps:?}");
    }
    let records: Vec<&str> = is("record").map(|(_, about)| *about).collect();
    assert!(
        records.ends_with(&["the winner", "it is over"]),
        "{steps:?}"
    );
    assert_eq!(rows[0]["cause"], "crashed");
    plane.wait_event("failover_timed");
}

#[test]
fn a_frozen_primary_is_replaced_and_fenced_when_it_goes_on() {
    let Some(mut servers) = servers::<3>() else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = active_farm(dir.path(), &servers);
    let mut held = servers[0].client();
    servers[0].freeze();
    let at = another_leads(&plane, &servers);
    servers[at].client().run("INSERT INTO d.t VALUES (1)");
    plane.wait_server("serves nothing", &servers[0], |server| {
        !server.health.alive && server.term > 0
    });

    servers[0].thaw();
    // A client that asked it here could be ended by the fence.
    plane.wait_server("is read-only", &servers[0], |server| {
        server.health.read_only
    });
    assert!(
        held.query("SELECT 1").is_err(),
        "a client of the old primary was ended"
    );
    wait_until(PATIENCE, "the fence to be told", || {
        plane.event_kinds().contains(&"server_fenced")
    });
    // It follows, unless a write that it had taken before ends there: then it must be built anew.
    let standing = |server: &farm::Server| server.status != Status::Primary;
    plane.wait_server("is no primary", &servers[0], standing);
    wait_leads(&plane, &servers, at);
}

#[test]
fn connections_to_a_frozen_replica_are_ended() {
    let Some(mut servers) = servers::<3>() else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = active_farm(dir.path(), &servers);
    servers[1].freeze();
    plane.wait_server("is silent, and sessions leave it", &servers[1], |server| {
        !server.health.alive && server.term == 1
    });
    servers[1].thaw();
    plane.wait_server("answers again", &servers[1], |server| {
        server.health.alive && server.term == 1
    });
}

#[test]
fn a_switch_over_moves_the_writes_and_back() {
    let Some(servers) = servers::<3>() else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = active_farm(dir.path(), &servers);
    servers[0].client().run("INSERT INTO d.t VALUES (1)");
    let to = servers[2].address().to_string();
    plane.promote("g", &to);
    wait_leads(&plane, &servers, 2);
    servers[2].client().run("INSERT INTO d.t VALUES (2)");
    for server in &servers[..2] {
        wait_until(PATIENCE, "both rows", || {
            value(server, "SELECT COUNT(*) FROM d.t") == "2"
        });
        assert_eq!(value(server, "SELECT @@read_only"), "1");
    }
    let snapshot = plane.published.load();
    let forks = snapshot.group("g").map(|group| group.forks.len());
    assert_eq!(forks, Some(0), "nothing was lost: the timeline goes on");

    let again = plane.rows(&["group", "promote", "g", &to]);
    assert!(
        again[0]["result"].to_string().contains("already"),
        "{again}"
    );
    let text = plane.rows(&["group", "demote", "g"])[0]["result"].to_string();
    assert!(text.contains("the group has none"), "{text}");
    assert_eq!(leader(&plane, &servers), None);
    let first = servers[0].address().to_string();
    plane.promote("g", &first);
    wait_leads(&plane, &servers, 0);
    servers[0].client().run("INSERT INTO d.t VALUES (3)");
    let counters = plane.control.counters();
    assert!(
        counters
            .failovers
            .iter()
            .any(|(cause, _)| *cause == "ordered")
    );

    // Whoever opens a server beside the primary finds it closed again.
    servers[1].client().run("SET GLOBAL read_only=0");
    wait_until(PATIENCE, "the second writer to be fenced", || {
        plane.event_kinds().contains(&"server_fenced")
    });
    plane.wait_server("is read-only", &servers[1], |server| {
        server.health.read_only
    });
    wait_leads(&plane, &servers, 0);
}

#[test]
fn orders_that_do_not_fit_change_nothing() {
    let Some(mut servers) = servers::<2>() else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = farm_of(dir.path(), &servers);
    let (first, second) = (
        servers[0].address().to_string(),
        servers[1].address().to_string(),
    );
    plane.rows(&["group", "create", "alone"]);
    let error = plane.error(&["group", "promote", "none"]);
    assert!(error.contains("there is no group none"), "{error}");
    let error = plane.error(&["group", "promote", "alone"]);
    assert!(error.contains("no other server"), "{error}");
    let error = plane.error(&["group", "promote", "g", "10.0.0.1:1"]);
    assert!(error.contains("has no server 10.0.0.1:1"), "{error}");

    let mark = |yes: &str| {
        let option = format!("--promotable={yes}");
        plane.rows(&["server", "set_status", &second, "SECONDARY", &option]);
    };
    mark("false");
    let error = plane.error(&["group", "promote", "g", &second]);
    assert!(error.contains("never to be the primary"), "{error}");
    let error = plane.error(&["group", "promote", "g"]);
    assert!(error.contains("no replica can take over"), "{error}");
    mark("true");

    plane.rows(&["server", "set_status", &second, "FAULTY"]);
    let error = plane.error(&["group", "promote", "g", &second]);
    assert!(error.contains("is FAULTY"), "{error}");
    plane.rows(&["server", "set_status", &second, "SPARE"]);
    plane.rows(&["server", "set_status", &second, "SECONDARY"]);
    let error = plane.error(&["threat", "report_failure", &first]);
    assert!(error.contains("`group activate g`"), "{error}");

    servers[1].kill();
    plane.wait_server("is dead", &servers[1], |server| !server.health.alive);
    let error = plane.error(&["group", "promote", "g", &second]);
    assert!(error.contains("does not answer"), "{error}");
    wait_leads(&plane, &servers, 0);
    servers[0]
        .client()
        .run("SET GLOBAL rpl_semi_sync_master_enabled=0");
    servers[0].client().run("CREATE DATABASE still_written");
}

#[test]
fn a_router_that_starts_in_the_middle_goes_on() {
    let Some(mut servers) = servers::<3>() else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = active_farm(dir.path(), &servers);
    servers[0].client().run("INSERT INTO d.t VALUES (1)");
    drop(plane);
    // Nobody looks while the primary dies and a replica was already stopped for the election.
    servers[0].kill();
    servers[1].client().run("STOP SLAVE IO_THREAD");
    let plane = Plane::start(dir.path());
    let at = another_leads(&plane, &servers);
    servers[at].client().run("INSERT INTO d.t VALUES (2)");
    wait_until(PATIENCE, "both rows on the other replica", || {
        value(&servers[3 - at], "SELECT COUNT(*) FROM d.t") == "2"
    });
}

#[test]
fn two_deaths_that_could_lose_a_commit_stop_the_group() {
    let Some(mut servers) = servers::<3>() else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = active_farm(dir.path(), &servers);
    servers[2].kill();
    plane.wait_server("is dead", &servers[2], |server| !server.health.alive);
    servers[0].client().run("INSERT INTO d.t VALUES (1)");
    servers[0].kill();
    let gone = servers[2].address().to_string();
    let cure = format!("`server set_status {gone} FAULTY`");
    // On a busy machine the other replica may answer late, which is waited for first.
    wait_until(PATIENCE, "the group to wait", || {
        let events = plane.control.events();
        let mut waits = events.iter().filter(|it| it.kind == "failover_waits");
        waits.any(|event| event.detail.contains(&cure))
    });
    assert_eq!(leader(&plane, &servers), None);
    // The operator knows that it holds nothing that the other lacks.
    plane.rows(&["server", "set_status", &gone, "FAULTY"]);
    wait_until(PATIENCE, "another primary", || {
        leader(&plane, &servers) == Some(1)
    });
    assert_eq!(value(&servers[1], "SELECT COUNT(*) FROM d.t"), "1");
}

#[test]
fn what_sessions_were_told_is_proof_enough() {
    let Some(mut servers) = servers::<3>() else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = active_farm(dir.path(), &servers);
    servers[2].kill();
    plane.wait_server("is dead", &servers[2], |server| !server.health.alive);
    let mut client = servers[0].client();
    client.run("INSERT INTO d.t VALUES (1)");
    // The binlog's position may name a transaction behind it, which no replica has acknowledged yet.
    let told = client.value("SELECT @@last_gtid");
    let told = farm::Position::parse(farm::Engine::MariaDb, &told).expect("a position");
    let first = servers[0].address().to_string();
    plane.wait_server("was heard by a session", &servers[0], |server| {
        assert_eq!(server.address(), first);
        server.fresh.acknowledge(&told);
        true
    });
    servers[0].kill();
    wait_until(PATIENCE, "another primary", || {
        leader(&plane, &servers) == Some(1)
    });
    assert_eq!(value(&servers[1], "SELECT COUNT(*) FROM d.t"), "1");
}

#[test]
fn a_killed_primary_of_mysql_is_replaced() {
    let Some(mut servers) = servers_of::<3>(Release::MySql80) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = active_farm(dir.path(), &servers);
    let acks = plane.published.load().groups[0].acks;
    // 8.0.12 comes without the plugins.
    let plain = value(&servers[0], "SELECT @@version") == "8.0.12";
    assert_eq!(matches!(acks, farm::Acks::Router { .. }), plain, "{acks:?}");
    servers[0].client().run("INSERT INTO d.t VALUES (1)");
    wait_until(PATIENCE, "the row on both replicas", || {
        let count = |server| value(server, "SELECT COUNT(*) FROM d.t");
        servers[1..].iter().all(|server| count(server) == "1")
    });
    servers[0].kill();
    let at = another_leads(&plane, &servers);
    servers[at].client().run("INSERT INTO d.t VALUES (2)");
    wait_until(PATIENCE, "both rows on the other replica", || {
        value(&servers[3 - at], "SELECT COUNT(*) FROM d.t") == "2"
    });
}

/// The branch stands in the primary's log and in its replica's engine, and not in its own, as after a crash
/// between the two.
#[test]
fn a_primary_that_leads_on_has_the_branches_of_its_log() {
    let Some(mut servers) = servers::<2>() else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = Plane::start(dir.path());
    for (group, server) in ["g", "h"].into_iter().zip(&servers) {
        plane.rows(&["group", "create", group]);
        plane.rows(&["group", "add", group, &server.address().to_string()]);
        plane.rows(&["group", "activate", group]);
    }
    let primary = &mut servers[0];
    let mut client = primary.client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (v INT PRIMARY KEY)");
    let mut branch = primary.client();
    for sql in [
        "XA START 'b'",
        "INSERT INTO d.t VALUES (500)",
        "XA END 'b'",
        "XA PREPARE 'b'",
    ] {
        branch.run(sql);
    }
    drop(branch);
    client.run("SET GLOBAL innodb_flush_log_at_trx_commit=1");
    client.run("SET SESSION sql_log_bin=0");
    wait_until(PATIENCE, "a branch whose owner is gone", || {
        client.query("XA ROLLBACK 'b'").is_ok()
    });
    // A commit takes what is before it in the engine's log to the disk.
    client.run("INSERT INTO d.t VALUES (1)");
    // A busy machine may have doubted the living primary before, and restored it with nothing to mend.
    let restored = || {
        let kinds = plane.event_kinds();
        kinds.iter().filter(|it| **it == "primary_restored").count()
    };
    let before = restored();
    primary.kill();
    primary.restart();
    wait_until(PATIENCE, "the primary leads on", || restored() > before);
    let kinds = plane.event_kinds();
    assert!(kinds.contains(&"branches_mended"), "{kinds:?}");
    let mut client = primary.client();
    assert_eq!(client.rows("XA RECOVER").len(), 1);
    client.run("XA COMMIT 'b'");
    assert_eq!(value(primary, "SELECT MAX(v) FROM d.t"), "500");
}
