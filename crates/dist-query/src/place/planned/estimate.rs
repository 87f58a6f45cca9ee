//! How many rows a part of a statement has, by what a server expects: one group is asked by EXPLAIN, and the
//! others are taken to be like it.

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

pub(crate) async fn rows_of_part(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    groups: &str,
    text: &str,
) -> Option<u64> {
    let (names, count) = match groups.strip_prefix(ANY) {
        Some(names) => (names, 1),
        None => (groups, groups.split(',').count() as u64),
    };
    let snapshot = core.snapshot();
    let group = snapshot.group(names.split(',').next()?)?;
    let pass = &user.identity.pass;
    let taken = core.take_from_primary(group.number, pass, &variables.state, false);
    let question = format!("EXPLAIN {text}");
    let table = taken.await.ok()?.ask(question.as_bytes()).await.ok()?;
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
    let all = product.ceil() * count as f64;
    (all.is_finite() && all >= 0.0).then_some(all as u64)
}
