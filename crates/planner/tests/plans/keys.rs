//! Statements and the shards that they need, on a map of four ranges: 1 to 99, 100 to 199, 200 to
//! 299, and from 300 on.

use std::sync::Arc;

use farm::samples;
use farm::shard::{KeyType, ShardMap, ShardedTable};
use planner::keys::Term;
use planner::{Analysis, Catalog, Kind, read};
use routing::shard::Literal;

struct Shop(Vec<ShardedTable>, Arc<str>);

impl Catalog for Shop {
    fn table(&self, database: &str, table: &str) -> Kind<'_> {
        if database != "shop" {
            return Kind::Single { group: &self.1 };
        }
        match self
            .0
            .iter()
            .find(|it| it.table.eq_ignore_ascii_case(table))
        {
            Some(sharded) => Kind::Sharded(sharded),
            None if table == "country" => Kind::Global { map: 1 },
            None if table.starts_with("v_") => Kind::Opaque,
            None => Kind::Single { group: &self.1 },
        }
    }
}

fn shop() -> Shop {
    let table = |table: &str, column: &str| ShardedTable {
        database: "shop".into(),
        table: table.into(),
        column: column.into(),
        key: KeyType::Integer,
        map: 1,
    };
    Shop(
        vec![
            table("customer", "id"),
            table("orders", "customer_id"),
            table("item", "customer_id"),
        ],
        "g0".into(),
    )
}

fn map() -> ShardMap {
    samples::range_map(1, &[("g1", 1), ("g2", 100), ("g3", 200), ("g4", 300)])
}

/// Reads the literal that begins at a byte of the text.
fn value<'t>(text: &'t str) -> impl Fn(Term) -> Option<Literal<'t>> {
    move |term| {
        let start = term.at as usize - usize::from(term.negative);
        let rest = &text[start..];
        if let Some(quoted) = rest.strip_prefix('\'') {
            let end = quoted.find('\'')?;
            return Some(Literal::Text(&quoted.as_bytes()[..end]));
        }
        let digit = |c: char| c.is_ascii_digit() || c == '-' || c == '.';
        let end = rest.find(|c| !digit(c)).unwrap_or(rest.len());
        Some(Literal::Number(&rest[..end]))
    }
}

fn analysis(text: &str) -> Analysis {
    read(text, "shop", &shop()).unwrap_or_else(|unread| panic!("{text}: {}", unread.reason))
}

/// The shards of each reference, as `1 | 1,2`.
fn shards(text: &str) -> String {
    let map = map();
    let sets = analysis(text).shards(&map, &value(text));
    let one = |set: &routing::shard::ShardSet| {
        let ids: Vec<String> = set.iter().map(|at| map.shard(at).id.to_string()).collect();
        ids.join(",")
    };
    sets.iter().map(one).collect::<Vec<_>>().join(" | ")
}

#[test]
fn conditions_on_one_table() {
    for (text, expected) in [
        ("SELECT * FROM customer", "1,2,3,4"),
        ("SELECT * FROM customer WHERE id = 150", "2"),
        ("SELECT * FROM customer WHERE 150 = customer.id", "2"),
        (
            "SELECT * FROM customer c WHERE c.id = '150' AND name = 'x'",
            "2",
        ),
        (
            "SELECT * FROM shop.customer WHERE shop.customer.ID = 150",
            "2",
        ),
        ("SELECT * FROM customer WHERE id = -5", ""),
        ("SELECT * FROM customer WHERE id IN (50, 350, 51)", "1,4"),
        ("SELECT * FROM customer WHERE id IN (50, 300 + 50)", "1,4"),
        ("SELECT * FROM customer WHERE id NOT IN (50)", "1,2,3,4"),
        (
            "SELECT * FROM customer WHERE id = 50 OR (id = 150 AND name = 'y')",
            "1,2",
        ),
        (
            "SELECT * FROM customer WHERE id = 50 OR name = 'y'",
            "1,2,3,4",
        ),
        ("SELECT * FROM customer WHERE id BETWEEN 150 AND 250", "2,3"),
        ("SELECT * FROM customer WHERE id >= 150 AND id < 200", "2"),
        ("SELECT * FROM customer WHERE 150 > id", "1,2"),
        ("SELECT * FROM customer WHERE NOT id = 150", "1,2,3,4"),
        (
            "SELECT * FROM customer WHERE id = 150 XOR name = 'x'",
            "1,2,3,4",
        ),
        ("SELECT * FROM customer WHERE (id, name) = (150, 'x')", "2"),
        (
            "SELECT * FROM customer WHERE (name, id) IN (('x', 50), ('y', 350))",
            "1,4",
        ),
        ("SELECT * FROM customer WHERE id = 150 AND id = 250", ""),
        ("SELECT * FROM customer WHERE id + 0 = 150", "1,2,3,4"),
        (
            "SELECT * FROM customer WHERE id = 150 || name = 'x'",
            "1,2,3,4",
        ),
        // The servers bind these less tightly than the parser does.
        (
            "SELECT * FROM customer WHERE id = 150 AND name = 'x' XOR 1",
            "1,2,3,4",
        ),
        (
            "SELECT * FROM customer WHERE id = 150 AND name = 'x' || 1",
            "1,2,3,4",
        ),
        ("SELECT * FROM customer WHERE id = @x", "1,2,3,4"),
        ("SELECT 'é', id FROM customer\n WHERE id = 150 -- ü", "2"),
        ("UPDATE customer SET name = 'x' WHERE id = 150", "2"),
        ("DELETE FROM customer WHERE id IN (150, 250) LIMIT 1", "2,3"),
    ] {
        assert_eq!(shards(text), expected, "{text}");
    }
}

#[test]
fn keys_that_are_equal_are_on_one_shard() {
    for (text, expected) in [
        (
            "SELECT * FROM customer c JOIN orders o ON o.customer_id = c.id WHERE c.id = 150",
            "2 | 2",
        ),
        (
            "SELECT * FROM customer c, orders o WHERE o.customer_id = c.id AND o.customer_id = 150",
            "2 | 2",
        ),
        (
            "SELECT * FROM customer c LEFT JOIN orders o ON o.customer_id = c.id WHERE c.id = 150",
            "2 | 2",
        ),
        // Customers without orders count whatever the condition says.
        (
            "SELECT * FROM customer c LEFT JOIN orders o ON o.customer_id = c.id AND o.customer_id = 150",
            "1,2,3,4 | 2",
        ),
        (
            "SELECT * FROM customer c RIGHT JOIN orders o ON o.customer_id = c.id AND c.id = 150",
            "2 | 1,2,3,4",
        ),
        (
            "SELECT * FROM orders JOIN item USING (customer_id) WHERE customer_id = 150",
            "2 | 2",
        ),
        (
            "SELECT * FROM orders LEFT JOIN item USING (customer_id) WHERE customer_id = 150",
            "2 | 2",
        ),
        (
            "SELECT * FROM orders o JOIN item i ON o.id = i.order_id WHERE o.customer_id = 150",
            "2 | 1,2,3,4",
        ),
    ] {
        assert_eq!(shards(text), expected, "{text}");
    }
}

#[test]
fn keys_of_inner_queries_are_equal_to_outer_ones() {
    for (text, expected) in [
        (
            "SELECT * FROM customer WHERE id = 150 AND EXISTS (SELECT 1 FROM orders WHERE customer_id = customer.id)",
            "2 | 2",
        ),
        (
            "SELECT (SELECT COUNT(*) FROM orders o WHERE o.customer_id = c.id) FROM customer c WHERE c.id = 50",
            "1 | 1",
        ),
        // The inner condition says nothing about the outer rows.
        (
            "SELECT * FROM customer c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id AND o.customer_id = 50)",
            "1,2,3,4 | 1",
        ),
        (
            "SELECT * FROM customer WHERE id IN (SELECT customer_id FROM orders WHERE customer_id = 50)",
            "1,2,3,4 | 1",
        ),
        (
            "WITH x AS (SELECT * FROM orders WHERE customer_id = 50) SELECT * FROM x JOIN customer c ON c.id = 50",
            "1 | 1",
        ),
        (
            "SELECT * FROM customer WHERE id = 50 UNION SELECT * FROM customer WHERE id = 250",
            "1 | 3",
        ),
        (
            "SELECT * FROM (SELECT * FROM customer WHERE id = 50) d, orders WHERE customer_id = 350",
            "1 | 4",
        ),
        (
            "SELECT * FROM customer c JOIN (orders o JOIN item i ON i.customer_id = o.customer_id) ON o.customer_id = c.id WHERE i.customer_id = 250",
            "3 | 3 | 3",
        ),
        (
            "SELECT * FROM customer a JOIN country USING (country_id) WHERE a.id = 50",
            "1",
        ),
        (
            "INSERT INTO item SELECT * FROM orders WHERE customer_id = 50",
            "1,2,3,4 | 1",
        ),
        (
            "UPDATE customer c JOIN orders o ON o.customer_id = c.id SET c.n = o.n WHERE c.id = 50",
            "1 | 1",
        ),
        (
            "DELETE c FROM customer c JOIN orders o ON o.customer_id = c.id WHERE o.customer_id = 50",
            "1 | 1",
        ),
    ] {
        assert_eq!(shards(text), expected, "{text}");
    }
}

#[test]
fn what_is_joined_by_its_keys_is_colocated() {
    for (text, expected) in [
        ("SELECT * FROM customer", true),
        (
            "SELECT * FROM customer c JOIN orders o ON o.customer_id = c.id",
            true,
        ),
        (
            "SELECT * FROM customer c JOIN orders o ON o.id = c.id",
            false,
        ),
        (
            "SELECT * FROM customer c LEFT JOIN orders o ON o.customer_id = c.id JOIN item i ON i.customer_id = o.customer_id",
            true,
        ),
        (
            "SELECT * FROM customer c WHERE id > (SELECT AVG(customer_id) FROM orders)",
            false,
        ),
        (
            "SELECT * FROM customer c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id)",
            true,
        ),
    ] {
        assert_eq!(analysis(text).is_colocated(), expected, "{text}");
    }
}

#[test]
fn other_tables_are_told() {
    let single = analysis("SELECT * FROM customer, other.t WHERE id = 1");
    assert!(single.singles.len() == 1 && !single.names_opaque);
    assert!(analysis("SELECT * FROM v_totals").names_opaque);
    let own = analysis("WITH orders AS (SELECT 1) SELECT * FROM orders");
    assert_eq!(own, Analysis::default());
    let shop = shop();
    for text in ["SELECT 1; SELECT 2", "SELEC 1", "CALL p()"] {
        assert!(read(text, "shop", &shop).is_err(), "{text}");
    }
}

#[test]
fn a_value_that_is_not_known_bounds_nothing() {
    let map = map();
    for text in [
        "SELECT * FROM customer WHERE id < ?",
        "SELECT * FROM customer WHERE id BETWEEN ? AND ?",
        "SELECT * FROM customer WHERE id = ?",
    ] {
        let sets = analysis(text).shards(&map, &|_| None);
        assert_eq!(sets[0].len(), 4, "{text}");
    }
}
