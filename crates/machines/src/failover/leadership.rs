//! One of several routers: who leads, what the others hold for lost, and what their clients were told.
//!
//! Every router observes and forms an opinion; the leader alone acts. It begins when its own signals
//! agree and either a majority of the routers that live says the same, or every replica that answers
//! has lost the primary too; and also without signals of its own when both are the case.
//!
//! What clients were told is known only when every router that may have told them something was
//! heard after it had cut the primary off. Of one that is gone nobody hears; but what it told is on
//! the primary, so a position that the primary said afterwards stands for it. One whose lease is over
//! may still serve: while there is such a one, nobody knows.

use std::collections::{BTreeMap, BTreeSet};

use farm::{Position, ServerId, Status};

use super::suspicion::Suspicion;
use super::{Action, Cause, Failover, Fault, Kind, Member, RouterId};

/// What a router knows of the others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Council {
    /// The fencing number under which it leads.
    number: Option<u64>,
    /// It knows what its predecessor recorded.
    resumed: bool,
    peers: BTreeSet<RouterId>,
    expired_routers: BTreeSet<RouterId>,
    votes: BTreeMap<RouterId, ServerId>,
    /// The primary that it holds for lost itself.
    opinion: Option<(ServerId, Cause)>,
    /// Since when.
    opinion_us: u64,
    /// Replicas that lost the primary: since when that is known, and when they said so last.
    disconnected: BTreeMap<ServerId, (u64, u64)>,
    /// The number of the record that began this change, and the peers that have cut the primary off
    /// because of it.
    cut: u64,
    said: BTreeSet<RouterId>,
    /// Covers what clients of routers that are gone were told.
    before: Option<Position>,
    /// Something may have been told before this moment that `before` does not cover.
    uncovered_us: Option<u64>,
    /// It was told that the others do not see what this router sees.
    told: bool,
}

impl Council {
    pub(crate) fn leads(&self) -> bool {
        self.number.is_some()
    }

    pub(crate) fn wants_executed(&self) -> bool {
        self.uncovered_us.is_some()
    }

    /// True for more than half of the routers that live.
    fn is_majority(&self, votes: usize) -> bool {
        2 * votes > self.peers.len() + 1
    }

    fn votes_for(&self, server: ServerId) -> usize {
        let voted = |peer: &&RouterId| self.votes.get(peer) == Some(&server);
        self.peers.iter().filter(voted).count()
    }
}

impl Failover {
    /// True for the router that may act: the leader that knows what is recorded, or the only one.
    pub(super) fn acts(&self) -> bool {
        let council = self.council.as_ref();
        council.is_none_or(|council| council.leads() && council.resumed)
    }

    /// Why an order cannot be carried out here.
    pub(super) fn no_leader(&self) -> Option<String> {
        let council = self.council.as_ref()?;
        match (council.leads(), council.resumed) {
            (true, true) => None,
            (true, false) => Some("this router has just begun to lead; try again".to_owned()),
            (false, _) => Some("this router does not lead".to_owned()),
        }
    }

    pub(super) fn take_leadership(
        &mut self,
        leads: bool,
        number: u64,
        peers: Vec<RouterId>,
        expired_routers: Vec<RouterId>,
    ) {
        let now_us = self.now_us;
        let council = self.council.get_or_insert_default();
        let peers: BTreeSet<RouterId> = peers.into_iter().collect();
        let expired_routers: BTreeSet<RouterId> = expired_routers.into_iter().collect();
        let before = council.peers.union(&council.expired_routers);
        let mut gone =
            before.filter(|router| !peers.contains(router) && !expired_routers.contains(router));
        if gone.next().is_some() {
            council.uncovered_us = Some(now_us);
        }
        (council.peers, council.expired_routers) = (peers, expired_routers);
        let number = leads.then_some(number);
        if number != council.number {
            let led = council.leads();
            (council.number, council.resumed) = (number, false);
            // Others may have come and gone while somebody else led.
            council.uncovered_us = Some(now_us);
            if led {
                self.step_down();
            }
        }
        let council = self.council.get_or_insert_default();
        council
            .votes
            .retain(|router, _| council.peers.contains(router));
        self.weigh();
        self.returned_any();
    }

    /// Somebody else leads now: what was begun is his.
    fn step_down(&mut self) {
        let order = self.change.take().and_then(|change| change.order);
        if let Some(order) = order {
            let result = Err("this router does not lead any more".to_owned());
            self.out.push(Action::Reply { order, result });
        }
        self.asks.clear();
        self.to_record = None;
        let stored = std::mem::take(&mut self.stored);
        self.members = stored.iter().map(|m| (m.id, m.clone())).collect();
        let primary = |member: &&Member| member.status == Status::Primary;
        self.primary = stored.iter().find(primary).map(|member| member.id);
        self.stored = stored;
        self.suspicion = Suspicion::default();
        self.another_primary();
    }

    /// True when what was recorded is to be taken up now.
    pub(super) fn begins_to_lead(&mut self) -> bool {
        let Some(council) = &mut self.council else {
            return true;
        };
        council.leads() && !std::mem::replace(&mut council.resumed, true)
    }

    /// Somebody else is the primary than this router thought: what was seen of the last one is void.
    pub(super) fn another_primary(&mut self) {
        let (primary, now_us) = (self.primary, self.now_us);
        let Some(council) = &mut self.council else {
            return;
        };
        council.disconnected.clear();
        council.uncovered_us = Some(now_us);
        if council
            .opinion
            .is_some_and(|(lost, _)| primary != Some(lost))
        {
            self.form_opinion(None);
        }
    }

    /// Takes another view of the primary, and lets the others know.
    pub(super) fn form_opinion(&mut self, opinion: Option<(ServerId, Cause)>) {
        let now_us = self.now_us;
        let Some(council) = &mut self.council else {
            return;
        };
        let before = std::mem::replace(&mut council.opinion, opinion);
        let lost = opinion.map(|(server, _)| server);
        if lost.is_none() {
            council.told = false;
        }
        if before.map(|(server, _)| server) != lost {
            council.opinion_us = now_us;
            self.out.push(Action::Vote { lost });
        }
    }

    /// The primary answered a read: only hanging writes can still speak against it.
    pub(super) fn answers(&mut self) {
        let council = self.council.as_ref();
        let opinion = council.and_then(|council| council.opinion);
        if opinion.is_some_and(|(_, cause)| cause != Cause::Frozen) {
            self.form_opinion(None);
        }
    }

    /// True when this fault tells nothing new.
    pub(super) fn is_convinced(&self, fault: Fault) -> bool {
        let council = self.council.as_ref();
        let opinion = council.and_then(|council| council.opinion);
        opinion.is_some_and(|(server, cause)| {
            let silent = matches!(fault, Fault::Silent | Fault::Said);
            self.primary == Some(server)
                && (cause == Cause::Crashed || cause == Cause::Silent && silent)
        })
    }

    pub(super) fn voted(&mut self, router: RouterId, lost: Option<ServerId>) {
        let Some(council) = &mut self.council else {
            return;
        };
        match lost {
            Some(server) => council.votes.insert(router, server),
            None => council.votes.remove(&router),
        };
        self.weigh();
    }

    pub(super) fn disconnected(&mut self, replica: ServerId) {
        let now_us = self.now_us;
        let Some(council) = &mut self.council else {
            return;
        };
        let (_, last_us) = council
            .disconnected
            .entry(replica)
            .or_insert((now_us, now_us));
        *last_us = now_us;
        self.weigh();
    }

    pub(super) fn receives(&mut self, replica: ServerId, heard_us: u64) {
        if let Some(council) = &mut self.council
            && council
                .disconnected
                .get(&replica)
                .is_some_and(|(since_us, _)| heard_us > *since_us)
        {
            council.disconnected.remove(&replica);
        }
    }

    /// Since when every replica that answers has lost the primary; `None` when one has not, or none
    /// said anything lately.
    fn disconnected_since(&self) -> Option<u64> {
        let council = self.council.as_ref()?;
        let lately = self.now_us.saturating_sub(self.policy.view_lasts_us);
        let disconnected = council.disconnected.iter();
        let fresh: BTreeMap<ServerId, u64> = disconnected
            .filter(|(_, (_, last_us))| *last_us >= lately)
            .map(|(replica, (since_us, _))| (*replica, *since_us))
            .collect();
        let first_us = fresh.values().copied().min()?;
        let receives = |id: &ServerId| {
            let heard_us = self.suspicion.heard_us(*id);
            !fresh.contains_key(id) && heard_us.is_some_and(|heard_us| heard_us >= lately)
        };
        (!self.others(self.primary).iter().any(receives)).then_some(first_us)
    }

    /// Begins a change when enough of what is known speaks against the primary.
    pub(super) fn weigh(&mut self) {
        if !self.acts() || !self.active || self.change.is_some() {
            return;
        }
        let (Some(server), Some(council)) = (self.primary, &self.council) else {
            return;
        };
        let votes = council.votes_for(server);
        let own = council.opinion.filter(|(lost, _)| *lost == server);
        let (alone, together) = (council.is_majority(votes), council.is_majority(votes + 1));
        match (own, self.disconnected_since()) {
            (Some((_, cause)), disconnected) if together || disconnected.is_some() => {
                self.give_up(server, cause);
            }
            (None, Some(since_us)) if alone => {
                // It still answers here, but since then it may have acknowledged nothing.
                self.alive_us = self.alive_us.min(since_us);
                self.give_up(server, Cause::Silent);
            }
            (Some(_), _) => self.tell_disagreement(server),
            (None, _) => {}
        }
    }

    /// The others need a moment to see the same.
    fn tell_disagreement(&mut self, server: ServerId) {
        let (now_us, patience_us) = (self.now_us, self.policy.retry_us);
        let text = format!(
            "{} is lost for this router, but neither most routers nor its replicas say the same",
            self.name(server)
        );
        if let Some(council) = &mut self.council
            && now_us >= council.opinion_us.saturating_add(patience_us)
            && !std::mem::replace(&mut council.told, true)
        {
            self.tell(Kind::Unreachable, Some(server), text);
        }
        self.wake_after(self.policy.retry_us);
    }

    /// A router says what its clients were told.
    pub(super) fn told_by(&mut self, router: RouterId, position: Position, cut: u64) {
        match &mut self.acknowledged {
            Some(known) => known.join(&position),
            unknown => *unknown = Some(position),
        }
        if let Some(council) = &mut self.council
            && router != RouterId::OWN
            && cut >= council.cut
        {
            council.said.insert(router);
            self.returned_any();
        }
    }

    /// From here on the peers are to be heard once more.
    pub(super) fn wants_cut(&mut self) {
        let number = self.number;
        if let Some(council) = &mut self.council {
            council.cut = number;
            council.said.clear();
        }
    }

    /// The primary has all that was told by routers that were gone when it was asked.
    pub(super) fn executed_by(&mut self, server: ServerId, position: Position, asked_us: u64) {
        let settled = self.primary == Some(server) && self.change.is_none();
        if let Some(council) = &mut self.council
            && settled
            && council
                .uncovered_us
                .is_some_and(|since_us| asked_us > since_us)
        {
            council.before = Some(position);
            council.uncovered_us = None;
        }
    }

    /// Every router that could tell its clients something of the old primary has cut it off.
    pub(super) fn all_have_cut(&self) -> bool {
        let council = self.council.as_ref();
        council.is_none_or(|it| it.expired_routers.is_empty() && it.peers.is_subset(&it.said))
    }

    /// True when this covers all that clients were told.
    pub(super) fn knows_all(&self, holds: &Position) -> bool {
        let Some(council) = &self.council else {
            return self
                .acknowledged
                .as_ref()
                .is_some_and(|it| holds.covers(it));
        };
        let told = self.acknowledged.as_ref().is_none_or(|it| holds.covers(it));
        let before = council.before.as_ref().is_some_and(|it| holds.covers(it));
        told && before && council.uncovered_us.is_none() && self.all_have_cut()
    }

    /// Peers are on their way to cut the primary off, and what they say may settle the matter.
    pub(super) fn awaits_peers(&mut self) -> bool {
        let (Some(council), Some(change)) = (&self.council, &self.change) else {
            return false;
        };
        let until_us = change.since_us.saturating_add(self.policy.hear_within_us);
        let awaits = self.now_us < until_us
            && council.expired_routers.is_empty()
            && council.uncovered_us.is_none()
            && !council.peers.is_subset(&council.said);
        if awaits {
            self.out.push(Action::Wake { at_us: until_us });
        }
        awaits
    }
}
