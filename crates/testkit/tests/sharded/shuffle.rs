//! Tables whose rows are divided among the groups by the shard key of the tables that they are joined to, on a farm as its
//! users have it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use testkit::client::{Reply, Value};
use testkit::{Client, Farm, Release, wait_until};

use crate::broadcast::wait_for_sizes;
use crate::scratch::counted;

const ORDERS: u64 = 600;
const PARTS: u64 = 400;

/// Orders lie by customer, parts by their number, and both are large.
const JOIN: &str = "SELECT p.part, p.name, COUNT(*) AS n, SUM(o.id) AS ids FROM orders o \
                    JOIN parts p ON p.part = o.part GROUP BY p.part, p.name ORDER BY p.part";

/// Orders of no part are kept.
const OUTER: &str = "SELECT o.id, o.part, p.name FROM orders o LEFT JOIN parts p ON p.part = o.part \
                     ORDER BY o.id";

/// The part of an order; every tenth has none, and some have one that there is not.
fn part(id: u64) -> Option<u64> {
    (!id.is_multiple_of(10)).then_some(id * 7 % 450)
}

/// Two groups, and one without any shard.
fn farm(release: Release) -> Option<Farm> {
    let farm = Farm::start_on(release, &["--groups", "3", "--replicas", "0"])?;
    let mut client = farm.client();
    client.rows("HEDDLE sharding create_definition SLOTS g1 shop");
    client.rows("HEDDLE sharding add_shard shop 'g1,g2' ENABLED");
    client.run("CREATE DATABASE shop");
    client.run("USE shop");
    client.run(
        "CREATE TABLE orders (id INT, customer_id INT NOT NULL, part INT, PRIMARY KEY (customer_id, id)) \
         /*heddle shard_map=shop shard_key=customer_id*/",
    );
    client.run(
        "CREATE TABLE parts (part BIGINT PRIMARY KEY, name VARCHAR(100)) \
         /*heddle shard_map=shop shard_key=part*/",
    );
    let rows = (0..ORDERS).map(|id| {
        let part = part(id).map_or("NULL".to_owned(), |it| it.to_string());
        format!("({id}, {id}, {part})")
    });
    let rows: Vec<String> = rows.collect();
    client.run(&format!("INSERT INTO orders VALUES {}", rows.join(", ")));
    let rows: Vec<String> = (0..PARTS)
        .map(|part| format!("({part}, '{}')", name(part)))
        .collect();
    client.run(&format!("INSERT INTO parts VALUES {}", rows.join(", ")));
    client.rows("ANALYZE TABLE shop.orders, shop.parts");
    client.rows("HEDDLE sharding refresh");
    Some(farm)
}

fn name(part: u64) -> String {
    format!("part {part} {}", "x".repeat(70))
}

fn joined() -> Vec<Vec<Option<String>>> {
    let row = |part_here: u64| {
        let ids: Vec<u64> = (0..ORDERS)
            .filter(|id| part(*id) == Some(part_here))
            .collect();
        let sum: u64 = ids.iter().sum();
        let values = [
            part_here.to_string(),
            name(part_here),
            ids.len().to_string(),
            sum.to_string(),
        ];
        (!ids.is_empty()).then(|| values.map(Some).to_vec())
    };
    (0..PARTS).filter_map(row).collect()
}

fn outer() -> Vec<Vec<Option<String>>> {
    let row = |id: u64| {
        let name = part(id).filter(|it| *it < PARTS).map(name);
        vec![
            Some(id.to_string()),
            part(id).map(|it| it.to_string()),
            name,
        ]
    };
    (0..ORDERS).map(row).collect()
}

fn client(farm: &Farm) -> Client {
    let mut client = farm.client();
    client.run("USE shop");
    client
}

/// What the counters grow by.
fn grown(client: &mut Client, run: impl FnOnce(&mut Client)) -> [u64; 4] {
    const NAMES: [&str; 4] = [
        "shuffles",
        "broadcast_rows",
        "broadcasts_turned_back",
        "gathers",
    ];
    let before = NAMES.map(|name| counted(client, name));
    run(client);
    let mut before = before.into_iter();
    NAMES.map(|name| counted(client, name) - before.next().expect("one for each"))
}

fn rows_are_divided(release: Release) {
    let Some(farm) = farm(release) else {
        return;
    };
    let mut client = client(&farm);
    for (text, expected) in [(JOIN, joined()), (OUTER, outer())] {
        wait_for_sizes(&mut client, text);
        let grown_by = grown(&mut client, |client| {
            for _ in 0..3 {
                assert_eq!(client.rows(text), expected, "{text}");
            }
        });
        assert_eq!(grown_by, [3, 3 * ORDERS, 0, 0], "{text}");
    }
    each_row_goes_to_one_group(&mut client);
    it_is_explained(&mut client);
    statements_are_prepared(&mut client);
    accounts_may_not_make_tables(&farm);
    shards_move(&farm);
}

/// What groups are sent grows with the rows, not with the groups.
fn each_row_goes_to_one_group(client: &mut Client) {
    let before = counted(client, "broadcast_bytes");
    assert_eq!(client.rows(OUTER).len() as u64, ORDERS);
    let bytes = counted(client, "broadcast_bytes") - before;
    // `(123,456),`, and the texts around the rows of two groups.
    let most = ORDERS * 10 + 2 * 1000;
    assert!(bytes > ORDERS * 5 && bytes < most, "{bytes} of {most}");
}

fn it_is_explained(client: &mut Client) {
    let lines = |client: &mut Client, text: &str| {
        let rows = client.rows(text);
        let lines = rows.into_iter().filter_map(|row| row[0].clone());
        lines.collect::<Vec<String>>()
    };
    let has = |lines: &[String], parts: &[&str]| {
        let mut all = lines.iter();
        let found = all.any(|line| parts.iter().all(|it| line.contains(it)));
        assert!(found, "{parts:?} in {lines:#?}");
    };
    let tree = lines(client, &format!("EXPLAIN {JOIN}"));
    let goes = "shuffle 1: each row goes to one of g1,g2 by its `part`, into `heddle`.";
    has(&tree, &[goes, "(about 600 rows, ", " bytes, learned)"]);
    let reason = "o is divided among the groups by part: some 600 rows";
    has(&tree, &["reason: ", reason, " where a gather moves "]);
    has(&tree, &["cure: "]);
    let tree = lines(client, &format!("ANALYZE {JOIN}"));
    has(&tree, &["shuffle 1", "(actual rows=600 bytes="]);
    let table = client.rows(&format!("HEDDLE EXPLAIN {JOIN}"));
    assert_eq!(table[0][0].as_deref(), Some("shuffle"));
    assert_eq!(table[1][0].as_deref(), Some("pushed"));
}

fn statements_are_prepared(client: &mut Client) {
    let text = "SELECT o.id, p.name FROM orders o LEFT JOIN parts p ON p.part = o.part WHERE o.id >= ? \
                ORDER BY o.id";
    wait_for_sizes(client, &text.replace('?', "100"));
    let grown_by = grown(client, |client| {
        let statement = client.prepare(text).expect("it is prepared");
        for least in [0, 150] {
            let replies = client.execute(&statement, &[Value::Int(least)]);
            let replies = replies.expect("it runs");
            let Some(Reply::Rows(rows)) = replies.first() else {
                panic!("no rows");
            };
            assert_eq!(rows.rows.len() as i64, ORDERS as i64 - least);
        }
    });
    assert_eq!((grown_by[0], grown_by[2]), (2, 0));
}

/// An account that may only read has the statement gathered.
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
    let grown_by = grown(&mut root, |_| {
        for _ in 0..3 {
            assert_eq!(reader.rows(OUTER), outer());
        }
    });
    assert_eq!((grown_by[0], grown_by[2], grown_by[3]), (1, 1, 3));
}

/// Half of the keys get another group while the statements run: no row is lost, or met twice.
fn shards_move(farm: &Farm) {
    let over = AtomicBool::new(false);
    let mut root = client(farm);
    let before = counted(&mut root, "shuffles");
    std::thread::scope(|scope| {
        let readers: Vec<_> = [(JOIN, joined()), (OUTER, outer())]
            .into_iter()
            .map(|(text, expected)| {
                let over = &over;
                scope.spawn(move || {
                    let mut client = client(farm);
                    let mut asked = 0;
                    while !over.load(Ordering::Relaxed) && client.rows(text) == expected {
                        asked += 1;
                    }
                    (over.load(Ordering::Relaxed), asked)
                })
            })
            .collect();
        farm.json(&["sharding", "move_shard", &farm.shard_on("g2"), "g3"]);
        over.store(true, Ordering::Relaxed);
        for reader in readers {
            let (well, asked) = reader.join().expect("it does not panic");
            assert!(well, "another answer after {asked}");
        }
    });
    for (text, expected) in [(JOIN, joined()), (OUTER, outer())] {
        wait_for_sizes(&mut root, text);
        assert_eq!(root.rows(text), expected, "{text}");
    }
    let tree = root.rows(&format!("EXPLAIN {OUTER}"));
    let goes = |row: &Vec<Option<String>>| {
        let line = row[0].as_deref().unwrap_or_default();
        line.contains("each row goes to one of g1,g3 by its `part`")
    };
    assert!(tree.iter().any(goes), "{tree:#?}");
    assert!(counted(&mut root, "shuffles") > before);
}

#[test]
fn rows_are_divided_on_mariadb() {
    rows_are_divided(Release::Installed);
}

#[test]
fn rows_are_divided_on_mysql() {
    rows_are_divided(Release::MySqlNewer);
}
