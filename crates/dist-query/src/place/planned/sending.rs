//! Whether a statement that is gathered is better answered by sending small tables to the groups.
//!
//! Invariants: sizes are what is known already, and nobody is waited for; what they say changes how much moves, never
//! what is answered.

use execute::per_core::Core;
use execute::per_core::answers::SizesOf;
use execute::per_core::handle::Handle;
use execute::session::is_free;
use execute::session::user::SessionUser;
use execute::variables::session_variables::SessionVariables;
use planner::{Answer, Finish, Fragment, Sizes, Source};
use sqltext::Dialect;

use super::{fetch_order, kept, names_of, planned_as};
use crate::learned;

/// The answer, or the one that sends tables where that moves less. Why it does not is a reason of the answer.
pub(in crate::place) fn sending(
    core: &Core,
    handle: &Handle,
    user: &SessionUser,
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
    let plans = &core.statements.plans;
    if plans.is_turned_back(user.name(), &answer, &variables.mode, core.now_s.get()) {
        let why = "a group has refused that lately";
        answer.reasons.push(format!("no table is sent to the groups: {why}"));
        return answer;
    }
    let told = told(core, variables, &answer);
    let ran = learned::ran(core, variables, &answer);
    let whole = learned::each_whole(core, variables, &answer);
    let is_learned = !ran.fetches.is_empty();
    let sizes = SizesOf {
        order: order_of(&answer).to_vec(),
        filtered: told.filtered,
        rows: told.rows,
        ran,
        whole,
        bytes_max: most,
    };
    let Ok(kept) = kept(core, variables, text) else {
        return answer;
    };
    let placeholder = core.statements.answers.placeholder();
    let chosen = kept.chosen(sizes, |sizes| chosen(core, variables, text, &kept.answer, sizes));
    let mut sent = match chosen {
        Ok(sent) => sent.renamed(placeholder, &names_of(handle)),
        Err(why) => {
            answer.reasons.push(format!("no table is sent to the groups: {why}"));
            return answer;
        }
    };
    if let Some(sending) = &mut sent.sending {
        *sending.instead = answer;
    }
    let mut expected = sent.sending.iter().flat_map(|it| &it.expected);
    let is_told = !is_learned || expected.any(|it| it.source != Source::Learned);
    if let Some(last) = sent.reasons.last_mut().filter(|_| is_told) {
        last.push_str(&format!(" ({})", told.from));
    }
    sent
}

/// What the planner chooses by these sizes.
fn chosen(
    core: &Core,
    variables: &SessionVariables,
    text: &[u8],
    gathered: &Answer,
    sizes: &SizesOf,
) -> Result<Answer, String> {
    let mut gathered = gathered.clone();
    if let Finish::Scratch(scratch) = &mut gathered.finish {
        scratch.order.clone_from(&sizes.order);
    }
    let known = Sizes {
        rows: &sizes.rows,
        filtered: sizes.filtered,
        ran: &sizes.ran,
        whole: &sizes.whole,
        bytes_max: sizes.bytes_max,
    };
    let placeholder = core.statements.answers.placeholder();
    let made = planned_as(core, placeholder, variables, text, |text, asked| {
        Ok(planner::by_broadcast(text, asked, &gathered, &known))
    });
    made.unwrap_or_else(|(_, why)| Err(why))
}

fn order_of(answer: &Answer) -> &[usize] {
    match &answer.finish {
        Finish::Scratch(scratch) => &scratch.order,
        Finish::Merge(_) => &[],
    }
}

/// What servers say of the sizes of a gather's fragments.
struct Told {
    rows: Vec<Option<u64>>,
    /// They take conditions that no index serves into account.
    filtered: bool,
    /// How they are known; for people.
    from: String,
}

/// What servers said of each fragment, where they were asked for all of them, else what was measured of their tables.
fn told(core: &Core, variables: &SessionVariables, answer: &Answer) -> Told {
    let told = fetch_order::known_rows(core, variables, answer);
    if told.len() == answer.fragments.len() && told.iter().all(Option::is_some) {
        return Told {
            rows: told,
            filtered: variables.mode.dialect == Dialect::MySql,
            from: "rows as the servers explained them, a minute ago at most".to_owned(),
        };
    }
    let snapshot = core.glance();
    let Some(sharding) = &snapshot.sharding else {
        return Told {
            rows: Vec::new(),
            filtered: false,
            from: String::new(),
        };
    };
    let age_s = sharding.measured().age().unwrap_or_default().as_secs();
    let rows = |fragment: &Fragment| learned::measured(sharding, fragment, &variables.mode);
    Told {
        rows: answer.fragments.iter().map(rows).collect(),
        filtered: false,
        from: format!("rows as they were measured {age_s} s ago"),
    }
}
