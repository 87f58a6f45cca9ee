//! The texts that are made for groups of which each has a part: what shards are sent, and what runs on
//! the scratch server.
//!
//! No name in them may mean two things: names of the client's collide with columns here on purpose.

use std::fmt::Write as _;
use std::sync::Arc;

use farm::sharding::{Column, TableSchema};
use farm::{Sharding, samples};
use planner::{Asked, Finish, answer};
use sqltext::{Dialect, Mode};

const MODE: Mode = Mode::new(Dialect::MariaDb, 101_100);

/// Each column as `name type`; the first one is the shard key and the primary key.
const TABLES: [(&str, &[&str]); 5] = [
    ("v", &["a int(11)", "b int(11)"]),
    ("w", &["k int(11)", "a int(11)", "b int(11)"]),
    ("t1", &["k int(11)", "v int(11)", "s varchar(20)"]),
    (
        "h",
        &["k int(11)", "h1 int(11)", "g0 int(11)", "p1 int(11)"],
    ),
    ("é", &["k int(11)", "É int(11)", "order int(11)"]),
];

fn farm() -> Sharding {
    let map = samples::slot_map(1, &["g1", "g2"]);
    let mut sharding = Sharding::new(1, vec![map]);
    for (table, columns) in TABLES {
        let column = |(at, column): (usize, &&str)| {
            let (name, kind) = column.split_once(' ').expect("a name and a type");
            let text = kind.starts_with("varchar");
            Column {
                collation: text.then(|| "utf8mb4_unicode_ci".into()),
                nullable: at > 0,
                ..samples::column(name, kind)
            }
        };
        let schema = TableSchema {
            columns: columns.iter().enumerate().map(column).collect(),
            primary: vec![0],
            ..TableSchema::default()
        };
        let key = schema.columns[0].name.clone();
        sharding.declare("shop", table, samples::sharded("shop", table, &key, 1));
        sharding.describe("shop", table, Arc::new(schema));
    }
    sharding
}

/// How a SELECT is answered, in a few lines.
fn made(text: &str) -> String {
    let (sharding, home) = (farm(), "g1".into());
    let asked = Asked {
        sharding: &sharding,
        home: &home,
        database: "shop",
        mode: &MODE,
        scratch: "s",
        changing: None,
    };
    let answer = answer(text, &asked).expect("it is answered");
    let mut shown = format!("{:?}", answer.tier).to_lowercase();
    for fragment in &answer.fragments {
        let _ = write!(shown, "\n{}", fragment.text);
    }
    if let Finish::Scratch(scratch) = &answer.finish {
        let _ = write!(shown, "\n-> {}", scratch.text);
    }
    shown
}

/// Statements, and what is made of them.
const MADE: &[(&str, &str)] = &[
    // The alias is another column's name: ORDER BY a would mean the sum.
    (
        "SELECT SUM(b) AS a FROM w GROUP BY a",
        "push\nSELECT SUM(b) AS a, a AS `heddle 0` FROM w GROUP BY a\n ORDER BY `w`.`a` ",
    ),
    (
        "SELECT b AS a FROM w GROUP BY a, b",
        "push\nSELECT b AS a, a AS `heddle 0` FROM w GROUP BY a, b\n ORDER BY `w`.`a`, 1 ",
    ),
    (
        "SELECT SUM(`order`) AS é FROM é GROUP BY É",
        "push\nSELECT SUM(`order`) AS é, É AS `heddle 0` FROM é GROUP BY É\n ORDER BY `é`.`É` ",
    ),
    (
        "SELECT SUM(b) AS A FROM w x GROUP BY a ORDER BY a DESC LIMIT 3",
        "push\nSELECT SUM(b) AS A, a AS `heddle 0` FROM w x GROUP BY a ORDER BY \n`x`.`a` ",
    ),
    // An expression stands once.
    (
        "SELECT DISTINCT v, IF(s > 'a', k, 0) FROM t1",
        "push\nSELECT DISTINCT v, IF(s > 'a', k, 0) FROM t1\n ORDER BY 1, 2 ",
    ),
    (
        "SELECT DISTINCT v, IF(s > 'a', k, 0) FROM t1 ORDER BY 2 DESC",
        "push\nSELECT DISTINCT v, IF(s > 'a', k, 0) FROM t1 ORDER BY 2 DESC\n, 1 ",
    ),
    (
        "SELECT DISTINCT -45 FROM v",
        "push\nSELECT DISTINCT -45 FROM v\n ORDER BY 1 ",
    ),
    (
        "SELECT DISTINCT NOT TRUE FROM v",
        "push\nSELECT DISTINCT NOT TRUE FROM v\n ORDER BY 1 ",
    ),
    (
        "SELECT COUNT(*) FROM t1 GROUP BY v + 1",
        "push\nSELECT COUNT(*), v + 1 AS `heddle 0` FROM t1 GROUP BY v + 1\n ORDER BY 2 ",
    ),
    // Of equal texts with several weights each shard sends all.
    (
        "SELECT DISTINCT s FROM t1 LIMIT 2",
        "push\nSELECT DISTINCT s, WEIGHT_STRING(s AS CHAR(40)) AS `heddle 0` FROM t1 \n ORDER BY 1 ",
    ),
    (
        "SELECT DISTINCT k, s FROM t1 ORDER BY s LIMIT 2",
        "push\nSELECT DISTINCT k, s, WEIGHT_STRING(s AS CHAR(40)) AS `heddle 0` FROM t1 ORDER BY s \n, 1 ",
    ),
    // AVG may stand apart, SUM may not.
    (
        "SELECT AVG (ALL b) FROM v",
        "push\nSELECT AVG (ALL b), SUM(ALL b) AS `heddle 0`, COUNT(ALL b) AS `heddle 1` FROM v",
    ),
    (
        "SELECT AVG (b) + 1 AS p1 FROM v GROUP BY b",
        "gather\nSELECT b AS `heddle 0`, SUM(b) AS `heddle 1`, COUNT(b) AS `heddle 2` FROM v\nGROUP BY b\n\
         -> SELECT (SUM(heddle.`heddle 1`) / SUM(heddle.`heddle 2`)) + 1 AS p1 FROM `heddle`.`s0` AS heddle GROUP BY heddle.`heddle 0`",
    ),
    // The parts' columns have names that a column or an item may have.
    (
        "SELECT h1 + 0 AS g0, SUM(p1) * 2 AS p1 FROM h GROUP BY h1 ORDER BY h1, p1",
        "gather\nSELECT h1 AS `heddle 0`, SUM(p1) AS `heddle 1` FROM h\nGROUP BY h1\n\
         -> SELECT heddle.`heddle 0` + 0 AS g0, SUM(heddle.`heddle 1`) * 2 AS p1 FROM `heddle`.`s0` AS heddle \
         GROUP BY heddle.`heddle 0` ORDER BY heddle.`heddle 0`, p1",
    ),
    (
        "SELECT COUNT(*) + 0 AS `heddle 0` FROM v GROUP BY b HAVING `heddle 0` > 6",
        "gather\nSELECT b AS `_heddle 0`, COUNT(*) AS `_heddle 1` FROM v\nGROUP BY b\n\
         -> SELECT CAST(COALESCE(SUM(heddle.`_heddle 1`), 0) AS SIGNED) + 0 AS `heddle 0` \
         FROM `heddle`.`s0` AS heddle GROUP BY heddle.`_heddle 0` HAVING `heddle 0` > 6",
    ),
    // The shards group by what is DISTINCT, too.
    (
        "SELECT b, COUNT(*), COUNT(DISTINCT a) FROM w GROUP BY b",
        "gather\nSELECT b AS `heddle 0`, COUNT(*) AS `heddle 1`, a AS `heddle 2` FROM w\nGROUP BY b, a\n\
         -> SELECT heddle.`heddle 0` AS `b`, CAST(COALESCE(SUM(heddle.`heddle 1`), 0) AS SIGNED) AS `COUNT(*)`, COUNT(DISTINCT heddle.`heddle 2`) AS `COUNT(DISTINCT a)` FROM `heddle`.`s0` AS heddle GROUP BY heddle.`heddle 0`",
    ),
    (
        "SELECT SUM(DISTINCT a * 2), COUNT(DISTINCT k), MAX(DISTINCT a) FROM w",
        "gather\nSELECT MIN(a) AS `heddle 0`, k AS `heddle 1`, MAX(DISTINCT a) AS `heddle 2` FROM w\nGROUP BY a * 2, k\n\
         -> SELECT SUM(DISTINCT heddle.`heddle 0` * 2) AS `SUM(DISTINCT a * 2)`, COUNT(DISTINCT heddle.`heddle 1`) AS `COUNT(DISTINCT k)`, max(heddle.`heddle 2`) AS `MAX(DISTINCT a)` FROM `heddle`.`s0` AS heddle",
    ),
    (
        "SELECT v, GROUP_CONCAT(DISTINCT s ORDER BY s DESC SEPARATOR ', ') FROM t1 GROUP BY v",
        "gather\nSELECT v AS `heddle 0`, CAST(s AS BINARY) AS `heddle 1` FROM t1\nGROUP BY v, s\n\
         -> SELECT heddle.`heddle 0` AS `v`, GROUP_CONCAT(DISTINCT heddle.`heddle 1` ORDER BY heddle.`heddle 1` DESC SEPARATOR ', ') AS `GROUP_CONCAT(DISTINCT s ORDER BY s DESC SEPARATOR ', ')` FROM `heddle`.`s0` AS heddle GROUP BY heddle.`heddle 0`",
    ),
    // The order of other texts is open, and a list may be as long as the session says.
    (
        "SELECT v, GROUP_CONCAT(s) FROM t1 GROUP BY v",
        "push\nSELECT v, GROUP_CONCAT(s), @@group_concat_max_len DIV 4 AS `heddle 0` FROM t1 GROUP BY v\n ORDER BY 1 ",
    ),
    (
        "SELECT v, GROUP_CONCAT(s ORDER BY s) FROM t1 GROUP BY v",
        "gather\nSELECT `v`, CAST(`s` AS BINARY) FROM `shop`.`t1` AS `t1`\n\
         -> SELECT v, GROUP_CONCAT(s ORDER BY s) FROM `heddle`.`s0` AS `t1` GROUP BY v",
    ),
    // One value of a column stands for all of a group of its expression; of two columns none does.
    (
        "SELECT LEFT(s, 1) AS l, COUNT(*) + 1 FROM t1 GROUP BY l ORDER BY LEFT(s, 1)",
        "gather\nSELECT CAST(MIN(s) AS BINARY) AS `heddle 0`, COUNT(*) AS `heddle 1` FROM t1\nGROUP BY LEFT(s, 1)\n\
         -> SELECT LEFT(heddle.`heddle 0`, 1) AS l, CAST(COALESCE(SUM(heddle.`heddle 1`), 0) AS SIGNED) + 1 AS `COUNT(*) + 1` FROM `heddle`.`s0` AS heddle GROUP BY l ORDER BY LEFT(heddle.`heddle 0`, 1)",
    ),
    (
        "SELECT h1 + g0, COUNT(*) + 1 FROM h GROUP BY h1 + g0",
        "gather\nSELECT h1 AS `heddle 0`, g0 AS `heddle 1`, COUNT(*) AS `heddle 2` FROM h\nGROUP BY h1, g0\n\
         -> SELECT heddle.`heddle 0` + heddle.`heddle 1` AS `h1 + g0`, CAST(COALESCE(SUM(heddle.`heddle 2`), 0) AS SIGNED) + 1 AS `COUNT(*) + 1` FROM `heddle`.`s0` AS heddle GROUP BY heddle.`heddle 0` + heddle.`heddle 1`",
    ),
    (
        "SELECT h1 % 5, g0, COUNT(DISTINCT h1 + g0) FROM h GROUP BY h1 % 5, g0",
        "gather\nSELECT g0 AS `heddle 0`, MIN(h1) AS `heddle 1` FROM h\nGROUP BY g0, h1 % 5, h1 + g0\n\
         -> SELECT heddle.`heddle 1` % 5 AS `h1 % 5`, heddle.`heddle 0` AS `g0`, COUNT(DISTINCT heddle.`heddle 1` + heddle.`heddle 0`) AS `COUNT(DISTINCT h1 + g0)` FROM `heddle`.`s0` AS heddle GROUP BY heddle.`heddle 1` % 5, heddle.`heddle 0`",
    ),
    // The name within the expression is the column's, which the item's is not.
    (
        "SELECT v AS s, COUNT(DISTINCT s) FROM t1 GROUP BY v ORDER BY COUNT(DISTINCT s)",
        "gather\nSELECT `v`, CAST(`s` AS BINARY) FROM `shop`.`t1` AS `t1`\n\
         -> SELECT v AS s, COUNT(DISTINCT s) FROM `heddle`.`s0` AS `t1` GROUP BY v ORDER BY COUNT(DISTINCT s)",
    ),
    (
        "SELECT v, RANK() OVER (ORDER BY SUM(k) DESC) FROM t1 GROUP BY v",
        "gather\nSELECT v AS `heddle 0`, SUM(k) AS `heddle 1` FROM t1\nGROUP BY v\n\
         -> SELECT heddle.`heddle 0` AS `v`, RANK() OVER (ORDER BY SUM(heddle.`heddle 1`) DESC) AS `RANK() OVER (ORDER BY SUM(k) DESC)` FROM `heddle`.`s0` AS heddle GROUP BY heddle.`heddle 0`",
    ),
    // A stored function, perhaps.
    (
        "SELECT SUM (b) FROM v WHERE MID (b, 1) = 1",
        "gather\nSELECT `b` FROM `shop`.`v` AS `v`\n-> SELECT SUM (b) FROM `heddle`.`s0` AS `v` WHERE MID (b, 1) = 1",
    ),
];

#[test]
fn names_in_made_texts_mean_one_thing() {
    for (text, expected) in MADE {
        assert_eq!(made(text), *expected, "{text}");
    }
}
