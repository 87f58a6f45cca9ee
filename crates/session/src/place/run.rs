//! Runs a command where its tables are: on one group, on several, or answers why it runs nowhere.

use farm::{ClientError, error};
use planner::place::Spot;
use planner::{Answer, Finish, Merging, Unanswered};
use sqltext::Class;

use super::Where;
use crate::end::End;
use crate::exec::{Job, Shape};
use crate::fan::{Fan, Part, Wanted};
use crate::session::Session;

impl Session {
    /// Runs the client's command to its answer, and those behind it that may go with it.
    pub(crate) async fn run_free(&mut self, shape: Shape, job: Job) -> Result<(), End> {
        if shape.bad_hint {
            return Box::pin(self.refuse_hint()).await;
        }
        let ends = shape.class == Class::Transaction;
        if (ends || self.crossing.is_some()) && Box::pin(self.open_ends(&shape, job)).await? {
            return Ok(());
        }
        let mut place = self.place(&shape, job);
        if let Where::Later(spot) = &place {
            if let Spot::Select | Spot::Limited(_) | Spot::Moves(_) = **spot {
                let spot = spot.clone();
                return Box::pin(self.write_rows(&spot, job)).await;
            }
            place = Box::pin(self.place_later(&shape, job)).await;
        }
        match place {
            Where::Stay => {
                let prepares = matches!(job, Job::Prepare(_));
                let open = self.crossing.is_some() && !prepares;
                if open && !Box::pin(self.admit_anywhere(&shape, job)).await? {
                    return Ok(());
                }
            }
            // To prepare is not to run: it takes no group into a transaction.
            Where::Group(group) if matches!(job, Job::Prepare(_)) => self.sit(&group),
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
        Box::pin(self.spread(&shape)).await;
        Ok(())
    }

    /// The same on the current seat.
    pub(crate) async fn run_here(&mut self, shape: Shape, job: Job) -> Result<(), End> {
        self.recording = None;
        if self.may_be_cached(&shape, job) && Box::pin(self.answer_from_cache(&shape)).await? {
            return Ok(());
        }
        self.run_on_servers(shape, job).await
    }

    /// In a farm of several groups, answers what begins and ends transactions over them. True when it
    /// did.
    async fn open_ends(&mut self, shape: &Shape, job: Job) -> Result<bool, End> {
        let sharded = self.core.shared.published.load().sharding.is_some();
        if shape.class != Class::Transaction || !(sharded || self.crossing.is_some()) {
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
            Where::Parts(writing) => {
                let answer = match writing.returns {
                    true => Wanted::Rows(Merging::default()),
                    false => Wanted::Counts {
                        insert_id: writing.insert_id,
                        same: writing.same,
                    },
                };
                let fan = Fan {
                    parts: writing.parts,
                    answer,
                    clock: true,
                };
                self.fan_out(&fan, shape, job).await
            }
            Where::Rows(text) => match self.answer_of(&text) {
                Ok(answer) => self.answer_rows(answer, shape, job).await,
                Err((error, detail)) => self.client.error(&error, &[&detail]).await,
            },
            // It was asked for already.
            Where::Later(_) => Ok(()),
        }
    }

    /// How a query over several groups is answered, or why it is not.
    pub(super) fn answer_of(&self, text: &[u8]) -> Result<Answer, (ClientError, String)> {
        let refused = |why: String| (error::NOT_OVER_GROUPS, why);
        let text = std::str::from_utf8(text)
            .map_err(|_| refused("its text is not UTF-8; use SET NAMES utf8mb4".to_owned()))?;
        let snapshot = self.core.shared.published.load();
        let (Some(sharding), Some(home)) = (&snapshot.sharding, snapshot.home()) else {
            return Err(refused("the farm has no shard maps any more".to_owned()));
        };
        let database = String::from_utf8_lossy(self.state.database().unwrap_or_default());
        let asked = planner::Asked {
            sharding,
            home: &home.name,
            database: &database,
            mode: &self.mode,
            scratch: &format!("h{}_", self.handle.id),
        };
        planner::answer(text, &asked).map_err(|unanswered| match unanswered {
            Unanswered::Unknown(why) => refused(why),
            Unanswered::Disabled(shard) => (error::SHARD_DISABLED, shard.to_string()),
        })
    }

    async fn answer_rows(&mut self, answer: Answer, shape: Shape, job: Job) -> Result<(), End> {
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
        let fan = Fan {
            parts,
            answer: Wanted::Rows(merging),
            clock: answer.clock,
        };
        self.fan_out(&fan, shape, job).await
    }
}
