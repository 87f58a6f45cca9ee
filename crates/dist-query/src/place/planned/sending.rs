//! Whether a statement that is gathered is better answered by sending small tables to the groups.
//!
//! Invariants: sizes are what is known already, and nobody is waited for; what they say changes how much moves, never
//! what is answered.

use execute::per_core::Core;
use execute::per_core::handle::Handle;
use execute::session::is_free;
use execute::variables::session_variables::SessionVariables;
use planner::{Answer, Finish, Fragment, Sizes};
use sqltext::{Dialect, Digest, Mode, tables};

use super::{fetch_order, planned};

/// What is known of the sizes of a gather's fragments.
struct Known {
    rows: Vec<Option<u64>>,
    filtered: bool,
    /// How they are known; for people.
    from: String,
}

/// The answer, or the one that sends tables where that moves less. Why it does not is a reason of the answer.
pub(in crate::place) fn sending(
    core: &Core,
    handle: &Handle,
    variables: &SessionVariables,
    text: &[u8],
    mut answer: Answer,
) -> Answer {
    let most = core.settings().gathering.broadcast_bytes_max;
    let gathers = matches!(answer.finish, Finish::Scratch(_)) && answer.fragments.len() > 1;
    let snapshots = core.settings().dist_txns.snapshot_reads;
    if !gathers || most == 0 || snapshots || !is_free(variables.status) {
        return answer;
    }
    let known = known(core, variables, &answer);
    let now_s = core.now_s.get();
    let plans = &core.statements.plans;
    if plans.is_turned_back(&answer, &variables.mode, now_s) {
        let why = "a group has refused that lately";
        answer.reasons.push(format!("no table is sent to the groups: {why}"));
        return answer;
    }
    let shape = |fragment: &Fragment| Digest::of(fragment.text.as_bytes(), &variables.mode);
    let sizes = Sizes {
        rows: &known.rows,
        filtered: known.filtered,
        learnt: &|fragment| plans.learnt(&shape(fragment), now_s),
        bytes_max: most,
    };
    let sent = planned(core, handle, variables, text, |text, asked| {
        Ok(planner::by_broadcast(text, asked, &answer, &sizes))
    });
    let mut sent = match sent {
        Ok(Ok(sent)) => sent,
        Ok(Err(why)) => {
            answer.reasons.push(format!("no table is sent to the groups: {why}"));
            return answer;
        }
        Err(_) => return answer,
    };
    if let Some(last) = sent.reasons.last_mut() {
        last.push_str(&format!(" ({})", known.from));
    }
    sent
}

/// What servers said of each fragment, where they were asked for all of them, else what was measured of their tables.
fn known(core: &Core, variables: &SessionVariables, answer: &Answer) -> Known {
    let told = fetch_order::known_rows(core, variables, answer);
    if told.len() == answer.fragments.len() && told.iter().all(Option::is_some) {
        return Known {
            rows: told,
            filtered: variables.mode.dialect == Dialect::MySql,
            from: "rows as the servers explained them, a minute ago at most".to_owned(),
        };
    }
    let snapshot = core.shared.published.load();
    let Some(sharding) = &snapshot.sharding else {
        return Known {
            rows: Vec::new(),
            filtered: false,
            from: String::new(),
        };
    };
    let measured = sharding.measured();
    let rows = |fragment: &Fragment| {
        let (database, table) = table_of(fragment, &variables.mode)?;
        measured.rows((&database, &table), &fragment.groups, fragment.any)
    };
    let age_s = measured.age().unwrap_or_default().as_secs();
    Known {
        rows: answer.fragments.iter().map(rows).collect(),
        filtered: false,
        from: format!("rows as they were measured {age_s} s ago"),
    }
}

/// The table that a fragment of a gather is of.
fn table_of(fragment: &Fragment, mode: &Mode) -> Option<(String, String)> {
    let first = tables(fragment.text.as_bytes(), mode).into_iter().next()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some((text(first.database.as_deref()?), text(&first.name)))
}
