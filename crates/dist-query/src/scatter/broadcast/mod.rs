//! A SELECT whose small tables are sent to the groups, or others divided among them: their rows are fetched, put on
//! each group's connection as temporary tables, and the groups answer the rest for their own rows.
//!
//! Invariants: until the groups have begun to answer, nothing is told to the client, and whatever a server refuses
//! has the statement gathered instead. A connection that was given tables gives them up before anybody else has it, or
//! is closed. Tables are given to primaries alone, whose sessions may make some, and outside transactions, so that
//! nothing of the client's own is on the connection.
//!
//! Must not know: how the tables were chosen.

pub(crate) mod begun;
pub(in crate::scatter) mod carried;
mod collect;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use execute::client::end::End;
use execute::consistency::reads;
use execute::counters::count;
use execute::execution::exec::{Job, Run, Shape};
use execute::per_core::Core;
use execute::session::{Session, is_free};
use farm::{GroupKind, ServerId};
use planner::{Answer, Finish, Fragment, Merging, Sending, Volume};
use routing::Level;
use sqltext::Class;

use self::begun::{Begun, Open};
pub(crate) use self::carried::Carried;
use self::carried::Loading;
use self::collect::Short;
use super::parts::Done;
use super::result_writer::{Described, Form, ResultWriter};
use super::rows::Trouble;
use super::{Part, Scatter, Wanted, Word, close_scatter, end_scatter};
use super::{gather, gathered, parts, pour, scatter_out, scatter_stuck, sift, stop};
use crate::learned;

/// Somebody stopped the statement, or its time was over: it is not begun again in another way.
const STOPPED: [u16; 3] = [1317, 1969, 3024];

/// What became of all fetches.
enum Fetched {
    /// What the groups are given; and the same rows for a gather, should a group refuse them.
    All(Carried, Begun),
    /// The statement is to be gathered, with what has come so far.
    Short(Begun),
    /// The client has its answer.
    Answered,
}

/// How a statement is to be answered after all, and what has been fetched for that.
pub(crate) struct Instead {
    pub answer: Answer,
    pub begun: Begun,
}

impl Instead {
    fn of(answer: Answer) -> Option<Instead> {
        let begun = Begun::default();
        Some(Instead { answer, begun })
    }
}

/// A part of a statement was refused that was given tables, so that the statement may be answered otherwise.
pub(super) fn turns_back(scatter: &Scatter, done: &Done, trouble: Option<&Trouble>) -> bool {
    scatter.carried.is_some() && trouble.is_some_and(|it| is_refused(done, it))
}

/// A group refused its part, and nobody stopped it.
fn is_refused(done: &Done, trouble: &Trouble) -> bool {
    let number = done.refusal_of(trouble);
    matches!(trouble, Trouble::Refused(_)) && !number.is_some_and(|it| STOPPED.contains(&it))
}

/// Runs the SELECT to its answer. `Some`: nothing has been told, and it is to be answered so.
pub(crate) async fn broadcast(
    session: &mut Session,
    mut answer: Answer,
    shape: Shape,
    job: Job,
) -> Result<Option<Instead>, End> {
    let Some(sending) = answer.sending.take() else {
        return Ok(Instead::of(answer));
    };
    if !may_send(session, &answer, &shape, job) {
        return Ok(Instead::of(*sending.instead));
    }
    count(&session.core.counters.broadcasts);
    if sending.divided.iter().any(Option::is_some) {
        count(&session.core.counters.shuffles);
    }
    session.run.recording = None;
    let begun = match Box::pin(fetch_all(session, &sending, shape, job)).await? {
        Fetched::Answered => return Ok(None),
        Fetched::Short(begun) => begun,
        Fetched::All(carried, begun) => {
            let shape = Shape {
                level: Some(Level::Strong),
                ..shape
            };
            let before = session.run.profile.moved;
            if Box::pin(run_rest(session, &answer, carried, shape, job)).await? {
                let moved = session.run.profile.moved;
                let rest = Volume {
                    rows: moved.0.saturating_sub(before.0),
                    bytes: moved.1.saturating_sub(before.1),
                };
                learned::learn_rest(&session.core, &session.variables, &sending, rest);
                return Ok(None);
            }
            let (core, mode) = (&session.core, &session.variables.mode);
            let plans = &core.statements.plans;
            plans.turn_back(session.user.name(), &sending.instead, mode, core.now_s.get());
            begun
        }
    };
    count(&session.core.counters.broadcasts_turned_back);
    session.run.profile.turn_back(&sending.places, begun.is_empty());
    let answer = *sending.instead;
    Ok(Some(Instead { answer, begun }))
}

/// Nothing of the client's is on any connection, and all groups have primaries to make tables on.
fn may_send(session: &Session, answer: &Answer, shape: &Shape, job: Job) -> bool {
    let connections = &session.connections;
    let holds =
        connections.current.held.is_some() || connections.others.iter().any(|it| it.held.is_some());
    let ruled = session.run.ruled.as_ref().is_some_and(|rule| rule.servers.is_some());
    let free = is_free(session.variables.status) && session.transaction.dist_txn.is_none();
    let reads = shape.class == Class::Read && !shape.writes && shape.hint.is_none();
    let snapshot = session.core.snapshot();
    let has_primary = |name: &Arc<str>| {
        let group = snapshot.group(name);
        group.is_some_and(|it| it.kind != GroupKind::Media && it.primary().is_some())
    };
    let mut groups = answer.fragments.iter().flat_map(|it| &it.groups);
    free && reads
        && !holds
        && !ruled
        && !matches!(job, Job::Prepare(_))
        && !session.prepared.wants_digits(job)
        && groups.all(has_primary)
}

/// Fetches the rows of all tables.
async fn fetch_all(
    session: &mut Session,
    sending: &Sending,
    shape: Shape,
    job: Job,
) -> Result<Fetched, End> {
    let mut run = reads::new_run(session, shape, job);
    let mut avoid = Vec::new();
    let mut left = sending.bytes_max;
    let mut carried = Carried::new(session.variables.mode.dialect);
    let mut begun = Begun::default();
    let mut described = gather::described_text(session, job).map(DescribedBy::Text);
    for (at, fragment) in sending.fragments.iter().enumerate() {
        let division = sending.divided.get(at).and_then(Option::as_ref);
        // Of a table that is divided each group gets so many times less.
        let parts = division.map_or(1, |it| it.groups.len().max(1) as u64);
        let (loading, open) = loop {
            let (first_part, began) = (session.run.profile.parts.len(), Instant::now());
            let mut loading = Loading::new(left.saturating_mul(parts));
            let fetching =
                fetch(session, fragment, &mut loading, &mut run, &mut avoid, &mut described);
            match Box::pin(fetching).await? {
                Step::Again => session.run.profile.once_more(),
                Step::Answered => return Ok(Fetched::Answered),
                Step::Short => return Ok(Fetched::Short(begun)),
                Step::Grown(open) => break (loading, Some(open)),
                Step::Done => {
                    session.run.profile.fetched(at, first_part, began);
                    break (loading, None);
                }
            }
        };
        learned::learn_whole(&session.core, &session.variables, fragment, loading.volume);
        if let Some(DescribedBy::Group(known)) = &described {
            begun.described = Some(known.clone());
        }
        if let Some(open) = open {
            if let Some(open) = begun.add(sending, at, loading, Some(open)) {
                open.give_up(session, &run).await;
            }
            return Ok(Fetched::Short(begun));
        }
        left = left.saturating_sub(loading.volume.bytes.div_ceil(parts));
        let counters = &session.core.counters;
        counters.broadcast_rows.fetch_add(loading.volume.rows, Ordering::Relaxed);
        let taken = match division {
            None => carried.take(&sending.tables[at], &loading),
            Some(by) => carried.divide(&sending.tables[at], &loading, by),
        };
        begun.add(sending, at, loading, None);
        if taken.is_err() {
            return Ok(Fetched::Short(begun));
        }
    }
    if let Some(DescribedBy::Group(known)) = described {
        carried.described = known;
    }
    match is_divided_well(&session.core, sending) {
        true => Ok(Fetched::All(carried, begun)),
        false => Ok(Fetched::Short(begun)),
    }
}

/// The maps by which rows were divided are those in force, and no part of them is on its way.
fn is_divided_well(core: &Core, sending: &Sending) -> bool {
    let snapshot = core.snapshot();
    let mut divisions = sending.divided.iter().flatten();
    divisions.all(|by| {
        let sharding = snapshot.sharding.as_ref();
        sharding.is_some_and(|sharding| {
            let id = by.mapped.map.id;
            let in_force = sharding.map(id).is_some_and(|it| *it == by.mapped);
            in_force && sharding.moves().iter().all(|it| it.map != id || it.mixed.is_none())
        })
    })
}

/// How the columns of the client's text are learnt.
enum DescribedBy {
    /// No group has been asked.
    Text(Vec<u8>),
    Group(Described),
}

/// What became of one fetch.
enum Step {
    Done,
    Again,
    /// A group refused it.
    Short,
    /// More has come than was expected, and more comes.
    Grown(Box<Open>),
    Answered,
}

async fn fetch(
    session: &mut Session,
    fragment: &Fragment,
    loading: &mut Loading,
    run: &mut Run,
    avoid: &mut Vec<ServerId>,
    described: &mut Option<DescribedBy>,
) -> Result<Step, End> {
    let mut scatter = gathered::pulled(fragment);
    if sift::sift(&session.core, &session.variables, &mut scatter.parts).is_err() {
        return Ok(Step::Short);
    }
    if scatter.parts.is_empty() {
        return Ok(Step::Done);
    }
    let mut taken = match parts::take_parts(session, &scatter, run, avoid).await {
        Ok(taken) => taken,
        Err((group, stuck)) => {
            let again = scatter_stuck(session, run, avoid, &group, stuck).await?;
            return Ok(if again { Step::Again } else { Step::Answered });
        }
    };
    if let (Some(DescribedBy::Text(text)), Some(first)) = (&*described, taken.first_mut())
        && let Some(known) = pour::described_by(first.lease.as_mut(), text).await
    {
        *described = Some(DescribedBy::Group(known));
    }
    let mut feeds = parts::start_parts(session, &scatter, &mut taken, run, false);
    let trouble = match collect::collect(&mut feeds, loading).await {
        Ok(()) => None,
        Err(Short::Groups(trouble)) => Some(trouble),
        Err(Short::Bound) => {
            let open = Open {
                scatter,
                taken,
                feeds,
            };
            return Ok(Step::Grown(Box::new(open)));
        }
    };
    stop::end_feeds(&session.core, &session.handle, &mut feeds, trouble.is_some()).await;
    end_scatter(&session.handle, &mut session.run);
    let done = Done::of(taken, feeds, &mut session.run.profile);
    let Some(trouble) = trouble else {
        parts::leave_parts(session, run, done);
        return Ok(Step::Done);
    };
    if is_refused(&done, &trouble) {
        parts::leave_parts(session, run, done);
        return Ok(Step::Short);
    }
    let result_writer = ResultWriter::new(Form::Text, session.client.capabilities);
    let word = Word::Trouble(trouble);
    let again = close_scatter(session, run, avoid, done, result_writer, word).await?;
    Ok(if again { Step::Again } else { Step::Answered })
}

/// Has the groups answer the rest. False: nothing has been told to the client.
async fn run_rest(
    session: &mut Session,
    answer: &Answer,
    carried: Carried,
    shape: Shape,
    job: Job,
) -> Result<bool, End> {
    let groups = answer.fragments.iter().map(|it| match it.any {
        true => 1,
        false => it.groups.len() as u64,
    });
    let bytes = carried.bytes(groups.sum::<u64>());
    session.core.counters.broadcast_bytes.fetch_add(bytes, Ordering::Relaxed);
    let carried = Rc::new(carried);
    let merging: &Merging = match &answer.finish {
        Finish::Merge(merging) => merging,
        Finish::Scratch(_) => {
            let with = (Some(carried), Begun::default());
            return gather::gather_carrying(session, answer, with, shape, job).await;
        }
    };
    let mut all: Vec<Part> = Vec::new();
    for fragment in &answer.fragments {
        all.append(&mut gathered::pulled(fragment).parts);
    }
    if sift::sift(&session.core, &session.variables, &mut all).is_err() {
        return Ok(false);
    }
    let scatter = Scatter {
        parts: all,
        answer: Wanted::Rows(merging.clone()),
        clock: answer.clock,
        carried: Some(carried),
    };
    scatter_out(session, &scatter, shape, job).await
}
