//! Rows that cannot matter are not fetched: the values that a table has already are put into the
//! condition of the next one, as a list while they are few, else as a range.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use backend::Connection;
use execute::per_core::Core;
use execute::variables::session_variables::SessionVariables;
use planner::{Fragment, Passed, Reduced, Reduction, Scratch};

/// So many values make a list; of more, numbers and dates make a range.
const LIST_MAX: usize = 1000;

/// The same of numbers. MariaDB makes a table of a longer list than [`LIST_MAX`], whose columns compare
/// with a table's as columns do, not as literals: the same for numbers only.
const NUMBERS_MAX: usize = 64 * 1024;

/// A list is no longer.
const LIST_BYTES_MAX: usize = 1024 * 1024;

/// The values of a larger table are not looked for: they would be many.
const ROWS_MAX: u64 = 100_000;

/// The conditions that values of fetched tables make, by table and column; `None` where they make
/// none.
#[derive(Default)]
pub(super) struct Known(HashMap<(usize, String), Option<Values>>);

enum Values {
    List(Vec<String>),
    Range(String, String),
}

impl Known {
    /// Looks for the values of a table that has been filled with so many rows, for those that are
    /// still to be fetched.
    pub async fn learn(
        &mut self,
        scratch: &Scratch,
        (by, rows): (usize, u64),
        left: &[usize],
        connection: &mut Connection,
    ) {
        if rows > ROWS_MAX {
            return;
        }
        let wanted = left.iter().flat_map(|&at| &scratch.reduced[at].by);
        for one in wanted.filter(|it| it.by == by) {
            if let Entry::Vacant(unknown) = self.0.entry((by, one.from.clone())) {
                let table = &scratch.tables[by].name;
                unknown.insert(values(table, one, connection).await);
            }
        }
    }

    /// The fragment with what is known of others; `None` when it has no row that matters.
    pub fn reduced(&self, fragment: &Fragment, reduced: &Reduced) -> Option<(Fragment, bool)> {
        let (mut conditions, mut narrows) = (Vec::new(), false);
        for one in &reduced.by {
            let key = (one.by, one.from.clone());
            match self.0.get(&key) {
                Some(Some(Values::List(list))) if list.is_empty() => return None,
                Some(Some(Values::List(list))) => {
                    conditions.push(format!("{} IN ({})", one.to, list.join(",")));
                    // All groups have some of many, and a long list takes long to read.
                    let few = list.len() <= LIST_MAX;
                    narrows |= few && one.is_key && one.passed == Passed::Number;
                }
                Some(Some(Values::Range(least, most))) => {
                    conditions.push(format!("{} BETWEEN {least} AND {most}", one.to));
                    conditions.extend(one.there.clone());
                }
                Some(None) | None => conditions.extend(one.there.clone()),
            }
        }
        let fragment = Fragment {
            text: reduced.text(&fragment.text, &conditions),
            ..fragment.clone()
        };
        Some((fragment, narrows))
    }
}

/// `None` also when they cannot be had: they are not needed.
async fn values(table: &str, one: &Reduction, connection: &mut Connection) -> Option<Values> {
    let column = &one.from;
    let most = match one.passed {
        Passed::Number => NUMBERS_MAX,
        Passed::Date | Passed::Text(_) => LIST_MAX,
    };
    let query = format!(
        "SELECT DISTINCT {column} FROM {table} WHERE {column} IS NOT NULL LIMIT {}",
        most + 1
    );
    let rows = connection.ask_all(query.as_bytes()).await.ok()?;
    let written = |row: &Vec<Vec<u8>>| literal(row.first()?, &one.passed);
    if rows.len() <= most {
        let list: Vec<String> = rows.iter().map(written).collect::<Option<_>>()?;
        let bytes: usize = list.iter().map(String::len).sum();
        return (bytes <= LIST_BYTES_MAX).then_some(Values::List(list));
    }
    if matches!(one.passed, Passed::Text(_)) {
        return None;
    }
    let query = format!("SELECT MIN({column}), MAX({column}) FROM {table}");
    let ends = connection.ask(query.as_bytes()).await.ok()?;
    let end = |at: usize| literal(ends.get(at)?, &one.passed);
    Some(Values::Range(end(0)?, end(1)?))
}

fn literal(value: &[u8], passed: &Passed) -> Option<String> {
    let text = || std::str::from_utf8(value).ok();
    Some(match passed {
        Passed::Number => text()?.to_owned(),
        Passed::Date => format!("'{}'", text()?),
        Passed::Text(charset) => {
            format!("_{charset} x'{}'", hex::encode(value))
        }
    })
}

/// The groups that can have rows of a fragment whose key has been narrowed.
pub(super) fn narrowed(
    core: &Core,
    variables: &SessionVariables,
    mut fragment: Fragment,
) -> Fragment {
    let snapshot = core.shared.published.load();
    let (Some(sharding), Some(home)) = (&snapshot.sharding, snapshot.home()) else {
        return fragment;
    };
    let database = String::from_utf8_lossy(variables.state.database().unwrap_or_default());
    let asked = planner::Asked {
        sharding,
        home: &home.name,
        database: &database,
        mode: &variables.mode,
        scratch: "",
        changing: None,
    };
    if let Some(groups) = planner::groups_of(&fragment.text, &asked) {
        fragment.groups.retain(|group| groups.contains(group));
    }
    fragment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_conditions() {
        let fragment = Fragment {
            text: "SELECT `a` FROM `s`.`t` AS `x`".to_owned(),
            groups: vec!["g1".into()],
            any: false,
        };
        let reduction = |from: &str| Reduction {
            by: 1,
            from: from.to_owned(),
            to: "`x`.`a`".to_owned(),
            passed: Passed::Number,
            is_key: true,
            there: Some(format!("{from} is there")),
        };
        let reduced = Reduced {
            by: vec![reduction("b"), reduction("c"), reduction("d")],
            at: fragment.text.len(),
            word: "WHERE",
            called: "x".to_owned(),
        };
        let mut known = Known::default();
        let text = |known: &Known| known.reduced(&fragment, &reduced).map(|it| it.0.text);
        assert_eq!(
            text(&known).as_deref(),
            Some("SELECT `a` FROM `s`.`t` AS `x` WHERE b is there AND c is there AND d is there")
        );
        let list = Values::List(vec!["1".into(), "2".into()]);
        known.0.insert((1, "b".into()), Some(list));
        let range = Values::Range("3".into(), "9".into());
        known.0.insert((1, "c".into()), Some(range));
        known.0.insert((1, "d".into()), None);
        assert_eq!(
            text(&known).as_deref(),
            Some(
                "SELECT `a` FROM `s`.`t` AS `x` WHERE `x`.`a` IN (1,2) AND \
                 `x`.`a` BETWEEN 3 AND 9 AND c is there AND d is there"
            )
        );
        known.0.insert((1, "d".into()), Some(Values::List(Vec::new())));
        assert_eq!(text(&known), None);
        let text = literal("é'".as_bytes(), &Passed::Text("utf8mb4".into()));
        assert_eq!(text.as_deref(), Some("_utf8mb4 x'c3a927'"));
    }
}
