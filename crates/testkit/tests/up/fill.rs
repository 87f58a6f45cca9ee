//! Servers of `heddle up` that are filled with another one's files: by mariadb-backup on MariaDB, by the
//! clone plugin on MySQL.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::farm::{Farm, Member};
use testkit::{Client, Release, wait_until};

/// Copies and restarts on two busy cores.
const PATIENCE: Duration = Duration::from_secs(90);

/// A farm of three servers with these rows of 1000 bytes; `None` with a line that says why the test is
/// skipped.
fn farm(release: Release, doublings: u32, flags: &[&str]) -> Option<Farm> {
    if release == Release::Installed
        && let Ok(binary) = release.binary()
        && let Err(why) = mysqld::backup::Tool::find(&binary)
    {
        testkit::skip(&why);
        return None;
    }
    let farm = Farm::start_on(release, &[&["--replicas", "2"], flags].concat())?;
    let mut client = farm.client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(2000))");
    client.run("INSERT INTO d.t (v) VALUES (REPEAT('x', 1000))");
    for _ in 0..doublings {
        client.run("INSERT INTO d.t (v) SELECT v FROM d.t");
    }
    Some(farm)
}

fn checksum(member: &Member) -> Option<String> {
    let address = ([127, 0, 0, 1], member.port).into();
    let mut client = Client::connect(address, "root", "").ok()?;
    let reply = client.query("CHECKSUM TABLE d.t").ok()?;
    Some(format!("{reply:?}"))
}

#[track_caller]
fn all_equal(farm: &Farm) {
    wait_until(PATIENCE, "equal rows on three servers", || {
        let sums: Vec<_> = farm.members().iter().map(checksum).collect();
        sums.len() == 3 && sums.iter().all(|sum| sum.is_some() && *sum == sums[0])
    });
}

fn replicas(farm: &Farm) -> (Member, Member) {
    let primary = farm.primary("g1");
    let mut others = farm.members().into_iter();
    let mut next = || {
        others
            .find(|it| it.port != primary.port)
            .expect("a replica")
    };
    (next(), next())
}

/// Begins to fill a server anew; gives the job's id.
fn begin(farm: &Farm, member: &Member, more: &[&str]) -> String {
    let address = format!("127.0.0.1:{}", member.port);
    let words = [
        "server",
        "clone",
        "g1",
        &address,
        "--force=true",
        "--synchronous=false",
    ];
    let begun = farm.json(&[&words, more].concat());
    begun[0]["uuid"].as_str().expect("an id").to_owned()
}

fn job(farm: &Farm, id: &str) -> Value {
    farm.json(&["job", "show", id])[0].clone()
}

#[track_caller]
fn wait_done(farm: &Farm, id: &str) -> Value {
    wait_until(PATIENCE * 3, "the end of the job", || {
        let job = job(farm, id);
        assert_ne!(job["state"], "failed", "{job}");
        job["state"] == "done"
    });
    job(farm, id)
}

fn events(farm: &Farm, kind: &str) -> Vec<String> {
    let all = farm.json(&["group", "events", "g1"]);
    let of_kind = all.iter().filter(|event| event["event"] == kind);
    of_kind.map(ToString::to_string).collect()
}

/// Writes through the router until it is told to stop.
fn writer(farm: &Farm) -> (Arc<AtomicBool>, JoinHandle<u64>) {
    let stop = Arc::new(AtomicBool::new(false));
    let (mut client, stops) = (farm.client(), Arc::clone(&stop));
    let thread = std::thread::spawn(move || {
        let mut written = 0;
        while !stops.load(Ordering::Relaxed) {
            client.run("INSERT INTO d.t (v) VALUES ('while it is filled')");
            written += 1;
        }
        written
    });
    (stop, thread)
}

fn is_filled_while_clients_write(release: Release, method: &str) {
    let Some(farm) = farm(release, 14, &[]) else {
        return;
    };
    all_equal(&farm);
    let (stop, thread) = writer(&farm);
    let (replica, _) = replicas(&farm);
    // A prepared branch travels with the files; its end comes by replication.
    let mut owner = farm.primary("g1").client();
    for sql in ["XA START 'b'", "INSERT INTO d.t (v) VALUES ('branch')"] {
        owner.run(sql);
    }
    owner.run("XA END 'b'");
    owner.run("XA PREPARE 'b'");
    let id = begin(&farm, &replica, &[]);
    let job = wait_done(&farm, &id);
    assert_eq!(job["method"], method, "{job}");
    assert!(job["bytes"].as_u64() > Some(15_000_000), "{job}");
    assert!(job["bytes_total"].as_u64() > Some(15_000_000), "{job}");
    assert_eq!(replica.client().rows("XA RECOVER").len(), 1);
    owner.run("XA COMMIT 'b'");
    stop.store(true, Ordering::Relaxed);
    assert!(thread.join().expect("it ends") > 0);
    all_equal(&farm);
    let rows = farm.json(&["group", "lookup_servers", "g1"]);
    let secondaries = rows.iter().filter(|row| row["status"] == "SECONDARY");
    assert_eq!(secondaries.count(), 2, "{rows:?}");

    // It leads and loses nothing of what it got.
    let address = format!("127.0.0.1:{}", replica.port);
    farm.promote("g1", Some(&address));
    farm.client()
        .run("INSERT INTO d.t (v) VALUES ('by the filled one')");
    all_equal(&farm);
}

#[test]
fn a_mariadb_server_is_filled_by_a_backup_while_clients_write() {
    is_filled_while_clients_write(Release::Installed, "backup");
}

#[test]
fn a_mysql_server_is_filled_by_a_clone_while_clients_write() {
    is_filled_while_clients_write(Release::MySqlNewer, "clone");
}

/// A limit that leaves time for something to happen in the middle.
const SLOW: &[&str] = &["--set", "clone_mib_per_s_max=10"];

#[track_caller]
fn wait_half_way(farm: &Farm, id: &str) {
    wait_until(PATIENCE, "files under way", || {
        let job = job(farm, id);
        assert_eq!(job["state"], "running", "{job}");
        job["bytes"].as_u64().is_some_and(|bytes| bytes > 1_000_000)
    });
}

#[test]
fn a_recipient_that_dies_during_a_backup_gets_its_files_all_the_same() {
    let Some(farm) = farm(Release::Installed, 15, SLOW) else {
        return;
    };
    all_equal(&farm);
    let (replica, _) = replicas(&farm);
    let id = begin(&farm, &replica, &["--method=backup"]);
    wait_half_way(&farm, &id);
    replica.signal("KILL");
    let job = wait_done(&farm, &id);
    assert_eq!(job["method"], "backup", "{job}");
    assert!(events(&farm, "clone_repeated").is_empty());
    farm.client().run("INSERT INTO d.t (v) VALUES ('after')");
    all_equal(&farm);
}

#[test]
fn a_donor_that_dies_during_a_backup_is_asked_again_or_replaced() {
    let Some(farm) = farm(Release::Installed, 15, SLOW) else {
        return;
    };
    all_equal(&farm);
    let (replica, donor) = replicas(&farm);
    let source = format!("--source_id=127.0.0.1:{}", donor.port);
    let id = begin(&farm, &replica, &[&source]);
    wait_half_way(&farm, &id);
    donor.signal("KILL");
    wait_done(&farm, &id);
    let why = events(&farm, "clone_repeated");
    assert!(
        why.iter().any(|it| it.contains("mariadb-backup")),
        "{why:?}"
    );
    farm.client().run("INSERT INTO d.t (v) VALUES ('after')");
    all_equal(&farm);
}

#[test]
fn an_aborted_backup_leaves_the_server_as_it_was() {
    let Some(farm) = farm(Release::Installed, 15, SLOW) else {
        return;
    };
    all_equal(&farm);
    let (replica, _) = replicas(&farm);
    let before = replica.pid;
    let id = begin(&farm, &replica, &[]);
    wait_half_way(&farm, &id);
    farm.json(&["job", "abort", &id]);
    assert_eq!(job(&farm, &id)["state"], "aborted");
    assert_eq!(farm.member(&replica.name).pid, before, "it ran on");
    let address = format!("127.0.0.1:{}", replica.port);
    farm.json(&["server", "set_status", &address, "SPARE"]);
    farm.client().run("INSERT INTO d.t (v) VALUES ('after')");
    all_equal(&farm);
}

/// Prints what the methods do by the second. `FILL_DOUBLINGS` (20: about 1.2 GB of files) says how much.
#[test]
#[ignore = "a measurement: minutes, and gigabytes"]
fn how_fast_the_methods_are() {
    let doublings = std::env::var("FILL_DOUBLINGS").ok();
    let doublings = doublings.and_then(|text| text.parse().ok()).unwrap_or(20);
    for (release, fast) in [
        (Release::Installed, "backup"),
        (Release::MySqlNewer, "clone"),
    ] {
        let Some(farm) = farm(release, doublings, &[]) else {
            continue;
        };
        let (replica, _) = replicas(&farm);
        let version = replica.version.clone();
        for method in ["copy", fast, "copy", fast] {
            all_equal(&farm);
            let begun = Instant::now();
            let id = begin(&farm, &replica, &[&format!("--method={method}")]);
            let job = wait_done(&farm, &id);
            let whole_s = begun.elapsed().as_secs_f64();
            let mb = |value: &Value| value.as_u64().unwrap_or(0) / 1_000_000;
            let (bytes, rate) = (mb(&job["bytes"]), mb(&job["bytes_per_s"]));
            // Not a print macro: the test runner would swallow it.
            let _ = writeln!(
                std::io::stderr(),
                "{version} {method}: {bytes} MB, {rate} MB/s; {whole_s:.1} s until it follows"
            );
        }
    }
}
