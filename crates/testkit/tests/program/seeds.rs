//! Samples of the systems that Heddle succeeds, as their documentation has them: `test/compat/seeds`.

use std::path::PathBuf;
use std::process::Command;

use testkit::{Farm, skip};

fn seeds() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../test/compat/seeds")
}

/// PHP with what the samples need; says why the test is skipped where there is none.
fn has_php() -> bool {
    let modules = Command::new("php").arg("-m").output();
    let modules = modules.map(|output| String::from_utf8_lossy(&output.stdout).to_lowercase());
    let missing = match &modules {
        Err(_) => "php",
        Ok(list) if !list.contains("mysqli") => "php-mysql",
        Ok(_) => return true,
    };
    skip(&format!("{missing} is not installed"));
    false
}

#[track_caller]
fn runs(farm: &Farm, sample: &str) {
    let output = Command::new("php")
        .arg(seeds().join(sample))
        .env("HOST", farm.sql.ip().to_string())
        .env("PORT", farm.sql.port().to_string())
        .env("FABRIC", farm.fabric.to_string())
        .output()
        .expect("php runs");
    assert!(
        output.status.success() && output.stdout.ends_with(b"done\n"),
        "{sample}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A map of two ranges, and its table, which nobody has made yet.
fn farm_of_the_quick_start() -> Option<Farm> {
    let farm = Farm::start(&["--groups", "3", "--replicas", "0"])?;
    farm.client().run("CREATE DATABASE test");
    farm.json(&["sharding", "create_definition", "RANGE", "g1"]);
    let shards = ["sharding", "add_shard", "1", "g2/30001,g3/1", "ENABLED"];
    farm.json(&shards);
    farm.json(&["sharding", "add_table", "1", "test.fabrictest", "id"]);
    Some(farm)
}

#[test]
fn samples_of_fabric_and_mysqlnd_ms_run() {
    if !has_php() {
        return;
    }
    let Some(farm) = farm_of_the_quick_start() else {
        return;
    };
    runs(&farm, "fabric_quickstart.php");
    // Each shard has its row, and the global group has the definition alone.
    for member in farm.members() {
        let rows = match member.group.as_str() {
            "g1" => "0",
            _ => "1",
        };
        let count = member
            .client()
            .value("SELECT COUNT(*) FROM test.fabrictest");
        assert_eq!(count, rows, "{}", member.group);
    }
    runs(&farm, "fabric_rpc.php");
    runs(&farm, "async_shards.php");
    runs(&farm, "mysqlnd_ms.php");
}
