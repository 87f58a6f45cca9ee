//! Made up SELECTs.

use super::Made;
use super::beside::{any_view, beside};
use super::expression::{Scope, aggregate, condition, group_key, number, value};
use super::tables::{Kind, TABLES, Table, meetings};
use crate::corpus::Order;
use crate::dice::Dice;

/// Tables in one FROM.
const TABLES_MAX: usize = 3;

/// A SELECT of any shape.
pub fn any(dice: &mut Dice) -> Made {
    match dice.below(24) {
        0..6 => rows(dice),
        6..12 => groups(dice),
        12 => distinct(dice),
        13 | 14 => union(dice),
        15 => derived(dice),
        16 => with(dice),
        17 | 18 => windows(dice),
        19..23 => beside(dice),
        _ => nested_groups(dice),
    }
}

/// A FROM and the tables that are in it.
struct From {
    text: String,
    scope: Scope,
}

fn table(dice: &mut Dice) -> &'static Table {
    if dice.percent(20) {
        return any_view(dice);
    }
    // The first ones are those that are sharded together.
    match dice.percent(60) {
        true => &TABLES[dice.below(4)],
        false => &TABLES[dice.below(TABLES.len())],
    }
}

fn from(dice: &mut Dice) -> From {
    let first = table(dice);
    let mut from = From {
        text: format!("{} t0", first.name),
        scope: Scope {
            tables: vec![("t0".to_owned(), first)],
        },
    };
    let wanted = match dice.below(10) {
        0..5 => 1,
        5..9 => 2,
        _ => TABLES_MAX,
    };
    for at in 1..wanted {
        join(dice, &mut from, at);
    }
    from
}

fn join(dice: &mut Dice, from: &mut From, at: usize) {
    let other = table(dice);
    let alias = format!("t{at}");
    let (with, left) = from.scope.tables[dice.below(from.scope.tables.len())].clone();
    let pairs = meetings(left, other);
    let Some(&(by, column)) = pairs.get(dice.below(pairs.len().max(1))) else {
        return;
    };
    // Many rows of many meet in few countries: three such tables are too much work for a test.
    if at > 1 && ["country", "ship_country"].contains(&column) && by != "code" {
        return;
    }
    let mut on = format!("{alias}.{column} = {with}.{by}");
    let both = |name: &str| [left, other].iter().all(|table| table.name == name);
    let ordered = |table: &Table| ["orders", "items"].contains(&table.name);
    if ordered(left) && ordered(other) && !both("orders") && dice.percent(60) {
        on = format!("{on} AND {alias}.order_id = {with}.order_id");
    }
    let kind = dice.pick(&["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN"]);
    from.scope.tables.push((alias.clone(), other));
    if dice.percent(20) {
        let small = Scope {
            tables: from.scope.tables.clone(),
        };
        on = format!("{on} AND {}", condition(dice, &small, 0));
    }
    from.text = format!("{} {kind} {} {alias} ON {on}", from.text, other.name);
}

/// ` WHERE …`, or nothing.
fn filter(dice: &mut Dice, scope: &Scope) -> String {
    match dice.below(10) {
        0..3 => String::new(),
        3..8 => format!(" WHERE {}", condition(dice, scope, 2)),
        _ => format!(
            " WHERE {} AND {}",
            condition(dice, scope, 1),
            subquery(dice, scope)
        ),
    }
}

/// A condition with a subquery.
fn subquery(dice: &mut Dice, scope: &Scope) -> String {
    let (alias, outer) = &scope.tables[dice.below(scope.tables.len())];
    let inner = table(dice);
    let pairs = meetings(outer, inner);
    let Some(&(by, column)) = pairs.get(dice.below(pairs.len().max(1))) else {
        return format!(
            "{} > (SELECT AVG(total) FROM orders)",
            number(dice, scope, 0)
        );
    };
    let within = Scope {
        tables: vec![("s0".to_owned(), inner)],
    };
    let inside = condition(dice, &within, 1);
    let (name, outer) = (inner.name, format!("{alias}.{by}"));
    match dice.below(6) {
        0 => format!("{outer} IN (SELECT s0.{column} FROM {name} s0 WHERE {inside})"),
        1 => format!(
            "{outer} NOT IN (SELECT s0.{column} FROM {name} s0 WHERE s0.{column} IS NOT NULL AND {inside})"
        ),
        2 => format!("EXISTS (SELECT 1 FROM {name} s0 WHERE s0.{column} = {outer} AND {inside})"),
        3 => {
            format!("NOT EXISTS (SELECT 1 FROM {name} s0 WHERE s0.{column} = {outer} AND {inside})")
        }
        4 => format!(
            "(SELECT COUNT(*) FROM {name} s0 WHERE s0.{column} = {outer}) > {}",
            dice.below(4)
        ),
        _ => {
            let (one, other) = (number(dice, scope, 1), number(dice, &within, 1));
            format!("({one}) > (SELECT AVG({other}) FROM {name} s0)")
        }
    }
}

/// ` ORDER BY` these, some of them descending.
fn order_by(dice: &mut Dice, by: &[String]) -> String {
    let of = |key: &String| format!("{key}{}", dice.pick(&["", "", " DESC", " ASC"]));
    let keys: Vec<String> = by.iter().map(of).collect();
    format!(" ORDER BY {}", keys.join(", "))
}

pub fn limit(dice: &mut Dice) -> String {
    match dice.below(5) {
        0 => format!(" LIMIT {}", dice.below(30)),
        1 => format!(" LIMIT {} OFFSET {}", dice.below(20), dice.below(30)),
        2 => format!(" LIMIT {}, {}", dice.below(10), dice.below(10)),
        _ => String::new(),
    }
}

pub fn made(text: String) -> Made {
    Made {
        text,
        order: Order::Free,
        about: Vec::new(),
    }
}

fn rows(dice: &mut Dice) -> Made {
    let from = from(dice);
    let mut items: Vec<String> = Vec::new();
    for at in 0..=dice.below(4) {
        let item = value(dice, &from.scope);
        items.push(match dice.percent(40) {
            true => format!("{item} AS c{at}"),
            false => item,
        });
    }
    if dice.percent(15) {
        let count = format!("(SELECT COUNT(*) FROM orders z WHERE {})", {
            let (alias, outer) = &from.scope.tables[0];
            match meetings(outer, &TABLES[1]).first() {
                Some((by, column)) => format!("z.{column} = {alias}.{by}"),
                None => "z.customer_id < 20".to_owned(),
            }
        });
        items.push(format!("{count} AS counted"));
    }
    let list = match dice.percent(8) {
        true => "*".to_owned(),
        false => items.join(", "),
    };
    let filter = filter(dice, &from.scope);
    let text = format!("SELECT {list} FROM {}{filter}", from.text);
    if dice.percent(30) {
        return made(text);
    }
    let mut by: Vec<String> = Vec::new();
    if dice.percent(60) {
        by.push(value(dice, &from.scope));
    }
    by.extend(from.scope.keys());
    let order = order_by(dice, &by);
    let text = format!("{text}{order}{}", limit(dice));
    Made {
        order: Order::Total,
        ..made(text)
    }
}

/// The items, keys and about-columns of a grouped SELECT.
fn grouped_items(dice: &mut Dice, scope: &Scope) -> (Vec<String>, Vec<String>, Vec<usize>) {
    let keys: Vec<String> = (0..dice.below(3)).map(|_| group_key(dice, scope)).collect();
    let mut items: Vec<String> = keys.clone();
    let mut about = Vec::new();
    for _ in 0..=dice.below(3) {
        let (aggregate, floating) = aggregate(dice, scope);
        if floating {
            about.push(items.len());
        }
        items.push(aggregate);
    }
    (items, keys, about)
}

fn groups(dice: &mut Dice) -> Made {
    let from = from(dice);
    let (items, keys, about) = grouped_items(dice, &from.scope);
    let filter = filter(dice, &from.scope);
    let named: Vec<String> = items
        .iter()
        .enumerate()
        .map(|(at, item)| format!("{item} AS g{at}"))
        .collect();
    let mut text = format!("SELECT {} FROM {}{filter}", named.join(", "), from.text);
    if !keys.is_empty() {
        text = format!("{text} GROUP BY {}", keys.join(", "));
    }
    if dice.percent(25) {
        let (least, which) = (dice.below(5), dice.pick(&["COUNT(*)", "MAX(1)"]));
        text = format!("{text} HAVING {which} > {least}");
    }
    let mut order = Order::Free;
    if !keys.is_empty() && dice.percent(70) {
        let mut by: Vec<String> = (0..keys.len()).map(|at| format!("g{at}")).collect();
        if dice.percent(30) && !about.contains(&keys.len()) {
            by.insert(0, format!("g{}", keys.len()));
        }
        let order_by = order_by(dice, &by);
        text = format!("{text}{order_by}{}", limit(dice));
        order = Order::Total;
    }
    Made { text, order, about }
}

fn distinct(dice: &mut Dice) -> Made {
    let from = from(dice);
    let items: Vec<String> = (0..=dice.below(2))
        .map(|at| match group_key(dice, &from.scope) {
            // MariaDB answers DISTINCT of constants with a row whatever the OFFSET is.
            key if !key.contains("t0.") || key.ends_with("IS NULL") => {
                format!("t0.{} AS d{at}", from.scope.tables[0].1.primary[0])
            }
            key => format!("{key} AS d{at}"),
        })
        .collect();
    let filter = filter(dice, &from.scope);
    let text = format!(
        "SELECT DISTINCT {} FROM {}{filter}",
        items.join(", "),
        from.text
    );
    if dice.percent(50) {
        return made(text);
    }
    let by: Vec<String> = (0..items.len()).map(|at| format!("d{at}")).collect();
    let order = order_by(dice, &by);
    Made {
        order: Order::Total,
        ..made(format!("{text}{order}{}", limit(dice)))
    }
}

fn union(dice: &mut Dice) -> Made {
    let part = |dice: &mut Dice| {
        let from = from(dice);
        let (one, other) = (number(dice, &from.scope, 1), number(dice, &from.scope, 1));
        let filter = filter(dice, &from.scope);
        format!("SELECT {one} AS u, {other} AS v FROM {}{filter}", from.text)
    };
    let (one, two) = (part(dice), part(dice));
    let how = dice.pick(&["UNION", "UNION ALL"]);
    let text = format!("{one} {how} {two}");
    match dice.percent(50) {
        true => Made {
            order: Order::Total,
            ..made(format!("{text} ORDER BY u, v{}", limit(dice)))
        },
        false => made(text),
    }
}

/// A grouped SELECT inside, joined with a table outside.
fn derived(dice: &mut Dice) -> Made {
    let inner = &TABLES[1 + dice.below(2)];
    let scope = Scope {
        tables: vec![("i".to_owned(), inner)],
    };
    let (aggregate, filter) = (number(dice, &scope, 1), condition(dice, &scope, 1));
    let outer = &TABLES[[0, 3][dice.below(2)]];
    let kind = dice.pick(&["JOIN", "LEFT JOIN"]);
    let text = format!(
        "SELECT o.customer_id, d.n, d.s FROM {} o {kind} (SELECT i.customer_id, COUNT(*) AS n, \
         SUM({aggregate}) AS s FROM {} i WHERE {filter} GROUP BY i.customer_id) d \
         ON d.customer_id = o.customer_id ORDER BY o.customer_id{}",
        outer.name,
        inner.name,
        limit(dice)
    );
    Made {
        order: Order::Total,
        ..made(text)
    }
}

fn with(dice: &mut Dice) -> Made {
    let from = from(dice);
    let (keys, filter) = (from.scope.keys(), filter(dice, &from.scope));
    let key = &keys[dice.below(keys.len())];
    let measure = number(dice, &from.scope, 1);
    let text = format!(
        "WITH w AS (SELECT {key} AS k, {measure} AS m FROM {}{filter}) SELECT {} FROM w",
        from.text,
        dice.pick(&[
            "COUNT(*), SUM(m), MIN(m), MAX(m)",
            "COUNT(DISTINCT m), AVG(m)",
            "SUM(m) - (SELECT SUM(m) FROM w x WHERE x.m > 10)",
        ])
    );
    made(text)
}

fn windows(dice: &mut Dice) -> Made {
    let from = from(dice);
    let keys = from.scope.keys();
    let partition = match dice.percent(75) {
        true => format!("PARTITION BY {} ", group_key(dice, &from.scope)),
        false => String::new(),
    };
    let ordered = format!("{partition}ORDER BY {}", keys.join(", "));
    let measure = number(dice, &from.scope, 1);
    let call = match dice.below(7) {
        0 => format!("ROW_NUMBER() OVER ({ordered})"),
        1 => format!("RANK() OVER ({partition}ORDER BY {measure})"),
        2 => format!("SUM({measure}) OVER ({ordered})"),
        3 => format!("COUNT(*) OVER ({partition})"),
        4 => format!("LAG({measure}) OVER ({ordered})"),
        5 => format!("MAX({measure}) OVER ({partition})"),
        _ => format!(
            "SUM({measure}) OVER ({ordered} ROWS BETWEEN {} PRECEDING AND CURRENT ROW)",
            dice.below(4)
        ),
    };
    let filter = filter(dice, &from.scope);
    let text = format!(
        "SELECT {}, {call} AS w FROM {}{filter} ORDER BY {}{}",
        keys.join(", "),
        from.text,
        keys.join(", "),
        limit(dice)
    );
    Made {
        order: Order::Total,
        ..made(text)
    }
}

/// Groups of groups.
fn nested_groups(dice: &mut Dice) -> Made {
    let from = from(dice);
    let key = match from
        .scope
        .column(dice, &[Kind::Int, Kind::Enum, Kind::Date])
    {
        Some((column, _)) => column,
        None => group_key(dice, &from.scope),
    };
    let (measure, filter) = (number(dice, &from.scope, 1), filter(dice, &from.scope));
    made(format!(
        "SELECT n, COUNT(*) AS c, SUM(s) AS s FROM (SELECT {key} AS k, COUNT(*) AS n, SUM({measure}) AS s \
         FROM {}{filter} GROUP BY {key}) t GROUP BY n",
        from.text
    ))
}
