//! Parts of shard maps change their groups while clients read and write: no client sees an error, no row
//! is lost, doubled or read as it was before.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use faults::Stage;
use serde_json::Value;
use testkit::client::{Failure, Login, Reply};
use testkit::{Client, Farm, Release, wait_until};

/// For a move on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// Keys of counters; each writer has those that leave its number.
const KEYS: u64 = 48;
const WRITERS: u64 = 3;

fn app(farm: &Farm) -> Result<Client, Failure> {
    let login = Login {
        user: "app",
        password: "secret",
        database: Some("shop"),
        ..Login::default()
    };
    Client::login(farm.sql, &login)
}

/// A map of this kind with shards on g1 and g2, and g3 without any.
fn prepare(farm: &Farm, kind: &str, shards: &str) {
    let mut root = farm.client();
    root.run("CREATE DATABASE shop");
    root.run("CREATE USER app@'%' IDENTIFIED BY 'secret'");
    root.run("GRANT ALL ON shop.* TO app@'%'");
    root.run("CREATE TABLE shop.counters (k INT PRIMARY KEY, n BIGINT NOT NULL, pad VARCHAR(200))");
    root.run(
        "CREATE TABLE shop.log (id BIGINT AUTO_INCREMENT, k INT NOT NULL, at DATETIME(3) NOT NULL, \
         word VARCHAR(40) CHARACTER SET latin1, PRIMARY KEY (k, id), KEY (id))",
    );
    root.run("CREATE TABLE shop.names (id INT PRIMARY KEY, name VARCHAR(20))");
    farm.json(&["sharding", "create_definition", kind, "g1", "shop"]);
    farm.json(&["sharding", "add_shard", "shop", shards, "ENABLED"]);
    farm.json(&["sharding", "add_table", "shop", "shop.counters", "k"]);
    farm.json(&["sharding", "add_table", "shop", "shop.log", "k"]);
    farm.json(&["sharding", "add_global_table", "shop", "shop.names"]);
    for key in 0..KEYS {
        root.run(&format!(
            "INSERT INTO shop.counters VALUES ({key}, 0, REPEAT('x', 100))"
        ));
        root.run(&format!("INSERT INTO shop.names VALUES ({key}, 'n{key}')"));
    }
}

/// What the clients have found.
#[derive(Default)]
struct Load {
    over: AtomicBool,
    commits: AtomicU64,
    reads: AtomicU64,
    /// Commits by key; those whose answer was lost with the router may be one more.
    wrong: Mutex<Vec<String>>,
}

impl Load {
    fn complain(&self, what: String) {
        self.wrong.lock().expect("no panic").push(what);
        self.over.store(true, Ordering::Relaxed);
    }

    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed)
    }
}

/// One transaction of a writer: two counters, which may be on two groups, and their lines in the log.
fn write(client: &mut Client, keys: [u64; 2]) -> Result<(), Failure> {
    client.query("BEGIN")?;
    for key in keys {
        client.query(format!("UPDATE counters SET n = n + 1 WHERE k = {key}"))?;
        client.query(format!(
            "INSERT INTO log (k, at, word) VALUES ({key}, NOW(3), 'caf\u{e9}')"
        ))?;
    }
    client.query("COMMIT")?;
    Ok(())
}

fn number(client: &mut Client, sql: &str) -> Result<u64, Failure> {
    let replies = client.query(sql)?;
    let Some(Reply::Rows(rows)) = replies.first() else {
        return Ok(0);
    };
    let cell = rows
        .text()
        .first()
        .and_then(|row| row.first().cloned().flatten());
    Ok(cell.and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// Writes to keys of its own and reads them back.
fn writer(farm: &Farm, load: &Load, own: u64) -> Result<(), Failure> {
    let mut client = app(farm)?;
    let keys: Vec<u64> = (0..KEYS).filter(|key| key % WRITERS == own).collect();
    let mut counts = vec![0u64; keys.len()];
    let mut turn = 0;
    while load.goes_on() {
        let (one, two) = (turn % keys.len(), (turn * 7 + 3) % keys.len());
        turn += 1;
        if one == two {
            continue;
        }
        let (one, two) = (one.min(two), one.max(two));
        write(&mut client, [keys[one], keys[two]])?;
        load.commits.fetch_add(1, Ordering::Relaxed);
        for at in [one, two] {
            counts[at] += 1;
            let key = keys[at];
            let n = number(
                &mut client,
                &format!("SELECT n FROM counters WHERE k = {key}"),
            )?;
            let lines = number(
                &mut client,
                &format!("SELECT COUNT(*) FROM log WHERE k = {key}"),
            )?;
            if (n, lines) != (counts[at], counts[at]) {
                let wanted = counts[at];
                load.complain(format!(
                    "counter {key} is {n} with {lines} lines, not {wanted}"
                ));
            }
        }
        if turn % 8 == 0 {
            let name = format!("w{own}-{turn}");
            let key = keys[turn % keys.len()];
            client.query(format!("UPDATE names SET name = '{name}' WHERE id = {key}"))?;
        }
    }
    Ok(())
}

/// Adds everything up over all shards.
fn reader(farm: &Farm, load: &Load) -> Result<(), Failure> {
    let mut client = app(farm)?;
    let mut least = 0;
    while load.goes_on() {
        let counters = number(&mut client, "SELECT COUNT(*) FROM counters")?;
        let sum = number(&mut client, "SELECT SUM(n) FROM counters")?;
        let joined = "SELECT COUNT(*) FROM counters c JOIN names n ON n.id = c.k WHERE c.n >= 0";
        let joined = number(&mut client, joined)?;
        if (counters, joined) != (KEYS, KEYS) || sum < least {
            load.complain(format!(
                "{counters} counters, {joined} names, sum {sum} behind {least}"
            ));
        }
        least = sum;
        load.reads.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Runs the load while `change` works.
fn under_load(farm: &Farm, change: impl FnOnce(&Load)) {
    let load = Load::default();
    std::thread::scope(|scope| {
        for own in 0..WRITERS {
            let load = &load;
            scope.spawn(move || {
                if let Err(failure) = writer(farm, load, own) {
                    load.complain(format!("writer {own}: {failure}"));
                }
            });
        }
        let other = &load;
        scope.spawn(move || {
            if let Err(failure) = reader(farm, other) {
                other.complain(format!("reader: {failure}"));
            }
        });
        let _end = End(&load);
        more(&load);
        change(&load);
        more(&load);
    });
    let wrong = load.wrong.into_inner().expect("no panic");
    assert_eq!(wrong, Vec::<String>::new());
}

/// Waits until the clients have done something more.
fn more(load: &Load) {
    let before = [&load.commits, &load.reads].map(|it| it.load(Ordering::Relaxed));
    wait_until(PATIENCE, "clients that go on", || {
        let now = [&load.commits, &load.reads].map(|it| it.load(Ordering::Relaxed));
        (now[0] > before[0] + 10 && now[1] > before[1] + 3) || !load.goes_on()
    });
}

struct End<'a>(&'a Load);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
    }
}

/// What `sharding verify` finds, and what rows there are of the map's tables past Heddle.
fn check(farm: &Farm) {
    let found = farm.json(&["sharding", "verify"]);
    assert_eq!(found, Vec::<Value>::new());
    let mut client = farm.client();
    let counters = client.value("SELECT SUM(n) FROM shop.counters");
    let lines = client.value("SELECT COUNT(*) FROM shop.log");
    assert_eq!(counters, lines);
    let members = farm.members();
    let primaries = members
        .iter()
        .filter(|it| it.client().value("SELECT @@read_only") == "0");
    let rows = primaries.map(|member| {
        let sql = "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA='shop'";
        match member.client().value(sql).as_str() {
            "0" => 0,
            _ => member
                .client()
                .value("SELECT COUNT(*) FROM shop.counters")
                .parse::<u64>()
                .expect("a number"),
        }
    });
    assert_eq!(rows.sum::<u64>(), KEYS);
}

fn moves(release: Release) {
    // Clients wait for a cut as long as it takes on a machine that is busy.
    let wait = "failover_wait_ms=120000";
    let mut flags = vec!["--groups", "3", "--replicas", "0", "--set", wait];
    flags.extend(release.xa_flags());
    let Some(farm) = Farm::start_on(release, &flags) else {
        return;
    };
    prepare(&farm, "SLOTS", "g1,g2");
    under_load(&farm, |_| {
        // To a group without any, in halves, and onto one that has some.
        farm.json(&["sharding", "move_shard", &farm.shard_on("g2"), "g3"]);
        farm.json(&["sharding", "split_shard", &farm.shard_on("g3"), "g2"]);
        farm.json(&["sharding", "move_shard", &farm.shard_on("g1"), "g2"]);
        farm.json(&[
            "sharding",
            "split_shard",
            &farm.shard_on("g2"),
            "g1",
            "--split_value=4000",
        ]);
    });
    check(&farm);
}

#[test]
fn slots_move_under_load() {
    moves(Release::Installed);
}

#[test]
fn slots_move_under_load_on_mysql() {
    moves(Release::MySql80);
}

#[test]
fn ranges_are_split_and_what_is_in_the_way_is_said() {
    let flags = ["--groups", "3", "--replicas", "1"];
    let Some(farm) = Farm::start(&flags) else {
        return;
    };
    prepare(&farm, "RANGE", "g1/0");
    let one = farm.shard_on("g1");
    let split = ["sharding", "split_shard", &one, "g2"];
    refused(&farm, &split, "--split_value");
    let below = ["sharding", "split_shard", &one, "g2", "--split_value=0"];
    refused(&farm, &below, "not within shard");
    refused(&farm, &["sharding", "move_shard", &one, "g1"], "already");
    refused(&farm, &["sharding", "move_shard", &one, "g9"], "g9");
    under_load(&farm, |_| {
        farm.json(&["sharding", "split_shard", &one, "g2", "--split_value=20"]);
        let two = farm.shard_on("g2");
        farm.json(&["sharding", "move_shard", &two, "g3"]);
    });
    check(&farm);
    let three = farm.shard_on("g3");
    refused(
        &farm,
        &["sharding", "move_shard", &three, "g1"],
        "has shard",
    );
    farm.json(&["sharding", "disable_shard", &three]);
    refused(
        &farm,
        &["sharding", "move_shard", &three, "g2"],
        "is disabled",
    );
    farm.json(&["sharding", "enable_shard", &three]);
    // Past Heddle, where nobody looks for it.
    let mut g2 = farm.primary("g2").client();
    g2.run("INSERT INTO shop.log (k, at) VALUES (25, NOW())");
    for resumed in [false, true] {
        let back = ["sharding", "move_shard", &three, "g2"];
        refused(&farm, &back, "has rows already");
        let job = last_job(&farm);
        assert_eq!(job["state"], "failed");
        let id = job["uuid"].as_str().expect("a text").to_owned();
        refused(&farm, &back, "moves a part of map");
        refused(&farm, &["job", "pause", &id], "is failed");
        if !resumed {
            farm.json(&["job", "abort", &id]);
            assert_eq!(last_job(&farm)["state"], "aborted");
            continue;
        }
        g2.run("DELETE FROM shop.log WHERE k = 25");
        farm.json(&["job", "resume", &id]);
        wait_until(PATIENCE, "the end of the move", || {
            last_job(&farm)["state"] == "done"
        });
    }
    check(&farm);
}

#[test]
fn a_router_that_dies_anywhere_goes_on() {
    let flags = ["--groups", "3", "--replicas", "0"];
    let Some(mut farm) = Farm::start(&flags) else {
        return;
    };
    prepare(&farm, "SLOTS", "g1,g2");
    for (at, stage) in Stage::ALL.into_iter().enumerate() {
        let (from, to) = match at % 2 {
            0 => ("g2", "g3"),
            _ => ("g3", "g2"),
        };
        let mut client = app(&farm).expect("a login");
        for key in 0..KEYS {
            client.run(&format!("UPDATE counters SET n = n + 1 WHERE k = {key}"));
            client.run(&format!("INSERT INTO log (k, at) VALUES ({key}, NOW(3))"));
        }
        let file = farm.faults().join(stage.name());
        std::fs::write(&file, "kill 0").expect("a directory");
        let shard = farm.shard_on(from);
        // Its answer may be lost with the router.
        farm.command(&["sharding", "move_shard", &shard, to, "--synchronous=false"]);
        let taken = farm.faults().join(format!("{}.taken", stage.name()));
        wait_until(PATIENCE, stage.name(), || taken.exists());
        farm.kill_up();
        farm.start_again();
        wait_until(PATIENCE, "the end of the move", || {
            last_job(&farm)["state"] == "done"
        });
        assert_eq!(farm.shard_on(to), shard, "{}", stage.name());
        check(&farm);
    }
}

/// A statement that no session has any more, as of a router that died, may run on at its server for long: the map does not change
/// before it has ended.
fn a_move_waits_for_writers_of_nobody(release: Release) {
    let flags = ["--groups", "3", "--replicas", "0"];
    let Some(farm) = Farm::start_on(release, &[&flags[..], release.xa_flags()].concat()) else {
        return;
    };
    prepare(&farm, "SLOTS", "g1,g2");
    let mut left_behind = farm.primary("g2").client();
    let key = left_behind.value("SELECT MIN(k) FROM shop.counters");
    left_behind.run("BEGIN");
    left_behind.run(&format!("UPDATE shop.counters SET n = 77 WHERE k = {key}"));
    let shard = farm.shard_on("g2");
    let words = [
        "move_shard",
        &*shard,
        "g3",
        "--hold_ms=1000",
        "--synchronous=false",
    ];
    farm.json(&[&["sharding"], &words[..]].concat());
    let number: u64 = shard.parse().expect("a number");
    wait_until(PATIENCE, "a move that waits", || {
        let shards = farm.json(&["sharding", "list_shards"]);
        let stays = |it: &Value| it["shard_id"] == number && it["group_id"] == "g2";
        assert!(shards.iter().any(stays), "the map changed meanwhile");
        last_job(&farm)
            .to_string()
            .contains("writers that are no session's")
    });
    left_behind.run("COMMIT");
    wait_until(PATIENCE, "the end of the move", || {
        last_job(&farm)["state"] == "done"
    });
    let mut client = app(&farm).expect("a login");
    let value = client.value(&format!("SELECT n FROM counters WHERE k = {key}"));
    assert_eq!(value, "77");
}

/// The target's primary is exchanged while both sides are compared at it: what is brought from then on comes to the new one.
fn a_move_goes_on_at_another_primary_of_its_target(release: Release) {
    let flags = ["--groups", "3", "--replicas", "1"];
    let Some(farm) = Farm::start_on(release, &[&flags[..], release.xa_flags()].concat()) else {
        return;
    };
    prepare(&farm, "SLOTS", "g1,g2");
    let mut late = farm.primary("g2").client();
    let key = late.value("SELECT MIN(k) FROM shop.counters");
    late.run("BEGIN");
    late.run(&format!("UPDATE shop.counters SET n = 77 WHERE k = {key}"));
    let shard = farm.shard_on("g2");
    let words = [
        "move_shard",
        &*shard,
        "g3",
        "--hold_ms=60000",
        "--synchronous=false",
    ];
    farm.json(&[&["sharding"], &words[..]].concat());
    wait_until(PATIENCE, "the cut", || last_job(&farm)["step"] == "cut");
    let before = farm.primary("g3");
    farm.json(&["group", "promote", "g3"]);
    late.run("COMMIT");
    wait_until(PATIENCE, "the end of the move", || {
        last_job(&farm)["state"] == "done"
    });
    assert_ne!(farm.primary("g3").name, before.name);
    let mut client = app(&farm).expect("a login");
    let value = client.value(&format!("SELECT n FROM counters WHERE k = {key}"));
    assert_eq!(value, "77");
}

testkit::on_both_engines! {
    a_move_waits_for_writers_of_nobody,
    a_move_goes_on_at_another_primary_of_its_target,
}

/// The move that was begun last.
fn last_job(farm: &Farm) -> Value {
    let mut jobs = farm.json(&["job", "list"]);
    let started = |job: &Value| job["started"].as_str().unwrap_or_default().to_owned();
    jobs.sort_by_key(started);
    jobs.pop().expect("a job")
}

fn refused(farm: &Farm, words: &[&str], wanted: &str) {
    let output = farm.command(words);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let refused = !output.status.success() && text.contains(wanted);
    assert!(refused, "{words:?}: {text}");
}
