//! What goes wrong, and how it is done: processes get SIGKILL or SIGSTOP, primaries hand over, rows move.

use std::fmt;
use std::fs;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use faults::{Point, Stage};
use serde_json::Value;

use crate::failover::load::Dice;
use crate::farm::Member;
use crate::holds_within;

use super::delivery::Manner;
use super::{GROUPS, MOVED_MAP, PATIENCE, Proof};

/// A point that nobody passes for so long under load is not passed.
const REACHED: Duration = Duration::from_secs(10);

/// So many shards at most.
const SHARDS_MAX: usize = 5;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The router dies at any moment.
    Router,
    /// It dies at a point of a commit over groups.
    RouterInCommit,
    /// It dies within a move.
    RouterInMove,
    Primary,
    PrimaryInCommit,
    Replica,
    /// A router and a primary at once.
    Both,
    /// SIGSTOP of a primary, until another one leads.
    Stop,
    /// `group promote`.
    SwitchOver,
    /// `heddle apply` dies.
    Applier,
    /// The server that it applies to.
    Target,
    /// The receiver of a webhook.
    Receiver,
    /// A shard is moved, split or merged; the next faults come meanwhile.
    Move,
}

impl Kind {
    /// All of them; those that leave most behind come more often.
    const DEALT: [Kind; 20] = [
        Kind::Primary,
        Kind::Router,
        Kind::Move,
        Kind::Primary,
        Kind::RouterInCommit,
        Kind::Applier,
        Kind::PrimaryInCommit,
        Kind::Receiver,
        Kind::Both,
        Kind::Move,
        Kind::Replica,
        Kind::Router,
        Kind::Stop,
        Kind::SwitchOver,
        Kind::Target,
        Kind::RouterInMove,
        Kind::PrimaryInCommit,
        Kind::RouterInCommit,
        Kind::Move,
        Kind::Primary,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Router => "router",
            Kind::RouterInCommit => "router-in-commit",
            Kind::RouterInMove => "router-in-move",
            Kind::Primary => "primary",
            Kind::PrimaryInCommit => "primary-in-commit",
            Kind::Replica => "replica",
            Kind::Both => "router-and-primary",
            Kind::Stop => "stop",
            Kind::SwitchOver => "switch-over",
            Kind::Applier => "applier",
            Kind::Target => "applier-target",
            Kind::Receiver => "webhook-receiver",
            Kind::Move => "move",
        }
    }

    /// The kinds in the order in which they come: each as often as it should, shuffled.
    pub fn deal(dice: &mut Dice) -> Vec<Kind> {
        let mut kinds = Kind::DEALT.to_vec();
        for last in (1..kinds.len()).rev() {
            let other = dice.below(u64::try_from(last).unwrap_or(0) + 1);
            kinds.swap(last, usize::try_from(other).unwrap_or(0));
        }
        kinds
    }
}

/// What was done.
#[derive(Clone, Debug)]
pub struct Struck {
    pub kind: Kind,
    pub what: String,
    /// Processes that were killed.
    pub kills: u64,
}

impl fmt::Display for Struck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.what)
    }
}

/// Points that clients' transactions pass while nothing fails.
const OF_COMMIT: [Point; 9] = [
    Point::Enlisted,
    Point::Prepare,
    Point::Prepared,
    Point::Decide,
    Point::Decided,
    Point::Finish,
    Point::Finished,
    Point::Answer,
    Point::Undone,
];

impl Proof {
    /// Does it, and waits until it is done and what has to be there is there again.
    pub(super) fn strike(&mut self, kind: Kind, dice: &mut Dice) -> Struck {
        let group = GROUPS[place(dice, GROUPS.len())];
        let (what, kills) = match kind {
            Kind::Router => self.kill_router(),
            Kind::RouterInCommit => self.at_point(&of(&OF_COMMIT, dice), None),
            Kind::RouterInMove => self.within_a_move(of(&Stage::ALL, dice), dice),
            Kind::Primary => self.kill_member(group, "PRIMARY"),
            Kind::Replica => self.kill_member(group, "SECONDARY"),
            Kind::PrimaryInCommit => self.at_point(&of(&OF_COMMIT, dice), Some(group)),
            Kind::Both => self.kill_both(group),
            Kind::Stop => self.stop(group),
            Kind::SwitchOver => self.switch_over(group),
            Kind::Applier => {
                self.applier.kill();
                ("killed".to_owned(), 1)
            }
            Kind::Target => self.kill_target(),
            Kind::Receiver => self.kill_receiver(dice),
            Kind::Move => (self.begin_move(dice), 0),
        };
        Struck { kind, what, kills }
    }

    fn kill_router(&mut self) -> (String, u64) {
        self.end_router();
        self.await_router();
        ("killed".to_owned(), 1)
    }

    /// kill -9; its clients lose their connections from now on.
    fn end_router(&mut self) {
        self.course.struck.store(true, Relaxed);
        // It may have been struck at a point that it reached late.
        if self.farm.is_running() {
            self.farm.kill_up();
        }
    }

    /// Waits until the router serves; it begins again where it has ended.
    pub(super) fn await_router(&mut self) {
        let farm = &mut self.farm;
        let serves = holds_within(PATIENCE, || {
            if !farm.is_running() {
                farm.begin_again();
            }
            farm.is_ready()
        });
        if !serves {
            let said = self.farm.stderr();
            self.course
                .complain(format!("the router is not ready: {said}"));
        }
    }

    /// A server of the group in this role, when the group is whole.
    fn member(&self, group: &str, role: &str) -> Option<Member> {
        let mut found = None;
        holds_within(PATIENCE, || {
            found = self
                .farm
                .in_role(group, role)
                .filter(|_| self.is_whole(group));
            found.is_some()
        });
        if found.is_none() {
            self.course
                .complain(format!("group {group} does not become whole"));
        }
        found
    }

    /// All servers of the group serve in it.
    pub(super) fn is_whole(&self, group: &str) -> bool {
        let servers = self.at.json(&["group", "lookup_servers", group]);
        servers.is_ok_and(|servers| {
            let in_role = |role: &str| servers.iter().filter(|it| it["status"] == role).count();
            in_role("PRIMARY") == 1 && in_role("SECONDARY") + 1 == servers.len()
        })
    }

    fn kill_member(&mut self, group: &str, role: &str) -> (String, u64) {
        let Some(member) = self.member(group, role) else {
            return (format!("no {role} of {group}"), 0);
        };
        member.signal("KILL");
        if role == "PRIMARY" {
            self.await_other(group, &member);
        }
        (member.name, 1)
    }

    /// Waits until another server leads, or the same one as another process.
    fn await_other(&self, group: &str, gone: &Member) {
        let leads = holds_within(PATIENCE, || {
            let primary = self.farm.primary_of(group);
            primary.is_some_and(|it| it.pid != gone.pid)
        });
        if !leads {
            let text = format!("nobody leads {group} behind {}", gone.name);
            self.course.complain(text);
        }
    }

    fn kill_both(&mut self, group: &str) -> (String, u64) {
        let Some(member) = self.member(group, "PRIMARY") else {
            return (format!("no primary of {group}"), 0);
        };
        member.signal("KILL");
        self.end_router();
        self.await_router();
        self.await_other(group, &member);
        (format!("the router and {}", member.name), 2)
    }

    fn stop(&mut self, group: &str) -> (String, u64) {
        let Some(member) = self.member(group, "PRIMARY") else {
            return (format!("no primary of {group}"), 0);
        };
        member.signal("STOP");
        self.await_other(group, &member);
        member.signal("CONT");
        (member.name, 0)
    }

    fn switch_over(&mut self, group: &str) -> (String, u64) {
        if self.member(group, "PRIMARY").is_none() {
            return (format!("no primary of {group}"), 0);
        }
        match self.at.json(&["group", "promote", group]) {
            Ok(_) => (group.to_owned(), 0),
            Err(why) => (format!("{group}: {}", why.trim()), 0),
        }
    }

    fn kill_target(&mut self) -> (String, u64) {
        self.applier.target.kill();
        self.applier.target.restart();
        if !self.applier.revive() {
            let said = self.applier.said();
            self.course.complain(format!("no applier runs: {said}"));
        }
        ("killed".to_owned(), 1)
    }

    fn kill_receiver(&mut self, dice: &mut Dice) -> (String, u64) {
        let manner = match dice.below(2) {
            0 => Manner::Silent,
            _ => Manner::Dead,
        };
        let before = self.webhook.receiver.all().len();
        self.webhook.behave(manner);
        // A few requests are lost, or none comes in time.
        holds_within(Duration::from_secs(2), || match manner {
            Manner::Dead => false,
            _ => self.webhook.receiver.all().len() > before + 2,
        });
        self.webhook.behave(Manner::Well);
        // One that waits tries at once.
        let _ = self.at.json(&["sink", "resume", "hook"]);
        (format!("{manner:?}"), 1)
    }

    /// Whoever passes the point dies: the router, or the primary of a group.
    fn at_point(&mut self, point: &Point, group: Option<&'static str>) -> (String, u64) {
        let member = group.and_then(|group| self.member(group, "PRIMARY"));
        if group.is_some() && member.is_none() {
            return ("no primary".to_owned(), 0);
        }
        let pid = member.as_ref().map_or(0, |it| it.pid);
        if member.is_none() {
            self.course.struck.store(true, Relaxed);
        }
        let is_hit = self.lay(point.name(), pid);
        if !is_hit {
            return (format!("nobody passes {}", point.name()), 0);
        }
        match &member {
            Some(member) => self.await_other(&member.group, member),
            None => {
                holds_within(PATIENCE, || !self.farm.is_running());
                self.await_router();
            }
        }
        let name = member.map_or("the router".to_owned(), |it| it.name);
        (format!("{name} at {}", point.name()), 1)
    }

    /// Has a process killed at a point, and waits for it; false when nobody passes.
    fn lay(&self, name: &str, pid: u32) -> bool {
        let directory = self.farm.faults();
        let taken = directory.join(format!("{name}.taken"));
        let _ = fs::remove_file(&taken);
        // Whole at once, for those who look for it.
        let draft = directory.join("draft");
        let placed = fs::write(&draft, format!("kill {pid}"))
            .and_then(|()| fs::rename(&draft, directory.join(name)));
        placed.expect("a temporary directory takes files");
        // Met in this moment, if it cannot be taken away.
        holds_within(REACHED, || taken.exists()) || fs::remove_file(directory.join(name)).is_err()
    }

    fn within_a_move(&mut self, stage: Stage, dice: &mut Dice) -> (String, u64) {
        self.course.struck.store(true, Relaxed);
        let what = self.begin_move(dice);
        if !self.lay(stage.name(), 0) {
            return (format!("{what}; nobody passes {}", stage.name()), 0);
        }
        holds_within(PATIENCE, || !self.farm.is_running());
        self.await_router();
        (format!("{what}; the router at {}", stage.name()), 1)
    }

    /// Moves, splits or merges shards, and does not wait for it. One that is under way refuses others.
    fn begin_move(&self, dice: &mut Dice) -> String {
        let shards = self.shards();
        let Some(shard) = shards.get(place(dice, shards.len().max(1))) else {
            return "no shards".to_owned();
        };
        let number = |shard: &Value| shard["shard_id"].to_string();
        let groups: Vec<&str> = GROUPS
            .into_iter()
            .filter(|it| shard["group_id"] != *it)
            .collect();
        let to = groups[place(dice, groups.len())];
        let others: Vec<&Value> = shards.iter().filter(|it| *it != shard).collect();
        let (from, other) = (number(shard), others.get(place(dice, others.len().max(1))));
        let words = match (dice.below(3), other) {
            (0, _) if shards.len() < SHARDS_MAX => ["split_shard".to_owned(), from, to.to_owned()],
            (1, Some(other)) if shards.len() > 2 => {
                ["merge_shards".to_owned(), from, number(other)]
            }
            _ => ["move_shard".to_owned(), from, to.to_owned()],
        };
        let all = [
            "sharding",
            &words[0],
            &words[1],
            &words[2],
            "--synchronous=false",
        ];
        match self.at.json(&all) {
            Ok(_) => words.join(" "),
            Err(why) => format!("{}: {}", words.join(" "), why.trim()),
        }
    }

    /// The shards of the map whose rows move.
    fn shards(&self) -> Vec<Value> {
        let map = self
            .at
            .json(&["sharding", "list_definitions"])
            .unwrap_or_default();
        let map = map.iter().find(|map| map["name"] == MOVED_MAP);
        let id = map.map(|it| it["mapping_id"].clone()).unwrap_or_default();
        let shards = self
            .at
            .json(&["sharding", "list_shards"])
            .unwrap_or_default();
        shards
            .into_iter()
            .filter(|it| it["mapping_id"] == id)
            .collect()
    }

    /// True when no move is under way. One that is stuck is a fault; it is taken back.
    pub(super) fn moves_are_over(&self) -> bool {
        let Ok(jobs) = self.at.json(&["job", "list"]) else {
            return false;
        };
        // A clone whose source was killed has failed, and is begun anew by another job.
        let is_move = |job: &&Value| {
            let kind = job["kind"].as_str().unwrap_or_default();
            ["move", "split", "merge"].contains(&kind)
        };
        let mut are_over = true;
        for job in jobs.iter().filter(is_move) {
            let state = job["state"].as_str().unwrap_or_default();
            if state == "failed" {
                self.course.complain(format!("a move is stuck: {job}"));
                let id = job["uuid"].as_str().unwrap_or_default();
                let _ = self.at.json(&["job", "abort", id]);
            }
            are_over &= ["done", "aborted"].contains(&state);
        }
        are_over
    }
}

fn place(dice: &mut Dice, count: usize) -> usize {
    let limit = u64::try_from(count).unwrap_or(1);
    usize::try_from(dice.below(limit)).unwrap_or(0)
}

fn of<T: Copy>(all: &[T], dice: &mut Dice) -> T {
    all[place(dice, all.len())]
}
