//! ANALYZE, CHECK, OPTIMIZE and REPAIR TABLE: on all groups that have the tables, since each server
//! looks after its own rows. The client gets the rows of all groups, group by group.

use std::sync::Arc;

use dist_txn::end;
use execute::client::end::End;
use execute::execution::exec::{Job, Shape};
use execute::session::Session;
use execute::variables::session_variables::SessionVariables;
use farm::{Sharding, Snapshot};
use planner::place::Tables;
use planner::{Catalog, Kind, Merging};
use sqltext::Verb;

use super::{Where, refuse};
use crate::scatter;
use crate::scatter::{Part, Scatter, Wanted};

/// It commits what is open on every group.
const NO_GROUP: u32 = u32::MAX;

/// Runs it on all of them, to the answer.
pub(super) async fn keep_up(
    session: &mut Session,
    parts: Vec<Part>,
    shape: Shape,
    job: Job,
) -> Result<(), End> {
    if !end::commit_before(session, NO_GROUP).await? {
        return Ok(());
    }
    let scatter = Scatter {
        parts,
        answer: Wanted::Rows(Merging::default()),
        clock: false,
        carried: None,
    };
    scatter::scatter_alone(session, &scatter, shape, job).await
}

/// Where such a statement goes; `None` when it is none, or its tables are on one group only.
pub(super) fn upkeep(
    variables: &SessionVariables,
    text: &[u8],
    shape: &Shape,
    snapshot: &Snapshot,
    sharding: &Sharding,
) -> Option<Where> {
    let verbs = [
        Verb::AnalyzeTable,
        Verb::Check,
        Verb::Optimize,
        Verb::Repair,
    ];
    if !verbs.contains(&shape.verb) {
        return None;
    }
    let tables = Tables {
        sharding,
        home: &snapshot.home()?.name,
    };
    let session = String::from_utf8_lossy(variables.state.database().unwrap_or_default());
    let mut all: Option<Vec<Arc<str>>> = None;
    for name in sqltext::tables(text, &variables.mode) {
        let database = name.database.as_deref().map(String::from_utf8_lossy);
        let database = database.as_deref().unwrap_or(&session);
        let table = String::from_utf8_lossy(&name.name);
        let groups = match tables.table(database, &table) {
            Kind::Single { group } => vec![group.clone()],
            Kind::Global { map } => sharding.map(map)?.groups.clone(),
            Kind::Sharded(table) => sharding.map(table.map)?.groups.clone(),
            Kind::Opaque => return None,
        };
        match &all {
            Some(first) if *first != groups => {
                return Some(refuse(
                    "its tables are not all on the same groups: name them in statements of their own",
                ));
            }
            _ => all = Some(groups),
        }
    }
    let groups = all.filter(|groups| groups.len() > 1)?;
    let part = |group| Part {
        group,
        text: text.to_vec(),
    };
    Some(Where::Upkeep(groups.into_iter().map(part).collect()))
}
