//! Changes that wait for a container on one core: batch by batch they are carried out, where it is worth it together
//! with those of other cores.
//!
//! Invariant: a core has one batch of a line under way, whoever carries it out.

use std::time::{Duration, Instant};

use session::{Internal, Lost, Written, join_written, merge_written};

use crate::batches::shared_commit::{Entry, News, Turn};
use crate::batches::side::Last;
use crate::change::Moment;
use crate::columns::Columns;
use crate::early::why_lost;
use crate::op::{Op, Outcome, Refusal};
use crate::reading::{Refused, run};
use crate::store::{CHANGED_BYTES_MAX, CHANGES_MAX, Line, Store, Work, now, told};
use crate::ticket::Waiting;
use crate::writing::Batch;

/// Larger batches have commits of their own: a commit costs less than what cores lose that wait for each other.
const SHARES_MAX: usize = 16;

/// A core that has waited so long for another one's batch carries out its own.
const PATIENCE: Duration = Duration::from_millis(100);

/// What a core hears of a batch that another one had taken along, and did not end.
const NOT_ENDED: &str =
    "the core that carried the command out has ended; it may or may not have been carried out";

impl Store {
    /// Carries out changes until none waits.
    pub(crate) async fn change_all(&self, line: &Line) {
        let mut last = Last::default();
        loop {
            line.writer
                .gather(last, || line.changes.borrow().len())
                .await;
            self.hold_early(line).await;
            let batch = line.take_changes();
            if batch.is_empty() {
                line.writer.runs.set(false);
                return;
            }
            let began = Instant::now();
            self.await_early(line, &batch).await;
            let outcomes = self.change_batch(line, &batch).await;
            last = Last {
                answered: batch.len(),
                took: began.elapsed(),
            };
            let mut outcomes = outcomes.into_iter();
            for (work, waiting) in batch {
                let lacking = || Outcome::Refused(Refusal::server("no outcome"));
                let outcome = outcomes.next().unwrap_or_else(lacking);
                let others = &line.early.others;
                match &work {
                    Work::Op(op) => {
                        line.leave_changing(&op.key);
                        others.set(others.get() - 1);
                    }
                    Work::Early(op, client) => {
                        line.leave_changing(&op.key);
                        self.settle_early(line, op, client, why_lost(&outcome).as_deref());
                    }
                    Work::Flush => others.set(others.get() - 1),
                    Work::Barrier => {}
                }
                waiting.answer(outcome);
            }
        }
    }

    async fn change_batch(&self, line: &Line, batch: &[(Work, Waiting)]) -> Vec<Outcome> {
        let ops: Vec<&Op> = batch.iter().filter_map(|(work, _)| work.op()).collect();
        let done = match &batch[0].0 {
            Work::Barrier => return vec![Outcome::Done],
            Work::Flush => self.carry_out_here(line, None).await,
            Work::Early(..) => self.carry_out_here(line, Some(ops)).await,
            Work::Op(_) => self.change_together(line, ops).await,
        };
        match done {
            Ok(outcomes) => {
                let keys = batch.iter().filter_map(|(work, _)| Some(&*work.op()?.key));
                self.forget(line, keys);
                let is_refused = |one: &Outcome| matches!(one, Outcome::Refused(_));
                self.heed(outcomes.iter().any(is_refused));
                outcomes
            }
            Err(why) => vec![Outcome::Refused(why); batch.len()],
        }
    }

    /// Has commands carried out. A few plain sets go with those of other cores, whichever core carries them
    /// out.
    async fn change_together(&self, line: &Line, ops: Vec<&Op>) -> Result<Vec<Outcome>, Refusal> {
        // What has to be looked at before it is written would make the others' sets dearer.
        let shares = ops.iter().all(|op| op.change.is_plain_set()) && ops.len() <= SHARES_MAX;
        let core = self.core.upgrade().map(|core| core.index);
        let (Some(common), Some(core), true) = (&line.common, core, shares) else {
            return self.carry_out_here(line, Some(ops)).await;
        };
        let bytes = ops.iter().map(|op| op.bytes()).sum();
        let copies = || ops.iter().map(|&op| op.clone()).collect();
        let turn = match common.enter(core, bytes, copies) {
            Entry::Turn(turn) => Some(turn),
            Entry::Alone => None,
            Entry::Wait(mut told) => {
                let word = match reactor::timeout(PATIENCE, &mut told).await {
                    Some(word) => Some(word),
                    None if common.leave(core) => None,
                    None => Some(told.await),
                };
                match word {
                    None => None,
                    Some(Ok(News::Turn(turn))) => Some(turn),
                    Some(Ok(News::Done(by, outcomes, written))) => {
                        self.has_written(by, written);
                        return Ok(outcomes);
                    }
                    Some(Err(_)) => return Err(Refusal::server(NOT_ENDED)),
                }
            }
        };
        match turn {
            Some(turn) => self.take_turn(line, turn, (ops, bytes)).await,
            None => self.carry_out_here(line, Some(ops)).await,
        }
    }

    /// Carries out commands, and what other cores have left.
    async fn take_turn(
        &self,
        line: &Line,
        mut turn: Turn,
        (ops, bytes): (Vec<&Op>, usize),
    ) -> Result<Vec<Outcome>, Refusal> {
        turn.gather().await;
        let own = ops.len();
        let others = turn.take(own, bytes, (CHANGES_MAX, CHANGED_BYTES_MAX));
        let began = Instant::now();
        let left = others.iter().flat_map(|left| &left.ops);
        let all = ops.into_iter().chain(left).collect();
        match self.carry_out(line, Some(all)).await {
            Ok((mut outcomes, written)) => {
                let theirs = outcomes.split_off(own.min(outcomes.len()));
                turn.tell(others, theirs.into_iter(), &written, began.elapsed());
                self.has_written_here(written);
                Ok(outcomes)
            }
            Err(why) => {
                let refused = std::iter::repeat_with(|| Outcome::Refused(why.clone()));
                turn.tell(others, refused, &[], began.elapsed());
                Err(why)
            }
        }
    }

    /// Carries out commands of this core; `None` empties the table.
    async fn carry_out_here(
        &self,
        line: &Line,
        ops: Option<Vec<&Op>>,
    ) -> Result<Vec<Outcome>, Refusal> {
        let (outcomes, written) = self.carry_out(line, ops).await?;
        self.has_written_here(written);
        Ok(outcomes)
    }

    /// Carries out commands, or empties the table: their outcomes, and what the line's internal session has written by
    /// now.
    async fn carry_out(
        &self,
        line: &Line,
        ops: Option<Vec<&Op>>,
    ) -> Result<(Vec<Outcome>, Vec<Written>), Refusal> {
        let mut open = self.open(&line.writer).await?;
        let columns = match self.columns(&mut open.internal).await {
            Ok(columns) => columns,
            Err(why) => {
                line.writer.internal.replace(Some(open));
                return Err(why);
            }
        };
        let done = match ops {
            None => flush(&mut open.internal, &columns).await,
            Some(ops) => {
                let moment = Moment {
                    now_s: now().as_secs(),
                    cas: self.next_cas(),
                };
                let batch = Batch {
                    columns: &columns,
                    ops,
                    moment,
                };
                Box::pin(batch.carry_out(&mut open.internal)).await
            }
        };
        let outcomes = done.map_err(|lost| told(&lost))?;
        let written = open.internal.written();
        line.writer.internal.replace(Some(open));
        Ok((outcomes, written))
    }

    fn has_written_here(&self, written: Vec<Written>) {
        let core = self.core.upgrade().map_or(0, |core| core.index);
        self.has_written(core, written);
    }

    /// An internal session of this core has written for the store, and has written all of this by now.
    fn has_written(&self, core: usize, written: Vec<Written>) {
        let mut by = self.written_by.borrow_mut();
        join_written(by.entry(core).or_default(), written);
        let mut all = Vec::new();
        by.values().for_each(|one| merge_written(&mut all, one));
        self.written.replace(all);
        self.writings.set(self.writings.get() + 1);
    }
}

async fn flush(internal: &mut Internal, columns: &Columns) -> Result<Vec<Outcome>, Lost> {
    let done = run(internal, &columns.flush()).await?;
    let refused = |refused: Refused| Outcome::Refused(refused.for_client());
    Ok(vec![done.map_or_else(refused, |()| Outcome::Done)])
}
