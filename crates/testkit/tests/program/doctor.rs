//! `heddle doctor` on real servers: faults are planted, found by their names, and mended.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use testkit::etcd::Etcd;
use testkit::{Farm, Release, Server, wait_until};

pub(super) const PATIENCE: Duration = Duration::from_secs(60);

pub(super) const SETTINGS: [&str; 3] = [
    "accounts_interval_ms=100",
    "kv_listen=127.0.0.1:0",
    "doctor_interval_s=0",
];

/// The checks that find something at this server, group or router.
pub(super) fn found(farm: &Farm, of: &str) -> BTreeSet<String> {
    let rows = farm.json(&["doctor"]);
    let rows = rows.iter().filter(|row| row["server"] == of);
    let name = |row: &Value| row["check"].as_str().expect("a name").to_owned();
    rows.map(name).collect()
}

#[track_caller]
pub(super) fn has(found: &BTreeSet<String>, names: &[&str]) {
    let missing: Vec<&&str> = names.iter().filter(|it| !found.contains(**it)).collect();
    assert!(missing.is_empty(), "not found: {missing:?} in {found:?}");
}

#[track_caller]
pub(super) fn lacks(found: &BTreeSet<String>, names: &[&str]) {
    let there: Vec<&&str> = names.iter().filter(|it| found.contains(**it)).collect();
    assert!(there.is_empty(), "found: {there:?}");
}

/// Faults that a configuration plants.
const CONFIGURED: [(&str, &str, &str); 10] = [
    ("slave_skip_errors", "1062", "replica_skips_errors"),
    ("replicate_ignore_db", "logs", "replica_filters"),
    ("innodb_buffer_pool_size", "8388608", "buffer_pool_differs"),
    ("gtid_domain_id", "7", "gtid_domain"),
    ("innodb_doublewrite", "0", "doublewrite"),
    (
        "explicit_defaults_for_timestamp",
        "OFF",
        "timestamps_differ",
    ),
    (
        "replicate_annotate_row_events",
        "OFF",
        "replicate_annotations",
    ),
    ("relay_log_recovery", "OFF", "relay_log_recovery"),
    ("slave_parallel_mode", "minimal", "parallel_mode"),
    ("local_infile", "ON", "local_infile"),
];

/// Faults that a statement plants on a replica.
const AT_REPLICA: [(&str, &str); 16] = [
    ("SET GLOBAL binlog_format = MIXED", "binlog_format"),
    ("SET GLOBAL binlog_row_image = MINIMAL", "binlog_row_image"),
    (
        "SET GLOBAL binlog_annotate_row_events = OFF",
        "binlog_statements",
    ),
    (
        "SET GLOBAL slave_exec_mode = IDEMPOTENT",
        "replica_idempotent",
    ),
    ("SET GLOBAL max_connections = 50", "max_connections"),
    ("SET GLOBAL wait_timeout = 20", "wait_timeout"),
    (
        "SET GLOBAL max_prepared_stmt_count = 100",
        "prepared_statements",
    ),
    ("SET GLOBAL max_allowed_packet = 1048576", "packets_differ"),
    ("SET GLOBAL sql_mode = 'ANSI_QUOTES'", "sql_mode_differs"),
    (
        "SET GLOBAL character_set_server = latin2",
        "charset_differs",
    ),
    (
        "SET GLOBAL collation_server = latin2_bin",
        "collation_differs",
    ),
    ("SET GLOBAL time_zone = '+05:30'", "time_zone_differs"),
    (
        "SET GLOBAL tx_isolation = 'SERIALIZABLE'",
        "isolation_differs",
    ),
    (
        "SET GLOBAL default_storage_engine = MyISAM",
        "default_engine",
    ),
    (
        "SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_COMMIT",
        "semi_sync_wait_point",
    ),
    ("SET GLOBAL expire_logs_days = 0.01", "binlog_expires_early"),
];

/// Faults in what the primary of a group has.
const AT_PRIMARY: [(&str, &str); 8] = [
    ("CREATE TABLE shop.log (a INT)", "keyless_tables"),
    (
        "CREATE TABLE shop.old (id INT PRIMARY KEY) ENGINE = MyISAM",
        "other_engines",
    ),
    (
        "CREATE TABLE shop.cart (id INT PRIMARY KEY) ENGINE = MEMORY",
        "memory_tables",
    ),
    (
        "CREATE EVENT shop.nightly ON SCHEDULE EVERY 1 DAY DO SET @a = 1",
        "events_idle",
    ),
    ("CREATE USER ''@'anywhere'", "account_anonymous"),
    ("CREATE USER twice@'%' IDENTIFIED BY 'a'", ""),
    (
        "CREATE USER twice@'10.0.0.7' IDENTIFIED BY 'b'",
        "account_shadowed",
    ),
    (
        "CREATE USER late@'%' IDENTIFIED BY 'a' PASSWORD EXPIRE",
        "account_expired",
    ),
];

pub(super) fn start(farm: &Farm, servers: &[&Server]) {
    let mut root = servers[0].client();
    root.run("CREATE USER heddle_replication@'%'");
    root.run("GRANT REPLICATION SLAVE ON *.* TO heddle_replication@'%'");
    farm.json(&["group", "create", "g"]);
    for server in servers {
        farm.json(&["group", "add", "g", &server.address().to_string()]);
    }
    root.run("CREATE DATABASE shop");
}

pub(super) fn plant(server: &Server, faults: &[(&str, &str)]) -> Vec<String> {
    let mut root = server.client();
    for (statement, _) in faults {
        root.run(statement);
    }
    let names = faults.iter().map(|(_, name)| (*name).to_owned());
    names.filter(|name| !name.is_empty()).collect()
}

pub(super) fn names(of: &[String]) -> Vec<&str> {
    of.iter().map(String::as_str).collect()
}

#[test]
fn faults_of_a_group_of_mariadb_are_found_by_their_names() {
    let Some(first) = Server::start(Release::Installed) else {
        return;
    };
    let configured = CONFIGURED.map(|(name, value, _)| (name, value));
    let threads = [("slave_parallel_threads", "2")];
    let Some(second) =
        Server::start_with(Release::Installed, &[&configured[..], &threads].concat())
    else {
        return;
    };
    let farm = Farm::serve(&SETTINGS);
    start(&farm, &[&first, &second]);
    let [primary, replica] = [&first, &second].map(|it| it.address().to_string());

    let by_configuration = CONFIGURED.map(|(_, _, check)| check);
    has(&found(&farm, &replica), &by_configuration);
    lacks(&found(&farm, &primary), &by_configuration[..9]);
    has(&found(&farm, "g"), &["group_of_two", "group_inactive"]);

    let at_replica = AT_REPLICA.map(|(_, check)| check);
    let before = found(&farm, &replica);
    lacks(&before, &at_replica[..8]);
    plant(&second, &AT_REPLICA);
    has(&found(&farm, &replica), &at_replica);

    lacks(&found(&farm, &primary), &AT_PRIMARY.map(|(_, check)| check));
    let at_primary = plant(&first, &AT_PRIMARY);
    has(&found(&farm, &primary), &names(&at_primary));

    // What only one of them has.
    let mut root = second.client();
    root.run("SET SESSION sql_log_bin = 0");
    root.run("CREATE USER stray@'%' IDENTIFIED BY 'x'");
    root.run("DROP USER heddle_replication@'%'");
    root.run("STOP SLAVE");
    has(&found(&farm, &primary), &["account_missing"]);
    let stopped = ["replica_stopped", "replication_account", "account_missing"];
    has(&found(&farm, &replica), &stopped);
    root.run("START SLAVE");
    lacks(&found(&farm, &replica), &["replica_stopped"]);

    // A server without an answer is a finding by itself.
    drop(root);
    let mut second = second;
    second.kill();
    assert_eq!(found(&farm, &replica), BTreeSet::from(["reach".to_owned()]));
}

/// Faults on MySQL.
const ON_MYSQL: [(&str, &str); 9] = [
    ("SET GLOBAL binlog_format = MIXED", "binlog_format"),
    ("SET GLOBAL binlog_row_image = MINIMAL", "binlog_row_image"),
    (
        "SET GLOBAL binlog_rows_query_log_events = OFF",
        "binlog_statements",
    ),
    (
        "SET GLOBAL binlog_expire_logs_seconds = 600",
        "binlog_expires_early",
    ),
    ("SET GLOBAL wait_timeout = 20", "wait_timeout"),
    ("SET GLOBAL local_infile = ON", "local_infile"),
    ("CREATE TABLE shop.log (a INT)", "keyless_tables"),
    (
        "CREATE USER late@'%' IDENTIFIED BY 'a' PASSWORD EXPIRE",
        "account_expired",
    ),
    (
        "CREATE TABLE shop.cart (id INT PRIMARY KEY) ENGINE = MEMORY",
        "memory_tables",
    ),
];

#[test]
fn faults_of_a_mysql_are_found_and_mended() {
    let settings = [
        ("sync_binlog", "1"),
        ("innodb_flush_log_at_trx_commit", "1"),
    ];
    let Some(server) = Server::start_with(Release::newest_mysql(), &settings) else {
        return;
    };
    let farm = Farm::serve(&SETTINGS);
    start(&farm, &[&server]);
    let address = server.address().to_string();
    lacks(&found(&farm, &address), &ON_MYSQL.map(|(_, check)| check));
    let planted = plant(&server, &ON_MYSQL);
    has(&found(&farm, &address), &names(&planted));

    let mended = farm.json(&["doctor", &address, "--fix"]);
    let outcome = |check: &str| {
        let row = mended.iter().find(|row| row["check"] == check);
        row.unwrap_or_else(|| panic!("no {check} in {mended:?}"))["outcome"].clone()
    };
    for check in [
        "binlog_format",
        "binlog_row_image",
        "binlog_statements",
        "binlog_expires_early",
        "wait_timeout",
    ] {
        assert_eq!(outcome(check), "mended", "{check}");
    }
    assert_eq!(outcome("keyless_tables"), "left");
    assert_eq!(outcome("local_infile"), "left", "nobody agreed");
    let mut root = server.client();
    let kept = "SELECT VARIABLE_VALUE FROM performance_schema.persisted_variables \
                WHERE VARIABLE_NAME = 'binlog_format'";
    assert_eq!(root.value(kept), "ROW", "kept over restarts");
    let agreed = farm.json(&["doctor", &address, "--fix", "--yes"]);
    let infile = agreed.iter().find(|row| row["check"] == "local_infile");
    assert_eq!(infile.expect("a row")["outcome"], "mended");
    assert_eq!(root.value("SELECT @@GLOBAL.local_infile"), "0");

    // One that has gone needs nothing, and one that is refused says why.
    let refused = farm.command(&["manage", "mend", "binlog_format", &address]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("nothing to mend"),
        "{said}"
    );
    let refused = farm.command(&["manage", "mend", "keyless_tables", &address]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("ADD PRIMARY KEY"), "{said}");
    let events = farm.json(&["group", "events"]);
    let told = events.iter().filter(|it| it["event"] == "doctor_mended");
    assert!(told.count() >= 6, "{events:?}");
}

/// A server that is to be added is looked at alone, or against the group that it is to join.
#[test]
fn a_server_is_looked_at_before_it_is_added() {
    let Some(first) = Server::start(Release::Installed) else {
        return;
    };
    let second = Server::start_with(Release::Installed, &[("sql_mode", "ANSI")]);
    let second = second.expect("the first one started");
    let farm = Farm::serve(&SETTINGS);
    start(&farm, &[&first]);
    let before = |of: &[&str], server: &Server| -> BTreeSet<String> {
        let address = server.address().to_string();
        let words = [&["doctor"], of, &["--before-add", &address]].concat();
        let rows = farm.json(&words);
        assert!(rows.iter().all(|row| row["server"] == *address), "{rows:?}");
        let name = |row: &Value| row["check"].as_str().expect("a name").to_owned();
        rows.iter().map(name).collect()
    };
    let alone = before(&[], &second);
    has(&alone, &["starts_writable", "replication_account"]);
    lacks(&alone, &["sql_mode_differs", "replica_unconfigured"]);
    has(&before(&["g"], &second), &["sql_mode_differs"]);
    let unknown = farm.command(&["doctor", "nothing"]);
    assert_eq!(unknown.status.code(), Some(2));
}

#[test]
fn monitoring_goes_by_exit_codes_and_changes() {
    let Some(server) = Server::start_with(
        Release::Installed,
        &[
            ("sync_binlog", "1"),
            ("innodb_flush_log_at_trx_commit", "1"),
        ],
    ) else {
        return;
    };
    let farm = Farm::serve(&["accounts_interval_ms=100", "doctor_interval_s=1"]);
    start(&farm, &[&server]);
    let address = server.address().to_string();
    let code = || {
        farm.command(&["doctor", &address, "--exit-code"])
            .status
            .code()
    };
    let mut root = server.client();
    let calm = farm.json(&["doctor", &address]);
    let grave = calm.iter().filter(|row| row["severity"] == "error");
    assert_eq!(grave.count(), 0, "{calm:?}");

    let watch = Command::new(testkit::farm::heddle())
        .args(["doctor", &address, "--watch=1", "--json"])
        .env("HEDDLE_HTTP", farm.http.to_string())
        .env(
            "HEDDLE_TOKEN",
            std::fs::read_to_string(farm.dir().join("token")).unwrap_or_default(),
        )
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program can be run");
    root.run("CREATE TABLE shop.log (a INT)");
    wait_until(PATIENCE, "a warning", || code() == Some(1));
    let told = |kind: &str| {
        let events = farm.json(&["group", "events"]);
        events.iter().any(|it| {
            let detail = it["detail"].as_str().expect("text");
            it["event"] == kind && detail.contains("keyless_tables")
        })
    };
    wait_until(PATIENCE, "the event", || told("doctor_found"));
    root.run("DROP TABLE shop.log");
    wait_until(PATIENCE, "the end", || told("doctor_cured"));
    let pid = watch.id().to_string();
    let killed = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(killed.expect("kill can be run").success());
    let output = watch.wait_with_output().expect("it ends");
    let lines = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    let saw = |event: &str| {
        lines
            .iter()
            .any(|it| it["event"] == event && it["check"] == "keyless_tables")
    };
    assert!(saw("found") && saw("cured"), "{lines:?}");
}

/// Each router says of itself what the others cannot see.
#[test]
fn routers_of_one_farm_are_compared() {
    let Some(mut store) = Etcd::start(1) else {
        return;
    };
    let etcd = format!("etcd={}", store.urls());
    let start = |name: &str, pool: &str| {
        let name = format!("router_name={name}");
        let lease = "router_lease_ms=60000";
        Farm::serve(&[&etcd, &name, pool, lease, "doctor_interval_s=0"])
    };
    let first = start("r1", "pool_connections_max=64");
    let mut second = start("r2", "pool_connections_max=32");
    wait_until(PATIENCE, "both routers", || {
        first.json(&["router", "list"]).len() == 2
    });
    wait_until(PATIENCE, "the second one's settings", || {
        found(&first, "r2").contains("router_settings_differ")
    });
    let rows = first.json(&["doctor", "r2"]);
    let differs = rows
        .iter()
        .find(|row| row["check"] == "router_settings_differ");
    let evidence = differs.expect("just found")["evidence"]
        .as_str()
        .expect("text");
    assert_eq!(evidence, "pool_connections_max is '32', and '64' on r1");
    lacks(
        &found(&first, "r1"),
        &["router_alone", "router_settings_differ"],
    );
    // On a busy machine a router or the store may answer too late.
    wait_until(PATIENCE, "a store and a router that answer", || {
        found(&first, "r1").contains("store_members")
            && !found(&first, "r2").contains("router_silent")
    });
    let signal = |name: &str, pid: u32| {
        let sent = Command::new("kill").args([name, &pid.to_string()]).status();
        assert!(sent.expect("kill can be run").success());
    };
    signal("-STOP", second.pid());
    wait_until(PATIENCE, "a router that says nothing", || {
        found(&first, "r2").contains("router_silent")
    });
    signal("-CONT", second.pid());
    second.stop();
    wait_until(PATIENCE, "a router that is alone", || {
        found(&first, "r1").contains("router_alone")
    });
    wait_until(PATIENCE, "a store that answers", || {
        !found(&first, "r1").contains("store_silent")
    });
    store.kill(0);
    wait_until(PATIENCE, "a store that says nothing", || {
        found(&first, "r1").contains("store_silent")
    });
}
