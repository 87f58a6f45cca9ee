//! The tables of the shop as inventions see them.

/// What can be done with a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Int,
    /// Unsigned: nothing is subtracted from it.
    Whole,
    Decimal,
    /// Multiples of an eighth, so that sums are exact.
    Double,
    /// A collation in which other bytes may be equal.
    Text,
    /// Equal only when the bytes are.
    Exact,
    Enum,
    Date,
    Moment,
}

pub struct Table {
    pub name: &'static str,
    pub columns: &'static [(&'static str, Kind)],
    /// The primary key.
    pub primary: &'static [&'static str],
}

use Kind::{Date, Decimal, Double, Enum, Exact, Int, Moment, Text, Whole};

pub const TABLES: [Table; 9] = [
    Table {
        name: "customers",
        columns: &[
            ("customer_id", Int),
            ("name", Text),
            ("city", Text),
            ("country", Text),
            ("tier", Enum),
            ("credit", Decimal),
            ("score", Double),
            ("born", Date),
            ("created", Moment),
            ("referrer", Int),
            ("code", Exact),
        ],
        primary: &["customer_id"],
    },
    Table {
        name: "orders",
        columns: &[
            ("order_id", Int),
            ("customer_id", Int),
            ("status", Enum),
            ("placed", Moment),
            ("due", Date),
            ("total", Decimal),
            ("discount", Decimal),
            ("channel", Text),
            ("ship_country", Text),
            ("remark", Text),
        ],
        primary: &["customer_id", "order_id"],
    },
    Table {
        name: "items",
        columns: &[
            ("customer_id", Int),
            ("order_id", Int),
            ("line_no", Whole),
            ("product_id", Int),
            ("quantity", Whole),
            ("price", Decimal),
            ("tax", Decimal),
            ("shipped", Moment),
            ("mass", Double),
        ],
        primary: &["customer_id", "order_id", "line_no"],
    },
    Table {
        name: "wallets",
        columns: &[
            ("customer_id", Int),
            ("balance", Decimal),
            ("hits", Int),
            ("label", Text),
        ],
        primary: &["customer_id"],
    },
    Table {
        name: "products",
        columns: &[
            ("product_id", Int),
            ("name", Text),
            ("category", Text),
            ("price", Decimal),
            ("parent", Int),
        ],
        primary: &["product_id"],
    },
    Table {
        name: "countries",
        columns: &[
            ("code", Text),
            ("name", Text),
            ("region", Text),
            ("population", Whole),
            ("vat", Decimal),
        ],
        primary: &["code"],
    },
    Table {
        name: "staff",
        columns: &[
            ("staff_id", Int),
            ("boss", Int),
            ("country", Text),
            ("salary", Decimal),
            ("hired", Date),
        ],
        primary: &["staff_id"],
    },
    Table {
        name: "visits",
        columns: &[
            ("visit_id", Int),
            ("customer_id", Int),
            ("page", Text),
            ("at", Moment),
            ("ms", Whole),
        ],
        primary: &["visit_id"],
    },
    Table {
        name: "stock",
        columns: &[
            ("sku", Exact),
            ("product_id", Int),
            ("place", Text),
            ("quantity", Int),
            ("reserved", Int),
        ],
        primary: &["sku"],
    },
];

/// Columns whose values meet: each of a list may be joined with each of the same list.
const MEETING: [&[(&str, &str)]; 4] = [
    &[
        ("customers", "customer_id"),
        ("orders", "customer_id"),
        ("items", "customer_id"),
        ("wallets", "customer_id"),
        ("visits", "customer_id"),
        ("customers", "referrer"),
        ("staff", "staff_id"),
        ("v_buyers", "customer_id"),
        ("v_lines", "customer_id"),
        ("v_purses", "customer_id"),
        ("v_ordering", "customer_id"),
        ("v_ordering", "referrer"),
        ("v_slow", "customer_id"),
        ("v_bosses", "boss"),
        ("v_of_buyers", "customer_id"),
        ("v_groups", "g"),
        ("v_total", "n"),
        ("v_ids", "customer_id"),
        ("v_all", "customer_id"),
        ("v_referred", "by_whom"),
        ("v_referred", "customer_id"),
        ("v_ranked", "customer_id"),
        ("v_first", "customer_id"),
        ("v_given", "customer_id"),
        ("v_among", "customer_id"),
        ("v_among", "referrer"),
        ("v_without", "customer_id"),
        ("v_not_in", "customer_id"),
        ("v_of_groups", "g"),
        ("v_mixed", "customer_id"),
    ],
    &[
        ("items", "product_id"),
        ("products", "product_id"),
        ("stock", "product_id"),
        ("products", "parent"),
        ("v_lines", "product_id"),
        ("v_parents", "product_id"),
    ],
    &[
        ("customers", "country"),
        ("orders", "ship_country"),
        ("countries", "code"),
        ("staff", "country"),
    ],
    &[
        ("customers", "born"),
        ("orders", "due"),
        ("staff", "hired"),
        ("v_buyers", "born"),
        ("v_sums", "due"),
        ("v_differ", "due"),
    ],
];

/// Pairs of columns that two tables can be joined by; the first ones are the most usual.
pub fn meetings(one: &Table, other: &Table) -> Vec<(&'static str, &'static str)> {
    let mut pairs = Vec::new();
    for list in MEETING {
        for &(table, column) in list.iter().filter(|(table, _)| *table == one.name) {
            for &(with, by) in list.iter().filter(|(table, _)| *table == other.name) {
                debug_assert!(table == one.name && with == other.name);
                pairs.push((column, by));
            }
        }
    }
    pairs
}
