//! Views of each kind over the shop, for inventions: read like tables, in all places where tables stand.
//!
//! Of the first ones each group has its part; the rows of the others are made of rows of several groups.

use super::tables::Kind::{Date, Decimal, Enum, Int, Whole};
use super::tables::Table;
use crate::corpus::{Order, Step};
use crate::dice::Dice;

/// A view, and the query that it is. What its table has as a primary key tells its rows apart, as far as
/// they differ.
pub struct View {
    pub table: Table,
    query: &'static str,
}

const fn view(
    name: &'static str,
    columns: &'static [(&'static str, super::tables::Kind)],
    primary: &'static [&'static str],
    query: &'static str,
) -> View {
    View {
        table: Table {
            name,
            columns,
            primary,
        },
        query,
    }
}

pub const VIEWS: [View; 23] = [
    view(
        "v_buyers",
        &[
            ("customer_id", Int),
            ("tier", Enum),
            ("credit", Decimal),
            ("born", Date),
        ],
        &["customer_id"],
        "SELECT customer_id, tier, credit, born FROM customers WHERE credit IS NOT NULL",
    ),
    view(
        "v_sums",
        &[("total", Decimal), ("status", Enum), ("due", Date)],
        &["total", "status", "due"],
        "SELECT total, status, due FROM orders",
    ),
    view(
        "v_lines",
        &[
            ("customer_id", Int),
            ("order_id", Int),
            ("line_no", Whole),
            ("product_id", Int),
            ("price", Decimal),
            ("status", Enum),
        ],
        &["customer_id", "order_id", "line_no"],
        "SELECT o.customer_id, o.order_id, i.line_no, i.product_id, i.price, o.status FROM orders o \
         JOIN items i ON i.customer_id = o.customer_id AND i.order_id = o.order_id",
    ),
    view(
        "v_purses",
        &[("customer_id", Int), ("balance", Decimal), ("hits", Int)],
        &["customer_id"],
        "SELECT c.customer_id, w.balance, w.hits FROM customers c LEFT JOIN wallets w \
         ON w.customer_id = c.customer_id",
    ),
    view(
        "v_ordering",
        &[("customer_id", Int), ("referrer", Int)],
        &["customer_id"],
        "SELECT customer_id, referrer FROM customers WHERE customer_id IN (SELECT customer_id FROM orders \
         WHERE total > 90)",
    ),
    view(
        "v_slow",
        &[("visit_id", Int), ("customer_id", Int), ("ms", Whole)],
        &["visit_id"],
        "SELECT visit_id, customer_id, ms FROM visits WHERE ms > 50",
    ),
    view(
        "v_parents",
        &[("product_id", Int), ("n", Int)],
        &["product_id"],
        "SELECT parent AS product_id, COUNT(*) AS n FROM products GROUP BY parent",
    ),
    view(
        "v_bosses",
        &[("boss", Int), ("n", Int), ("most", Decimal)],
        &["boss"],
        "SELECT boss, COUNT(*) AS n, MAX(salary) AS most FROM staff GROUP BY boss",
    ),
    view(
        "v_of_buyers",
        &[("customer_id", Int), ("credit", Decimal)],
        &["customer_id"],
        "SELECT customer_id, credit FROM v_buyers WHERE NOT (tier = 'gold')",
    ),
    view(
        "v_groups",
        &[("g", Int), ("n", Int), ("s", Decimal)],
        &["g"],
        "SELECT customer_id % 7 AS g, COUNT(*) AS n, SUM(total) AS s FROM orders GROUP BY customer_id % 7",
    ),
    view(
        "v_total",
        &[("n", Int), ("s", Decimal)],
        &["n"],
        "SELECT COUNT(*) AS n, SUM(total) AS s FROM orders",
    ),
    view(
        "v_differ",
        &[("status", Enum), ("due", Date)],
        &["status", "due"],
        "SELECT DISTINCT status, due FROM orders",
    ),
    view(
        "v_ids",
        &[("customer_id", Int)],
        &["customer_id"],
        "SELECT customer_id FROM customers UNION SELECT customer_id FROM visits",
    ),
    view(
        "v_all",
        &[("customer_id", Int), ("n", Int)],
        &["customer_id", "n"],
        "SELECT customer_id, order_id AS n FROM orders UNION ALL SELECT customer_id, visit_id FROM visits",
    ),
    view(
        "v_referred",
        &[("customer_id", Int), ("by_whom", Int), ("credit", Decimal)],
        &["customer_id"],
        "SELECT c.customer_id, r.customer_id AS by_whom, r.credit FROM customers c JOIN customers r \
         ON r.customer_id = c.referrer",
    ),
    view(
        "v_ranked",
        &[("customer_id", Int), ("order_id", Int), ("place", Whole)],
        &["customer_id", "order_id"],
        "SELECT customer_id, order_id, RANK() OVER (ORDER BY total, customer_id, order_id) AS place \
         FROM orders WHERE total > 60",
    ),
    view(
        "v_first",
        &[("customer_id", Int), ("order_id", Int), ("total", Decimal)],
        &["customer_id", "order_id"],
        "SELECT customer_id, order_id, total FROM orders ORDER BY total DESC, customer_id, order_id LIMIT 17",
    ),
    view(
        "v_given",
        &[("customer_id", Int), ("s", Decimal)],
        &["customer_id"],
        "WITH v_total AS (SELECT customer_id, SUM(total) AS s FROM orders GROUP BY customer_id) \
         SELECT customer_id, s FROM v_total WHERE s > 100",
    ),
    view(
        "v_among",
        &[("customer_id", Int), ("referrer", Int)],
        &["customer_id"],
        "SELECT customer_id, referrer FROM customers WHERE referrer IN (SELECT customer_id FROM orders \
         WHERE total > 50)",
    ),
    view(
        "v_without",
        &[("customer_id", Int), ("credit", Decimal), ("turned", Whole)],
        &["customer_id"],
        "SELECT customer_id, credit, ~customer_id AS turned FROM customers c WHERE NOT EXISTS \
         (SELECT 1 FROM visits v WHERE v.customer_id = c.customer_id) AND NOT (tier = 'gold' OR score < 1)",
    ),
    view(
        "v_not_in",
        &[("customer_id", Int), ("referrer", Int)],
        &["customer_id"],
        "SELECT customer_id, referrer FROM customers WHERE referrer NOT IN (SELECT customer_id FROM orders \
         WHERE total > 200)",
    ),
    view(
        "v_of_groups",
        &[("g", Int), ("n", Int), ("whole", Int)],
        &["g"],
        "SELECT g.g, g.n, t.n AS whole FROM v_groups g JOIN v_total t",
    ),
    view(
        "v_mixed",
        &[("customer_id", Int), ("n", Int)],
        &["customer_id"],
        "SELECT b.customer_id, g.n FROM v_buyers b JOIN v_groups g ON g.g = b.customer_id % 7",
    ),
];

/// Views of one table's rows, through which that is changed.
const CHANGED: [(&str, &str); 4] = [
    (
        "w_purses (who, purse, hits)",
        "SELECT customer_id, balance, hits FROM wallets WHERE hits < 7 WITH CHECK OPTION",
    ),
    (
        "w_full",
        "SELECT who, purse FROM w_purses WHERE purse > 10 WITH CASCADED CHECK OPTION",
    ),
    (
        "w_orders",
        "SELECT customer_id, order_id, total, remark FROM orders WHERE customer_id IN \
         (SELECT customer_id FROM wallets WHERE hits > 1)",
    ),
    (
        "w_remarks",
        "SELECT remark, total FROM orders WHERE status = 'paid'",
    ),
];

/// A write through one of them. The comment at its end names the table whose rows are compared.
pub fn write(dice: &mut Dice) -> String {
    let key = dice.within(1, 90);
    let few = dice.below(9);
    let cents = dice.cents(-1000, 9000);
    let (wallets, orders) = ("/* wallets */", "/* orders */");
    match dice.below(11) {
        0 => format!("INSERT INTO w_purses VALUES ({key}, {cents}, {few}) {wallets}"),
        1 => format!("INSERT INTO w_purses (hits, who) VALUES ({few}, {key}) {wallets}"),
        2 => format!(
            "INSERT INTO w_full (purse, who) VALUES ({cents}, {key}) \
             ON DUPLICATE KEY UPDATE purse = purse + 1 {wallets}"
        ),
        3 => format!("REPLACE INTO w_full SET who = {key}, purse = {cents} {wallets}"),
        4 => format!("UPDATE w_purses SET hits = {few} WHERE who = {key} {wallets}"),
        5 => format!("UPDATE w_purses p SET p.purse = p.purse + 1 WHERE p.hits > {few} {wallets}"),
        6 => format!("UPDATE w_full SET purse = purse - {few} WHERE who > {key} {wallets}"),
        7 => format!("DELETE FROM w_full WHERE who IN ({key}, {few}) {wallets}"),
        8 => format!("UPDATE w_orders SET remark = 'w' WHERE total > {key} {orders}"),
        9 => format!("UPDATE w_remarks SET total = total + 0.5 WHERE total < {cents} {orders}"),
        _ => format!("DELETE FROM w_orders WHERE customer_id = {key} AND total < {cents} {orders}"),
    }
}

/// The statements that make them.
pub fn definitions() -> Vec<Step> {
    let read = VIEWS.iter().map(|view| (view.table.name, view.query));
    let made = |(at, (name, query)): (usize, (&str, &str))| {
        let text = format!("CREATE OR REPLACE VIEW {name} AS {query}");
        Step {
            order: Order::Free,
            ..Step::plain(at, &text)
        }
    };
    read.chain(CHANGED).enumerate().map(made).collect()
}
