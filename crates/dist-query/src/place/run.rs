//! Runs a command where its tables are: on one group, on several, or answers why it runs nowhere.

use std::sync::Arc;

use dist_txn::verb::{self, unlock_nothing};
use dist_txn::{admit, end, positions, snapshot, xa, xa_elsewhere};
use execute::client::answer::Answers;
use execute::client::end::End;
use execute::consistency::consistency_hints;
use execute::execution::exec::{Job, Shape};
use execute::session::Session;
use execute::transaction::unit_of_work;
use execute::variables::lasting;
use farm::error;
use planner::place::Spot;
use planner::{Answer, Finish, Merging};
use reactor::rarely;
use sqltext::{Class, Facts, MsHint, Verb, Xa};

use super::Where;
use crate::place::explain::show;
use crate::place::in_text::steps;
use crate::place::own::with_own_values;
use crate::place::writes::{bulk, many};
use crate::place::{discard, into, later, moving, planned, recalled, several, upkeep};
use crate::scatter::{Part, Scatter, Wanted, all_servers, broadcast, define, file, gather, sift};
use crate::{place, scatter};

/// Runs the client's command to its answer, and those behind it that may go with it.
pub async fn run_free(session: &mut Session, shape: Shape, job: Job) -> Result<(), End> {
    let all = shape.hint == Some(MsHint::All);
    if (all || shape.bad_hint) && rarely(refuse_hint(session, &shape, job)).await? {
        return Ok(());
    }
    // In a farm without shard maps transactions are the servers' own affair.
    let ends = (shape.class == Class::Transaction || matches!(shape.verb, Verb::Xa))
        && session.core.glance().sharding.is_some();
    if ends && !moving::await_views(session, &shape, job).await? {
        return Ok(());
    }
    if (ends || session.transaction.dist_txn.is_some())
        && rarely(open_ends(session, &shape, job)).await?
    {
        return Ok(());
    }
    let kept = unit_of_work::begin_unit_of_work(&session.core, &session.handle, &shape, job);
    let mut place = place::place(&session.context(), &session.run, &shape, job);
    if moving::has_to_wait(&session.handle, &place, &shape, kept.as_deref()) {
        match rarely(moving::wait_for_place(session, place, &shape, job)).await? {
            Some(free) => place = free,
            None => return Ok(()),
        }
    }
    if all {
        return rarely(run_on_all(session, place, shape, job)).await;
    }
    if let Where::Later(spot) = &place {
        if let Spot::Select | Spot::ByKeys | Spot::Limited(_) | Spot::Moves(_) = **spot {
            let spot = spot.clone();
            return rarely(many::write_rows(session, &spot, job)).await;
        }
        place = rarely(later::place_later(session, &shape, job)).await;
    }
    match place {
        Where::Stay => {
            let prepares = matches!(job, Job::Prepare(_));
            let open = session.transaction.dist_txn.is_some() && !prepares;
            if open && !rarely(admit::admit_anywhere(session, &shape, job)).await? {
                return Ok(());
            }
        }
        // To prepare is not to run: it takes no group into a transaction.
        Where::Group(group) if matches!(job, Job::Prepare(_)) => {
            session.connections.switch_to(&group, &session.core)
        }
        Where::Group(group) => {
            if !admit::admit(session, &group, &shape, job).await? {
                return Ok(());
            }
        }
        other => return rarely(run_placed(session, other, shape, job)).await,
    }
    if shape.class != Class::Set {
        return recalled::answer_here(session, shape, job).await;
    }
    recalled::answer_here(session, shape, job).await?;
    rarely(lasting::spread(
        &session.core,
        &session.client.request,
        &mut session.variables,
        &mut session.connections,
        &shape,
    ))
    .await;
    Ok(())
}

/// In a farm of several groups, answers what begins and ends transactions over them. True when it
/// did.
async fn open_ends(session: &mut Session, shape: &Shape, job: Job) -> Result<bool, End> {
    if positions::tell_positions(session, shape, job).await?
        || unlock_nothing(
            &mut session.client,
            &mut session.variables,
            &session.connections,
            &session.transaction,
            &mut session.run,
            shape,
            job,
        )
        .await?
    {
        return Ok(true);
    }
    if end::tell_undone(
        &mut session.client,
        &mut session.variables,
        &mut session.transaction,
        shape,
        job,
    )
    .await?
        || xa_elsewhere::own_bars(&mut session.client, &session.transaction, shape).await?
    {
        return Ok(true);
    }
    if verb::may_commit_by_set(&session.variables, &session.transaction, shape, job)
        && !rarely(verb::commit_by_set(session, job)).await?
    {
        return Ok(true);
    }
    let sharded = session.core.glance().sharding.is_some();
    if matches!(shape.verb, Verb::Xa) {
        return match sharded || session.transaction.dist_txn.is_some() {
            true => match xa::own_statement(&session.context(), shape, job) {
                Some((Xa::Recover, text)) => own_list(session, text, job).await.map(|()| true),
                _ => xa::own_xa(session, shape, job).await,
            },
            false => Ok(false),
        };
    }
    if shape.class != Class::Transaction || !(sharded || session.transaction.dist_txn.is_some()) {
        return Ok(false);
    }
    verb::transact(session, shape, job).await
}

/// Runs the current text on every server of the group that it is for, to its answer.
async fn run_on_all(
    session: &mut Session,
    place: Where,
    shape: Shape,
    job: Job,
) -> Result<(), End> {
    session.run.recording = None;
    match &place {
        Where::Stay => {}
        Where::Group(group) => session.connections.switch_to(group, &session.core),
        Where::Refuse(error, detail) => return session.client.error(error, &[detail]).await,
        _ => {
            let why = "asks the servers of one group, and the rows are on several: choose a shard by \
                       /*heddle shard_table=TABLE shard_key=KEY*/";
            return session.client.error(&error::ALL_SERVERS_REFUSED, &[why]).await;
        }
    }
    all_servers::run_on_all(session, shape, job).await
}

/// Runs a command that is not for one group.
async fn run_placed(
    session: &mut Session,
    place: Where,
    shape: Shape,
    job: Job,
) -> Result<(), End> {
    match place {
        Where::Stay | Where::Group(_) => recalled::answer_here(session, shape, job).await,
        Where::Refuse(error, detail) => session.client.error(&error, &[&detail]).await,
        Where::Undescribed(database) => {
            session.client.error(&error::TABLES_UNDESCRIBED, &[&database]).await
        }
        Where::Define(definition) => define::run_definition(session, &definition, shape, job).await,
        Where::Parts(mut writing) => {
            if let Err(why) = sift::sift(&session.core, &session.variables, &mut writing.parts) {
                return session.client.error(&error::NOT_OVER_GROUPS, &[&why]).await;
            }
            let answer = match writing.returns {
                true => Wanted::Returned {
                    turns: writing.turns,
                    same: writing.same,
                },
                false => Wanted::Counts {
                    insert_id: writing.insert_id,
                    same: writing.same,
                },
            };
            let scatter = Scatter {
                parts: writing.parts,
                answer,
                clock: true,
                carried: None,
            };
            scatter::scatter_out(session, &scatter, shape, job).await.map(drop)
        }
        Where::Rows(text) if matches!(shape.verb, Verb::Do) => {
            discard::discard(session, &text).await
        }
        Where::InText(found) => rarely(steps::run_in_text(session, &found, shape, job)).await,
        Where::Bulk(id) => rarely(bulk::run_bulk(session, id)).await,
        Where::Explain(asking) => rarely(show::explain_placed(session, &asking)).await,
        Where::Upkeep(parts) => upkeep::keep_up(session, parts, shape, job).await,
        Where::Rows(text) => {
            if shape.facts.contains(Facts::INTO)
                && let Some(into) = into::variables_of(&session.variables, &text)
            {
                return rarely(into::select_into(session, &text, &into)).await;
            }
            let text = match rarely(with_own_values(session, text)).await? {
                Ok(text) => text,
                Err(refusal) => return session.client.pass_refusal(&refusal).await,
            };
            let asked = planned::first::with_asked_first(session, text, &shape, job);
            let text = rarely(asked).await?;
            match planned::answer_of(&session.core, &session.handle, &session.variables, &text) {
                Ok(answer) => {
                    let answer = rarely(by_sizes(session, &text, answer)).await;
                    answer_rows(session, answer, shape, job).await
                }
                Err((error, detail)) => session.client.error(&error, &[&detail]).await,
            }
        }
        Where::Several => rarely(several::run_several(session)).await,
        Where::Load(plan) => rarely(file::load_file(session, &plan, shape, job)).await,
        // It was asked for already.
        Where::Later(_) => Ok(()),
    }
}

/// The answer as it moves least, by what the servers think of sizes.
async fn by_sizes(session: &Session, text: &[u8], mut answer: Answer) -> Answer {
    let (core, handle, variables) = (&session.core, &session.handle, &session.variables);
    planned::fetch_order::order_by_size(core, &session.user, variables, &mut answer).await;
    planned::sending::sending(core, handle, &session.user, variables, text, answer)
}

pub(super) async fn answer_rows(
    session: &mut Session,
    mut answer: Answer,
    shape: Shape,
    job: Job,
) -> Result<(), End> {
    let snapshots = session.core.settings().dist_txns.snapshot_reads;
    if let Some(sending) = answer.sending.take_if(|_| snapshots) {
        answer = *sending.instead;
    }
    if !snapshots {
        return answer_rows_now(session, answer, shape, job).await;
    }
    let mut groups: Vec<Arc<str>> = Vec::new();
    for group in answer.fragments.iter().flat_map(|it| &it.groups) {
        if !groups.contains(group) {
            groups.push(group.clone());
        }
    }
    let Some(opened) = rarely(snapshot::begin_read(session, &groups, &shape, job)).await? else {
        return Ok(());
    };
    let answered = rarely(answer_rows_now(session, answer, shape, job)).await;
    if opened {
        snapshot::end_read(session).await;
    }
    answered
}

async fn answer_rows_now(
    session: &mut Session,
    answer: Answer,
    shape: Shape,
    job: Job,
) -> Result<(), End> {
    let Some(instead) = rarely(broadcast::broadcast(session, answer, shape, job)).await? else {
        return Ok(());
    };
    let (answer, begun) = (instead.answer, instead.begun);
    let merging = match answer.finish {
        Finish::Merge(merging) => merging,
        Finish::Scratch(_) => {
            return rarely(gather::gather(session, &answer, begun, shape, job)).await;
        }
    };
    let mut parts = Vec::new();
    for fragment in answer.fragments {
        let groups = match fragment.any {
            true => &fragment.groups[..1.min(fragment.groups.len())],
            false => &fragment.groups[..],
        };
        parts.extend(groups.iter().map(|group| Part {
            group: group.clone(),
            text: fragment.text.clone().into_bytes(),
        }));
    }
    if let Err(why) = sift::sift(&session.core, &session.variables, &mut parts) {
        return session.client.error(&error::NOT_OVER_GROUPS, &[&why]).await;
    }
    let scatter = Scatter {
        parts,
        answer: Wanted::Rows(merging),
        clock: answer.clock,
        carried: None,
    };
    if scatter::scatter_out(session, &scatter, shape, job).await? {
        return Ok(());
    }
    match answer.otherwise {
        Some(otherwise) => {
            session.run.profile.once_more();
            rarely(answer_rows_now(session, *otherwise, shape, job)).await
        }
        None => {
            let why = "a list is too long to be merged";
            session.client.error(&error::PARTS_DIFFER, &[why]).await
        }
    }
}

/// Answers a command whose hint cannot be followed, wherever its tables are. False: it can be followed.
async fn refuse_hint(session: &mut Session, shape: &Shape, job: Job) -> Result<bool, End> {
    let (core, variables) = (&session.core, &session.variables);
    if shape.bad_hint {
        consistency_hints::refuse_hint(core, &mut session.client, variables).await?;
        return Ok(true);
    }
    let barred = all_servers::bars_all(core, variables, &session.transaction, shape, job);
    if let Some(why) = barred {
        session.client.error(&error::ALL_SERVERS_REFUSED, &[why]).await?;
    }
    Ok(barred.is_some())
}

/// XA RECOVER: the clients' own transactions of all groups.
async fn own_list(session: &mut Session, text: Vec<u8>, job: Job) -> Result<(), End> {
    let snapshot = session.core.snapshot();
    let groups = snapshot.groups.iter();
    let groups = groups.filter(|group| group.kind == farm::GroupKind::Replication);
    let part = |group: &Arc<farm::Group>| Part {
        group: group.name.clone(),
        text: text.clone(),
    };
    let scatter = Scatter {
        parts: groups.map(part).collect(),
        answer: Wanted::Prepared(Merging::default()),
        clock: false,
        carried: None,
    };
    rarely(scatter::scatter_alone(session, &scatter, Shape::command(), job)).await
}
