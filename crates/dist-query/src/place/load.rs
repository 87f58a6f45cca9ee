//! LOAD DATA into tables on several groups.

use execute::execution::exec::{Job, Shape};
use execute::variables::session_variables::SessionVariables;
use farm::{Sharding, Snapshot, error};
use planner::load::{Loading, load};
use sqltext::Verb;

use super::{Where, refuse};
use crate::place::of_session;

/// Where a LOAD DATA goes; `None` for other statements, and for one into a table of one group.
pub(super) fn place_load(
    variables: &SessionVariables,
    shape: &Shape,
    text: &[u8],
    job: Job,
    snapshot: &Snapshot,
    sharding: &Sharding,
) -> Option<Where> {
    if shape.verb != Verb::LoadData {
        return None;
    }
    let database = String::from_utf8_lossy(variables.state.database().unwrap_or_default());
    let sql_mode = variables.state.variable("sql_mode").unwrap_or_default();
    let sql_mode = String::from_utf8_lossy(sql_mode);
    let asked = Loading {
        sharding,
        home: &snapshot.home()?.name,
        database: &database,
        mode: &variables.mode,
        zero_is_value: of_session::keeps_zeros(variables),
        strict: sql_mode.is_empty() || sql_mode.contains("STRICT_"),
    };
    match (load(text, &asked), job) {
        (Ok(None), _) => None,
        (Err(refusal), _) => Some(Where::Refuse(refusal.error, refusal.detail)),
        (Ok(Some(_)), Job::Execute(_)) => {
            Some(refuse("a prepared LOAD DATA cannot be split over groups: send it as text"))
        }
        (Ok(Some(_)), _) if !variables.is_utf8() && !text.is_ascii() => Some(Where::Refuse(
            error::NOT_OVER_GROUPS,
            "its text is not UTF-8; use SET NAMES utf8mb4".to_owned(),
        )),
        (Ok(Some(plan)), _) => Some(Where::Load(Box::new(plan))),
    }
}
