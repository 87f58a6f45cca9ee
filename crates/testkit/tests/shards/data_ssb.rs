//! Rows for the tables of the star schema benchmark, as small as its questions allow.

use super::Rows;
use crate::dice::Dice;

/// Region, nation and the beginning of its cities' names.
const NATIONS: [(&str, &str, &str); 6] = [
    ("AMERICA", "UNITED STATES", "UNITED ST"),
    ("AMERICA", "BRAZIL", "BRAZIL   "),
    ("EUROPE", "UNITED KINGDOM", "UNITED KI"),
    ("ASIA", "CHINA", "CHINA    "),
    ("ASIA", "INDIA", "INDIA    "),
    ("AFRICA", "KENYA", "KENYA    "),
];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const YEARS: [i64; 7] = [1992, 1993, 1994, 1995, 1996, 1997, 1998];
const BRANDS: [(&str, &str); 6] = [
    ("12", "1203"),
    ("14", "1405"),
    ("22", "2221"),
    ("22", "2225"),
    ("22", "2239"),
    ("31", "3101"),
];

const CUSTOMERS: i64 = 60;
const SUPPLIERS: i64 = 24;
const PARTS: i64 = 40;
const ORDERS: i64 = 400;

/// All tables.
pub fn ssb(dice: &mut Dice) -> Vec<(&'static str, Rows)> {
    let mut facts = Vec::new();
    for order in 1..=ORDERS {
        order_of(dice, order, &mut facts);
    }
    let place = |id: i64| {
        let nations = NATIONS.len() as i64;
        let (region, nation, city) = NATIONS[(id % nations) as usize];
        format!(
            "'{city}{}', '{nation}', '{region}'",
            [1, 5][(id / nations % 2) as usize]
        )
    };
    let customer = |id: i64| format!("({id}, 'Customer#{id:03}', {}, 'BUILDING')", place(id));
    let supplier = |id: i64| format!("({id}, 'Supplier#{id:03}', {})", place(id));
    let part = |id: i64| {
        let (category, brand) = BRANDS[(id % BRANDS.len() as i64) as usize];
        let maker = &category[..1];
        format!("({id}, 'part {id}', 'MFGR#{maker}', 'MFGR#{category}', 'MFGR#{brand}', {id})")
    };
    vec![
        ("dates", days().map(|(text, _)| text).collect()),
        ("customer", (1..=CUSTOMERS).map(customer).collect()),
        ("supplier", (1..=SUPPLIERS).map(supplier).collect()),
        ("part", (1..=PARTS).map(part).collect()),
        ("lineorder", facts),
    ]
}

/// A day of each of some weeks, and its key.
fn days() -> impl Iterator<Item = (String, i64)> {
    let months = YEARS
        .into_iter()
        .flat_map(|year| (1..=12).map(move |month| (year, month)));
    months.flat_map(|(year, month)| {
        [3, 10, 24].map(|day| {
            let key = year * 10_000 + month * 100 + day;
            let name = MONTHS[month as usize - 1];
            let week = ((month - 1) * 30 + day - 1) / 7 + 1;
            let text = format!(
                "({key}, '{name} {day}, {year}', 'Monday', '{name}', {year}, {}, '{name}{year}', {week})",
                year * 100 + month
            );
            (text, key)
        })
    })
}

fn order_of(dice: &mut Dice, order: i64, facts: &mut Rows) {
    let keys: Vec<i64> = days().map(|(_, key)| key).collect();
    let (day, customer) = (keys[dice.below(keys.len())], dice.within(1, CUSTOMERS));
    let total = dice.within(10_000, 400_000);
    for line in 1..=dice.within(1, 5) {
        let (part, supplier) = (dice.within(1, PARTS), dice.within(1, SUPPLIERS));
        let (quantity, discount) = (dice.within(1, 50), dice.within(0, 10));
        let price = quantity * dice.within(900, 2000);
        let revenue = price * (100 - discount) / 100;
        facts.push(format!(
            "({order}, {line}, {customer}, {part}, {supplier}, {day}, {quantity}, {price}, {total}, {discount}, \
             {revenue}, {})",
            price * 6 / 10
        ));
    }
}
