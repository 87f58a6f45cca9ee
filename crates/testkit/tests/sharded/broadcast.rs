//! Small tables that are sent to the groups, on a farm as its users have it: what is answered, what moves, and that nothing
//! is left behind, however a statement ends.

use std::time::Duration;

use testkit::client::{Reply, Value};
use testkit::{Client, Farm, Release, wait_until};

use crate::scratch::counted;

const JOIN: &str = "SELECT p.name, COUNT(*) AS n FROM orders o JOIN parts p ON p.part = o.part \
                    GROUP BY p.name ORDER BY p.name";

/// Tables may be sent, which they may not by default.
const SENT: [&str; 2] = ["--set", "broadcast_bytes_max=4194304"];

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
    Some(farm)
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

/// Waits until the statement is answered by sending a table, which takes sizes.
fn wait_for_sizes(client: &mut Client, text: &str) {
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
    let Some(farm) = farm(release, &SENT) else {
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
            "about 10 rows, ",
        ],
    );
    has(
        &tree,
        &[
            "reason: ",
            "p is sent to the groups: some 10 rows",
            " ago",
            "a gather moves",
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
    assert_eq!(sent["actual_rows"], 10, "{json:#}");
    assert!(sent["bytes"].as_u64().is_some_and(|it| it > 0), "{json:#}");
    let table = client.rows(&format!("HEDDLE EXPLAIN {JOIN}"));
    assert_eq!(table[0][0].as_deref(), Some("broadcast"));
    assert_eq!(table[0][5].as_deref(), Some("10"));
    assert_eq!(table[1][0].as_deref(), Some("pushed"));
}

fn statements_are_prepared(client: &mut Client) {
    let text = "SELECT o.id, p.name FROM orders o JOIN parts p ON p.part = o.part \
                WHERE p.part < ? AND o.id < ? ORDER BY o.id";
    wait_for_sizes(client, &text.replacen('?', "2", 1).replacen('?', "30", 1));
    let grown_by = grown(client, |client| {
        let statement = client.prepare(text).expect("it is prepared");
        for most in [30i64, 50] {
            let values = [Value::Int(2), Value::Int(most)];
            let replies = client.execute(&statement, &values).expect("it runs");
            let Some(Reply::Rows(rows)) = replies.first() else {
                panic!("no rows");
            };
            assert_eq!(rows.rows.len() as i64, most / 5);
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
                ON parts.part = orders.part WHERE orders.id = 5";
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
    // A shape of its own: what is refused here is not tried for other accounts.
    let text = JOIN.replace("COUNT(*)", "COUNT(o.note)");
    let grown_by = grown(&mut root, |_| {
        for _ in 0..3 {
            assert_eq!(reader.rows(&text), expected());
        }
    });
    assert!(grown_by[2] <= 1, "{grown_by:?}");
    assert!(grown_by[3] >= 2, "{grown_by:?}");
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
    let member = farm.primary_of("g2").expect("it has one");
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

/// A table that has grown since its size was asked for has the statement gathered, and is not sent again.
fn more_may_come_than_expected(client: &mut Client) {
    wait_for_sizes(client, JOIN);
    for from in [100, 1100, 2100] {
        let rows: Vec<String> = (from..from + 1000)
            .map(|part| format!("({part}, REPEAT('x', 90))"))
            .collect();
        client.run(&format!("INSERT INTO parts VALUES {}", rows.join(", ")));
    }
    let grown_by = grown(client, |client| {
        for _ in 0..3 {
            assert_eq!(client.rows(JOIN), expected());
        }
    });
    let [sent, _, turned_back, gathers] = grown_by;
    assert!(
        sent <= 1 && turned_back == sent && gathers == 3,
        "{grown_by:?}"
    );
}

#[test]
fn tables_are_sent_on_mariadb() {
    tables_are_sent(Release::Installed);
}

#[test]
fn tables_are_sent_on_mysql() {
    tables_are_sent(Release::MySqlNewer);
}

/// By default none is sent; and sizes that were measured do without the servers' guesses.
#[test]
fn an_operator_decides() {
    let Some(farm) = farm(Release::Installed, &[]) else {
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
