//! `clients/php/mysqlnd_ms.php`: the functions of PECL/mysqlnd_ms, called by real PHP over mysqli and
//! PDO against a farm. The checks stand in `clients/php/tests/driver.php`.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use testkit::{Farm, Release, skip, wait_until};

/// For a replica that a busy machine has doubted.
const PATIENCE: Duration = Duration::from_secs(60);

fn sources() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../clients/php")
}

/// PHP with what the checks need; says why the test is skipped where there is none.
fn has_php() -> bool {
    let modules = Command::new("php").arg("-m").output();
    let modules = modules.map(|output| String::from_utf8_lossy(&output.stdout).to_lowercase());
    let missing = match &modules {
        Err(_) => "php",
        Ok(list) if !list.contains("mysqli") || !list.contains("pdo_mysql") => "php-mysql",
        Ok(_) => return true,
    };
    skip(&format!("{missing} is not installed"));
    false
}

/// Runs the driver in all its ways against this farm; one part of it, or all.
#[track_caller]
fn drive(farm: &Farm, only: &str) {
    for api in ["mysqli", "pdo"] {
        for mode in ["silent", "strict"] {
            let output = Command::new("php")
                .arg(sources().join("tests/driver.php"))
                .env("HOST", farm.sql.ip().to_string())
                .env("PORT", farm.sql.port().to_string())
                .env("HTTP", farm.http.to_string())
                .env("FABRIC", farm.fabric.to_string())
                .env("API", api)
                .env("MODE", mode)
                .env("ONLY", only)
                .env_remove("HEDDLE_HTTP")
                .output()
                .expect("php runs");
            let said = String::from_utf8_lossy(&output.stdout);
            let wrong: Vec<&str> = said
                .lines()
                .filter(|line| !line.starts_with("ok "))
                .collect();
            assert!(
                output.status.success() && wrong == ["all checks passed"],
                "{api}, {mode}: {}\n{wrong:#?}\n{}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}

/// All parts of the driver, which also asks who the replicas are.
#[track_caller]
fn drive_all(farm: &Farm) {
    wait_until(PATIENCE, "a replica", || {
        farm.in_role("g1", "SECONDARY").is_some()
    });
    drive(farm, "");
}

#[test]
fn the_extensions_functions_work_over_mysqli_and_pdo_on_mariadb() {
    if !has_php() {
        return;
    }
    let Some(farm) = Farm::start(&[]) else { return };
    drive_all(&farm);
}

#[test]
fn the_extensions_functions_work_over_mysqli_and_pdo_on_mysql() {
    if !has_php() {
        return;
    }
    let Some(farm) = Farm::start_on(Release::MySql80, &["--replicas", "1"]) else {
        return;
    };
    drive_all(&farm);
}

#[test]
fn the_extensions_transactions_are_over_two_groups() {
    if !has_php() {
        return;
    }
    let Some(farm) = Farm::start(&["--groups", "2", "--replicas", "0"]) else {
        return;
    };
    farm.json(&["sharding", "assign_database", "php_ms_two", "g2"]);
    drive(&farm, "transactions");
    let commits = farm.client().rows("HEDDLE STATUS LIKE 'xa_commit_success'");
    // Both libraries, both modes.
    assert_eq!(commits[0][1].as_deref(), Some("4"));
}

#[test]
fn the_extensions_shards_are_selected_on_two_groups() {
    if !has_php() {
        return;
    }
    let Some(farm) = Farm::start(&["--groups", "2", "--replicas", "0"]) else {
        return;
    };
    let mut root = farm.client();
    root.run("CREATE DATABASE php_shop");
    farm.json(&["sharding", "create_definition", "RANGE", "g1", "php_shop"]);
    farm.json(&[
        "sharding",
        "add_shard",
        "php_shop",
        "g1/0,g2/100",
        "ENABLED",
    ]);
    root.run(
        "CREATE TABLE php_shop.orders (id INT PRIMARY KEY, n INT) /*heddle shard_map=php_shop shard_key=id*/",
    );
    drive(&farm, "shards");
}

#[test]
fn the_file_leaves_functions_alone_that_are_there_already() {
    if !has_php() {
        return;
    }
    let file = sources().join("mysqlnd_ms.php");
    let program = format!(
        "function mysqlnd_ms_set_qos() {{ return 'the extension'; }} require '{}'; echo mysqlnd_ms_set_qos();",
        file.display()
    );
    let output = Command::new("php")
        .args(["-r", &program])
        .output()
        .expect("php runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "the extension");
}
