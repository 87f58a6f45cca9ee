//! Small tables that are sent to the groups, on a farm as its users have it: what is answered, what moves, and that nothing
//! is left behind, however a statement ends.

use std::time::Duration;

use faults::Plant;
use testkit::client::{Reply, Value};
use testkit::{Client, Farm, Release, wait_until};

use crate::scratch::counted;

const JOIN: &str = "SELECT p.name, COUNT(o.note) AS n FROM orders o JOIN parts p ON p.part = o.part \
                    GROUP BY p.name ORDER BY p.name";

/// Two groups, 600 orders by customer, ten parts by another column.
fn farm(release: Release, flags: &[&str]) -> Option<Farm> {
    let flags = [&["--groups", "2", "--replicas", "0"], flags].concat();
    let farm = Farm::start_on(release, &flags)?;
    let mut client = farm.client();
    client.rows("HEDDLE sharding create_definition SLOTS g1 shop");
    client.rows("HEDDLE sharding add_shard shop 'g1,g2' ENABLED");
    client.run("CREATE DATABASE shop");
    client.run("USE shop");
    client.run(
        "CREATE TABLE orders (id INT, customer_id INT NOT NULL, part INT NOT NULL, note VARCHAR(20), \
         PRIMARY KEY (customer_id, id), KEY (part)) /*heddle shard_map=shop shard_key=customer_id*/",
    );
    client.run(
        "CREATE TABLE parts (part INT PRIMARY KEY, name VARCHAR(100)) \
         /*heddle shard_map=shop shard_key=part*/",
    );
    let rows = (0..600).map(|id| format!("({id}, {id}, {}, 'note {id}')", id % 10));
    let rows: Vec<String> = rows.collect();
    client.run(&format!("INSERT INTO orders VALUES {}", rows.join(", ")));
    let rows: Vec<String> = (0..10)
        .map(|part| format!("({part}, 'part {part}')"))
        .collect();
    client.run(&format!("INSERT INTO parts VALUES {}", rows.join(", ")));
    measure(&mut client);
    Some(farm)
}

/// The router knows how many rows the servers count now.
fn measure(client: &mut Client) {
    client.rows("ANALYZE TABLE shop.orders, shop.parts");
    client.rows("HEDDLE sharding refresh");
}

fn client(farm: &Farm) -> Client {
    let mut client = farm.client();
    client.run("USE shop");
    client
}

fn expected() -> Vec<Vec<Option<String>>> {
    let row = |part| vec![Some(format!("part {part}")), Some("60".to_owned())];
    (0..10).map(row).collect()
}

/// Has the statement answered by sending a table: it is gathered once, for the sizes.
pub(crate) fn wait_for_sizes(client: &mut Client, text: &str) {
    wait_until(Duration::from_secs(60), "a table that is sent", || {
        let before = counted(client, "broadcasts");
        client.rows(text);
        counted(client, "broadcasts") > before
    });
}

/// What the counters grow by.
fn grown(client: &mut Client, run: impl FnOnce(&mut Client)) -> [u64; 4] {
    const NAMES: [&str; 4] = [
        "broadcasts",
        "broadcast_rows",
        "broadcasts_turned_back",
        "gathers",
    ];
    let before = NAMES.map(|name| counted(client, name));
    run(client);
    let mut before = before.into_iter();
    NAMES.map(|name| counted(client, name) - before.next().expect("one for each"))
}

fn tables_are_sent(release: Release) {
    let Some(farm) = farm(release, &[]) else {
        return;
    };
    let mut client = client(&farm);
    wait_for_sizes(&mut client, JOIN);
    let grown_by = grown(&mut client, |client| {
        for _ in 0..5 {
            assert_eq!(client.rows(JOIN), expected());
        }
    });
    assert_eq!(grown_by, [5, 50, 0, 0]);
    it_is_explained(&mut client);
    statements_are_prepared(&mut client);
    parts_of_groups_are_gathered(&mut client);
    transactions_see_their_own(&mut client);
    columns_are_described(&mut client);
    accounts_may_not_make_tables(&farm);
    statements_are_stopped(&farm);
    more_may_come_than_expected(&mut client);
    declarations_forget_sizes(&mut client);
    little_is_gathered(&mut client);
}

fn it_is_explained(client: &mut Client) {
    let lines = |client: &mut Client, text: &str| {
        let rows = client.rows(text);
        let lines = rows.into_iter().map(|row| row[0].clone().expect("a line"));
        lines.collect::<Vec<String>>()
    };
    let has = |lines: &[String], parts: &[&str]| {
        let found = lines
            .iter()
            .any(|line| parts.iter().all(|it| line.contains(it)));
        assert!(found, "{parts:?} in {lines:#?}");
    };
    let tree = lines(client, &format!("EXPLAIN {JOIN}"));
    has(&tree, &["-> g1, g2: the whole statement"]);
    has(
        &tree,
        &[
            "broadcast 1: its rows go to g1,g2, into `heddle`.",
            "(about 10 rows, ",
            " bytes, learned)",
        ],
    );
    has(
        &tree,
        &[
            "reason: ",
            "p is sent to the groups: some 10 rows",
            " bytes moved in all (learned), where a gather moves ",
        ],
    );
    has(&tree, &["cure: ", "make `shop`.`parts` global"]);
    let tree = lines(client, &format!("ANALYZE {JOIN}"));
    has(&tree, &["broadcast 1", "(actual rows=10 bytes="]);
    has(&tree, &["-> g2: its rows  (actual rows=10 bytes="]);
    let json = lines(client, &format!("EXPLAIN ANALYZE FORMAT=JSON {JOIN}")).join("");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let sent = &json["steps"][0]["steps"][0];
    assert_eq!(sent["rows"], 10, "{json:#}");
    assert_eq!(sent["rows_from"], "learned", "{json:#}");
    // What is read is what was expected.
    assert_eq!(sent["bytes"], sent["actual_bytes"], "{json:#}");
    assert_eq!(sent["actual_rows"], 10, "{json:#}");
    assert!(sent["bytes"].as_u64().is_some_and(|it| it > 0), "{json:#}");
    let table = client.rows(&format!("HEDDLE EXPLAIN {JOIN}"));
    assert_eq!(table[0][0].as_deref(), Some("broadcast"));
    assert_eq!(table[0][5].as_deref(), Some("10"));
    assert_eq!(table[1][0].as_deref(), Some("pushed"));
}

fn statements_are_prepared(client: &mut Client) {
    let text = "SELECT o.id, o.note, p.name FROM orders o JOIN parts p ON p.part = o.part \
                WHERE p.part < ? AND o.id < ? ORDER BY o.id";
    wait_for_sizes(client, &text.replacen('?', "5", 1).replacen('?', "600", 1));
    let grown_by = grown(client, |client| {
        let statement = client.prepare(text).expect("it is prepared");
        for most in [500i64, 600] {
            let values = [Value::Int(5), Value::Int(most)];
            let replies = client.execute(&statement, &values).expect("it runs");
            let Some(Reply::Rows(rows)) = replies.first() else {
                panic!("no rows");
            };
            assert_eq!(rows.rows.len() as i64, most / 2);
        }
    });
    assert_eq!((grown_by[0], grown_by[2]), (2, 0));
}

/// What the merge cannot finish goes to the scratch server, from groups that were sent the table.
fn parts_of_groups_are_gathered(client: &mut Client) {
    let text = "SELECT p.name, SUM(o.id) / COUNT(*) AS mean FROM orders o JOIN parts p ON p.part = o.part \
                GROUP BY p.name ORDER BY p.name";
    wait_for_sizes(client, text);
    let grown_by = grown(client, |client| {
        let rows = client.rows(text);
        assert_eq!(rows.len(), 10);
        assert_eq!(rows[3][1].as_deref(), Some("298.0000"));
    });
    assert_eq!(grown_by, [1, 10, 0, 1]);
    let tree = client.rows(&format!("ANALYZE {text}"));
    let lines: Vec<String> = tree.into_iter().filter_map(|row| row[0].clone()).collect();
    let of = |parts: &[&str]| {
        lines
            .iter()
            .position(|line| parts.iter().all(|it| line.contains(it)))
    };
    let sent = of(&["broadcast 1", "(actual rows=10 bytes="]);
    let fetched = of(&["fetch 1, into", "(actual rows=20 bytes="]);
    assert!(sent.is_some() && fetched < sent, "{lines:#?}");
}

fn transactions_see_their_own(client: &mut Client) {
    client.run("BEGIN");
    client.run("INSERT INTO parts VALUES (77, 'part 77')");
    client.run("INSERT INTO orders VALUES (1000, 1000, 77, 'mine')");
    let grown_by = grown(client, |client| {
        assert_eq!(client.rows(JOIN).len(), 11);
    });
    assert_eq!((grown_by[0], grown_by[3]), (0, 1));
    client.run("ROLLBACK");
    assert_eq!(client.rows(JOIN), expected());
    client.run("SET autocommit = 0");
    assert_eq!(grown(client, |client| drop(client.rows(JOIN)))[0], 0);
    client.run("ROLLBACK");
    client.run("SET autocommit = 1");
    assert_eq!(grown(client, |client| drop(client.rows(JOIN)))[0], 1);
    // Who chooses a server, chooses it for the whole.
    let chosen = format!("/*ms=slave*/ {JOIN}");
    assert_eq!(grown(client, |client| drop(client.rows(&chosen)))[0], 0);
    // A temporary table of the client's own keeps its connection.
    client.run("CREATE TEMPORARY TABLE mine (a INT)");
    assert_eq!(grown(client, |client| drop(client.rows(JOIN)))[0], 0);
    client.run("DROP TEMPORARY TABLE mine");
    client.reset().expect("a reset");
    client.run("USE shop");
}

/// Columns are named as those of the client's tables are.
fn columns_are_described(client: &mut Client) {
    let text = "SELECT parts.name, shop.parts.part + orders.id FROM shop.orders JOIN shop.parts \
                ON parts.part = orders.part WHERE orders.id >= 5";
    wait_for_sizes(client, text);
    let replies = client.query(text).expect("it is answered");
    let Some(Reply::Rows(rows)) = replies.first() else {
        panic!("no rows");
    };
    let column = &rows.columns[0];
    assert_eq!(
        (&*column.schema, &*column.table, &*column.name),
        ("shop", "parts", "name")
    );
    assert_eq!(rows.columns[1].name, "shop.parts.part + orders.id");
}

/// An account that may only read has the statement gathered, and it is not tried again for a while.
fn accounts_may_not_make_tables(farm: &Farm) {
    let mut root = farm.client();
    root.run("CREATE USER reader@'%' IDENTIFIED BY 'secret'");
    root.run("GRANT SELECT ON shop.* TO reader@'%'");
    let mut reader = None;
    wait_until(Duration::from_secs(20), "the account", || {
        reader = Client::connect(farm.sql, "reader", "secret").ok();
        reader.is_some()
    });
    let mut reader = reader.expect("it was waited for");
    reader.run("USE shop");
    let text = JOIN.replace("COUNT(o.note)", "COUNT(o.id)");
    let grown_by = grown(&mut root, |_| {
        for _ in 0..3 {
            assert_eq!(reader.rows(&text), expected());
        }
    });
    assert!(grown_by[2] <= 1, "{grown_by:?}");
    assert!(grown_by[3] >= 2, "{grown_by:?}");
    // What one account may not do does not keep another one from it.
    let grown_by = grown(&mut root, |root| {
        root.run("USE shop");
        assert_eq!(root.rows(JOIN), expected());
    });
    assert_eq!((grown_by[0], grown_by[2]), (1, 0));
}

/// Waits until a group's server waits for a table that another client has locked.
fn wait_for_lock(straight: &mut Client) -> u64 {
    let mut found = 0;
    wait_until(Duration::from_secs(30), "a statement that waits", || {
        let rows = straight.rows(
            "SELECT id FROM information_schema.processlist WHERE state LIKE 'Waiting for table%lock%'",
        );
        found = rows.first().map_or(0, |row| {
            row[0].as_deref().unwrap_or("0").parse().unwrap_or(0)
        });
        found > 0
    });
    found
}

/// A statement that is killed, and one whose connection is lost, leave nothing: the next one finds no table of its own.
fn statements_are_stopped(farm: &Farm) {
    let mut root = client(farm);
    let member = farm.primary("g2");
    for lost in [false, true] {
        let mut session = client(farm);
        wait_for_sizes(&mut session, JOIN);
        let id = session.value("SELECT CONNECTION_ID()");
        let (mut holder, mut watcher) = (member.client(), member.client());
        holder.run("LOCK TABLES shop.orders WRITE");
        let grown_by = grown(&mut root, |root| {
            std::thread::scope(|scope| {
                let running = scope.spawn(|| session.query(JOIN));
                let waiting = wait_for_lock(&mut watcher);
                match lost {
                    true => drop(watcher.query(format!("KILL {waiting}"))),
                    false => drop(root.query(format!("KILL QUERY {id}"))),
                }
                if lost {
                    holder.run("UNLOCK TABLES");
                }
                let answered = running.join().expect("it does not panic");
                match lost {
                    true => assert!(answered.is_ok(), "{answered:?}"),
                    false => assert_eq!(answered.err().map(|it| it.number()), Some(1317)),
                }
            });
        });
        assert_eq!(
            (grown_by[0], grown_by[2], grown_by[3]),
            (1, 0, 0),
            "lost: {lost}"
        );
        holder.run("UNLOCK TABLES");
        let grown_by = grown(&mut session, |session| {
            for _ in 0..3 {
                assert_eq!(session.rows(JOIN), expected());
            }
        });
        assert_eq!((grown_by[0], grown_by[2]), (3, 0), "lost: {lost}");
    }
    let pinned = counted(&mut root, "sessions_pinned_now");
    assert_eq!(pinned, 0);
}

/// The rows that groups have sent for the join so far.
fn rows_read(client: &mut Client) -> u64 {
    let rows = client.rows("HEDDLE digest list --limit=0");
    let replies = client
        .query("HEDDLE digest list --limit=0")
        .expect("it is answered");
    let Some(Reply::Rows(told)) = replies.first() else {
        panic!("no rows");
    };
    let column = |name: &str| {
        told.columns
            .iter()
            .position(|it| it.name == name)
            .expect(name)
    };
    let (text, read) = (column("text"), column("rows_read"));
    let is_join = |row: &&Vec<Option<String>>| {
        row[text]
            .as_deref()
            .is_some_and(|it| it.starts_with("SELECT p.name, COUNT"))
    };
    let each = rows
        .iter()
        .filter(is_join)
        .filter_map(|row| row[read].as_deref()?.parse::<u64>().ok());
    each.sum()
}

/// A table that has grown since it was sent last has the statement gathered: with the rows that have come, so that no server
/// is asked for them twice. It is not sent again.
fn more_may_come_than_expected(client: &mut Client) {
    wait_for_sizes(client, JOIN);
    // For a minute from now on the router does not learn from the servers that the table grows.
    client.rows("HEDDLE sharding refresh");
    for from in [100, 1100, 2100] {
        let rows: Vec<String> = (from..from + 1000)
            .map(|part| format!("({part}, REPEAT('x', 90))"))
            .collect();
        client.run(&format!("INSERT INTO parts VALUES {}", rows.join(", ")));
    }
    let before = rows_read(client);
    let grown_by = grown(client, |client| assert_eq!(client.rows(JOIN), expected()));
    assert_eq!((grown_by[0], grown_by[2], grown_by[3]), (1, 1, 1));
    // All parts once, and the orders.
    assert_eq!(rows_read(client) - before, 3010 + 600);
    // It is known to be large now, and is not collected in vain.
    let grown_by = grown(client, |client| {
        for _ in 0..3 {
            assert_eq!(client.rows(JOIN), expected());
        }
    });
    assert_eq!(grown_by[2], 0, "{grown_by:?}");
}

/// Another definition of a table is another table: what its fetches gave is forgotten, and so is that it was large. ANALYZE
/// of a statement that was to send a table tells of the gather.
fn declarations_forget_sizes(client: &mut Client) {
    client.run("DELETE FROM parts WHERE part >= 100");
    client.run("ALTER TABLE parts ADD COLUMN weight INT");
    wait_for_sizes(client, JOIN);
    // So few that servers' counts are still taken for much the same.
    let rows: Vec<String> = (100..1000)
        .map(|part| format!("({part}, REPEAT('y', 90))"))
        .collect();
    let rows = rows.join(", ");
    client.run(&format!("INSERT INTO parts (part, name) VALUES {rows}"));
    let tree = client.rows(&format!("ANALYZE {JOIN}"));
    let lines: Vec<String> = tree.into_iter().filter_map(|row| row[0].clone()).collect();
    let has = |part: &str| {
        let found = lines.iter().any(|line| line.contains(part));
        assert!(found, "{part} in {lines:#?}");
    };
    has("tables were to be sent to the groups");
    has("(actual rows=910 bytes=");
    has("(actual rows=600 bytes=");
    client.run("DELETE FROM parts WHERE part >= 100");
}

/// What moves little is not worth the making of tables.
fn little_is_gathered(client: &mut Client) {
    let text = "SELECT o.id, p.name FROM orders o JOIN parts p ON p.part = o.part WHERE o.id < 5";
    let grown_by = grown(client, |client| {
        for _ in 0..3 {
            assert_eq!(client.rows(text).len(), 5);
        }
    });
    assert_eq!((grown_by[0], grown_by[3]), (0, 3));
    let tree = client.rows(&format!("EXPLAIN {text}"));
    let told = |row: &Vec<Option<String>>| {
        let line = row[0].as_deref().unwrap_or_default();
        line.contains("no table is sent to the groups: a gather moves little")
    };
    assert!(tree.iter().any(told), "{tree:#?}");
}

#[test]
fn tables_are_sent_on_mariadb() {
    tables_are_sent(Release::Installed);
}

#[test]
fn tables_are_sent_on_mysql() {
    tables_are_sent(Release::MySqlNewer);
}

/// An operator has everything gathered.
#[test]
fn an_operator_decides() {
    let Some(farm) = farm(Release::Installed, &["--set", "broadcast_bytes_max=0"]) else {
        return;
    };
    let mut client = client(&farm);
    client.rows("HEDDLE sharding refresh");
    let grown_by = grown(&mut client, |client| {
        for _ in 0..3 {
            assert_eq!(client.rows(JOIN), expected());
        }
    });
    assert_eq!((grown_by[0], grown_by[3]), (0, 3));
}

/// Whatever is remembered of sizes, and however soon what is sent is too much, answers are the same.
fn wrong_sizes_cost_time_alone(release: Release) {
    let Some(farm) = farm(release, &["--set", "broadcast_bytes_max=200"]) else {
        return;
    };
    let plant = farm.faults().join(Plant::MisjudgesSizes.name());
    std::fs::write(plant, "").expect("a directory of faults");
    let mut client = client(&farm);
    let grown_by = grown(&mut client, |client| {
        for number in 0..40 {
            // Each is another shape, with other sizes.
            let columns = vec!["p.name"; number % 8 + 1].join(", ");
            let count = vec!["COUNT(*)"; number / 8 + 1].join(" + ");
            let text = JOIN.replace(
                "p.name, COUNT(o.note) AS n",
                &format!("{columns}, {count} AS n"),
            );
            let rows = client.rows(&text);
            let each = rows
                .iter()
                .map(|row| row.last().cloned().flatten().unwrap_or_default());
            let each: Vec<String> = each.collect();
            assert_eq!(
                each,
                vec![(60 * (number / 8 + 1)).to_string(); 10],
                "{text}"
            );
        }
    });
    let [sent, _, turned_back, gathers] = grown_by;
    assert!(
        sent > turned_back && turned_back > 0 && gathers > turned_back,
        "{grown_by:?}"
    );
}

#[test]
fn wrong_sizes_cost_time_alone_on_mariadb() {
    wrong_sizes_cost_time_alone(Release::Installed);
}

#[test]
fn wrong_sizes_cost_time_alone_on_mysql() {
    wrong_sizes_cost_time_alone(Release::MySqlNewer);
}
