//! What was counted by digest in the minutes of the last day outlives the router.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use testkit::Farm;

/// The calls of the statements with this tag in the last hour, as the router tells them.
fn calls(farm: &Farm, tag: &str) -> u64 {
    let rows = farm.json(&["digest", "list", "--since", "1h", "--limit", "0"]);
    let of_tag = rows.iter().filter(|row| row["tag"] == tag);
    of_tag.filter_map(|row| row["calls"].as_u64()).sum()
}

/// The files of the minutes, the oldest first.
fn files(farm: &Farm) -> Vec<PathBuf> {
    let dir = farm.dir().join("state").join("digests");
    let entries = fs::read_dir(dir).expect("minutes were kept");
    let mut all: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    all.sort();
    all
}

#[test]
fn digests_of_before_a_restart_are_there() {
    let Some(mut farm) = Farm::start(&["--replicas", "0"]) else {
        return;
    };
    let mut client = farm.client();
    for _ in 0..3 {
        client.rows("SELECT 'a' /*route='/before'*/");
    }
    // The minute under way is kept by the question, and outlives kill -9.
    assert_eq!(calls(&farm, "route=/before"), 3);
    farm.kill_up();
    farm.start_again();
    assert_eq!(calls(&farm, "route=/before"), 3);
    let rows = farm.json(&["digest", "list", "--since", "1h", "--limit", "0"]);
    let row = rows.iter().find(|row| row["tag"] == "route=/before");
    assert_eq!(
        row.map(|row| row["text"].clone()),
        Some(Value::from("SELECT ?"))
    );
    let now = farm.json(&["digest", "list", "--limit", "0"]);
    assert!(
        now.iter().all(|row| row["tag"] != "route=/before"),
        "since the start there was none"
    );

    // An orderly end keeps the minute under way by itself.
    let mut client = farm.client();
    for _ in 0..2 {
        client.rows("SELECT 'b' /*route='/before'*/");
    }
    drop(client);
    assert!(farm.stop().success());
    farm.start_again();
    assert_eq!(calls(&farm, "route=/before"), 5);

    let damaged = files(&farm).remove(0);
    assert!(farm.stop().success());
    fs::write(&damaged, "this is none").expect("written");
    farm.start_again();
    assert_eq!(calls(&farm, "route=/before"), 2);
    assert!(
        farm.stderr().contains("minutes of digests are lost"),
        "{}",
        farm.stderr()
    );

    farm.json(&["digest", "reset"]);
    assert!(farm.stop().success());
    farm.start_again();
    assert_eq!(calls(&farm, "route=/before"), 0);
}
