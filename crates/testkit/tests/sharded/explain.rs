//! EXPLAIN and ANALYZE of statements over several groups, and what `sharding advise` makes of what was counted.

use serde_json::Value;
use testkit::{Client, Farm, Release};

const JOIN: &str = "SELECT p.name, COUNT(*) AS n FROM orders o JOIN parts p ON p.part = o.part \
                    GROUP BY p.name ORDER BY p.name";

/// Two groups, orders by customer and parts by another column.
fn farm(release: Release) -> Option<Farm> {
    let farm = Farm::start_on(
        release,
        &[
            "--groups",
            "2",
            "--replicas",
            "0",
            "--set",
            "broadcast_bytes_max=0",
        ],
    )?;
    let mut client = farm.client();
    client.rows("HEDDLE sharding create_definition SLOTS g1 shop");
    client.rows("HEDDLE sharding add_shard shop 'g1,g2' ENABLED");
    fill(
        &mut client,
        "/*heddle shard_map=shop shard_key=customer_id*/",
        "/*heddle shard_map=shop shard_key=part*/",
    );
    Some(farm)
}

fn fill(client: &mut Client, orders: &str, parts: &str) {
    client.run("CREATE DATABASE shop");
    client.run("USE shop");
    client.run(&format!(
        "CREATE TABLE orders (id INT, customer_id INT NOT NULL, part INT NOT NULL, note VARCHAR(20), \
         PRIMARY KEY (customer_id, id), KEY (part)) {orders}"
    ));
    client.run(&format!(
        "CREATE TABLE parts (part INT PRIMARY KEY, name VARCHAR(20)) {parts}"
    ));
    let rows = |from: usize| {
        let rows = (from..from + 200).map(|id| format!("({id}, {id}, {}, 'note {id}')", id % 10));
        rows.collect::<Vec<_>>().join(", ")
    };
    for from in [0, 200, 400] {
        client.run(&format!("INSERT INTO orders VALUES {}", rows(from)));
    }
    let parts: Vec<String> = (0..10)
        .map(|part| format!("({part}, 'part {part}')"))
        .collect();
    client.run(&format!("INSERT INTO parts VALUES {}", parts.join(", ")));
}

/// The one column of an answer.
fn lines(client: &mut Client, text: &str) -> Vec<String> {
    let rows = client.rows(text);
    let one = |row: Vec<Option<String>>| {
        assert_eq!(row.len(), 1, "{row:?}");
        row.into_iter().flatten().next().expect("a line")
    };
    rows.into_iter().map(one).collect()
}

fn has(lines: &[String], parts: &[&str]) {
    let found = lines
        .iter()
        .any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(found, "{parts:?} in {lines:#?}");
}

fn trees_say_what_runs_where(client: &mut Client) {
    let tree = lines(client, &format!("EXPLAIN {JOIN}"));
    assert!(tree[0].starts_with("-> router: "), "{tree:#?}");
    has(
        &tree,
        &["-> scratch server: the statement over 2 temporary tables"],
    );
    has(&tree, &["reason: ", "equal shard keys"]);
    has(
        &tree,
        &[
            "cure: ",
            "shard `shop`.`orders` by `part`",
            "make `shop`.`parts` global",
        ],
    );
    has(
        &tree,
        &[
            "-> g1, g2: fetch 1, into `heddle`.",
            "about ",
            " rows, statistics)",
        ],
    );
    has(&tree, &["SELECT ", "`shop`.`parts`"]);
    assert!(
        !tree.iter().any(|line| line.contains("actual")),
        "{tree:#?}"
    );
    let pushed = lines(
        client,
        "EXPLAIN SELECT part, COUNT(*) FROM orders GROUP BY part",
    );
    has(&pushed, &["-> router: aggregates are merged"]);
    has(&pushed, &["-> g1, g2: the whole statement", "about "]);
    assert!(
        !pushed.iter().any(|line| line.contains("cure: ")),
        "{pushed:#?}"
    );
    let written = lines(
        client,
        "EXPLAIN UPDATE orders SET note = 'x' WHERE part = 3",
    );
    has(&written, &["-> g1: its part of the statement"]);
    has(&written, &["-> g2: its part of the statement"]);
    assert_eq!(
        lines(client, &format!("HEDDLE EXPLAIN FORMAT=TREE {JOIN}")),
        tree
    );
    // One group knows best how it goes about its own.
    let own = client.rows("EXPLAIN SELECT note FROM orders WHERE customer_id = 7");
    assert!(own[0].len() > 5, "{own:?}");
    let table = client.rows(&format!("HEDDLE EXPLAIN {JOIN}"));
    assert_eq!(table[0].len(), 7, "{table:?}");
    assert_eq!(table[0][0].as_deref(), Some("gathered"));
    let cure = table[0][6].as_deref().unwrap_or_default();
    assert!(cure.contains("make `shop`.`parts` global"), "{table:?}");
}

fn runs_say_what_was_moved(client: &mut Client) {
    for words in [
        "ANALYZE",
        "EXPLAIN ANALYZE",
        "HEDDLE ANALYZE",
        "HEDDLE EXPLAIN ANALYZE",
    ] {
        let tree = lines(client, &format!("{words} {JOIN}"));
        assert!(
            tree[0].contains("(actual rows=10 bytes="),
            "{words}: {tree:#?}"
        );
        assert!(tree[0].contains(" time="), "{words}: {tree:#?}");
        has(&tree, &["fetch ", "(actual rows=600 bytes="]);
        has(&tree, &["fetch ", "(actual rows=10 bytes="]);
        has(&tree, &["-> g2: its rows  (actual rows="]);
    }
    let pushed = lines(
        client,
        "ANALYZE SELECT part, COUNT(*) FROM orders GROUP BY part",
    );
    has(&pushed, &["-> router: ", "(actual rows=10 bytes="]);
    has(&pushed, &["-> g1: its rows  (actual rows=10 bytes="]);
    let nothing = format!(
        "ANALYZE {}",
        JOIN.replace("GROUP BY", "WHERE p.part = 77 GROUP BY")
    );
    let nothing = lines(client, &nothing);
    has(&nothing, &["nothing, no row of it could matter"]);
    let one = lines(
        client,
        "HEDDLE ANALYZE SELECT note FROM orders WHERE customer_id = 7",
    );
    has(&one, &["-> router: ", "(actual rows=1 bytes="]);
    assert_eq!(client.error("ANALYZE UPDATE orders SET note = 'x'"), 1235);
    assert_eq!(
        client.value("SELECT COUNT(*) FROM orders WHERE note = 'x'"),
        "0"
    );
    assert_eq!(client.error(&format!("ANALYZE {JOIN}, nowhere.x")), 1054);
}

fn json_says_the_same(client: &mut Client) {
    for words in ["EXPLAIN ANALYZE FORMAT=JSON", "ANALYZE FORMAT=JSON"] {
        let text = lines(client, &format!("{words} {JOIN}")).join("");
        let json: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(json["place"], "router");
        assert_eq!(json["actual_rows"], 10);
        let work = &json["steps"][0];
        assert!(
            work["sql"]
                .as_str()
                .is_some_and(|it| it.contains("`heddle`.")),
            "{json:#}"
        );
        assert!(
            work["cures"].as_array().is_some_and(|it| !it.is_empty()),
            "{json:#}"
        );
        let rows: u64 = work["steps"]
            .as_array()
            .expect("fetches")
            .iter()
            .map(|fetch| {
                assert!(fetch["actual_ms"].is_number(), "{json:#}");
                fetch["actual_rows"].as_u64().expect("rows")
            })
            .sum();
        assert_eq!(rows, 610, "{json:#}");
    }
    let text = lines(client, &format!("EXPLAIN FORMAT=JSON {JOIN}")).join("");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    assert!(json["actual_rows"].is_null(), "{json:#}");
}

fn column(row: &Value, name: &str) -> String {
    row[name].as_str().unwrap_or_default().to_owned()
}

/// Does what the column `command` says.
fn carry_out(client: &mut Client, row: &Value) {
    for text in column(row, "command").split("; ") {
        let done = client.query(text);
        assert!(done.is_ok(), "{text}: {done:?}");
    }
}

fn tier(client: &mut Client, text: &str) -> String {
    let rows = client.rows(&format!("HEDDLE EXPLAIN {text}"));
    rows[0][0].clone().unwrap_or_default()
}

fn advice_is_worth_taking(farm: &Farm, client: &mut Client) {
    for _ in 0..20 {
        assert_eq!(client.rows(JOIN).len(), 10);
    }
    let counted = farm.json(&["digest", "list", "--limit", "0"]);
    let join = counted
        .iter()
        .filter(|row| column(row, "text").contains("COUNT(*) AS n"));
    let read: u64 = join
        .filter_map(|row| row["rows_read"].as_u64())
        .max()
        .expect("counted");
    assert!(read >= 20 * 610, "{read}");
    let advice = farm.json(&["sharding", "advise"]);
    let first = advice.first().expect("a proposal");
    assert_eq!(first["rank"], 1, "{advice:#?}");
    assert_eq!(
        column(first, "change"),
        "make `shop`.`parts` global",
        "{advice:#?}"
    );
    assert!(
        first["bytes_saved"].as_u64().is_some_and(|it| it > 0),
        "{advice:#?}"
    );
    assert!(
        column(first, "statement").contains("JOIN parts"),
        "{advice:#?}"
    );
    let before = client.rows(JOIN);
    // The table has another place already: its rows are put aside.
    assert!(
        column(first, "command").contains("remove_table"),
        "{advice:#?}"
    );
    carry_out(client, first);
    assert_eq!(tier(client, JOIN), "pushed");
    assert_eq!(client.rows(JOIN), before);
    let verified = client.rows("HEDDLE sharding verify");
    assert!(verified.is_empty(), "{verified:?}");
}

fn several_groups_are_explained(release: Release) {
    let Some(farm) = farm(release) else {
        return;
    };
    let mut client = farm.client();
    client.run("USE shop");
    trees_say_what_runs_where(&mut client);
    runs_say_what_was_moved(&mut client);
    json_says_the_same(&mut client);
    advice_is_worth_taking(&farm, &mut client);
}

#[test]
fn several_groups_are_explained_on_mariadb() {
    several_groups_are_explained(Release::Installed);
}

#[test]
fn several_groups_are_explained_on_mysql() {
    several_groups_are_explained(Release::MySqlNewer);
}

#[test]
fn a_farm_without_maps_gets_its_first_keys() {
    let Some(farm) = Farm::start(&["--groups", "2", "--replicas", "0"]) else {
        return;
    };
    let mut client = farm.client();
    fill(&mut client, "", "");
    const ONE: &str = "SELECT note FROM orders WHERE part = 4";
    for _ in 0..50 {
        client.rows(ONE);
        client.rows(JOIN);
    }
    let advice = farm.json(&["sharding", "advise"]);
    assert_eq!(advice[0]["rank"], 0, "{advice:#?}");
    let command = column(&advice[0], "command");
    assert!(
        command.contains("create_definition SLOTS g1 main"),
        "{command}"
    );
    let said: Vec<String> = advice.iter().map(|row| column(row, "change")).collect();
    assert_eq!(said[1], "shard `shop`.`orders` by `part`", "{advice:#?}");
    assert_eq!(said.len(), 3, "{advice:#?}");
    // Its primary key would be unique on each shard only.
    assert!(
        column(&advice[1], "note").contains("unique keys"),
        "{advice:#?}"
    );
    let before = client.rows(JOIN);
    carry_out(&mut client, &advice[0]);
    let refused = client.query("HEDDLE sharding add_table main shop.orders part --checked");
    assert!(
        refused.is_err(),
        "its rows are on one group still: {refused:?}"
    );
    client.run("CREATE TABLE kept LIKE orders");
    client.run("INSERT INTO kept SELECT * FROM orders");
    client.run("TRUNCATE orders");
    for row in &advice[1..] {
        if column(row, "change").contains("parts") && !column(row, "change").contains("global") {
            continue;
        }
        carry_out(&mut client, row);
    }
    client.run("INSERT INTO orders SELECT * FROM kept");
    assert_eq!(client.rows(JOIN), before);
    let way = client.rows(&format!("HEDDLE EXPLAIN {ONE}"));
    let server = way[0][1].as_deref().unwrap_or_default();
    assert!(server.starts_with("127.0.0.1:"), "{way:?}");
}
