//! The simplest SELECTs of a table about the farm, answered from its rows: for the night in which no server is left.
//!
//! Invariants: the rows are those that a server would give: numbers are compared as numbers, texts without regard to
//! the case of ASCII letters, and nothing compares with NULL.

use std::cmp::Ordering;

use execute::per_core::operator::Answer;
use farm::tables::{FarmKind, FarmTable};
use sqltext::{Comparison, Condition, Mode, Selected, Selection};

use crate::introspection::farm_tables::{Cells, schema};

/// Such a SELECT, if the text is one.
pub(crate) fn read(text: &[u8], mode: &Mode, database: Option<&[u8]>) -> Option<Selection> {
    sqltext::selection(text, mode, &schema(database))
}

/// The answer; an error names a column that the table does not have, or a value that no server would compare so.
pub(crate) fn answer(
    selection: &Selection,
    table: &FarmTable,
    mut rows: Vec<Cells>,
) -> Result<Answer, String> {
    let place = |name: &str| {
        let found = table.columns.iter().position(|column| column.name == name);
        found.ok_or_else(|| format!("{} has no column {name}", table.name))
    };
    for condition in &selection.conditions {
        let at = place(&condition.column)?;
        let kind = table.columns[at].kind;
        if condition.number && kind.is_text() || !condition.number && is_number(kind) {
            let only_null = condition.value.is_none();
            if !only_null {
                return Err(format!(
                    "{} is compared with a value of another type",
                    condition.column
                ));
            }
        }
        rows.retain(|row| holds(condition, kind, row[at].as_deref()));
    }
    for (column, descends) in selection.order.iter().rev() {
        let at = place(column)?;
        let kind = table.columns[at].kind;
        rows.sort_by(|a, b| {
            let order = compare(kind, a[at].as_deref(), b[at].as_deref());
            if *descends { order.reverse() } else { order }
        });
    }
    if selection.wanted == Selected::Count {
        let count = Some(rows.len().to_string());
        let counted = [vec![count]].into_iter().skip(selection.offset);
        let rows = counted.take(selection.rows_max.unwrap_or(1)).collect();
        return Ok(Answer {
            columns: vec!["COUNT(*)".to_owned()],
            rows,
        });
    }
    let columns: Vec<(usize, String)> = match &selection.wanted {
        Selected::Columns(names) => {
            let pairs = names.iter().map(|(name, called)| Ok((place(name)?, called.clone())));
            pairs.collect::<Result<_, String>>()?
        }
        _ => table.columns.iter().map(|it| it.name.to_owned()).enumerate().collect(),
    };
    let rows = rows.into_iter().skip(selection.offset);
    let rows = rows.take(selection.rows_max.unwrap_or(usize::MAX));
    Ok(Answer {
        columns: columns.iter().map(|(_, name)| name.clone()).collect(),
        rows: rows.map(|row| columns.iter().map(|(at, _)| row[*at].clone()).collect()).collect(),
    })
}

fn is_number(kind: FarmKind) -> bool {
    matches!(kind, FarmKind::Whole | FarmKind::Number | FarmKind::Flag)
}

fn holds(condition: &Condition, kind: FarmKind, cell: Option<&str>) -> bool {
    match condition.operator {
        Comparison::Is => return cell.is_none(),
        Comparison::IsNot => return cell.is_some(),
        _ => {}
    }
    let (Some(cell), Some(value)) = (cell, condition.value.as_deref()) else {
        return false;
    };
    let order = compare(kind, Some(cell), Some(value));
    match condition.operator {
        Comparison::Equal => order == Ordering::Equal,
        Comparison::Unequal => order != Ordering::Equal,
        Comparison::Less => order == Ordering::Less,
        Comparison::LessOrEqual => order != Ordering::Greater,
        Comparison::Greater => order == Ordering::Greater,
        Comparison::GreaterOrEqual => order != Ordering::Less,
        Comparison::Like => {
            let (pattern, cell) = (value.to_ascii_lowercase(), cell.to_ascii_lowercase());
            farm::account::like(pattern.as_bytes(), cell.as_bytes())
        }
        Comparison::Is | Comparison::IsNot => false,
    }
}

/// NULL comes first.
fn compare(kind: FarmKind, a: Option<&str>, b: Option<&str>) -> Ordering {
    let number = |text: &str| text.parse::<f64>().unwrap_or(f64::NAN);
    match (a, b) {
        (Some(a), Some(b)) if is_number(kind) => number(a).total_cmp(&number(b)),
        (Some(a), Some(b)) => a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase()),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use farm::tables;
    use sqltext::Dialect;

    use super::*;

    fn asked(text: &str) -> String {
        let mode = Mode::new(Dialect::MySql, 80_045);
        let selection = read(text.as_bytes(), &mode, None).expect("it is simple");
        let table = tables::find(selection.table).expect("it is there");
        let row = |group: &str, address: &str, lag: Option<&str>| {
            let cell = |column: &tables::FarmColumn| match column.name {
                "group_id" => Some(group.to_owned()),
                "address" => Some(address.to_owned()),
                "lag_ms" => lag.map(str::to_owned),
                _ => None,
            };
            table.columns.iter().map(cell).collect::<Cells>()
        };
        let rows = vec![
            row("g2", "a:1", Some("10")),
            row("g1", "b:1", Some("9.5")),
            row("G1", "c:1", None),
        ];
        match answer(&selection, table, rows) {
            Err(why) => why,
            Ok(answer) => {
                let cells = |row: Cells| {
                    let cells = row.into_iter().map(|cell| cell.unwrap_or("NULL".to_owned()));
                    cells.collect::<Vec<_>>().join("|")
                };
                let rows = answer.rows.into_iter().map(cells).collect::<Vec<_>>().join(" ");
                format!("{}: {rows}", answer.columns.join(","))
            }
        }
    }

    #[test]
    fn simple_selects_need_no_server() {
        for (text, wanted) in [
            ("SELECT address FROM heddle.lag ORDER BY lag_ms DESC", "address: a:1 b:1 c:1"),
            (
                "SELECT address AS x, lag_ms FROM heddle.lag ORDER BY lag_ms",
                "x,lag_ms: c:1|NULL b:1|9.5 a:1|10",
            ),
            (
                "SELECT address FROM heddle.lag WHERE group_id = 'g1' AND lag_ms < 10",
                "address: b:1",
            ),
            ("SELECT address FROM heddle.lag WHERE lag_ms IS NULL", "address: c:1"),
            ("SELECT COUNT(*) FROM heddle.lag WHERE group_id LIKE 'G_'", "COUNT(*): 3"),
            (
                "SELECT address FROM heddle.lag ORDER BY group_id, address DESC LIMIT 1 OFFSET 1",
                "address: b:1",
            ),
            ("SELECT nothing FROM heddle.lag", "lag has no column nothing"),
            (
                "SELECT address FROM heddle.lag WHERE lag_ms = 'x'",
                "lag_ms is compared with a value of another type",
            ),
        ] {
            assert_eq!(asked(text), wanted, "{text}");
        }
    }
}
