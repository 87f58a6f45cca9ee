//! Texts of several statements: one group runs a text that is for it alone; else they run one after the
//! other, each where its tables are, and their answers are sent as those to one text.

use farm::{Sharding, Snapshot};
use mysql_wire::capability::Capabilities;
use mysql_wire::packet;
use planner::place::{Literals, Spot};
use sqltext::{Facts, Verb};

use super::{Where, group, is_planned};
use crate::client::answer::Answers;
use crate::client::end::End;
use crate::client::request::Request;
use crate::connections::group_connections::GroupConnections;
use crate::execution::exec::{Job, Shape, text_shape};
use crate::per_core::Core;
use crate::place::{self, names};
use crate::prepared::statements::PreparedStatements;
use crate::session::Session;
use crate::session::context::StatementContext;
use crate::variables::session_variables::SessionVariables;

/// Runs the statements of the client's text one after the other, up to the first that fails.
pub(super) async fn run_several(session: &mut Session) -> Result<(), End> {
    let text = packet::joined(session.client.request.frame()).split_off(1);
    let statements = sqltext::statements(&text, &session.variables.mode);
    let interrupted = session.client.begin_series();
    let mut done = Ok(());
    for (at, span) in statements.iter().enumerate() {
        let request = Request::query(span.of(&text));
        session.client.play_next(request, at + 1 < statements.len());
        done = run_one(session).await;
        if done.is_err() || session.client.series_failed() {
            break;
        }
    }
    session.client.end_series(interrupted);
    done
}

/// Runs a text in place of the client's command: what it answers is the command's answer.
pub(super) async fn run_instead(session: &mut Session, text: &[u8]) -> Result<(), End> {
    let interrupted = session.client.begin_series();
    session.client.play_next(Request::query(text), false);
    let done = Box::pin(run_one(session)).await;
    session.client.end_series(interrupted);
    done
}

async fn run_one(session: &mut Session) -> Result<(), End> {
    let mut shape: Shape =
        text_shape::query_shape(&session.core, &session.client.request, &session.variables);
    if shape.facts.contains(Facts::CONNECTION_ID) {
        text_shape::identify(
            &session.core,
            &session.handle,
            &mut session.client.request,
            &session.variables,
            &mut shape,
        );
    }
    if shape.verb == Verb::LoadData && shape.facts.contains(Facts::LOCAL_INFILE) {
        let why = "LOAD DATA LOCAL cannot stand in a text of statements for several groups: send it by itself";
        let error = farm::error::NOT_OVER_GROUPS;
        return session.client.error(&error, &[why]).await;
    }
    Box::pin(session.run_query(shape)).await
}

impl StatementContext<'_> {
    /// Where a text of several statements goes.
    pub(crate) fn place_several(
        &self,
        text: &[u8],
        job: Job,
        snapshot: &Snapshot,
        sharding: &Sharding,
    ) -> Where {
        let flags = self.user.identity.pass.profile().flags;
        let allowed = flags.contains(Capabilities::MULTI_STATEMENTS);
        if !allowed || !matches!(job, Job::Frame(_)) {
            // To a server this is one statement, which is wrong.
            return Where::Stay;
        }
        let xa = self.core.shape(text, &self.variables.mode).facts.contains(Facts::XA);
        if self.transaction.dist_txn.is_some() || xa {
            return Where::Several;
        }
        let mut all = Where::Stay;
        for span in sqltext::statements(text, &self.variables.mode) {
            match (
                place_one(
                    self.core,
                    self.variables,
                    self.connections,
                    self.prepared,
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
    let Some(plan) = variables.make_plan(text, &shape, snapshot, sharding) else {
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
