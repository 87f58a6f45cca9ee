//! How a transaction ends that touched several groups: by its client, before a statement that commits,
//! or because one of its parts is gone.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use backend::ConnectionError;
use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::sink::ReplySink;
use execute::connections::group_connections::{GroupConnections, Held, seat_number};
use execute::connections::home::group_of;
use execute::connections::parked::reclaim;
use execute::connections::pin::Pins;
use execute::consistency::acks::wait;
use execute::consistency::client_level;
use execute::consistency::promises::{Promises, keeping};
use execute::counters::count;
use execute::execution::exec::{Job, Shape};
use execute::execution::profile::commands::OwnCommand;
use execute::per_core::Core;
use execute::per_core::handle::Handle;
use execute::session::context::StatementContext;
use execute::session::{Session, is_free};
use execute::transaction::distributed::{DistTxn, Own, Part, Unfinished};
use execute::transaction::loss;
use execute::transaction::state::Transaction;
use execute::variables::session_variables::SessionVariables;
use farm::dist_txn::GlobalId;
use farm::{ClientError, error};
use machines::xa::commit::{Commit, Event, Reason, Reply};
use mysql_wire::command::Command;
use mysql_wire::status::Status;
use sqltext::Verb;
use statistics::Failed;

use super::drive::{Drive, Ended, Side};
use super::question::{COMMIT, ROLLBACK};
use crate::waits::{self, SETTLE_MS};
use crate::{held, xa};

/// Errors by which a server has rolled back all that its group had of the transaction, or Heddle has
/// it rolled back: ER_LOCK_DEADLOCK, ER_LOCK_WAIT_TIMEOUT, ER_CHECKREAD (MariaDB's `innodb_snapshot_isolation`,
/// on by default from 11.8 on), XA_RBROLLBACK, XA_RBTIMEOUT, XA_RBDEADLOCK.
pub(super) const UNDONE: [u16; 6] = [1213, 1205, 1020, 1402, 1613, 1614];

/// Pause between two looks whether recovery has ended a branch.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// How a transaction ended.
#[derive(Debug)]
pub enum Outcome {
    Committed,
    /// With the reason, unless it was the client's wish.
    Undone(Option<String>),
    /// Nobody can say yet.
    Unknown(String),
}

impl Outcome {
    /// What the client hears of a COMMIT that ended so.
    pub fn error(self) -> Option<(ClientError, String)> {
        match self {
            Outcome::Committed | Outcome::Undone(None) => None,
            Outcome::Undone(Some(why)) => Some((error::DIST_TXN_UNDONE, why)),
            Outcome::Unknown(why) => Some((error::OUTCOME_UNKNOWN, why)),
        }
    }
}

/// Ends the open transaction on all its groups. The client is not answered.
pub(crate) async fn finish(session: &mut Session, commit: bool) -> Outcome {
    session.variables.status -= Status::IN_TRANS | Status::IN_TRANS_READONLY;
    let Some(dist_txn) = session.transaction.dist_txn.take() else {
        return Outcome::Committed;
    };
    session.connections.current.replay = None;
    for seat in &mut session.connections.others {
        seat.replay = None;
    }
    let crossed = dist_txn.has_crossed();
    let counted = crossed && !dist_txn.of_read;
    let id = dist_txn.id;
    let own = dist_txn.own.as_deref();
    let (sides, pins) =
        sides_of(&session.core, &session.variables, &mut session.connections, dist_txn.parts, own);
    let ended = match id.is_some() || !crossed {
        true if sides.is_empty() => return Outcome::Undone(None),
        true => {
            let drive = drive_of(
                &session.context(),
                &session.handle,
                &session.promises,
                id,
                sides,
                own,
                None,
            );
            let event = match commit {
                true => Event::Commit,
                false => Event::Rollback,
            };
            Box::pin(drive.run(event)).await
        }
        false => finish_plain(sides, commit).await,
    };
    let outcome = judge(&session.core, &mut session.transaction, id, &ended);
    session.run.note_commands(ended.commands);
    if counted {
        let counters = &session.core.counters;
        let groups = u64::try_from(ended.sides.len()).unwrap_or_default();
        counters.xa_participants.fetch_add(groups, Relaxed);
        count(match (commit, &outcome) {
            (true, Outcome::Committed) => &counters.xa_commit_success,
            (_, Outcome::Unknown(_)) => &counters.xa_unknown,
            (true, Outcome::Undone(_)) => &counters.xa_commit_failure,
            (false, _) => &counters.xa_rollback_success,
        });
    }
    settle_sides(session, ended.sides, pins);
    outcome
}

/// The session ends, or begins anew: what it has open over several groups is rolled back; what is
/// prepared stays so.
pub async fn leave_dist_txn(session: &mut Session) {
    if session.transaction.own_is_prepared() {
        // Closed, they let others end it.
        drop(session.connections.take_all_held());
    }
    if session.transaction.is_dist_txn() && !session.transaction.own_is_prepared() {
        count(&session.core.counters.xa_rollback_on_close);
        let _ = finish(session, false).await;
    }
    session.transaction.dist_txn = None;
}

/// The connections go where they belong, and the session's reads will have what was written.
pub(super) fn settle_sides(session: &mut Session, sides: Vec<Side>, pins: Vec<Option<Pins>>) {
    let snapshot = session.core.snapshot();
    let back = seat_number(&session.core, &session.connections);
    for (side, tied) in sides.into_iter().zip(pins) {
        let Some(group) = group_of(&snapshot, side.group) else {
            continue;
        };
        session.connections.switch_to(group, &session.core);
        if !side.gtid.is_empty() {
            keeping::note_committed(
                &session.core,
                &mut session.connections,
                &session.transaction,
                &mut session.promises,
                &String::from_utf8_lossy(&side.gtid),
            );
        }
        match (side.lease, tied) {
            (Some(lease), Some(pins)) if !pins.is_empty() => {
                session.connections.current.held = Some(Held { lease, pins });
            }
            (Some(lease), _) => reclaim::give_back(&session.handle, lease),
            (None, Some(_)) => {
                session.connections.lose_proof();
                client_level::tell_client(
                    &session.core,
                    &session.connections,
                    &session.transaction,
                    None,
                );
                loss::leave_connection(
                    &session.core,
                    &mut session.connections,
                    &mut session.prepared,
                );
            }
            (None, None) => {}
        }
    }
    if let Some(group) = group_of(&snapshot, back) {
        session.connections.switch_to(group, &session.core);
    }
    let_go(&session.handle, &session.variables, &mut session.connections);
}

/// Before a statement that commits implicitly, on this group: what is open is committed over all
/// its groups. False: that failed, and the client has been answered.
pub async fn commit_before(session: &mut Session, group: u32) -> Result<bool, End> {
    let Some(dist_txn) = &session.transaction.dist_txn else {
        return Ok(true);
    };
    let untouched = dist_txn.parts.is_empty();
    // Its server does it.
    if let [only] = &dist_txn.parts[..]
        && only.group == group
    {
        return Ok(true);
    }
    if untouched {
        session.transaction.dist_txn = None;
        session.variables.status -= Status::IN_TRANS | Status::IN_TRANS_READONLY;
        return Ok(true);
    }
    match finish(session, true).await.error() {
        None => Ok(true),
        Some((error, why)) => {
            session.client.error(&error, &[&why]).await?;
            Ok(false)
        }
    }
}

/// After a command: a transaction of which a part is gone is rolled back everywhere.
pub async fn after_command(session: &mut Session) {
    if Box::pin(xa::after_own(session)).await {
        return;
    }
    let Some(dist_txn) = &mut session.transaction.dist_txn else {
        return;
    };
    let failed = dist_txn.failed.take();
    let crossed = dist_txn.has_crossed();
    let groups: Vec<u32> = dist_txn.parts.iter().map(|part| part.group).collect();
    let in_transaction = session.variables.status.contains(Status::IN_TRANS);
    if groups.is_empty() {
        if !in_transaction && !dist_txn.lost {
            session.transaction.dist_txn = None;
        }
        return;
    }
    let mut whole = groups
        .iter()
        .all(|group| held::held_in(&session.core, &mut session.connections, *group).is_some());
    if whole && let Some(number) = failed {
        whole = !(crossed && UNDONE.contains(&number));
        for group in &groups {
            whole = whole && is_open(&session.core, &mut session.connections, *group).await;
        }
    }
    // The client heard that the transaction is over: the command was lost with a server that had no
    // part in it yet.
    let told_over = whole && failed.is_some() && !in_transaction;
    match (whole, crossed) {
        (true, _) if told_over => drop(finish(session, false).await),
        (true, true) => {}
        (true, false) => {
            if !in_transaction && session.variables.status.contains(Status::AUTOCOMMIT) {
                session.transaction.dist_txn = None;
                let_go(&session.handle, &session.variables, &mut session.connections);
            }
        }
        (false, true) => drop(finish(session, false).await),
        (false, false) => {
            session.transaction.dist_txn = None;
            if failed.is_some() {
                leave_ended(
                    &session.core,
                    &session.handle,
                    &mut session.variables,
                    &mut session.connections,
                    groups[0],
                );
            }
            let_go(&session.handle, &session.variables, &mut session.connections);
        }
    }
    if !whole && failed.is_none() && in_transaction {
        session.transaction.dist_txn = Some(Box::new(DistTxn {
            lost: true,
            ..DistTxn::default()
        }));
        session.variables.status |= Status::IN_TRANS;
    }
}

/// What ends them.
pub(super) fn drive_of(
    context: &StatementContext<'_>,
    handle: &Handle,
    promises: &Promises,
    id: Option<GlobalId>,
    sides: Vec<Side>,
    own: Option<&Own>,
    machine: Option<Commit>,
) -> Drive {
    Drive {
        operator: Arc::clone(&context.core.shared.operator),
        id,
        sides,
        alone: None,
        own: own.map(|own| own.xid.clone()),
        machine,
        settle_ms: promises.failover_wait_ms + SETTLE_MS,
        copies: wait::copies(context.core, handle, context.user, context.transaction).into(),
    }
}

/// The parts with their connections, and what ties the session to each of these.
pub(super) fn sides_of(
    core: &Core,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    parts: Vec<Part>,
    own: Option<&Own>,
) -> (Vec<Side>, Vec<Option<Pins>>) {
    let mut pins = Vec::with_capacity(parts.len());
    let mut sides = Vec::with_capacity(parts.len());
    for part in parts {
        let held = held::take_held_in(core, connections, part.group);
        let behind = part.hurried.then(|| waits::give_back_waits(variables));
        let (lease, tied) = held.map_or((None, None), |it| (Some(it.lease), Some(it.pins)));
        pins.push(tied.map(|tied| match own {
            Some(_) => tied - Pins::XA,
            None => tied,
        }));
        sides.push(side(part, lease, behind, own));
    }
    (sides, pins)
}

/// The server has rolled the transaction of one group back by itself.
pub(super) fn leave_ended(
    core: &Core,
    handle: &Handle,
    variables: &mut SessionVariables,
    connections: &mut GroupConnections,
    group: u32,
) {
    variables.status -= Status::IN_TRANS | Status::IN_TRANS_READONLY;
    if let Some(held) = held::take_held_in(core, connections, group) {
        match held.pins.is_empty() {
            true => reclaim::give_back(handle, held.lease),
            false => held::put_held_in(core, connections, group, held),
        }
    }
    connections.current.replay = None;
}

/// The group's connection says that its transaction is still open.
pub(super) async fn is_open(core: &Core, connections: &mut GroupConnections, group: u32) -> bool {
    let Some(held) = held::held_in(core, connections, group) else {
        return true;
    };
    let asked = held.lease.connection_mut().run(&[(Command::Ping, b"")]);
    let status = asked.await.ok().and_then(|outcome| outcome.status);
    status.is_some_and(|status| status.contains(Status::IN_TRANS))
}

pub(super) fn judge(
    core: &Core,
    transaction: &mut Transaction,
    id: Option<GlobalId>,
    ended: &Ended,
) -> Outcome {
    let name = |seat: machines::xa::Seat| {
        let side = ended.sides.get(usize::from(seat.0));
        side.map_or("?", |side| &*side.name)
    };
    match &ended.reply {
        Reply::Committed { unfinished } => {
            if !unfinished.is_empty() {
                count(&core.counters.xa_unfinished);
            }
            for seat in unfinished {
                if let (Some(id), Some(side)) = (id, ended.sides.get(usize::from(seat.0))) {
                    let (group, name) = (side.group, side.name.clone());
                    transaction.unfinished.push(Unfinished { id, group, name });
                }
            }
            Outcome::Committed
        }
        Reply::RolledBack(None) | Reply::Held => Outcome::Undone(None),
        Reply::RolledBack(Some(Reason::Refused(seat, refusal))) => {
            let (number, text) = (refusal.number, &refusal.text);
            let why = format!("group {} refused: error {number}: {text}", name(*seat));
            Outcome::Undone(Some(why))
        }
        Reply::RolledBack(Some(Reason::Lost(seat))) => {
            let why = format!("the connection to group {} was lost", name(*seat));
            Outcome::Undone(Some(why))
        }
        Reply::Unknown => Outcome::Unknown(match id {
            Some(id) => format!(
                "the group that decides the transaction ({id}) does not answer; it will be ended \
                 as a whole"
            ),
            None => "the connection to a group was lost with its COMMIT".to_owned(),
        }),
    }
}

/// Outside transactions: connections that nothing ties go back, of all seats.
fn let_go(handle: &Handle, variables: &SessionVariables, connections: &mut GroupConnections) {
    if !is_free(variables.status) {
        return;
    }
    let free = |held: &mut Option<Held>| held.take_if(|held| held.pins.is_empty());
    let others = connections.others.iter_mut().filter_map(|seat| free(&mut seat.held));
    let mut all: Vec<Held> = others.collect();
    all.extend(free(&mut connections.current.held));
    for held in all {
        reclaim::give_back(handle, held.lease);
    }
}

/// The client does not know that its transaction is undone: it hears so now. False: it is not, or
/// the statement says ROLLBACK.
pub async fn tell_undone(
    client: &mut impl ReplySink,
    variables: &mut SessionVariables,
    transaction: &mut Transaction,
    shape: &Shape,
    job: Job,
) -> Result<bool, End> {
    let lost = transaction.dist_txn.as_ref().is_some_and(|it| it.lost);
    if !lost || matches!(job, Job::Prepare(_)) {
        return Ok(false);
    }
    transaction.dist_txn = None;
    variables.status -= Status::IN_TRANS | Status::IN_TRANS_READONLY;
    if matches!(shape.verb, Verb::Rollback { .. }) {
        return Ok(false);
    }
    let why = "the connection to a group was lost behind its last statement";
    client.error(&error::DIST_TXN_UNDONE, &[why]).await?;
    Ok(true)
}

/// Waits until recovery has ended what transactions of this session have left on a group, if any have; not for
/// ever.
pub(super) async fn await_ends(session: &mut Session, group: u32) {
    if !session.transaction.unfinished.is_empty() {
        let (core, promises) = (&session.core, &session.promises);
        Box::pin(await_unfinished(core, &mut session.transaction, promises, group)).await;
    }
}

async fn await_unfinished(
    core: &Core,
    transaction: &mut Transaction,
    promises: &Promises,
    group: u32,
) {
    let until_us = core.now_us() + promises.failover_wait_ms * 1000;
    let all = std::mem::take(&mut transaction.unfinished);
    for one in all {
        if one.group != group {
            transaction.unfinished.push(one);
            continue;
        }
        let operator = Arc::clone(&core.shared.operator);
        while operator.is_in_doubt(&one.id, &one.name) && core.now_us() < until_us {
            reactor::sleep(LOOK_AGAIN).await;
        }
    }
}

fn side(
    part: Part,
    lease: Option<backend::Lease>,
    behind: Option<String>,
    own: Option<&Own>,
) -> Side {
    let xid = match (part.branch, own) {
        (Some(branch), _) => Some(branch.to_string().into()),
        (None, Some(own)) => Some(own.xid.to_string().into()),
        (None, None) => None,
    };
    Side {
        xid,
        group: part.group,
        name: part.name,
        work: part.work,
        branch: part.branch,
        lease,
        behind,
        prepared: false,
        gtid: Vec::new(),
    }
}

/// Ends plain transactions one after the other: those that only read, and those that need not be whole.
async fn finish_plain(mut sides: Vec<Side>, commit: bool) -> Ended {
    let mut committed = false;
    let mut unclear = false;
    let mut reason = None;
    let mut sent = Vec::new();
    for (seat, side) in (0u16..).map(machines::xa::Seat).zip(&mut sides) {
        let Some(lease) = &mut side.lease else {
            reason.get_or_insert(Reason::Lost(seat));
            continue;
        };
        // What failed before the first commit undoes the rest.
        let commits = commit && (reason.is_none() || committed);
        let text: &[u8] = match commits {
            true => COMMIT.as_bytes(),
            false => ROLLBACK.as_bytes(),
        };
        let mut commands = vec![(Command::Query, text)];
        commands.extend(side.behind.as_ref().map(|it| (Command::Query, it.as_bytes())));
        let mut told = backend::Told::default();
        let connection = lease.connection_mut();
        let (server, began) = (connection.server, Instant::now());
        let failed = match connection.run_telling(&commands, &mut told).await {
            Ok(_) => {
                committed |= commits && side.work.wrote;
                None
            }
            Err(ConnectionError::Refused {
                number, message, ..
            }) => {
                let text = String::from_utf8_lossy(&message).into_owned();
                let refusal = machines::xa::commit::Refusal { number, text };
                reason.get_or_insert(Reason::Refused(seat, refusal));
                side.lease = None;
                Some(Failed::Error(number))
            }
            Err(_) => {
                // Its COMMIT may have been done.
                unclear |= commits && side.work.wrote;
                reason.get_or_insert(Reason::Lost(seat));
                side.lease = None;
                Some(Failed::Retried("connection_lost"))
            }
        };
        side.gtid = told.gtid;
        sent.push(OwnCommand {
            name: if commits { "COMMIT" } else { "ROLLBACK" },
            server,
            began,
            ended: Instant::now(),
            failed,
        });
    }
    let machine = Commit::new(sides.iter().map(|side| side.work));
    Ended {
        reply: plain_reply(commit, reason, committed || unclear),
        sides,
        machine,
        commands: sent,
    }
}

/// What plain transactions came to; `some`: one of them may be committed.
fn plain_reply(commit: bool, reason: Option<Reason>, some: bool) -> Reply {
    match reason {
        None if commit => Reply::Committed {
            unfinished: Vec::new(),
        },
        _ if !commit => Reply::RolledBack(None),
        Some(_) if some => Reply::Unknown,
        reason => Reply::RolledBack(reason),
    }
}
