//! A SELECT over rows that are fetched first: the rows of each table go from the groups into temporary
//! tables of a scratch server, a piece at a time, and the statement runs there.
//!
//! Rows are fetched on the session's own connections, so that a transaction sees what it wrote, and an
//! account gets what it may see.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use backend::{ConnectionError, Lease, PoolError, Questions};
use dist_txn::own::drop_across;
use execute::client::Client;
use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::refuse::ServerRefusal;
use execute::consistency::reads;
use execute::execution::attempt;
use execute::execution::exec::{Job, Run, Shape};
use execute::execution::statement_run::clock;
use execute::per_core::Core;
use execute::prepared::bound;
use execute::session::{self, Session, is_free};
use execute::variables::session_variables::SessionVariables;
use farm::{ServerId, error};
use mysql_wire::relay::Outcome;
use planner::{Answer, Finish, Merging, Scratch};

use super::broadcast::{self, Carried};
use super::feed::{Feed, Order};
use super::feeds::Feeds;
use super::filling::Filling;
use super::parts::{Done, prepare_on};
use super::pour::{Fetched, Stop};
use super::reduce::Known;
use super::result_writer::{Described, Form, ResultWriter};
use super::rows::Trouble;
use super::scratch_lease::ScratchLease;
use super::tell::say_where;
use super::{Scatter, Word};
use crate::scatter::{self, gathered, reduce, rows, sift, stop};
use crate::scatter::{parts, pour, scratch_lease};

/// A function that only the farm's own servers have: there is none, there is none and it is no word of
/// the language, the scratch server's account may not run any.
const NO_FUNCTION: [u16; 3] = [1305, 1630, 1370];
/// MySQL before 8.0.13 takes it for a table that an account needs rights on all databases for.
const JSON_TABLE: &[u8] = b"JSON_TABLE";
/// A statement ran for longer than it may: MariaDB's number, MySQL's.
const TOO_LONG: [u16; 2] = [1969, 3024];
/// The account may not do it, on this database, table, column.
const DENIED: [u16; 4] = [1044, 1142, 1143, 1227];

/// What became of a step.
enum Step {
    Done,
    /// From the beginning again.
    Again,
    /// The same, with tables that have no unique keys.
    Loosen,
    /// The same, by INSERTs alone.
    Insert,
    /// A group refused the statement with the tables that it was given. The client has not been told.
    TurnedBack,
    /// The client has its answer.
    Answered,
}

/// The statement has run over the tables.
struct Ran {
    feed: Feed,
    result_writer: ResultWriter,
    trouble: Option<Trouble>,
    is_own: bool,
    /// The time is over.
    late: bool,
}

/// Runs a SELECT that is gathered, to its answer.
pub(crate) async fn gather(
    session: &mut Session,
    answer: &Answer,
    shape: Shape,
    job: Job,
) -> Result<(), End> {
    gather_carrying(session, answer, None, shape, job).await.map(drop)
}

/// The same with tables that the groups are given. False: a group refused that, and the client has not been told.
pub(super) async fn gather_carrying(
    session: &mut Session,
    answer: &Answer,
    carried: Option<Rc<Carried>>,
    shape: Shape,
    job: Job,
) -> Result<bool, End> {
    let Finish::Scratch(scratch) = &answer.finish else {
        return Ok(true);
    };
    session.run.recording = None;
    let mut run = reads::new_run(session, shape, job);
    let mut avoid = Vec::new();
    let deadline_us = deadline_us(&session.core);
    let mut on_farm = gathered::needs_farm(&scratch.text);
    let mut by_file = true;
    let mut scratch = Cow::Borrowed(scratch);
    loop {
        let mut fetched = Fetched {
            rows: 0,
            bytes: 0,
            bounds: session.core.settings().gathering,
            deadline_us,
            text: described_text(session, job),
            described: Described::default(),
        };
        let lease = Box::pin(scratch_lease::scratch_lease(session, &scratch, &run, on_farm)).await;
        let mut scratch_lease = match lease {
            Ok(scratch_lease) => scratch_lease,
            Err(why) => return tell_scratch(&mut session.client, why, true).await.map(|()| true),
        };
        scratch_lease.takes_files &= by_file;
        let step = fetch_all(
            session,
            (answer, &carried),
            &scratch,
            &mut scratch_lease,
            &mut fetched,
            &mut run,
            &mut avoid,
        );
        match Box::pin(step).await {
            Ok(Step::Done) => {
                let step = finish_gather(session, &scratch, scratch_lease, &run, &mut fetched);
                match Box::pin(step).await? {
                    Step::Again | Step::Loosen | Step::Insert => on_farm = true,
                    Step::Answered | Step::Done | Step::TurnedBack => return Ok(true),
                }
            }
            other => {
                scratch_lease::clear(&session.variables, scratch_lease, &scratch).await;
                match other? {
                    Step::Answered => return Ok(true),
                    Step::TurnedBack => return Ok(false),
                    Step::Loosen => scratch = Cow::Owned(scratch.loosened()),
                    Step::Insert => by_file = false,
                    Step::Again | Step::Done => {}
                }
            }
        }
        session.run.profile.once_more();
    }
}

/// When a gather that begins now has to be over; `None` without a bound.
fn deadline_us(core: &Core) -> Option<u64> {
    let limit_us = Some(core.settings().gathering.time_max_ms * 1000).filter(|limit| *limit > 0);
    limit_us.map(|limit| core.now_us() + limit)
}

/// The text whose columns the client expects: with its parameters, since they name columns.
pub(super) fn described_text(session: &Session, job: Job) -> Option<Vec<u8>> {
    match job {
        Job::Execute(id) => Some(session.prepared.statement_text(id).to_vec()),
        _ => bound::text_of(&session.context(), job),
    }
}

/// Fills all tables.
async fn fetch_all(
    session: &mut Session,
    (answer, carried): (&Answer, &Option<Rc<Carried>>),
    scratch: &Scratch,
    scratch_lease: &mut ScratchLease,
    fetched: &mut Fetched,
    run: &mut Run,
    avoid: &mut Vec<ServerId>,
) -> Result<Step, End> {
    let mut known = Known::default();
    for (place, &at) in scratch.order.iter().enumerate() {
        let reduced = &scratch.reduced[at];
        let left = &scratch.order[place + 1..];
        let Some((fragment, narrows)) = known.reduced(&answer.fragments[at], reduced) else {
            let connection = scratch_lease.lease.connection_mut();
            known.learn(scratch, (at, 0), left, connection).await;
            continue;
        };
        let fragment = match narrows {
            true => reduce::narrowed(&session.core, &session.variables, fragment),
            false => fragment,
        };
        let mut scatter = gathered::pulled(&fragment);
        scatter.carried.clone_from(carried);
        if let Err(why) = sift::sift(&session.core, &session.variables, &mut scatter.parts) {
            session.client.error(&error::NOT_OVER_GROUPS, &[&why]).await?;
            return Ok(Step::Answered);
        }
        let before = fetched.rows;
        let (first_part, began) = (session.run.profile.parts.len(), Instant::now());
        if !scatter.parts.is_empty() {
            let filling = Filling::new(&scratch.tables[at], scratch_lease.takes_files);
            let step = fill(session, &scatter, filling, scratch_lease, fetched, run, avoid);
            match Box::pin(step).await? {
                Step::Done => {}
                other => return Ok(other),
            }
        }
        // Tables that were sent are told of first.
        let sent = carried.as_ref().map_or(0, |it| it.creates.len());
        session.run.profile.fetched(sent + at, first_part, began);
        let rows = fetched.rows - before;
        let connection = scratch_lease.lease.connection_mut();
        known.learn(scratch, (at, rows), left, connection).await;
    }
    session.core.counters.gathered_rows.fetch_add(fetched.rows, Ordering::Relaxed);
    Ok(Step::Done)
}

/// What follows a try that failed: another one, or nothing, since the client has its answer.
fn tried(again: bool) -> Step {
    match again {
        true => Step::Again,
        false => Step::Answered,
    }
}

/// Fills one table.
async fn fill(
    session: &mut Session,
    scatter: &Scatter,
    mut filling: Filling<'_>,
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
    let mut feeds = parts::start_parts(session, scatter, &mut taken, run, false);
    let is_unique = filling.loader.part.loose.is_some();
    let connection = scratch_lease.lease.connection_mut();
    let stop = pour::pour(&session.core, &mut feeds, &mut filling, connection, fetched).await;
    leave(&session.core, &mut filling, scratch_lease).await;
    stop::end_feeds(&session.core, &session.handle, &mut feeds, stop.is_err()).await;
    clock::end_attempt(&session.handle, &mut session.run);
    session.handle.at_servers.running_elsewhere.borrow_mut().clear();
    let mut done = Done::of(taken, feeds, &mut session.run.profile);
    done.drop_carried(scatter).await;
    match stop {
        Ok(()) => {
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
            tell_stop(&session.core, &mut session.client, other).await?;
            Ok(Step::Answered)
        }
    }
}

/// Runs the statement over the tables.
async fn finish_gather(
    session: &mut Session,
    scratch: &Scratch,
    scratch_lease: ScratchLease,
    run: &Run,
    fetched: &mut Fetched,
) -> Result<Step, End> {
    let ScratchLease {
        mut lease, is_own, ..
    } = scratch_lease;
    let left = fetched.left(&session.core);
    let left_ms = left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1));
    let tables = scratch.tables.len();
    if let Err(why) =
        scratch_lease::set_to_work(&session.variables, lease.connection_mut(), tables, left_ms)
            .await
    {
        tell_scratch(&mut session.client, why.into(), false).await?;
        return Ok(Step::Answered);
    }
    let prepared = match session.prepared.wants_digits(run.job) {
        true => prepare_on(&mut lease, scratch.text.as_bytes()).await,
        false => None,
    };
    attempt::begin_attempt(session, lease.connection(), run);
    let order = Order {
        prepared,
        text: scratch.text.clone().into_bytes(),
        ..Order::default()
    };
    let feed = Feed::start(lease, &order, session.core.take_buffer());
    let mut feeds = Feeds {
        all: vec![feed],
        clocked: false,
    };
    let form = match run.job {
        Job::Execute(_) => Form::Binary,
        Job::Frame(_) | Job::Prepare(_) => Form::Text,
    };
    let mut result_writer = ResultWriter::new(form, session.client.capabilities);
    result_writer.describe(std::mem::take(&mut fetched.described));
    let trouble = scatter::rows::scatter_rows(
        &mut session.client,
        &session.variables,
        &session.transaction,
        &mut session.run,
        &mut feeds,
        &Merging::default(),
        &mut result_writer,
    )
    .await?
    .err();
    stop::end_feeds(&session.core, &session.handle, &mut feeds, trouble.is_some()).await;
    clock::end_attempt(&session.handle, &mut session.run);
    let Some(feed) = feeds.all.pop() else {
        return Ok(Step::Answered);
    };
    let ran = Ran {
        feed,
        result_writer,
        trouble,
        is_own,
        late: left_ms.is_some() && fetched.left(&session.core).is_some_and(|left| left.is_zero()),
    };
    end_gather(session, scratch, ran, run).await
}

/// Tells the client how it ended, and takes the tables away.
async fn end_gather(
    session: &mut Session,
    scratch: &Scratch,
    ran: Ran,
    run: &Run,
) -> Result<Step, End> {
    let Ran {
        mut feed,
        mut result_writer,
        trouble,
        is_own,
        late,
    } = ran;
    let mut refusal = feed.refusal.take();
    if let (Some(refusal), Some(database)) = (&mut refusal, session.variables.state.database()) {
        say_where(refusal, database);
    }
    let error = refusal.as_ref().map(|it| it.number);
    let mut outcome = Outcome {
        status: Some(session.variables.status),
        warnings: feed.outcome.warnings,
        has_rows: trouble.is_none(),
        rows: result_writer.rows,
        ..Outcome::default()
    };
    outcome.error = error;
    let (lease, buffer) = feed.finish();
    session.core.give_buffer(buffer);
    let mut scratch_lease = lease.map(|lease| ScratchLease {
        lease,
        is_own,
        takes_files: false,
    });
    let is_number = |numbers: &[u16]| error.is_some_and(|it| numbers.contains(&it));
    let not_there =
        is_number(&NO_FUNCTION) || is_number(&DENIED) && gathered::names(&scratch.text, JSON_TABLE);
    if is_own && !result_writer.begun && not_there {
        if let Some(scratch_lease) = scratch_lease {
            scratch_lease::clear(&session.variables, scratch_lease, scratch).await;
        }
        return Ok(Step::Again);
    }
    session.run.number += 1;
    session.run.profile.told(&outcome);
    session.variables.diagnostics.note(&run.shape, &outcome, session.variables.mode.dialect);
    let questions = Questions {
        warnings: outcome.warnings > 0,
        found_rows: error.is_none() && session.variables.diagnostics.counted(&run.shape),
        ..Questions::default()
    };
    if let Some(scratch_lease) = scratch_lease.as_mut().filter(|_| !questions.is_empty()) {
        ask(&mut session.variables, &mut scratch_lease.lease, &questions).await;
    }
    // The session's own bound is told of by the server.
    if late && is_number(&TOO_LONG) {
        rows::flush(&mut session.client, &mut session.run, &mut result_writer).await?;
        session.client.sequence = result_writer.sequence;
        tell_late(&session.core, &mut session.client).await?;
    } else {
        tell_gathered(session, result_writer, outcome.warnings, trouble, refusal).await?;
    }
    if let Some(scratch_lease) = scratch_lease {
        scratch_lease::clear(&session.variables, scratch_lease, scratch).await;
    }
    Ok(Step::Answered)
}

/// Ends the client's result.
async fn tell_gathered(
    session: &mut Session,
    mut result_writer: ResultWriter,
    warnings: u16,
    trouble: Option<Trouble>,
    refusal: Option<ServerRefusal>,
) -> Result<(), End> {
    match trouble {
        None => {
            result_writer
                .end(session::status_now(&session.variables, &session.transaction), warnings);
            rows::flush(&mut session.client, &mut session.run, &mut result_writer).await
        }
        Some(trouble) => {
            rows::flush(&mut session.client, &mut session.run, &mut result_writer).await?;
            session.client.sequence = result_writer.sequence;
            match (trouble, refusal) {
                (_, Some(refusal)) => session.client.pass_refusal(&refusal).await,
                (Trouble::Odd(why), None) => {
                    session.client.error(&error::PARTS_DIFFER, &[&why]).await
                }
                _ => {
                    let details = ["of the scratch tables"];
                    session.client.error(&error::SERVER_LOST, &details).await
                }
            }
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

/// Rows could not be put into their table.
async fn tell_stop(core: &Core, client: &mut Client, stop: Stop) -> Result<(), End> {
    match stop {
        Stop::Bound(name, most) => {
            let most = most.to_string();
            let details = [name, &*most];
            client.error(&error::GATHER_TOO_LARGE, &details).await
        }
        Stop::Late => tell_late(core, client).await,
        Stop::Scratch(why) => tell_scratch(client, why.into(), false).await,
        Stop::Groups(_) | Stop::Inexact => Ok(()),
    }
}

async fn tell_late(core: &Core, client: &mut Client) -> Result<(), End> {
    let most_ms = core.settings().gathering.time_max_ms.to_string();
    client.error(&error::GATHER_TOO_LONG, &[&most_ms]).await
}

/// Before the tables are taken away, which forgets them.
async fn ask(variables: &mut SessionVariables, lease: &mut Lease, questions: &Questions) {
    if let Ok(mut residue) = lease.connection_mut().residue(questions).await {
        variables.diagnostics.learn(&mut residue);
    }
}

/// The scratch server does not do its part. `making`: its tables could not be made.
async fn tell_scratch(client: &mut Client, why: PoolError, making: bool) -> Result<(), End> {
    match why {
        PoolError::Connection(ConnectionError::Refused {
            number,
            sqlstate,
            message,
        }) => {
            if making && DENIED.contains(&number) {
                let message = String::from_utf8_lossy(&message);
                return client.error(&error::GATHER_DENIED, &[&message]).await;
            }
            let refusal = ServerRefusal {
                number,
                sqlstate,
                message,
            };
            client.pass_refusal(&refusal).await
        }
        PoolError::Connection(other) => {
            let why = other.to_string();
            client.error(&error::GATHER_FAILED, &[&why]).await
        }
        PoolError::WaitTimeout { .. } => {
            let why = "no connection came free";
            client.error(&error::GATHER_FAILED, &[why]).await
        }
    }
}
