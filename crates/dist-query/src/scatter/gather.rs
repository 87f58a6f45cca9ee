//! A SELECT over rows that are fetched first: the rows of each table go from the groups into temporary
//! tables of a scratch server, a piece at a time, and the statement runs there.
//!
//! Rows are fetched on the session's own connections, so that a transaction sees what it wrote, and an
//! account gets what it may see.

mod flow;

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use backend::{ConnectionError, Lease, PoolError, Questions};
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
use execute::scratch::ScratchServer;
use execute::session::{self, Session};
use execute::variables::session_variables::SessionVariables;
use farm::{ServerId, error};
use mysql_wire::relay::Outcome;
use planner::{Answer, Finish, Merging, Scratch, Volume};

use self::flow::{pull, take_up};
use super::broadcast::Carried;
use super::broadcast::begun::Begun;
use super::feed::{Feed, Order};
use super::feeds::Feeds;
use super::filling::Filling;
use super::parts::prepare_on;
use super::pour::{Fetched, Stop};
use super::reduce::Known;
use super::result_writer::{Form, ResultWriter};
use super::rows::Trouble;
use super::scratch_lease::{Awaited, ScratchLease};
use super::tell::say_where;
use crate::learned;
use crate::scatter::{self, gathered, reduce, rows, scratch_lease, stop};

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

/// Runs a SELECT that is gathered, to its answer, with what has been fetched of it already.
pub(crate) async fn gather(
    session: &mut Session,
    answer: &Answer,
    begun: Begun,
    shape: Shape,
    job: Job,
) -> Result<(), End> {
    gather_carrying(session, answer, (None, begun), shape, job).await.map(drop)
}

/// The same with tables that the groups are given. False: a group refused that, and the client has not been told.
pub(super) async fn gather_carrying(
    session: &mut Session,
    answer: &Answer,
    (carried, mut begun): (Option<Rc<Carried>>, Begun),
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
        let bounds = session.core.settings().gathering;
        let mut fetched = Fetched::new(bounds, deadline_us, described_text(session, job));
        let begun = std::mem::take(&mut begun);
        let tried = session.core.shared.scratch.server();
        let lease = Box::pin(scratch_lease::scratch_lease(session, &scratch, &run, on_farm)).await;
        let mut scratch_lease = match lease {
            Ok(scratch_lease) => scratch_lease,
            Err(why) => {
                let again = may_come(session, begun, &run, (on_farm, tried), why);
                if !Box::pin(again).await? {
                    return Ok(true);
                }
                session.run.profile.once_more();
                continue;
            }
        };
        scratch_lease.takes_files &= by_file;
        let step = fetch_all(
            session,
            (answer, &carried, begun),
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
                    Step::Answered | Step::Done | Step::TurnedBack => {
                        learn(session, answer, &fetched);
                        return Ok(true);
                    }
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

/// The next statement of the shape knows what this one moved, where all of it was fetched here.
fn learn(session: &Session, answer: &Answer, fetched: &Fetched) {
    if let Some(result) = fetched.result.filter(|_| !fetched.volumes.is_empty()) {
        let (core, variables) = (&session.core, &session.variables);
        learned::learn_gathered(core, variables, answer, &fetched.volumes, result);
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
    (answer, carried, mut begun): (&Answer, &Option<Rc<Carried>>, Begun),
    scratch: &Scratch,
    scratch_lease: &mut ScratchLease,
    fetched: &mut Fetched,
    run: &mut Run,
    avoid: &mut Vec<ServerId>,
) -> Result<Step, End> {
    let mut known = Known::default();
    let mut volumes = vec![Volume::default(); answer.fragments.len()];
    let several = carried.is_none() && answer.fragments.len() > 1;
    let learns = begun.is_empty() && several;
    if let Some(described) = begun.described.take() {
        fetched.take_up(described);
    }
    // Tables that were sent are told of first.
    let sent = carried.as_ref().map_or(0, |it| it.creates.len());
    let order = begun.order(&scratch.order);
    for (place, &at) in order.iter().enumerate() {
        let left = &order[place + 1..];
        let (rows, bytes) = (fetched.rows, fetched.bytes);
        let (first_part, began) = (session.run.profile.parts.len(), Instant::now());
        let filling = Filling::new(&scratch.tables[at], scratch_lease.takes_files)
            .seeing(reduce::columns(scratch, at, left));
        let mut by_values = false;
        let step = if let Some(table) = begun.take(at) {
            let is_open = table.open.is_some();
            let step = take_up(session, table, filling, scratch_lease, fetched, run, avoid);
            (Box::pin(step).await?, is_open)
        } else if let Some(asked) = known.reduced(&answer.fragments[at], &scratch.reduced[at]) {
            by_values = asked.by_values;
            let fragments = asked.fragments(&session.core, &session.variables);
            let asked = (&fragments[..], carried);
            let step = pull(session, asked, filling, scratch_lease, fetched, run, avoid);
            (Box::pin(step).await?, true)
        } else {
            let connection = scratch_lease.lease.connection_mut();
            known.learn(scratch, (at, 0), left, (Vec::new(), connection)).await;
            continue;
        };
        match step {
            (Step::Done, true) => session.run.profile.fetched(sent + at, first_part, began),
            (Step::Done, false) => {}
            (other, _) => return Ok(other),
        }
        volumes[at] = Volume {
            rows: fetched.rows - rows,
            bytes: fetched.bytes - bytes,
        };
        if !by_values && several {
            let whole = scratch.reduced[at].alone(&answer.fragments[at]);
            learned::learn_whole(&session.core, &session.variables, &whole, volumes[at]);
        }
        let connection = scratch_lease.lease.connection_mut();
        let seen = std::mem::take(&mut fetched.seen);
        known.learn(scratch, (at, volumes[at].rows), left, (seen, connection)).await;
    }
    if learns {
        fetched.volumes = volumes;
    }
    session.core.counters.gathered_rows.fetch_add(fetched.rows, Ordering::Relaxed);
    Ok(Step::Done)
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
    fetched.result = trouble.is_none().then_some(Volume {
        rows: result_writer.rows,
        bytes: feed.row_bytes,
    });
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

/// There was no connection for the tables: whether there may be one now. False: the client has been told why not.
async fn may_come(
    session: &mut Session,
    begun: Begun,
    run: &Run,
    (on_farm, tried): (bool, Option<Arc<ScratchServer>>),
    why: PoolError,
) -> Result<bool, End> {
    // What is under way may keep the connection that is wanted.
    if begun.give_up(session, run).await {
        return Ok(true);
    }
    if is_denied(&why) && !on_farm {
        match scratch_lease::await_own(session, &run.shape, tried).await? {
            Awaited::Came => return Ok(true),
            Awaited::Told => return Ok(false),
            Awaited::Never => {}
        }
    }
    tell_scratch(&mut session.client, why, true).await.map(|()| false)
}

fn is_denied(why: &PoolError) -> bool {
    matches!(
        why,
        PoolError::Connection(ConnectionError::Refused { number, .. }) if DENIED.contains(number)
    )
}

/// The scratch server does not do its part. `making`: its tables could not be made.
async fn tell_scratch(client: &mut Client, why: PoolError, making: bool) -> Result<(), End> {
    let denied = making && is_denied(&why);
    match why {
        PoolError::Connection(ConnectionError::Refused {
            number,
            sqlstate,
            message,
        }) => {
            if denied {
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
