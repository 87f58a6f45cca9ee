//! Moves a part of a shard map to another group, step by step.
//!
//! One piece of work is open at a time; each is answered by one event. The phase is recorded before
//! the work of it begins, so that whoever comes after a crash goes on with it: every work can be done
//! again. Until [`Work::Flip`] is done the move can be taken back; from then on it only ends.
//!
//! | phase | what is true |
//! | --- | --- |
//! | prepare | nothing of the part is at the target |
//! | copy | the target gets the rows, in the order of their keys |
//! | follow | all are there; what changes meanwhile is brought after them |
//! | cut | new transactions wait for the end of this; the last changes are brought |
//! | prune | the target has the part, and the source's rows of it are deleted |
//! | clean | it is taken back: the target's rows of the part are deleted |

#[cfg(test)]
mod tests;

/// How far a move is, as it is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Prepare,
    Copy,
    Follow,
    Cut,
    Prune,
    Clean,
    Done,
    Aborted,
}

impl Phase {
    /// All of them.
    pub const ALL: [Phase; 8] = [
        Phase::Prepare,
        Phase::Copy,
        Phase::Follow,
        Phase::Cut,
        Phase::Prune,
        Phase::Clean,
        Phase::Done,
        Phase::Aborted,
    ];

    /// Its name in the record and for people.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Prepare => "prepare",
            Phase::Copy => "copy",
            Phase::Follow => "follow",
            Phase::Cut => "cut",
            Phase::Prune => "prune",
            Phase::Clean => "clean",
            Phase::Done => "done",
            Phase::Aborted => "aborted",
        }
    }

    /// The phase of that name.
    pub fn parse(text: &str) -> Option<Phase> {
        Phase::ALL.into_iter().find(|phase| phase.name() == text)
    }

    /// There is nothing left to do.
    pub fn is_over(self) -> bool {
        matches!(self, Phase::Done | Phase::Aborted)
    }

    /// The map says already that the target has the part.
    pub fn is_flipped(self) -> bool {
        matches!(self, Phase::Prune | Phase::Done)
    }
}

/// What is to be done on servers and with sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Look at the tables, make what the target lacks, note where the binary log is.
    Prepare,
    Copy,
    /// Bring what changed, until little is left.
    Follow,
    /// Compare both sides.
    Verify,
    /// Wait until no transaction is left that began before the phase.
    Drain,
    /// Bring the last changes, and prove that both sides are equal.
    Settle,
    /// Change the map, and record the phase [`Phase::Prune`] with it.
    Flip,
    Prune,
    Clean,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Done,
    /// It takes longer than clients may wait for.
    Late,
    /// It failed, and may go well another time.
    Failed,
    /// It cannot go well before somebody does something.
    Stuck,
    /// What was noted is of no use any more: it begins anew.
    Gone,
    /// Somebody wants it taken back.
    Abort,
    /// Somebody wants it to stand still.
    Pause,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Record the phase; what follows is not done before.
    Enter(Phase),
    Do(Work),
    /// Wait before what follows.
    Wait {
        ms: u64,
    },
    /// Nothing more, until it is started again.
    Rest,
}

/// The pause behind a failure; it doubles up to the other.
const PAUSE_MIN_MS: u64 = 500;
const PAUSE_MAX_MS: u64 = 30_000;

/// One move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reshard {
    phase: Phase,
    work: Work,
    failures: u32,
}

impl Reshard {
    /// From where it is recorded, and what is to be done first.
    pub fn start(phase: Phase) -> (Reshard, Vec<Action>) {
        let mut machine = Reshard {
            phase,
            work: Work::Prepare,
            failures: 0,
        };
        let actions = match (phase, first(phase)) {
            // Nobody knows any more what was compared: clients go on meanwhile.
            (Phase::Cut, _) => vec![machine.enter(Phase::Follow), machine.begin(Work::Follow)],
            (_, Some(work)) => vec![machine.begin(work)],
            (_, None) => vec![Action::Rest],
        };
        (machine, actions)
    }

    /// The phase that it is in.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Takes what happened to the open work.
    pub fn step(&mut self, event: Event) -> Vec<Action> {
        match event {
            Event::Done => self.go_on(),
            Event::Late | Event::Failed => self.again(),
            Event::Stuck => self.leave_cut(Action::Rest),
            Event::Gone if !self.phase.is_flipped() && self.phase != Phase::Clean => {
                let enter = self.enter(Phase::Prepare);
                vec![enter, self.begin(Work::Prepare)]
            }
            Event::Gone => self.again(),
            Event::Pause => self.leave_cut(Action::Rest),
            // What is at the target is the only one that counts now.
            Event::Abort if self.phase.is_flipped() || self.phase.is_over() => self.again(),
            Event::Abort => {
                let enter = self.enter(Phase::Clean);
                vec![enter, self.begin(Work::Clean)]
            }
        }
    }

    fn go_on(&mut self) -> Vec<Action> {
        self.failures = match self.work {
            // Only what comes behind them shows whether it was worth while.
            Work::Follow | Work::Verify | Work::Drain => self.failures,
            _ => 0,
        };
        let (enter, work) = match self.work {
            Work::Prepare => (Some(Phase::Copy), Some(Work::Copy)),
            Work::Copy => (Some(Phase::Follow), Some(Work::Follow)),
            Work::Follow => (None, Some(Work::Verify)),
            Work::Verify => (Some(Phase::Cut), Some(Work::Drain)),
            Work::Drain => (None, Some(Work::Settle)),
            Work::Settle => (None, Some(Work::Flip)),
            Work::Flip => {
                // It was recorded with the map.
                self.phase = Phase::Prune;
                (None, Some(Work::Prune))
            }
            Work::Prune => (Some(Phase::Done), None),
            Work::Clean => (Some(Phase::Aborted), None),
        };
        let mut actions: Vec<Action> = enter.map(|phase| self.enter(phase)).into_iter().collect();
        actions.push(match work {
            Some(work) => self.begin(work),
            None => Action::Rest,
        });
        actions
    }

    /// The open work did not go well: clients do not wait for the next try.
    fn again(&mut self) -> Vec<Action> {
        let Some(work) = first(self.phase) else {
            return vec![Action::Rest];
        };
        let pause = PAUSE_MIN_MS << self.failures.min(10);
        self.failures += 1;
        let wait = Action::Wait {
            ms: pause.min(PAUSE_MAX_MS),
        };
        let mut actions = self.leave_cut(wait);
        actions.push(self.begin(work));
        actions
    }

    /// Lets clients go on, then the action.
    fn leave_cut(&mut self, then: Action) -> Vec<Action> {
        match self.phase {
            Phase::Cut => vec![self.enter(Phase::Follow), then],
            _ => vec![then],
        }
    }

    fn enter(&mut self, phase: Phase) -> Action {
        self.phase = phase;
        Action::Enter(phase)
    }

    fn begin(&mut self, work: Work) -> Action {
        self.work = work;
        Action::Do(work)
    }
}

/// What a phase begins with.
fn first(phase: Phase) -> Option<Work> {
    Some(match phase {
        Phase::Prepare => Work::Prepare,
        Phase::Copy => Work::Copy,
        Phase::Follow | Phase::Cut => Work::Follow,
        Phase::Prune => Work::Prune,
        Phase::Clean => Work::Clean,
        Phase::Done | Phase::Aborted => return None,
    })
}
