//! SELECTs whose rows come from several groups, on a farm as its users have it: on its scratch server,
//! on a primary in its place, by accounts that may only read, within their bounds.

use std::time::Duration;

use testkit::{Client, Farm, Release, wait_until};

/// Two groups, `shop.orders` sharded by customer, `shop.parts` by another column.
fn farm(release: Release, flags: &[&str]) -> Option<Farm> {
    // Small tables are not sent to the groups: rows are to be gathered.
    let usual = [
        "--groups",
        "2",
        "--replicas",
        "0",
        "--set",
        "broadcast_bytes_max=0",
    ];
    let flags = [&usual, flags].concat();
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

pub fn counted(client: &mut Client, name: &str) -> u64 {
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
    equal_rows_come_once(&mut client, release);
    many_rows_come(&mut client);
    many_tables_are_joined(&mut client);
    rows_that_are_there_twice_come_twice(&farm, &mut client);
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

/// Queries, their answers, and the rows that are fetched for them.
const MOVED: [(&str, &str, u64); 15] = [
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
        40,
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
    // What both branches say, of the one table and of the other.
    (
        "SELECT COUNT(*) FROM orders o, parts p WHERE (o.part = p.part AND o.id = 12 AND \
         p.name = 'part 2') OR (o.part = p.part AND o.id = 14 AND p.name = 'part 4')",
        "2",
        4,
    ),
    // The query's rows stay on the groups, and those that it leaves out.
    (
        "SELECT COUNT(*) FROM orders o JOIN parts p ON o.part = p.part WHERE o.customer_id IN \
         (SELECT customer_id FROM orders WHERE id = 12)",
        "1",
        2,
    ),
    // Rows of `o` meet none of `l`, which lies with them.
    (
        "SELECT COUNT(*) FROM orders o JOIN orders l ON l.customer_id = o.customer_id \
         JOIN parts p ON p.part = l.part WHERE o.id < 21 AND l.note LIKE 'note 2%'",
        "2",
        6,
    ),
    (
        "SELECT COUNT(*) FROM parts p WHERE EXISTS (SELECT * FROM orders o WHERE o.part = p.part \
         AND o.id < 3)",
        "2",
        12,
    ),
];

/// Rows that meet no row of a table that has been fetched before stay where they are, and nothing else
/// does.
fn rows_that_do_not_matter_stay(client: &mut Client) {
    for (query, expected, rows) in MOVED {
        let before = counted(client, "gathered_rows");
        assert_eq!(client.value(query), expected, "{query}");
        assert_eq!(counted(client, "gathered_rows") - before, rows, "{query}");
    }
}

/// Of 40 orders each group tells which of ten parts they are of; and a table that is named twice is fetched
/// once where temporary tables may be read twice.
fn equal_rows_come_once(client: &mut Client, release: Release) {
    let mut moved = |query: &str, expected: &str| {
        let before = counted(client, "gathered_rows");
        assert_eq!(client.value(query), expected, "{query}");
        counted(client, "gathered_rows") - before
    };
    let asked = "SELECT COUNT(*) FROM parts p WHERE p.part NOT IN (SELECT part FROM orders)";
    assert!(moved(asked, "0") <= 30);
    let asked = "SELECT COUNT(*) FROM parts p WHERE EXISTS \
                 (SELECT * FROM orders o WHERE o.part = p.part)";
    assert!(moved(asked, "10") <= 30);
    let twice = "SELECT COUNT(*) FROM parts p JOIN parts q ON q.part = p.part + 1";
    let mariadb = release == Release::Installed;
    assert_eq!(moved(twice, "9"), if mariadb { 10 } else { 20 });
}

/// More rows than one INSERT takes, into a table with keys.
fn many_rows_come(client: &mut Client) {
    client.run(
        "CREATE TABLE pages (id INT PRIMARY KEY, part INT, text VARCHAR(8000)) \
         /*heddle shard_map=shop shard_key=id*/",
    );
    for id in 0..400 {
        let part = id % 10;
        client.run(&format!(
            "INSERT INTO pages VALUES ({id}, {part}, REPEAT('{part}', 7900))"
        ));
    }
    let query = "SELECT SUM(LENGTH(text)) FROM pages JOIN parts ON pages.part = parts.part";
    assert_eq!(client.value(query), (400 * 7900).to_string());
    small_tables_come_first(client);
    client.run("DROP TABLE pages");
}

/// Both tables have conditions, and the text has the larger one first: 40 of its rows meet its own.
fn small_tables_come_first(client: &mut Client) {
    let query = "SELECT COUNT(*) FROM pages JOIN parts ON pages.part = parts.part \
                 WHERE pages.text LIKE '3%' AND parts.name LIKE '%7'";
    let before = counted(client, "gathered_rows");
    assert_eq!(client.value(query), "0");
    assert_eq!(counted(client, "gathered_rows") - before, 1);
    let told = client.rows(&format!("HEDDLE EXPLAIN {query}"));
    let mut cells = told.iter().flatten().flatten();
    let order = "fetched in the order parts, pages: some ";
    assert!(cells.any(|cell| cell.contains(order)), "{told:?}");
}

/// Rows that are on two groups against their table's definition come twice, as they are.
fn rows_that_are_there_twice_come_twice(farm: &Farm, client: &mut Client) {
    for member in farm.members() {
        let insert = "INSERT IGNORE INTO shop.orders VALUES (77, 77, 3, 'twice')";
        member.client().run(insert);
    }
    let twice = "SELECT COUNT(*) FROM orders o JOIN orders l ON l.customer_id = o.customer_id \
                 JOIN parts p ON p.part = o.part WHERE o.id = 77";
    // Of `l` that group is asked only to which the key belongs.
    assert_eq!(client.value(twice), "2");
    for member in farm.members() {
        member.client().run("DELETE FROM shop.orders WHERE id = 77");
    }
}

/// A server that thinks of all orders of fifteen tables would not answer within the test's patience.
fn many_tables_are_joined(client: &mut Client) {
    let from: Vec<String> = (0..15).map(|at| format!("parts p{at}")).collect();
    let joined: Vec<String> = (1..15)
        .map(|at| format!("p{at}.part + 1 = p{}.part + 1", at - 1))
        .collect();
    let query = format!(
        "SELECT COUNT(*) FROM {} WHERE {} AND p0.name = 'part 3'",
        from.join(", "),
        joined.join(" AND ")
    );
    assert_eq!(client.value(&query), "1");
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
    // An account that may make no tables on the primary that stands in waits until it is there again.
    let mut reader = Client::connect(farm.sql, "reader", "secret").expect("its account is there");
    assert_eq!(reader.value(JOIN), "40");
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
