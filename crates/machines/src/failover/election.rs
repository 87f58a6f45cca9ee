//! Who takes over, and the proof that nothing acknowledged is lost with it.
//!
//! A commit is acknowledged when one replica has received it. So what the best of all replicas holds
//! covers everything acknowledged, once all of them were heard after they stopped receiving; or this
//! router knows itself what was acknowledged, because nobody else acknowledges. One of the two is
//! needed, and besides, the old primary must not be able to acknowledge anything more.

use std::cmp::Reverse;

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
        let lossy = doubt.is_some();
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
        let heard: Vec<ServerId> = change.heard.keys().copied().collect();
        let source = tops.iter().copied().find(|id| self.applies(change, *id));
        match (best(&heard), source) {
            (Some(winner), Some(source)) => Ok(Choice {
                winner,
                source: Some(source),
                fork,
                lossy,
            }),
            _ => Err("no server that may be promoted has answered".to_owned()),
        }
    }

    /// Those that hold everything that anybody heard holds, and what that is.
    fn tops(&self, change: &Change) -> Result<(Vec<ServerId>, Position), String> {
        let held: Vec<(ServerId, Position)> = change
            .heard
            .iter()
            .filter(|(id, _)| self.members.get(id).is_some_and(Member::counts))
            .map(|(id, heard)| (*id, heard.holds()))
            .collect();
        if held.is_empty() {
            let names: Vec<String> = change
                .unheard
                .iter()
                .map(|(id, why)| format!("{} ({why})", self.name(*id)))
                .collect();
            return Err(format!("no server answers: {}", names.join(", ")));
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
        let missing = self.missing(change);
        let old_heard = change.old.is_none_or(|old| change.heard.contains_key(&old));
        if missing.is_empty() && old_heard {
            // Nobody is left who could know of more.
            return None;
        }
        let old = change
            .old
            .map_or("the primary".into(), |old| self.name(old));
        let names: Vec<String> = missing
            .iter()
            .map(|id| self.name(*id).to_string())
            .collect();
        let names = names.join(" and ");
        let waits = matches!(self.policy.acks, Acks::Servers { forever: true });
        let sealed = old_heard
            || change.fenced == Some(true)
            || change.gone
            || self.policy.cut_is_fence
            || (waits && missing.is_empty());
        if !sealed {
            return Some(if waits {
                format!(
                    "{old} could still take writes that {names} acknowledge; no fence reached it"
                )
            } else {
                format!("{old} could still take writes; no fence reached it")
            });
        }
        match &self.acknowledged {
            Some(acknowledged) if holds.covers(acknowledged) => return None,
            Some(acknowledged) => {
                return Some(format!(
                    "commits up to {acknowledged} were acknowledged, but only {holds} is here; {old} \
                     may hold the rest"
                ));
            }
            None => {}
        }
        if !missing.is_empty() {
            return Some(format!(
                "{names} may hold acknowledged commits that the others lack; if it is gone for good, \
                 `server set_status {} FAULTY`",
                self.name(missing[0])
            ));
        }
        let vouched = match self.policy.acks {
            Acks::Servers { forever } => forever,
            Acks::Router => true,
            Acks::Nobody => false,
        };
        if !vouched {
            return Some(format!(
                "{old} may have acknowledged commits that no replica has"
            ));
        }
        match &self.fork {
            Some(fork) if !holds.covers(fork) => Some(format!(
                "{old} took over with {fork}, but only {holds} is here"
            )),
            _ => None,
        }
    }

    /// Servers that could have acknowledged a commit alone and were not heard.
    fn missing(&self, change: &Change) -> Vec<ServerId> {
        let others = self.others(change.old).into_iter();
        others.filter(|id| !change.heard.contains_key(id)).collect()
    }

    fn may_lose(&self, change: &Change) -> bool {
        self.policy
            .lossy_promotion_after_us
            .is_some_and(|after| self.now_us - change.since_us >= after)
    }

    pub(super) fn promotable(&self, change: &Change, id: ServerId) -> bool {
        let fit = |member: &Member, heard: &Heard| {
            member.counts() && !member.never && !heard.frozen && (heard.applies || heard.drained())
        };
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
    /// did not fail again and again, the present primary, the wish of an operator, a replica before
    /// a spare, the heavier, the nearer, the one with the smaller number.
    pub(super) fn compare(&self, change: &Change, a: ServerId, b: ServerId) -> std::cmp::Ordering {
        let holds = |id: ServerId| change.heard[&id].holds();
        let (held_a, held_b) = (holds(a), holds(b));
        let more = (held_a.covers(&held_b)).cmp(&held_b.covers(&held_a));
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
                standing,
            )
        };
        more.then(rank(a).cmp(&rank(b)))
            .then(a.weight.total_cmp(&b.weight))
            .then(a.near.cmp(&b.near))
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
