//! One statement on several groups at once.
//!
//! Each group gets a text of its own, on the session's own connection to it where there is one, all at
//! the same time; what they answer becomes one answer: rows appended or merged as they come, with one
//! row or one receive buffer of each group in memory, or counts added up. Inside, everything is in the
//! text protocol; an EXECUTE of the client's gets binary rows.
//!
//! A part that fails ends the others. What was written outside transactions is committed on all groups
//! or on none; inside one, the statement is undone on the groups where it went well.

pub(crate) mod all_servers;
pub(crate) mod broadcast;
pub(crate) mod counts;
pub(crate) mod define;
pub(crate) mod feed;
pub(crate) mod feeds;
pub(crate) mod file;
pub(crate) mod filling;
pub(crate) mod gather;
pub(crate) mod gathered;
pub(crate) mod parts;
pub(crate) mod pour;
pub(crate) mod reduce;
pub(crate) mod result_writer;
pub(crate) mod rows;
pub(crate) mod scratch_lease;
pub(crate) mod sift;
pub(crate) mod stop;
pub(crate) mod tell;
pub(crate) mod warnings;

use std::rc::Rc;
use std::sync::Arc;

use backend::{PoolError, Residue};
use farm::{ServerId, error};
use planner::Merging;
use routing::Refusal;

use self::broadcast::Carried;
use self::counts::{Counts, Inserts};
use self::feeds::Feeds;
use self::parts::Done;
use self::result_writer::{Form, ResultWriter};
use self::rows::Trouble;

pub(crate) use define::{Defining, Definition};
use dist_txn::Across;
use dist_txn::own::{begin_across, drop_across};
use execute::client::answer::Answers;
use execute::client::end::End;
use execute::consistency::reads;
use execute::execution::exec::{Job, Run, Shape, Tried};
use execute::execution::statement_run::{StatementRun, clock};
use execute::per_core::handle::Handle;
use execute::session::{Session, is_free};
use execute::transaction::loss;

/// A statement for several groups.
#[derive(Clone, Debug)]
pub(crate) struct Scatter {
    /// No group has two.
    pub parts: Vec<Part>,
    pub answer: Wanted,
    /// The texts ask for the time, which must be the same on all servers.
    pub clock: bool,
    /// Tables that each group is given first.
    pub carried: Option<Rc<Carried>>,
}

/// What runs on one group.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub group: Arc<str>,
    pub text: Vec<u8>,
}

/// What becomes of the parts' answers.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    Rows(Merging),
    /// The same of XA RECOVER: without branches of Heddle's own.
    Prepared(Merging),
    /// The rows of a write, in the order of the rows that were written: the part of each, where it is
    /// known.
    Returned {
        turns: Vec<usize>,
        /// The parts do the same, to copies of the same rows: the first one's rows are the answer.
        same: bool,
    },
    /// The numbers of the OKs are added up. The session's LAST_INSERT_ID() becomes `insert_id`, where
    /// it is given.
    Counts {
        insert_id: Option<u64>,
        /// The parts do the same, to copies of the same rows: the first one's numbers are the answer.
        same: bool,
    },
}

impl Wanted {
    /// The parts do the same to copies of the same rows.
    fn is_same(&self) -> bool {
        match self {
            Wanted::Returned { same, .. } | Wanted::Counts { same, .. } => *same,
            Wanted::Rows(_) | Wanted::Prepared(_) => false,
        }
    }
}

/// Why a part has no connection.
enum Stuck {
    NoGroup,
    /// No server may run it.
    Refused(Refusal),
    /// The server gave none.
    Failed(Tried, PoolError),
    /// It is to be tried again at once.
    Again,
}

/// What the client is told at the end.
enum Word<'a> {
    /// The rows end.
    Rows {
        warnings: u16,
    },
    Counted(&'a Counts),
    Trouble(Trouble),
}

/// What became of one try.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attempt {
    /// It is to be tried again.
    Again,
    /// The client has been answered.
    Answered,
    /// The statement has to be answered in another way: a group refused it with the tables that it was given, or a
    /// list was too long to be merged. The client has not been told.
    Otherwise,
}

impl Attempt {
    fn of(again: bool) -> Attempt {
        match again {
            true => Attempt::Again,
            false => Attempt::Answered,
        }
    }
}

/// Runs the client's command on several groups, to its answer. False: it has none, and is to be answered in another
/// way.
pub(crate) async fn scatter_out(
    session: &mut Session,
    scatter: &Scatter,
    shape: Shape,
    job: Job,
) -> Result<bool, End> {
    session.run.recording = None;
    let mut run = reads::new_run(session, shape, job);
    let mut avoid = Vec::new();
    loop {
        let mut across = None;
        if shape.writes
            || session.transaction.dist_txn.is_some()
            || !is_free(session.variables.status)
        {
            across = match Box::pin(begin_scatter(session, scatter, &shape, job)).await? {
                Some(across) => Some(across),
                None => return Ok(true),
            };
        }
        match try_scatter(session, scatter, &mut run, &mut avoid, across).await? {
            Attempt::Again => session.run.profile.once_more(),
            Attempt::Answered => return Ok(true),
            Attempt::Otherwise => return Ok(false),
        }
    }
}

/// The same for a statement that commits by itself on each group.
pub(crate) async fn scatter_alone(
    session: &mut Session,
    scatter: &Scatter,
    mut shape: Shape,
    job: Job,
) -> Result<(), End> {
    session.run.recording = None;
    // There is no transaction that it could be undone in.
    shape.writes = false;
    let mut run = reads::new_run(session, shape, job);
    let mut avoid = Vec::new();
    while try_scatter(session, scatter, &mut run, &mut avoid, None).await? == Attempt::Again {
        session.run.profile.once_more();
    }
    Ok(())
}

/// All groups are in one transaction, the client's or the statement's own. `None`: the client has
/// been answered.
async fn begin_scatter(
    session: &mut Session,
    scatter: &Scatter,
    shape: &Shape,
    job: Job,
) -> Result<Option<Across>, End> {
    let snapshot = session.core.snapshot();
    let mut groups = Vec::with_capacity(scatter.parts.len());
    for part in &scatter.parts {
        match snapshot.group(&part.group) {
            Some(group) => groups.push(Arc::clone(group)),
            None => {
                let text = format!("the farm has no group {}", part.group);
                let details = [&*text];
                session.client.error(&error::COMMAND_REFUSED, &details).await?;
                return Ok(None);
            }
        }
    }
    begin_across(session, &groups, shape, job).await
}

/// Tries once.
async fn try_scatter(
    session: &mut Session,
    scatter: &Scatter,
    run: &mut Run,
    avoid: &mut Vec<ServerId>,
    across: Option<Across>,
) -> Result<Attempt, End> {
    let mut taken = match parts::take_parts(session, scatter, run, avoid).await {
        Ok(taken) => taken,
        Err((group, stuck)) => {
            drop_across(session, across).await;
            let stuck = scatter_stuck(session, run, avoid, &group, stuck).await;
            return stuck.map(Attempt::of);
        }
    };
    let marked = !across.as_ref().is_some_and(Across::is_own);
    parts::prepare_parts(&session.prepared, scatter, &mut taken, run.job).await;
    let mut feeds = parts::start_parts(session, scatter, &mut taken, run, marked);
    let form = match run.job {
        Job::Execute(_) => Form::Binary,
        Job::Frame(_) | Job::Prepare(_) => Form::Text,
    };
    let mut result_writer = ResultWriter::new(form, session.client.capabilities);
    if let Some(carried) = &scatter.carried {
        result_writer.describe(carried.described.clone());
    }
    let mut counts = Counts::default();
    let trouble =
        relay_answers(session, scatter, run, &mut feeds, &mut result_writer, &mut counts).await?;
    let trouble = trouble.err();
    stop::end_feeds(&session.core, &session.handle, &mut feeds, trouble.is_some()).await;
    end_scatter(&session.handle, &mut session.run);
    let mut done = Done::of(taken, feeds, &mut session.run.profile);
    // The end of a transaction takes them away.
    let same = scatter.answer.is_same();
    done.ask_warnings(&scatter.parts, same, trouble.as_ref()).await;
    counts.say_once(done.repeated);
    done.end_clock().await;
    done.drop_carried(scatter).await;
    if !result_writer.begun && broadcast::turns_back(scatter, &done, trouble.as_ref()) {
        parts::leave_parts(session, run, done);
        return Ok(Attempt::Otherwise);
    }
    let trouble = match trouble {
        None => parts::commit_parts(session, &mut done, across).await,
        Some(trouble) => {
            parts::undo_parts(session, &mut done, run, across).await;
            Some(trouble)
        }
    };
    if trouble == Some(Trouble::TooLong) {
        parts::leave_parts(session, run, done);
        return Ok(Attempt::Otherwise);
    }
    let word = match (&scatter.answer, trouble) {
        (_, Some(trouble)) => Word::Trouble(trouble),
        (Wanted::Returned { .. }, None) if !result_writer.begun => Word::Counted(&counts),
        (Wanted::Rows(_) | Wanted::Prepared(_) | Wanted::Returned { .. }, None) => Word::Rows {
            warnings: done.warnings(),
        },
        (Wanted::Counts { insert_id, .. }, None) => {
            counts.insert_id = insert_id.unwrap_or(counts.insert_id);
            Word::Counted(&counts)
        }
    };
    close_scatter(session, run, avoid, done, result_writer, word).await.map(Attempt::of)
}

/// The parts' answers become rows for the client, or numbers in the counts, as the statement wants
/// them. `Err` inside says what went wrong, which undoes the statement.
async fn relay_answers(
    session: &mut Session,
    scatter: &Scatter,
    run: &Run,
    feeds: &mut Feeds,
    result_writer: &mut ResultWriter,
    counts: &mut Counts,
) -> Result<Result<(), Trouble>, End> {
    Ok(match &scatter.answer {
        Wanted::Rows(merging) | Wanted::Prepared(merging) => {
            if matches!(scatter.answer, Wanted::Prepared(_)) {
                result_writer.hide_branches();
            }
            rows::scatter_rows(
                &mut session.client,
                &session.variables,
                &session.transaction,
                &mut session.run,
                feeds,
                merging,
                result_writer,
            )
            .await?
        }
        Wanted::Returned { turns, same } => {
            rows::returned(session, feeds, turns, *same, result_writer).await?
        }
        Wanted::Counts { same, .. } => {
            // Of copies one answer counts, which is whole.
            counts.inserts = match same {
                true => None,
                false => Inserts::of(run.shape.verb, &scatter.parts),
            };
            feeds.count(counts, *same).await
        }
    })
}

/// A group has no connection for its part. True when it is to be tried again; else the client has been
/// answered.
async fn scatter_stuck(
    session: &mut Session,
    run: &mut Run,
    avoid: &mut Vec<ServerId>,
    group: &Arc<str>,
    stuck: Stuck,
) -> Result<bool, End> {
    match stuck {
        Stuck::Again => Ok(true),
        Stuck::NoGroup => {
            let text = format!("the farm has no group {group}");
            let details = [&*text];
            session.client.error(&error::COMMAND_REFUSED, &details).await?;
            Ok(false)
        }
        Stuck::Refused(refusal) => Box::pin(loss::hold_refused(session, run, avoid, refusal)).await,
        Stuck::Failed(tried, why) => {
            Box::pin(loss::hold_failed(session, run, avoid, &tried, why)).await
        }
    }
}

/// Takes note of what the parts said, gives their connections back, and tells the client: the same.
async fn close_scatter(
    session: &mut Session,
    run: &mut Run,
    avoid: &mut Vec<ServerId>,
    mut done: Done,
    mut result_writer: ResultWriter,
    word: Word<'_>,
) -> Result<bool, End> {
    let outcome = tell::scatter_outcome(&session.variables, &done, &result_writer, &word);
    let warnings = done.told.take();
    let undone = done.undone;
    let (mut lost, mut refusal) = (None, None);
    match &word {
        Word::Trouble(Trouble::Lost(at)) => lost = Some(done.tried(*at)),
        Word::Trouble(Trouble::Refused(at)) => refusal = done.parts[*at].refusal.take(),
        _ => {}
    }
    parts::leave_parts(session, run, done);
    session.run.profile.told(&outcome);
    session.transaction.note_failure(outcome.error);
    if let Some(tried) = lost {
        rows::flush(&mut session.client, &mut session.run, &mut result_writer).await?;
        return tell::scatter_lost(session, run, avoid, &tried, &result_writer, undone).await;
    }
    session.run.number += 1;
    session.variables.diagnostics.note(&run.shape, &outcome, session.variables.mode.dialect);
    // Each server knows of its own part only.
    session.variables.diagnostics.learn(&mut Residue {
        warnings,
        found_rows: outcome.has_rows.then_some(result_writer.rows),
        ..Residue::default()
    });
    if outcome.last_insert_id != 0 && outcome.error.is_none() {
        session.variables.insert_id.before = session.variables.insert_id.value;
        session.variables.insert_id.value = outcome.last_insert_id;
        session.variables.insert_id.version += 1;
    }
    tell::tell_scatter(
        &mut session.client,
        &session.variables,
        &session.transaction,
        &mut session.run,
        result_writer,
        word,
        refusal,
    )
    .await?;
    Ok(false)
}

/// No server runs a part any more.
fn end_scatter(handle: &Handle, run: &mut StatementRun) {
    clock::end_attempt(handle, run);
    handle.at_servers.running_elsewhere.borrow_mut().clear();
}
