//! A transaction that waits for its acknowledgement, and that a replica has applied, on real servers.

use std::time::Duration;

use crate::root::{MS, link, login};
use farm::Engine;
use testkit::{Release, Server, wait_until};

const PATIENCE: Duration = Duration::from_secs(30);

/// A transaction that is under way on the primary is not errant on a replica. One that only the replica wrote is errant.
async fn is_not_errant(release: Release) {
    let (Some(primary), Some(replica)) = (Server::start(release), Server::start(release)) else {
        return;
    };
    let mut of_replica = link(&replica).await;
    engine::make_replica(&mut of_replica, &login(&primary), MS)
        .await
        .expect("it follows");
    // It receives, and never says so.
    let mut client = replica.client();
    for sql in [
        "STOP SLAVE",
        "SET GLOBAL rpl_semi_sync_slave_enabled = 0",
        "START SLAVE",
    ] {
        client.run(sql);
    }
    let mut client = primary.client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (v INT PRIMARY KEY)");
    let mut there = replica.client();
    wait_until(PATIENCE, "the replica has the table", || {
        there.query("SELECT COUNT(*) FROM d.t").is_ok()
    });
    client.run("SET GLOBAL rpl_semi_sync_master_timeout = 4000000");
    client.run("SET GLOBAL rpl_semi_sync_master_wait_no_slave = 1");
    client.run("SET GLOBAL rpl_semi_sync_master_enabled = 1");
    // Two, so that more than one is under way.
    let waiting: Vec<_> = (1..=2)
        .map(|v| {
            let mut client = primary.client();
            std::thread::spawn(move || client.query(format!("INSERT INTO d.t VALUES ({v})")))
        })
        .collect();
    wait_until(PATIENCE, "the replica has applied one", || {
        there.value("SELECT COUNT(*) FROM d.t") != "0"
    });
    assert_eq!(client.value("SELECT COUNT(*) FROM d.t"), "0");
    let mut of_primary = link(&primary).await;
    let found = engine::divergence(&mut of_replica, &mut of_primary, MS).await;
    let found = found.expect("both answer");
    assert_eq!((found.errant.as_str(), found.count), ("", 0));

    if replica.engine() == Engine::MySql {
        there.run("SET GLOBAL super_read_only = 0");
    }
    there.run("SET GLOBAL read_only = 0");
    there.run("INSERT INTO d.t VALUES (99)");
    let found = engine::divergence(&mut of_replica, &mut of_primary, MS).await;
    assert_eq!(found.expect("both answer").count, 1);

    client.run("SET GLOBAL rpl_semi_sync_master_enabled = 0");
    for thread in waiting {
        thread.join().expect("no panic").expect("it ends");
    }
}

#[tokio::test]
async fn what_is_under_way_is_not_errant_on_mariadb() {
    is_not_errant(Release::Installed).await;
}

#[tokio::test]
async fn what_is_under_way_is_not_errant_on_mysql() {
    is_not_errant(Release::MySqlNewer).await;
}
