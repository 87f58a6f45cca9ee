//! A change of primary, from the first record to the publication.

use std::collections::{BTreeMap, BTreeSet};

use farm::{Position, ServerId};

use super::publication::pointable;
use super::{Answer, Ask, Cause, Failed, Failover, Fault, Heard, Kind, Loss, Step};

/// A change of primary that is under way.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub cause: Cause,
    /// The primary that is given up; it may turn out to be the winner.
    pub old: Option<ServerId>,
    pub since_us: u64,
    pub stage: Stage,
    /// The operator's order that waits for the end, and whom it names.
    pub order: Option<u64>,
    pub wish: Option<ServerId>,
    /// Whether the old primary is surely fenced; `None` while nobody knows.
    pub fenced: Option<bool>,
    pub heard: BTreeMap<ServerId, Heard>,
    /// For how long the old primary was up when it was first looked at.
    pub old_up_us: Option<u64>,
    /// Replicas that were restarted so late that they may not have received again what they once
    /// acknowledged: a restart throws away what was not applied.
    pub forgetful: BTreeSet<ServerId>,
    /// Those of them that an earlier router saw; this one cannot know since when the primary is lost,
    /// so how long they are up proves nothing to it.
    pub inherited: BTreeSet<ServerId>,
    /// Those of them that the last record names.
    pub recorded: BTreeSet<ServerId>,
    /// Who did not answer, and why.
    pub unheard: BTreeMap<ServerId, String>,
    /// Candidates on which a step failed although they live.
    pub tried: BTreeSet<ServerId>,
    pub winner: Option<ServerId>,
    pub source: Option<ServerId>,
    pub fork: Option<Position>,
    /// A timeline that began before a router died and that nobody was told of.
    pub untold: Option<Position>,
    /// Who was not heard and is out once the winner takes writes.
    pub away: Vec<ServerId>,
    /// The old primary's process was seen to be gone.
    pub gone: bool,
    pub course: Course,
    /// How often a new primary caught up, and since when it does now.
    pub rounds: u32,
    pub asked_us: u64,
    /// What was told last of why it waits.
    pub told: String,
}

/// How a change goes, where it is not the usual way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Course {
    /// An operator wants no primary at all.
    pub demotes: bool,
    /// Its replicas are halted before it is recorded that it has begun. A primary whose process is gone is read-only
    /// when it comes back, and then its replicas are started again, recorded or not.
    pub at_once: bool,
    /// Nothing of it is recorded: the record of the winner may be the first.
    pub unwritten: bool,
    /// The others were told to follow the winner.
    pub follows: bool,
}

/// What a change waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// What a primary that came back holds, and the others.
    Looking,
    /// Record, cut.
    Recording,
    /// Fence; replicas stop receiving.
    Clearing,
    /// Nobody can be chosen.
    Waiting,
    /// The winner is recorded and drained.
    Turning,
    /// The winner copies what another one holds.
    Copying,
    Leading,
    Opening,
    /// Stages of a switch-over; see [`super::switchover`].
    Choosing,
    CatchingUp,
    Pausing,
    Closing,
    Reaching,
    LeadingBack,
}

impl Change {
    pub(crate) fn new(cause: Cause, old: Option<ServerId>, since_us: u64) -> Change {
        Change {
            cause,
            old,
            since_us,
            stage: Stage::Recording,
            order: None,
            wish: None,
            fenced: None,
            heard: BTreeMap::new(),
            old_up_us: None,
            forgetful: BTreeSet::new(),
            inherited: BTreeSet::new(),
            recorded: BTreeSet::new(),
            unheard: BTreeMap::new(),
            tried: BTreeSet::new(),
            winner: None,
            source: None,
            fork: None,
            untold: None,
            away: Vec::new(),
            gone: cause == Cause::Crashed,
            course: Course::default(),
            rounds: 0,
            asked_us: 0,
            told: String::new(),
        }
    }

    /// Takes note of whether a replica was restarted after the primary was lost, or so shortly before
    /// that it may not have received everything again. Who was not heard keeps its name.
    fn remember(&mut self, server: ServerId, restarted: bool) {
        if restarted && self.old != Some(server) {
            self.forgetful.insert(server);
        } else if !self.inherited.contains(&server) {
            self.forgetful.remove(&server);
        }
    }
}

impl Failover {
    /// Begins to replace a primary: record and cut, then everything else.
    pub(super) fn clear_the_way(&mut self, old: Option<ServerId>, cause: Cause) {
        self.clear_the_way_for(Change::new(cause, old, self.now_us));
    }

    pub(super) fn clear_the_way_for(&mut self, mut change: Change) {
        let (old, cause) = (change.old, change.cause);
        if let Some(before) = self.change.take() {
            change.order = before.order;
            change.wish = before.wish;
        }
        let at_once = change.course.at_once;
        change.course.unwritten = at_once;
        self.change = Some(change);
        self.forget_steps();
        if !at_once {
            self.record(Step::Clearing { old });
        }
        self.wants_cut();
        // What peers were told is known only once they were cut off too.
        if let Some(server) = old
            && (cause != Cause::Returned || self.council.is_some())
        {
            self.ask(Ask::Cut { server });
        }
    }

    /// A primary that takes no writes although nobody replaced it: it was restarted.
    pub(super) fn restore(&mut self, server: ServerId) {
        let mut change = Change::new(Cause::Returned, Some(server), self.now_us);
        change.stage = Stage::Looking;
        self.change = Some(change);
        for server in self.others(None) {
            self.ask(Ask::Look { server });
        }
    }

    pub(super) fn change_answered(&mut self, what: Ask, answer: Result<Answer, Failed>) {
        let Some(change) = &mut self.change else {
            return;
        };
        let is_look = matches!(what, Ask::Look { .. });
        match (what, answer) {
            (Ask::Fence { .. }, answer) => change.fenced = Some(answer.is_ok()),
            (Ask::Halt { server } | Ask::Look { server } | Ask::Close { server }, Ok(answer)) => {
                if let Answer::Heard(heard) = answer {
                    let lost_us = self.now_us - self.alive_us;
                    let settled_us = lost_us.saturating_add(self.policy.settle_us);
                    let restarted = heard.up_us.is_some_and(|up_us| up_us < settled_us);
                    change.remember(server, restarted);
                    change.unheard.remove(&server);
                    if change.old == Some(server) && is_look {
                        change.old_up_us = change.old_up_us.or(heard.up_us);
                    }
                    change.heard.insert(server, heard);
                }
            }
            (Ask::Point { .. }, _) => {}
            (Ask::Halt { server } | Ask::Look { server }, Err(failed)) => {
                change.gone |= change.old == Some(server) && failed.fault == Fault::Refused;
                change.heard.remove(&server);
                change.unheard.insert(server, failed.text);
            }
            (what, Err(failed)) => self.step_failed(what, failed),
            (_, Ok(_)) => {}
        }
    }

    /// Goes on as far as the open questions allow.
    pub(super) fn advance(&mut self) {
        while let Some(change) = &self.change {
            let stage = change.stage;
            match stage {
                Stage::Looking => self.looked(),
                Stage::Recording => self.recorded(),
                Stage::Clearing => self.cleared(),
                Stage::Turning => self.turned(),
                Stage::Copying => self.copied(),
                Stage::Leading => self.led(),
                Stage::Opening => self.opened(),
                Stage::Waiting => {}
                _ => self.switch(stage),
            }
            if self.change.as_ref().is_none_or(|now| now.stage == stage) {
                return;
            }
        }
    }

    fn looked(&mut self) {
        if self.open(|what| matches!(what, Ask::Look { .. })) {
            return;
        }
        let Some(change) = &self.change else { return };
        let Some(old) = change.old else { return };
        match change.heard.get(&old) {
            // It takes writes, or has gone again: nothing to restore.
            None => self.change = None,
            Some(heard) if !heard.read_only => self.change = None,
            Some(_) => match self.elect(change) {
                // It holds everything: nobody has to stop anything.
                Ok(choice) if choice.winner == old && !choice.lossy => {
                    self.turn_to(old, None, choice.fork);
                }
                _ => self.clear_the_way(Some(old), Cause::Returned),
            },
        }
    }

    fn recorded(&mut self) {
        let at_once = |change: &Change| change.course.at_once;
        let waits = self.unrecorded() || self.open(|what| matches!(what, Ask::Cut { .. }));
        if waits && !self.change.as_ref().is_some_and(at_once) {
            return;
        }
        let heirs = self.has_heirs();
        let Some(change) = &mut self.change else {
            return;
        };
        change.stage = Stage::Clearing;
        let (old, cause) = (change.old, change.cause);
        if let Some(server) = old {
            match cause {
                // After a router died it may be a replica still, or live and take writes.
                Cause::Returned | Cause::Resumed => self.ask(Ask::Halt { server }),
                // A server that nobody can replace is not stopped: it is waited for.
                _ if heirs => self.ask(Ask::Fence { server }),
                _ => {}
            }
        }
        for server in self.others(old) {
            self.ask(Ask::Halt { server });
        }
    }

    fn cleared(&mut self) {
        let hears = |what: &Ask| matches!(what, Ask::Halt { .. } | Ask::Look { .. });
        if self.open(|what| hears(what) || matches!(what, Ask::Cut { .. })) {
            return;
        }
        if self.keep_what_lives() {
            return;
        }
        let Some(change) = &self.change else { return };
        // Without everybody's word it counts what clients were told; cores have that time to take note of the cut.
        if change.course.at_once && !change.unheard.is_empty() {
            if change.course.unwritten {
                self.record_clearing();
            }
            if self.unrecorded() {
                return;
            }
        }
        let Some(change) = &self.change else { return };
        match self.elect(change) {
            Ok(choice) => {
                if choice.lossy {
                    let text = format!(
                        "{} takes over with {}, though acknowledged commits may be missing",
                        self.name(choice.winner),
                        choice.fork
                    );
                    self.tell(Kind::Lossy, Some(choice.winner), text);
                }
                self.turn_to(choice.winner, choice.source, choice.fork);
            }
            // A fence may still settle it.
            Err(_) if self.open(|what| matches!(what, Ask::Fence { .. })) => {}
            // The peers may say that nothing is missing.
            Err(_) if self.awaits_peers() => {}
            Err(why) => self.wait(why),
        }
        // A winner that leads at once is recorded itself.
        let leads = self
            .change
            .as_ref()
            .is_some_and(|change| change.stage == Stage::Turning && change.source.is_none());
        if !leads || self.open(|what| matches!(what, Ask::Reach { .. })) {
            self.record_clearing();
        }
    }

    /// A primary that turns out to live and to take writes, while nobody else was opened, stays.
    fn keep_what_lives(&mut self) -> bool {
        let Some(change) = &self.change else {
            return false;
        };
        let Some(old) = change.old else { return false };
        let lives = change.heard.get(&old).is_some_and(|heard| !heard.read_only);
        if !lives || self.open(|what| matches!(what, Ask::Fence { .. })) {
            return false;
        }
        if let Some(change) = &mut self.change {
            change.winner = Some(old);
            change.fork = None;
        }
        self.let_follow(old);
        self.publish();
        true
    }

    fn wait(&mut self, why: String) {
        let Some(change) = &mut self.change else {
            return;
        };
        change.stage = Stage::Waiting;
        if change.told != why {
            change.told.clone_from(&why);
            self.tell(Kind::Waiting, None, why);
        }
        self.wake_after(self.policy.retry_us);
    }

    /// Asks everybody again, and takes what failed before as possible again.
    pub(super) fn retry(&mut self) {
        let Some(change) = &mut self.change else {
            return;
        };
        if change.stage != Stage::Waiting {
            return;
        }
        change.tried.clear();
        let (old, fenced) = (change.old, change.fenced == Some(true));
        // One that answers is not stopped: it may be the only one that holds something.
        let silent = old.is_some_and(|old| !change.heard.contains_key(&old));
        self.hear_again(None);
        for server in self.deposed.clone() {
            self.ask(Ask::Halt { server });
        }
        if let Some(server) = old {
            if silent {
                self.ask(Ask::Halt { server });
            }
            let fencing = self.open(|what| matches!(what, Ask::Fence { .. }));
            if self.policy.fence && silent && self.has_heirs() && !fenced && !fencing {
                self.ask(Ask::Fence { server });
            }
        }
    }

    /// Hears everybody once more, but one that has just gone: what was said some time ago may not be
    /// true any more, since a restart throws away what a replica had not applied.
    fn hear_again(&mut self, gone: Option<ServerId>) {
        let Some(change) = &mut self.change else {
            return;
        };
        change.stage = Stage::Clearing;
        let before = std::mem::take(&mut change.heard);
        let old = change.old;
        for server in self.others(old) {
            if Some(server) != gone {
                self.ask(Ask::Halt { server });
            }
        }
        if let Some(server) = old.filter(|old| before.contains_key(old) && Some(*old) != gone) {
            self.ask(Ask::Halt { server });
        }
    }

    /// A server answers again while a change waits for somebody.
    pub(super) fn returned(&mut self, server: ServerId) {
        let waits = self.change.as_ref().is_some_and(|change| {
            change.stage == Stage::Waiting && !change.heard.contains_key(&server)
        });
        if waits {
            self.retry();
        }
    }

    /// The servers' standing changed: perhaps nobody has to be waited for any more.
    pub(super) fn returned_any(&mut self) {
        if let Some(change) = &mut self.change
            && change.stage == Stage::Waiting
        {
            change.stage = Stage::Clearing;
        }
    }

    /// Lets the winner apply what it received, or copy what it lacks.
    pub(super) fn turn_to(&mut self, winner: ServerId, source: Option<ServerId>, fork: Position) {
        let Some(change) = &mut self.change else {
            return;
        };
        change.stage = Stage::Turning;
        change.winner = Some(winner);
        change.source = source;
        change.fork = Some(fork.clone());
        let server = source.unwrap_or(winner);
        if !change.heard.get(&server).is_some_and(Heard::drained) {
            let position = fork;
            self.ask(Ask::Reach { server, position });
        }
    }

    fn turned(&mut self) {
        if self.open(|what| matches!(what, Ask::Reach { .. })) {
            return;
        }
        let Some(change) = &mut self.change else {
            return;
        };
        let (Some(winner), Some(fork)) = (change.winner, change.fork.clone()) else {
            return;
        };
        match change.source {
            Some(primary) => {
                change.stage = Stage::Copying;
                self.ask(Ask::Follow {
                    server: winner,
                    primary,
                });
                self.ask(Ask::Reach {
                    server: winner,
                    position: fork,
                });
            }
            None => self.lead(winner),
        }
    }

    fn copied(&mut self) {
        if !self.open(|what| matches!(what, Ask::Reach { .. }))
            && let Some(winner) = self.change.as_ref().and_then(|change| change.winner)
        {
            self.lead(winner);
        }
    }

    /// Prepares the winner while it is recorded: it is not opened before both are done.
    fn lead(&mut self, server: ServerId) {
        if let Some(change) = &mut self.change {
            change.stage = Stage::Leading;
            change.course.follows = false;
            let (old, fork) = (change.old, change.fork.clone());
            let winner = server;
            self.record_with(fork, Step::Turning { old, winner });
            self.ask(Ask::Lead { server });
            let others = self.others(Some(server));
            let change = self.change.as_ref();
            let ready = change.map(|change| pointable(change, winner, others));
            for server in ready.unwrap_or_default() {
                let primary = winner;
                self.ask(Ask::Point { server, primary });
            }
        }
    }

    fn led(&mut self) {
        if self.open(|what| matches!(what, Ask::Lead { .. })) {
            return;
        }
        let recorded = !self.unrecorded();
        let Some(change) = &mut self.change else {
            return;
        };
        let Some(server) = change.winner else { return };
        let follows = std::mem::replace(&mut change.course.follows, true);
        if recorded {
            change.stage = Stage::Opening;
            self.ask(Ask::Open { server });
        }
        // It waits for acknowledgements now, and its first commit waits for the first that follows.
        if !follows {
            self.let_follow(server);
        }
    }

    fn opened(&mut self) {
        if !self.open(|what| matches!(what, Ask::Open { .. })) {
            self.publish();
        }
    }

    /// A step failed. Before anything was opened there is another way; afterwards the winner is a
    /// primary that was lost.
    fn step_failed(&mut self, what: Ask, failed: Failed) {
        let Some(change) = &self.change else { return };
        let (stage, old, fork) = (change.stage, change.old, change.fork.clone());
        let away = change.away.clone();
        let lives = matches!(failed.fault, Fault::Said | Fault::Late);
        self.tell_failed(&what, &failed);
        match (what, stage) {
            (Ask::Open { server }, Stage::Opening) if failed.fault != Fault::Said => {
                if old != Some(server) {
                    self.fork = fork;
                    self.enthrone(old, server, false);
                    for server in away {
                        self.depose(server);
                    }
                }
                self.lost_meanwhile(server, failed.fault, failed.text);
            }
            (
                Ask::Lead { server } | Ask::Open { server } | Ask::Reach { server, .. },
                Stage::Turning | Stage::Copying | Stage::Leading | Stage::Opening,
            ) => self.another_way(server, lives, failed.text),
            (what, stage) => self.switch_failed(what, stage, failed),
        }
    }

    fn tell_failed(&mut self, what: &Ask, failed: &Failed) {
        let step = match what {
            Ask::Cut { .. } => "cut",
            Ask::Reach { .. } => "apply what it received",
            Ask::Lead { .. } => "lead",
            Ask::Open { .. } => "open",
            Ask::Pause { .. } => "pause",
            Ask::Close { .. } => "close",
            _ => "go on",
        };
        let server = what.server();
        let name = server.map(|server| self.name(server)).unwrap_or_default();
        let text = format!("{name} did not {step}: {}", failed.text);
        self.tell(Kind::StepFailed, server, text);
    }

    /// Something that takes writes, or may take them, failed in the middle of a change.
    pub(super) fn lost_meanwhile(&mut self, server: ServerId, fault: Fault, why: String) {
        let cause = match fault {
            Fault::Refused => Cause::Crashed,
            _ => Cause::Silent,
        };
        self.losses.push(Loss {
            server,
            cause,
            at_us: self.now_us,
        });
        let text = format!("{} is lost: {why}", self.name(server));
        self.tell(Kind::Lost, Some(server), text);
        self.clear_the_way(Some(server), cause);
    }

    fn another_way(&mut self, server: ServerId, lives: bool, text: String) {
        self.forget_steps();
        let Some(change) = &mut self.change else {
            return;
        };
        if lives {
            change.tried.insert(server);
            return self.hear_again(None);
        }
        change.unheard.insert(server, text);
        self.hear_again(Some(server));
    }

    /// True while somebody else could take the primary's place.
    pub(super) fn has_heirs(&self) -> bool {
        let members = self.members.values();
        members
            .filter(|member| Some(member.id) != self.primary)
            .any(|member| member.counts() && !member.never)
    }

    /// Answers to steps of a way that was left do not count any more.
    pub(super) fn forget_steps(&mut self) {
        self.asks
            .retain(|_, what| matches!(what, Ask::Follow { .. } | Ask::Record(_)));
    }
}
