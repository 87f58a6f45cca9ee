//! Replication setups that were made outside of Heddle become groups, as they are.

use crate::plane::{PATIENCE, Plane, farm_of, servers};
use farm::Engine;
use serde_json::Value;
use testkit::{Release, Server, wait_until};

fn address(server: &Server) -> String {
    server.address().to_string()
}

/// As an operator does it by hand: by the primary's name for itself, and by GTID.
fn point_at(replica: &Server, primary: &Server) {
    let (host, port) = (primary.address().ip(), primary.address().port());
    let by = match replica.engine() {
        Engine::MariaDb => "MASTER_USE_GTID=slave_pos",
        Engine::MySql => "MASTER_AUTO_POSITION=1",
    };
    let mut client = replica.client();
    client.run(&format!(
        "CHANGE MASTER TO MASTER_HOST='{host}', MASTER_PORT={port}, MASTER_USER='root', {by}"
    ));
    client.run("START SLAVE");
}

fn count(server: &Server) -> String {
    server.client().value("SELECT COUNT(*) FROM d.t")
}

/// A primary with rows and two replicas that have them, none of which Heddle has touched.
fn setup(release: Release) -> Option<[Server; 3]> {
    // A receiver that began without semi-sync does not acknowledge before it begins anew.
    let quiet = [("rpl_semi_sync_slave_enabled", "OFF")];
    let settings = match release {
        Release::Installed => &quiet[..],
        _ => &[],
    };
    let started: Option<Vec<Server>> = (0..3)
        .map(|_| Server::start_with(release, settings))
        .collect();
    let servers: [Server; 3] = started?.try_into().ok()?;
    let mut client = servers[0].client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (a INT PRIMARY KEY)");
    client.run("INSERT INTO d.t VALUES (1)");
    for replica in &servers[1..] {
        point_at(replica, &servers[0]);
        let mut client = replica.client();
        wait_until(PATIENCE, "the row", || {
            let there = client.query("SELECT COUNT(*) FROM d.t");
            there.is_ok() && count(replica) == "1"
        });
    }
    Some(servers)
}

/// The rows of one kind, as `SERVER FINDING | CURE`.
fn of_kind(rows: &Value, kind: &str) -> Vec<String> {
    let rows = rows.as_array().expect("rows").iter();
    let rows = rows.filter(|row| row["kind"] == kind);
    let cell = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    rows.map(|row| {
        format!(
            "{} {} | {}",
            cell(row, "server"),
            cell(row, "finding"),
            cell(row, "cure")
        )
    })
    .collect()
}

fn import(plane: &Plane, asked: &Server, others: &[&Server], more: &[&str]) -> Value {
    plane.rows(
        &words(asked, others, more)
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>(),
    )
}

fn words(asked: &Server, others: &[&Server], more: &[&str]) -> Vec<String> {
    let others: Vec<String> = others.iter().map(|it| address(it)).collect();
    let mut words = ["group", "import_topology", &address(asked)]
        .map(str::to_owned)
        .to_vec();
    if !others.is_empty() {
        words.push(format!("--servers={}", others.join(",")));
    }
    words.extend(more.iter().map(|&word| word.to_owned()));
    words
}

fn refused(plane: &Plane, asked: &Server, others: &[&Server]) -> String {
    let words = words(asked, others, &["--apply"]);
    plane.error(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// So many connections the server has had, this one included.
fn connections(server: &Server) -> u64 {
    let rows = server
        .client()
        .rows("SHOW GLOBAL STATUS LIKE 'Connections'");
    rows[0][1]
        .as_deref()
        .and_then(|it| it.parse().ok())
        .expect("a number")
}

fn becomes_a_group(release: Release) {
    let Some([primary, one, two]) = setup(release) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = Plane::start(dir.path());

    // Nobody named the replicas: Heddle says that they are there, and does not log in.
    let before = connections(&one);
    let rows = import(&plane, &primary, &[], &[]);
    let errors = of_kind(&rows, "error");
    assert_eq!(errors.len(), 2, "{rows:#}");
    for replica in [&one, &two] {
        let found = format!("followed by {} (server_id", address(replica));
        assert!(errors.iter().any(|it| it.contains(&found)), "{errors:#?}");
    }
    assert!(refused(&plane, &primary, &[]).contains("nothing was changed"));
    assert_eq!(connections(&one), before + 1, "only this test logged in");

    // Named, they are shown with what would be done, and nothing is done.
    let rows = import(&plane, &primary, &[&one, &two], &[]);
    assert_eq!(of_kind(&rows, "error"), Vec::<String>::new(), "{rows:#}");
    let changes = of_kind(&rows, "change");
    let closes = changes.iter().filter(|it| it.contains("read_only=1"));
    assert_eq!(closes.count(), 2, "{changes:#?}");
    assert!(
        changes
            .iter()
            .any(|it| it.contains("group g1 is made of it and 2 replicas"))
    );
    assert_eq!(one.client().value("SELECT @@global.read_only"), "0");
    assert_eq!(
        plane.rows(&["group", "lookup_groups"]),
        Value::Array(Vec::new())
    );

    // Asked at a replica, the same setup comes out.
    let rows = import(&plane, &two, &[&one], &[]);
    let errors = of_kind(&rows, "error");
    let unnamed = format!("{} it follows {}", address(&two), address(&primary));
    assert!(errors[0].starts_with(&unnamed), "{errors:#?}");
    let rows = import(
        &plane,
        &two,
        &[&one, &primary],
        &["--group_id=shop", "--apply"],
    );
    assert_eq!(of_kind(&rows, "change"), Vec::<String>::new(), "{rows:#}");
    assert_eq!(
        of_kind(&rows, "done").len(),
        closes_and_more(release),
        "{rows:#}"
    );

    works(&plane, [&primary, &one, &two], release);
}

/// What is done to the setup: two servers are closed and, where there is semi-sync, made to acknowledge.
fn closes_and_more(release: Release) -> usize {
    match release {
        Release::Installed => 5,
        _ => 3,
    }
}

/// It is a group like any other: commits are acknowledged, and it changes its primary.
fn works(plane: &Plane, [primary, one, two]: [&Server; 3], release: Release) {
    let servers = plane.rows(&["group", "lookup_servers", "shop"]);
    assert_eq!(servers.as_array().map(Vec::len), Some(3), "{servers:#}");
    for replica in [one, two] {
        plane.wait_replica_again(replica);
        assert_eq!(replica.client().value("SELECT @@global.read_only"), "1");
    }
    if release == Release::Installed {
        let acks = "SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_master_clients'";
        wait_until(PATIENCE, "both acknowledge", || {
            primary.client().rows(acks)[0][1].as_deref() == Some("2")
        });
    }
    primary.client().run("INSERT INTO d.t VALUES (2)");
    for replica in [one, two] {
        wait_until(PATIENCE, "the second row", || count(replica) == "2");
    }
    plane.promote("shop", &address(one));
    one.client().run("INSERT INTO d.t VALUES (3)");
    for replica in [primary, two] {
        wait_until(PATIENCE, "the third row", || count(replica) == "3");
    }
    // Once more changes nothing, and a second group of the same servers is refused.
    let again = import(plane, primary, &[one, two], &["--apply"]);
    assert_eq!(of_kind(&again, "found").len(), 3, "{again:#}");
}

#[test]
fn a_setup_of_mariadb_becomes_a_group() {
    becomes_a_group(Release::Installed);
}

#[test]
fn a_setup_of_mysql_becomes_a_group() {
    becomes_a_group(Release::newest_mysql());
}

#[test]
fn setups_that_no_group_can_be() {
    let Some([primary, one, two]) = setup(Release::Installed) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = Plane::start(dir.path());

    // A chain: the second follows the first replica.
    two.client().run("STOP SLAVE");
    point_at(&two, &one);
    wait_until(PATIENCE, "the first has a follower", || {
        one.client().rows("SHOW SLAVE HOSTS").len() == 1
    });
    wait_until(PATIENCE, "the primary has one", || {
        primary.client().rows("SHOW SLAVE HOSTS").len() == 1
    });
    let error = refused(&plane, &primary, &[&one, &two]);
    assert!(error.contains("a chain"), "{error}");
    // It may stay outside by the operator's word.
    let id = two.client().value("SELECT @@server_id");
    let without = format!("--without={id}");
    let rows = import(&plane, &primary, &[&one], &[&without]);
    assert_eq!(of_kind(&rows, "error"), Vec::<String>::new(), "{rows:#}");

    // A circle.
    point_at(&primary, &one);
    let error = refused(&plane, &primary, &[&one]);
    assert!(error.contains("follow each other in a circle"), "{error}");
    primary.client().run("STOP SLAVE");
    primary.client().run("RESET SLAVE ALL");

    // A replica that does not answer.
    let mut two = two;
    two.kill();
    let error = refused(&plane, &primary, &[&one, &two]);
    assert!(
        error.contains(&address(&two)) && error.contains("start the server"),
        "{error}"
    );

    // A replica that has written by itself.
    one.client().run("INSERT INTO d.t VALUES (99)");
    // A server notices that a reader of its log is gone when it has something for it.
    wait_until(PATIENCE, "nobody follows it", || {
        one.client()
            .run("INSERT INTO d.t SELECT MAX(a) + 1 FROM d.t");
        one.client().rows("SHOW SLAVE HOSTS").is_empty()
    });
    let words = words(&primary, &[&one], &[&without, "--apply"]);
    let error = plane.error(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(error.contains("which the primary has not"), "{error}");
    assert_eq!(
        plane.rows(&["group", "lookup_groups"]),
        Value::Array(Vec::new())
    );
    assert_eq!(
        one.client().value("SELECT @@global.read_only"),
        "0",
        "nothing was changed"
    );
}

#[test]
fn servers_of_other_engines_and_farms() {
    let Some(members) = servers::<2>() else {
        return;
    };
    let (dir, theirs) = (tempfile::tempdir(), tempfile::tempdir());
    let (dir, theirs) = (dir.expect("a directory"), theirs.expect("a directory"));
    let other = farm_of(theirs.path(), &members);
    let heartbeats = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema='heddle' \
                 AND table_name='heartbeat'";
    wait_until(PATIENCE, "the other farm's heartbeat", || {
        members[0].client().value(heartbeats) == "1"
            && members[0]
                .client()
                .value("SELECT COUNT(*) FROM heddle.heartbeat")
                == "1"
    });
    let plane = Plane::start(dir.path());
    let error = refused(&plane, &members[0], &[&members[1]]);
    assert!(error.contains("it belongs to another farm"), "{error}");
    drop(other);

    let Some(mysql) = Server::start(Release::MySql80) else {
        return;
    };
    let Some(mariadb) = Server::start(Release::Installed) else {
        return;
    };
    let port = mysql.address().port();
    mariadb.client().run(&format!(
        "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='root'"
    ));
    let error = refused(&plane, &mysql, &[&mariadb]);
    assert!(error.contains("as their GTIDs differ"), "{error}");
}
