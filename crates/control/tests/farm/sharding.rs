//! Shard maps by commands, on real servers: what is declared, checked, refused and shown.

use crate::plane::{PATIENCE, Plane};
use farm::shard::{Key, KeyType};
use farm::sharding::{Placed, Sharding};
use routing::shard::{Literal, locate, stored};
use serde_json::{Value, json};
use std::sync::Arc;
use testkit::{Release, Server, wait_until};

/// A farm of groups g1, g2, … of one server each.
fn farm(dir: &std::path::Path, servers: &[Server]) -> Plane {
    let plane = Plane::start(dir);
    for (number, server) in (1..).zip(servers) {
        let group = format!("g{number}");
        plane.rows(&["group", "create", &group]);
        plane.rows(&["group", "add", &group, &server.address().to_string()]);
    }
    plane
}

fn servers<const N: usize>(release: Release) -> Option<[Server; N]> {
    let start = |_| Server::start_with(release, &[]);
    let started: Option<Vec<Server>> = (0..N).map(start).collect();
    started?.try_into().ok()
}

fn sharding(plane: &Plane) -> Arc<Sharding> {
    let snapshot = plane.published.load();
    snapshot.sharding.clone().expect("something is declared")
}

const ORDERS: &str = "CREATE TABLE shop.orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, \
                      customer_id INT NOT NULL, note VARCHAR(20), KEY (customer_id))";

fn maps_are_made_end_to_end(release: Release) {
    let Some(servers) = servers::<3>(release) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = farm(dir.path(), &servers);
    assert!(plane.published.load().sharding.is_none());
    let [a, b, c] = &servers;
    let mut client = a.client();
    client.run("CREATE DATABASE shop");
    client.run(ORDERS);
    client.run("CREATE TABLE shop.products (id INT PRIMARY KEY, name VARCHAR(20) DEFAULT 'x')");
    client.run("INSERT INTO shop.products VALUES (1,'a'),(2,'b')");
    client.run("CREATE VIEW shop.names AS SELECT name FROM shop.products");
    client.run("CREATE DATABASE other");
    client.run("CREATE USER app@'%' IDENTIFIED BY 'secret'");
    client.run("GRANT SELECT ON shop.* TO app@'%'");

    let made = plane.rows(&["sharding", "create_definition", "slots", "g1", "shop"]);
    assert_eq!(made[0]["result"], json!(1));
    let shards = plane.rows(&["sharding", "add_shard", "shop", "g1, g2, g3", "ENABLED"]);
    assert_eq!(shards[0]["result"], json!([1, 2, 3]));
    plane.rows(&[
        "sharding",
        "add_table",
        "shop",
        "shop.orders",
        "customer_id",
    ]);
    plane.rows(&["sharding", "add_global_table", "shop", "shop.products"]);

    // Everything is on all groups, and the accounts can log in there.
    for server in [b, c] {
        let mut client = server.client();
        assert_eq!(client.rows("SHOW TABLES IN shop").len(), 3);
        assert_eq!(client.rows("SHOW DATABASES LIKE 'other'").len(), 1);
        assert_eq!(client.value("SELECT COUNT(*) FROM shop.products"), "2");
        let grants = client.rows("SHOW GRANTS FOR app@'%'");
        assert_eq!(grants.len(), 2, "{grants:?}");
    }
    let now = sharding(&plane);
    let Placed::Sharded(orders) = now.placed("shop", "orders") else {
        panic!("{now:?}");
    };
    assert_eq!(
        (&*orders.column, orders.key),
        ("customer_id", KeyType::Integer)
    );
    assert_eq!(now.placed("shop", "products"), Placed::Global(1));
    let schema = now.schema("shop", "orders").expect("it was read");
    assert_eq!(schema.columns.len(), 3);
    assert!(schema.columns[0].auto_increment && schema.primary == [0]);
    assert!(now.schema("shop", "names").expect("it was read").view);
    assert_eq!(plane.rows(&["sharding", "verify"]), json!([]));
    finds_what_is_wrong(&plane, &servers);
    shows_what_is_declared(&plane);

    // It outlives the router.
    drop(plane);
    let plane = Plane::start(dir.path());
    wait_until(PATIENCE, "the tables to be read", || {
        let sharding = plane.published.load().sharding.clone();
        sharding.is_some_and(|sharding| sharding.schema("shop", "orders").is_some())
    });
}

fn finds_what_is_wrong(plane: &Plane, [_, b, c]: &[Server; 3]) {
    let now = sharding(plane);
    let map = &now.map(1).expect("the map").map;
    let group = |key: i128| {
        let at = locate(map, &Key::Int(key)).expect("a shard");
        map.shard(at).group.to_string()
    };
    let elsewhere: Vec<i128> = (1..200).filter(|key| group(*key) != "g2").take(3).collect();
    for key in &elsewhere {
        b.client().run(&format!(
            "INSERT INTO shop.orders (customer_id) VALUES ({key})"
        ));
    }
    c.client().run("DELETE FROM shop.products WHERE id=2");
    c.client().run("ALTER TABLE shop.orders ADD extra INT");
    // As of a clone under way: its donor alone has it.
    let account = "CREATE USER heddle_clone_0123abcd IDENTIFIED BY 'pw'";
    c.client().run(account);
    let found = plane.rows(&["sharding", "verify"]);
    let problem = |group: &str, what: &str, problem: &str| {
        let found = found.as_array().expect("rows");
        found
            .iter()
            .any(|row| row["group_id"] == group && row["what"] == what && row["problem"] == problem)
    };
    assert!(
        problem("g2", "table shop.orders", "rows of other shards"),
        "{found}"
    );
    assert!(
        problem(
            "g3",
            "table shop.products",
            "other rows than the global group"
        ),
        "{found}"
    );
    assert!(problem("g3", "table shop.orders", "different"), "{found}");
    assert_eq!(found.as_array().map(Vec::len), Some(3), "{found}");
    let error = plane.error(&["sharding", "remove_table", "shop.orders"]);
    assert!(error.contains("3 on group g2"), "{error}");
    let pruned = plane.rows(&["sharding", "prune_shard", "shop.orders"]);
    assert_eq!(pruned[0]["result"], json!(3));
    c.client().run("INSERT INTO shop.products VALUES (2,'b')");
    c.client().run("ALTER TABLE shop.orders DROP extra");
    assert_eq!(plane.rows(&["sharding", "verify"]), json!([]));
}

fn shows_what_is_declared(plane: &Plane) {
    let tables = plane.rows(&["sharding", "list_tables", "SLOTS"]);
    assert_eq!(
        tables[0],
        json!({"mapping_id": 1, "type_name": "SLOTS", "table_name": "shop.orders",
               "global_group": "g1", "column_name": "customer_id"})
    );
    let index = plane.rows(&["dump", "shard_index", "", "1"]);
    assert_eq!(index[0]["lower_bound"], "0-5460");
    assert_eq!(plane.rows(&["dump", "shard_maps", "", "11"]), json!([]));
    let all = plane.rows(&["dump", "sharding_information", "", "shop.orders"]);
    assert_eq!(all.as_array().map(Vec::len), Some(3));
    let of_key = plane.rows(&["sharding", "lookup_servers", "shop.orders", "7"]);
    assert_eq!(of_key[0]["status"], "PRIMARY");
    let global = plane.rows(&["sharding", "lookup_servers", "1", "", "GLOBAL"]);
    assert_eq!(global, plane.rows(&["group", "lookup_servers", "g1"]));
}

#[test]
fn maps_are_made_end_to_end_on_mariadb() {
    maps_are_made_end_to_end(Release::Installed);
}

#[test]
fn maps_are_made_end_to_end_on_mysql() {
    maps_are_made_end_to_end(Release::MySql80);
}

#[test]
fn what_cannot_work_is_refused_with_the_cure() {
    let Some(servers) = servers::<2>(Release::Installed) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = farm(dir.path(), &servers);
    let refused = |words: &[&str], text: &str| {
        let error = plane.error(words);
        assert!(error.contains(text), "{words:?}: {error}");
    };
    let mut client = servers[0].client();
    client.run("CREATE DATABASE shop");
    client.run(ORDERS);
    client.run("CREATE TABLE shop.bare (a INT)");
    client.run("CREATE TABLE shop.loose (id INT PRIMARY KEY, c INT, d DECIMAL(5,2), s VARCHAR(9))");
    client.run("INSERT INTO shop.orders (customer_id) VALUES (50), (150)");
    refused(&["sharding", "create_definition", "ROUND", "g1"], "SLOTS");
    refused(
        &["sharding", "create_definition", "RANGE", "g9"],
        "no group g9",
    );
    plane.rows(&["sharding", "create_definition", "RANGE", "g1"]);
    refused(&["sharding", "add_shard", "2", "g1/0"], "no shard map 2");
    refused(&["sharding", "add_shard", "1", "g1"], "GROUP/BOUND");
    refused(&["sharding", "add_shard", "1", "g1/x"], "no integer");
    refused(
        &["sharding", "add_shard", "1", "g1/0, g9/100"],
        "no group g9",
    );
    refused(&["sharding", "add_shard", "1", "g1/0, g2/0"], "both have 0");
    refused(
        &["sharding", "add_shard", "1", "g1/0, g1/9"],
        "a group of its own",
    );
    plane.rows(&["sharding", "add_shard", "1", "g1/0, g2/100", "enabled"]);
    let add =
        |table: &'static str, column: &'static str| ["sharding", "add_table", "1", table, column];
    refused(&add("orders", "id"), "DATABASE.TABLE");
    is_named_before_it_is_made(&plane);
    plane.rows(&add("shop.bare", "a"));
    plane.rows(&["sharding", "remove_table", "shop.bare"]);
    let bare = ["sharding", "add_global_table", "1", "shop.bare"];
    refused(&bare, "no primary key");
    refused(&add("shop.loose", "x"), "no column x");
    refused(&add("shop.loose", "d"), "a shard key is an integer");
    refused(&add("shop.loose", "s"), "needs an integer");
    refused(&add("shop.loose", "c"), "--checked");
    refused(
        &add("shop.orders", "customer_id"),
        "1 of shop.orders on group g1",
    );
    client.run("DELETE FROM shop.orders WHERE customer_id=150");
    plane.rows(&add("shop.orders", "customer_id"));
    refused(&add("shop.orders", "customer_id"), "on map 1 already");
    later_faults_are_found(&plane, &servers);
    shards_and_maps_in_use_stay(&plane, &servers);
}

/// A table that is not made yet is shown, keeps its map, and is taken back like any other.
fn is_named_before_it_is_made(plane: &Plane) {
    let shown = |plane: &Plane| {
        let tables = plane.rows(&["sharding", "list_tables"]);
        let tables = tables.as_array().expect("rows").clone();
        let names = tables.iter().map(|row| row["table_name"].to_string());
        names.collect::<Vec<_>>().concat()
    };
    plane.rows(&["sharding", "add_table", "1", "shop.nothing", "id"]);
    assert!(shown(plane).contains("shop.nothing"), "{}", shown(plane));
    let servers = plane.rows(&["sharding", "lookup_servers", "shop.nothing", "150"]);
    assert_eq!(servers.as_array().map(Vec::len), Some(1), "{servers}");
    let information = plane.rows(&["dump", "sharding_information", "0", "shop.nothing"]);
    assert_eq!(
        information.as_array().map(Vec::len),
        Some(2),
        "{information}"
    );
    let sharding = plane.published.load().sharding.clone().expect("maps");
    assert!(sharding.expected("shop", "nothing").is_some());
    assert!(
        sharding.declared().next().is_none(),
        "no statement goes by it"
    );
    assert!(
        plane
            .error(&["sharding", "remove_definition", "1"])
            .contains("shop.nothing")
    );
    plane.rows(&["sharding", "remove_table", "shop.nothing"]);
    assert_eq!(shown(plane), "");
}

/// A unique key that was added past Heddle, and a table that is gone, are found.
fn later_faults_are_found(plane: &Plane, servers: &[Server; 2]) {
    let all = |sql: &str| {
        servers
            .iter()
            .for_each(|server| drop(server.client().run(sql)))
    };
    let found = |words: &str| {
        let rows = plane.rows(&["sharding", "verify", "shop.orders"]);
        assert!(rows[0]["problem"].to_string().contains(words), "{rows}");
    };
    all("ALTER TABLE shop.orders ADD UNIQUE u (note)");
    found("unique keys without customer_id: (note)");
    all("ALTER TABLE shop.orders DROP KEY u");
    assert_eq!(
        plane.rows(&["sharding", "verify", "shop.orders"]),
        json!([])
    );
    all("RENAME TABLE shop.orders TO shop.away");
    found("has no table shop.orders");
    all("RENAME TABLE shop.away TO shop.orders");
}

/// A shard with rows stays, and a map with shards does.
fn shards_and_maps_in_use_stay(plane: &Plane, servers: &[Server; 2]) {
    let refused = |words: &[&str], text: &str| {
        let error = plane.error(words);
        assert!(error.contains(text), "{words:?}: {error}");
    };
    let mut client = servers[0].client();
    refused(&["sharding", "remove_shard", "1"], "disable_shard");
    plane.rows(&["sharding", "disable_shard", "1"]);
    refused(
        &["sharding", "remove_shard", "1"],
        "1 of shop.orders on group g1",
    );
    refused(
        &["sharding", "lookup_servers", "shop.orders", "-1"],
        "no shard of map 1",
    );
    refused(
        &["sharding", "lookup_servers", "shop.orders", "5"],
        "enable_shard 1",
    );
    refused(
        &["sharding", "lookup_servers", "shop.orders", "five"],
        "customer_id",
    );
    refused(&["sharding", "remove_definition", "1"], "is in use");
    // A table that is there otherwise is not touched.
    servers[1]
        .client()
        .run("CREATE TABLE shop.bare2 (a INT PRIMARY KEY)");
    client.run("CREATE TABLE shop.bare2 (a BIGINT PRIMARY KEY)");
    let add = ["sharding", "add_table", "1", "shop.bare2", "a"];
    refused(&add, "table shop.bare2 otherwise");
    client.run("DELETE FROM shop.orders");
    plane.rows(&["sharding", "remove_shard", "1"]);
    plane.rows(&["sharding", "remove_table", "shop.orders"]);
    plane.rows(&["sharding", "disable_shard", "2"]);
    plane.rows(&["sharding", "remove_shard", "2"]);
    plane.rows(&["sharding", "remove_definition", "1"]);
    assert!(plane.published.load().sharding.is_none());
}

/// The condition that counts rows says what the router's look-up says, for every kind and type.
#[test]
fn servers_and_the_router_place_rows_alike() {
    for release in [Release::Installed, Release::MySql80] {
        let Some(servers) = servers::<3>(release) else {
            continue;
        };
        let dir = tempfile::tempdir().expect("a directory");
        let plane = farm(dir.path(), &servers);
        servers[0].client().run("CREATE DATABASE d");
        for (number, (kind, groups, column, key, values)) in (1..).zip(CASES) {
            let table = format!("d.t{number}");
            let create =
                format!("CREATE TABLE {table} (k {column} NOT NULL, n INT, PRIMARY KEY (k, n))");
            servers[0].client().run(&create);
            let id = number.to_string();
            plane.rows(&["sharding", "create_definition", kind, "g1"]);
            plane.rows(&["sharding", "add_shard", &id, groups, "ENABLED"]);
            plane.rows(&["sharding", "add_table", &id, &table, "k"]);
            let now = sharding(&plane);
            let map = &now.map(number).expect("the map").map;
            for (at, value) in values.iter().enumerate() {
                let of = stored(Literal::Text(value.as_bytes()), *key).expect("a key");
                let at_shard = locate(map, &of).expect("a shard");
                let group = &map.shard(at_shard).group;
                let server = &servers[group[1..].parse::<usize>().expect("a number") - 1];
                server
                    .client()
                    .run(&format!("INSERT INTO {table} VALUES ('{value}', {at})"));
            }
            let wrong: Value = plane.rows(&["sharding", "verify", &table]);
            assert_eq!(wrong, json!([]), "{kind} {column}");
        }
    }
}

const FOLDED: KeyType = KeyType::Text {
    folds: true,
    pads: true,
};
const BINARY: KeyType = KeyType::Text {
    folds: false,
    pads: true,
};

const WORDS: &[&str] = &["a", "B ", "zoo", "M", "hello world", "x-1", "m"];
const NUMBERS: &[&str] = &["-5", "0", "17", "4711", "99999", "100", "250"];
const DAYS: &[&str] = &["2024-01-01", "2025-06-30", "2026-11-22", "2027-01-01"];

/// Kind, bounds, the key's column and type, its values.
const CASES: &[(&str, &str, &str, KeyType, &[&str])] = &[
    ("SLOTS", "g1,g2,g3", "BIGINT", KeyType::Integer, NUMBERS),
    ("HASH", "g1,g2,g3", "INT", KeyType::Integer, NUMBERS),
    (
        "RANGE",
        "g1/-100,g2/50,g3/4000",
        "INT",
        KeyType::Integer,
        NUMBERS,
    ),
    (
        "SLOTS",
        "g1,g2,g3",
        "VARCHAR(20) COLLATE utf8mb4_general_ci",
        FOLDED,
        WORDS,
    ),
    (
        "HASH",
        "g1,g2,g3",
        "CHAR(20) COLLATE utf8mb4_bin",
        BINARY,
        WORDS,
    ),
    (
        "RANGE_STRING",
        "g1/,g2/M,g3/m",
        "VARCHAR(20) COLLATE utf8mb4_bin",
        BINARY,
        WORDS,
    ),
    ("HASH", "g1,g2,g3", "VARBINARY(20)", KeyType::Bytes, WORDS),
    ("SLOTS", "g1,g2,g3", "DATE", KeyType::Date, DAYS),
    (
        "RANGE_DATETIME",
        "g1/2000-01-01,g2/2025-06-30,g3/2026-12-01 10:00:00",
        "DATETIME",
        KeyType::Datetime,
        DAYS,
    ),
    (
        "LIST",
        "g1/17|-5,g2/0|4711|99999,g3/100|250",
        "INT",
        KeyType::Integer,
        NUMBERS,
    ),
    (
        "LIST",
        "g1/A|b|x-1,g2/ZOO|m,g3/hello world",
        "VARCHAR(20) COLLATE utf8mb4_general_ci",
        FOLDED,
        WORDS,
    ),
];
