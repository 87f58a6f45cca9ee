//! A primary that crashed while its branches waited for a replica, on real servers.

use std::time::Duration;

use crate::root::{MS, link, login};
use engine::needed::{self, Feature};
use engine::{Login, Mended, Version};
use testkit::{Client, Release, Server, wait_until};

const PATIENCE: Duration = Duration::from_secs(30);

fn branch(client: &mut Client, name: &str, v: u32) {
    client.run(&format!("XA START '{name}', 'b', 9"));
    client.run(&format!("INSERT INTO d.t VALUES ({v}, REPEAT('x', {v}))"));
    client.run(&format!(
        "UPDATE d.t SET w = 'changed' WHERE v = {v} + 1000"
    ));
    client.run(&format!("XA END '{name}', 'b', 9"));
}

fn prepared(server: &Server) -> Vec<String> {
    let rows = server.client().rows("XA RECOVER FORMAT='SQL'");
    let mut names: Vec<String> = rows
        .into_iter()
        .filter_map(|mut row| row.remove(3))
        .collect();
    names.sort();
    names
}

/// Sends a statement that will not be answered.
fn ask(client: &mut Client, sql: &str) {
    let text = [&[3], sql.as_bytes()].concat();
    client.sequence = 0;
    client.send_packet(&text).expect("sent");
}

/// A primary that crashed while three branches waited for a replica, started again; and its replica,
/// which has all of them and follows nobody any more.
async fn crashed(release: Release) -> Option<(Server, Server)> {
    let durable = [
        ("sync_binlog", "1"),
        ("innodb_flush_log_at_trx_commit", "1"),
    ];
    let mut old = Server::start_with(release, &durable)?;
    let new = Server::start_with(release, &durable)?;
    let mut replica = link(&new).await;
    engine::make_replica(&mut replica, &login(&old), MS)
        .await
        .expect("it follows");
    // It receives, and never says so.
    new.client().run("STOP SLAVE");
    new.client()
        .run("SET GLOBAL rpl_semi_sync_slave_enabled = 0");
    new.client().run("START SLAVE");
    let mut client = old.client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (v INT PRIMARY KEY, w VARCHAR(2000)) ENGINE=InnoDB");
    client.run("INSERT INTO d.t SELECT seq + 1000, '' FROM d.seq_1_to_9");
    let mut owners: Vec<Client> = (0..5).map(|_| old.client()).collect();
    let names = ["commits", "undoes", "stays", "commits-late"];
    for ((v, name), owner) in (1..).zip(names).zip(&mut owners[1..]) {
        branch(owner, name, v);
        owner.run(&format!("XA PREPARE '{name}', 'b', 9"));
    }
    branch(&mut owners[0], "prepares", 5);
    client.run("SET GLOBAL rpl_semi_sync_master_timeout = 4000000");
    client.run("SET GLOBAL rpl_semi_sync_master_wait_no_slave = 1");
    client.run("SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC");
    client.run("SET GLOBAL rpl_semi_sync_master_enabled = 1");
    // All three are one group in the log: what comes behind a group that waits is not written.
    client.run("SET GLOBAL binlog_commit_wait_usec = 20000000");
    client.run("SET GLOBAL binlog_commit_wait_count = 3");
    ask(&mut owners[1], "XA COMMIT 'commits', 'b', 9");
    ask(&mut owners[2], "XA ROLLBACK 'undoes', 'b', 9");
    ask(&mut owners[0], "XA PREPARE 'prepares', 'b', 9");
    wait_until(PATIENCE, "the replica has all of it", || {
        let names = prepared(&new).join(" ").to_lowercase();
        names.contains("prepares") && !names.contains("'commits'") && !names.contains("undoes")
    });
    old.kill();
    new.client().run("STOP SLAVE");
    new.client().run("RESET SLAVE ALL");
    old.restart();
    Some((old, new))
}

/// An account that has what every farm needs, and nothing else.
fn least(server: &Server) -> Login {
    let mut root = server.client();
    root.run("SET SESSION sql_log_bin = 0");
    root.run("CREATE USER heddle@'%' IDENTIFIED BY 'secret'");
    let version = Version::parse(&root.value("SELECT @@version")).expect("a version");
    let essential = Feature::ALL.map(|it| it.is_essential().then_some(it));
    let essential: Vec<Feature> = essential.into_iter().flatten().collect();
    for statement in needed::grants(&version, &essential, "heddle@'%'") {
        root.run(&statement);
    }
    Login {
        user: "heddle".to_owned(),
        password: "secret".to_owned(),
        ..login(server)
    }
}

async fn mends(release: Release) {
    let Some((old, new)) = crashed(release).await else {
        return;
    };
    let position = new.client().value("SELECT @@gtid_current_pos");
    let names = prepared(&old).join(" ");
    assert!(
        names.contains("'commits'") && names.contains("undoes"),
        "{names}"
    );
    assert!(!names.contains("prepares"), "{names}");
    assert_eq!(old.client().value("SELECT @@gtid_current_pos"), position);
    let least = least(&old);
    let mended = engine::mend_branches(&least, MS).await;
    let right = Mended {
        ended: 2,
        prepared: 1,
    };
    assert_eq!(mended, Ok(right));
    assert_eq!(prepared(&old), prepared(&new));
    assert_eq!(old.client().value("SELECT @@gtid_current_pos"), position);
    let mended = engine::mend_branches(&least, MS).await;
    assert_eq!(mended, Ok(Mended::default()), "once is enough");
    // It follows, and the new primary ends what is left.
    let mut link = link(&old).await;
    engine::detach(&mut link, MS).await.expect("detached");
    engine::make_replica(&mut link, &login(&new), MS)
        .await
        .expect("it follows");
    let mut client = new.client();
    client.run("SET GLOBAL read_only = 0");
    client.run("XA COMMIT 'prepares', 'b', 9");
    client.run("XA COMMIT 'stays', 'b', 9");
    client.run("XA ROLLBACK 'commits-late', 'b', 9");
    client.run("INSERT INTO d.t VALUES (99, 'last')");
    let rows = |server: &Server| server.client().rows("SELECT v, w FROM d.t ORDER BY v");
    wait_until(PATIENCE, "equal rows", || rows(&old) == rows(&new));
    assert_eq!(prepared(&old), Vec::<String>::new());
}

#[tokio::test]
async fn log_and_engine_agree_again_on_mariadb() {
    mends(Release::Installed).await;
}

/// A branch that the log says is prepared had a row behind another one that the log says is committed; the
/// crash took the first, and the end of the second.
#[tokio::test]
async fn what_has_ended_makes_way() {
    let Some(server) = Server::start_with(Release::Installed, &[]) else {
        return;
    };
    let mut client = server.client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (v INT PRIMARY KEY, w VARCHAR(20)) ENGINE=InnoDB");
    client.run("INSERT INTO d.t VALUES (1, 'old')");
    let prepare = |client: &mut Client, name: &str| {
        client.run(&format!("XA START '{name}', 'b', 9"));
        client.run(&format!("UPDATE d.t SET w = '{name}'"));
        client.run(&format!("XA END '{name}', 'b', 9"));
        client.run(&format!("XA PREPARE '{name}', 'b', 9"));
    };
    // By their names the second comes first.
    prepare(&mut client, "z-first");
    client.run("XA COMMIT 'z-first', 'b', 9");
    prepare(&mut client, "a-second");
    drop(client);
    let mut unlogged = server.client();
    unlogged.run("SET SESSION sql_log_bin = 0");
    wait_until(PATIENCE, "a branch whose connection is gone", || {
        unlogged.query("XA ROLLBACK 'a-second', 'b', 9").is_ok()
    });
    unlogged.run("UPDATE d.t SET w = 'old'");
    prepare(&mut unlogged, "z-first");
    let id = unlogged.value("SELECT CONNECTION_ID()");
    drop(unlogged);
    let mut client = server.client();
    let there = format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id}");
    wait_until(PATIENCE, "the end of a connection", || {
        client.value(&there) == "0"
    });
    client.run("FLUSH BINARY LOGS");
    assert!(prepared(&server)[0].contains("z-first"));
    let mended = engine::mend_branches(&login(&server), MS).await;
    let right = Mended {
        ended: 1,
        prepared: 1,
    };
    assert_eq!(mended, Ok(right));
    assert_eq!(client.value("SELECT w FROM d.t"), "z-first");
    client.run("XA COMMIT 'a-second', 'b', 9");
    assert_eq!(client.value("SELECT w FROM d.t"), "a-second");
}
