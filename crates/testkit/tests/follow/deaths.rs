//! A replica follows a group over the deaths of its primaries, a switch-over and the router's own end: it has each
//! transaction once, and its tables are those of the group.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;

use testkit::{Farm, Release, grow_rows, wait_until};

use crate::replica::{Replica, SOON, checksum};

const WRITERS: i64 = 4;

/// Between two events so many statements are acknowledged.
const STATEMENTS: usize = 150;

/// The last row.
const LAST: i64 = -1;

fn writes_go_on(done: &AtomicUsize) {
    let before = done.load(Relaxed);
    wait_until(SOON, "statements are acknowledged", || {
        done.load(Relaxed) > before + STATEMENTS
    });
}

fn is_whole(farm: &Farm) {
    wait_until(SOON, "both replicas are there", || {
        let servers = farm.json(&["group", "lookup_servers", "g1"]);
        let replicas = servers.iter().filter(|it| it["status"] == "SECONDARY");
        replicas.count() == 2 && farm.primary_of("g1").is_some()
    });
}

fn kill_the_primary(farm: &Farm, done: &AtomicUsize) {
    writes_go_on(done);
    let primary = farm.primary("g1");
    primary.signal("KILL");
    wait_until(SOON, "another primary", || {
        farm.primary_of("g1")
            .is_some_and(|it| it.pid != primary.pid)
    });
    writes_go_on(done);
    is_whole(farm);
}

fn switch_over(farm: &Farm, done: &AtomicUsize) {
    let before = farm.primary("g1");
    farm.promote("g1", None);
    let after = farm.primary("g1");
    assert_ne!(before.port, after.port);
    writes_go_on(done);
    is_whole(farm);
}

fn follows(release: Release, more: &[(&str, &str)]) {
    let Some(mut farm) = Farm::start_on(release, &[]) else {
        return;
    };
    let Some(replica) = Replica::of(release, farm.sql, more) else {
        return;
    };
    let mut client = farm.client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (id BIGINT PRIMARY KEY, v INT)");
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (address, stop) = (farm.sql, Arc::clone(&stop));
            let done: Arc<AtomicUsize> = Arc::clone(&done);
            thread::spawn(move || grow_rows(address, writer, &stop, &done))
        })
        .collect();
    kill_the_primary(&farm, &done);
    switch_over(&farm, &done);
    farm.kill_up();
    farm.start_again();
    writes_go_on(&done);
    kill_the_primary(&farm, &done);
    stop.store(true, Relaxed);
    for writer in writers {
        writer.join().expect("it writes");
    }
    let mut client = farm.client();
    client.run(&format!("INSERT INTO d.t VALUES ({LAST}, 0)"));
    replica.reaches("d.t", LAST);
    replica.is_sound();
    let mut own = replica.server.client();
    let count: usize = own
        .value("SELECT COUNT(*) FROM d.t")
        .parse()
        .expect("a number");
    assert!(count > STATEMENTS, "{count}");
    assert_eq!(checksum(&mut own, "d.t"), checksum(&mut client, "d.t"));
    // As a server lists it.
    let hosts = client.rows("SHOW SLAVE HOSTS");
    let has = |row: &Vec<Option<String>>| row[0].as_deref() == Some("990");
    assert!(hosts.iter().any(has), "{hosts:?}");
    let dumps = |row: &&Vec<Option<String>>| {
        row[4]
            .as_deref()
            .is_some_and(|command| command.starts_with("Binlog Dump"))
    };
    // A connection that the replica has left is there for a moment more.
    wait_until(SOON, "one dump", || {
        let list = client.rows("SHOW PROCESSLIST");
        list.iter().filter(dumps).count() == 1
    });
}

#[test]
fn a_replica_follows_a_group_on_mariadb() {
    follows(Release::Installed, &[]);
}

#[test]
fn a_replica_that_does_not_acknowledge_follows_a_group_on_mariadb() {
    follows(
        Release::Installed,
        &[("rpl_semi_sync_slave_enabled", "OFF")],
    );
}

#[test]
fn a_replica_follows_a_group_on_mysql() {
    follows(Release::newest_mysql(), &[]);
}
