//! Faults of servers that are not in the farm yet, of sharded tables and of routers, which `heddle doctor` must find by their
//! names.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::Value;
use testkit::certificates::Authority;
use testkit::router::Router;
use testkit::{Farm, Release, Server, wait_until};

use crate::doctor::{PATIENCE, SETTINGS, found, has, lacks, start};

/// What is found of a server before it is added: of this group, or alone.
fn before(farm: &Farm, group: &[&str], address: &str) -> BTreeSet<String> {
    let words = [&["doctor"], group, &["--before-add", address]].concat();
    let rows = farm.json(&words);
    let name = |row: &Value| row["check"].as_str().expect("a name").to_owned();
    rows.iter().map(name).collect()
}

fn address(server: &Server) -> String {
    server.address().to_string()
}

/// The same server by a name of this machine that does not say so.
fn from_afar(server: &Server) -> String {
    format!("127.1:{}", server.address().port())
}

#[test]
fn strangers_are_compared_with_their_group() {
    let Some(first) = Server::start(Release::Installed) else {
        return;
    };
    let unlike = [
        ("log_slave_updates", "OFF"),
        ("lower_case_table_names", "1"),
    ];
    let unlike = Server::start_with(Release::Installed, &unlike).expect("the first one started");
    let mute = [("skip_log_bin", "")];
    let mute = Server::start_with(Release::Installed, &mute).expect("the first one started");
    let farm = Farm::serve(&SETTINGS);
    start(&farm, &[&first]);
    let odd = before(&farm, &["g"], &address(&unlike));
    let names = ["log_replica_updates", "lower_case_differs"];
    has(&odd, &names);
    lacks(&found(&farm, &address(&first)), &names);
    has(&before(&farm, &["g"], &address(&mute)), &["log_bin"]);
    let mut root = first.client();
    lacks(
        &found(&farm, &address(&first)),
        &["account_needs_credential"],
    );
    root.run("CREATE USER socket@localhost IDENTIFIED VIA unix_socket");
    has(
        &found(&farm, &address(&first)),
        &["account_needs_credential"],
    );

    if let Some(other) = Server::start(Release::newest_mysql()) {
        has(&before(&farm, &["g"], &address(&other)), &["engines_mixed"]);
    }
    let Some(newer) = Server::start(Release::MariaDb114) else {
        return;
    };
    farm.json(&["group", "add", "g", &address(&newer)]);
    has(&found(&farm, "g"), &["versions_mixed"]);
    farm.json(&["group", "create", "new"]);
    let Some(leads) = Server::start(Release::MariaDb114) else {
        return;
    };
    let mut root = leads.client();
    root.run("CREATE USER heddle_replication@'%'");
    root.run("GRANT REPLICATION SLAVE ON *.* TO heddle_replication@'%'");
    farm.json(&["group", "add", "new", &address(&leads)]);
    let odd = before(&farm, &["new"], &address(&mute));
    has(&odd, &["older_than_primary"]);
}

#[test]
fn servers_that_are_far_have_to_speak_tls() {
    let clear = [("skip_ssl", "")];
    let Some(clear) = Server::start_with(Release::Installed, &clear) else {
        return;
    };
    let farm = Farm::serve(&SETTINGS);
    has(
        &before(&farm, &[], &from_afar(&clear)),
        &["tls_missing", "tls_optional"],
    );
    lacks(
        &before(&farm, &[], &address(&clear)),
        &["tls_missing", "tls_optional"],
    );
}

#[test]
fn replicas_that_do_not_do_their_work_are_found() {
    let (Some(first), Some(second)) = (
        Server::start(Release::Installed),
        Server::start(Release::Installed),
    ) else {
        return;
    };
    let farm = Farm::serve(&[&SETTINGS[..], &["max_lag_ms=50"]].concat());
    start(&farm, &[&first, &second]);
    let [primary, replica] = [&first, &second].map(address);
    lacks(
        &found(&farm, &replica),
        &["replica_writable", "replica_of_other"],
    );
    let mut root = second.client();
    root.run("SET GLOBAL read_only = OFF");
    has(&found(&farm, &replica), &["replica_writable"]);
    root.run("STOP SLAVE SQL_THREAD");
    wait_until(PATIENCE, "a replica that lags", || {
        found(&farm, &replica).contains("replica_lags")
    });
    root.run("STOP SLAVE");
    wait_until(PATIENCE, "a primary that nobody acknowledges", || {
        found(&farm, &primary).contains("semi_sync_unacknowledged")
    });
    root.run("CHANGE MASTER TO MASTER_PORT = 1");
    has(&found(&farm, &replica), &["replica_of_other"]);
}

#[test]
fn tables_that_do_not_fit_their_shards_are_found() {
    let (Some(first), Some(second)) = (
        Server::start(Release::Installed),
        Server::start(Release::Installed),
    ) else {
        return;
    };
    let farm = Farm::serve(&SETTINGS);
    start(&farm, &[&first]);
    farm.json(&["group", "create", "h"]);
    farm.json(&["group", "add", "h", &address(&second)]);
    second.client().run("CREATE DATABASE shop");
    for server in [&first, &second] {
        let mut root = server.client();
        root.run("SET GLOBAL log_bin_trust_function_creators = OFF");
        root.run("CREATE TABLE shop.homes (id INT PRIMARY KEY)");
        root.run(
            "CREATE TABLE shop.orders (id INT PRIMARY KEY, home INT, \
             FOREIGN KEY (home) REFERENCES shop.homes (id))",
        );
        root.run("CREATE TRIGGER shop.t BEFORE INSERT ON shop.homes FOR EACH ROW SET NEW.id = 1");
    }
    let primary = address(&first);
    let names = ["function_creators", "foreign_keys_cross"];
    lacks(&found(&farm, &primary), &names);
    farm.json(&["sharding", "create_definition", "RANGE", "g", "shop"]);
    farm.json(&["sharding", "add_table", "shop", "shop.orders", "id"]);
    has(&found(&farm, &primary), &names);
}

#[test]
fn faults_of_old_mysqls_are_found() {
    let old = [
        ("gtid_mode", "OFF"),
        ("enforce_gtid_consistency", "OFF"),
        ("relay_log_info_repository", "FILE"),
    ];
    let Some(stranger) = Server::start_with(Release::MySql80, &old) else {
        return;
    };
    let member = Server::start(Release::MySql80).expect("the first one started");
    let farm = Farm::serve(&SETTINGS);
    let odd = before(&farm, &[], &address(&stranger));
    has(
        &odd,
        &[
            "gtid_mode",
            "gtid_consistency",
            "relay_log_info",
            "semi_sync_missing",
        ],
    );
    start(&farm, &[&member]);
    lacks(
        &found(&farm, &address(&member)),
        &["unsafe_xa", "gtid_mode"],
    );
    farm.json(&["group", "create", "another"]);
    has(&found(&farm, &address(&member)), &["unsafe_xa"]);
}

#[test]
fn faults_of_mysqls_replicas_are_found() {
    let release = Release::newest_mysql();
    let (Some(first), Some(second)) = (Server::start(release), Server::start(release)) else {
        return;
    };
    let farm = Farm::serve(&SETTINGS);
    start(&farm, &[&first, &second]);
    let replica = address(&second);
    lacks(&found(&farm, &replica), &["super_writable", "gtid_gaps"]);
    let mut root = second.client();
    root.run("SET GLOBAL super_read_only = OFF");
    has(&found(&farm, &replica), &["super_writable"]);
    let source = first.client().value("SELECT @@server_uuid");
    root.run(&format!("SET SESSION gtid_next = '{source}:100000'"));
    root.run("BEGIN");
    root.run("COMMIT");
    root.run("SET SESSION gtid_next = 'AUTOMATIC'");
    has(&found(&farm, &replica), &["gtid_gaps"]);
}

#[test]
fn routers_that_are_open_to_everybody_are_found() {
    let authority = Authority::new("Doctor");
    let pair = authority.sign_expired("router", &["localhost"]);
    let settings = [
        "sql_listen=0.0.0.0:0".to_owned(),
        "kv_listen=0.0.0.0:0".to_owned(),
        "kv_auth=off".to_owned(),
        "fabric_listen=0.0.0.0:0".to_owned(),
        "clients_max=1000000".to_owned(),
        "pool_connections_max=100000".to_owned(),
        "memory_bytes_max=1125899906842624".to_owned(),
        format!("tls_certificate={}", pair.certificate.display()),
        format!("tls_key={}", pair.key.display()),
        "router_name=open".to_owned(),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let farm = Farm::serve(&settings);
    let_open_files(&farm, 10_000);
    let odd = found(&farm, "open");
    let names = [
        "public_in_clear",
        "public_clear_allowed",
        "public_without_login",
        "router_memory",
        "router_certificate",
        "open_files",
    ];
    has(&odd, &names);
    lacks(&odd, &["router_needs_restart"]);
}

/// So many files may the router open, whatever the machine gives its processes.
fn let_open_files(farm: &Farm, max: u64) {
    let pid = i32::try_from(farm.pid()).expect("a number of a process");
    let limit = Rlimit {
        current: Some(max),
        maximum: Some(max),
    };
    prlimit(Pid::from_raw(pid), Resource::Nofile, limit).expect("the process is ours");
}

#[test]
fn files_of_a_router_are_looked_at() {
    let router = Router::start("router_name = \"own\"\n");
    let checks = || -> BTreeSet<String> {
        let said = router.run(&["doctor", "--json"]);
        let rows: Vec<Value> = serde_json::from_str(&said).expect("--json gives an array");
        let own = rows.iter().filter(|row| row["server"] == "own");
        own.map(|row| row["check"].as_str().expect("a name").to_owned())
            .collect()
    };
    lacks(&checks(), &["secret_files", "router_needs_restart"]);
    fs::set_permissions(router.state_dir(), fs::Permissions::from_mode(0o755)).expect("allowed");
    has(&checks(), &["secret_files"]);
    router.write_settings(&format!("{}\nthreads = 3\n", router.settings()));
    wait_until(PATIENCE, "a setting that waits for a restart", || {
        checks().contains("router_needs_restart")
    });
}
