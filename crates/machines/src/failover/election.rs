//! Who takes over, and the proof that nothing acknowledged is lost with it.
//!
//! A commit is acknowledged when one replica has received it. So what the best of all replicas holds
//! covers everything acknowledged, once all of them were heard after they stopped receiving; or this
//! router knows itself what was acknowledged, because nobody else acknowledges. One of the two is
//! needed, and besides, the old primary must not be able to acknowledge anything more.

use std::cmp::Reverse;
use std::sync::Arc;

use farm::{Position, ServerId, Status};

use super::change::Change;
use super::{Acks, Failover, Heard, Member};

/// Who was chosen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    pub winner: ServerId,
    /// Who holds more than a winner that can be promoted; it must be copied first.
    pub source: Option<ServerId>,
    /// What the winner will have when it takes over.
    pub fork: Position,
    /// Something acknowledged may be missing.
    pub lossy: bool,
}

impl Failover {
    /// The choice, or for people why there is none yet.
    pub(super) fn elect(&self, change: &Change) -> Result<Choice, String> {
        let (tops, fork) = self.tops(change)?;
        let doubt = self.doubt(change, &fork);
        // Also when nobody is left to wait for: it is told.
        let known = self.acknowledged.as_ref();
        let lossy = doubt.is_some() || known.is_some_and(|known| !fork.covers(known));
        if let Some(doubt) = doubt
            && !self.may_lose(change)
        {
            return Err(doubt);
        }
        let promotable = |id: &ServerId| self.promotable(change, *id);
        let best = |ids: &[ServerId]| {
            let fit = ids.iter().copied().filter(promotable);
            fit.max_by(|&a, &b| self.compare(change, a, b))
        };
        if let Some(winner) = best(&tops) {
            return Ok(Choice {
                winner,
                source: None,
                fork,
                lossy,
            });
        }
        let tried = |id: &ServerId| change.tried.contains(id);
        if tops.iter().any(|id| tried(id) && !self.members[id].never) {
            return Err(
                "who could take over did not do as it was told; it is tried again".to_owned(),
            );
        }
        // Who holds most may not lead: the best of the others copies it first.
        let counts = |id: &ServerId| {
            self.members.get(id).is_some_and(Member::counts) && !self.unproved.contains(id)
        };
        let heard: Vec<ServerId> = change.heard.keys().copied().filter(counts).collect();
        let source = tops.iter().copied().find(|id| self.applies(change, *id));
        match (best(&heard), source) {
            (Some(winner), Some(source)) => Ok(Choice {
                winner,
                source: Some(source),
                fork,
                lossy,
            }),
            _ => Err(match self.absent(change).first() {
                Some(absent) => {
                    let name = self.name(*absent);
                    format!(
                        "{name} may have received commits that the crash of the primary undid; if it is \
                         gone for good, `server set_status {name} FAULTY`"
                    )
                }
                None => "no server that may be promoted has answered".to_owned(),
            }),
        }
    }

    /// Those that hold everything that anybody heard holds, and what that is.
    fn tops(&self, change: &Change) -> Result<(Vec<ServerId>, Position), String> {
        let counts = |id: &ServerId| {
            self.members.get(id).is_some_and(Member::counts) && !self.unproved.contains(id)
        };
        let has_fork = |heard: &Heard| match &self.fork {
            Some(fork) => heard.holds().covers(fork),
            None => true,
        };
        // An older primary counts when all the others were heard and what was taken over from it is
        // nowhere else.
        let taken_over = change
            .heard
            .iter()
            .any(|(id, heard)| counts(id) && has_fork(heard));
        let present = |id: &ServerId| change.heard.contains_key(id);
        let everybody =
            change.old.as_ref().is_none_or(present) && self.others(change.old).iter().all(present);
        let older = everybody && !taken_over;
        let stands = |id: &ServerId| counts(id) || (older && self.deposed.contains(id));
        let held: Vec<(ServerId, Position)> = change
            .heard
            .iter()
            .filter(|(id, _)| stands(id))
            .map(|(id, heard)| (*id, heard.holds()))
            .collect();
        if held.is_empty() {
            let names: Vec<String> = change
                .unheard
                .iter()
                .map(|(id, why)| format!("{} ({why})", self.name(*id)))
                .collect();
            return Err(match names.is_empty() {
                true => "no server answers".to_owned(),
                false => format!("no server answers: {}", names.join(", ")),
            });
        }
        let tops: Vec<&(ServerId, Position)> = held
            .iter()
            .filter(|(_, mine)| held.iter().all(|(_, theirs)| mine.covers(theirs)))
            .collect();
        let Some((_, fork)) = tops.first() else {
            let held: Vec<String> = held
                .iter()
                .map(|(id, holds)| format!("{} at {holds}", self.name(*id)))
                .collect();
            return Err(format!(
                "no server holds everything that the others hold ({}); set the one to give up FAULTY \
                 with `server set_status`",
                held.join(", ")
            ));
        };
        Ok((tops.iter().map(|(id, _)| *id).collect(), fork.clone()))
    }

    /// What speaks against the promotion of somebody who holds this; `None` when nothing does.
    fn doubt(&self, change: &Change, holds: &Position) -> Option<String> {
        let missing = self.missing(change, holds);
        let old_heard = change.old.is_none_or(|old| change.heard.contains_key(&old));
        if missing.is_empty() && old_heard {
            // Nobody is left who could know of more, but those from whom the primary took over.
            return self.lost_with(change, holds);
        }
        let old = change
            .old
            .map_or("the primary".into(), |old| self.name(old));
        if !old_heard && !self.sealed(change) {
            return Some(format!(
                "{old} could still take writes; no fence reached it"
            ));
        }
        match &self.acknowledged {
            Some(acknowledged) if !holds.covers(acknowledged) => {
                return Some(format!(
                    "commits up to {acknowledged} were acknowledged, but only {holds} is here; {old} \
                     may hold the rest"
                ));
            }
            _ if self.knows_all(holds) => return None,
            _ => {}
        }
        if let Some(first) = missing.first() {
            let names: Vec<Arc<str>> = missing.iter().map(|id| self.name(*id)).collect();
            return Some(format!(
                "{} may hold acknowledged commits that the others lack; if it is gone for good, \
                 `server set_status {} FAULTY`",
                names.join(" and "),
                self.name(*first)
            ));
        }
        self.unvouched(change, holds, &old)
    }

    /// The old primary, which was not heard, cannot acknowledge anything any more.
    fn sealed(&self, change: &Change) -> bool {
        let waits = matches!(self.policy.acks, Acks::Servers { forever: true });
        let others = self.others(change.old);
        let stopped = others.iter().all(|id| change.heard.contains_key(id));
        let cut = self.policy.cut_is_fence && self.all_have_cut();
        change.fenced == Some(true) || change.gone || cut || (waits && stopped)
    }

    /// Why what all replicas hold may still not be all that was acknowledged.
    fn unvouched(&self, change: &Change, holds: &Position, old: &str) -> Option<String> {
        let others = self.others(change.old);
        if let Some(forgot) = others.iter().find(|id| change.forgetful.contains(id)) {
            let name = self.name(*forgot);
            return Some(format!(
                "{name} was restarted while {old} was lost, so what it had received is gone"
            ));
        }
        let vouched = match self.policy.acks {
            Acks::Servers { forever } => forever,
            Acks::Router => true,
            Acks::Nobody => false,
        };
        match &self.fork {
            _ if !vouched => Some(format!(
                "{old} may have acknowledged commits that no replica has"
            )),
            Some(fork) if !holds.covers(fork) => Some(format!(
                "{old} took over with {fork}, but only {holds} is here"
            )),
            _ => None,
        }
    }

    /// What the primary had when it took over is not here, but an older primary may still have it.
    fn lost_with(&self, change: &Change, holds: &Position) -> Option<String> {
        let fork = self.fork.as_ref().filter(|fork| !holds.covers(fork))?;
        let unheard = self
            .deposed
            .iter()
            .find(|id| !change.heard.contains_key(id))?;
        let name = self.name(*unheard);
        Some(format!(
            "{name} may hold commits up to {fork} that the others lack; if it is gone for good, \
             `group remove` it"
        ))
    }

    /// Servers that could have acknowledged a commit alone: those that were not heard, and those that
    /// hold more although nobody knows whether it is of this history.
    fn missing(&self, change: &Change, holds: &Position) -> Vec<ServerId> {
        let settles = |id: &ServerId| {
            let heard = change.heard.get(id);
            heard.is_some_and(|heard| !self.unproved.contains(id) || holds.covers(&heard.holds()))
        };
        let others = self.others(change.old).into_iter();
        others.filter(|id| !settles(id)).collect()
    }

    /// Replicas without which a primary that was restarted must not go on: its crash undid commits
    /// that they may have received, and it would give the same GTIDs to other commits. Those that
    /// were away before it crashed have none of them.
    fn absent(&self, change: &Change) -> Vec<ServerId> {
        let others = self.others(change.old).into_iter();
        others
            .filter(|id| !change.heard.contains_key(id) && !self.was_away(*id))
            .collect()
    }

    fn was_away(&self, server: ServerId) -> bool {
        let before_us = self.alive_us.saturating_sub(self.policy.settle_us);
        let heard_us = self.suspicion.heard_us(server);
        heard_us.is_some_and(|heard_us| heard_us < before_us)
    }

    fn may_lose(&self, change: &Change) -> bool {
        self.policy
            .lossy_promotion_after_us
            .is_some_and(|after| self.now_us - change.since_us >= after)
    }

    pub(super) fn promotable(&self, change: &Change, id: ServerId) -> bool {
        let fit = |member: &Member, heard: &Heard| {
            !member.never && !heard.frozen && (heard.applies || heard.drained())
        };
        if change.old == Some(id) && !self.absent(change).is_empty() {
            return false;
        }
        match (self.members.get(&id), change.heard.get(&id)) {
            (Some(member), Some(heard)) => fit(member, heard) && !change.tried.contains(&id),
            _ => false,
        }
    }

    fn applies(&self, change: &Change, id: ServerId) -> bool {
        let heard = change.heard.get(&id);
        heard.is_some_and(|heard| heard.applies || heard.drained())
    }

    /// Of two that may lead, the greater one does: who holds more (only copies differ there), who
    /// did not fail again and again, the wish of an operator, the present primary, the one of the older
    /// release, whom the others can follow, a replica before a spare, the heavier, the nearer, the one that
    /// has applied more and so takes the writes sooner, the one with the smaller number.
    pub(super) fn compare(&self, change: &Change, a: ServerId, b: ServerId) -> std::cmp::Ordering {
        let holds = |id: ServerId| change.heard[&id].holds();
        let (held_a, held_b) = (holds(a), holds(b));
        let more = (held_a.covers(&held_b)).cmp(&held_b.covers(&held_a));
        let (applied_a, applied_b) = (&change.heard[&a].executed, &change.heard[&b].executed);
        let sooner = applied_a
            .covers(applied_b)
            .cmp(&applied_b.covers(applied_a));
        let (a, b) = (&self.members[&a], &self.members[&b]);
        let rank = |member: &Member| {
            let standing = match member.status {
                Status::Primary => 3,
                Status::Replica => 2,
                Status::Spare => 1,
                Status::Faulty => 0,
            };
            (
                !self.flaps(member.id),
                change.wish == Some(member.id),
                member.status == Status::Primary,
                Reverse(member.release),
                standing,
            )
        };
        more.then(rank(a).cmp(&rank(b)))
            .then(a.weight.total_cmp(&b.weight))
            .then(a.near.cmp(&b.near))
            .then(sooner)
            .then(Reverse(a.id).cmp(&Reverse(b.id)))
    }

    /// It was lost for one cause again and again, lately.
    fn flaps(&self, server: ServerId) -> bool {
        let lately = self.now_us.saturating_sub(self.policy.flap_window_us);
        let mine = self
            .losses
            .iter()
            .filter(|loss| loss.server == server && loss.at_us >= lately);
        mine.clone().any(|one| {
            let same = mine.clone().filter(|other| other.cause == one.cause);
            same.count() >= self.policy.flaps_max as usize
        })
    }
}
