//! Fault points: named moments between two steps, at which tests let things die.
//!
//! Job: a step calls [`Point::pass`] before and behind itself. A build without debug assertions has
//! nothing there. Others look into the directory that `HEDDLE_FAULTS` names, if it does: a file with
//! the point's name says what is to happen there, once; it is renamed to `NAME.taken` first, so that a
//! test sees that its fault was met. What such a file says:
//!
//! | text | what happens |
//! | --- | --- |
//! | `kill PID` | the process gets SIGKILL; 0 is this one |
//! | `stop PID` | it gets SIGSTOP |
//! | the same and a number | so many microseconds later, while the steps go on |
//! | `panic` | the task that takes the step panics |
//!
//! A file `plant.NAME` is a mistake that is made on purpose as long as it is there ([`Plant`]), so that
//! it can be shown that the tests find it.
//!
//! Invariants: without the variable, and in a release, a point does nothing and costs nothing.
//!
//! Must not know: what the steps are, or who takes them.

/// A named moment of a transaction over several groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// A group has begun its branch.
    Enlisted,
    /// Before a branch is prepared.
    Prepare,
    /// A branch is prepared.
    Prepared,
    /// All branches are prepared; the decision has not been sent.
    Decide,
    /// The decision is made, and known.
    Decided,
    /// Before a prepared branch is committed.
    Finish,
    /// It is committed.
    Finished,
    /// All is done but the client's answer.
    Answer,
    /// Before a group's part is rolled back.
    Undo,
    /// It is rolled back.
    Undone,
    /// Before it is asked what became of a decision whose answer was lost.
    Settle,
    /// Recovery reads the coordinator group's row.
    Look,
    /// Recovery writes a row that says abort.
    Bar,
    /// That row is written.
    Barred,
    /// Recovery ends a branch.
    End,
    /// It has ended.
    Ended,
    /// Rows that nobody needs are removed.
    Sweep,
    /// They are.
    Swept,
    /// The commit barriers of all groups are held for a snapshot; its views are not open.
    Held,
}

impl Point {
    /// All of them, in the order in which a transaction meets them.
    pub const ALL: [Point; 19] = [
        Point::Enlisted,
        Point::Prepare,
        Point::Prepared,
        Point::Decide,
        Point::Decided,
        Point::Finish,
        Point::Finished,
        Point::Answer,
        Point::Undo,
        Point::Undone,
        Point::Settle,
        Point::Look,
        Point::Bar,
        Point::Barred,
        Point::End,
        Point::Ended,
        Point::Sweep,
        Point::Swept,
        Point::Held,
    ];

    /// The name of its file.
    pub fn name(self) -> &'static str {
        match self {
            Point::Enlisted => "enlisted",
            Point::Prepare => "prepare",
            Point::Prepared => "prepared",
            Point::Decide => "decide",
            Point::Decided => "decided",
            Point::Finish => "finish",
            Point::Finished => "finished",
            Point::Answer => "answer",
            Point::Undo => "undo",
            Point::Undone => "undone",
            Point::Settle => "settle",
            Point::Look => "look",
            Point::Bar => "bar",
            Point::Barred => "barred",
            Point::End => "end",
            Point::Ended => "ended",
            Point::Sweep => "sweep",
            Point::Swept => "swept",
            Point::Held => "held",
        }
    }

    /// The moment has come.
    #[inline]
    pub fn pass(self) {
        #[cfg(debug_assertions)]
        armed::pass(self.name());
    }
}

/// A named moment of a move of a part of a shard map: behind its steps, and within the long ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Prepared,
    /// Some rows are copied.
    Copies,
    Copied,
    Followed,
    Verified,
    /// Clients wait, and nothing is left that began before.
    Drained,
    Settled,
    /// The map has changed.
    Flipped,
    /// Some rows are deleted.
    Prunes,
    Pruned,
}

impl Stage {
    /// All of them, in the order in which a move meets them.
    pub const ALL: [Stage; 10] = [
        Stage::Prepared,
        Stage::Copies,
        Stage::Copied,
        Stage::Followed,
        Stage::Verified,
        Stage::Drained,
        Stage::Settled,
        Stage::Flipped,
        Stage::Prunes,
        Stage::Pruned,
    ];

    /// The name of its file.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Prepared => "move-prepared",
            Stage::Copies => "move-copies",
            Stage::Copied => "move-copied",
            Stage::Followed => "move-followed",
            Stage::Verified => "move-verified",
            Stage::Drained => "move-drained",
            Stage::Settled => "move-settled",
            Stage::Flipped => "move-flipped",
            Stage::Prunes => "move-prunes",
            Stage::Pruned => "move-pruned",
        }
    }

    /// The moment has come.
    #[inline]
    pub fn pass(self) {
        #[cfg(debug_assertions)]
        armed::pass(self.name());
    }
}

/// A moment in a task that has to go on whatever happens in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chore {
    /// A core looks after its sessions.
    CoreTick,
    /// The control plane reads the accounts.
    Accounts,
    /// A server is probed.
    Probe,
    /// A step of a change of primary is taken.
    FailoverStep,
    /// Transactions over several groups are looked for.
    Recovery,
}

impl Chore {
    /// The name of its file.
    pub fn name(self) -> &'static str {
        match self {
            Chore::CoreTick => "chore-core-tick",
            Chore::Accounts => "chore-accounts",
            Chore::Probe => "chore-probe",
            Chore::FailoverStep => "chore-failover-step",
            Chore::Recovery => "chore-recovery",
        }
    }

    /// The moment has come.
    #[inline]
    pub fn pass(self) {
        #[cfg(debug_assertions)]
        armed::pass(self.name());
    }
}

/// A mistake that tests must find, or that must not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// Branches are committed where they should be prepared.
    CommitsBeforeDecision,
    /// Recovery takes a transaction without a row for one that can never be decided.
    ForgetsTombstone,
    /// Snapshots are opened while transactions are being decided.
    OpensWithoutHold,
    /// The row cache keeps some rows that have changed.
    KeepsChangedRows,
    /// The row cache takes what is in the binlog for what the server shows.
    BelievesEvents,
    /// What fetches gave is remembered as anything else. It costs time, and no answer is another one for it.
    MisjudgesSizes,
}

impl Plant {
    /// The name of its file.
    pub fn name(self) -> &'static str {
        match self {
            Plant::CommitsBeforeDecision => "plant.commits-before-decision",
            Plant::ForgetsTombstone => "plant.forgets-tombstone",
            Plant::OpensWithoutHold => "plant.opens-without-hold",
            Plant::KeepsChangedRows => "plant.keeps-changed-rows",
            Plant::BelievesEvents => "plant.believes-events",
            Plant::MisjudgesSizes => "plant.misjudges-sizes",
        }
    }

    /// The mistake is to be made; never in a release.
    #[inline]
    pub fn is_made(self) -> bool {
        #[cfg(debug_assertions)]
        return armed::is_there(self.name());
        #[cfg(not(debug_assertions))]
        false
    }
}

#[cfg(debug_assertions)]
mod armed {
    //! The directory of faults.

    use std::fs;
    use std::path::{Path, PathBuf};
    use std::sync::OnceLock;
    use std::time::Duration;

    use rustix::process::{Pid, Signal, getpid, kill_process};

    fn directory() -> Option<&'static Path> {
        static DIRECTORY: OnceLock<Option<PathBuf>> = OnceLock::new();
        let read = || std::env::var_os("HEDDLE_FAULTS").map(PathBuf::from);
        DIRECTORY.get_or_init(read).as_deref()
    }

    pub(super) fn is_there(name: &str) -> bool {
        directory().is_some_and(|directory| directory.join(name).exists())
    }

    pub(super) fn pass(name: &str) {
        let Some(directory) = directory() else { return };
        let file = directory.join(name);
        let Ok(text) = fs::read_to_string(&file) else {
            return;
        };
        // Who renames it has it; several threads may be here.
        if fs::rename(&file, directory.join(format!("{name}.taken"))).is_ok() {
            act(&text);
        }
    }

    fn act(text: &str) {
        let mut words = text.split_whitespace();
        let signal = match words.next() {
            Some("panic") => panic!("a test wants it"),
            Some("kill") => Signal::KILL,
            Some("stop") => Signal::STOP,
            _ => return,
        };
        let pid = words.next().and_then(|word| word.parse().ok());
        let pid = pid.and_then(Pid::from_raw).unwrap_or_else(getpid);
        let strike = move || {
            // It may have ended, which is no news.
            let _ = kill_process(pid, signal);
        };
        match words.next().and_then(|word| word.parse().ok()) {
            None => strike(),
            Some(micros) => {
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_micros(micros));
                    strike();
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Point;

    #[test]
    fn every_point_has_a_name_of_its_own() {
        let mut names = Point::ALL.map(Point::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Point::ALL.len());
    }
}
