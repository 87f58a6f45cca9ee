//! Where a text of several statements goes: to the group that all of them are for, or one by one.

use execute::connections::group_connections::GroupConnections;
use execute::execution::exec::Job;
use execute::per_core::Core;
use execute::prepared::statements::PreparedStatements;
use execute::session::context::StatementContext;
use execute::variables::session_variables::SessionVariables;
use farm::{Sharding, Snapshot};
use mysql_wire::capability::Capabilities;
use planner::place::{Literals, Spot};
use sqltext::Facts;

use super::{Where, group, is_planned};
use crate::place::{self, names};

/// Where a text of several statements goes.
pub(crate) fn place_several(
    context: &StatementContext<'_>,
    text: &[u8],
    job: Job,
    snapshot: &Snapshot,
    sharding: &Sharding,
) -> Where {
    let flags = context.user.identity.pass.profile().flags;
    let allowed = flags.contains(Capabilities::MULTI_STATEMENTS);
    if !allowed || !matches!(job, Job::Frame(_)) {
        // To a server this is one statement, which is wrong.
        return Where::Stay;
    }
    let xa = context.core.shape(text, &context.variables.mode).facts.contains(Facts::XA);
    if context.transaction.dist_txn.is_some() || xa {
        return Where::Several;
    }
    let mut all = Where::Stay;
    for span in sqltext::statements(text, &context.variables.mode) {
        match (
            place_one(
                context.core,
                context.variables,
                context.connections,
                context.prepared,
                span.of(text),
                snapshot,
                sharding,
            ),
            &all,
        ) {
            (Where::Stay, _) => {}
            (first @ Where::Group(_), Where::Stay) => all = first,
            (Where::Group(one), Where::Group(other)) if one.name == other.name => {}
            _ => return Where::Several,
        }
    }
    all
}

/// Where one of several statements goes.
fn place_one(
    core: &Core,
    variables: &SessionVariables,
    connections: &GroupConnections,
    prepared: &PreparedStatements,
    text: &[u8],
    snapshot: &Snapshot,
    sharding: &Sharding,
) -> Where {
    let shape = core.shape(text, &variables.mode);
    if !is_planned(&shape) {
        return names::place_by_names(
            variables,
            connections,
            prepared,
            text,
            &shape,
            snapshot,
            sharding,
        );
    }
    let Some(plan) = place::make_plan(variables, text, &shape, snapshot, sharding) else {
        return Where::Stay;
    };
    let slots = sqltext::slots(text, &variables.mode);
    let spans: Vec<_> = slots.iter().map(|slot| slot.span).collect();
    let literals = Literals {
        text,
        spans: &spans,
        mode: &variables.mode,
        utf8: variables.is_utf8(),
    };
    match plan.spot(&place::statement_of(variables, text, &literals), sharding) {
        Spot::Group(name) => group(&name, snapshot),
        Spot::Anywhere | Spot::AnyOf(_) => Where::Stay,
        _ => Where::Several,
    }
}
