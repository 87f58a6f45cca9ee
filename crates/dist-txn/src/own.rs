//! Statements that write on several groups: in a transaction of their own, or undone as one statement
//! within the client's.

use std::sync::Arc;

use execute::client::end::End;
use execute::counters::count;
use execute::execution::exec::{Job, Shape};
use execute::session::Session;
use farm::Group;
use mysql_wire::status::Status;

use super::drive::all;
use super::end::Outcome;
use super::verb::begin_of_own;
use crate::{admit, branch, dist_txn_name, end, waits};

/// A statement over several groups under way.
#[must_use]
pub struct Across {
    /// The transaction is the statement's own.
    own: bool,
}

impl Across {
    pub fn is_own(&self) -> bool {
        self.own
    }
}

/// Takes these groups into the open transaction for a statement that runs on all of them, or
/// begins one for it. Each has a connection in its seat then ([`crate::held::held_in`]). `None`: the
/// client has been answered.
pub async fn begin_across(
    session: &mut Session,
    groups: &[Arc<Group>],
    shape: &Shape,
    job: Job,
) -> Result<Option<Across>, End> {
    let own = session.transaction.dist_txn.is_none()
        && session.variables.status.contains(Status::AUTOCOMMIT);
    if own {
        session.transaction.dist_txn = Some(Box::new(begin_of_own(session.variables.status)));
        session.variables.status |= Status::IN_TRANS;
        count(&session.core.counters.xa_of_statements);
    }
    let across = Across { own };
    for (at, group) in groups.iter().enumerate() {
        if at == 1 && !enlist_together(session, &groups[1..], shape, job).await? {
            drop_across(session, Some(across)).await;
            return Ok(None);
        }
        // Without autocommit nothing has begun on the first group yet: a statement for it alone
        // would take its connection by itself.
        if !admit::admit(session, group, shape, job).await?
            || !admit::take_primary(session, shape, job).await?
        {
            drop_across(session, Some(across)).await;
            return Ok(None);
        }
    }
    Ok(Some(across))
}

/// Begins the branches of these groups at the same time. A group where that fails, or that may not
/// come in, is left to [`admit::admit`], which tells the client. False: the client has been answered.
async fn enlist_together(
    session: &mut Session,
    groups: &[Arc<Group>],
    shape: &Shape,
    job: Job,
) -> Result<bool, End> {
    let Some(dist_txn) = &session.transaction.dist_txn else {
        return Ok(true);
    };
    let has_part = |group: &Group| dist_txn.parts.iter().any(|it| it.group == group.number);
    let new = groups.iter().filter(|group| !has_part(group));
    let new: Vec<Arc<Group>> = new.cloned().collect();
    let plain = dist_txn_name::has_plain_parts(
        &session.core,
        &session.user,
        &session.transaction,
        &session.promises,
    );
    let barred = new.iter().any(|group| admit::bars(session, group, shape).is_some());
    if new.len() < 2
        || barred
        || crate::dist_txn_name::name_dist_txn(
            &session.core,
            &mut session.connections,
            &mut session.transaction,
            plain,
        )
        .await
        .is_err()
    {
        return Ok(true);
    }
    let mut asked = Vec::new();
    for (at, group) in new.iter().enumerate() {
        if !sit_for_branch(session, group, shape, job).await? {
            return Ok(false);
        }
        let Ok(Some(start)) =
            admit::start_of_branch(&session.context(), &session.promises, group, plain)
        else {
            continue;
        };
        let Some(mut held) = session.connections.current.held.take() else {
            continue;
        };
        asked.push(Box::pin(async move {
            let began = start.run(held.lease.connection_mut()).await;
            (at, held, start.branch, began)
        }));
    }
    let mut begun = all(asked).await;
    begun.sort_by_key(|(at, ..)| *at);
    for (at, held, branch, began) in begun {
        // Closed, what stands there of a branch is undone.
        if let Ok(command) = began {
            session.run.note_commands(command);
            session.connections.switch_to(&new[at], &session.core);
            session.connections.current.held = Some(held);
            branch::branch_began(
                &session.variables,
                &mut session.connections,
                &mut session.transaction,
                &new[at],
                shape,
                branch,
            );
        }
    }
    Ok(true)
}

/// The seat of the group gets a connection of its primary, which the branch is to begin on. False:
/// the client has been answered.
async fn sit_for_branch(
    session: &mut Session,
    group: &Arc<Group>,
    shape: &Shape,
    job: Job,
) -> Result<bool, End> {
    end::await_ends(session, group.number).await;
    session.connections.switch_to(group, &session.core);
    if !admit::take_primary(session, shape, job).await? {
        waits::stay_alone(
            &session.core,
            &session.variables,
            &mut session.connections,
            &mut session.transaction,
        )
        .await;
        return Ok(false);
    }
    Ok(true)
}

/// The statement does not run: a transaction of its own is over.
pub async fn drop_across(session: &mut Session, across: Option<Across>) {
    if let Some(across) = across.filter(Across::is_own) {
        let _ = end_across(session, across, false).await;
    }
}

/// A statement whose transaction was its own has run on all its groups, or failed on one. The
/// client is answered by the caller, with the error of the outcome where it has one.
pub async fn end_across(session: &mut Session, across: Across, good: bool) -> Outcome {
    debug_assert!(across.own, "the client's transaction is the client's");
    end::finish(session, good).await
}
