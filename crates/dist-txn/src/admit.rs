//! A group comes into the open transaction.

use std::sync::Arc;

use backend::ConnectionError;
use execute::client::Client;
use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::refuse::ServerRefusal;
use execute::client::request::Request;
use execute::client::sink::ReplySink;
use execute::connections::group_connections::{GroupConnections, Held, seat_number};
use execute::connections::hold::wait::hold;
use execute::connections::hold::{Cause, Turn};
use execute::connections::home::group_of;
use execute::connections::parked::reclaim;
use execute::connections::pin::Pins;
use execute::consistency::promises::Promises;
use execute::consistency::reads;
use execute::execution::exec::{Job, Shape, Tried};
use execute::execution::{route, servers, servers_tried, without};
use execute::per_core::Core;
use execute::session::Session;
use execute::session::context::StatementContext;
use execute::transaction::distributed::{Part, is_serializable, work_of};
use execute::transaction::loss;
use execute::transaction::state::Transaction;
use execute::variables::dist_txn_terms as of_session;
use farm::dist_txn::{Atomic, Branch, Place};
use farm::{Engine, Group, GroupKind, error};
use mysql_wire::command::Command;
use mysql_wire::relay::Expect;
use mysql_wire::reply::ErrPacket;
use mysql_wire::status::Status;
use sqltext::{Class, Facts};

use super::verb::set_next;
use super::waits::shorten;
use crate::branch::{self, Start};
use crate::{MYSQL_SAFE, REPEATABLE, dist_txn_name, end, held, refused, routine, verb, waits, xa};

/// XAER_DUPID.
const TAKEN: u16 = 1440;

/// A fresh connection that breaks at once is tried again so often.
const TRIES: usize = 2;

/// Sits down at a group for the current statement and takes the group into the open transaction,
/// if there is one. False: the client has been answered.
pub async fn admit(
    session: &mut Session,
    group: &Arc<Group>,
    shape: &Shape,
    job: Job,
) -> Result<bool, End> {
    end::await_ends(session, group.number).await;
    let opens = !session.variables.status.contains(Status::AUTOCOMMIT) && branch::may_open(shape);
    if session.transaction.dist_txn.is_none() && !opens {
        session.connections.switch_to(group, &session.core);
        return Ok(true);
    }
    Box::pin(admit_in_transaction(session, group, shape, job)).await
}

/// The same for a statement that any group can answer.
pub async fn admit_anywhere(session: &mut Session, shape: &Shape, job: Job) -> Result<bool, End> {
    let Some(dist_txn) = &session.transaction.dist_txn else {
        return Ok(true);
    };
    let coordinator = dist_txn.parts.first().map(|part| part.group);
    if session.transaction.own_is_closed().is_some() {
        // It names no table, and is no part of the transaction.
        verb::sit_at_coordinator(&session.core, &mut session.connections, &session.transaction);
        return Ok(true);
    }
    let current = seat_number(&session.core, &session.connections);
    let number = match dist_txn.parts.iter().any(|part| part.group == current) {
        true => current,
        false => coordinator.unwrap_or(current),
    };
    let snapshot = session.core.snapshot();
    match group_of(&snapshot, number) {
        Some(group) => admit(session, group, shape, job).await,
        None => Ok(true),
    }
}

async fn admit_in_transaction(
    session: &mut Session,
    group: &Arc<Group>,
    shape: &Shape,
    job: Job,
) -> Result<bool, End> {
    let number = group.number;
    if let Some(state) = session.transaction.own_is_closed() {
        session.client.error(&error::XA_STATE, &[state]).await?;
        return Ok(false);
    }
    if shape.facts.contains(Facts::IMPLICIT_COMMIT) && !end::commit_before(session, number).await? {
        return Ok(false);
    }
    session.connections.switch_to(group, &session.core);
    let dist_txn = session.transaction.dist_txn.get_or_insert_default();
    if dist_txn.part(number).is_some() {
        return admit_again(session, number, shape, job).await;
    }
    if dist_txn.parts.is_empty() {
        return decide_here(session, group, shape).await;
    }
    enlist(session, group, shape, job).await
}

/// The group has a part already.
async fn admit_again(
    session: &mut Session,
    number: u32,
    shape: &Shape,
    job: Job,
) -> Result<bool, End> {
    let calls = shape.class == Class::Call && session.transaction.is_dist_txn();
    let harmless = calls
        && Box::pin(routine::calls_no_end(
            &session.client.request,
            &session.variables,
            &mut session.connections,
            &session.prepared,
            job,
        ))
        .await;
    let work = work_of(shape, is_serializable(&session.variables));
    let Some(dist_txn) = &mut session.transaction.dist_txn else {
        return Ok(true);
    };
    let crossed = dist_txn.has_crossed();
    // On the others, and within an XA transaction, the servers refuse what would end their part.
    let decides = dist_txn.parts.first().is_some_and(|it| it.group == number);
    let alone = decides && dist_txn.own.is_none() && !harmless;
    if work.wrote && dist_txn.one_writer && !dist_txn.writes_only_on(number) {
        let why = "it has written on another group, and its snapshot was opened by plain transactions: \
                   begin it without READ ONLY and comments, on servers that have safe XA";
        session.client.error(&error::DIST_TXN_REFUSED, &[why]).await?;
        return Ok(false);
    }
    if crossed && let Some(why) = branch::unfit(shape, alone) {
        session.client.error(&error::DIST_TXN_REFUSED, &[why]).await?;
        return Ok(false);
    }
    if let Some(part) = dist_txn.part(number) {
        part.work.wrote |= work.wrote;
        part.work.locked |= work.locked;
    }
    // What was set meanwhile was set on another group's connection.
    let state = session.variables.state.clone();
    if let Some(held) = &mut session.connections.current.held {
        let connection = held.lease.connection_mut();
        match connection.become_state(&state).await {
            Ok(()) => {}
            Err(ConnectionError::Refused {
                number,
                sqlstate,
                message,
            }) => {
                let client = &mut session.client;
                let refusal = ErrPacket {
                    number,
                    sqlstate,
                    message: &message,
                };
                client.answer_error(&refusal).await?;
                return Ok(false);
            }
            // The statement finds out.
            Err(_) => connection.condemn(),
        }
    }
    Ok(true)
}

/// The first group of the transaction: the client's BEGIN goes there.
pub(super) async fn decide_here(
    session: &mut Session,
    group: &Arc<Group>,
    shape: &Shape,
) -> Result<bool, End> {
    let work = work_of(shape, is_serializable(&session.variables));
    let begun = session.transaction.dist_txn.as_mut().and_then(|it| it.begun.take());
    if let Some(begun) = begun {
        let status = std::mem::replace(&mut session.variables.status, begun.before);
        let next = session.transaction.dist_txn.as_ref().map(|it| &it.next);
        let mut requests: Vec<_> = next.into_iter().flatten().map(|it| set_next(it)).collect();
        requests.push((begun.shape, Request::again(&begun.frame)));
        let kept = session.client.begin_play();
        let mut ran = Ok(());
        for (shape, request) in requests {
            session.client.play(request);
            let job = Job::Frame(Expect::Results);
            // What begins a transaction recalls nothing.
            ran = ran.and(Box::pin(servers::run_here(session, shape, job)).await.map(|_| ()));
        }
        session.client.end_play(kept);
        ran?;
        if let Some(number) = session.transaction.own_refused() {
            // The client heard that it has begun: what comes is no transaction of its own.
            crate::end::leave_ended(
                &session.core,
                &session.handle,
                &mut session.variables,
                &mut session.connections,
                group.number,
            );
            xa::undo_own(session).await;
            let why = format!("XA START was refused with error {number}");
            match number {
                TAKEN => session.client.error(&error::XA_TAKEN, &[]).await?,
                _ => session.client.error(&error::XA_PENDING, &[&why]).await?,
            }
            return Ok(false);
        }
        if session.connections.current.held.is_none() {
            session.variables.status = status;
            if let Some(dist_txn) = &mut session.transaction.dist_txn {
                dist_txn.begun = Some(begun);
            }
            let why = format!("(group {}, where the transaction was to begin)", group.name);
            session.client.error(&error::SERVER_UNREACHABLE, &[&why]).await?;
            return Ok(false);
        }
        for text in
            session.transaction.dist_txn.as_ref().map_or(Vec::new(), |it| it.savepoints.clone())
        {
            if let Some(held) = &mut session.connections.current.held {
                let connection = held.lease.connection_mut();
                // A connection that broke is found out by the statement.
                let _ = connection.run(&[(Command::Query, &text)]).await;
            }
        }
    }
    if let Some(dist_txn) = &mut session.transaction.dist_txn {
        dist_txn.parts.push(Part {
            work,
            ..Part::plain(group)
        });
    }
    Ok(true)
}

/// Another group: it gets a branch. Without one the transaction is what it was.
async fn enlist(
    session: &mut Session,
    group: &Arc<Group>,
    shape: &Shape,
    job: Job,
) -> Result<bool, End> {
    let enlisted = Box::pin(try_enlist(session, group, shape, job)).await;
    waits::stay_alone(
        &session.core,
        &session.variables,
        &mut session.connections,
        &mut session.transaction,
    )
    .await;
    enlisted
}

async fn try_enlist(
    session: &mut Session,
    group: &Arc<Group>,
    shape: &Shape,
    job: Job,
) -> Result<bool, End> {
    if let Some(why) = bars(session, group, shape) {
        session.client.error(&error::DIST_TXN_REFUSED, &[&why]).await?;
        return Ok(false);
    }
    let plain = dist_txn_name::has_plain_parts(
        &session.core,
        &session.user,
        &session.transaction,
        &session.promises,
    );
    let (core, client) = (&session.core, &mut session.client);
    let (connections, transaction) = (&mut session.connections, &mut session.transaction);
    if !name_or_lose(core, client, connections, transaction, plain).await? {
        return Ok(false);
    }
    let mut run = None;
    for tried in 1.. {
        if !take_primary(session, shape, job).await? {
            return Ok(false);
        }
        match start_branch(session, group, shape, plain).await {
            Ok(()) => break,
            Err(ConnectionError::Refused {
                number,
                sqlstate,
                message,
            }) => {
                // A part of it may stand there.
                session.connections.current.held = None;
                let refusal = ServerRefusal {
                    number,
                    sqlstate,
                    message,
                };
                session.client.pass_refusal(&refusal).await?;
                return Ok(false);
            }
            Err(error) => {
                // Closed, it is undone there. Where the server is gone, so are the others.
                session.connections.current.held = None;
                let run = run.get_or_insert_with(|| reads::new_run(session, *shape, job));
                let turn = Box::pin(hold(session, run, Cause::Failure)).await?;
                if turn == Turn::Answered {
                    return Ok(false);
                }
                if turn != Turn::Again && tried >= TRIES {
                    let why = format!("of group {} ({error})", group.name);
                    session.client.error(&error::SERVER_UNREACHABLE, &[&why]).await?;
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

/// Why the transaction cannot take in this group for this statement.
pub(super) fn bars(session: &mut Session, group: &Group, shape: &Shape) -> Option<String> {
    if let Some(why) = branch::unfit(shape, false) {
        return Some(why.to_owned());
    }
    let terms = of_session::dist_txn_terms(&session.core, &session.user, &session.promises);
    let dist_txn = session.transaction.dist_txn.as_ref()?;
    if dist_txn.snapshot {
        return Some(format!(
            "group {} has come into the farm since its snapshot was opened",
            group.name
        ));
    }
    let read_only = dist_txn.read_only && dist_txn.own.is_none();
    let own = dist_txn.own.is_some();
    let coordinator = dist_txn.parts.first()?;
    let (coordinator, name) = (coordinator.group, coordinator.name.clone());
    if terms.atomic == Atomic::Single && !read_only {
        return Some(format!(
            "it began on group {name}, this is for group {}, and atomic is single",
            group.name
        ));
    }
    if !dist_txn_name::has_plain_parts(
        &session.core,
        &session.user,
        &session.transaction,
        &session.promises,
    ) && session.variables.is_unlogged()
    {
        return Some(
            "its session has switched sql_log_bin off, and a failover would lose a part of it: \
             switch it on"
                .to_owned(),
        );
    }
    if group.kind == GroupKind::Galera && terms.atomic == Atomic::Xa && !read_only {
        return Some(format!(
            "group {} is a cluster, which has no XA: begin the transaction there",
            group.name
        ));
    }
    let held = held::held_in(&session.core, &mut session.connections, coordinator);
    let Some(held) = held else {
        return Some(format!("its connection to group {name} was lost"));
    };
    let tied = held.pins & (Pins::LOCK_TABLES | Pins::XA);
    let tied = match own {
        true => tied - Pins::XA,
        false => tied,
    };
    (!tied.is_empty()).then(|| format!("its connection to group {name} has {}", tied.describe()))
}

/// Takes a connection of the seat's primary, unless it holds one; waits for a primary as any
/// statement. False: the client has been answered.
pub(super) async fn take_primary(
    session: &mut Session,
    shape: &Shape,
    job: Job,
) -> Result<bool, End> {
    // A statement that was prepared may have left one of a replica.
    let guarded = |held: &mut Held| held.lease.connection().is_guarded();
    if let Some(held) = session.connections.current.held.take_if(guarded) {
        reclaim::give_back(&session.handle, held.lease);
    }
    if session.connections.current.held.is_some() {
        return Ok(true);
    }
    let writes = Shape {
        class: Class::Other,
        writes: true,
        hint: None,
        ..*shape
    };
    let mut run = reads::new_run(session, writes, job);
    let mut avoid = Vec::new();
    loop {
        let (plan, target) = match route::route(session, &writes, None, &avoid) {
            Ok(route) => route,
            Err(refusal) => {
                let waited = loss::hold_refused(session, &mut run, &mut avoid, refusal);
                match Box::pin(waited).await? {
                    true => continue,
                    false => return Ok(false),
                }
            }
        };
        match servers_tried::checkout(session, &plan, &target, &writes).await {
            Ok((lease, pins)) => {
                session.connections.current.held = Some(Held { lease, pins });
                return Ok(true);
            }
            Err(error)
                if without::does_without(
                    &session.core,
                    &session.handle,
                    &session.user,
                    &mut session.variables,
                    &error,
                ) => {}
            Err(error) => {
                let free = false;
                let tried = Tried { plan, target, free };
                if !Box::pin(loss::hold_failed(session, &mut run, &mut avoid, &tried, error))
                    .await?
                {
                    return Ok(false);
                }
            }
        }
    }
}

/// Begins the branch on the held connection.
pub(super) async fn start_branch(
    session: &mut Session,
    group: &Group,
    shape: &Shape,
    plain: bool,
) -> Result<(), ConnectionError> {
    let Some(start) = start_of_branch(&session.context(), &session.promises, group, plain)? else {
        return Ok(());
    };
    if let Some(held) = session.connections.current.held.as_mut() {
        let command = start.run(held.lease.connection_mut()).await?;
        session.run.note_commands(command);
    }
    branch::branch_began(
        &session.variables,
        &mut session.connections,
        &mut session.transaction,
        group,
        shape,
        start.branch,
    );
    Ok(())
}

/// What begins the branch on the held connection; `None` without one.
///
/// # Errors
/// The server has no XA that is safe.
pub(crate) fn start_of_branch(
    context: &StatementContext<'_>,
    promises: &Promises,
    group: &Group,
    plain: bool,
) -> Result<Option<Start>, ConnectionError> {
    let terms = of_session::dist_txn_terms(context.core, context.user, promises);
    let read_only = context.transaction.dist_txn.as_ref().is_some_and(|it| it.read_only);
    let (Some(dist_txn), Some(held)) =
        (&context.transaction.dist_txn, &context.connections.current.held)
    else {
        return Ok(None);
    };
    if !plain
        && let (Engine::MySql, version) = held::version_of(context.core, &held.lease)
        && version < MYSQL_SAFE
        && !terms.unsafe_xa
    {
        return Err(refused(format!(
            "Heddle: a server of group {} is older than MySQL 8.0.30, whose XA does not survive \
             every crash (allow_unsafe_xa)",
            group.name
        )));
    }
    let connection = held.lease.connection();
    let branch = dist_txn.id.filter(|_| !plain).map(|id| Branch {
        id,
        group: group.number,
        owner: Place {
            server: connection.server,
            connection: connection.thread_id.into(),
        },
    });
    let mut texts: Vec<Vec<u8>> = Vec::new();
    if terms.lock_wait_ms > 0 {
        texts.push(shorten(terms.lock_wait_ms).into_bytes());
    }
    texts.extend(dist_txn.next.iter().map(|text| text.to_vec()));
    if dist_txn.snapshot && branch.is_some() {
        texts.push(REPEATABLE.to_vec());
    }
    texts.extend(match branch {
        Some(branch) => Some(format!("XA START {branch}").into_bytes()),
        // The client's own statement begins it.
        None if dist_txn.snapshot => None,
        None if read_only => Some(b"START TRANSACTION READ ONLY".to_vec()),
        None => Some(b"START TRANSACTION".to_vec()),
    });
    texts.extend(dist_txn.savepoints.iter().cloned());
    Ok(Some(Start { branch, texts }))
}

/// The transaction needs a name before it has a branch; a coordinator group that fails to give it one is
/// lost. False: the client has been answered.
async fn name_or_lose(
    core: &Core,
    client: &mut Client,
    connections: &mut GroupConnections,
    transaction: &mut Transaction,
    plain: bool,
) -> Result<bool, End> {
    if let Err(error) = dist_txn_name::name_dist_txn(core, connections, transaction, plain).await {
        return lose_coordinator(core, client, connections, transaction, &error).await;
    }
    Ok(true)
}

/// The group that was to decide has lost its part: the whole transaction is over.
async fn lose_coordinator(
    core: &Core,
    client: &mut impl ReplySink,
    connections: &mut GroupConnections,
    transaction: &mut Transaction,
    why: &ConnectionError,
) -> Result<bool, End> {
    let coordinator = transaction.dist_txn.as_ref().and_then(|it| it.parts.first());
    if let Some(coordinator) = coordinator.map(|part| part.group) {
        drop(held::take_held_in(core, connections, coordinator));
    }
    transaction.note_failure(Some(error::DIST_TXN_UNDONE.number));
    let why = why.to_string();
    client.error(&error::DIST_TXN_UNDONE, &[&why]).await?;
    Ok(false)
}
