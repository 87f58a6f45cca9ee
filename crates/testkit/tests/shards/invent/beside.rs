//! Views beside tables whose shard key is bound: what the key says is a matter of its own table only.

use super::Made;
use super::expression::{Scope, condition, number};
use super::select::{limit, made};
use super::tables::{Kind, TABLES, Table};
use super::views::VIEWS;
use crate::corpus::Order;
use crate::dice::Dice;

/// A view, most of all one whose rows are made of rows of several groups.
pub fn any_view(dice: &mut Dice) -> &'static Table {
    &VIEWS[dice.below(VIEWS.len())].table
}

/// A condition that binds the shard key of `alias`, often to one group.
pub fn bound(dice: &mut Dice, alias: &str) -> String {
    let key = dice.within(1, 60);
    match dice.below(6) {
        0 => format!("{alias}.customer_id IN ({key}, {key})"),
        1 => format!("{alias}.customer_id IN ({key}, {})", dice.within(1, 60)),
        2 => format!("{alias}.customer_id = {} + 1", key - 1),
        _ => format!("{alias}.customer_id = {key}"),
    }
}

/// One number of all rows of a view.
pub fn whole(dice: &mut Dice, view: &'static Table) -> String {
    let scope = Scope {
        tables: vec![("x".to_owned(), view)],
    };
    let call = match dice.below(4) {
        0 => format!("MAX({})", number(dice, &scope, 1)),
        1 => format!("SUM({})", number(dice, &scope, 0)),
        _ => "COUNT(*)".to_owned(),
    };
    let filter = match dice.percent(40) {
        true => format!(" WHERE {}", condition(dice, &scope, 1)),
        false => String::new(),
    };
    format!("(SELECT {call} FROM {} x{filter})", view.name)
}

/// An integer column of a view, if it has one.
pub fn integer(view: &Table) -> Option<&'static str> {
    let found = view.columns.iter().find(|(_, kind)| *kind == Kind::Int);
    found.map(|(name, _)| *name)
}

/// A SELECT with a bound key and a view elsewhere.
pub fn beside(dice: &mut Dice) -> Made {
    let (table, view) = (&TABLES[dice.below(4)], any_view(dice));
    let bound = bound(dice, "t0");
    if dice.percent(50) {
        return made(apart(dice, (table, view), &bound));
    }
    let (t, v) = (table.name, view.name);
    let both = Scope {
        tables: vec![("t0".to_owned(), table), ("x".to_owned(), view)],
    };
    let shown = format!("t0.customer_id, {}", number(dice, &both, 1));
    let column = integer(view).unwrap_or(view.columns[0].0);
    made(match dice.below(6) {
        0 => format!("SELECT {shown} FROM {t} t0, {v} x WHERE {bound}"),
        1 => format!(
            "SELECT {shown} FROM {v} x JOIN {t} t0 ON x.{column} = t0.customer_id AND {bound}"
        ),
        2 => format!(
            "SELECT {shown} FROM {t} t0 LEFT JOIN {v} x ON {} WHERE {bound}",
            condition(dice, &both, 1)
        ),
        3 => format!(
            "SELECT {shown} FROM {v} x LEFT JOIN {t} t0 ON {bound} AND {}",
            condition(dice, &both, 0)
        ),
        4 => format!("WITH w AS (SELECT * FROM {v}) SELECT {shown} FROM w x, {t} t0 WHERE {bound}"),
        _ => {
            let (keys, limit) = (both.keys().join(", "), limit(dice));
            let text = format!("SELECT {shown} FROM {t} t0 JOIN {v} x WHERE {bound}");
            return Made {
                order: Order::Total,
                ..made(format!("{text} ORDER BY {keys}{limit}"))
            };
        }
    })
}

/// The same, with the view in a query of its own.
fn apart(dice: &mut Dice, (table, view): (&'static Table, &'static Table), bound: &str) -> String {
    let (t, v) = (table.name, view.name);
    let own = Scope {
        tables: vec![("t0".to_owned(), table)],
    };
    let alone = format!("t0.customer_id, {}", number(dice, &own, 1));
    let column = integer(view).unwrap_or(view.columns[0].0);
    let whole = whole(dice, view);
    match dice.below(7) {
        0 => format!("SELECT {alone}, {whole} AS n FROM {t} t0 WHERE {bound}"),
        1 => format!(
            "SELECT {alone} FROM {t} t0 WHERE {bound} AND ({}) < {whole}",
            number(dice, &own, 1)
        ),
        2 => {
            let not = dice.pick(&["", "NOT "]);
            let all = format!("SELECT x.{column} FROM {v} x WHERE x.{column} IS NOT NULL");
            format!("SELECT {alone} FROM {t} t0 WHERE {bound} AND t0.customer_id {not}IN ({all})")
        }
        3 => format!(
            "SELECT x.{column} FROM {v} x WHERE x.{column} NOT IN (SELECT t0.customer_id FROM {t} t0 \
             WHERE {bound})"
        ),
        4 => format!(
            "SELECT t0.customer_id, COUNT(*) AS n FROM {t} t0 WHERE {bound} GROUP BY t0.customer_id \
             HAVING COUNT(*) < {whole}"
        ),
        5 => format!(
            "SELECT t0.customer_id, d.n FROM {t} t0 JOIN (SELECT x.{column} AS k, COUNT(*) AS n FROM {v} x \
             GROUP BY x.{column}) d WHERE {bound}"
        ),
        _ => format!(
            "SELECT t0.customer_id, t1.hits FROM {t} t0 JOIN wallets t1 ON t1.customer_id = t0.customer_id \
             AND t1.hits < {whole} WHERE {bound}"
        ),
    }
}

/// A write on wallets that reads a view.
pub fn write(dice: &mut Dice) -> String {
    let view = match any_view(dice) {
        // A server does not change what it reads by a view (1443).
        purses if purses.name == "v_purses" => &VIEWS[0].table,
        view => view,
    };
    let v = view.name;
    let column = integer(view).unwrap_or("n");
    let own = Scope {
        tables: vec![("w".to_owned(), &TABLES[3])],
    };
    let filter = match dice.percent(70) {
        true => bound(dice, "w"),
        false => condition(dice, &own, 1),
    };
    let (whole, ints) = (whole(dice, view), integer(view).is_some());
    match dice.below(7) {
        0 | 1 => {
            format!("UPDATE wallets w SET w.hits = (SELECT COUNT(*) FROM {v} x) WHERE {filter}")
        }
        2 => {
            format!("UPDATE wallets w SET w.hits = w.hits + 1 WHERE {filter} AND w.hits < {whole}")
        }
        3 if ints => format!(
            "UPDATE wallets w JOIN {v} x ON x.{column} = w.customer_id SET w.hits = w.hits + 1 WHERE {filter}"
        ),
        4 if ints => format!(
            "DELETE w FROM wallets w JOIN {v} x ON x.{column} = w.customer_id WHERE {filter} AND w.hits > 5"
        ),
        5 if ints => format!(
            "INSERT INTO wallets (customer_id, hits) SELECT DISTINCT x.{column} + {}, 1 FROM {v} x \
             WHERE x.{column} < 100 ON DUPLICATE KEY UPDATE hits = wallets.hits + 1",
            dice.within(1, 4) * 1000
        ),
        6 => format!(
            "INSERT INTO wallets (customer_id, hits) VALUES ({}, (SELECT COUNT(*) FROM {v} x)) \
             ON DUPLICATE KEY UPDATE hits = VALUES(hits)",
            dice.within(1, 90)
        ),
        _ => format!("UPDATE wallets w SET w.label = 'seen' WHERE {filter} AND w.hits < {whole}"),
    }
}
