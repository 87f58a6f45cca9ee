//! Keys of a sharded table through memcached while its shards change their groups and a primary dies: every
//! command is answered as if nothing had happened, and what was acknowledged is there.

use std::collections::HashMap;
use std::io::Result;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use testkit::coherence::Kv;
use testkit::{Farm, Release, wait_until};

/// For a move on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(180);

const KEYS: usize = 64;
/// Two by either container.
const CLIENTS: usize = 4;

/// What the clients have done, and what was wrong.
#[derive(Default)]
struct Load {
    over: AtomicBool,
    rounds: AtomicU64,
    wrong: Mutex<Vec<String>>,
}

impl Load {
    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed)
    }

    fn expect(&self, what: &str, found: impl AsRef<str>, wanted: &str) {
        let found = found.as_ref();
        if found != wanted {
            let text = format!("{what}: {found:?}, not {wanted:?}");
            self.wrong.lock().expect("no panic").push(text);
            self.over.store(true, Ordering::Relaxed);
        }
    }
}

fn ask(kv: &mut Kv, text: &str) -> Result<String> {
    kv.say(text.as_bytes())?;
    kv.line()
}

/// Gives keys of its own growing numbers in every way that there is, and reads them back; then what it left.
fn client(farm: &Farm, load: &Load, own: usize) -> Result<HashMap<String, String>> {
    let mut kv = Kv::connect(farm.kv)?;
    let container = ["plain", "cached"][own % 2];
    kv.get(&format!("@@{container}"))?;
    let keys: Vec<String> = (own..KEYS)
        .step_by(CLIENTS)
        .map(|key| key.to_string())
        .collect();
    let mut left = HashMap::new();
    for number in 1u64.. {
        if !load.goes_on() {
            break;
        }
        for key in &keys {
            let (one, two) = (number * 10, number * 10 + 1);
            let what = format!("{container}, key {key}, round {number}");
            load.expect(&what, kv.set(key, &one.to_string())?, "STORED");
            load.expect(
                &what,
                ask(&mut kv, &format!("incr {key} 1\r\n"))?,
                &two.to_string(),
            );
            load.expect(&what, kv.get(key)?.unwrap_or_default(), &two.to_string());
            if number % 3 == 0 {
                load.expect(
                    &what,
                    ask(&mut kv, &format!("delete {key}\r\n"))?,
                    "DELETED",
                );
                load.expect(&what, kv.get(key)?.unwrap_or_default(), "");
                let add = format!("add {key} 0 0 {}\r\n{two}\r\n", two.to_string().len());
                load.expect(&what, ask(&mut kv, &add)?, "STORED");
            }
            left.insert(key.clone(), two.to_string());
        }
        // All of them at once, from all groups.
        let mut found = HashMap::new();
        kv.say(format!("get {}\r\n", keys.join(" ")).as_bytes())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let good = kv.items(|key, value| drop(found.insert(text(key), text(value))))?;
        load.expect(container, format!("{good} {}", found == left), "true true");
        load.rounds.fetch_add(1, Ordering::Relaxed);
    }
    Ok(left)
}

/// Waits until all clients together have done some rounds more.
fn more(load: &Load) {
    let before = load.rounds.load(Ordering::Relaxed);
    wait_until(PATIENCE, "clients that go on", || {
        load.rounds.load(Ordering::Relaxed) > before + 2 * CLIENTS as u64 || !load.goes_on()
    });
}

fn keys_move_and_fail_over_under_load(release: Release) {
    let Some(farm) = Farm::start_on(release, &["--groups", "3", "--replicas", "1"]) else {
        return;
    };
    let mut sql = farm.client();
    sql.rows("HEDDLE sharding create_definition SLOTS g1 shop");
    sql.rows("HEDDLE sharding add_shard shop 'g1,g2' ENABLED");
    sql.run("CREATE DATABASE d");
    sql.run(
        "CREATE TABLE d.t (k INT PRIMARY KEY, v VARCHAR(20)) /*heddle shard_map=shop shard_key=k*/",
    );
    for (name, more) in [("plain", ""), ("cached", " --cache_bytes=1000000")] {
        farm.make_container(&format!("{name} --table=d.t --key=k --values=v{more}"));
    }
    let load = Load::default();
    let mut left = HashMap::new();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|own| {
                let (farm, load) = (&farm, &load);
                scope.spawn(move || {
                    let done = client(farm, load, own);
                    load.expect("a client", format!("{:?}", done.as_ref().err()), "None");
                    done.unwrap_or_default()
                })
            })
            .collect();
        let changed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            more(&load);
            farm.json(&["sharding", "move_shard", &farm.shard_on("g2"), "g3"]);
            more(&load);
            farm.json(&["sharding", "split_shard", &farm.shard_on("g3"), "g2"]);
            more(&load);
            farm.primary("g3").signal("KILL");
            more(&load);
            farm.promote("g1", None);
            more(&load);
        }));
        load.over.store(true, Ordering::Relaxed);
        for client in clients {
            left.extend(client.join().expect("no panic"));
        }
        changed.expect("the changes are done");
    });
    assert_eq!(
        load.wrong.into_inner().expect("no panic"),
        Vec::<String>::new()
    );
    let rows = sql.rows("/*ms=master*/ SELECT k, v FROM d.t");
    let cell = |row: &[Option<String>], at: usize| row[at].clone().unwrap_or_default();
    let stored: HashMap<String, String> = rows
        .iter()
        .map(|row| (cell(row, 0), cell(row, 1)))
        .collect();
    assert_eq!(stored, left);
    assert_eq!(
        farm.json(&["sharding", "verify"]),
        Vec::<serde_json::Value>::new()
    );
}

testkit::on_both_engines! {
    keys_move_and_fail_over_under_load,
}
