//! Rows of the shop: keys at the ends of their type, texts that are equal in their collation, NULLs.

use super::Rows;
use crate::dice::Dice;

/// Beside 1 to 58.
const ODD_CUSTOMERS: [i64; 2] = [-5, 2_147_483_647];

/// Several are equal to others in unicode_ci or general_ci, with other bytes.
const NAMES: [&str; 24] = [
    "Müller",
    "MULLER",
    "muller",
    "Straße",
    "STRASSE",
    "strasse",
    "Émile",
    "emile",
    "EMILE",
    "Åsa",
    "asa",
    "Zoë",
    "zoe",
    "O''Brien",
    "o''brien",
    "back\\\\slash",
    "李雷",
    "李雷 ",
    "😀 smile",
    "Ōtani",
    "a",
    "A",
    "ähnlich",
    "tab\there",
];
const CITIES: [&str; 9] = [
    "Köln", "KÖLN", "koln", "Paris", "paris", "Graz", "New York", "new york", "Übersee",
];
const COUNTRIES: [&str; 6] = ["DE", "FR", "US", "AT", "JP", "CH"];
const CHANNELS: [&str; 6] = ["web", "Web", "WEB", "shop", "Shop", "phone"];
const STATUSES: [&str; 5] = ["new", "paid", "shipped", "returned", "cancelled"];

pub fn rows(dice: &mut Dice) -> Vec<(&'static str, Rows)> {
    let ids: Vec<i64> = (1..=58).chain(ODD_CUSTOMERS).collect();
    let customers = ids.iter().map(|&id| customer(dice, id)).collect();
    let (mut orders, mut items) = (Vec::new(), Vec::new());
    for &id in &ids {
        for order in orders_of(dice, id) {
            orders.push(order_row(dice, id, order));
            for line in 1..=dice.below(5) {
                items.push(item(dice, id, order, line));
            }
        }
    }
    let wallets = ids.iter().map(|&id| wallet(dice, id)).collect();
    vec![
        ("customers", customers),
        ("orders", orders),
        ("items", items),
        ("wallets", wallets),
        ("products", (1..=40).map(|id| product(dice, id)).collect()),
        ("countries", countries()),
        ("staff", (1..=12).map(|id| staff(dice, id)).collect()),
        ("visits", (1001..=1120).map(|id| visit(dice, id)).collect()),
        ("stock", stock(dice)),
        (
            "labels",
            ids.iter().flat_map(|&id| labels(dice, id)).collect(),
        ),
    ]
}

fn labels(dice: &mut Dice, customer: i64) -> Rows {
    let mut rows = Vec::new();
    for id in 1..=dice.below(4) {
        let mut number = |most| {
            let number = dice.within(-2, most).to_string();
            dice.or_null(15, number)
        };
        let (a, b, order, size) = (number(4), number(9), number(3), number(60));
        // Zero with a sign is another group on MariaDB.
        let total = dice.cents(1, 5000);
        let s = format!("'{}'", dice.pick(&NAMES));
        let s = dice.or_null(15, s);
        let hidden = dice.below(9);
        rows.push(format!(
            "({customer}, {id}, {a}, {b}, {order}, {size}, {total}, {s}, {hidden})"
        ));
    }
    rows
}

fn customer(dice: &mut Dice, id: i64) -> String {
    let name = dice.pick(&NAMES);
    let local = dice.pick(&["ann", "Ann", "bob", "BOB", "eve"]);
    let email = format!("'{local}{}@example.org'", dice.below(6));
    let email = dice.or_null(20, email);
    let city = format!("'{}'", dice.pick(&CITIES));
    let city = dice.or_null(15, city);
    let country = dice.pick(&COUNTRIES);
    let tier = dice.pick(&["'platinum'", "'gold'", "'silver'", "'bronze'", "NULL"]);
    let credit = dice.cents(-10_000, 100_000);
    let credit = dice.or_null(20, credit);
    let score = format!("{}", dice.within(-80, 80) as f64 / 8.0);
    let score = dice.or_null(20, score);
    let born = dice.day(1970, 1973);
    let born = dice.or_null(25, born);
    let created = format!(
        "'2024-{:02}-{:02} {:02}:00:00.{:03}'",
        dice.within(1, 12),
        dice.within(1, 28),
        dice.below(24),
        dice.below(1000)
    );
    let prefs = prefs(dice);
    let referrer = dice.within(1, 58).to_string();
    let referrer = match id <= 5 {
        true => "NULL".to_owned(),
        // Always a smaller id, so that chains end.
        false if id <= 58 => dice.within(1, id - 1).to_string(),
        false => dice.or_null(30, referrer),
    };
    let code = dice.pick(&["x'00ff'", "'abc'", "'ABC'", "x'ff'", "''", "NULL"]);
    format!(
        "({id}, '{name}', {email}, {city}, '{country}', {tier}, {credit}, {score}, {born}, \
         {created}, {prefs}, {referrer}, {code})"
    )
}

fn prefs(dice: &mut Dice) -> String {
    let lang = dice.pick(&["de", "en", "fr", "DE"]);
    let (mail, size) = (dice.percent(50), dice.below(12));
    let tags = dice.pick(&["[]", r#"["vip"]"#, r#"["new", "vip"]"#, r#"["old"]"#]);
    let json = format!(r#"'{{"lang": "{lang}", "mail": {mail}, "size": {size}, "tags": {tags}}}'"#);
    dice.or_null(15, json)
}

/// Ids repeat over customers on purpose: 107 is the order of several.
fn orders_of(dice: &mut Dice, customer: i64) -> Vec<i64> {
    if customer % 10 == 0 {
        return Vec::new();
    }
    let own = customer.rem_euclid(100);
    let mut ids: Vec<i64> = (1..=dice.within(1, 8)).map(|n| n * 100 + own).collect();
    if customer % 6 == 1 && !ids.contains(&107) {
        ids.push(107);
    }
    ids
}

fn order_row(dice: &mut Dice, customer: i64, order: i64) -> String {
    let status = dice.pick(&STATUSES);
    let placed = format!(
        "'2025-{:02}-{:02} {:02}:{:02}:00.{:03}'",
        dice.within(1, 12),
        dice.within(1, 28),
        dice.below(24),
        dice.below(60),
        dice.below(1000)
    );
    let due = dice.day(2025, 2025);
    let due = dice.or_null(30, due);
    let total = dice.cents(500, 100_000);
    let discount = format!("0.{:04}", dice.below(6) * 125);
    let discount = dice.or_null(35, discount);
    let channel = dice.pick(&CHANNELS);
    let ship = dice.pick(&["'DE'", "'FR'", "'US'", "'CH'", "NULL"]);
    let remark = dice.pick(&["NULL", "''", "'x'", "'X'", "'x '", "'later'", "'ä'"]);
    format!(
        "({order}, {customer}, '{status}', {placed}, {due}, {total}, {discount}, '{channel}', \
         {ship}, {remark})"
    )
}

fn item(dice: &mut Dice, customer: i64, order: i64, line: usize) -> String {
    // The last products are never sold.
    let product = dice.within(1, 36);
    let quantity = dice.within(1, 10);
    let price = dice.cents(100, 9_000);
    let tax = dice.pick(&["0.1900", "0.0700", "0.0000", "NULL"]);
    let options = dice.pick(&[
        "",
        "gift",
        "express",
        "gift,insured",
        "gift,express,insured",
    ]);
    let shipped = format!(
        "'2025-{:02}-{:02} {:02}:30:00'",
        dice.within(1, 12),
        dice.within(1, 28),
        dice.below(24)
    );
    let shipped = dice.or_null(30, shipped);
    let mass = format!("{}", dice.within(1, 200) as f64 / 4.0);
    let mass = dice.or_null(20, mass);
    format!(
        "({customer}, {order}, {line}, {product}, {quantity}, {price}, {tax}, '{options}', \
         {shipped}, {mass})"
    )
}

fn wallet(dice: &mut Dice, id: i64) -> String {
    let label = dice.pick(&["'a'", "'A'", "'b'", "NULL"]);
    format!(
        "({id}, {}, {}, {label}, NULL)",
        dice.cents(0, 100_000),
        dice.below(5)
    )
}

fn product(dice: &mut Dice, id: i64) -> String {
    let category = dice.pick(&["tools", "Tools", "books", "Books", "toys"]);
    let price = dice.cents(100, 9_900);
    let tags = dice.pick(&["NULL", "'[]'", r#"'["new"]'"#, r#"'["sale", "new"]'"#]);
    let launched = dice.within(2015, 2024).to_string();
    let launched = dice.or_null(20, launched);
    let parent = match id {
        1..=6 => "NULL".to_owned(),
        _ => dice.within(1, id - 1).to_string(),
    };
    let name = dice.pick(&["Hammer", "hammer", "Säge", "sage", "Buch", "Ball"]);
    format!("({id}, '{name} {id}', '{category}', {price}, {tags}, {launched}, {parent})")
}

fn countries() -> Rows {
    [
        "('DE', 'Germany', 'Europe', 83000000, 19.00)",
        "('FR', 'France', 'Europe', 68000000, 20.00)",
        "('AT', 'Austria', 'Europe', 9000000, 20.00)",
        "('CH', 'Switzerland', 'Europe', 8700000, 8.10)",
        "('US', 'United States', 'America', 333000000, NULL)",
        "('JP', 'Japan', 'Asia', 125000000, 10.00)",
        "('BR', 'Brazil', 'America', 214000000, 17.00)",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn staff(dice: &mut Dice, id: i64) -> String {
    let boss = match id {
        1 | 2 => "NULL".to_owned(),
        _ => dice.within(1, id - 1).to_string(),
    };
    let country = dice.pick(&["'DE'", "'FR'", "'US'", "NULL"]);
    let salary = dice.cents(200_000, 900_000);
    let hired = dice.day(2010, 2024);
    format!("({id}, 'staff {id}', {boss}, {country}, {salary}, {hired})")
}

fn visit(dice: &mut Dice, id: i64) -> String {
    let customer = dice.within(1, 62).to_string();
    let customer = dice.or_null(25, customer);
    let page = dice.pick(&["/home", "/Home", "/cart", "/CART", "/über", "/uber"]);
    let at = format!(
        "'2025-{:02}-{:02} 12:00:00.{:06}'",
        dice.within(1, 12),
        dice.within(1, 28),
        dice.below(1_000_000)
    );
    let ms = dice.within(1, 5000);
    let bot = dice.below(2);
    let spent = format!("'00:{:02}:{:02}.25'", dice.below(60), dice.below(60));
    let spent = dice.or_null(25, spent);
    format!("({id}, {customer}, '{page}', {at}, {ms}, {bot}, {spent})")
}

fn stock(dice: &mut Dice) -> Rows {
    let mut rows = Vec::new();
    for letter in ["A", "B", "C", "b", "z", "Ä"] {
        for number in 11..=20 {
            let place = dice.pick(&["north", "North", "south", "west"]);
            let (product, quantity) = (dice.within(1, 40), dice.within(0, 30));
            let reserved = dice.within(-3, 3).to_string();
            let reserved = dice.or_null(30, reserved);
            let counted = dice.or_null(30, "'2025-06-01 00:00:00'".to_owned());
            rows.push(format!(
                "('{letter}-{number}', {product}, '{place}', {quantity}, {reserved}, {counted})"
            ));
        }
    }
    rows
}
