//! Made up writes on tables whose rows nothing else depends on.

use super::expression::{Scope, condition, number};
use super::tables::TABLES;
use crate::dice::Dice;

/// Keys of rows that inventions insert; others are never inserted.
const KEYS: i64 = 90;

/// INSERT, UPDATE or DELETE on wallets or orders, at times by a view.
pub fn write(dice: &mut Dice, number: usize) -> String {
    match dice.below(14) {
        10.. => super::beside::write(dice),
        0..3 => insert(dice),
        3 => format!(
            "INSERT INTO wallets (customer_id, balance, hits) SELECT customer_id + {}, total, {} \
             FROM orders WHERE order_id % 40 = {} AND customer_id < 100 ORDER BY customer_id, order_id ON DUPLICATE KEY UPDATE hits = wallets.hits + 1",
            dice.within(0, 3) * 1000,
            dice.below(5),
            number % 40
        ),
        4..8 => update(dice),
        8 => {
            let from = dice.within(1, KEYS);
            let to = dice.within(1, KEYS) + 100;
            format!("UPDATE wallets SET customer_id = {to} WHERE customer_id = {from}")
        }
        _ => delete(dice),
    }
}

fn scope(alias: &str, table: usize) -> Scope {
    Scope {
        tables: vec![(alias.to_owned(), &TABLES[table])],
    }
}

fn insert(dice: &mut Dice) -> String {
    let row = |dice: &mut Dice| {
        let key = dice.within(1, KEYS);
        let label = dice.pick(&["'n'", "NULL", "'it''s; (x)'", "CONCAT('a', 'b')"]);
        format!(
            "({label}, {}, {key}, {})",
            dice.cents(-1000, 9000),
            dice.below(9)
        )
    };
    let rows: Vec<String> = (0..=dice.below(6)).map(|_| row(dice)).collect();
    let verb = dice.pick(&[
        "INSERT INTO",
        "INSERT IGNORE INTO",
        "REPLACE INTO",
        "INSERT",
    ]);
    let after = match dice.percent(40) && verb.starts_with("INSERT") {
        true => " ON DUPLICATE KEY UPDATE hits = hits + VALUES(hits), label = 'again'",
        false => "",
    };
    format!(
        "{verb} wallets (label, balance, customer_id, hits) VALUES {}{after}",
        rows.join(", ")
    )
}

fn update(dice: &mut Dice) -> String {
    if dice.percent(25) {
        return super::views::write(dice);
    }
    if dice.percent(30) {
        let scope = scope("orders", 1);
        let filter = condition(dice, &scope, 1);
        return format!("UPDATE orders SET total = total + 1, remark = 'up' WHERE {filter}");
    }
    let scope = scope("wallets", 3);
    let filter = condition(dice, &scope, 1);
    let value = number(dice, &scope, 1);
    match dice.percent(25) {
        true => format!(
            "UPDATE wallets SET hits = hits + 1 WHERE {filter} ORDER BY balance, customer_id LIMIT {}",
            dice.below(9)
        ),
        false => format!("UPDATE wallets SET balance = COALESCE({value}, 0) WHERE {filter}"),
    }
}

fn delete(dice: &mut Dice) -> String {
    let scope = scope("wallets", 3);
    let filter = condition(dice, &scope, 1);
    format!(
        "DELETE FROM wallets WHERE {filter} ORDER BY customer_id LIMIT {}",
        dice.below(4)
    )
}
