//! How many rows a part of a statement has, by what a server expects: one group is asked by EXPLAIN, and the
//! others are taken to be like it.

use backend::Table;
use execute::per_core::Core;
use execute::session::user::SessionUser;
use execute::variables::session_variables::SessionVariables;
use sqltext::Dialect;

use crate::place::explain::tree::Row;

/// What stands in front of groups of which any one will do.
pub(crate) const ANY: &str = "any of ";

/// For each row: `None` where nothing is read, or nobody knows.
pub(in crate::place) async fn estimate(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    rows: &[Row],
) -> Vec<Option<u64>> {
    let mut all = Vec::with_capacity(rows.len());
    for [tier, groups, text, ..] in rows {
        let reads = matches!(&**tier, "pushed" | "gathered" | "pulled");
        all.push(match reads && !groups.is_empty() {
            true => rows_of_part(core, user, variables, groups, text).await,
            false => None,
        });
    }
    all
}

async fn rows_of_part(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    groups: &str,
    text: &str,
) -> Option<u64> {
    let parts = [(groups.to_owned(), text)];
    let tables = explained(core, user, variables, &parts).await?;
    rows_of_table(variables, tables.first()?, groups)
}

/// The same of several parts; groups are asked for all of theirs at once.
pub(super) async fn rows_of_parts(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    parts: Vec<(String, &str)>,
) -> Vec<Option<u64>> {
    let mut all = vec![None; parts.len()];
    let mut left: Vec<usize> = (0..parts.len()).collect();
    while let Some(&first) = left.first() {
        let group = asked(&parts[first].0).0.to_owned();
        let same = |at: &usize| asked(&parts[*at].0).0 == group;
        let (now, later): (Vec<usize>, Vec<usize>) = left.into_iter().partition(same);
        left = later;
        let own: Vec<(String, &str)> = now.iter().map(|at| parts[*at].clone()).collect();
        match explained(core, user, variables, &own).await {
            Some(tables) if tables.len() == now.len() => {
                for (at, table) in now.into_iter().zip(&tables) {
                    all[at] = rows_of_table(variables, table, &parts[at].0);
                }
            }
            // It refuses one of them.
            _ => {
                for at in now {
                    let (groups, text) = &parts[at];
                    all[at] = rows_of_part(core, user, variables, groups, text).await;
                }
            }
        }
    }
    all
}

/// The group that is asked, and how many like it have rows.
fn asked(groups: &str) -> (&str, u64) {
    let (names, count) = match groups.strip_prefix(ANY) {
        Some(names) => (names, 1),
        None => (groups, groups.split(',').count() as u64),
    };
    (names.split(',').next().unwrap_or_default(), count)
}

/// What the group of the first part says of how it would run them all.
async fn explained(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    parts: &[(String, &str)],
) -> Option<Vec<Table>> {
    let snapshot = core.snapshot();
    let group = snapshot.group(asked(&parts.first()?.0).0)?;
    let pass = &user.identity.pass;
    let taken = core.take_from_primary(group.number, pass, &variables.state, false);
    let questions: Vec<String> = parts.iter().map(|(_, text)| format!("EXPLAIN {text}")).collect();
    let questions: Vec<&[u8]> = questions.iter().map(String::as_bytes).collect();
    taken.await.ok()?.ask_each(&questions).await.ok()
}

fn rows_of_table(variables: &SessionVariables, table: &Table, groups: &str) -> Option<u64> {
    let (rows, filtered) = match variables.mode.dialect {
        Dialect::MariaDb => (8, None),
        Dialect::MySql => (9, Some(10)),
    };
    let number = |cells: &[Option<Vec<u8>>], at: usize| -> Option<f64> {
        let text = std::str::from_utf8(cells.get(at)?.as_deref()?).ok()?;
        text.parse().ok()
    };
    let first = table.rows.first()?.first()?.clone();
    // The tables of the outermost block are joined: so many pairs are looked at.
    let outer = table.rows.iter().filter(|cells| cells.first() == Some(&first));
    let product: f64 = outer
        .map(|cells| {
            let of = number(cells, rows).unwrap_or(1.0);
            let share = filtered.and_then(|at| number(cells, at)).unwrap_or(100.0);
            of * share / 100.0
        })
        .product();
    let all = product.ceil() * asked(groups).1 as f64;
    (all.is_finite() && all >= 0.0).then_some(all as u64)
}
