//! One table of a gather on its way into its scratch table: rows that came before, and those that come.

use std::rc::Rc;

use dist_txn::Across;
use dist_txn::own::drop_across;
use execute::client::answer::Answers;
use execute::client::end::End;
use execute::execution::exec::Run;
use execute::execution::statement_run::clock;
use execute::per_core::Core;
use execute::session::{Session, is_free};
use farm::{ServerId, error};
use planner::Fragment;

use super::Step;
use crate::scatter::broadcast::begun::{Open, Table, pour_begun};
use crate::scatter::broadcast::carried::Loading;
use crate::scatter::broadcast::{self, Carried};
use crate::scatter::feeds::Feeds;
use crate::scatter::filling::Filling;
use crate::scatter::parts::{self, Done, Taken};
use crate::scatter::pour::{self, Fetched, Stop};
use crate::scatter::result_writer::{Form, ResultWriter};
use crate::scatter::scratch_lease::ScratchLease;
use crate::scatter::{self, Scatter, Word, gathered, sift, stop};

/// Fills a table with the rows of fragments, which are for different groups.
pub(super) async fn pull(
    session: &mut Session,
    (fragments, carried): (&[Fragment], &Option<Rc<Carried>>),
    filling: Filling<'_>,
    scratch_lease: &mut ScratchLease,
    fetched: &mut Fetched,
    run: &mut Run,
    avoid: &mut Vec<ServerId>,
) -> Result<Step, End> {
    let mut all = fragments.iter().map(gathered::pulled);
    let Some(mut scatter) = all.next() else {
        return Ok(Step::Done);
    };
    scatter.parts.extend(all.flat_map(|it| it.parts));
    scatter.carried.clone_from(carried);
    if let Err(why) = sift::sift(&session.core, &session.variables, &mut scatter.parts) {
        session.client.error(&error::NOT_OVER_GROUPS, &[&why]).await?;
        return Ok(Step::Answered);
    }
    match scatter.parts.is_empty() {
        true => Ok(Step::Done),
        false => fill(session, &scatter, filling, scratch_lease, fetched, run, avoid).await,
    }
}

/// The same with rows that have come already, and those that are on their way.
pub(super) async fn take_up(
    session: &mut Session,
    table: Table,
    filling: Filling<'_>,
    scratch_lease: &mut ScratchLease,
    fetched: &mut Fetched,
    run: &mut Run,
    avoid: &mut Vec<ServerId>,
) -> Result<Step, End> {
    let open = table.open.map_or_else(Open::over, |open| *open);
    let flow = Flow {
        taken: open.taken,
        feeds: open.feeds,
        across: None,
        before: Some(table.rows),
    };
    let asked = (&open.scatter, flow);
    flow_in(session, asked, filling, scratch_lease, fetched, run, avoid).await
}

/// What follows a try that failed: another one, or nothing, since the client has its answer.
fn tried(again: bool) -> Step {
    match again {
        true => Step::Again,
        false => Step::Answered,
    }
}

/// The rows of one table on their way.
struct Flow {
    taken: Vec<Taken>,
    feeds: Feeds,
    across: Option<Across>,
    /// Rows that have come before.
    before: Option<Loading>,
}

/// Fills one table.
async fn fill(
    session: &mut Session,
    scatter: &Scatter,
    filling: Filling<'_>,
    scratch_lease: &mut ScratchLease,
    fetched: &mut Fetched,
    run: &mut Run,
    avoid: &mut Vec<ServerId>,
) -> Result<Step, End> {
    let mut across = None;
    if run.shape.writes
        || session.transaction.dist_txn.is_some()
        || !is_free(session.variables.status)
    {
        let (shape, job) = (run.shape, run.job);
        across = match Box::pin(scatter::begin_scatter(session, scatter, &shape, job)).await? {
            Some(across) => Some(across),
            None => return Ok(Step::Answered),
        };
    }
    let mut taken = match parts::take_parts(session, scatter, run, avoid).await {
        Ok(taken) => taken,
        Err((group, stuck)) => {
            drop_across(session, across).await;
            let again = scatter::scatter_stuck(session, run, avoid, &group, stuck).await?;
            return Ok(tried(again));
        }
    };
    if let Some(first) = taken.first_mut() {
        fetched.describe(first.lease.as_mut()).await;
    }
    let feeds = parts::start_parts(session, scatter, &mut taken, run, false);
    let flow = Flow {
        taken,
        feeds,
        across,
        before: None,
    };
    flow_in(session, (scatter, flow), filling, scratch_lease, fetched, run, avoid).await
}

/// Puts the rows of one table into it.
async fn flow_in(
    session: &mut Session,
    (scatter, flow): (&Scatter, Flow),
    mut filling: Filling<'_>,
    scratch_lease: &mut ScratchLease,
    fetched: &mut Fetched,
    run: &mut Run,
    avoid: &mut Vec<ServerId>,
) -> Result<Step, End> {
    let Flow {
        taken,
        mut feeds,
        across,
        before,
    } = flow;
    let is_unique = filling.loader.part.loose.is_some();
    let connection = scratch_lease.lease.connection_mut();
    let begun = match &before {
        Some(rows) => pour_begun(rows, &mut filling, connection, fetched).await,
        None => Ok(()),
    };
    let poured = match begun {
        Ok(()) => pour::pour(&session.core, &mut feeds, &mut filling, connection, fetched).await,
        failed => failed,
    };
    leave(&session.core, &mut filling, scratch_lease).await;
    stop::end_feeds(&session.core, &session.handle, &mut feeds, poured.is_err()).await;
    clock::end_attempt(&session.handle, &mut session.run);
    session.handle.at_servers.running_elsewhere.borrow_mut().clear();
    let mut done = Done::of(taken, feeds, &mut session.run.profile);
    done.drop_carried(scatter).await;
    match poured {
        Ok(()) => {
            fetched.seen = std::mem::take(&mut filling.loader.seen);
            parts::commit_parts(session, &mut done, across).await;
            parts::leave_parts(session, run, done);
            Ok(Step::Done)
        }
        Err(Stop::Groups(trouble)) if broadcast::turns_back(scatter, &done, Some(&trouble)) => {
            parts::leave_parts(session, run, done);
            Ok(Step::TurnedBack)
        }
        Err(Stop::Groups(trouble)) => {
            parts::undo_parts(session, &mut done, run, across).await;
            let result_writer = ResultWriter::new(Form::Text, session.client.capabilities);
            let word = Word::Trouble(trouble);
            let closing = scatter::close_scatter(session, run, avoid, done, result_writer, word);
            Ok(tried(closing.await?))
        }
        Err(other) => {
            parts::undo_parts(session, &mut done, run, across).await;
            parts::leave_parts(session, run, done);
            if let Some(step) = once_more(&other, is_unique) {
                return Ok(step);
            }
            super::tell_stop(&session.core, &mut session.client, other).await?;
            Ok(Step::Answered)
        }
    }
}

/// A table is filled, or is not to be: its server can do something else.
async fn leave(core: &Core, filling: &mut Filling<'_>, scratch_lease: &mut ScratchLease) {
    filling.give_up(scratch_lease.lease.connection_mut()).await;
    if filling.refused {
        scratch_lease.takes_files = false;
        core.shared.scratch.refuse_files(core.now_s.get());
    }
}

/// How a table is filled after all that could not be filled so. `is_unique`: it has unique keys.
fn once_more(stop: &Stop, is_unique: bool) -> Option<Step> {
    match stop {
        Stop::Inexact => Some(Step::Insert),
        other => (is_unique && other.is_duplicate()).then_some(Step::Loosen),
    }
}
