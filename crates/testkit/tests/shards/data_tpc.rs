//! Rows for the tables of TPC-H and TPC-C, as small as the questions allow.

use super::Rows;
use crate::dice::Dice;

const REGIONS: [&str; 5] = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"];
const NATIONS: [&str; 10] = [
    "ALGERIA", "BRAZIL", "INDIA", "FRANCE", "EGYPT", "KENYA", "CANADA", "CHINA", "GERMANY", "IRAN",
];
const PRIORITIES: [&str; 5] = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"];
const MODES: [&str; 7] = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "AIR REG"];
const CONTAINERS: [&str; 6] = [
    "MED BOX", "LG CASE", "SM PKG", "SM CASE", "MED BAG", "LG BOX",
];
const SEGMENTS: [&str; 4] = ["BUILDING", "AUTOMOBILE", "MACHINERY", "HOUSEHOLD"];

const SUPPLIERS: i64 = 10;
const PARTS: i64 = 60;
const CUSTOMERS: i64 = 75;

/// TPC-H.
pub fn h(dice: &mut Dice) -> Vec<(&'static str, Rows)> {
    let numbered = |names: &[&str]| -> Vec<(usize, String)> {
        names
            .iter()
            .map(|&name| name.to_owned())
            .enumerate()
            .collect()
    };
    let region = numbered(&REGIONS)
        .into_iter()
        .map(|(at, name)| format!("({at}, '{name}', NULL)"));
    let nation = numbered(&NATIONS)
        .into_iter()
        .map(|(at, name)| format!("({at}, '{name}', {}, NULL)", at % REGIONS.len()));
    let (mut orders, mut lines) = (Vec::new(), Vec::new());
    for order in 1..=300 {
        h_order(dice, order, &mut orders, &mut lines);
    }
    let mut partsupp = Vec::new();
    for part in 1..=PARTS {
        for nth in 0..4 {
            let supplier = (part + nth * 3) % SUPPLIERS + 1;
            let (available, cost) = (dice.within(1, 9999), dice.cents(100, 99_900));
            partsupp.push(format!("({part}, {supplier}, {available}, {cost}, '')"));
        }
    }
    vec![
        ("region", region.collect()),
        ("nation", nation.collect()),
        ("part", (1..=PARTS).map(|id| h_part(dice, id)).collect()),
        (
            "supplier",
            (1..=SUPPLIERS).map(|id| h_supplier(dice, id)).collect(),
        ),
        ("partsupp", partsupp),
        (
            "customer",
            (1..=CUSTOMERS).map(|id| h_customer(dice, id)).collect(),
        ),
        ("orders", orders),
        ("lineitem", lines),
    ]
}

fn h_part(dice: &mut Dice, id: i64) -> String {
    let colours = ["green", "red", "blue"];
    let name = format!("{} {}", dice.pick(&colours), dice.pick(&["almond", "lace"]));
    let brand = format!("Brand#{}", dice.pick(&["12", "23", "34", "45"]));
    let kind = format!(
        "{} {}",
        dice.pick(&["PROMO POLISHED", "MEDIUM POLISHED", "SMALL PLATED"]),
        dice.pick(&["BRASS", "TIN"])
    );
    let (size, container) = (dice.within(1, 50), dice.pick(&CONTAINERS));
    format!(
        "({id}, '{name}', 'Manufacturer#{}', '{brand}', '{kind}', {size}, '{container}', {}, '')",
        dice.within(1, 5),
        dice.cents(90_000, 110_000)
    )
}

fn h_supplier(dice: &mut Dice, id: i64) -> String {
    let comment = dice.pick(&["", "Customer slow Complaints", "quick"]);
    format!(
        "({id}, 'Supplier#{id:03}', 'address {id}', {}, '1{}-555', {}, '{comment}')",
        id % 10,
        id % 10,
        dice.cents(-99_900, 999_900)
    )
}

fn h_customer(dice: &mut Dice, id: i64) -> String {
    let (nation, segment) = (dice.below(10), dice.pick(&SEGMENTS));
    let phone = dice.pick(&["13", "31", "23", "29", "30", "18", "17", "25"]);
    let balance = dice.cents(-99_900, 999_900);
    format!(
        "({id}, 'Customer#{id:03}', 'street {id}', {nation}, '{phone}-{id}', {balance}, '{segment}', '')"
    )
}

fn h_order(dice: &mut Dice, order: i64, orders: &mut Rows, lines: &mut Rows) {
    let customer = dice.within(1, CUSTOMERS);
    // A third of the customers have no order.
    let customer = customer - i64::from(customer % 3 == 0);
    let (year, month, day) = (
        dice.within(1992, 1997),
        dice.within(1, 12),
        dice.within(1, 28),
    );
    let date = format!("'{year}-{month:02}-{day:02}'");
    let comment = dice.pick(&["", "special urgent requests", "nothing"]);
    orders.push(format!(
        "({order}, {customer}, '{}', {}, {date}, '{}', 'Clerk#{}', 0, '{comment}')",
        dice.pick(&["F", "O", "P"]),
        dice.cents(100_000, 30_000_000),
        dice.pick(&PRIORITIES),
        dice.below(5)
    ));
    for line in 1..=dice.within(1, 7) {
        let part = dice.within(1, PARTS);
        let supplier = (part + dice.within(0, 3) * 3) % SUPPLIERS + 1;
        let later = |dice: &mut Dice| format!("{date} + INTERVAL {} DAY", dice.within(1, 120));
        lines.push(format!(
            "({order}, {part}, {supplier}, {line}, {}, {}, 0.{:02}, 0.{:02}, '{}', '{}', {}, {}, \
             {}, '', '{}', '')",
            dice.within(1, 50),
            dice.cents(90_000, 9_000_000),
            dice.below(11),
            dice.below(9),
            dice.pick(&["R", "A", "N"]),
            dice.pick(&["O", "F"]),
            later(dice),
            later(dice),
            later(dice),
            dice.pick(&MODES)
        ));
    }
}

/// The tables of TPC-C, in the order of their rows below.
const C_TABLES: [&str; 9] = [
    "warehouse",
    "district",
    "customer",
    "history",
    "orders",
    "new_order",
    "order_line",
    "stock",
    "item",
];

/// TPC-C: 4 warehouses of 3 districts of 10 customers with an order each; 40 items.
pub fn c(dice: &mut Dice) -> Vec<(&'static str, Rows)> {
    let mut tables: [Rows; 9] = Default::default();
    for i in 1..=40 {
        let price = dice.cents(100, 10_000);
        tables[8].push(format!("({i}, 'item {i}', {price}, 'data {i}')"));
    }
    for w in 1..=4 {
        tables[0].push(format!("({w}, 'w{w}', 0.0{w}00, 300.00)"));
        for i in 1..=40 {
            tables[7].push(format!("({i}, {w}, {}, 0, 0, 0)", dice.within(10, 100)));
        }
        for d in 1..=3 {
            tables[1].push(format!("({d}, {w}, 'd{d}', 0.0{d}50, 100.00, 11)"));
            for n in 1..=10 {
                c_customer(dice, &mut tables, (w, d, n));
            }
        }
    }
    C_TABLES.into_iter().zip(tables).collect()
}

/// The customer of this warehouse, district and number, with a payment and an order; the last three
/// orders are not delivered.
fn c_customer(dice: &mut Dice, tables: &mut [Rows; 9], (w, d, n): (i64, i64, i64)) {
    let [_, _, customer, history, orders, new_order, order_line, ..] = tables;
    let place = format!("{d}, {w}");
    customer.push(format!(
        "({n}, {place}, 'first {n}', 'BAR{}', '{}', 0.{:04}, -10.00, 10.00, 1, 0, 'data')",
        n % 6,
        dice.pick(&["GC", "BC"]),
        dice.below(5000)
    ));
    history.push(format!(
        "({}, {n}, {place}, {place}, '2026-01-01 00:00:00', 10.00, 'h')",
        d * 100 + n
    ));
    let lines = dice.within(1, 5);
    let (carrier, delivered) = match n < 8 {
        true => (n.to_string(), "'2026-01-01 01:00:00'"),
        false => ("NULL".to_owned(), "NULL"),
    };
    orders.push(format!(
        "({n}, {place}, {n}, '2026-01-01 00:00:{n:02}', {carrier}, {lines}, 1)"
    ));
    if n >= 8 {
        new_order.push(format!("({n}, {place})"));
    }
    for line in 1..=lines {
        order_line.push(format!(
            "({n}, {place}, {line}, {}, {w}, {delivered}, 5, {})",
            dice.within(1, 40),
            dice.cents(0, 99_900)
        ));
    }
}
