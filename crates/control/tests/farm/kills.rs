//! kill -9 of the primary under load, restart, and no acknowledged row is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use crate::plane::{PATIENCE, Plane, farm_with};
use farm::Status;
use testkit::{Client, Release, Server, wait_until};

const ROUNDS: usize = 4;

/// Acknowledged rows before each kill.
const ROWS_PER_ROUND: u64 = 60;

/// Settings of a farm's servers: what the test relaxes for speed is what this test is about.
const DURABLE: &[(&str, &str)] = &[
    ("read_only", "ON"),
    ("sync_binlog", "1"),
    ("innodb_flush_log_at_trx_commit", "1"),
];

/// Writes rows to whoever is the primary; gives the ids that were acknowledged.
fn write_until(
    published: &farm::Published,
    stop: &AtomicBool,
    next: &AtomicU64,
    acknowledged: &AtomicU64,
) -> Vec<u64> {
    let mut ids = Vec::new();
    let mut client: Option<Client> = None;
    while !stop.load(Relaxed) {
        let Some(writer) = &mut client else {
            let snapshot = published.load();
            let primary = snapshot
                .group("g")
                .and_then(|group| group.primary().cloned());
            let address = primary.and_then(|primary| primary.address().parse().ok());
            client = address.and_then(|address| Client::connect(address, "app", "").ok());
            thread::yield_now();
            continue;
        };
        let id = next.fetch_add(1, Relaxed);
        if writer
            .query(format!("INSERT INTO d.t VALUES ({id})"))
            .is_ok()
        {
            ids.push(id);
            acknowledged.fetch_add(1, Relaxed);
        } else {
            client = None;
        }
    }
    ids
}

fn primary_of(plane: &Plane) -> Option<String> {
    let snapshot = plane.published.load();
    let primary = snapshot.group("g")?.primary()?;
    (primary.serves_writes() && !primary.health.read_only).then(|| primary.address())
}

/// Waits until a server that was killed leads again, or follows.
fn is_back(plane: &Plane, victim: &Server) {
    plane.wait_server("is back", victim, |it| match it.status {
        Status::Primary => it.health.alive && !it.health.read_only,
        _ => it.status == Status::Replica && it.health.io_running == Some(true),
    });
}

fn acknowledged_rows_survive_kills_of_the_primary(release: Release) {
    let servers = (0..3).map(|_| Server::start_with(release, DURABLE));
    let Some(mut servers) = servers.collect::<Option<Vec<Server>>>() else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    // What nobody was told of stays on a MySQL that restarts: it has to be filled anew, and one that is
    // left alone cannot fill others while its commits wait for them. MariaDB undoes it.
    let by_clone = release != Release::Installed;
    let rejoins = |it: &mut control::Settings| it.provision.rejoin_by_clone = by_clone;
    let plane = farm_with(dir.path(), &servers, rejoins);
    let mut client = servers[0].client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (id BIGINT PRIMARY KEY)");
    // Without SUPER, so that a read-only server refuses its rows.
    client.run("CREATE USER app@'%'");
    client.run("GRANT ALL ON d.* TO app@'%'");
    plane.rows(&["group", "activate", "g"]);

    let stop = Arc::new(AtomicBool::new(false));
    let next = Arc::new(AtomicU64::new(1));
    let acknowledged = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let published = Arc::clone(&plane.published);
            let (stop, next, acknowledged) = (
                Arc::clone(&stop),
                Arc::clone(&next),
                Arc::clone(&acknowledged),
            );
            thread::spawn(move || write_until(&published, &stop, &next, &acknowledged))
        })
        .collect();
    for round in 0..ROUNDS {
        let before = acknowledged.load(Relaxed);
        // A replica that is filled acknowledges nothing.
        wait_until(PATIENCE * 3, &format!("rows in round {round}"), || {
            acknowledged.load(Relaxed) >= before + ROWS_PER_ROUND
        });
        // A probe that came late says for a while that nobody takes writes.
        let mut found = None;
        wait_until(PATIENCE, "the one that takes the rows", || {
            found = primary_of(&plane);
            found.is_some()
        });
        let primary = found.expect("waited for");
        let victim = servers
            .iter_mut()
            .find(|server| server.address().to_string() == primary)
            .expect("one of ours");
        victim.kill();
        victim.restart();
        if by_clone {
            is_back(&plane, victim);
        }
    }
    wait_until(PATIENCE, "a primary after the last kill", || {
        primary_of(&plane).is_some()
    });
    let before = acknowledged.load(Relaxed);
    wait_until(PATIENCE * 3, "rows after the last kill", || {
        acknowledged.load(Relaxed) > before
    });
    stop.store(true, Relaxed);
    let mut ids = Vec::new();
    for writer in writers {
        ids.extend(writer.join().expect("no panic"));
    }
    everywhere(&plane, &servers, &ids);
}

/// Every acknowledged row is on every server, and all servers hold the same. What nobody acknowledged may
/// come late: from a primary that was fenced meanwhile.
fn everywhere(plane: &Plane, servers: &[Server], ids: &[u64]) {
    let rows = |server: &Server| {
        let mut client = server.client();
        // One that is filled has no table for a while.
        client.query("SELECT id FROM d.t ORDER BY id").ok()?;
        Some(client.rows("SELECT id FROM d.t ORDER BY id"))
    };
    let leader = || {
        let primary = primary_of(plane)?;
        servers
            .iter()
            .find(|it| it.address().to_string() == primary)
    };
    let mut held = Vec::new();
    wait_until(PATIENCE * 3, "equal rows everywhere", || {
        let Some(all) = leader().and_then(rows) else {
            return false;
        };
        held = all;
        servers.iter().all(|it| rows(it).as_ref() == Some(&held))
    });
    for id in ids {
        let wanted = vec![Some(id.to_string())];
        assert!(
            held.contains(&wanted),
            "row {id} was acknowledged and is lost"
        );
    }
}

#[test]
fn acknowledged_rows_survive_kills_of_the_primary_on_mariadb() {
    acknowledged_rows_survive_kills_of_the_primary(Release::Installed);
}

/// The writers go past every router: their server itself has to wait for a replica, so that semi-sync has
/// to be there.
#[test]
fn acknowledged_rows_survive_kills_of_the_primary_on_mysql() {
    acknowledged_rows_survive_kills_of_the_primary(Release::MySqlNewer);
}
