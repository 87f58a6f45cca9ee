//! Statements that write on several groups: in a transaction of their own, or undone as one statement
//! within the client's.

use std::sync::Arc;

use farm::Group;
use mysql_wire::status::Status;

use super::drive::all;
use super::end::Outcome;
use super::verb::begin_of_own;
use crate::client::end::End;
use crate::counters::count;
use crate::dist_txn::admit;
use crate::dist_txn::{self, branch, dist_txn_name, end, waits};
use crate::execution::exec::{Job, Shape};
use crate::session::Session;

/// A statement over several groups under way.
#[must_use]
pub(crate) struct Across {
    /// The transaction is the statement's own.
    own: bool,
}

impl Across {
    pub(crate) fn is_own(&self) -> bool {
        self.own
    }
}

impl Session {
    /// Takes these groups into the open transaction for a statement that runs on all of them, or
    /// begins one for it. Each has a connection in its seat then ([`crate::dist_txn::held::held_in`]). `None`: the
    /// client has been answered.
    pub(crate) async fn begin_across(
        &mut self,
        groups: &[Arc<Group>],
        shape: &Shape,
        job: Job,
    ) -> Result<Option<Across>, End> {
        let own = self.transaction.dist_txn.is_none()
            && self.variables.status.contains(Status::AUTOCOMMIT);
        if own {
            self.transaction.dist_txn = Some(Box::new(begin_of_own(self.variables.status)));
            self.variables.status |= Status::IN_TRANS;
            count(&self.core.counters.xa_of_statements);
        }
        let across = Across { own };
        for (at, group) in groups.iter().enumerate() {
            if at == 1 && !self.enlist_together(&groups[1..], shape, job).await? {
                self.drop_across(Some(across)).await;
                return Ok(None);
            }
            // Without autocommit nothing has begun on the first group yet: a statement for it alone
            // would take its connection by itself.
            if !self.admit(group, shape, job).await? || !self.take_primary(shape, job).await? {
                self.drop_across(Some(across)).await;
                return Ok(None);
            }
        }
        Ok(Some(across))
    }

    /// Begins the branches of these groups at the same time. A group where that fails, or that may not
    /// come in, is left to [`Session::admit`], which tells the client. False: the client has been answered.
    async fn enlist_together(
        &mut self,
        groups: &[Arc<Group>],
        shape: &Shape,
        job: Job,
    ) -> Result<bool, End> {
        let Some(dist_txn) = &self.transaction.dist_txn else {
            return Ok(true);
        };
        let has_part = |group: &Group| dist_txn.parts.iter().any(|it| it.group == group.number);
        let new = groups.iter().filter(|group| !has_part(group));
        let new: Vec<Arc<Group>> = new.cloned().collect();
        let plain = dist_txn_name::has_plain_parts(
            &self.core,
            &self.user,
            &self.transaction,
            &self.promises,
        );
        let barred = new.iter().any(|group| self.bars(group, shape).is_some());
        if new.len() < 2
            || barred
            || dist_txn::dist_txn_name::name_dist_txn(
                &self.core,
                &mut self.connections,
                &mut self.transaction,
                plain,
            )
            .await
            .is_err()
        {
            return Ok(true);
        }
        let mut asked = Vec::new();
        for (at, group) in new.iter().enumerate() {
            if !self.sit_for_branch(group, shape, job).await? {
                return Ok(false);
            }
            let Ok(Some(start)) =
                admit::start_of_branch(&self.context(), &self.promises, group, plain)
            else {
                continue;
            };
            let Some(mut held) = self.connections.current.held.take() else {
                continue;
            };
            asked.push(Box::pin(async move {
                let began = start.run(held.lease.connection_mut()).await;
                (at, held, start.branch, began.is_ok())
            }));
        }
        let mut begun = all(asked).await;
        begun.sort_by_key(|(at, ..)| *at);
        for (at, held, branch, good) in begun {
            // Closed, what stands there of a branch is undone.
            if good {
                self.connections.switch_to(&new[at], &self.core);
                self.connections.current.held = Some(held);
                branch::branch_began(
                    &self.variables,
                    &mut self.connections,
                    &mut self.transaction,
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
        &mut self,
        group: &Arc<Group>,
        shape: &Shape,
        job: Job,
    ) -> Result<bool, End> {
        if !self.transaction.unfinished.is_empty() {
            Box::pin(end::await_ends(
                &self.core,
                &mut self.transaction,
                &self.promises,
                group.number,
            ))
            .await;
        }
        self.connections.switch_to(group, &self.core);
        if !self.take_primary(shape, job).await? {
            waits::stay_alone(
                &self.core,
                &self.variables,
                &mut self.connections,
                &mut self.transaction,
            )
            .await;
            return Ok(false);
        }
        Ok(true)
    }

    /// The statement does not run: a transaction of its own is over.
    pub(crate) async fn drop_across(&mut self, across: Option<Across>) {
        if let Some(across) = across.filter(Across::is_own) {
            let _ = self.end_across(across, false).await;
        }
    }

    /// A statement whose transaction was its own has run on all its groups, or failed on one. The
    /// client is answered by the caller, with the error of the outcome where it has one.
    pub(crate) async fn end_across(&mut self, across: Across, good: bool) -> Outcome {
        debug_assert!(across.own, "the client's transaction is the client's");
        self.finish(good).await
    }
}
