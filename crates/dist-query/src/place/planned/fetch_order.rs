//! The order in which a gather fetches its tables, by how many rows the servers expect of each fragment.
//!
//! Invariants: an order changes what moves, never what is answered; a guess is asked for at most once a minute for
//! a shape of fragment, and never waited for longer than all questions may take.

use std::time::Duration;

use execute::per_core::Core;
use execute::per_core::plans::Guess;
use execute::session::user::SessionUser;
use execute::variables::session_variables::SessionVariables;
use planner::{Answer, Finish, Fragment};
use sqltext::{Dialect, Digest};

use crate::learned;
use crate::place::planned::estimate;

/// A server's guess of how many rows a fragment has is asked for anew after so long.
const KEPT_S: u64 = 60;

/// So long all groups together have to answer what they guess.
const PATIENCE: Duration = Duration::from_millis(200);

/// Orders the fetches of a gathered answer by what is known already.
pub(super) fn order_by_known(core: &Core, variables: &SessionVariables, answer: &mut Answer) {
    let known = known_rows(core, variables, answer);
    let filtered = variables.mode.dialect == Dialect::MySql;
    let learned = match known.is_empty() {
        true => Vec::new(),
        false => learned::each_whole(core, variables, answer),
    };
    let learned: Vec<Option<u64>> = learned.iter().map(|it| it.map(|it| it.last.rows)).collect();
    planner::order_by_size(answer, &known, filtered, &learned);
}

/// The rows of each fragment, as far as servers were asked; nothing where nobody asks them.
pub(super) fn known_rows(
    core: &Core,
    variables: &SessionVariables,
    answer: &Answer,
) -> Vec<Option<u64>> {
    let shapes = shapes(variables, answer);
    let rows = |shape: &Digest| core.statements.plans.sizes.get(shape).map(|guess| guess.rows);
    shapes.iter().map(rows).collect()
}

/// Orders fetches by size, and asks for what is not known, or was asked for long ago.
pub(in crate::place) async fn order_by_size(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    answer: &mut Answer,
) {
    let shapes = shapes(variables, answer);
    let old_s = core.now_s.get().saturating_sub(KEPT_S);
    let is_fresh = |shape: &Digest| {
        let guess = core.statements.plans.sizes.get(shape);
        guess.is_some_and(|guess| guess.made_s >= old_s)
    };
    if shapes.iter().all(is_fresh) {
        return;
    }
    let stale = answer.fragments.iter().zip(&shapes).filter(|(_, shape)| !is_fresh(shape));
    let (parts, shapes): (Vec<_>, Vec<_>) =
        stale.map(|(it, shape)| ((groups(it), it.text.as_str()), *shape)).unzip();
    let asked = async {
        let told = estimate::rows_of_parts(core, user, variables, parts).await;
        for (shape, rows) in shapes.into_iter().zip(told) {
            if let Some(rows) = rows {
                let made_s = core.now_s.get();
                core.statements.plans.sizes.put(shape, Guess { rows, made_s });
            }
        }
    };
    if reactor::timeout(PATIENCE, asked).await.is_some() {
        order_by_known(core, variables, answer);
    }
}

/// The shapes of the fragments; none where their order does not matter.
fn shapes(variables: &SessionVariables, answer: &Answer) -> Vec<Digest> {
    match &answer.finish {
        Finish::Scratch(scratch) if !answer.locks && planner::asks_for_sizes(scratch) => {
            let fragments = answer.fragments.iter();
            let shape = |it: &Fragment| Digest::of(it.text.as_bytes(), &variables.mode);
            fragments.map(shape).collect()
        }
        _ => Vec::new(),
    }
}

/// As [`estimate::rows_of_parts`] has them.
pub(in crate::place) fn groups(fragment: &Fragment) -> String {
    let all = fragment.groups.join(",");
    match fragment.any {
        true => format!("{}{all}", estimate::ANY),
        false => all,
    }
}
