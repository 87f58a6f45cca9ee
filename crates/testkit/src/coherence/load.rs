//! A farm under load, and what was found.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::{KEYS, Place, Proof};
use crate::farm::Farm;
use crate::{holds_within, wait_until};

/// On a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A whole proof.
const LONG: Duration = Duration::from_secs(2 * 3600);

/// Makes the table, the containers `fast` and `sure` on it, whose rows are read at the levels `eventual`
/// and `session`, and two by other keys of the same rows, for SQL; waits until the caches of all routers
/// are open.
///
/// # Panics
/// When something is refused.
#[track_caller]
pub fn prepare(routers: &[&Farm]) {
    let farm = routers[0];
    let mut client = farm.client();
    client.run("CREATE DATABASE d");
    client.run(
        "CREATE TABLE d.t (id INT UNSIGNED PRIMARY KEY, v VARCHAR(40) NOT NULL, \
         name VARCHAR(20) COLLATE utf8mb4_bin UNIQUE, \
         label VARCHAR(20) COLLATE utf8mb4_general_ci UNIQUE) CHARACTER SET utf8mb4",
    );
    for (container, key, level) in [
        ("fast", "id", "eventual"),
        ("sure", "id", "session"),
        ("named", "name", "session"),
        ("labelled", "label", "session"),
    ] {
        let more = format!("--cache_bytes=4000000 --consistency={level}");
        farm.make_container(&format!(
            "{container} --table=d.t --key={key} --values=v {more}"
        ));
    }
    for farm in routers {
        wait_until(PATIENCE, "the caches are open", || {
            let open = |container| cache(farm, container)["state"] == "open";
            ["fast", "sure", "named", "labelled"].into_iter().all(open)
        });
    }
}

/// Rows, and an account that `read_only` holds up.
pub fn fill(farm: &Farm) {
    let mut client = farm.client();
    let rows: Vec<String> = (0..KEYS)
        .map(|key| format!("({key}, '0', 'n{key}', 'L{key}')"))
        .collect();
    client.run(&format!("INSERT INTO d.t VALUES {}", rows.join(", ")));
    client.run("CREATE USER other@'%'");
    client.run("GRANT SELECT, UPDATE ON d.* TO other@'%'");
}

/// Where a router's clients go.
pub fn place(farm: &Farm) -> Place {
    Place {
        sql: farm.sql,
        kv: farm.kv,
    }
}

/// What `kv cache` says of a container.
pub fn cache(farm: &Farm, container: &str) -> Value {
    let rows = farm.json(&["kv", "cache"]);
    let found = rows.into_iter().find(|row| row["name"] == container);
    found.unwrap_or(Value::Null)
}

/// How many rows its cache answered since the router began.
pub fn remembered(farm: &Farm) -> u64 {
    let hits = |container| cache(farm, container)["hits"].as_u64().unwrap_or(0);
    hits("fast") + hits("sure")
}

/// Loads a farm that was prepared until so many rows were read, and as long as `meanwhile` goes on; gives
/// everything that was wrong. `primary` is where its primary is reached past all routers.
pub fn load(
    places: &[Place],
    primary: SocketAddr,
    reads: u64,
    meanwhile: impl FnOnce(&Proof),
) -> Vec<String> {
    let proof = Proof::new();
    thread::scope(|scope| {
        let proof = &*proof;
        let (first, last) = (places[0], places[places.len() - 1]);
        scope.spawn(move || proof.write_by_sql(first.sql, 0, false));
        scope.spawn(move || proof.write_by_sql(last.sql, 1, false));
        scope.spawn(move || proof.write_past(primary, first.sql, 2));
        scope.spawn(move || proof.write_by_key(first.kv, 3));
        scope.spawn(move || proof.write_by_key(last.kv, 4));
        scope.spawn(move || proof.hand_over(places, 5));
        scope.spawn(move || proof.hand_over_by_key(first.kv, last.kv, 8));
        // Keys that are seldom written are remembered.
        scope.spawn(move || proof.write_by_sql(first.sql, 6, true));
        scope.spawn(move || proof.write_by_sql(last.sql, 7, true));
        for (number, place) in (1..).zip(places) {
            for container in ["fast", "sure"] {
                let whom = format!("{container} at router {number}");
                scope.spawn(move || proof.read_keys(&whom, place.kv, container));
            }
            let whom = format!("SQL at router {number}");
            scope.spawn(move || proof.read_rows(&whom, place.sql));
        }
        let _ends = Ends(proof);
        holds_within(PATIENCE, || proof.reads() > 0);
        meanwhile(proof);
        let done = || proof.reads() >= reads || !proof.found().is_empty();
        holds_within(LONG, done);
    });
    let [reads, writes, handed] =
        [&proof.reads, &proof.writes, &proof.handed].map(|count| count.load(SeqCst));
    let said = format!("{reads} reads, {writes} writes, {handed} tokens handed over\n");
    let _ = std::io::stderr().write_all(said.as_bytes());
    proof.found()
}

/// Ends the load, also when the test fails.
struct Ends<'p>(&'p Proof);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, SeqCst);
    }
}
