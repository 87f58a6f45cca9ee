//! The plan of a digest's example, and how large shards are, as the servers tell it.

use std::time::Duration;

use serde_json::Value;
use testkit::{Client, Farm, Release, wait_until};

const SOON: Duration = Duration::from_secs(60);

fn farm(release: Release) -> Option<Farm> {
    let flags = [
        "--groups",
        "2",
        "--replicas",
        "0",
        "--set",
        "digest_examples=on",
    ];
    let flags = [&flags[..], release.xa_flags()].concat();
    let farm = Farm::start_on(release, &flags)?;
    let mut client = farm.client();
    client.rows("HEDDLE sharding create_definition SLOTS g1 shop");
    client.rows("HEDDLE sharding add_shard shop 'g1,g2' ENABLED");
    client.run("CREATE DATABASE shop");
    client.run("USE shop");
    client.run(
        "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(20)) \
         /*heddle shard_map=shop shard_key=id*/",
    );
    let values: Vec<String> = (0..200).map(|id| format!("({id}, 'n')")).collect();
    client.run(&format!("INSERT INTO orders VALUES {}", values.join(", ")));
    Some(farm)
}

/// The plan of the statement with this tag, and not of the EXPLAIN of it.
fn plan(farm: &Farm, tag: &str) -> String {
    let is_meant = |row: &&Value| {
        let text = row["text"].as_str().unwrap_or_default();
        row["tag"] == tag && !text.starts_with("EXPLAIN")
    };
    let rows = farm.json(&["digest", "list", "--limit", "0"]);
    let row = rows.iter().find(is_meant);
    let digest = row.and_then(|row| row["digest"].as_str());
    let shown = farm.json(&["digest", "show", digest.expect("it was counted"), "--plan"]);
    let row = shown.iter().find(is_meant).expect("it is shown");
    row["plan"].as_str().expect("a text").to_owned()
}

fn count(client: &mut Client) -> String {
    client.value("SELECT COUNT(*) FROM shop.orders")
}

fn examples_are_explained(release: Release) {
    let Some(farm) = farm(release) else { return };
    let mut client = farm.client();
    client.run("USE shop");
    client.rows("SELECT note FROM orders WHERE id = 7 /*route='/one'*/");
    client.rows("SELECT COUNT(*) FROM orders WHERE id > 4711 /*route='/all'*/");
    client.run("DELETE FROM orders WHERE id > 4711 /*route='/gone'*/");
    client.run("DELETE FROM orders WHERE id > 9998 /*route='/gone'*/");
    let statement = client
        .prepare("SELECT note FROM orders WHERE id = ? /*route='/bound'*/")
        .expect("prepared");
    client.execute(&statement, &[7.into()]).expect("executed");
    for tag in ["route=/one", "route=/bound"] {
        let one = plan(&farm, tag);
        assert!(
            one.contains("table=orders") && one.contains("key=PRIMARY"),
            "{tag}: {one}"
        );
    }
    let all = plan(&farm, "route=/all");
    assert!(all.contains("g1") && all.contains("g2"), "{all}");
    let gone = plan(&farm, "route=/gone");
    assert!(
        gone.starts_with("not known: only a statement that surely reads"),
        "{gone}"
    );
    assert_eq!(count(&mut client), "200");
    let plain = farm.json(&["digest", "list", "--limit", "1"]);
    let digest = plain[0]["digest"].as_str().expect("a digest");
    assert_eq!(farm.json(&["digest", "show", digest])[0].get("plan"), None);
}

#[test]
fn examples_are_explained_and_nothing_of_them_runs() {
    examples_are_explained(Release::Installed);
}

#[test]
fn examples_are_explained_and_nothing_of_them_runs_on_mysql() {
    examples_are_explained(Release::newest_mysql());
}

#[test]
fn shards_have_sizes_with_their_age() {
    let Some(farm) = farm(Release::Installed) else {
        return;
    };
    let mut rows = Vec::new();
    wait_until(SOON, "the servers count the rows", || {
        rows = farm.json(&["sharding", "list_sizes"]);
        let all: u64 = rows.iter().filter_map(|row| row["rows"].as_u64()).sum();
        all > 100
    });
    assert_eq!(rows.len(), 2, "{rows:?}");
    for row in &rows {
        assert_eq!(
            (&row["tables"], &row["shards_there"]),
            (&1.into(), &1.into())
        );
        assert!(row["bytes"].as_u64() >= Some(16_384), "{row}");
        assert!(row["age_s"].is_u64(), "{row}");
    }
    let mut client = farm.client();
    let sum = client.value("SELECT SUM(bytes) > 0 FROM heddle.shard_sizes");
    assert_eq!(sum, "1");
    let none: Vec<Value> = farm.json(&["sharding", "list_sizes", "shop"]);
    assert_eq!(none.len(), 2);
}
