//! Who takes a group's writes: one machine per group.
//!
//! It watches the primary ([`suspicion`]), and when two signals agree that it is lost, or an operator
//! wants another one, it runs a change of primary ([`change`], [`switchover`]), whose winner is
//! chosen by [`election`]. The order of the steps, and why:
//!
//! 1. *Record* that the change has begun: a router that dies now must not leave replicas stopped. Alone, and when the
//!    primary's process is gone, the record of the winner is the first: a primary that comes back read-only has its
//!    replicas started again in any case.
//! 2. *Cut* the old primary off and *fence* it: nobody is told of a commit from it any more.
//! 3. *Halt* all replicas: from here on a primary that waits for acknowledgements gets none, and what
//!    they hold is all that can have been acknowledged.
//! 4. *Elect* who holds most, and only with a proof that nothing acknowledged is missing.
//! 5. *Drain* the winner: stopping it sooner would throw its relay log away.
//! 6. *Lead*: it follows nobody and waits for acknowledgements. Not before it is drained: its own
//!    applier would wait for them too. Meanwhile *record* it: from now on it may have been opened. And *point* the
//!    others at it who lose nothing by that.
//! 7. *Open* it, while the others begin to *follow*: not before it is drained, or they would ask it
//!    for what it does not have. Its commits wait for the first of them.
//! 8. *Publish*: what clients sent meanwhile goes on.
//!
//! Everything that may have been opened counts as the primary from then on: when it fails, it is cut,
//! fenced and replaced like any other.

mod change;
mod election;
mod event;
mod journal;
mod leadership;
mod policy;
mod publication;
pub mod script;
mod suspicion;
mod switchover;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use farm::{Position, ServerId, Status};

use change::{Change, Stage};
use leadership::Council;
use suspicion::Suspicion;

pub use event::{
    Action, Answer, Ask, AskId, Event, Failed, Fault, Kind, Order, Record, RouterId, Step,
};
pub use policy::{Acks, Heard, Member, Policy};

/// The machine of one group.
#[derive(Clone, Debug)]
pub struct Failover {
    policy: Policy,
    members: BTreeMap<ServerId, Member>,
    /// The same as the state store has them.
    stored: Vec<Member>,
    /// Who takes the writes, or took them last.
    primary: Option<ServerId>,
    /// Losses are acted on.
    active: bool,
    /// Clients were told that all of this is committed; `None` while nobody knows of anything. Whether
    /// it is all that they were told: [`Failover::knows_all`].
    acknowledged: Option<Position>,
    /// The other routers; `None` for one that is alone.
    council: Option<Council>,
    /// What the primary had when it took over.
    fork: Option<Position>,
    /// When the primary last answered, or this machine first heard of anything.
    alive_us: u64,
    /// When it took over, or was restored.
    reign_us: u64,
    suspicion: Suspicion,
    change: Option<Change>,
    /// Of the last change that was recorded.
    number: u64,
    losses: Vec<Loss>,
    /// Old primaries that were not heard since they were replaced.
    deposed: BTreeSet<ServerId>,
    /// See [`Record::unproved`].
    unproved: BTreeSet<ServerId>,
    /// What the state store did not take.
    to_record: Option<Record>,
    asks: BTreeMap<AskId, Ask>,
    next_ask: u64,
    now_us: u64,
    out: Vec<Action>,
}

/// Why a primary was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Its process is gone.
    Crashed,
    /// It does not answer.
    Silent,
    /// It answers, but takes no writes.
    Frozen,
    /// It came back read-only.
    Returned,
    /// A router died during a change.
    Resumed,
    /// An operator wants another one.
    Ordered,
}

impl Cause {
    fn word(self) -> &'static str {
        match self {
            Cause::Crashed => "crashed",
            Cause::Silent => "silent",
            Cause::Frozen => "frozen",
            Cause::Returned => "returned",
            Cause::Resumed => "resumed",
            Cause::Ordered => "ordered",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Cause::Crashed => "its process is gone",
            Cause::Silent => "it does not answer",
            Cause::Frozen => "its writes do not end",
            Cause::Returned => "it came back read-only",
            Cause::Resumed => "a change of primary was interrupted",
            Cause::Ordered => "by order",
        }
    }
}

/// A primary that was lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    server: ServerId,
    cause: Cause,
    at_us: u64,
}

impl Failover {
    /// The machine of one of several routers: it does nothing before [`Event::Leadership`] says that it
    /// leads.
    pub fn among_peers(policy: Policy, active: bool) -> Failover {
        Failover {
            council: Some(Council::default()),
            ..Failover::new(policy, active)
        }
    }

    /// The machine of a group that is watched, or only served until [`Order::Activate`], in a farm
    /// with one router.
    pub fn new(policy: Policy, active: bool) -> Failover {
        Failover {
            policy,
            members: BTreeMap::new(),
            stored: Vec::new(),
            primary: None,
            active,
            acknowledged: None,
            council: None,
            fork: None,
            alive_us: 0,
            suspicion: Suspicion::default(),
            change: None,
            number: 0,
            losses: Vec::new(),
            deposed: BTreeSet::new(),
            unproved: BTreeSet::new(),
            reign_us: 0,
            to_record: None,
            asks: BTreeMap::new(),
            next_ask: 1,
            now_us: 0,
            out: Vec::new(),
        }
    }

    /// Takes note of what happened at this moment of the router's own clock, and says what to do.
    pub fn step(&mut self, now_us: u64, event: Event) -> Vec<Action> {
        self.now_us = self.now_us.max(now_us);
        if self.alive_us == 0 {
            self.alive_us = self.now_us;
        }
        match event {
            Event::Members(members) => self.take_members(members),
            Event::Acknowledged {
                router,
                position,
                cut,
            } => self.told_by(router, position, cut),
            Event::Leadership {
                leads,
                number,
                peers,
                expired_routers,
            } => self.take_leadership(leads, number, peers, expired_routers),
            Event::Vote { router, lost } => self.voted(router, lost),
            Event::Executed {
                server,
                position,
                asked_us,
            } => self.executed_by(server, position, asked_us),
            Event::Disconnected { replica } => self.disconnected(replica),
            Event::Heartbeat { server, read_only } => self.heartbeat(server, read_only),
            Event::Wrote { server } => self.wrote(server),
            Event::Failed { server, fault } => self.failed(server, fault),
            Event::View { replica, heard_us } => {
                self.suspicion.view(replica, heard_us);
                self.receives(replica, heard_us);
                if heard_us > self.reign_us {
                    self.unproved.remove(&replica);
                }
            }
            Event::Reported { server, by, sure } => self.reported(server, by, sure),
            Event::Order { order, what } => self.order(order, what),
            Event::Resume(record) => self.resume(record),
            Event::Stalled { .. } => self.stalled(),
            Event::Tick => self.tick(),
            Event::Done { ask, answer } => {
                if let Some(what) = self.asks.remove(&ask) {
                    self.answered(what, answer);
                }
            }
        }
        self.advance();
        std::mem::take(&mut self.out)
    }

    /// Who takes the writes, or took them last.
    pub fn primary(&self) -> Option<ServerId> {
        self.primary
    }

    /// True while the primary's position is wanted by [`Event::Executed`]: clients of a router that is
    /// gone were told of commits that nobody counts any more, but the primary has them.
    pub fn wants_executed(&self) -> bool {
        let council = self.council.as_ref();
        council.is_some_and(|council| council.leads() && council.wants_executed())
    }

    /// True while losses are acted on.
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// Takes other settings over; a step that is under way keeps its time.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// Why the primary is being exchanged, as a word for metrics; `None` while it is not.
    pub fn cause(&self) -> Option<&'static str> {
        self.change.as_ref().map(|change| change.cause.word())
    }

    /// True while the primary is being exchanged or restored.
    pub fn is_changing(&self) -> bool {
        self.change.is_some()
    }

    /// While a change is under way, or its end is not stored, the machine knows the servers'
    /// standing better than the store; but who an operator sets faulty is out.
    fn take_members(&mut self, members: Vec<Member>) {
        if self.council.is_some() {
            self.stored.clone_from(&members);
        }
        let settled = self.change.is_none()
            && self.to_record.is_none()
            && !self.open(|what| matches!(what, Ask::Record(_)));
        let here = |id: &ServerId| members.iter().any(|member| member.id == *id);
        self.deposed.retain(here);
        let mut known = std::mem::take(&mut self.members);
        for mut member in members {
            if let Some(before) = known.remove(&member.id)
                && !settled
                && (member.counts() && before.counts() || self.deposed.contains(&member.id))
            {
                member.status = before.status;
            }
            if member.counts() {
                self.deposed.remove(&member.id);
            }
            self.members.insert(member.id, member);
        }
        let primary = self.members.values().find(|m| m.status == Status::Primary);
        let primary = primary.map(|member| member.id);
        if settled && primary != self.primary {
            self.primary = primary;
            self.suspicion = Suspicion::default();
            self.another_primary();
        }
        self.returned_any();
    }

    fn answered(&mut self, what: Ask, answer: Result<Answer, Failed>) {
        match what {
            Ask::Confirm { server } => self.confirmed(server, answer),
            Ask::Follow { server, .. } => self.followed(server, answer),
            Ask::Record(record) => {
                if let Err(failed) = answer {
                    self.record_failed(record, failed);
                }
            }
            what => self.change_answered(what, answer),
        }
    }

    fn tick(&mut self) {
        if let Some(record) = self.to_record.take() {
            self.ask(Ask::Record(record));
        }
        if self.change.is_some() {
            self.retry();
        } else if self.active {
            self.judge_again();
        }
    }

    fn ask(&mut self, what: Ask) {
        let change = self.change.as_ref();
        let reaches = change.is_some_and(|change| change.stage == Stage::Reaching);
        let within_us = match what {
            Ask::Confirm { .. } => self.policy.confirm_within_us,
            Ask::Halt { .. } | Ask::Look { .. } => self.policy.hear_within_us,
            // Clients are held by now: the way back to the old primary has to fit into the time for which
            // they wait.
            Ask::Reach { .. } if reaches => self.policy.drain_within_us / 2,
            Ask::Reach { .. } => self.policy.drain_within_us,
            Ask::Pause { .. } => self.policy.pause_within_us,
            _ => self.policy.step_within_us,
        };
        let ask = AskId(self.next_ask);
        self.next_ask += 1;
        self.asks.insert(ask, what.clone());
        self.out.push(Action::Ask {
            ask,
            what,
            within_us,
        });
    }

    /// True while a question of this kind is open.
    fn open(&self, kind: impl Fn(&Ask) -> bool) -> bool {
        self.asks.values().any(kind)
    }

    fn tell(&mut self, kind: Kind, server: Option<ServerId>, text: String) {
        self.out.push(Action::Tell { kind, server, text });
    }

    fn wake_after(&mut self, us: u64) {
        let at_us = self.now_us.saturating_add(us);
        self.out.push(Action::Wake { at_us });
    }

    fn name(&self, server: ServerId) -> Arc<str> {
        match self.members.get(&server) {
            Some(member) => member.name.clone(),
            None => format!("server {}", server.0).into(),
        }
    }

    /// The servers that take part, the given one apart.
    fn others(&self, than: Option<ServerId>) -> Vec<ServerId> {
        let members = self.members.values();
        let others = members.filter(|m| m.counts() && Some(m.id) != than);
        others.map(|member| member.id).collect()
    }

    fn order(&mut self, order: u64, what: Order) {
        let objection = self.no_leader();
        let result = match what {
            Order::Promote { .. } | Order::Demote if objection.is_some() => {
                Err(objection.unwrap_or_default())
            }
            Order::Promote { to } => return self.promote(order, to),
            Order::Demote => return self.demote(order),
            Order::Activate => {
                self.active = true;
                Ok("the group is watched".to_owned())
            }
            Order::Deactivate => {
                self.active = false;
                self.suspicion = Suspicion::default();
                self.form_opinion(None);
                Ok("the group is only served".to_owned())
            }
        };
        self.out.push(Action::Reply { order, result });
    }
}
