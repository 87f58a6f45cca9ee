//! What the planner makes of a query that needs several groups, its fetches in the order in which the fewest rows move,
//! or its small tables sent to the groups.

pub(super) mod estimate;
pub(super) mod fetch_order;
pub(super) mod first;
pub(super) mod sending;

use std::rc::Rc;

use execute::per_core::Core;
use execute::per_core::answers::{Kept, Key};
use execute::per_core::handle::Handle;
use execute::variables::session_variables::SessionVariables;
use farm::{ClientError, error};
use planner::{Answer, Unanswered};

/// How a query over several groups is answered, or why it is not.
pub(super) fn answer_of(
    core: &Core,
    handle: &Handle,
    variables: &SessionVariables,
    text: &[u8],
) -> Result<Answer, (ClientError, String)> {
    let placeholder = core.statements.answers.placeholder();
    let kept = kept(core, variables, text)?;
    let mut answer = kept.answer.renamed(placeholder, &names_of(handle));
    fetch_order::order_by_known(core, variables, &mut answer);
    Ok(answer)
}

/// What names of a session's scratch tables begin with.
fn names_of(handle: &Handle) -> String {
    format!("h{}_", handle.id)
}

/// What the planner makes of a query, with names that begin with the placeholder; it is kept for the next time.
fn kept(
    core: &Core,
    variables: &SessionVariables,
    text: &[u8],
) -> Result<Rc<Kept>, (ClientError, String)> {
    let answers = &core.statements.answers;
    let snapshot = core.shared.published.load();
    let epoch = snapshot.sharding.as_ref().map_or(0, |it| it.epoch);
    let home = snapshot.home().map_or("", |it| &*it.name);
    let database = variables.state.database().unwrap_or_default();
    let key = Key::of(text, home, database, &variables.mode);
    if let Some(kept) = answers.get(&key, epoch) {
        return Ok(kept);
    }
    let answer = planned_as(core, answers.placeholder(), variables, text, planner::answer)?;
    Ok(answers.put(key, text, answer))
}

/// What the planner makes of a text that needs several groups, or why it makes nothing of it.
pub(super) fn planned<T>(
    core: &Core,
    handle: &Handle,
    variables: &SessionVariables,
    text: &[u8],
    plan: impl FnOnce(&str, &planner::Asked<'_>) -> Result<T, Unanswered>,
) -> Result<T, (ClientError, String)> {
    planned_as(core, &names_of(handle), variables, text, plan)
}

/// The same with scratch tables whose names begin so.
fn planned_as<T>(
    core: &Core,
    scratch: &str,
    variables: &SessionVariables,
    text: &[u8],
    plan: impl FnOnce(&str, &planner::Asked<'_>) -> Result<T, Unanswered>,
) -> Result<T, (ClientError, String)> {
    let refused = |why: String| (error::NOT_OVER_GROUPS, why);
    let text = std::str::from_utf8(text)
        .map_err(|_| refused("its text is not UTF-8; use SET NAMES utf8mb4".to_owned()))?;
    let snapshot = core.glance();
    let (Some(sharding), Some(home)) = (&snapshot.sharding, snapshot.home()) else {
        return Err(refused("the farm has no shard maps any more".to_owned()));
    };
    let database = String::from_utf8_lossy(variables.state.database().unwrap_or_default());
    let asked = planner::Asked {
        sharding,
        home: &home.name,
        database: &database,
        mode: &variables.mode,
        scratch,
        changing: None,
    };
    plan(text, &asked).map_err(|unanswered| match unanswered {
        Unanswered::Unknown(why) => refused(why),
        Unanswered::Disabled(shard) => (error::SHARD_DISABLED, shard.to_string()),
    })
}
