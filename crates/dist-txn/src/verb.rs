//! BEGIN, COMMIT and ROLLBACK in a farm with several groups.

use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::request::Request;
use execute::client::sink::ReplySink;
use execute::connections::group_connections::GroupConnections;
use execute::connections::home::group_of;
use execute::connections::pin::Pins;
use execute::execution::exec::{Job, Shape};
use execute::execution::statement_run::StatementRun;
use execute::per_core::Core;
use execute::prepared::bound;
use execute::session::{self, Session};
use execute::transaction::distributed::{Begun, DistTxn, Part};
use execute::transaction::settle;
use execute::transaction::state::Transaction;
use execute::variables::assigned::switched;
use execute::variables::session_variables::SessionVariables;
use execute::variables::user_variables;
use farm::error;
use mysql_wire::relay::Outcome;
use mysql_wire::status::Status;
use sqltext::{Class, Facts, Verb};

use crate::{end, savepoint, snapshot};

/// Answers BEGIN, COMMIT, ROLLBACK and savepoints. False: it goes on to a server like any
/// statement, on the seat that is the current one now.
pub async fn transact(session: &mut Session, shape: &Shape, job: Job) -> Result<bool, End> {
    if shape.facts.contains(Facts::MULTIPLE) || matches!(job, Job::Prepare(_)) {
        return Ok(false);
    }
    match shape.verb {
        Verb::Begin {
            read_only,
            snapshot: true,
        } if snapshot::begin_snapshot(session, shape, job, read_only).await? => Ok(true),
        Verb::Begin { read_only, .. } => begin_later(session, shape, job, read_only).await,
        Verb::Commit { .. } => end_open(session, shape, true).await,
        Verb::Rollback { .. } => end_open(session, shape, false).await,
        Verb::Savepoint
            if may_begin_with_savepoint(
                &session.variables,
                &session.connections,
                &session.transaction,
            ) =>
        {
            // Its first statement tells on which group.
            session.transaction.dist_txn = Some(Box::new(begin_of_own(session.variables.status)));
            session.variables.status |= Status::IN_TRANS;
            savepoint::savepoint(session, shape, job).await
        }
        Verb::Savepoint | Verb::RollbackTo | Verb::ReleaseSavepoint => {
            savepoint::savepoint(session, shape, job).await
        }
        _ => Ok(false),
    }
}

/// BEGIN: answered, and sent when it is known where.
async fn begin_later(
    session: &mut Session,
    shape: &Shape,
    job: Job,
    read_only: bool,
) -> Result<bool, End> {
    let parts = session.transaction.dist_txn.as_ref().map_or(0, |it| it.parts.len());
    if parts == 1 {
        // It commits what is open there.
        sit_at_coordinator(&session.core, &mut session.connections, &session.transaction);
        session.transaction.renew_part();
        return Ok(false);
    }
    if parts > 1
        && let Some((error, why)) = end::finish(session, true).await.error()
    {
        session.client.error(&error, &[&why]).await?;
        return Ok(true);
    }
    let next = Pins::NEXT_TRANSACTION;
    let tied = session.connections.current.held.as_ref().is_some_and(|it| it.pins.contains(next));
    let elsewhere = parts == 0
        && session.transaction.dist_txn.is_none()
        && session.variables.status.contains(Status::IN_TRANS)
        && session.connections.current.held.is_some();
    if tied || elsewhere {
        // What was set for this transaction was set on that connection.
        begin_here(
            &session.core,
            &mut session.variables,
            &mut session.connections,
            &mut session.transaction,
            read_only,
        );
        return Ok(false);
    }
    let frame =
        Request::query(user_variables::text(&session.client.request, &session.prepared, job))
            .into_frame();
    let before = session.variables.status - (Status::IN_TRANS | Status::IN_TRANS_READONLY);
    let begun = Begun {
        shape: *shape,
        frame,
        before,
    };
    session.transaction.dist_txn = Some(Box::new(DistTxn::only_begun(begun, read_only)));
    session.variables.status |= Status::IN_TRANS;
    session.variables.status.set(Status::IN_TRANS_READONLY, read_only);
    say_done(
        &mut session.client,
        &mut session.variables,
        &session.transaction,
        &mut session.run,
        shape,
    )
    .await?;
    Ok(true)
}

/// COMMIT or ROLLBACK.
async fn end_open(session: &mut Session, shape: &Shape, commit: bool) -> Result<bool, End> {
    let Some(dist_txn) = &session.transaction.dist_txn else {
        return Ok(false);
    };
    let (parts, read_only) = (dist_txn.parts.len(), dist_txn.read_only);
    if parts == 1 {
        sit_at_coordinator(&session.core, &mut session.connections, &session.transaction);
        session.transaction.renew_part();
        return Ok(false);
    }
    let (chain, release) = settle::completion(&session.variables, shape.verb);
    let next = dist_txn.next.clone();
    let ended = match parts {
        0 => {
            session.transaction.dist_txn = None;
            session.variables.status -= Status::IN_TRANS | Status::IN_TRANS_READONLY;
            None
        }
        _ => end::finish(session, commit).await.error(),
    };
    if let Some((error, why)) = ended {
        note_own(&mut session.variables, &mut session.run, shape, Some(error.number));
        session.client.error(&error, &[&why]).await?;
        return Ok(true);
    }
    if chain {
        let begun = plain_begin(session.variables.status, read_only);
        session.transaction.dist_txn = Some(Box::new(DistTxn {
            next,
            ..DistTxn::only_begun(begun, read_only)
        }));
        session.variables.status |= Status::IN_TRANS;
        session.variables.status.set(Status::IN_TRANS_READONLY, read_only);
    }
    say_done(
        &mut session.client,
        &mut session.variables,
        &session.transaction,
        &mut session.run,
        shape,
    )
    .await?;
    match release {
        true => Err(End::Quit),
        false => Ok(true),
    }
}

/// Before such a SET: if it does, all groups commit. False: the client has been answered.
pub async fn commit_by_set(session: &mut Session, job: Job) -> Result<bool, End> {
    let text = bound::text_of(&session.context(), job);
    let text = text
        .as_deref()
        .unwrap_or_else(|| user_variables::text(&session.client.request, &session.prepared, job));
    let refused = match switched(text, "autocommit", &session.variables.mode) {
        None | Some(Some(false)) => return Ok(true),
        Some(Some(true)) => end::finish(session, true).await.error(),
        Some(None) => {
            let why = "it may switch autocommit on, and so commit: send COMMIT before it";
            Some((error::DIST_TXN_REFUSED, why.to_owned()))
        }
    };
    match refused {
        None => Ok(true),
        Some((error, why)) => session.client.error(&error, &[&why]).await.map(|()| false),
    }
}

/// Answers UNLOCK TABLES where no table is locked: it leaves the open transaction as it is. False:
/// it is something else.
pub async fn unlock_nothing(
    client: &mut impl ReplySink,
    variables: &mut SessionVariables,
    connections: &GroupConnections,
    transaction: &Transaction,
    run: &mut StatementRun,
    shape: &Shape,
    job: Job,
) -> Result<bool, End> {
    let asked = shape.verb == Verb::UnlockTables && !matches!(job, Job::Prepare(_));
    let several = shape.facts.contains(Facts::MULTIPLE);
    if !asked || several || transaction.dist_txn.is_none() {
        return Ok(false);
    }
    let others = connections.others.iter().filter_map(|seat| seat.held.as_ref());
    let mut all = others.chain(&connections.current.held);
    if all.any(|held| held.pins.contains(Pins::LOCK_TABLES)) {
        return Ok(false);
    }
    say_done(client, variables, transaction, run, shape).await.map(|()| true)
}

/// Without autocommit a transaction may begin with a savepoint.
fn may_begin_with_savepoint(
    variables: &SessionVariables,
    connections: &GroupConnections,
    transaction: &Transaction,
) -> bool {
    let open = Status::AUTOCOMMIT | Status::IN_TRANS;
    let next = Pins::NEXT_TRANSACTION;
    let tied = connections.current.held.as_ref().is_some_and(|it| it.pins.contains(next));
    transaction.dist_txn.is_none() && !variables.status.intersects(open) && !tied
}

/// The current seat's group is the transaction's first.
pub(super) fn begin_here(
    core: &Core,
    variables: &mut SessionVariables,
    connections: &mut GroupConnections,
    transaction: &mut Transaction,
    read_only: bool,
) {
    let snapshot = core.snapshot();
    let Some(group) = connections.group(&snapshot) else {
        return;
    };
    let part = Part::plain(group);
    let next = std::mem::take(&mut variables.next_transaction);
    let says = |text: &[u8], word: &[u8]| {
        let mut words = text.split(|byte| !byte.is_ascii_alphanumeric());
        words.any(|it| it.eq_ignore_ascii_case(word))
    };
    let reads = next.iter().any(|text| says(text, b"READ") && says(text, b"ONLY"));
    transaction.dist_txn = Some(Box::new(DistTxn {
        read_only: read_only || reads,
        next,
        parts: vec![part],
        ..DistTxn::default()
    }));
}

pub(super) fn sit_at_coordinator(
    core: &Core,
    connections: &mut GroupConnections,
    transaction: &Transaction,
) {
    let coordinator = transaction.dist_txn.as_ref().and_then(|it| it.parts.first());
    let Some(number) = coordinator.map(|part| part.group) else {
        return;
    };
    let snapshot = core.snapshot();
    if let Some(group) = group_of(&snapshot, number) {
        connections.switch_to(group, core);
    }
}

/// It is a SET that may switch autocommit on, and so commit what is open on several groups.
pub fn may_commit_by_set(
    variables: &SessionVariables,
    transaction: &Transaction,
    shape: &Shape,
    job: Job,
) -> bool {
    let set = shape.class == Class::Set && !matches!(job, Job::Prepare(_));
    let off = set && !variables.status.contains(Status::AUTOCOMMIT) && transaction.is_dist_txn();
    off && transaction.dist_txn.as_ref().is_some_and(|it| it.own.is_none())
}

/// Answers the current statement with OK.
pub(super) async fn say_done(
    client: &mut impl ReplySink,
    variables: &mut SessionVariables,
    transaction: &Transaction,
    run: &mut StatementRun,
    shape: &Shape,
) -> Result<(), End> {
    note_own(variables, run, shape, None);
    client.ok(session::status_now(variables, transaction)).await
}

/// A statement was answered here: what was known of the one before is over.
fn note_own(
    variables: &mut SessionVariables,
    run: &mut StatementRun,
    shape: &Shape,
    error: Option<u16>,
) {
    run.number += 1;
    let outcome = Outcome {
        status: Some(variables.status),
        error,
        ..Outcome::default()
    };
    variables.diagnostics.note(shape, &outcome, variables.mode.dialect);
}

/// A transaction that Heddle begins for one statement.
pub(super) fn begin_of_own(before: Status) -> DistTxn {
    DistTxn::only_begun(plain_begin(before, false), false)
}

/// SET TRANSACTION for the one that is about to begin.
pub(super) fn set_next(text: &[u8]) -> (Shape, Request) {
    let shape = Shape {
        class: Class::Set,
        verb: Verb::SetTransaction {
            session: false,
            global: false,
        },
        ..Shape::command()
    };
    (shape, Request::query(text))
}

fn plain_begin(before: Status, read_only: bool) -> Begun {
    let text: &[u8] = match read_only {
        true => b"START TRANSACTION READ ONLY",
        false => b"START TRANSACTION",
    };
    let shape = Shape {
        class: Class::Transaction,
        verb: Verb::Begin {
            read_only,
            snapshot: false,
        },
        facts: Facts::IMPLICIT_COMMIT,
        ..Shape::command()
    };
    Begun {
        shape,
        frame: Request::query(text).into_frame(),
        before,
    }
}

#[cfg(test)]
mod tests {
    use execute::client::sink::buffer::{now, ok};
    use execute::transaction::state::none;
    use execute::variables::session_variables::fresh;
    use mysql_wire::relay::Expect;
    use sqltext::Dialect;

    use super::*;

    #[test]
    fn what_heddle_itself_has_done_is_a_statement_of_its_own() {
        let (mut sink, mut variables) = (Vec::<u8>::new(), fresh(Dialect::MariaDb));
        variables.status = Status::AUTOCOMMIT | Status::IN_TRANS;
        let transaction = none();
        let mut run = StatementRun::default();
        let shape = Shape::command();
        let told = say_done(&mut sink, &mut variables, &transaction, &mut run, &shape);
        now(told).expect("a buffer takes all");
        assert_eq!(ok(&sink), (0, 0, Status::AUTOCOMMIT | Status::IN_TRANS));
        assert_eq!(run.number, 1);
    }

    #[test]
    fn tables_that_nobody_locked_are_unlocked_within_a_transaction_alone() {
        let (mut sink, mut variables) = (Vec::<u8>::new(), fresh(Dialect::MariaDb));
        let mut transaction = none();
        let (connections, mut run) = (GroupConnections::default(), StatementRun::default());
        let shape = Shape {
            verb: Verb::UnlockTables,
            ..Shape::command()
        };
        let job = Job::Frame(Expect::Results);
        let mut unlock = |transaction: &Transaction, shape: &Shape, sink: &mut Vec<u8>| {
            let told = unlock_nothing(
                sink,
                &mut variables,
                &connections,
                transaction,
                &mut run,
                shape,
                job,
            );
            now(told).expect("a buffer takes all")
        };
        assert!(!unlock(&transaction, &shape, &mut sink), "a server unlocks");
        transaction.dist_txn = Some(begin_of_own(Status::AUTOCOMMIT).into());
        assert!(!unlock(&transaction, &Shape::command(), &mut sink), "it is something else");
        assert!(sink.is_empty());
        assert!(unlock(&transaction, &shape, &mut sink));
        ok(&sink);
    }
}
