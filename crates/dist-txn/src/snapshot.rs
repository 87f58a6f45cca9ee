//! START TRANSACTION WITH CONSISTENT SNAPSHOT over all groups: one view on each, of one moment.
//!
//! Commits over several groups are held up while the views are opened ([`super::Keeper::hold`]), so
//! that each of them is seen on all groups or on none. The transaction has all groups from its
//! beginning. In a farm whose servers have XA it may write on all of them: the views of the branches
//! are opened by their first read. One that says READ ONLY, or is written as dump tools write it, is a
//! plain transaction on each group, begun by the client's own statement; so is one where XA cannot
//! be had, and that may write on one group.

use std::sync::Arc;
use std::time::Duration;

use backend::ConnectionError;
use enginesql::decision::VIEW;
use execute::client::answer::Answers;
use execute::client::end::End;
use execute::connections::group_connections::GroupConnections;
use execute::connections::pin::Pins;
use execute::consistency::promises::Promises;
use execute::counters::count;
use execute::execution::exec::{Job, Shape};
use execute::per_core::Core;
use execute::per_core::keeper::LetGo;
use execute::session::user::SessionUser;
use execute::session::{Session, is_free};
use execute::transaction::distributed::{DistTxn, Part};
use execute::transaction::state::Transaction;
use execute::variables::reading::version_number;
use execute::variables::session_variables::SessionVariables;
use execute::variables::{dist_txn_terms as of_session, user_variables};
use farm::dist_txn::Atomic;
use farm::{Engine, Group, GroupKind, error};
use futures_channel::oneshot;
use mysql_wire::command::Command;
use mysql_wire::status::Status;

use super::drive::allow;
use super::question::NOT_ALLOWED;
use crate::{MYSQL_SAFE, REPEATABLE, admit, dist_txn_name, end, held, positions, verb};

/// Views that could not be opened at the same moment are opened anew so often.
const TRIES: u32 = 8;

/// Pause before that, in milliseconds; it doubles.
const AGAIN_MS: u64 = 5;

/// What kind of transaction it is.
#[derive(Clone, Copy)]
struct Manner {
    read_only: bool,
    /// Plain transactions, no branches.
    plain: bool,
    /// The second group that it writes on is refused.
    one_writer: bool,
    /// Heddle began it for one SELECT.
    of_read: bool,
}

/// What came of an attempt.
enum Opening {
    Opened,
    /// The client has been answered.
    Answered,
    Failed(String),
}

/// Answers START TRANSACTION WITH CONSISTENT SNAPSHOT. False: it is one group's matter, or the
/// session's level has no such views.
pub(super) async fn begin_snapshot(
    session: &mut Session,
    shape: &Shape,
    job: Job,
    read_only: bool,
) -> Result<bool, End> {
    let Some(groups) = groups_of_snapshot(
        &session.core,
        &session.variables,
        &session.connections,
        &session.transaction,
    ) else {
        return Ok(false);
    };
    let parts = session.transaction.dist_txn.as_ref().map_or(0, |it| it.parts.len());
    if parts > 0
        && let Some((error, why)) = end::finish(session, true).await.error()
    {
        session.client.error(&error, &[&why]).await?;
        return Ok(true);
    }
    session.transaction.dist_txn = None;
    session.variables.status -= Status::IN_TRANS | Status::IN_TRANS_READONLY;
    let text = user_variables::text(&session.client.request, &session.prepared, job).to_vec();
    let manner = manner_of_snapshot(
        &session.core,
        &session.user,
        &session.variables,
        &session.promises,
        &groups,
        read_only,
        &text,
    );
    if !open_in_time(session, &groups, shape, job, manner, &text).await? {
        return Ok(true);
    }
    session.variables.status |= Status::IN_TRANS;
    session.variables.status.set(Status::IN_TRANS_READONLY, read_only);
    verb::say_done(
        &mut session.client,
        &mut session.variables,
        &session.transaction,
        &mut session.run,
        shape,
    )
    .await?;
    Ok(true)
}

/// Opens a view on each group. False: the client has been answered.
async fn open_in_time(
    session: &mut Session,
    groups: &[Arc<Group>],
    shape: &Shape,
    job: Job,
    manner: Manner,
    text: &[u8],
) -> Result<bool, End> {
    let until_us = session.core.now_us() + session.promises.failover_wait_ms * 1000;
    for tried in 0.. {
        match open_snapshot(session, groups, shape, job, manner, text).await? {
            Opening::Opened => break,
            Opening::Answered => return Ok(false),
            Opening::Failed(_) if tried < TRIES && session.core.now_us() < until_us => {
                reactor::sleep(Duration::from_millis(AGAIN_MS << tried)).await;
            }
            Opening::Failed(why) => {
                session.client.error(&error::SNAPSHOT_FAILED, &[&why]).await?;
                return Ok(false);
            }
        }
    }
    count(&session.core.counters.xa_snapshots);
    Ok(true)
}

/// Where the operator wants it, a SELECT over several groups outside transactions gets a snapshot of
/// its own. True: one is open, and [`end_read`] ends it. `None`: the client has been
/// answered.
pub async fn begin_read(
    session: &mut Session,
    names: &[Arc<str>],
    shape: &Shape,
    job: Job,
) -> Result<Option<bool>, End> {
    const TEXT: &[u8] = b"START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY";
    let wanted = session.core.settings().dist_txns.snapshot_reads;
    let alone = session.transaction.dist_txn.is_none()
        && is_free(session.variables.status)
        && !shape.writes;
    if !wanted
        || !alone
        || names.len() < 2
        || groups_of_snapshot(
            &session.core,
            &session.variables,
            &session.connections,
            &session.transaction,
        )
        .is_none()
    {
        return Ok(Some(false));
    }
    let snapshot = session.core.snapshot();
    let groups = names.iter().filter_map(|name| snapshot.group(name).cloned());
    let groups: Vec<Arc<Group>> = groups.collect();
    let manner = Manner {
        read_only: true,
        plain: true,
        one_writer: false,
        of_read: true,
    };
    match open_in_time(session, &groups, shape, job, manner, TEXT).await? {
        true => {
            // Its connections are kept until the end.
            session.variables.status |= Status::IN_TRANS | Status::IN_TRANS_READONLY;
            Ok(Some(true))
        }
        false => Ok(None),
    }
}

/// Ends what [`begin_read`] began.
pub async fn end_read(session: &mut Session) {
    let _ = end::finish(session, true).await;
}

/// Opens a view on each group. What it began is undone unless all are open.
async fn open_snapshot(
    session: &mut Session,
    groups: &[Arc<Group>],
    shape: &Shape,
    job: Job,
    manner: Manner,
    text: &[u8],
) -> Result<Opening, End> {
    session.transaction.dist_txn = Some(Box::new(DistTxn {
        read_only: manner.read_only,
        snapshot: true,
        one_writer: manner.one_writer,
        of_read: manner.of_read,
        ..DistTxn::default()
    }));
    let begun = begin_parts(session, groups, shape, job, manner.plain).await?;
    let Opening::Opened = begun else {
        let _ = end::finish(session, false).await;
        return Ok(begun);
    };
    let opened = match take_barriers(&session.core, &session.promises).await {
        Ok(let_go) => {
            if manner.plain {
                positions::note_what_ran(
                    &session.core,
                    &mut session.connections,
                    &mut session.transaction,
                )
                .await;
            }
            let views =
                open_views(&session.core, &mut session.connections, &session.transaction, text)
                    .await;
            let verified = until_let_go(let_go).await;
            views.and(verified)
        }
        Err(why) => Err(why),
    };
    Ok(match opened {
        Ok(()) => Opening::Opened,
        Err(why) => {
            let _ = end::finish(session, false).await;
            Opening::Failed(why)
        }
    })
}

/// Takes a connection of each group and begins its branch. No view is open yet.
async fn begin_parts(
    session: &mut Session,
    groups: &[Arc<Group>],
    shape: &Shape,
    job: Job,
    plain: bool,
) -> Result<Opening, End> {
    for (at, group) in groups.iter().enumerate() {
        session.connections.switch_to(group, &session.core);
        if !admit::take_primary(session, shape, job).await? {
            return Ok(Opening::Answered);
        }
        let begun = match at {
            0 => {
                session.connections.current.replay = None;
                if let Some(dist_txn) = &mut session.transaction.dist_txn {
                    dist_txn.parts.push(Part::plain(group));
                }
                dist_txn_name::name_dist_txn(
                    &session.core,
                    &mut session.connections,
                    &mut session.transaction,
                    plain,
                )
                .await
            }
            _ => admit::start_branch(session, group, shape, plain).await,
        };
        if let Err(error) = begun {
            session.connections.current.held = None;
            return Ok(Opening::Failed(format!("group {}: {error}", group.name)));
        }
    }
    Ok(Opening::Opened)
}

/// Opens the views of all parts, all at once.
async fn open_views(
    core: &Core,
    connections: &mut GroupConnections,
    transaction: &Transaction,
    text: &[u8],
) -> Result<(), String> {
    let Some(dist_txn) = &transaction.dist_txn else {
        return Ok(());
    };
    let texts = dist_txn.parts.iter().map(|part| match part.branch {
        Some(_) => (part.group, vec![VIEW.as_bytes().to_vec()]),
        None => (part.group, vec![REPEATABLE.to_vec(), text.to_vec()]),
    });
    match run_each(core, connections, texts.collect()).await {
        Ok(()) => Ok(()),
        Err(error) => {
            let barred = matches!(
                &error,
                ConnectionError::Refused { number, .. } if NOT_ALLOWED.contains(number)
            );
            if barred {
                let_account_view(core, connections, transaction).await?;
            }
            Err(error.to_string())
        }
    }
}

/// The account is given the right to open views, on all groups.
async fn let_account_view(
    core: &Core,
    connections: &mut GroupConnections,
    transaction: &Transaction,
) -> Result<(), String> {
    let parts = transaction.dist_txn.as_ref().map(|dist_txn| &dist_txn.parts);
    let groups: Vec<u32> = parts
        .into_iter()
        .flatten()
        .filter(|part| part.branch.is_some())
        .map(|part| part.group)
        .collect();
    let operator = Arc::clone(&core.shared.operator);
    for group in groups {
        if let Some(held) = held::held_in(core, connections, group) {
            allow(&*operator, group, held.lease.connection_mut()).await?;
        }
    }
    Ok(())
}

/// All groups, the one that is to decide in front; `None` where there is one only, or where the
/// ordinary way is right.
fn groups_of_snapshot(
    core: &Core,
    variables: &SessionVariables,
    connections: &GroupConnections,
    transaction: &Transaction,
) -> Option<Vec<Arc<Group>>> {
    let repeatable = ["transaction_isolation", "tx_isolation"].iter().all(|name| {
        let level = variables.state.variable(name);
        level.is_none_or(|level| level == b"REPEATABLE-READ")
    });
    let tied = connections
        .current
        .held
        .as_ref()
        .is_some_and(|held| held.pins.contains(Pins::NEXT_TRANSACTION));
    let elsewhere = transaction.dist_txn.is_none() && variables.status.contains(Status::IN_TRANS);
    if !repeatable || tied || elsewhere {
        return None;
    }
    let snapshot = core.snapshot();
    let (sharding, home) = (snapshot.sharding.as_ref()?, snapshot.home()?);
    let names = sharding.groups(&home.name);
    let mut groups: Vec<Arc<Group>> = Vec::with_capacity(names.len());
    groups.extend(names.iter().filter_map(|name| snapshot.group(name).cloned()));
    if groups.len() < 2 {
        return None;
    }
    groups.sort_by_key(|group| group.number);
    // What has no XA can only decide; else it is the group where undeclared tables are.
    let database = String::from_utf8_lossy(variables.state.database().unwrap_or_default());
    let first = sharding.database(&database).unwrap_or(&home.name);
    let galera = groups.iter().position(|it| it.kind == GroupKind::Galera);
    let at = galera.or_else(|| groups.iter().position(|it| it.name == *first));
    groups[..=at.unwrap_or(0)].rotate_right(1);
    Some(groups)
}

fn manner_of_snapshot(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    promises: &Promises,
    groups: &[Arc<Group>],
    read_only: bool,
    text: &[u8],
) -> Manner {
    let terms = of_session::dist_txn_terms(core, user, promises);
    let unfit = |group: &Arc<Group>| {
        let old = group.primary().is_some_and(|server| {
            server.engine == Engine::MySql && version_number(&server.version) < MYSQL_SAFE
        });
        group.kind == GroupKind::Galera || (old && !terms.unsafe_xa)
    };
    // Dump tools write it for servers of all ages.
    let dumps = text.windows(3).any(|it| it == b"/*!");
    let plain = read_only
        || dumps
        || terms.atomic != Atomic::Xa
        || groups[1..].iter().any(unfit)
        || variables.is_unlogged();
    Manner {
        read_only,
        plain,
        one_writer: plain && !read_only && terms.atomic != Atomic::BestEffort,
        of_read: false,
    }
}

/// Holds up all commits over several groups.
async fn take_barriers(core: &Core, promises: &Promises) -> Result<LetGo, String> {
    let (tell, told) = oneshot::channel();
    let reply = Box::new(move |held| {
        // The session may be gone: then they are let go.
        let _ = tell.send(held);
    });
    let limit_ms = promises.failover_wait_ms;
    core.shared.operator.hold(limit_ms, reply);
    told.await.unwrap_or_else(|_| Err("the control plane has ended".to_owned()))
}

/// Lets the commit barriers go; whether they were held until then.
async fn until_let_go(let_go: LetGo) -> Result<(), String> {
    let (tell, told) = oneshot::channel();
    let_go(Box::new(move |verified| {
        // The session may be gone.
        let _ = tell.send(verified);
    }));
    told.await.unwrap_or_else(|_| Err("the views took too long to open".to_owned()))
}

/// Runs texts of their own on the connections of these groups, all groups at once; the first
/// error counts. A connection that breaks is closed.
pub(super) async fn run_each(
    core: &Core,
    connections: &mut GroupConnections,
    texts: Vec<(u32, Vec<Vec<u8>>)>,
) -> Result<(), ConnectionError> {
    let mut asked = Vec::new();
    for (group, texts) in texts {
        let Some(mut held) = held::take_held_in(core, connections, group) else {
            continue;
        };
        asked.push(Box::pin(async move {
            let commands: Vec<(Command, &[u8])> =
                texts.iter().map(|it| (Command::Query, &it[..])).collect();
            let ran = held.lease.connection_mut().run(&commands).await;
            (group, held, ran)
        }));
    }
    let mut first = Ok(());
    for (group, held, ran) in super::drive::all(asked).await {
        match ran {
            Ok(_) => held::put_held_in(core, connections, group, held),
            Err(error) => {
                if matches!(error, ConnectionError::Refused { .. }) {
                    held::put_held_in(core, connections, group, held);
                }
                if first.is_ok() {
                    first = Err(error);
                }
            }
        }
    }
    first
}
