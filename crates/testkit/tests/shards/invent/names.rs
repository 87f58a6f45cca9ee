//! SELECTs whose names collide on purpose: an item is called as a column is, of its own table or of
//! another one, in other case, or as a word of the language. Beside it what few people write: signs,
//! spaces in front of parentheses, comments.

use super::Made;
use crate::corpus::Order;
use crate::dice::Dice;

/// Columns of numbers, as `labels` has them.
const NUMBERS: [&str; 7] = ["a", "b", "`order`", "größe", "total", "hidden", "id"];

/// What items are called: columns of `labels` and of `orders`, in any case, and words.
const NAMES: [&str; 14] = [
    "a",
    "B",
    "b",
    "`Order`",
    "GRÖSSE",
    "größe",
    "Total",
    "`total`",
    "id",
    "s",
    "`select`",
    "`heddle 0`",
    "g0",
    "p1",
];

/// A SELECT over `labels`.
pub fn any(dice: &mut Dice) -> Made {
    let made = match dice.below(10) {
        0..4 => groups(dice),
        4 | 5 => distinct(dice),
        6 | 7 => rows(dice),
        8 => computed(dice),
        _ => nested(dice),
    };
    Made {
        text: commented(dice, &made.text),
        ..made
    }
}

fn made(text: String, order: Order) -> Made {
    let about = Vec::new();
    Made { text, order, about }
}

/// A number, with a sign at times.
fn value(dice: &mut Dice) -> String {
    let column = dice.pick(&NUMBERS);
    match dice.below(16) {
        0 => format!("-{column}"),
        1 => format!("+{column}"),
        2 => format!("- -{column}"),
        3 => format!("NOT {column} > {}", dice.below(9)),
        4 => dice
            .pick(&["-45", "+45", "NOT TRUE", "( 20 )", "(20)"])
            .to_owned(),
        5 => format!("IF(s > 'k', {column}, 0)"),
        6 => format!("COALESCE ({column}, {})", dice.pick(&NUMBERS)),
        7 => format!("{column} + {}", dice.pick(&NUMBERS)),
        8 => format!("ABS ( {column} ) % 3"),
        9 => format!("{column} IS NULL"),
        _ => column.to_owned(),
    }
}

fn aggregate(dice: &mut Dice) -> String {
    let of = value(dice);
    match dice.below(12) {
        0 => format!("AVG ({of})"),
        1 => format!("AVG(ALL {of})"),
        2 => format!("SUM({of})"),
        3 => format!("MIN({of})"),
        4 => format!("MAX( {of} )"),
        5 => format!("COUNT(DISTINCT {of})"),
        // It is a stored function that nobody made.
        6 if dice.percent(20) => format!("SUM ({of})"),
        7 => format!("-SUM({of})"),
        8 => format!("COUNT(*) + {}", dice.below(3)),
        9 => format!("COUNT({of})"),
        _ => "COUNT(*)".to_owned(),
    }
}

/// A select list.
#[derive(Default)]
struct Items(Vec<String>);

impl Items {
    /// An item, called in some way or not at all. No two are called the same: by what ORDER BY then
    /// orders is open, even by their numbers.
    fn add(&mut self, dice: &mut Dice, item: String) {
        let name = dice.pick(&NAMES);
        let item = match dice.below(4) {
            0 => item,
            1 => format!("{item} {name}"),
            _ => format!("{item} AS {name}"),
        };
        let called = |item: &str| {
            let name = item.rsplit([' ', '.']).next().unwrap_or_default();
            name.replace('`', "").to_lowercase()
        };
        if self.0.iter().all(|other| called(other) != called(&item)) {
            self.0.push(item);
        }
    }

    /// The names that are given by AS.
    fn names(&self) -> Vec<&'static str> {
        let named = |name: &&str| self.0.iter().any(|it| it.ends_with(&format!(" AS {name}")));
        NAMES.into_iter().filter(named).collect()
    }

    fn list(&self) -> String {
        self.0.join(", ")
    }
}

/// Some values, each called in some way.
fn values(dice: &mut Dice) -> Items {
    let mut items = Items::default();
    for _ in 0..=dice.below(3) {
        let item = value(dice);
        items.add(dice, item);
    }
    items
}

fn filter(dice: &mut Dice) -> String {
    match dice.below(4) {
        0 => format!(" WHERE {} > {}", dice.pick(&NUMBERS), dice.below(20)),
        1 => format!(
            " WHERE customer_id {} {}",
            dice.pick(&["<", ">="]),
            dice.below(50)
        ),
        _ => String::new(),
    }
}

/// ORDER BY one of these names, then by all that is seen: what is equal then is equal.
fn ordered(dice: &mut Dice, items: usize, names: &[&str]) -> (String, Order) {
    if dice.percent(45) {
        return (String::new(), Order::Free);
    }
    let mut by: Vec<String> = (1..=items).map(|at| at.to_string()).collect();
    dice.shuffle(&mut by);
    if dice.percent(50) && !names.is_empty() {
        by.insert(0, dice.pick(names).to_owned());
    }
    for key in &mut by {
        key.push_str(dice.pick(&["", "", " DESC", " ASC"]));
    }
    let limit = match dice.below(3) {
        0 => format!(" LIMIT {}", dice.below(9)),
        _ => String::new(),
    };
    (format!(" ORDER BY {}{limit}", by.join(", ")), Order::Total)
}

fn groups(dice: &mut Dice) -> Made {
    let mut items = Items::default();
    let mut keys = Vec::new();
    for _ in 0..=dice.below(2) {
        // Of equal texts any may be shown.
        let key = match dice.below(5) {
            0 => "s".to_owned(),
            1 => value(dice),
            _ => dice.pick(&NUMBERS).to_owned(),
        };
        if key != "s" && dice.percent(50) {
            items.add(dice, key.clone());
        }
        keys.push(key);
    }
    for _ in 0..=dice.below(2) {
        let item = aggregate(dice);
        items.add(dice, item);
    }
    dice.shuffle(&mut items.0);
    // A column that is neither is one of any row of its group.
    let mut names = items.names();
    names.extend(
        NUMBERS
            .into_iter()
            .filter(|column| keys.iter().any(|key| key == column)),
    );
    let having = match dice.below(8) {
        0 => format!(" HAVING COUNT(*) > {}", dice.below(3)),
        1 if !names.is_empty() => format!(" HAVING {} > {}", dice.pick(&names), dice.below(9)),
        _ => String::new(),
    };
    let (order, how) = ordered(dice, items.0.len(), &names);
    let text = format!(
        "SELECT {} FROM labels{} GROUP BY {}{having}{order}",
        items.list(),
        filter(dice),
        keys.join(", ")
    );
    made(text, how)
}

fn distinct(dice: &mut Dice) -> Made {
    let items = values(dice);
    // By an expression that is written twice both engines lose rows by themselves.
    let (order, how) = ordered(dice, items.0.len(), &items.names());
    let text = format!(
        "SELECT DISTINCT {} FROM labels{}{order}",
        items.list(),
        filter(dice)
    );
    made(text, how)
}

fn rows(dice: &mut Dice) -> Made {
    let mut items = values(dice);
    if dice.percent(10) {
        items.0.insert(0, "*".to_owned());
    }
    let filter = filter(dice);
    if dice.percent(40) {
        return made(
            format!("SELECT {} FROM labels{filter}", items.list()),
            Order::Free,
        );
    }
    let text = format!(
        "SELECT {} FROM labels{filter} ORDER BY {}{}, labels.customer_id, labels.id LIMIT {}",
        items.list(),
        dice.pick(&NAMES),
        dice.pick(&["", " DESC"]),
        dice.within(1, 40)
    );
    made(text, Order::Total)
}

/// Aggregates that are computed with.
fn computed(dice: &mut Dice) -> Made {
    let key = dice.pick(&NUMBERS);
    let mut items = Items::default();
    let (one, other) = (aggregate(dice), dice.pick(&NUMBERS));
    items.add(dice, format!("{one} + 1"));
    items.add(dice, format!("SUM({other}) * 2"));
    if dice.percent(50) {
        items.add(dice, key.to_owned());
    }
    let mut names = items.names();
    names.push(key);
    let (order, how) = ordered(dice, items.0.len(), &names);
    let text = format!(
        "SELECT {} FROM labels{} GROUP BY {key}{order}",
        items.list(),
        filter(dice)
    );
    made(text, how)
}

/// Names that the query inside has, and the one around it.
fn nested(dice: &mut Dice) -> Made {
    let (one, two) = (dice.pick(&NUMBERS), dice.pick(&NUMBERS));
    let text = match dice.below(4) {
        0 => format!(
            "SELECT a AS id, (SELECT COUNT(*) FROM orders o WHERE o.customer_id = labels.customer_id \
             AND total > {one}) AS total FROM labels"
        ),
        1 => format!(
            "SELECT d.a, d.b FROM (SELECT SUM({one}) AS a, {two} AS b FROM labels GROUP BY labels.{two}) d"
        ),
        2 => format!(
            "SELECT {one} AS a FROM labels WHERE a IN (SELECT total FROM orders WHERE \
             orders.customer_id = labels.customer_id OR {two} < 3)"
        ),
        _ => format!(
            "WITH a AS (SELECT {one} AS b, COUNT(*) AS a FROM labels GROUP BY {one}) \
             SELECT a.a AS b, a.b AS a FROM a"
        ),
    };
    made(text, Order::Free)
}

/// With a comment between two words.
fn commented(dice: &mut Dice, text: &str) -> String {
    let spaces: Vec<usize> = text.match_indices(' ').map(|(at, _)| at).collect();
    if !dice.percent(15) || text.contains('\'') {
        return text.to_owned();
    }
    let at = spaces[dice.below(spaces.len())];
    let comment = dice.pick(&["/* a, b */", "-- ORDER BY a\n", "# )\n", "/**/"]);
    format!("{} {comment}{}", &text[..at], &text[at..])
}
