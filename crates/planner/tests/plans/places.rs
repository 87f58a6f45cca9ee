//! Statements and where they go, on a map of four ranges: 1 to 99 on g1, 100 to 199 on g2, 200 to
//! 299 on g1 again, and from 300 on g3, which is disabled from 1000 on.

use std::sync::Arc;

use farm::sharding::{Column, Placement, TableSchema};
use farm::{Sharding, samples};
use planner::place::{Asked, Literals, Plan, Spot, Statement, Whose, misplaced, plan};
use sqltext::{Class, Dialect, Mode, Scan};

const MODE: Mode = Mode::new(Dialect::MariaDb, 101_100);

fn shop() -> Sharding {
    let shards = [
        ("g1", 1),
        ("g2", 100),
        ("g1", 200),
        ("g3", 300),
        ("g4", 1000),
    ];
    let mut map = samples::range_map(1, &shards);
    map.global_group = "g0".into();
    map.shards[4].enabled = false;
    let mut sharding = Sharding::new(1, vec![map]);
    for (table, column) in [
        ("customer", "id"),
        ("orders", "customer_id"),
        ("item", "customer_id"),
    ] {
        let sharded = samples::sharded("shop", table, column, 1);
        sharding.declare("shop", table, sharded);
    }
    sharding.declare("shop", "country", Placement::Global { map: 1 });
    sharding.assign("logs", "g7".into());
    let column = |name: &str, auto_increment: bool| Column {
        auto_increment,
        ..samples::column(name, "int(11)")
    };
    let schema = |names: &[&str], auto: Option<&str>| {
        Arc::new(TableSchema {
            columns: names
                .iter()
                .map(|name| column(name, Some(*name) == auto))
                .collect(),
            primary: vec![0],
            ..TableSchema::default()
        })
    };
    sharding.describe("shop", "customer", schema(&["name", "id"], None));
    let orders = schema(&["id", "customer_id", "total"], Some("id"));
    sharding.describe("shop", "orders", orders);
    sharding
}

fn scan(text: &str) -> Scan {
    let mut scan = Scan::new();
    scan.read(text.as_bytes(), &MODE);
    scan
}

fn plan_of(text: &str, sharding: &Sharding) -> Plan {
    let scan = scan(text);
    let home: Arc<str> = "home".into();
    let asked = Asked {
        sharding,
        home: &home,
        database: "shop",
        mode: &MODE,
        writes: scan.class == Class::Write,
        locks: scan.facts.contains(sqltext::Facts::LOCKING_READ),
    };
    plan(text.as_bytes(), &asked)
}

fn spot(plan: &Plan, text: &str, sharding: &Sharding) -> String {
    let scan = scan(text);
    let literals = Literals {
        text: text.as_bytes(),
        spans: &scan.literals,
        mode: &MODE,
        utf8: true,
    };
    let statement = Statement {
        text: text.as_bytes(),
        mode: &MODE,
        values: &literals,
        zero_is_value: false,
    };
    let groups = |groups: &[Arc<str>]| groups.join(",");
    let spot = plan.spot(&statement, sharding);
    if let Spot::Group(group) = &spot {
        let whose = Whose {
            sharding,
            home: &"home".into(),
            database: "shop",
        };
        assert_eq!(misplaced(&statement, whose, group), None, "{text}: {group}");
    }
    match spot {
        Spot::Anywhere => "anywhere".to_owned(),
        Spot::Group(group) => group.to_string(),
        Spot::AnyOf(map) => format!("any of {map}"),
        Spot::Each(all) => format!("each {}", groups(&all)),
        Spot::Same(all) => format!("same {}", groups(&all)),
        Spot::Read(all) => format!("read {}", groups(&all)),
        Spot::Rows(parts) => {
            let part = |(group, rows): &(Arc<str>, Vec<u32>)| format!("{group}{rows:?}");
            format!(
                "rows {}",
                parts.iter().map(part).collect::<Vec<_>>().join(" ")
            )
        }
        Spot::Evaluate(spans) => {
            let parts = spans
                .iter()
                .map(|span| String::from_utf8_lossy(span.of(text.as_bytes())).into_owned());
            format!("evaluate {}", parts.collect::<Vec<_>>().join("; "))
        }
        Spot::Ids(count) => format!("ids {count}"),
        Spot::Moves(all) => format!("moves {}", groups(&all)),
        Spot::Limited(all) => format!("limited {}", groups(&all)),
        Spot::ByKeys => "by keys".to_owned(),
        Spot::Select => "select".to_owned(),
        Spot::Refused(refusal) => format!("{}: {}", refusal.error.name, refusal.detail),
    }
}

fn check(cases: &[(&str, &str)]) {
    let sharding = shop();
    for (text, expected) in cases {
        assert_eq!(
            spot(&plan_of(text, &sharding), text, &sharding),
            *expected,
            "{text}"
        );
    }
}

#[test]
fn reads() {
    check(&[
        ("SELECT 1", "anywhere"),
        ("SELECT * FROM customer WHERE id = 150", "g2"),
        ("SELECT * FROM customer WHERE id = -150", "g1"),
        ("SELECT * FROM customer WHERE id = '250'", "g1"),
        ("SELECT * FROM customer WHERE id IN (5, 250)", "g1"),
        ("SELECT * FROM customer WHERE id IN (5, 150)", "read g1,g2"),
        ("SELECT * FROM customer WHERE id < 500", "read g1,g2,g3"),
        (
            "SELECT * FROM customer WHERE id = NULL",
            "SHARD_DISABLED: 5",
        ),
        ("SELECT * FROM customer", "SHARD_DISABLED: 5"),
        (
            "SELECT * FROM customer WHERE id = 1000",
            "SHARD_DISABLED: 5",
        ),
        (
            "SELECT * FROM customer c JOIN orders o ON o.customer_id = c.id JOIN country USING (code) WHERE c.id = 7",
            "g1",
        ),
        ("SELECT * FROM country", "any of 1"),
        ("SELECT * FROM country FOR UPDATE", "g0"),
        ("SELECT * FROM logs.x", "g7"),
        ("SELECT * FROM mysql.user", "home"),
        ("SELECT * FROM untold", "g0"),
        ("SELECT * FROM untold, country", "g0"),
        (
            "SELECT * FROM customer, untold WHERE customer.id = 7",
            "read g1,g0",
        ),
        ("SELECT * FROM country, logs.x", "read g7"),
        ("SELECT ^ FROM customer", "read "),
        ("SELECT ^ FROM country", "any of 1"),
        (
            "SELECT * FROM customer WHERE id = 'x' 'y'",
            "SHARD_DISABLED: 5",
        ),
    ]);
}

#[test]
fn constants() {
    check(&[
        ("SELECT * FROM customer WHERE id = 100 + 50", "g2"),
        ("SELECT * FROM customer WHERE id = 152-2", "g2"),
        ("SELECT * FROM customer WHERE id = 152 - 2", "g2"),
        ("SELECT * FROM customer WHERE id = -(-150)", "g2"),
        ("SELECT * FROM customer WHERE id = CONCAT('1', 50)", "g2"),
        ("SELECT * FROM customer WHERE id IN (1, 100 * 2 + 7)", "g1"),
        (
            "SELECT * FROM customer WHERE id BETWEEN 90 + 20 AND CAST('150' AS SIGNED)",
            "g2",
        ),
        ("SELECT * FROM customer WHERE id = 0x96", "g2"),
        ("DELETE FROM customer WHERE id = ABS(-150)", "g2"),
        // What only a server knows bounds nothing.
        (
            "SELECT * FROM customer WHERE id = 1.5 * 100 AND id < 1000",
            "read g1,g2,g3",
        ),
        (
            "SELECT * FROM customer WHERE id IN (1, RAND()) AND id < 1000",
            "read g1,g2,g3",
        ),
        ("INSERT INTO customer (id) VALUES (100 + 50), (0x96)", "g2"),
        (
            "INSERT INTO customer (id) VALUES (-(-5)), (SQRT(9) + 1)",
            "evaluate SQRT(9) + 1",
        ),
    ]);
}

#[test]
fn changes() {
    check(&[
        ("UPDATE customer SET name = 'x' WHERE id = 150", "g2"),
        (
            "UPDATE customer SET name = 'x' WHERE id < 150",
            "each g1,g2",
        ),
        ("DELETE FROM customer WHERE id < 150", "each g1,g2"),
        (
            "DELETE FROM customer WHERE id < 150 LIMIT 3",
            "limited g1,g2",
        ),
        ("DELETE FROM customer WHERE id IN (1, 201) LIMIT 3", "g1"),
    ]);
}

#[test]
fn changes_of_tables_of_all_groups() {
    check(&[
        ("UPDATE country SET name = 'x'", "same g0,g1,g2,g3,g4"),
        (
            "UPDATE country SET name = 'x' LIMIT 1",
            "limited g0,g1,g2,g3,g4",
        ),
        (
            "UPDATE country SET name = UUID()",
            "NOT_OVER_GROUPS: UUID() would give each group another value: SELECT it first, and write what it gave",
        ),
        (
            "INSERT INTO country (code, name) VALUES (UUID(), 'uuid()'), ('x', CONCAT(RAND(), 'x'))",
            "evaluate UUID(); CONCAT(RAND(), 'x')",
        ),
        (
            "INSERT INTO country (code) VALUES ('x') ON DUPLICATE KEY UPDATE code = UUID()",
            "NOT_OVER_GROUPS: UUID() would give each group another value: SELECT it first, and write what it gave",
        ),
        (
            "UPDATE customer c JOIN orders o ON o.customer_id = c.id SET o.total = c.n WHERE c.id < 150",
            "each g1,g2",
        ),
        (
            "UPDATE customer c JOIN orders o ON o.id = c.id SET o.total = c.n WHERE c.id < 150 AND o.customer_id < 150",
            "by keys",
        ),
        (
            "UPDATE country JOIN customer SET country.name = 'x' WHERE customer.id = 1",
            "by keys",
        ),
        (
            "DELETE o FROM orders o JOIN country c ON c.code = o.code WHERE o.customer_id < 150",
            "each g1,g2",
        ),
    ]);
}

#[test]
fn changes_of_keys_and_by_own_rows() {
    check(&[
        ("UPDATE customer SET id = 160 WHERE id = 150", "g2"),
        ("UPDATE customer SET id = 50 WHERE id = 150", "moves g2"),
        ("UPDATE customer SET id = id + 1 WHERE id = 150", "moves g2"),
        ("UPDATE customer SET id = id WHERE id = 150", "g2"),
        ("UPDATE customer SET id = 100 + 60 WHERE id = 150", "g2"),
        ("UPDATE logs.x SET a = 1", "g7"),
        ("UPDATE IGNORE customer SET name = 'x' WHERE id = 150", "g2"),
        (
            "UPDATE LOW_PRIORITY IGNORE customer SET name = 'x' WHERE id < 150",
            "each g1,g2",
        ),
        (
            "DELETE LOW_PRIORITY QUICK IGNORE FROM customer WHERE id < 150",
            "each g1,g2",
        ),
        (
            "UPDATE customer c, orders o SET o.total = c.n WHERE o.customer_id = c.id AND c.id = 150",
            "g2",
        ),
        (
            "UPDATE orders o, (SELECT 1 AS a, 2 AS b) x SET o.total = x.a WHERE o.customer_id < 150",
            "each g1,g2",
        ),
    ]);
}

#[test]
fn changes_by_rows_of_other_groups() {
    check(&[
        (
            "UPDATE untold SET a = (SELECT COUNT(*) FROM customer WHERE id < 150)",
            "by keys",
        ),
        (
            "DELETE FROM untold WHERE a IN (SELECT id FROM customer WHERE id < 150)",
            "by keys",
        ),
        (
            "UPDATE customer SET a = (SELECT MAX(a) FROM untold) WHERE id < 150",
            "by keys",
        ),
    ]);
}

#[test]
fn inserts() {
    check(&[
        ("INSERT INTO customer VALUES ('x', 150)", "g2"),
        ("INSERT INTO customer (id, name) VALUES (150, 'x')", "g2"),
        ("INSERT INTO customer SET name = 'x', id = 350", "g3"),
        (
            "REPLACE INTO shop.customer (`ID`) VALUES (-150)",
            "SHARD_KEY_OUT_OF_RANGE: -150",
        ),
        ("INSERT INTO customer VALUES ('x', 1), ('y', 201)", "g1"),
        (
            "INSERT INTO customer VALUES ('x', 1), ('y', 101), ('z', 2)",
            "rows g1[0, 2] g2[1]",
        ),
        (
            "INSERT INTO customer VALUES ('x', 1), ('y', 1001)",
            "SHARD_DISABLED: 5",
        ),
        (
            "INSERT INTO customer VALUES ('x', NULL)",
            "SHARD_KEY_NULL: id",
        ),
        (
            "INSERT INTO customer VALUES ('x', 1.5)",
            "SHARD_KEY_BAD: id",
        ),
        (
            "INSERT INTO customer (name) VALUES ('x')",
            "SHARD_KEY_MISSING: id",
        ),
        (
            "INSERT INTO customer VALUES ('x', DEFAULT)",
            "SHARD_KEY_MISSING: id",
        ),
        (
            "INSERT INTO customer VALUES ('x', 1 + 1), ('y', @a)",
            "evaluate @a",
        ),
        (
            "INSERT INTO customer SELECT * FROM customer WHERE id = 1",
            "select",
        ),
        (
            "INSERT INTO untold SELECT * FROM customer WHERE id < 150",
            "select",
        ),
        (
            "INSERT INTO country SELECT * FROM customer WHERE id < 150",
            "select",
        ),
        (
            "INSERT INTO item VALUES (1)",
            "NOT_OVER_GROUPS: the columns of the table are not known: name them in the INSERT",
        ),
        (
            "INSERT INTO orders (customer_id, total) VALUES (1, 1), (101, 2)",
            "ids 2",
        ),
        (
            "INSERT INTO orders VALUES (NULL, 1, 1), (5, 101, 2), (0, 5, 5)",
            "ids 2",
        ),
        ("INSERT INTO orders VALUES (7, 101, 2)", "g2"),
    ]);
}

#[test]
fn inserts_elsewhere_and_duplicates() {
    check(&[
        (
            "INSERT INTO customer VALUES ('x', 2147483648)",
            "SHARD_KEY_TOO_LARGE: id",
        ),
        ("INSERT INTO country VALUES (1)", "same g0,g1,g2,g3,g4"),
        ("INSERT INTO untold VALUES (1)", "g0"),
        (
            "INSERT INTO customer VALUES ('x', 1) ON DUPLICATE KEY UPDATE id = VALUES(id)",
            "g1",
        ),
        (
            "INSERT INTO customer VALUES ('x', 1) ON DUPLICATE KEY UPDATE id = 2",
            "SHARD_KEY_MOVES: ON DUPLICATE KEY UPDATE cannot change the shard key of the row that is there",
        ),
    ]);
}

/// A plan serves all texts of its shape.
#[test]
fn values_are_those_of_each_text() {
    let sharding = shop();
    for (first, second, expected) in [
        (
            "SELECT * FROM customer WHERE name = 'x' AND id = 150",
            "SELECT * FROM customer WHERE name = 'a longer name' AND id = -7",
            "g1",
        ),
        (
            "SELECT * FROM customer WHERE name = 'x' AND id = -150",
            "SELECT * FROM customer WHERE name = '' AND id = '150'",
            "g2",
        ),
        (
            "INSERT INTO customer VALUES ('x', 1)",
            "INSERT INTO customer VALUES (7, 350)",
            "g3",
        ),
        (
            "SELECT * FROM customer WHERE id IN (1, 2)",
            "SELECT * FROM customer WHERE id IN (101, 350)",
            "read g2,g3",
        ),
    ] {
        let (one, other) = (scan(first), scan(second));
        assert_eq!(
            (one.shape, one.folds),
            (other.shape, other.folds),
            "{second}"
        );
        assert_eq!(
            spot(&plan_of(first, &sharding), second, &sharding),
            expected,
            "{second}"
        );
    }
    let (short, long) = (
        scan("SELECT * FROM customer WHERE a IN (1) AND id IN (2, 3)"),
        scan("SELECT * FROM customer WHERE a IN (1, 2) AND id IN (3)"),
    );
    assert_eq!(short.shape, long.shape);
    assert_ne!(short.folds, long.folds);
}
