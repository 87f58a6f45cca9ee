//! A whole farm by an account that has what `heddle grants` prints and nothing else: transactions over two
//! groups and their recovery, shards that move, keys.

use std::time::Duration;

use faults::Point;
use serde_json::Value;
use testkit::client::{Failure, Login};
use testkit::raw::Raw;
use testkit::{Client, Farm, Release, Server, wait_until};

/// On a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

const SETTINGS: [&str; 8] = [
    "admin_user=heddle",
    "admin_password=secret",
    "replication_user=heddle_replication",
    "accounts_interval_ms=100",
    "crossing_interval_ms=100",
    "crossing_grace_ms=100",
    "allow_unsafe_xa=on",
    "kv_auth=off",
];

/// The statements for servers of this release.
fn grants(farm: &Farm, release: &str) -> Vec<String> {
    let output = farm.command(&["grants", release, "--for", "shards,kv"]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{text}");
    let lines = text.lines().filter(|line| line.starts_with("GRANT "));
    lines
        .map(|line| line.trim_end_matches(';').to_owned())
        .collect()
}

fn make_accounts(farm: &Farm, server: &Server) {
    let mut root = server.client();
    root.run("SET SESSION sql_log_bin = 0");
    let native = match server.engine() {
        ::farm::Engine::MariaDb => "IDENTIFIED BY",
        ::farm::Engine::MySql => "IDENTIFIED WITH mysql_native_password BY",
    };
    for user in ["heddle", "heddle_replication", "app"] {
        root.run(&format!("CREATE USER {user}@'%' {native} 'secret'"));
    }
    root.run("GRANT ALL ON shop.* TO app@'%'");
    let release = root.value("SELECT @@version");
    for statement in grants(farm, &release) {
        root.run(&statement);
    }
}

fn app(farm: &Farm) -> Result<Client, Failure> {
    let login = Login {
        user: "app",
        password: "secret",
        database: Some("shop"),
        ..Login::default()
    };
    Client::login(farm.sql, &login)
}

/// Two rows on different groups.
fn rows_apart(servers: &[Server; 2]) -> [u64; 2] {
    let first = |server: &Server| {
        let id = server.client().value("SELECT MIN(id) FROM shop.t");
        id.parse().expect("a row on each group")
    };
    [first(&servers[0]), first(&servers[1])]
}

fn values(servers: &[Server; 2]) -> String {
    let of = |server: &Server| server.client().value("SELECT SUM(v) FROM shop.t");
    format!("{} {}", of(&servers[0]), of(&servers[1]))
}

/// A COMMIT over both groups in the middle of which the router dies; gives what is there when another one
/// has ended it.
fn dies_at(farm: &mut Farm, servers: &[Server; 2], point: Point) -> String {
    let [one, two] = rows_apart(servers);
    let mut client = app(farm).expect("a login");
    client.run("BEGIN");
    client.run(&format!("UPDATE t SET v = v + 1 WHERE id = {one}"));
    client.run(&format!("UPDATE t SET v = v + 1 WHERE id = {two}"));
    let fault = farm.faults().join(point.name());
    std::fs::write(&fault, "kill 0").expect("a directory takes files");
    client.query("COMMIT").expect_err("the router dies");
    wait_until(PATIENCE, "a dead router", || !farm.is_running());
    farm.start_again();
    wait_until(PATIENCE, "nothing prepared", || {
        servers
            .iter()
            .all(|server| server.client().rows("XA RECOVER").is_empty())
    });
    wait_until(PATIENCE, "a login", || app(farm).is_ok());
    values(servers)
}

/// Two groups of one server each, and shards of `shop` on both.
fn start(servers: &[Server; 2]) -> Farm {
    let farm = Farm::serve(&SETTINGS);
    for (server, group) in servers.iter().zip(["g1", "g2"]) {
        make_accounts(&farm, server);
        farm.json(&["group", "create", group]);
        farm.json(&["group", "add", group, &server.address().to_string()]);
    }
    let mut root = servers[0].client();
    root.run("CREATE DATABASE shop");
    root.run("CREATE TABLE shop.t (id INT PRIMARY KEY, v INT NOT NULL, KEY (v))");
    root.run("CREATE TABLE shop.names (id INT PRIMARY KEY, name VARCHAR(20))");
    root.run("CREATE VIEW shop.all_names AS SELECT name FROM shop.names");
    farm.json(&["sharding", "create_definition", "SLOTS", "g1", "shop"]);
    farm.json(&["sharding", "add_shard", "shop", "g1,g2", "ENABLED"]);
    farm.json(&["sharding", "add_table", "shop", "shop.t", "id"]);
    farm.json(&["sharding", "add_global_table", "shop", "shop.names"]);
    wait_until(PATIENCE, "a login", || app(&farm).is_ok());
    farm
}

/// Transactions over both groups, whether or not their router lives.
fn crosses(farm: &mut Farm, servers: &[Server; 2]) {
    let mut client = app(farm).expect("a login");
    for id in 0..20 {
        client.run(&format!("INSERT INTO t VALUES ({id}, 0)"));
        client.run(&format!("INSERT INTO names VALUES ({id}, 'n')"));
    }
    let joined = client.value("SELECT COUNT(*) FROM t JOIN names USING (id)");
    assert_eq!(joined, "20");
    let [first, second] = rows_apart(servers);
    client.run("BEGIN");
    client.run(&format!("UPDATE t SET v = v + 1 WHERE id = {first}"));
    client.run(&format!("UPDATE t SET v = v + 1 WHERE id = {second}"));
    client.run("COMMIT");
    assert_eq!(values(servers), "1 1");
    drop(client);
    assert_eq!(dies_at(farm, servers, Point::Decide), "1 1", "rolled back");
    assert_eq!(dies_at(farm, servers, Point::Decided), "2 2", "committed");
}

/// Keys, which Heddle reads and writes by its own account.
fn has_keys(farm: &Farm) {
    farm.make_container("t --table shop.t --key id --values v --cache_bytes 100000");
    wait_until(PATIENCE, "the container", || {
        farm.json(&["kv", "list"]).len() == 1
    });
    let mut raw = Raw::connect(farm.kv);
    raw.asks("get @@t.3\r\n", "VALUE @@t.3 0 1\r\n0\r\nEND\r\n");
    raw.asks("set @@t.99 0 0 1\r\n7\r\n", "STORED\r\n");
    raw.asks("get @@t.99\r\n", "VALUE @@t.99 0 1\r\n7\r\nEND\r\n");
    raw.asks("delete @@t.99\r\n", "DELETED\r\n");
    // Rows are remembered while the binary log is read.
    wait_until(PATIENCE, "an open cache on each group", || {
        let caches = farm.json(&["kv", "cache"]);
        caches.len() == 2 && caches.iter().all(|row| row["state"] == "open")
    });
}

/// Nothing is missing.
fn is_well(farm: &Farm) {
    let doctor = farm.json(&["doctor"]);
    let is_fine = |row: &Value| row["check"] != "privileges" || row["severity"] == "info";
    assert!(doctor.iter().all(is_fine), "{doctor:?}");
    assert!(doctor.iter().all(|row| row["check"] != "reach"));
    let events = farm.json(&["group", "events"]);
    let odd = events.iter().filter(|event| {
        let kind = event["event"].as_str().expect("a word");
        [
            "privileges_missing",
            "accounts_unreadable",
            "transactions_unlisted",
        ]
        .contains(&kind)
    });
    assert_eq!(odd.count(), 0, "{events:?}");
}

/// An account that one group lacks is made with what its maker may give, or not at all.
fn gives_what_it_may(farm: &Farm, servers: &[Server; 2]) {
    let mut root = servers[0].client();
    root.run("CREATE USER late@'%'");
    root.run("GRANT SELECT ON shop.names TO late@'%'");
    let add = ["sharding", "add_shard", "shop", "g2", "ENABLED"];
    let late = "SELECT COUNT(*) FROM mysql.user WHERE User = 'late'";
    for _ in 0..2 {
        let refused = farm.command(&add);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success(), "{said}");
        assert!(said.contains("SELECT ON `shop`.`names`"), "{said}");
        assert!(
            said.contains("'late'@'%'") && said.contains("WITH GRANT OPTION"),
            "{said}"
        );
        let made = servers[1].client().value(late);
        assert_eq!(made, "0", "nothing is half made");
    }
}

fn a_farm_of_shards(release: Release) {
    let [Some(one), Some(two)] = [Server::start(release), Server::start(release)] else {
        return;
    };
    let servers = [one, two];
    let mut farm = start(&servers);
    crosses(&mut farm, &servers);
    has_keys(&farm);
    farm.json(&["sharding", "move_shard", &farm.shard_on("g2"), "g1"]);
    assert_eq!(farm.json(&["sharding", "verify"]), Vec::<Value>::new());
    let mut client = app(&farm).expect("a login");
    assert_eq!(client.value("SELECT SUM(v) FROM t"), "4");
    let there = servers[0].client().value("SELECT COUNT(*) FROM shop.t");
    assert_eq!(there, "20");
    is_well(&farm);
    gives_what_it_may(&farm, &servers);
}

#[test]
fn a_farm_of_shards_on_mariadb() {
    a_farm_of_shards(Release::Installed);
}

#[test]
fn a_farm_of_shards_on_mariadb_11_4() {
    a_farm_of_shards(Release::MariaDb114);
}

#[test]
fn a_farm_of_shards_on_mysql() {
    a_farm_of_shards(Release::MySql80);
}

#[test]
fn a_farm_of_shards_on_newer_mysql() {
    a_farm_of_shards(Release::MySqlNewer);
}
