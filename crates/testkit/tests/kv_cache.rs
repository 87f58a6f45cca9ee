//! The row cache of the key-value door: what it remembers, when it does not, and that nobody reads
//! anything older than promised while rows change by every way that there is.
//!
//! `KV_READS` says how many reads the proof makes (`make test-kv`).

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use faults::Plant;
use serde_json::Value;
use testkit::{Client, Farm, Release, holds_within, wait_until};

/// On a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// No answer is older than this; the farms here say so of their replicas, too.
const BOUND: Duration = Duration::from_secs(1);

const KEYS: usize = 200;

/// A memcached client.
struct Kv(BufReader<TcpStream>);

impl Kv {
    #[track_caller]
    fn connect(address: SocketAddr) -> Kv {
        let stream = TcpStream::connect(address).expect("the door listens");
        let limited = stream.set_read_timeout(Some(PATIENCE));
        limited.expect("a socket has time limits");
        Kv(BufReader::new(stream))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("the door answers");
        line.truncate(line.trim_end().len());
        line
    }

    #[track_caller]
    fn say(&mut self, text: &str) {
        let said = self.0.get_mut().write_all(text.as_bytes());
        said.expect("the door takes it");
    }

    /// Items by their keys, or the error.
    fn gets(&mut self, keys: &str) -> Result<Vec<(String, String)>, String> {
        self.say(&format!("get {keys}\r\n"));
        let mut items = Vec::new();
        loop {
            let head = self.line();
            let mut words = head.split(' ');
            match words.next() {
                Some("VALUE") => {
                    let key = words.next().unwrap_or_default().to_owned();
                    items.push((key, self.line()));
                }
                Some("END") => return Ok(items),
                _ => return Err(head),
            }
        }
    }

    fn get(&mut self, key: &str) -> Option<String> {
        let items = self.gets(key).expect("it can be read");
        items.into_iter().next().map(|(_, value)| value)
    }

    fn set(&mut self, key: &str, value: &str) -> String {
        self.say(&format!("set {key} 0 0 {}\r\n{value}\r\n", value.len()));
        self.line()
    }
}

fn farm(release: Release, replicas: &str) -> Option<Farm> {
    let farm = Farm::start_on(
        release,
        &["--replicas", replicas, "--set", "max_lag_ms=1000"],
    )?;
    let mut client = farm.client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (id INT UNSIGNED PRIMARY KEY, v VARCHAR(40) NOT NULL)");
    for (name, level) in [("fast", "eventual"), ("sure", "session")] {
        let made = farm.command(&[
            "kv",
            "create",
            name,
            "--table=d.t",
            "--key=id",
            "--values=v",
            "--cache_bytes=4000000",
            &format!("--consistency={level}"),
        ]);
        assert!(made.status.success(), "{made:?}");
    }
    Some(farm)
}

/// What `kv cache` says of a container.
fn cache(farm: &Farm, container: &str) -> Value {
    let rows = farm.json(&["kv", "cache"]);
    let found = rows.into_iter().find(|row| row["name"] == container);
    found.unwrap_or(Value::Null)
}

fn number(row: &Value, name: &str) -> u64 {
    row[name].as_u64().unwrap_or(0)
}

fn is_open(farm: &Farm, container: &str) {
    let open = || cache(farm, container)["state"] == "open";
    wait_until(PATIENCE, "the cache is open", open);
}

/// Gets until the cache has answered.
fn is_remembered(farm: &Farm, kv: &mut Kv, container: &str, key: &str, value: &str) {
    wait_until(PATIENCE, "the row is remembered", || {
        let before = number(&cache(farm, container), "hits");
        let got = kv.get(&format!("@@{container}.{key}"));
        got.as_deref() == Some(value) && number(&cache(farm, container), "hits") > before
    });
}

fn remembers_and_forgets(release: Release) {
    let Some(farm) = farm(release, "1") else {
        return;
    };
    let mut client = farm.client();
    client.run("INSERT INTO d.t VALUES (1, 'one'), (4000000000, 'big')");
    let mut kv = Kv::connect(farm.kv);
    is_open(&farm, "sure");
    is_remembered(&farm, &mut kv, "sure", "1", "one");
    is_remembered(&farm, &mut kv, "sure", "4000000000", "big");
    answers_in_order(&mut client, &mut kv);
    // A client's own change is seen at once, everybody else's soon.
    assert_eq!(kv.set("@@sure.1", "two"), "STORED");
    assert_eq!(kv.get("@@sure.1").as_deref(), Some("two"));
    is_remembered(&farm, &mut kv, "sure", "1", "two");
    client.run("UPDATE d.t SET v = 'three' WHERE id = 1");
    wait_until(PATIENCE, "the change is seen", || {
        kv.get("@@sure.1").as_deref() == Some("three")
    });
    is_remembered(&farm, &mut kv, "sure", "1", "three");
    // By an XA transaction, whose rows count when it is committed.
    for sql in [
        "XA START 'x'",
        "UPDATE d.t SET v = 'four' WHERE id = 1",
        "XA END 'x'",
        "XA PREPARE 'x'",
    ] {
        client.run(sql);
    }
    is_remembered(&farm, &mut kv, "sure", "1", "three");
    client.run("XA COMMIT 'x'");
    wait_until(PATIENCE, "the branch is seen", || {
        kv.get("@@sure.1").as_deref() == Some("four")
    });
    // DDL empties, and the cache opens again.
    is_remembered(&farm, &mut kv, "sure", "1", "four");
    client.run("ALTER TABLE d.t ADD COLUMN extra INT FIRST");
    client.run("UPDATE d.t SET v = 'five' WHERE id = 1");
    wait_until(PATIENCE, "the change is seen", || {
        kv.get("@@sure.1").as_deref() == Some("five")
    });
    is_open(&farm, "sure");
    is_remembered(&farm, &mut kv, "sure", "1", "five");
    answers_sql(&farm, &mut client);
    client.run("TRUNCATE d.t");
    let gone = || kv.get("@@sure.1").is_none();
    wait_until(PATIENCE, "it is gone", gone);
    says_why_not(&farm, &mut client);
}

/// What is remembered waits for what is not, and no number of replies is too large.
fn answers_in_order(client: &mut Client, kv: &mut Kv) {
    client.run("INSERT INTO d.t VALUES (2, 'new')");
    let some = kv.gets("@@sure.1 @@sure.2 @@sure.3 @@sure.1");
    let item = |key: &str, value: &str| (format!("@@sure.{key}"), value.to_owned());
    let expected = [item("1", "one"), item("2", "new"), item("1", "one")];
    assert_eq!(some, Ok(expected.to_vec()));
    const MANY: usize = 6000;
    let many = kv.gets(&["@@sure.1"; MANY].join(" "));
    assert_eq!(many, Ok(vec![item("1", "one"); MANY]));
    kv.say(&"get @@sure.1\r\n".repeat(MANY));
    for _ in 0..MANY {
        let reply = [kv.line(), kv.line(), kv.line()];
        assert_eq!(reply, ["VALUE @@sure.1 0 3", "one", "END"]);
    }
}

/// Point SELECTs of who asks for it are answered as well, and never with what is old.
fn answers_sql(farm: &Farm, client: &mut Client) {
    let mut asking = farm.client();
    asking.run("SET heddle_row_cache = ON");
    assert_eq!(asking.value("SELECT @@heddle_row_cache"), "1");
    let asked = |client: &mut Client| client.value("SELECT v FROM d.t WHERE id = 1");
    for turn in 0..20 {
        let value = format!("sql {turn}");
        client.run(&format!("UPDATE d.t SET v = '{value}' WHERE id = 1"));
        wait_until(PATIENCE, "the change is seen", || {
            asked(&mut asking) == value
        });
        // Its own change is seen at once.
        asking.run(&format!("UPDATE d.t SET v = 'own {turn}' WHERE id = 1"));
        assert_eq!(asked(&mut asking), format!("own {turn}"));
    }
    asking.run("BEGIN");
    assert_eq!(asked(&mut asking), "own 19");
    asking.run("ROLLBACK");
    assert!(
        asking
            .query("SELECT v, NOW() FROM d.t WHERE id = 1")
            .is_ok()
    );
    wait_until(PATIENCE, "the cache answers", || {
        let before = hits(client);
        asked(&mut asking);
        hits(client) > before
    });
    client.run("UPDATE d.t SET v = 'five' WHERE id = 1");
}

fn hits(client: &mut Client) -> u64 {
    let rows = client.rows("HEDDLE STATUS LIKE 'cache_hits'");
    rows[0][1]
        .as_deref()
        .map_or(0, |hits| hits.parse().expect("a number"))
}

/// Tables whose changes no binlog tells are not remembered.
fn says_why_not(farm: &Farm, client: &mut Client) {
    client.run("CREATE TABLE d.p (id INT PRIMARY KEY)");
    client.run(
        "CREATE TABLE d.c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES d.p (id) \
         ON DELETE SET NULL)",
    );
    let words = "kv create child --table=d.c --key=id --values=p --cache_bytes=1000000";
    let words: Vec<&str> = words.split(' ').collect();
    assert!(farm.command(&words).status.success());
    wait_until(PATIENCE, "the reason is told", || {
        let state = cache(farm, "child")["state"].clone();
        state.as_str().is_some_and(|s| s.contains("SET NULL"))
    });
    let strong = farm.command(&[words.as_slice(), &["--consistency=strong"]].concat());
    assert!(!strong.status.success());
    assert!(String::from_utf8_lossy(&strong.stderr).contains("leave out cache_bytes"));
}

#[test]
fn remembers_and_forgets_on_mariadb() {
    remembers_and_forgets(Release::Installed);
}

#[test]
fn remembers_and_forgets_on_mysql() {
    remembers_and_forgets(Release::MySql80);
}

/// What is known of one key: versions that were sent, and when which was acknowledged.
#[derive(Default)]
struct Known {
    sent: AtomicU64,
    acknowledged: Mutex<VecDeque<(Instant, u64)>>,
}

impl Known {
    fn next(&self) -> u64 {
        self.sent.fetch_add(1, SeqCst) + 1
    }

    fn acknowledge(&self, version: u64) {
        let mut all = self.acknowledged.lock().expect("no test panics in here");
        let now = Instant::now();
        all.push_back((now, version));
        while all.len() > 1 && now.duration_since(all[1].0) > 4 * BOUND {
            all.pop_front();
        }
    }

    /// The last version that was acknowledged before this moment.
    fn before(&self, moment: Instant) -> u64 {
        let all = self.acknowledged.lock().expect("no test panics in here");
        let known = all.iter().take_while(|(at, _)| *at <= moment);
        known.map(|(_, version)| *version).max().unwrap_or(0)
    }
}

/// Readers and writers of one farm, and what they found.
struct Proof {
    keys: Vec<Known>,
    over: AtomicBool,
    reads: AtomicU64,
    writes: AtomicU64,
    wrong: Mutex<Vec<String>>,
}

impl Proof {
    fn new() -> Arc<Proof> {
        Arc::new(Proof {
            keys: (0..KEYS).map(|_| Known::default()).collect(),
            over: AtomicBool::new(false),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            wrong: Mutex::default(),
        })
    }

    fn is_over(&self) -> bool {
        self.over.load(SeqCst)
    }

    fn wrong(&self, what: String) {
        let mut wrong = self.wrong.lock().expect("no test panics in here");
        if wrong.len() < 20 {
            wrong.push(what);
        }
    }

    fn found(&self) -> Vec<String> {
        self.wrong.lock().expect("no test panics in here").clone()
    }

    /// Writes its own keys by SQL, again and again, where `connect` leads.
    fn write_by_sql(&self, from: usize, of: usize, connect: impl Fn() -> Option<Client>) {
        let mut client = connect();
        let mut turn = from;
        while !self.is_over() {
            let key = turn % KEYS / of * of + from;
            turn += of;
            let Some(open) = &mut client else {
                client = connect();
                continue;
            };
            let version = self.keys[key].next();
            let sql = format!("UPDATE d.t SET v = '{version}' WHERE id = {key}");
            match open.query(&sql) {
                Ok(_) => {
                    self.keys[key].acknowledge(version);
                    self.writes.fetch_add(1, SeqCst);
                }
                Err(_) => client = connect(),
            }
        }
    }

    /// Sets its own keys and reads them back.
    fn write_by_key(&self, address: SocketAddr, from: usize, of: usize) {
        let mut kv = Kv::connect(address);
        let mut turn = from;
        while !self.is_over() {
            let key = turn % KEYS / of * of + from;
            turn += of;
            let version = self.keys[key].next();
            let name = format!("@@sure.{key}");
            if kv.set(&name, &version.to_string()) != "STORED" {
                continue;
            }
            self.keys[key].acknowledge(version);
            self.writes.fetch_add(1, SeqCst);
            if let Ok(items) = kv.gets(&name) {
                let got = items.first().map(|(_, value)| value.clone());
                if got.as_deref() != Some(&version.to_string()) {
                    self.wrong(format!(
                        "key {key}: {version} was set, {got:?} was read back"
                    ));
                }
            }
        }
    }

    /// Reads all keys, again and again.
    fn read(&self, address: SocketAddr, container: &str) {
        let mut kv = Kv::connect(address);
        let mut seen = vec![0; KEYS];
        let names: Vec<String> = (0..KEYS).map(|key| key.to_string()).collect();
        let halves = [names[..KEYS / 2].join(" "), names[KEYS / 2..].join(" ")];
        assert!(kv.gets(&format!("@@{container}")).is_ok());
        while !self.is_over() {
            for keys in &halves {
                let began = Instant::now();
                let Ok(items) = kv.gets(keys) else { continue };
                self.reads.fetch_add(items.len() as u64, SeqCst);
                for (key, value) in items {
                    let key: usize = key.parse().expect("keys are numbers");
                    let version: u64 = value.parse().expect("values are numbers");
                    self.check(key, version, began, &mut seen[key]);
                }
            }
        }
    }

    fn check(&self, key: usize, version: u64, began: Instant, seen: &mut u64) {
        if version < *seen {
            self.wrong(format!("key {key}: {version} after {seen}"));
        }
        if version > self.keys[key].sent.load(SeqCst) {
            self.wrong(format!("key {key}: {version} was never written"));
        }
        let least = began.checked_sub(BOUND).map(|at| self.keys[key].before(at));
        if least.is_some_and(|least| version < least) {
            self.wrong(format!(
                "key {key}: {version} a second after {least:?} was acknowledged"
            ));
        }
        *seen = (*seen).max(version);
    }
}

fn reads_wanted() -> u64 {
    let given = std::env::var("KV_READS").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(200_000)
}

/// Loads the farm until so many rows were read, and longer if `until` says so; everything that was
/// wrong.
fn load(farm: &Farm, reads: u64, mut meanwhile: impl FnMut(&Proof)) -> Vec<String> {
    let proof = Proof::new();
    let mut client = farm.client();
    for key in 0..KEYS {
        client.run(&format!("INSERT INTO d.t VALUES ({key}, '0')"));
    }
    is_open(farm, "fast");
    is_open(farm, "sure");
    // Whom read_only holds up.
    client.run("CREATE USER other@'%'");
    client.run("GRANT SELECT, UPDATE ON d.* TO other@'%'");
    let (sql, kv) = (farm.sql, farm.kv);
    let primary = primary_port(farm);
    let tried = AtomicBool::new(false);
    thread::scope(|scope| {
        let (proof, tried) = (&*proof, &tried);
        let through = move || Client::connect(sql, "root", "").ok();
        // As another router would: past this one, until the server takes writes no more.
        let past = move || {
            let port = SocketAddr::from(([127, 0, 0, 1], primary));
            match tried.swap(true, SeqCst) {
                true => through(),
                false => Client::connect(port, "other", "").ok(),
            }
        };
        scope.spawn(move || proof.write_by_sql(0, 4, through));
        scope.spawn(move || proof.write_by_sql(1, 4, past));
        scope.spawn(move || proof.write_by_key(kv, 2, 4));
        // A quarter of the keys is written now and then, so that it is remembered.
        scope.spawn(move || {
            let slow = || {
                holds_within(Duration::from_millis(20), || proof.is_over());
                through()
            };
            while !proof.is_over() {
                seldom(proof, slow());
            }
        });
        for container in ["fast", "sure", "fast"] {
            scope.spawn(move || proof.read(kv, container));
        }
        let _ends = Ends(proof);
        meanwhile(proof);
        let done = || proof.reads.load(SeqCst) >= reads || !proof.found().is_empty();
        holds_within(Duration::from_secs(3600), done);
    });
    let (reads, writes) = (proof.reads.load(SeqCst), proof.writes.load(SeqCst));
    let hits = number(&cache(farm, "fast"), "hits") + number(&cache(farm, "sure"), "hits");
    let said = format!("{reads} reads, {hits} of them remembered, {writes} writes\n");
    let _ = std::io::stderr().write_all(said.as_bytes());
    assert!(hits > 0, "nothing was remembered: {}", cache(farm, "fast"));
    proof.found()
}

/// Ends the load, also when the test fails.
struct Ends<'p>(&'p Proof);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, SeqCst);
    }
}

/// One write to a key that few write to.
fn seldom(proof: &Proof, client: Option<Client>) {
    let Some(mut client) = client else { return };
    let turn = usize::try_from(proof.writes.load(SeqCst)).unwrap_or(0);
    let key = turn % KEYS / 4 * 4 + 3;
    let version = proof.keys[key].next();
    let sql = format!("UPDATE d.t SET v = '{version}' WHERE id = {key}");
    if client.query(&sql).is_ok() {
        proof.keys[key].acknowledge(version);
    }
}

fn primary_port(farm: &Farm) -> u16 {
    let servers = farm.json(&["group", "lookup_servers", &group(farm)]);
    let primary = servers.iter().find(|row| row["status"] == "PRIMARY");
    let address = primary.and_then(|row| row["address"].as_str());
    let port = address.and_then(|address| address.rsplit(':').next()?.parse().ok());
    port.expect("a primary")
}

fn group(farm: &Farm) -> String {
    farm.members()[0].group.clone()
}

fn nobody_reads_what_is_old(release: Release) {
    let Some(farm) = farm(release, "2") else {
        return;
    };
    let wrong = load(&farm, reads_wanted(), |proof| {
        let part = |share: u64| {
            let reached = || proof.reads.load(SeqCst) >= reads_wanted() / 3 * share;
            holds_within(Duration::from_secs(3600), reached);
        };
        part(1);
        // On a loaded machine a server may just be taken for dead.
        let words = ["group", "promote", &group(&farm)];
        let promoted = || farm.command(&words).status.success();
        wait_until(PATIENCE, "another server leads", promoted);
        part(2);
        let port = primary_port(&farm);
        let members = farm.members();
        let primary = members.iter().find(|member| member.port == port);
        primary.expect("it is a member").signal("KILL");
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn nobody_reads_what_is_old_on_mariadb() {
    nobody_reads_what_is_old(Release::Installed);
}

#[test]
#[ignore = "make test-kv"]
fn nobody_reads_what_is_old_on_mysql() {
    nobody_reads_what_is_old(Release::MySql80);
}

/// What the proof itself is worth.
fn finds(plant: Plant) {
    let Some(farm) = farm(Release::Installed, "1") else {
        return;
    };
    let faults = farm.faults();
    std::fs::create_dir_all(&faults).expect("a directory");
    std::fs::write(faults.join(plant.name()), "").expect("a file");
    let wrong = load(&farm, 20_000_000, |_| {});
    assert!(!wrong.is_empty(), "{plant:?} was not found");
}

#[test]
#[ignore = "make test-kv"]
fn rows_that_are_kept_too_long_are_found() {
    finds(Plant::KeepsChangedRows);
}

#[test]
#[ignore = "make test-kv"]
fn events_that_are_believed_too_early_are_found() {
    finds(Plant::BelievesEvents);
}
