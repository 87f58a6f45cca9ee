//! kill -9 of the primary under load, restart, and no acknowledged row is lost.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

use crate::plane::{PATIENCE, Plane, farm_with, wait_until_settled};
use farm::Status;
use testkit::client::Reply;
use testkit::{Client, Release, Server, connect_unless, holds_within, on_both_engines, wait_until};

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
            client = connect_unless(stop, || {
                let snapshot = published.load();
                let primary = snapshot.group("g")?.primary()?;
                let address = primary.address().parse().ok()?;
                Client::connect(address, "app", "").ok()
            });
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

/// Threads that write to whoever is the primary.
struct Writers {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Vec<u64>>>,
}

impl Writers {
    fn start(plane: &Plane) -> Writers {
        let stop = Arc::new(AtomicBool::new(false));
        let (next, acknowledged) = (Arc::new(AtomicU64::new(1)), Arc::default());
        let writer = |_| {
            let published = Arc::clone(&plane.published);
            let (stop, next) = (Arc::clone(&stop), Arc::clone(&next));
            let acknowledged = Arc::clone(&acknowledged);
            thread::spawn(move || write_until(&published, &stop, &next, &acknowledged))
        };
        Writers {
            threads: (0..4).map(writer).collect(),
            stop,
            acknowledged,
        }
    }

    /// Waits until so many more rows were acknowledged.
    #[track_caller]
    fn wait_rows(&self, what: &str) {
        let before = self.acknowledged.load(Relaxed);
        // A replica that is filled acknowledges nothing.
        wait_until(PATIENCE * 3, what, || {
            self.acknowledged.load(Relaxed) >= before + ROWS_PER_ROUND
        });
    }

    /// Gives the ids that were acknowledged.
    fn stop(mut self) -> Vec<u64> {
        self.stop.store(true, Relaxed);
        let threads = std::mem::take(&mut self.threads).into_iter();
        threads
            .flat_map(|it| it.join().expect("no panic"))
            .collect()
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        // Of a test that failed: others run beside it.
        self.stop.store(true, Relaxed);
    }
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
    let Some(mut servers) = Server::start_some(3, release, DURABLE) else {
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

    let writers = Writers::start(&plane);
    for round in 0..ROUNDS {
        writers.wait_rows(&format!("rows in round {round}"));
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
    writers.wait_rows("rows after the last kill");
    everywhere(&plane, &servers, &writers.stop());
}

/// Every acknowledged row is on every server, and all servers hold the same. What nobody acknowledged may
/// come late: from a primary that was fenced meanwhile.
fn everywhere(plane: &Plane, servers: &[Server], ids: &[u64]) {
    // One that is filled has no table for a while, and ends its clients.
    let rows = |server: &Server| {
        let mut client = Client::connect(server.address(), "root", "").ok()?;
        let replies = client.query("SELECT id FROM d.t ORDER BY id").ok()?;
        match replies.as_slice() {
            [Reply::Rows(rows)] => Some(rows.text()),
            _ => None,
        }
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

/// Writes rows to this server until it is gone; gives the ids that were acknowledged.
fn write_to(address: SocketAddr, next: &AtomicU64, acknowledged: &AtomicU64) -> Vec<u64> {
    let mut client = Client::connect(address, "app", "").expect("it answers");
    let mut ids = Vec::new();
    loop {
        let id = next.fetch_add(1, Relaxed);
        // Long, so that a replica does not have it at once.
        let row = format!("INSERT INTO d.t VALUES ({id}, REPEAT('x', 200000))");
        if client.query(row).is_err() {
            return ids;
        }
        ids.push(id);
        acknowledged.fetch_add(1, Relaxed);
    }
}

/// While a group has no replica, clients are told of commits that only the primary has. Whoever counts as a
/// replica then has all of them: a change of primary takes what replicas hold for all that was acknowledged.
fn who_counts_as_a_replica_has_what_was_acknowledged(release: Release) {
    let Some(mut servers) = Server::start_some(2, release, DURABLE) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = farm_with(dir.path(), &servers, |_| {});
    let mut client = servers[0].client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (id BIGINT PRIMARY KEY, v LONGBLOB)");
    client.run("CREATE USER app@'%'");
    client.run("GRANT ALL ON d.* TO app@'%'");
    plane.rows(&["group", "activate", "g"]);
    for server in &servers {
        wait_until_settled(server);
    }
    let second = servers[1].address().to_string();
    let stands = |status: &str| plane.call(&["server", "set_status", &second, status]);
    stands("FAULTY").expect("it is taken out");
    let (next, acknowledged) = (AtomicU64::new(1), AtomicU64::new(0));
    let address = servers[0].address();
    let primary = &mut servers[0];
    let ids = thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| write_to(address, &next, &acknowledged)))
            .collect();
        let rows = holds_within(PATIENCE, || acknowledged.load(Relaxed) >= ROWS_PER_ROUND);
        // It fails when the primary dies before all is done.
        scope.spawn(|| stands("SPARE"));
        let counts = holds_within(PATIENCE, || {
            let snapshot = plane.published.load();
            let servers = snapshot.groups.iter().flat_map(|group| &group.servers);
            let mut seconds = servers.filter(|it| it.address() == second);
            seconds.any(|it| it.status == Status::Spare)
        });
        // The writers end with it, whatever was found.
        primary.kill();
        let ended = writers.into_iter().map(|it| it.join().expect("no panic"));
        let ids: Vec<u64> = ended.flatten().collect();
        assert!(rows && counts, "rows that nobody else has, then a replica");
        ids
    });
    plane.wait_server("leads", &servers[1], |it| it.status == Status::Primary);
    let held = servers[1].client().rows("SELECT id FROM d.t");
    for id in ids {
        let wanted = vec![Some(id.to_string())];
        assert!(
            held.contains(&wanted),
            "row {id} was acknowledged and is lost"
        );
    }
}

on_both_engines!(who_counts_as_a_replica_has_what_was_acknowledged);
