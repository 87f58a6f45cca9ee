//! The loop of one move: it carries out what the machine says, and tells it what came of it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::part::{Ferry, PartTable};
use farm::ServerId;
use faults::Stage;
use machines::reshard::{Action, Event as Told, Phase, Reshard, Work};

use super::feed::Feed;
use super::verify::Hot;
use crate::reshard::Resharding;
use catalog::command::CommandError;
use catalog::event::{Event, epoch_ms};
use catalog::record::{MOVE, MoveRecord, json};

/// How often it is looked whether somebody wants the move to end or to stand still.
const LOOK: Duration = Duration::from_millis(50);

/// Why a work did not go well.
pub(super) enum Trouble {
    /// It takes longer than clients may wait.
    Late(String),
    /// It may go well another time.
    Failed(String),
    /// Somebody has to do something first.
    Stuck(String),
    /// The source's log lacks what comes next.
    Gone(String),
}

impl From<CommandError> for Trouble {
    fn from(error: CommandError) -> Trouble {
        Trouble::Failed(error.to_string())
    }
}

impl From<engine::Error> for Trouble {
    fn from(error: engine::Error) -> Trouble {
        match engine::binlog::is_gap(&error) {
            true => Trouble::Gone(error.to_string()),
            false => Trouble::Failed(error.to_string()),
        }
    }
}

/// A primary, how often it was cut off, and the group's timeline.
pub(super) type Leads = (ServerId, u32, u32);

/// What a move's task has at hand; it can find all of it out again.
#[derive(Default)]
pub(super) struct Crew {
    pub(super) ferry: Option<Ferry>,
    /// The primaries to which it goes: of the source, and of the target.
    pub(super) primaries: Option<[Leads; 2]>,
    pub(super) tables: Vec<Arc<PartTable>>,
    pub(super) feed: Option<Feed>,
    /// Where both sides may differ still, because writers are at it.
    pub(super) hot: Vec<Hot>,
    /// Since when clients wait.
    pub(super) held_since: Option<Instant>,
}

impl Resharding {
    /// Works on a move until it has ended, or stands still.
    pub(super) async fn run_move(self: &Arc<Self>, job: &str) {
        let Some(kept) = self.move_record(job) else {
            return;
        };
        let (mut machine, actions) = Reshard::start(kept.value.phase());
        let mut actions = VecDeque::from(actions);
        let mut crew = Crew::default();
        let begin = format!("{} phase {}", shown(&kept.value), machine.phase().name());
        self.tell_move(job, &kept.value, "move_runs", begin);
        while let Some(action) = actions.pop_front() {
            let told = match action {
                Action::Enter(phase) => match self.enter_phase(job, phase, &mut crew).await {
                    Ok(()) => continue,
                    // Another router leads, or somebody has changed the record: whoever looks next
                    // reads it anew.
                    Err(error) => {
                        tracing::debug!(job, %error, "a move stops");
                        return;
                    }
                },
                Action::Wait { ms } => {
                    tokio::select! {
                        () = tokio::time::sleep(Duration::from_millis(ms)) => continue,
                        wish = self.wish(job, machine.phase()) => wish,
                    }
                }
                Action::Rest => return,
                Action::Do(Work::Flip) => self.told_of(job, self.flip(job, &mut crew).await).await,
                Action::Do(work) => {
                    let outcome = tokio::select! {
                        outcome = self.work_on(job, work, &mut crew) => Ok(outcome),
                        wish = self.wish(job, machine.phase()) => Err(wish),
                    };
                    match outcome {
                        Ok(outcome) => self.told_of(job, outcome).await,
                        Err(wish) => {
                            // What was under way on these connections is unknown.
                            crew = Crew {
                                held_since: crew.held_since,
                                ..Crew::default()
                            };
                            wish
                        }
                    }
                }
            };
            if self.context.leadership.lead().is_none() {
                return;
            }
            if let (Told::Done, Action::Do(work)) = (told, action) {
                pass(work);
            }
            actions = machine.step(told).into();
        }
    }

    async fn work_on(&self, job: &str, work: Work, crew: &mut Crew) -> Result<(), Trouble> {
        match work {
            Work::Prepare => self.prepare_move(job, crew).await,
            Work::Copy => self.copy_part(job, crew).await,
            Work::Follow => self.follow_part(job, crew).await,
            Work::Verify => self.verify_part(job, crew).await,
            Work::Drain => self.drain_part(job, crew).await,
            Work::Settle => self.settle_part(job, crew).await,
            Work::Flip => Ok(()),
            Work::Prune => self.prune_part(job).await,
            Work::Clean => self.clean_part(job).await,
        }
    }

    /// What the machine hears of an outcome; why it is so stands in the record.
    async fn told_of(&self, job: &str, outcome: Result<(), Trouble>) -> Told {
        let (told, why) = match outcome {
            Ok(()) => (Told::Done, String::new()),
            Err(Trouble::Late(why)) => (Told::Late, why),
            Err(Trouble::Failed(why)) => (Told::Failed, why),
            Err(Trouble::Stuck(why)) => (Told::Stuck, why),
            Err(Trouble::Gone(why)) => (Told::Gone, why),
        };
        if told != Told::Done {
            tracing::info!(job, why, "a move's step did not go well");
        }
        let stuck = told == Told::Stuck;
        let noted = async {
            let lead = &self.context.leadership.must_lead()?;
            let note = |record: &mut MoveRecord| {
                record.error.clone_from(&why);
                record.stuck = stuck;
            };
            self.change_move(lead, job, note).await
        };
        if let Err(error) = noted.await {
            tracing::debug!(job, %error, "a move's trouble cannot be noted");
        }
        if stuck && let Some(kept) = self.move_record(job) {
            self.tell_move(job, &kept.value, "move_stuck", why);
        }
        told
    }

    /// Ready when somebody wants the move to end or to stand still.
    async fn wish(&self, job: &str, phase: Phase) -> Told {
        loop {
            let record = self.move_record(job).map(|kept| kept.value);
            match record {
                None => return Told::Pause,
                Some(it) if it.aborted && !phase.is_flipped() && phase != Phase::Clean => {
                    return Told::Abort;
                }
                Some(it) if it.paused && !it.aborted => return Told::Pause,
                Some(_) => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// Records a phase.
    async fn enter_phase(
        &self,
        job: &str,
        phase: Phase,
        crew: &mut Crew,
    ) -> Result<(), CommandError> {
        let kept = self.move_record(job);
        let kept = kept.ok_or_else(|| CommandError::Refused("it is forgotten".to_owned()))?;
        let before = kept.value.phase();
        let mut record = kept.value;
        record.phase = phase.name().to_owned();
        record.began |= phase == Phase::Copy;
        if phase.is_over() {
            record.ended_ms = Some(epoch_ms());
            record.error = String::new();
        }
        let key = format!("{MOVE}{job}");
        let transaction = meta::Transaction::new()
            .when_revision(&key, kept.revision)
            .put(&key, &json(&record));
        let lead = &self.context.leadership.must_lead()?;
        self.context.commit(lead, transaction).await?;
        match phase {
            Phase::Cut => {
                crew.held_since = Some(Instant::now());
                self.context.sessions.turned();
            }
            Phase::Done => self.tell_move(job, &record, "move_done", shown(&record)),
            Phase::Aborted => self.tell_move(job, &record, "move_aborted", shown(&record)),
            _ if before == Phase::Cut => {
                crew.held_since = None;
                self.context.sessions.turned();
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn tell_move(
        &self,
        job: &str,
        record: &MoveRecord,
        kind: &'static str,
        detail: String,
    ) {
        self.context.happened(Event::now(
            kind,
            &record.from,
            format!("{detail} (job {job})"),
        ));
    }

    /// The record of a move that is being worked on.
    pub(super) fn moved(&self, job: &str) -> Result<MoveRecord, Trouble> {
        let kept = self.move_record(job).map(|kept| kept.value);
        kept.ok_or_else(|| Trouble::Failed("it is forgotten".to_owned()))
    }
}

/// For tests in which things die.
fn pass(work: Work) {
    match work {
        Work::Prepare => Stage::Prepared.pass(),
        Work::Copy => Stage::Copied.pass(),
        Work::Follow => Stage::Followed.pass(),
        Work::Verify => Stage::Verified.pass(),
        Work::Drain => Stage::Drained.pass(),
        Work::Settle => Stage::Settled.pass(),
        Work::Flip => Stage::Flipped.pass(),
        Work::Prune => Stage::Pruned.pass(),
        Work::Clean => {}
    }
}

/// What is moved, for people.
fn shown(record: &MoveRecord) -> String {
    let what = match record.kind.as_str() {
        "split" => "a part of shard",
        _ => "shard",
    };
    format!(
        "{what} {} of map {} from group {} to group {}:",
        record.shard, record.map, record.from, record.to
    )
}
