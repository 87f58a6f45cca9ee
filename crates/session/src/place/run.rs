//! Runs a command where its tables are: on one group, on several, or answers why it runs nowhere.

use std::sync::Arc;

use farm::{ClientError, error};
use mysql_wire::relay::Expect;
use planner::place::Spot;
use planner::{Answer, Finish, Unanswered};
use sqltext::{Class, Facts, MsHint, Verb};

use super::Where;
use crate::client::answer::Answers;
use crate::client::end::End;
use crate::consistency::consistency_hints;
use crate::dist_txn::verb::unlock_nothing;
use crate::dist_txn::{end, verb, xa_elsewhere};
use crate::execution::cache::recall;
use crate::execution::exec::{Job, Shape};
use crate::per_core::{Core, Handle};
use crate::place;
use crate::place::explain::show;
use crate::place::into;
use crate::scatter::{Part, Scatter, Wanted, all_servers, sift};
use crate::session::Session;
use crate::transaction::unit_of_work;
use crate::variables::lasting;
use crate::variables::session_variables::SessionVariables;

impl Session {
    /// Runs the client's command to its answer, and those behind it that may go with it.
    pub(crate) async fn run_free(&mut self, shape: Shape, job: Job) -> Result<(), End> {
        let all = shape.hint == Some(MsHint::All);
        if (all || shape.bad_hint) && Box::pin(refuse_hint(self, &shape, job)).await? {
            return Ok(());
        }
        let ends = shape.class == Class::Transaction || shape.verb == Verb::Xa;
        if ends && !self.await_views(&shape, job).await? {
            return Ok(());
        }
        if (ends || self.transaction.dist_txn.is_some())
            && Box::pin(self.open_ends(&shape, job)).await?
        {
            return Ok(());
        }
        let kept = unit_of_work::begin_unit_of_work(&self.core, &self.handle, &shape, job);
        let mut place = place::place(&self.context(), &self.run, &shape, job);
        if let Some(snapshot) = kept
            && unit_of_work::is_kept_from(&self.handle, &place, &shape, &snapshot)
        {
            match Box::pin(self.wait_for_move(&shape, job)).await? {
                Some(free) => place = free,
                None => return Ok(()),
            }
        }
        if all {
            return Box::pin(all_servers::run_on_all(self, place, shape, job)).await;
        }
        if let Where::Later(spot) = &place {
            if let Spot::Select | Spot::ByKeys | Spot::Limited(_) | Spot::Moves(_) = **spot {
                let spot = spot.clone();
                return Box::pin(self.write_rows(&spot, job)).await;
            }
            place = Box::pin(self.place_later(&shape, job)).await;
        }
        match place {
            Where::Stay => {
                let prepares = matches!(job, Job::Prepare(_));
                let open = self.transaction.dist_txn.is_some() && !prepares;
                if open && !Box::pin(self.admit_anywhere(&shape, job)).await? {
                    return Ok(());
                }
            }
            // To prepare is not to run: it takes no group into a transaction.
            Where::Group(group) if matches!(job, Job::Prepare(_)) => {
                self.connections.switch_to(&group, &self.core)
            }
            Where::Group(group) => {
                if !self.admit(&group, &shape, job).await? {
                    return Ok(());
                }
            }
            other => return Box::pin(self.run_placed(other, shape, job)).await,
        }
        if shape.class != Class::Set {
            return self.run_here(shape, job).await;
        }
        self.run_here(shape, job).await?;
        Box::pin(lasting::spread(
            &self.core,
            &self.client.request,
            &mut self.variables,
            &mut self.connections,
            &shape,
        ))
        .await;
        Ok(())
    }

    /// The same on the current seat.
    pub(crate) async fn run_here(&mut self, shape: Shape, job: Job) -> Result<(), End> {
        self.run.recording = None;
        let asks = matches!(job, Job::Frame(Expect::Results) | Job::Execute(_));
        if self.promises.row_cache && asks {
            if Box::pin(self.answer_by_row(&shape, job)).await? {
                return Ok(());
            }
            if self.run.point.is_some() {
                return self.run_on_servers(shape, job).await;
            }
        }
        if recall::may_be_cached(
            &self.client.request,
            &self.connections,
            &self.promises,
            &shape,
            job,
        ) && Box::pin(self.answer_from_cache(&shape)).await?
        {
            return Ok(());
        }
        self.run_on_servers(shape, job).await
    }

    /// In a farm of several groups, answers what begins and ends transactions over them. True when it
    /// did.
    async fn open_ends(&mut self, shape: &Shape, job: Job) -> Result<bool, End> {
        if self.tell_positions(shape, job).await?
            || unlock_nothing(
                &mut self.client,
                &mut self.variables,
                &self.connections,
                &self.transaction,
                &mut self.run,
                shape,
                job,
            )
            .await?
        {
            return Ok(true);
        }
        if end::tell_undone(
            &mut self.client,
            &mut self.variables,
            &mut self.transaction,
            shape,
            job,
        )
        .await?
            || xa_elsewhere::own_bars(&mut self.client, &self.transaction, shape).await?
        {
            return Ok(true);
        }
        if verb::may_commit_by_set(&self.variables, &self.transaction, shape, job)
            && !Box::pin(self.commit_by_set(job)).await?
        {
            return Ok(true);
        }
        let sharded = self.core.shared.published.load().sharding.is_some();
        if shape.verb == Verb::Xa {
            return match sharded || self.transaction.dist_txn.is_some() {
                true => self.own_xa(shape, job).await,
                false => Ok(false),
            };
        }
        if shape.class != Class::Transaction || !(sharded || self.transaction.dist_txn.is_some()) {
            return Ok(false);
        }
        self.transact(shape, job).await
    }

    /// Runs a command that is not for one group.
    async fn run_placed(&mut self, place: Where, shape: Shape, job: Job) -> Result<(), End> {
        match place {
            Where::Stay | Where::Group(_) => self.run_here(shape, job).await,
            Where::Refuse(error, detail) => self.client.error(&error, &[&detail]).await,
            Where::Define(definition) => self.define(&definition, shape, job).await,
            Where::Parts(mut writing) => {
                if let Err(why) = sift::sift(&self.core, &self.variables, &mut writing.parts) {
                    return self.client.error(&error::NOT_OVER_GROUPS, &[&why]).await;
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
                };
                self.scatter_out(&scatter, shape, job).await
            }
            Where::Rows(text) if shape.verb == Verb::Do => self.discard(&text).await,
            Where::InText(found) => Box::pin(self.run_in_text(&found, shape, job)).await,
            Where::Bulk(id) => Box::pin(self.run_bulk(id)).await,
            Where::Explain(asking) => Box::pin(show::explain_placed(self, &asking)).await,
            Where::Upkeep(parts) => self.keep_up(parts, shape, job).await,
            Where::Rows(text) => {
                if shape.facts.contains(Facts::INTO)
                    && let Some(into) = into::variables_of(&self.variables, &text)
                {
                    return Box::pin(self.select_into(&text, &into)).await;
                }
                let text = match Box::pin(self.with_own_values(text)).await? {
                    Ok(text) => text,
                    Err(refusal) => return self.client.pass_refusal(&refusal).await,
                };
                match answer_of(&self.core, &self.handle, &self.variables, &text) {
                    Ok(answer) => self.answer_rows(answer, shape, job).await,
                    Err((error, detail)) => self.client.error(&error, &[&detail]).await,
                }
            }
            Where::Several => Box::pin(self.run_several()).await,
            Where::Load(plan) => Box::pin(self.load_file(&plan, shape, job)).await,
            // It was asked for already.
            Where::Later(_) => Ok(()),
        }
    }

    pub(super) async fn answer_rows(
        &mut self,
        answer: Answer,
        shape: Shape,
        job: Job,
    ) -> Result<(), End> {
        if !self.core.settings().dist_txns.snapshot_reads {
            return self.answer_rows_now(answer, shape, job).await;
        }
        let mut groups: Vec<Arc<str>> = Vec::new();
        for group in answer.fragments.iter().flat_map(|it| &it.groups) {
            if !groups.contains(group) {
                groups.push(group.clone());
            }
        }
        let Some(opened) = Box::pin(self.begin_read(&groups, &shape, job)).await? else {
            return Ok(());
        };
        let answered = Box::pin(self.answer_rows_now(answer, shape, job)).await;
        if opened {
            self.end_read().await;
        }
        answered
    }

    async fn answer_rows_now(&mut self, answer: Answer, shape: Shape, job: Job) -> Result<(), End> {
        let merging = match answer.finish {
            Finish::Merge(merging) => merging,
            Finish::Scratch(_) => return Box::pin(self.gather(&answer, shape, job)).await,
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
        if let Err(why) = sift::sift(&self.core, &self.variables, &mut parts) {
            return self.client.error(&error::NOT_OVER_GROUPS, &[&why]).await;
        }
        let scatter = Scatter {
            parts,
            answer: Wanted::Rows(merging),
            clock: answer.clock,
        };
        self.scatter_out(&scatter, shape, job).await
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

/// How a query over several groups is answered, or why it is not.
pub(super) fn answer_of(
    core: &Core,
    handle: &Handle,
    variables: &SessionVariables,
    text: &[u8],
) -> Result<Answer, (ClientError, String)> {
    planned(core, handle, variables, text, planner::answer)
}

/// What the planner makes of a text that needs several groups, or why it makes nothing of it.
pub(super) fn planned<T>(
    core: &Core,
    handle: &Handle,
    variables: &SessionVariables,
    text: &[u8],
    plan: impl FnOnce(&str, &planner::Asked<'_>) -> Result<T, Unanswered>,
) -> Result<T, (ClientError, String)> {
    let refused = |why: String| (error::NOT_OVER_GROUPS, why);
    let text = std::str::from_utf8(text)
        .map_err(|_| refused("its text is not UTF-8; use SET NAMES utf8mb4".to_owned()))?;
    let snapshot = core.shared.published.load();
    let (Some(sharding), Some(home)) = (&snapshot.sharding, snapshot.home()) else {
        return Err(refused("the farm has no shard maps any more".to_owned()));
    };
    let database = String::from_utf8_lossy(variables.state.database().unwrap_or_default());
    let asked = planner::Asked {
        sharding,
        home: &home.name,
        database: &database,
        mode: &variables.mode,
        scratch: &format!("h{}_", handle.id),
        changing: None,
    };
    plan(text, &asked).map_err(|unanswered| match unanswered {
        Unanswered::Unknown(why) => refused(why),
        Unanswered::Disabled(shard) => (error::SHARD_DISABLED, shard.to_string()),
    })
}
