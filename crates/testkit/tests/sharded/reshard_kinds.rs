//! Parts of maps of every kind move: what a bound means stays what it was, in halves of hashes and in
//! lists; a move that is paused stands still; and clients of every router wait at its cut.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use testkit::client::Reply;
use testkit::etcd::Etcd;
use testkit::server::Server;
use testkit::{Client, Farm, Release, wait_until};

/// For a move on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// Clients wait for a cut as long as it takes on a machine that is busy.
const CUT_WAIT: &str = "failover_wait_ms=120000";

/// Rows of each key.
const ROWS: u64 = 10;

/// A map, and how a part of its first shard goes.
struct Case {
    kind: &'static str,
    shards: &'static str,
    column: &'static str,
    keys: Vec<String>,
    split: Option<&'static str>,
}

fn cases() -> Vec<Case> {
    let texts = |all: &[&str]| -> Vec<String> { all.iter().map(|&it| it.to_owned()).collect() };
    let binary = "VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin";
    vec![
        Case {
            kind: "HASH",
            shards: "g1,g2",
            column: "VARCHAR(30)",
            keys: (0..40).map(|it| format!("customer {it}")).collect(),
            split: None,
        },
        Case {
            kind: "LIST",
            shards: "g1/DE|AT|CH,g2/FR|IT",
            column: "VARCHAR(30)",
            keys: texts(&["DE", "AT", "CH", "FR", "IT"]),
            split: Some("AT|CH"),
        },
        Case {
            kind: "RANGE_STRING",
            shards: "g1/A,g2/M",
            column: binary,
            keys: texts(&[
                "A",
                "Emil",
                "F",
                "Frank",
                "L\u{f6}we",
                "M",
                "Zo\u{eb}",
                "zo\u{eb}",
                "\u{20ac}",
            ]),
            split: Some("F"),
        },
        Case {
            kind: "RANGE_DATETIME",
            shards: "g1/2020-01-01,g2/2022-01-01",
            column: "DATETIME",
            keys: texts(&[
                "2020-01-01 00:00:00",
                "2021-01-01 11:59:59",
                "2021-01-01 12:00:00",
                "2021-12-31 23:59:59",
                "2022-01-01 00:00:00",
                "2026-02-03 04:05:06",
            ]),
            split: Some("2021-01-01 12:00:00"),
        },
    ]
}

impl Case {
    /// The case's database and map.
    fn name(&self) -> String {
        format!("by_{}", self.kind.to_ascii_lowercase())
    }

    fn prepare(&self, farm: &Farm) {
        let name = self.name();
        let mut root = farm.client();
        root.run(&format!("CREATE DATABASE {name}"));
        farm.json(&["sharding", "create_definition", self.kind, "g1", &name]);
        farm.json(&["sharding", "add_shard", &name, self.shards, "ENABLED"]);
        let column = self.column;
        root.run(&format!(
            "CREATE TABLE {name}.t (k {column} NOT NULL, id INT NOT NULL, n INT NOT NULL, \
             PRIMARY KEY (k, id)) /*heddle shard_map={name} shard_key=k*/"
        ));
        for key in &self.keys {
            let rows: Vec<String> = (0..ROWS).map(|id| format!("('{key}', {id}, 0)")).collect();
            let rows = rows.join(", ");
            root.run(&format!("INSERT INTO {name}.t VALUES {rows}"));
        }
    }

    /// The shards of the map: group and bound.
    fn shards(&self, farm: &Farm) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        let map = farm.json(&["sharding", "list_definitions"]);
        let map = map.iter().find(|map| map["name"] == self.name().as_str());
        let map = &map.expect("the map")["mapping_id"];
        for shard in farm.json(&["sharding", "list_shards"]) {
            if shard["mapping_id"] == *map {
                let text = |name: &str| shard[name].as_str().unwrap_or_default().to_owned();
                all.insert(text("group_id"), text("lower_bound"));
            }
        }
        all
    }

    fn shard_on(&self, farm: &Farm, group: &str) -> String {
        let bound = self.shards(farm).remove(group).expect("a shard there");
        let all = farm.json(&["sharding", "list_shards"]);
        let shard = all
            .iter()
            .find(|shard| shard["group_id"] == group && shard["lower_bound"] == bound.as_str());
        shard.expect("a shard there")["shard_id"].to_string()
    }

    /// The group of a key, by what the bounds mean in Fabric.
    fn group(&self, shards: &BTreeMap<String, String>, key: &str, digest: &str) -> String {
        if self.kind == "LIST" {
            let mut all = shards.iter();
            let has = all.find(|(_, bound)| bound.split('|').any(|one| one == key));
            return has.expect("a shard that names it").0.clone();
        }
        let value = if self.kind == "HASH" { digest } else { key };
        let below = shards.iter().filter(|(_, bound)| bound.as_str() <= value);
        let found = below.max_by_key(|(_, bound)| *bound);
        // Below the lowest hash it goes on with the highest.
        let highest = shards.iter().max_by_key(|(_, bound)| *bound);
        found.or(highest).expect("shards").0.clone()
    }

    /// Every row is where the map says, and is found there.
    fn check(&self, farm: &Farm) {
        let (name, shards) = (self.name(), self.shards(farm));
        let mut root = farm.client();
        let mut groups: BTreeMap<String, u64> = BTreeMap::new();
        for key in &self.keys {
            let digest = root.value(&format!("SELECT UPPER(MD5('{key}'))"));
            *groups.entry(self.group(&shards, key, &digest)).or_default() += ROWS;
            let count = format!("SELECT COUNT(*) FROM {name}.t WHERE k = '{key}'");
            assert_eq!(root.value(&count), ROWS.to_string(), "{name}: {key}");
        }
        for member in farm.members() {
            let wanted = groups.get(&member.group).copied().unwrap_or(0);
            let mut server = member.client();
            let there = format!(
                "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{name}'"
            );
            let count = match server.value(&there).as_str() {
                "0" => "0".to_owned(),
                _ => server.value(&format!("SELECT COUNT(*) FROM {name}.t")),
            };
            let group = &member.group;
            assert_eq!(count, wanted.to_string(), "{name} on {group}: {shards:?}");
        }
    }
}

/// Adds to all rows in their turn while `change` works; every answer was heard.
fn under_writes(farm: &Farm, case: &Case, change: impl FnOnce()) {
    let (over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let name = case.name();
    let mut root = farm.client();
    let mut sum = || -> u64 {
        let sum = root.value(&format!("SELECT SUM(n) FROM {name}.t"));
        sum.parse().expect("a number")
    };
    let before = sum();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = farm.client();
            for turn in 0.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                let key = &case.keys[turn as usize % case.keys.len()];
                let id = turn % ROWS;
                client.run(&format!(
                    "UPDATE {name}.t SET n = n + 1 WHERE k = '{key}' AND id = {id}"
                ));
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
        let _end = End(&over);
        change();
    });
    assert_eq!(sum() - before, done.load(Ordering::Relaxed), "{name}");
}

struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn farm(release: Release) -> Option<Farm> {
    let flags = ["--groups", "3", "--replicas", "0", "--set", CUT_WAIT];
    Farm::start_on(release, &[&flags[..], release.xa_flags()].concat())
}

fn nothing_is_wrong(farm: &Farm) {
    let found = farm.json(&["sharding", "verify"]);
    assert_eq!(found, Vec::<Value>::new());
}

fn every_kind_of_map_moves(release: Release) {
    let Some(farm) = farm(release) else {
        return;
    };
    for case in cases() {
        case.prepare(&farm);
        case.check(&farm);
        under_writes(&farm, &case, || {
            let two = case.shard_on(&farm, "g2");
            farm.json(&["sharding", "move_shard", &two, "g3"]);
            let one = case.shard_on(&farm, "g1");
            let split = case.split.map(|value| format!("--split_value={value}"));
            let words = ["sharding", "split_shard", &one, "g2"];
            farm.json(&[&words[..], split.as_deref().as_slice()].concat());
        });
        case.check(&farm);
        assert_eq!(case.shards(&farm).len(), 3);
    }
    // What lies below the lowest hash goes along when the last shard is split there.
    let hash = &cases()[0];
    let shards = hash.shards(&farm);
    let (last, _) = shards.iter().max_by_key(|(_, bound)| *bound).expect("one");
    let own = hash.shard_on(&farm, last);
    let refused = farm.command(&["sharding", "split_shard", &own, last]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("already"), "{said}");
    nothing_is_wrong(&farm);
}

/// Merges under writes, by the ways up and down, and what takes a merge back: an abort before its cut, and a
/// split behind it.
#[test]
fn shards_of_every_kind_are_merged() {
    let Some(farm) = farm(Release::Installed) else {
        return;
    };
    for case in cases() {
        case.prepare(&farm);
        let split = case.split.map(|value| format!("--split_value={value}"));
        let divide = |shard: &str, group: &str| {
            let words = ["sharding", "split_shard", shard, group];
            farm.json(&[&words[..], split.as_deref().as_slice()].concat());
        };
        let shard = |group: &str| case.shard_on(&farm, group);
        divide(&shard("g1"), "g3");
        assert_eq!(case.shards(&farm).len(), 3);
        refuses_what_is_no_merge(&farm, &case);
        is_aborted(&farm, &case);
        under_writes(&farm, &case, || {
            // Up and down: the lower one of two becomes a part of the upper one, and the other way round.
            farm.json(&["sharding", "merge_shards", &shard("g1"), &shard("g3")]);
            farm.json(&["sharding", "merge_shards", &shard("g2"), &shard("g3")]);
        });
        case.check(&farm);
        let left = case.shards(&farm);
        assert_eq!(left.keys().collect::<Vec<_>>(), ["g3"], "{}", case.name());
        // A split takes it back.
        under_writes(&farm, &case, || divide(&shard("g3"), "g1"));
        case.check(&farm);
        assert_eq!(case.shards(&farm).len(), 2);
    }
    nothing_is_wrong(&farm);
}

fn refuses_what_is_no_merge(farm: &Farm, case: &Case) {
    let (one, two) = (case.shard_on(farm, "g1"), case.shard_on(farm, "g2"));
    let refused = |words: &[&str], why: &str| {
        let output = farm.command(&[&["sharding", "merge_shards"], words].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(why), "{said}");
    };
    refused(&[&one, &one], "itself");
    refused(&[&one, "9999"], "there is no shard 9999");
    if case.kind.starts_with("RANGE") {
        refused(&[&one, &two], "are not neighbours");
    }
    if let Some(other) = farm.json(&["sharding", "list_shards"]).first() {
        let own = one.parse::<u64>().ok();
        if other["shard_id"].as_u64() < own && other["shard_id"].as_u64() != own {
            let id = other["shard_id"].to_string();
            refused(&[&one, &id], "only shards of one map");
        }
    }
}

/// While a transaction keeps a merge from its cut it is taken back, and nothing of it stays.
fn is_aborted(farm: &Farm, case: &Case) {
    let (name, before) = (case.name(), case.shards(farm));
    let mut open = farm.client();
    open.run("BEGIN");
    // A row of the part that moves: one at the target would keep its rows from being cleared there, before the copy.
    let mut members = farm.members().into_iter();
    let source = members
        .find(|member| member.group == "g3")
        .expect("a server");
    let key = source
        .client()
        .value(&format!("SELECT k FROM {name}.t WHERE id = 0 LIMIT 1"));
    open.run(&format!(
        "UPDATE {name}.t SET n = n WHERE k = '{key}' AND id = 0"
    ));
    let (from, into) = (case.shard_on(farm, "g3"), case.shard_on(farm, "g1"));
    let words = ["--synchronous=false", "--hold_ms=200"];
    let begun = farm.json(&[&["sharding", "merge_shards", &from, &into], &words[..]].concat());
    let id = begun[0]["uuid"].as_str().expect("a text");
    let job = || farm.json(&["job", "show", id]).remove(0);
    wait_until(PATIENCE, "a cut that is given up", || {
        job()["step"].to_string().contains("did not end within")
    });
    assert_eq!(job()["kind"], "merge", "{}", job());
    farm.json(&["job", "abort", id]);
    open.run("COMMIT");
    assert_eq!(case.shards(farm), before, "{name}");
    case.check(farm);
}

/// The move that was begun last.
fn last_job(farm: &Farm) -> Value {
    let mut jobs = farm.json(&["job", "list"]);
    jobs.sort_by_key(|job| job["started"].as_str().unwrap_or_default().to_owned());
    jobs.pop().expect("a job")
}

fn counters(root: &mut Client) {
    root.run("CREATE DATABASE shop");
    root.run(
        "CREATE TABLE shop.counters (k INT PRIMARY KEY, n BIGINT NOT NULL) \
         /*heddle shard_map=shop shard_key=k*/",
    );
    for key in 0..40 {
        root.run(&format!("INSERT INTO shop.counters VALUES ({key}, 0)"));
    }
}

fn a_move_is_paused_and_resumed(release: Release) {
    let Some(farm) = farm(release) else {
        return;
    };
    farm.json(&["sharding", "create_definition", "SLOTS", "g1", "shop"]);
    farm.json(&["sharding", "add_shard", "shop", "g1,g2", "ENABLED"]);
    let mut root = farm.client();
    counters(&mut root);
    // Transactions that stay open keep the move from its cut.
    let mut open = farm.client();
    open.run("BEGIN");
    open.run("UPDATE shop.counters SET n = n + 1");
    farm.json(&[
        "sharding",
        "move_shard",
        "2",
        "g3",
        "--synchronous=false",
        "--hold_ms=1000",
    ]);
    wait_until(PATIENCE, "a cut that is given up", || {
        let step = last_job(&farm)["step"].to_string();
        step.contains("did not end within")
    });
    let job = last_job(&farm);
    let id = job["uuid"].as_str().expect("a text").to_owned();
    farm.json(&["job", "pause", &id]);
    assert_eq!(last_job(&farm)["state"], "paused");
    open.run("COMMIT");
    // It stands still, and nobody waits for it.
    for key in 0..40 {
        root.run(&format!(
            "UPDATE shop.counters SET n = n + 1 WHERE k = {key}"
        ));
    }
    assert_eq!(root.value("SELECT SUM(n) FROM shop.counters"), "80");
    assert_eq!(last_job(&farm)["state"], "paused");
    let shards = farm.json(&["sharding", "list_shards"]);
    assert_eq!(shards[1]["group_id"], "g2", "{shards:?}");
    let again = farm.command(&["job", "pause", &id]);
    assert!(!again.status.success());
    farm.json(&["job", "resume", &id]);
    wait_until(PATIENCE, "the end of the move", || {
        last_job(&farm)["state"] == "done"
    });
    let shards = farm.json(&["sharding", "list_shards"]);
    assert_eq!(shards[1]["group_id"], "g3", "{shards:?}");
    root.run("UPDATE shop.counters SET n = n + 1");
    assert_eq!(root.value("SELECT SUM(n) FROM shop.counters"), "120");
    nothing_is_wrong(&farm);
}

/// Servers of three groups behind two routers, whose map `shop` has shards on g1 and g2.
struct Site {
    routers: Vec<Farm>,
    _servers: Vec<Server>,
    _store: Etcd,
}

fn two_routers(release: Release) -> Option<Site> {
    let etcd = Etcd::start(1)?;
    let own = [("read_only", "ON"), ("max_connections", "600")];
    let servers = Server::start_some(3, release, &own)?;
    let store = format!("etcd={}", etcd.urls());
    // Without the word that says what they are.
    let settings = release.xa_flags().get(1..).unwrap_or_default();
    let routers: Vec<Farm> = (1..=2)
        .map(|number| {
            let name = format!("router_name=r{number}");
            Farm::serve(&[&[&*store, &*name, CUT_WAIT], settings].concat())
        })
        .collect();
    for (number, server) in servers.iter().enumerate() {
        let group = format!("g{}", number + 1);
        routers[0].json(&["group", "create", &group]);
        routers[0].json(&["group", "add", &group, &server.address().to_string()]);
    }
    routers[0].json(&["sharding", "create_definition", "SLOTS", "g1", "shop"]);
    routers[0].json(&["sharding", "add_shard", "shop", "g1,g2", "ENABLED"]);
    wait_until(PATIENCE, "the map and a login on the other router", || {
        routers[1].json(&["sharding", "list_shards"]).len() == 2
            && Client::connect(routers[1].sql, "root", "").is_ok()
    });
    Some(Site {
        routers,
        _servers: servers,
        _store: etcd,
    })
}

/// Adds to counters of its own, so that nobody waits for a lock, until it is over.
fn count_up(router: &Farm, own: usize, over: &AtomicBool, done: &AtomicU64) {
    let mut client = router.client();
    for turn in 0.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let key = (turn * 2 + own) % 40;
        client.run(&format!(
            "UPDATE shop.counters SET n = n + 1 WHERE k = {key}"
        ));
        done.fetch_add(1, Ordering::Relaxed);
    }
}

fn clients_of_every_router_wait_at_the_cut(release: Release) {
    let Some(site) = two_routers(release) else {
        return;
    };
    let [one, two] = &site.routers[..] else {
        return;
    };
    counters(&mut two.client());
    wait_until(PATIENCE, "the table on the other router", || {
        let sql = "SELECT SUM(k) FROM shop.counters WHERE k >= 0";
        let found = one.client().query(sql).ok().and_then(|mut all| all.pop());
        matches!(found, Some(Reply::Rows(rows))
            if rows.text().first().and_then(|row| row[0].clone()).as_deref() == Some("780"))
    });
    let (over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for (own, router) in site.routers.iter().enumerate() {
            let (over, done) = (&over, &done);
            scope.spawn(move || count_up(router, own, over, done));
        }
        let _end = End(&over);
        // There and back, by either router's command.
        for (router, to) in [(one, "g3"), (two, "g2"), (one, "g3")] {
            router.json(&["sharding", "move_shard", "2", to]);
        }
    });
    let wanted = done.load(Ordering::Relaxed);
    for router in &site.routers {
        let sum = router.client().value("SELECT SUM(n) FROM shop.counters");
        assert_eq!(sum, wanted.to_string());
        nothing_is_wrong(router);
    }
    waits_for_the_other_router(one, two);
    let sum = two.client().value("SELECT SUM(n) FROM shop.counters");
    assert_eq!(sum, (wanted + 80).to_string());
    nothing_is_wrong(two);
}

/// A transaction that the other router holds open is waited for.
fn waits_for_the_other_router(one: &Farm, two: &Farm) {
    let mut open = two.client();
    open.run("BEGIN");
    open.run("UPDATE shop.counters SET n = n + 1");
    one.json(&[
        "sharding",
        "move_shard",
        "2",
        "g2",
        "--synchronous=false",
        "--hold_ms=1000",
    ]);
    wait_until(PATIENCE, "a cut that is given up", || {
        let step = last_job(one)["step"].to_string();
        step.contains("did not end within")
    });
    open.run("UPDATE shop.counters SET n = n + 1");
    open.run("COMMIT");
    wait_until(PATIENCE, "the end of the move", || {
        last_job(one)["state"] == "done"
    });
}

testkit::on_both_engines! {
    every_kind_of_map_moves,
    a_move_is_paused_and_resumed,
    clients_of_every_router_wait_at_the_cut,
}
