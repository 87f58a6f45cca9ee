//! XA transactions of a client's own, in a farm with several groups.
//!
//! XA START is answered here and sent in front of the first statement that reaches a group, as BEGIN is.
//! That group has the transaction under the client's own name; it is the coordinator group. Groups that come later
//! get branches, as those of any transaction that crosses. XA PREPARE prepares these first, then the
//! client's transaction, with the row in it that names them: from then on whoever commits it decides
//! (see `engine::held`), this session, another one, one of another router, or somebody at the server
//! itself. XA COMMIT … ONE PHASE is a commit of Heddle's own.
//!
//! XA END is remembered only, and sent with what comes behind it.

use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::request::Request;
use execute::connections::group_connections::GroupConnections;
use execute::connections::pin::Pins;
use execute::consistency::promises::Promises;
use execute::execution::exec::{Job, Ran, Shape};
use execute::execution::servers;
use execute::per_core::Core;
use execute::session::Session;
use execute::session::context::StatementContext;
use execute::transaction::distributed::{DistTxn, Own, XaState};
use execute::transaction::state::Transaction;
use execute::variables::session_variables::SessionVariables;
use execute::variables::user_variables;
use farm::dist_txn::Verdict;
use farm::{Xid, error};
use machines::xa::commit::{Event, Reason, Reply};
use mysql_wire::status::Status;
use sqltext::{Facts, Xa, XaName, XaWay};

use super::end::{Outcome, UNDONE};
use crate::xa_elsewhere::{self, Told, told};
use crate::{admit, end, held, verb};

/// The XA statement that the current command is, and its text, where Heddle itself carries such statements out.
pub fn own_statement(
    context: &StatementContext<'_>,
    shape: &Shape,
    job: Job,
) -> Option<(Xa, Vec<u8>)> {
    let several = context.core.glance().groups.len() > 1;
    if !several || shape.facts.contains(Facts::MULTIPLE) || matches!(job, Job::Prepare(_)) {
        return None;
    }
    let text = user_variables::text(&context.client.request, context.prepared, job).to_vec();
    let xa = sqltext::xa(&text, &context.variables.mode)?;
    Some((xa, text))
}

/// Answers the client's XA statement, but for XA RECOVER. False: it goes to a server as it is.
pub async fn own_xa(session: &mut Session, shape: &Shape, job: Job) -> Result<bool, End> {
    let Some((xa, text)) = own_statement(&session.context(), shape, job) else {
        return Ok(false);
    };
    let name = match &xa {
        Xa::Recover => return Ok(false),
        Xa::Start(name, _)
        | Xa::End(name, _)
        | Xa::Prepare(name)
        | Xa::Commit(name, _)
        | Xa::Rollback(name) => name,
    };
    let XaName {
        gtrid,
        bqual,
        format,
    } = name;
    // Of one that is too long the server says so.
    let Some(xid) = Xid::new(gtrid, bqual, *format) else {
        return Ok(false);
    };
    let answer = match xa {
        Xa::Start(_, way) => match own_start(session, shape, job, xid, way, &text).await? {
            Some(answer) => answer,
            None => return Ok(true),
        },
        _ if session.transaction.own().is_none() => match own_absent(
            &session.core,
            &session.variables,
            &mut session.connections,
            &mut session.transaction,
            &session.promises,
            &xa,
            &xid,
        )
        .await
        {
            Some(answer) => answer,
            None => return Ok(false),
        },
        Xa::End(_, way) => own_end(&mut session.transaction, &xid, way),
        Xa::Prepare(_) => match own_prepare(session, &xid, shape).await? {
            Some(answer) => answer,
            None => return Ok(true),
        },
        Xa::Commit(_, way) => own_commit(session, &xid, way).await,
        Xa::Rollback(_) => own_rollback(session, &xid).await,
        Xa::Recover => None,
    };
    match answer {
        None => {
            verb::say_done(
                &mut session.client,
                &mut session.variables,
                &session.transaction,
                &mut session.run,
                shape,
            )
            .await?
        }
        Some((error, why)) => session.client.error(&error, &[&why]).await?,
    }
    Ok(true)
}

/// XA START. `None`: the client has been answered.
async fn own_start(
    session: &mut Session,
    shape: &Shape,
    job: Job,
    xid: Xid,
    way: XaWay,
    text: &[u8],
) -> Result<Option<Told>, End> {
    if way == XaWay::Resume
        && let Some(own) = session.transaction.dist_txn.as_mut().and_then(|it| it.own.as_mut())
        && own.state == XaState::Idle
    {
        if own.xid != xid {
            return Ok(Some(told(error::XA_UNKNOWN)));
        }
        own.state = XaState::Active;
        return Ok(Some(None));
    }
    if way != XaWay::Plain {
        return Ok(Some(told(error::XA_INVALID)));
    }
    if let Some(own) = session.transaction.own() {
        return Ok(Some(Some((error::XA_STATE, own.state.name().to_owned()))));
    }
    let locks = |held: &execute::connections::group_connections::Held| {
        held.pins.contains(Pins::LOCK_TABLES)
    };
    if session.transaction.dist_txn.is_some()
        || session.variables.status.contains(Status::IN_TRANS)
        || session.connections.current.held.as_ref().is_some_and(locks)
    {
        return Ok(Some(told(error::XA_OUTSIDE)));
    }
    if xid.is_reserved() {
        return Ok(Some(told(error::XA_RESERVED)));
    }
    if xa_elsewhere::own_is_taken(&session.core, &xid).await {
        return Ok(Some(told(error::XA_TAKEN)));
    }
    let own = Some(Box::new(Own {
        xid,
        state: XaState::Active,
        machine: None,
    }));
    let next = Pins::NEXT_TRANSACTION;
    if session.connections.current.held.as_ref().is_some_and(|it| it.pins.contains(next)) {
        // What was set for this transaction was set on that connection.
        own_start_here(session, *shape, job, own).await?;
        return Ok(None);
    }
    let before = session.variables.status - (Status::IN_TRANS | Status::IN_TRANS_READONLY);
    let begun = execute::transaction::distributed::Begun {
        shape: *shape,
        frame: Request::query(text).into_frame(),
        before,
    };
    let mut dist_txn = DistTxn::only_begun(begun, false);
    dist_txn.own = own;
    session.transaction.dist_txn = Some(Box::new(dist_txn));
    session.variables.status |= Status::IN_TRANS;
    Ok(Some(None))
}

/// The held connection gets XA START at once, since another one would lack what was set there; the
/// client hears the server's answer.
async fn own_start_here(
    session: &mut Session,
    shape: Shape,
    job: Job,
    own: Option<Box<Own>>,
) -> Result<(), End> {
    verb::begin_here(
        &session.core,
        &mut session.variables,
        &mut session.connections,
        &mut session.transaction,
        false,
    );
    if let Some(dist_txn) = &mut session.transaction.dist_txn {
        dist_txn.own = own;
    }
    // What begins a transaction recalls nothing.
    let (Ran::Answered | Ran::Recalls(_)) =
        Box::pin(servers::run_here(session, shape, job)).await?;
    if session.transaction.own_refused().is_some() || session.connections.current.held.is_none() {
        session.transaction.dist_txn = None;
    }
    Ok(())
}

/// XA PREPARE. `None`: the client has been answered.
async fn own_prepare(session: &mut Session, xid: &Xid, shape: &Shape) -> Result<Option<Told>, End> {
    let Some(own) = session.transaction.own() else {
        return Ok(Some(None));
    };
    if own.state != XaState::Idle {
        return Ok(Some(Some((error::XA_STATE, own.state.name().to_owned()))));
    }
    if own.xid != *xid {
        return Ok(Some(told(error::XA_UNKNOWN)));
    }
    let untouched = session.transaction.dist_txn.as_ref().is_some_and(|it| it.parts.is_empty());
    if untouched && !Box::pin(own_at_home(session, shape)).await? {
        return Ok(None);
    }
    Ok(Some(Box::pin(own_hold(session)).await))
}

/// One that has touched nothing is prepared all the same, where others find it. False: the client
/// has been answered.
async fn own_at_home(session: &mut Session, shape: &Shape) -> Result<bool, End> {
    let snapshot = session.core.snapshot();
    let Some(home) = snapshot.home().cloned() else {
        session.client.error(&error::NO_GROUP, &[]).await?;
        return Ok(false);
    };
    let quiet = Shape {
        hint: shape.hint,
        ..Shape::command()
    };
    session.connections.switch_to(&home, &session.core);
    admit::decide_here(session, &home, &quiet).await
}

/// Prepares all of it.
async fn own_hold(session: &mut Session) -> Told {
    let mut dist_txn = session.transaction.dist_txn.take()?;
    let parts = std::mem::take(&mut dist_txn.parts);
    let (sides, pins) = crate::end::sides_of(
        &session.core,
        &session.variables,
        &mut session.connections,
        parts,
        dist_txn.own.as_deref(),
    );
    let drive = end::drive_of(
        &session.context(),
        &session.handle,
        &session.promises,
        dist_txn.id,
        sides,
        dist_txn.own.as_deref(),
        None,
    );
    let mut ended = Box::pin(drive.run(Event::Hold)).await;
    session.run.note_commands(std::mem::take(&mut ended.commands));
    if ended.reply == Reply::Held {
        for (side, tied) in ended.sides.into_iter().zip(pins) {
            let (part, lease) = side.into_part();
            if let Some(lease) = lease {
                // No statement gives it back.
                let pins = tied.unwrap_or(Pins::empty()) | Pins::XA;
                held::put_held_in(
                    &session.core,
                    &mut session.connections,
                    part.group,
                    execute::connections::group_connections::Held { lease, pins },
                );
            }
            dist_txn.parts.push(part);
        }
        if let Some(own) = &mut dist_txn.own {
            own.state = XaState::Prepared;
            own.machine = Some(ended.machine);
        }
        session.transaction.dist_txn = Some(dist_txn);
        return None;
    }
    session.variables.status -= Status::IN_TRANS | Status::IN_TRANS_READONLY;
    let outcome = end::judge(&session.core, &mut session.transaction, dist_txn.id, &ended);
    end::settle_sides(session, ended.sides, pins);
    session.connections.forget_xa();
    match outcome {
        Outcome::Undone(why) => Some((error::XA_UNDONE, why.unwrap_or_default())),
        Outcome::Committed | Outcome::Unknown(_) => {
            let why =
                "the group that has it does not answer; whether it is prepared cannot be told";
            Some((error::XA_PENDING, why.to_owned()))
        }
    }
}

async fn own_commit(session: &mut Session, xid: &Xid, way: XaWay) -> Told {
    let own = session.transaction.own()?;
    match (own.state, way) {
        (state, _) if own.xid != *xid => Some((error::XA_STATE, state.name().to_owned())),
        (XaState::Idle, XaWay::OnePhase) => own_finish(session, true).await,
        (XaState::Prepared, XaWay::Plain) => own_release(session, Verdict::Commit).await,
        (XaState::Prepared, _) => told(error::XA_INVALID),
        (XaState::Undone, _) => {
            own_forget(&mut session.variables, &mut session.transaction);
            Some((error::XA_UNDONE, LOST.to_owned()))
        }
        (state, _) => Some((error::XA_STATE, state.name().to_owned())),
    }
}

async fn own_rollback(session: &mut Session, xid: &Xid) -> Told {
    let own = session.transaction.own()?;
    match own.state {
        state if own.xid != *xid => Some((error::XA_STATE, state.name().to_owned())),
        XaState::Idle => own_finish(session, false).await,
        XaState::Prepared => own_release(session, Verdict::Abort).await,
        XaState::Undone => {
            own_forget(&mut session.variables, &mut session.transaction);
            None
        }
        XaState::Active => Some((error::XA_STATE, XaState::Active.name().to_owned())),
    }
}

/// Ends one that is not prepared.
async fn own_finish(session: &mut Session, commit: bool) -> Told {
    let outcome = Box::pin(end::finish(session, commit)).await;
    session.connections.forget_xa();
    match outcome {
        Outcome::Committed | Outcome::Undone(None) => None,
        Outcome::Undone(Some(why)) => Some((error::XA_UNDONE, why)),
        Outcome::Unknown(why) => Some((error::XA_PENDING, why)),
    }
}

/// Ends one that is prepared.
async fn own_release(session: &mut Session, verdict: Verdict) -> Told {
    let mut dist_txn = session.transaction.dist_txn.take()?;
    session.variables.status -= Status::IN_TRANS | Status::IN_TRANS_READONLY;
    let machine = dist_txn.own.as_mut().and_then(|own| own.machine.take());
    let parts = std::mem::take(&mut dist_txn.parts);
    let (mut sides, pins) = crate::end::sides_of(
        &session.core,
        &session.variables,
        &mut session.connections,
        parts,
        dist_txn.own.as_deref(),
    );
    for side in &mut sides {
        side.prepared = true;
    }
    let drive = end::drive_of(
        &session.context(),
        &session.handle,
        &session.promises,
        dist_txn.id,
        sides,
        dist_txn.own.as_deref(),
        machine,
    );
    let event = match verdict {
        Verdict::Commit => Event::Commit,
        Verdict::Abort => Event::Rollback,
    };
    let mut ended = Box::pin(drive.run(event)).await;
    session.run.note_commands(std::mem::take(&mut ended.commands));
    let clear = match ended.reply {
        Reply::Committed { .. } | Reply::RolledBack(None) => true,
        Reply::RolledBack(Some(Reason::Lost(_) | Reason::Refused(..))) => false,
        Reply::Held | Reply::Unknown => false,
    };
    if clear {
        let _ = end::judge(&session.core, &mut session.transaction, dist_txn.id, &ended);
    }
    end::settle_sides(session, ended.sides, pins);
    session.connections.forget_xa();
    match (clear, dist_txn.own) {
        (false, Some(own)) => {
            Box::pin(xa_elsewhere::own_elsewhere(
                &session.core,
                &mut session.connections,
                &session.transaction,
                &session.promises,
                &own.xid,
                verdict,
            ))
            .await
        }
        _ => None,
    }
}

/// After a command within the client's own transaction. False: there is none.
pub(super) async fn after_own(session: &mut Session) -> bool {
    let Some(dist_txn) = &mut session.transaction.dist_txn else {
        return false;
    };
    let Some(state) = dist_txn.own.as_ref().map(|own| own.state) else {
        return false;
    };
    let failed = dist_txn.failed.take();
    // The client heard that it is over.
    let told_over = failed.is_some() && !session.variables.status.contains(Status::IN_TRANS);
    session.variables.status |= Status::IN_TRANS;
    if matches!(state, XaState::Prepared | XaState::Undone) {
        return true;
    }
    let Some(dist_txn) = &session.transaction.dist_txn else {
        return true;
    };
    let crossed = dist_txn.has_crossed();
    let groups: Vec<u32> = dist_txn.parts.iter().map(|part| part.group).collect();
    let held = groups
        .iter()
        .all(|group| held::held_in(&session.core, &mut session.connections, *group).is_some());
    let mut whole = held && !told_over;
    if whole && let Some(number) = failed {
        whole = !(crossed && UNDONE.contains(&number));
        for group in &groups {
            whole =
                whole && crate::end::is_open(&session.core, &mut session.connections, *group).await;
        }
    }
    if !whole {
        undo_own(session).await;
    }
    true
}

/// A part of it is gone: so is the rest. The client has to end it still.
pub(super) async fn undo_own(session: &mut Session) {
    let Some(xid) = session.transaction.own().map(|own| own.xid.clone()) else {
        return;
    };
    let _ = Box::pin(end::finish(session, false)).await;
    session.connections.forget_xa();
    let own = Some(Box::new(Own {
        xid,
        state: XaState::Undone,
        machine: None,
    }));
    session.transaction.dist_txn = Some(Box::new(DistTxn {
        own,
        ..DistTxn::default()
    }));
    session.variables.status |= Status::IN_TRANS;
}

/// An XA statement of a session that has no XA transaction. `None`: a server says what is wrong.
async fn own_absent(
    core: &Core,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    transaction: &mut Transaction,
    promises: &Promises,
    xa: &Xa,
    xid: &Xid,
) -> Option<Told> {
    let verdict = match xa {
        Xa::Commit(_, XaWay::Plain) => Verdict::Commit,
        Xa::Rollback(_) => Verdict::Abort,
        _ => return None,
    };
    if transaction.dist_txn.is_some() || variables.status.contains(Status::IN_TRANS) {
        return Some(told(error::XA_OUTSIDE));
    }
    Some(xa_elsewhere::own_elsewhere(core, connections, transaction, promises, xid, verdict).await)
}

fn own_end(transaction: &mut Transaction, xid: &Xid, way: XaWay) -> Told {
    let own = transaction.dist_txn.as_mut().and_then(|it| it.own.as_mut())?;
    match own.state {
        _ if way != XaWay::Plain => told(error::XA_INVALID),
        XaState::Active if own.xid != *xid => told(error::XA_UNKNOWN),
        XaState::Active => {
            own.state = XaState::Idle;
            None
        }
        XaState::Undone => Some((error::XA_UNDONE, LOST.to_owned())),
        state => Some((error::XA_STATE, state.name().to_owned())),
    }
}

/// Nothing of it is left.
fn own_forget(variables: &mut SessionVariables, transaction: &mut Transaction) {
    transaction.dist_txn = None;
    variables.status -= Status::IN_TRANS | Status::IN_TRANS_READONLY;
}

/// Why it is undone that nobody ended.
const LOST: &str = "a part of it was lost, or rolled back by its server";
