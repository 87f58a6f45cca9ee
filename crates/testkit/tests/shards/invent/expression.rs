//! Expressions and conditions over the tables of a FROM.

use super::tables::{Kind, Table};
use crate::dice::Dice;

/// The tables that names can be taken from, each under its alias.
#[derive(Clone, Default)]
pub struct Scope {
    pub tables: Vec<(String, &'static Table)>,
}

impl Scope {
    /// A column of one of these kinds, as `alias.column`.
    pub fn column(&self, dice: &mut Dice, kinds: &[Kind]) -> Option<(String, Kind)> {
        let all: Vec<(String, Kind)> = self
            .tables
            .iter()
            .flat_map(|(alias, table)| {
                let of = move |&(name, kind): &(&str, Kind)| (format!("{alias}.{name}"), kind);
                table.columns.iter().map(of)
            })
            .filter(|(_, kind)| kinds.contains(kind))
            .collect();
        match all.is_empty() {
            true => None,
            false => Some(all[dice.below(all.len())].clone()),
        }
    }

    /// The primary keys of all tables.
    pub fn keys(&self) -> Vec<String> {
        let of = |(alias, table): &(String, &'static Table)| {
            let key = |column: &&str| format!("{alias}.{column}");
            table.primary.iter().map(key).collect::<Vec<_>>()
        };
        self.tables.iter().flat_map(of).collect()
    }
}

/// Numbers that are exact: integers and decimals.
pub fn number(dice: &mut Dice, scope: &Scope, depth: usize) -> String {
    let leaf = depth == 0 || dice.percent(35);
    if leaf {
        return match scope.column(dice, &[Kind::Int, Kind::Decimal, Kind::Whole]) {
            Some((column, Kind::Whole)) => format!("CAST({column} AS SIGNED)"),
            Some((column, _)) if dice.percent(80) => column,
            _ => literal(dice),
        };
    }
    let one = number(dice, scope, depth - 1);
    let other = number(dice, scope, depth - 1);
    match dice.below(12) {
        0 => format!("{one} + {other}"),
        1 => format!("({one} - {other})"),
        2 => format!("({one}) * {}", dice.within(-3, 9)),
        3 => format!("COALESCE({one}, {other})"),
        4 => format!("IF({}, {one}, {other})", condition(dice, scope, depth - 1)),
        5 => format!(
            "CASE WHEN {} THEN {one} ELSE {other} END",
            condition(dice, scope, depth - 1)
        ),
        6 => format!("ABS({one})"),
        // Without ABS -0.00 comes, which MariaDB's sorting takes for another group than 0.00.
        7 => format!("ABS({one}) % {}", dice.within(2, 9)),
        8 => format!("ROUND({one}, {})", dice.below(3)),
        9 => format!("GREATEST({one}, {other})"),
        10 => match scope.column(dice, &[Kind::Date, Kind::Moment]) {
            Some((column, _)) => {
                let part = dice.pick(&["YEAR", "MONTH", "DAYOFMONTH", "QUARTER"]);
                format!("{part}({column})")
            }
            None => one,
        },
        _ => match scope.column(dice, &[Kind::Text, Kind::Exact]) {
            Some((column, _)) => format!("LENGTH({column})"),
            None => one,
        },
    }
}

fn literal(dice: &mut Dice) -> String {
    match dice.below(6) {
        0 => "NULL".to_owned(),
        1 => dice.cents(-5000, 90_000),
        2 => dice.within(100, 900).to_string(),
        _ => dice.within(-3, 60).to_string(),
    }
}

/// An item of a select list: any kind of value.
pub fn value(dice: &mut Dice, scope: &Scope) -> String {
    let any = [
        Kind::Int,
        Kind::Whole,
        Kind::Decimal,
        Kind::Double,
        Kind::Text,
        Kind::Exact,
        Kind::Enum,
        Kind::Date,
        Kind::Moment,
    ];
    match dice.below(10) {
        0..6 => scope.column(dice, &any).map(|(column, _)| column),
        6 => scope
            .column(dice, &[Kind::Text, Kind::Enum])
            .map(|(column, _)| format!("CONCAT({column}, '-', {})", dice.within(1, 5))),
        7 => scope
            .column(dice, &[Kind::Date, Kind::Moment])
            .map(|(column, _)| format!("DATE_ADD({column}, INTERVAL {} DAY)", dice.below(40))),
        8 => scope
            .column(dice, &[Kind::Text])
            .map(|(column, _)| format!("UPPER({column})")),
        _ => None,
    }
    .unwrap_or_else(|| number(dice, scope, 2))
}

/// What groups can be made of: equal values have equal bytes.
pub fn group_key(dice: &mut Dice, scope: &Scope) -> String {
    let kinds = [
        Kind::Int,
        Kind::Enum,
        Kind::Date,
        Kind::Exact,
        Kind::Decimal,
        Kind::Double,
        Kind::Whole,
    ];
    match dice.below(8) {
        0 => format!("ABS({}) % 5", number(dice, scope, 1)),
        1 => match scope.column(dice, &[Kind::Moment, Kind::Date]) {
            Some((column, _)) => format!("YEAR({column}) * 100 + MONTH({column})"),
            None => number(dice, scope, 1),
        },
        2 => match scope.column(dice, &[Kind::Text]) {
            Some((column, _)) => format!("HEX({column})"),
            None => number(dice, scope, 1),
        },
        3 => format!("({}) IS NULL", number(dice, scope, 1)),
        _ => match scope.column(dice, &kinds) {
            Some((column, _)) => column,
            None => number(dice, scope, 1),
        },
    }
}

/// True, false or NULL for a row.
pub fn condition(dice: &mut Dice, scope: &Scope, depth: usize) -> String {
    if depth > 0 && dice.percent(40) {
        let one = condition(dice, scope, depth - 1);
        let other = condition(dice, scope, depth - 1);
        return match dice.below(5) {
            0 | 1 => format!("({one} AND {other})"),
            2 | 3 => format!("({one} OR {other})"),
            _ => format!("NOT ({one})"),
        };
    }
    match dice.below(11) {
        0..3 => by_key(dice, scope),
        3 => by_text(dice, scope),
        4 => by_date(dice, scope),
        5 => match scope.column(dice, &[Kind::Enum]) {
            Some((column, _)) => {
                let value = dice.pick(&["gold", "bronze", "paid", "new", "shipped"]);
                format!("{column} {} '{value}'", dice.pick(&["=", "<>"]))
            }
            None => by_key(dice, scope),
        },
        6 => {
            let not = dice.pick(&["", "NOT "]);
            format!("({}) IS {not}NULL", number(dice, scope, 1))
        }
        7 => format!(
            "({}) BETWEEN {} AND {}",
            number(dice, scope, 1),
            dice.within(-10, 40),
            dice.within(20, 900)
        ),
        _ => {
            let compare = dice.pick(&["<", "<=", ">", ">=", "=", "<>", "<=>"]);
            let (one, other) = (number(dice, scope, 1), number(dice, scope, 1));
            format!("({one}) {compare} ({other})")
        }
    }
}

/// A condition that a shard key may be in.
fn by_key(dice: &mut Dice, scope: &Scope) -> String {
    let keys: Vec<String> = scope.keys();
    let whole = |key: &&String| key.ends_with("_id");
    let keys: Vec<&String> = keys.iter().filter(whole).collect();
    if keys.is_empty() {
        return format!("({}) > {}", number(dice, scope, 1), dice.within(0, 50));
    }
    let key = keys[dice.below(keys.len())];
    let value = |dice: &mut Dice| match key.ends_with("visit_id") {
        true => dice.within(1000, 1125),
        false => dice.within(-5, 60),
    };
    match dice.below(6) {
        0 | 1 => format!("{key} = {}", value(dice)),
        2 => {
            let list: Vec<String> = (0..=dice.below(5))
                .map(|_| value(dice).to_string())
                .collect();
            let not = dice.pick(&["", "", "NOT "]);
            format!("{key} {not}IN ({})", list.join(", "))
        }
        3 => {
            let low = value(dice);
            format!("{key} BETWEEN {low} AND {}", low + dice.within(0, 20))
        }
        4 => format!("{key} < {}", value(dice)),
        _ => format!("{key} >= {}", value(dice)),
    }
}

fn by_text(dice: &mut Dice, scope: &Scope) -> String {
    let Some((column, _)) = scope.column(dice, &[Kind::Text]) else {
        return by_key(dice, scope);
    };
    let word = dice.pick(&[
        "DE", "fr", "WEB", "koln", "muller", "x", "tools", "/HOME", "a",
    ]);
    match dice.below(4) {
        0 => format!("{column} LIKE '{}%'", &word[..1]),
        1 => format!("{column} > '{word}'"),
        2 => format!("{column} IN ('{word}', 'paris', 'US', 'Shop')"),
        _ => format!("{column} = '{word}'"),
    }
}

fn by_date(dice: &mut Dice, scope: &Scope) -> String {
    let Some((column, _)) = scope.column(dice, &[Kind::Date, Kind::Moment]) else {
        return by_key(dice, scope);
    };
    let day = dice.day(2024, 2025);
    format!("{column} {} {day}", dice.pick(&["<", ">=", ">"]))
}

/// An aggregate, and whether it is a floating point number that depends on the order of summing.
pub fn aggregate(dice: &mut Dice, scope: &Scope) -> (String, bool) {
    let exact = |dice: &mut Dice| number(dice, scope, 1);
    let text = match dice.below(14) {
        0 | 1 => "COUNT(*)".to_owned(),
        2 | 3 => format!("SUM({})", exact(dice)),
        4 => format!("AVG({})", exact(dice)),
        which @ (5 | 6) => match (which, exact(dice)) {
            // Which type NULL has depends on where it passes.
            (_, null) if null == "NULL" => "COUNT(*)".to_owned(),
            (5, of) => format!("MIN({of})"),
            (_, of) => format!("MAX({of})"),
        },
        7 => format!("COUNT({})", value(dice, scope)),
        8 => format!("COUNT(DISTINCT {})", value(dice, scope)),
        9 => format!("SUM(DISTINCT {})", exact(dice)),
        10 => match scope.column(dice, &[Kind::Date, Kind::Moment, Kind::Double, Kind::Exact]) {
            Some((column, _)) => format!("{}({column})", dice.pick(&["MIN", "MAX"])),
            None => "COUNT(*)".to_owned(),
        },
        11 => match scope.column(dice, &[Kind::Double]) {
            Some((column, _)) => format!("{}({column})", dice.pick(&["SUM", "AVG", "MIN", "MAX"])),
            None => format!("SUM({})", exact(dice)),
        },
        12 => {
            let which = dice.pick(&["STDDEV_POP", "VAR_SAMP", "STD", "VARIANCE"]);
            return (format!("{which}({})", exact(dice)), true);
        }
        _ => format!(
            "SUM(CASE WHEN {} THEN 1 ELSE 0 END)",
            condition(dice, scope, 1)
        ),
    };
    (text, false)
}
