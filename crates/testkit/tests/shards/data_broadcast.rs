//! Rows for tables that are joined by all kinds of columns: values repeat, differ in bytes alone, or are NULL.

use super::Rows;
use crate::dice::Dice;

const TEXTS: [&str; 9] = ["Ann", "ann", "ANN", "Bob", "bób", "", "Zoë", "zoe", "it's"];
const LATIN: [&str; 5] = ["x", "X", "é", "E", ""];
const KINDS: [&str; 3] = ["new", "old", "odd"];

/// So many of a hundred values are NULL.
const NULLS: usize = 15;

fn number(dice: &mut Dice) -> String {
    let value = dice.within(0, 11).to_string();
    dice.or_null(NULLS, value)
}

fn text(dice: &mut Dice, from: &[&str]) -> String {
    let value = format!("'{}'", dice.pick(from).replace('\'', "''"));
    dice.or_null(NULLS, value)
}

/// The columns from `a` to `l`.
fn values(dice: &mut Dice) -> String {
    let exact = format!("{}.{}0", dice.within(-3, 3), dice.within(0, 2));
    let day = format!("'2024-0{}-01'", dice.within(1, 4));
    let all = [
        number(dice),
        number(dice),
        text(dice, &TEXTS),
        text(dice, &TEXTS),
        dice.or_null(NULLS, exact),
        dice.or_null(NULLS, day),
        text(dice, &KINDS),
        text(dice, &LATIN),
    ];
    all.join(", ")
}

/// All tables.
pub fn rows(dice: &mut Dice) -> Vec<(&'static str, Rows)> {
    let mut facts = Rows::new();
    for id in 1..=160 {
        let (key, amount) = (dice.within(1, 30), dice.within(-50, 500));
        facts.push(format!("({id}, {key}, {}, {amount}.25)", values(dice)));
    }
    let mut notes = Rows::new();
    for note in 1..=60 {
        let key = dice.within(1, 36);
        notes.push(format!(
            "({key}, {note}, {}, {})",
            number(dice),
            text(dice, &TEXTS)
        ));
    }
    let mut smalls = Rows::new();
    for small in 1..=18 {
        let stamp = format!("'2024-0{}-15 02:30:00.125'", dice.within(1, 6));
        let stamp = dice.or_null(NULLS, stamp);
        let doc = dice.or_null(NULLS, format!("'{{\"n\": {small}}}'"));
        let raw = dice.or_null(NULLS, format!("x'00ff27{small:02}'"));
        smalls.push(format!(
            "({small}, {}, {stamp}, {doc}, {raw})",
            values(dice)
        ));
    }
    let mut tags = Rows::new();
    for weight in 1..=24 {
        let tag = dice.within(1, 8);
        tags.push(format!(
            "({tag}, {}, {}, {weight})",
            number(dice),
            text(dice, &TEXTS)
        ));
    }
    let mut places = Rows::new();
    for place in 1..=7 {
        places.push(format!(
            "({place}, {}, {})",
            number(dice),
            text(dice, &TEXTS)
        ));
    }
    let kinds = [
        "('new', 1, 'News')",
        "('old', NULL, 'olds')",
        "('odd', 3, 'Odds')",
    ];
    vec![
        ("facts", facts),
        ("notes", notes),
        ("smalls", smalls),
        ("tags", tags),
        ("kinds", kinds.map(str::to_owned).to_vec()),
        ("places", places),
    ]
}
