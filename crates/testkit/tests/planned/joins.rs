//! Joins that a seed makes up over the tables of the corpus `broadcast`: most of them by the shard key of one side, so
//! that the other side can be divided among the groups.

use crate::corpus::{Order, Step};
use crate::dice::Dice;

struct Table {
    name: &'static str,
    /// What can be compared with columns of others; the shard key is the first one.
    columns: &'static [&'static str],
    /// Told of each row.
    shown: &'static str,
    conditions: &'static [&'static str],
}

const TABLES: [Table; 6] = [
    Table {
        name: "facts",
        columns: &["k", "a", "b", "id"],
        shown: "id",
        conditions: &[
            "@.amount > 100",
            "@.g = 'new'",
            "@.k < 12",
            "@.a IS NULL",
            "@.e > 0",
        ],
    },
    Table {
        name: "smalls",
        columns: &["s", "a", "b"],
        shown: "s",
        conditions: &[
            "@.s < 9",
            "@.c = 'ann'",
            "@.a IS NOT NULL",
            "@.s = 5",
            "@.g <> 'odd'",
        ],
    },
    Table {
        name: "notes",
        columns: &["k", "a", "n"],
        shown: "n",
        conditions: &["@.n > 20", "@.a < 7", "@.k BETWEEN 3 AND 20"],
    },
    Table {
        name: "tags",
        columns: &["t", "a", "w"],
        shown: "w",
        conditions: &["@.w > 4", "@.t IN (1, 2, 5)", "@.a IS NULL"],
    },
    Table {
        name: "kinds",
        columns: &["a"],
        shown: "title",
        conditions: &["@.title <> 'x'"],
    },
    Table {
        name: "places",
        columns: &["p", "a"],
        shown: "p",
        conditions: &["@.p < 5"],
    },
];

/// A table of the statement, and what it is called there.
struct Named {
    table: &'static Table,
    called: String,
}

impl Named {
    fn new(dice: &mut Dice, called: String) -> Named {
        // Those that are global or on one group come seldom.
        let among = if dice.percent(88) { 4 } else { TABLES.len() };
        Named {
            table: &TABLES[dice.below(among)],
            called,
        }
    }

    fn column(&self, dice: &mut Dice, keys: usize) -> String {
        let column = match dice.percent(keys) {
            true => self.table.columns[0],
            false => dice.pick(self.table.columns),
        };
        format!("{}.{column}", self.called)
    }

    fn condition(&self, dice: &mut Dice) -> String {
        dice.pick(self.table.conditions).replace('@', &self.called)
    }

    fn shown(&self) -> String {
        format!("{}.{}", self.called, self.table.shown)
    }

    fn named(&self) -> String {
        format!("{} {}", self.table.name, self.called)
    }
}

/// Equal columns of a table and of one that stands before it.
fn tie(dice: &mut Dice, before: &[Named], own: &Named) -> String {
    let other = &before[dice.below(before.len())];
    let (own_keys, its_keys) = if dice.percent(50) { (85, 10) } else { (10, 85) };
    let (one, two) = (other.column(dice, its_keys), own.column(dice, own_keys));
    let equal = if dice.percent(5) { "<=>" } else { "=" };
    match dice.percent(50) {
        true => format!("{one} {equal} {two}"),
        false => format!("{two} {equal} {one}"),
    }
}

/// FROM, and what it demands of rows besides.
fn from(dice: &mut Dice, tables: &[Named]) -> (String, Vec<String>) {
    let (mut text, mut demanded) = (tables[0].named(), Vec::new());
    for at in 1..tables.len() {
        let own = &tables[at];
        let mut on = tie(dice, &tables[..at], own);
        if dice.percent(30) {
            let of = if dice.percent(60) {
                own
            } else {
                &tables[at - 1]
            };
            on = format!("{on} AND {}", of.condition(dice));
        }
        let named = own.named();
        text.push_str(&match dice.below(10) {
            0..=3 => format!(" JOIN {named} ON {on}"),
            4..=6 => format!(" LEFT JOIN {named} ON {on}"),
            7 if at == 1 => format!(" RIGHT JOIN {named} ON {on}"),
            _ => {
                demanded.push(on);
                format!(" CROSS JOIN {named}")
            }
        });
    }
    (text, demanded)
}

/// A condition with a query in it.
fn with_query(dice: &mut Dice, tables: &[Named]) -> String {
    let inner = Named::new(dice, "q".to_owned());
    let not = if dice.percent(50) { "NOT " } else { "" };
    let filter = match dice.percent(50) {
        true => inner.condition(dice),
        false => "1 = 1".to_owned(),
    };
    let named = inner.named();
    match dice.percent(60) {
        true => {
            let tie = tie(dice, tables, &inner);
            format!("{not}EXISTS (SELECT 1 FROM {named} WHERE {tie} AND {filter})")
        }
        false => {
            let outer = tables[dice.below(tables.len())].column(dice, 50);
            let item = inner.column(dice, 50);
            format!("{outer} {not}IN (SELECT {item} FROM {named} WHERE {filter})")
        }
    }
}

/// The statement of this number of a seed.
pub fn statement(seed: u64, number: usize) -> Step {
    let mut dice = Dice::new(seed.wrapping_mul(0x1_0000_01B3) ^ (number as u64) << 20);
    dice.bits();
    let dice = &mut dice;
    let count = 2 + usize::from(dice.percent(40)) + usize::from(dice.percent(8));
    let tables = (0..count).map(|at| Named::new(dice, format!("t{at}")));
    let tables: Vec<Named> = tables.collect();
    let (from, mut demanded) = from(dice, &tables);
    if dice.percent(45) {
        demanded.push(tables[dice.below(count)].condition(dice));
    }
    if dice.percent(25) {
        demanded.push(with_query(dice, &tables));
    }
    let filter = match demanded.is_empty() {
        true => String::new(),
        false => format!(" WHERE {}", demanded.join(" AND ")),
    };
    let shown: Vec<String> = tables.iter().map(Named::shown).collect();
    let any = |dice: &mut Dice| tables[dice.below(count)].column(dice, 40);
    let one = any(dice);
    let text = match dice.below(8) {
        0 | 1 => format!("SELECT {} FROM {from}{filter}", shown.join(", ")),
        2 => {
            let all = shown.join(", ");
            format!("SELECT {all} FROM {from}{filter} ORDER BY {all} LIMIT 25")
        }
        3 => format!("SELECT DISTINCT {one}, {} FROM {from}{filter}", any(dice)),
        4 => {
            let (two, three) = (any(dice), any(dice));
            format!(
                "SELECT COUNT(*), SUM({one}), COUNT(DISTINCT {two}), MAX({three}) FROM {from}{filter}"
            )
        }
        5 => format!(
            "SELECT {one} AS x, SUM({}) OVER (PARTITION BY {one}) FROM {from}{filter}",
            any(dice)
        ),
        _ => {
            let sum = any(dice);
            format!(
                "SELECT {one} AS x, COUNT(*), COUNT({sum}), SUM({sum}) FROM {from}{filter} GROUP BY {one}"
            )
        }
    };
    Step {
        order: Order::Free,
        ..Step::plain(number, &text)
    }
}
