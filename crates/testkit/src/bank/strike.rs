//! What dies, and when.

use std::fmt;
use std::fs;

use faults::Point;

use crate::failover::load::Dice;
use crate::farm::send_signal;
use crate::holds_within;

use super::{Bank, GROUPS, PATIENCE};

/// A strike that comes behind its point, while the next step is on its way, is late by at most so many
/// microseconds.
const LATE_MAX_US: u64 = 2000;

/// What gets SIGKILL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Router,
    /// The primary of this group.
    Primary(usize),
}

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strike {
    pub target: Target,
    /// Where; `None` at any moment.
    pub point: Option<Point>,
    /// So many microseconds behind it.
    pub late_us: Option<u64>,
}

impl fmt::Display for Strike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.target {
            Target::Router => f.write_str("router")?,
            Target::Primary(group) => f.write_str(GROUPS[group])?,
        }
        match (self.point, self.late_us) {
            (None, _) => f.write_str(", blind"),
            (Some(point), None) => write!(f, " at {}", point.name()),
            (Some(point), Some(_)) => write!(f, " behind {}", point.name()),
        }
    }
}

/// Points that clients' transactions pass while nothing fails.
const OF_COMMIT: [Point; 13] = [
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
    Point::Held,
    Point::Sweep,
    Point::Swept,
];

/// Points at which a router leaves most behind.
const LEAVING: [Point; 4] = [
    Point::Prepared,
    Point::Decide,
    Point::Decided,
    Point::Finish,
];

/// Points of recovery, which passes them when a router was struck between others.
const OF_RECOVERY: [Point; 5] = [
    Point::Look,
    Point::Bar,
    Point::Barred,
    Point::End,
    Point::Ended,
];

/// What a round is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A router dies at a point of a commit, or behind it.
    Router,
    /// A router dies, and the next one in the middle of what the first one left.
    Recovery,
    /// A primary dies at a point of a commit, or behind it.
    Server,
    /// A router and a primary die at any moment.
    Blind,
}

impl Kind {
    /// All of them, and those that leave servers alone.
    pub const ALL: [Kind; 4] = [Kind::Router, Kind::Recovery, Kind::Server, Kind::Blind];
    pub const OF_ROUTERS: [Kind; 2] = [Kind::Router, Kind::Recovery];

    /// As the environment writes it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Router => "router",
            Kind::Recovery => "recovery",
            Kind::Server => "server",
            Kind::Blind => "blind",
        }
    }

    /// Its strikes in the round of this number: the points come one after the other.
    pub fn strikes(self, round: u64, dice: &mut Dice) -> Vec<Strike> {
        let late_us = (dice.below(3) == 0).then(|| dice.below(LATE_MAX_US));
        let commit = Some(at(&OF_COMMIT, round));
        let one = |target, point, late_us| Strike {
            target,
            point,
            late_us,
        };
        let group = Target::Primary(usize::try_from(dice.below(3)).unwrap_or(0));
        match self {
            Kind::Router => vec![one(Target::Router, commit, late_us)],
            Kind::Recovery => vec![
                one(Target::Router, Some(at(&LEAVING, round)), None),
                one(Target::Router, Some(at(&OF_RECOVERY, round)), None),
            ],
            Kind::Server => vec![one(group, commit, late_us)],
            Kind::Blind => vec![one(Target::Router, None, None), one(group, None, None)],
        }
    }
}

fn at(points: &[Point], number: u64) -> Point {
    points[usize::try_from(number).unwrap_or(0) % points.len()]
}

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Struck {
    Hit,
    /// Nobody came by in time.
    Missed,
}

impl Bank {
    /// Lays the fault; with [`Bank::strike_lands`] behind it.
    pub(super) fn lay(&self, strike: Strike) -> Option<u32> {
        let pid = match strike.target {
            Target::Router => match strike.point {
                // Whoever passes, as itself.
                Some(_) => 0,
                None => self.farm.pid(),
            },
            Target::Primary(group) => {
                let mut pid = None;
                holds_within(PATIENCE, || {
                    pid = self.farm.primary_of(GROUPS[group]).map(|it| it.pid);
                    pid.is_some()
                });
                pid?
            }
        };
        if let Some(point) = strike.point {
            let late = strike.late_us.map_or(String::new(), |us| format!(" {us}"));
            let directory = self.farm.faults();
            let _ = fs::remove_file(directory.join(format!("{}.taken", point.name())));
            // Whole at once, for those who look for it.
            let draft = directory.join("draft");
            let placed = fs::write(&draft, format!("kill {pid}{late}"))
                .and_then(|()| fs::rename(&draft, directory.join(point.name())));
            placed.expect("a temporary directory takes files");
        }
        Some(pid)
    }

    /// Waits until the fault has struck; else takes it away.
    pub(super) fn strike_lands(&self, strike: Strike, pid: u32) -> Struck {
        let Some(point) = strike.point else {
            send_signal(pid, "KILL");
            return Struck::Hit;
        };
        let directory = self.farm.faults();
        let taken = directory.join(format!("{}.taken", point.name()));
        if holds_within(REACHED, || taken.exists()) {
            return Struck::Hit;
        }
        match fs::remove_file(directory.join(point.name())) {
            Ok(()) => Struck::Missed,
            // Met in this moment.
            Err(_) => Struck::Hit,
        }
    }
}

/// A point that nobody passes for so long under load is not passed.
const REACHED: std::time::Duration = std::time::Duration::from_secs(15);
