//! SELECTs whose rows come from several groups, on a farm as its users have it: on its scratch server,
//! on a primary in its place, by accounts that may only read, within their bounds.

use std::time::Duration;

use testkit::{Client, Farm, Release, wait_until};

/// Two groups, `shop.orders` sharded by customer, `shop.parts` by another column.
fn farm(release: Release, flags: &[&str]) -> Option<Farm> {
    let flags = [&["--groups", "2", "--replicas", "0"], flags].concat();
    let farm = Farm::start_on(release, &flags)?;
    let mut client = farm.client();
    client.rows("HEDDLE sharding create_definition SLOTS g1 shop");
    client.rows("HEDDLE sharding add_shard shop 'g1,g2' ENABLED");
    client.run("CREATE DATABASE shop");
    client.run("USE shop");
    client.run(
        "CREATE TABLE orders (id INT, customer_id INT NOT NULL, part INT, \
         note VARCHAR(20), PRIMARY KEY (customer_id, id)) /*heddle shard_map=shop shard_key=customer_id*/",
    );
    client.run(
        "CREATE TABLE parts (part INT PRIMARY KEY, name VARCHAR(20)) \
         /*heddle shard_map=shop shard_key=part*/",
    );
    for id in 1..=40 {
        let part = id % 10;
        client.run(&format!(
            "INSERT INTO orders VALUES ({id}, {id}, {part}, 'note {id}')"
        ));
    }
    for part in 0..10 {
        client.run(&format!("INSERT INTO parts VALUES ({part}, 'part {part}')"));
    }
    Some(farm)
}

const JOIN: &str = "SELECT COUNT(*) FROM shop.orders JOIN shop.parts USING (part)";

fn counted(client: &mut Client, name: &str) -> u64 {
    let rows = client.rows("HEDDLE STATUS");
    let found = rows.iter().find(|row| row[0].as_deref() == Some(name));
    let value = found.and_then(|row| row[1].clone());
    value.expect("it is counted").parse().expect("a number")
}

/// True when the next gather runs on the scratch server.
fn on_scratch(client: &mut Client) -> bool {
    let before = counted(client, "gathers_on_stand_in");
    assert_eq!(client.value(JOIN), "40");
    counted(client, "gathers_on_stand_in") == before
}

fn wait_for_scratch(client: &mut Client) {
    wait_until(Duration::from_secs(60), "the scratch server", || {
        on_scratch(client)
    });
}

fn statements_run_on_it(release: Release) {
    let Some(farm) = farm(release, &[]) else {
        return;
    };
    let mut client = farm.client();
    client.run("USE shop");
    wait_for_scratch(&mut client);
    readers_need_no_more(&farm);
    sessions_are_as_elsewhere(&mut client);
    tables_go_with_their_statements(&farm, &mut client);
    rows_that_do_not_matter_stay(&mut client);
    views_are_seen_through(&mut client);
    functions_of_the_farm_are_found(&mut client);
    bounds_are_told(&farm, &mut client);
    it_may_end(&farm, &mut client);
}

/// An account with SELECT on the tables alone; one that may not see a table does not.
fn readers_need_no_more(farm: &Farm) {
    let mut root = farm.client();
    root.run("CREATE USER reader@'%' IDENTIFIED BY 'secret'");
    root.run("GRANT SELECT ON shop.orders TO reader@'%'");
    let mut reader = None;
    wait_until(Duration::from_secs(20), "the account", || {
        reader = Client::connect(farm.sql, "reader", "secret").ok();
        reader.is_some()
    });
    let mut reader = reader.expect("it was waited for");
    assert_eq!(reader.error(JOIN), 1142);
    root.run("GRANT SELECT ON shop.parts TO reader@'%'");
    assert_eq!(reader.value(JOIN), "40");
    let who = "SELECT CONCAT(USER(), ' ', CURRENT_USER()) FROM shop.orders o JOIN shop.parts p \
               ON o.part = p.part LIMIT 1";
    assert!(
        reader.value(who).starts_with("reader@"),
        "{}",
        reader.value(who)
    );
    assert!(reader.value(who).ends_with(" reader@%"));
    // What the scratch server has itself is not to be read.
    let cunning = "SELECT LOAD_FILE('/etc/passwd') FROM shop.orders o JOIN shop.parts p \
                   ON o.part = p.part LIMIT 1";
    assert_eq!(reader.error(cunning), 1235);
}

/// What the session or the farm has set holds there, and the session's values are its own.
fn sessions_are_as_elsewhere(client: &mut Client) {
    let from = "FROM orders o JOIN parts p ON o.part = p.part LIMIT 1";
    let ask = |client: &mut Client, what: &str| client.value(&format!("SELECT {what} {from}"));
    client.run("SET @mine = 'abc', time_zone = '+03:00', sql_mode = 'ANSI_QUOTES'");
    assert_eq!(ask(client, "@mine"), "abc");
    assert_eq!(ask(client, "@@sql_mode"), "ANSI_QUOTES");
    assert_eq!(ask(client, "@@time_zone"), "+03:00");
    assert_eq!(ask(client, "FROM_UNIXTIME(0)"), "1970-01-01 03:00:00");
    client.run("SET time_zone = DEFAULT, sql_mode = DEFAULT");
    for what in [
        "CONNECTION_ID()",
        "DATABASE()",
        "@@version",
        "@@port",
        "@@group_concat_max_len",
        "USER()",
    ] {
        let straight = client.value(&format!("SELECT {what}"));
        assert_eq!(ask(client, what), straight, "{what}");
        let named = client
            .query(format!("SELECT {what} {from}"))
            .expect("it is answered");
        let rows = named.first().and_then(|reply| match reply {
            testkit::client::Reply::Rows(rows) => Some(rows.columns[0].name.clone()),
            testkit::client::Reply::Done(_) => None,
        });
        assert_eq!(rows.as_deref(), Some(what));
    }
    let all = "SELECT LENGTH(GROUP_CONCAT(o.note)) FROM orders o JOIN parts p ON o.part = p.part";
    assert_eq!(client.value(all), "310");
    client.run("SET group_concat_max_len = 10");
    assert_eq!(client.value(all), "10");
    let warned = client.rows("SHOW WARNINGS");
    assert_eq!(warned.len(), 1, "{warned:?}");
    client.run("SET group_concat_max_len = DEFAULT");
    assert_eq!(client.value(all), "310");
}

fn tables_go_with_their_statements(farm: &Farm, client: &mut Client) {
    let twice = "WITH all_orders AS (SELECT part FROM orders) SELECT COUNT(*) FROM all_orders a \
                 JOIN all_orders b ON a.part = b.part JOIN parts p ON p.part = a.part";
    assert_eq!(client.value(twice), "160");
    let failing = "WITH o AS (SELECT part FROM orders) SELECT (SELECT part FROM o) FROM parts";
    assert_eq!(client.error(failing), 1242);
    let text = std::fs::read_to_string(farm.dir().join("farm.json")).expect("it is there");
    let told: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let port = told["scratch"]["port"].as_u64().expect("it runs");
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port as u16));
    let mut scratch = Client::connect(address, "root", "").expect("root has no password");
    wait_until(Duration::from_secs(10), "an empty scratch server", || {
        scratch.rows("SHOW TABLES IN heddle").is_empty()
    });
}

/// Rows that meet no row of a table that has been fetched before stay where they are, and nothing else
/// does.
fn rows_that_do_not_matter_stay(client: &mut Client) {
    for (query, expected, rows) in [
        (
            "SELECT COUNT(*) FROM orders o JOIN parts p ON o.part = p.part WHERE p.name = 'part 3'",
            "4",
            5,
        ),
        (
            "SELECT COUNT(*) FROM orders o JOIN parts p USING (part) WHERE o.id = 12",
            "1",
            2,
        ),
        (
            "SELECT COUNT(*) FROM parts p LEFT JOIN orders o ON o.part = p.part WHERE p.part < 2",
            "8",
            42,
        ),
        (
            "SELECT COUNT(*) FROM orders o RIGHT JOIN parts p ON o.part = p.part AND o.id = 12",
            "10",
            50,
        ),
        (
            "SELECT COUNT(*) FROM orders o LEFT JOIN parts p ON o.part = p.part AND p.name = 'x'",
            "40",
            50,
        ),
        (
            "SELECT COUNT(*) FROM parts p WHERE p.part IN (SELECT part FROM orders WHERE id = 7)",
            "1",
            2,
        ),
        (
            "SELECT COUNT(*) FROM parts p WHERE p.part NOT IN (SELECT part FROM orders WHERE id = 7)",
            "9",
            11,
        ),
        (
            "SELECT SUM((SELECT COUNT(*) FROM orders o WHERE o.part = p.part)) FROM parts p \
             WHERE p.part < 2",
            "8",
            10,
        ),
        (
            "SELECT COUNT(*) FROM parts p WHERE NOT EXISTS \
             (SELECT 1 FROM orders o WHERE o.part = p.part AND o.id = 7)",
            "9",
            11,
        ),
        (
            "SELECT COUNT(*) FROM orders o JOIN parts p ON o.part = p.part WHERE p.name = 'none'",
            "0",
            0,
        ),
        (
            "SELECT COUNT(*) FROM orders o JOIN parts p ON o.part = p.part OR o.id = p.part \
             WHERE p.part = 3",
            "4",
            41,
        ),
    ] {
        let before = counted(client, "gathered_rows");
        assert_eq!(client.value(query), expected, "{query}");
        assert_eq!(counted(client, "gathered_rows") - before, rows, "{query}");
    }
}

/// Views are read as on one server, whatever they are made of.
fn views_are_seen_through(client: &mut Client) {
    client.run(
        "CREATE VIEW early AS SELECT customer_id AS who, part, note FROM orders WHERE id <= 20",
    );
    client.run(
        "CREATE VIEW whole (nr, n) AS SELECT p.part, COUNT(o.id) FROM parts p \
         LEFT JOIN orders o ON o.part = p.part GROUP BY p.part",
    );
    client.run("CREATE VIEW again AS SELECT nr FROM whole WHERE n = 4");
    let reads = |client: &mut Client, query: &str, expected: &str| {
        let mut got = String::new();
        wait_until(Duration::from_secs(20), query, || {
            got = match client.query(query) {
                Ok(_) => client.value(query),
                Err(failure) => format!("{failure:?}"),
            };
            got == expected
        });
    };
    reads(client, "SELECT COUNT(*) FROM early", "20");
    reads(client, "SELECT note FROM early WHERE who = 7", "note 7");
    let plan = client.rows("HEDDLE EXPLAIN SELECT COUNT(*) FROM early");
    assert_eq!(plan[0][0].as_deref(), Some("pushed"), "{plan:?}");
    let rows = plan[0][5].as_deref().and_then(|it| it.parse::<u64>().ok());
    assert!(rows.is_some_and(|rows| rows > 0), "{plan:?}");
    let plan = client.rows("HEDDLE EXPLAIN SELECT note FROM early WHERE who = 7");
    assert!(!format!("{plan:?}").contains("gathered"), "{plan:?}");
    reads(client, "SELECT SUM(n) FROM whole", "40");
    reads(client, "SELECT whole.n FROM whole WHERE nr = 3", "4");
    reads(
        client,
        "SELECT COUNT(*) FROM again JOIN parts ON nr = part",
        "10",
    );
    reads(
        client,
        "SELECT COUNT(DISTINCT who) FROM early e JOIN parts p ON p.part = e.part",
        "20",
    );
    assert_eq!(client.error("SELECT * FROM whole FOR UPDATE"), 1235);
}

/// Stored functions are on the farm's own servers only.
fn functions_of_the_farm_are_found(client: &mut Client) {
    client.run("CREATE FUNCTION twice(n INT) RETURNS INT DETERMINISTIC RETURN 2 * n");
    let query = "SELECT SUM(twice(o.part)) FROM orders o JOIN parts p ON o.part = p.part";
    assert_eq!(client.value(query), "360");
}

fn bounds_are_told(farm: &Farm, client: &mut Client) {
    let set = |value: &str| {
        let done = farm.command(&[
            "config",
            "set",
            &format!("[settings]\ngather_time_max_ms = {value}\n"),
        ]);
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    };
    set("300");
    let slow = "SELECT SUM(SLEEP(0.1)) FROM orders o JOIN parts p ON o.part = p.part";
    wait_until(Duration::from_secs(30), "the bound", || {
        match client.query(slow) {
            Ok(_) => false,
            Err(failure) => format!("{failure:?}").contains("gather_time_max_ms = 300"),
        }
    });
    set("600000");
    assert_eq!(client.value(JOIN), "40");
}

/// A primary stands in for it, and it comes back.
fn it_may_end(farm: &Farm, client: &mut Client) {
    let text = std::fs::read_to_string(farm.dir().join("farm.json")).expect("it is there");
    let told: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let pid = told["scratch"]["pid"].as_u64().expect("it runs");
    let done = std::process::Command::new("kill")
        .args(["-9", &pid.to_string()])
        .status();
    assert!(done.expect("it can be sent").success());
    assert_eq!(client.value(JOIN), "40");
    wait_for_scratch(client);
}

#[test]
fn statements_run_on_it_on_mariadb() {
    statements_run_on_it(Release::Installed);
}

#[test]
fn statements_run_on_it_on_mysql() {
    statements_run_on_it(Release::MySql80);
}

#[test]
fn a_farm_may_be_without_it() {
    let Some(farm) = farm(Release::Installed, &["--no-scratch"]) else {
        return;
    };
    let mut root = farm.client();
    assert!(!on_scratch(&mut root));
    root.run("CREATE USER reader@'%'");
    root.run("GRANT SELECT ON shop.* TO reader@'%'");
    let mut reader = None;
    wait_until(Duration::from_secs(20), "the account", || {
        reader = Client::connect(farm.sql, "reader", "").ok();
        reader.is_some()
    });
    let mut reader = reader.expect("it was waited for");
    let failure = reader.query(JOIN).expect_err("it may make no tables");
    let told = format!("{failure:?}");
    assert!(told.contains("scratch"), "{told}");
}
