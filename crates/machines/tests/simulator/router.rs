//! The router of a history: the real machine, and a driver that carries its actions out on the
//! simulated servers the way the control plane does on real ones.

use std::collections::BTreeSet;

use farm::{ServerId, Status};
use machines::failover::script::{Script, moment};
use machines::failover::{
    Action, Answer, Ask, AskId, Event, Failed, Failover, Fault, Member, Policy, Record, RouterId,
    Step,
};

use super::chance::{Nemesis, Pause};
use super::peers::Part;
use super::servers::{State, Txn, position};
use super::store::Request;
use super::world::{Happening, StepAt, World};

/// Between two heartbeats.
pub const HEARTBEAT_US: u64 = 25_000;
/// For the answer to one.
const HEARTBEAT_WITHIN_US: u64 = 100_000;

/// Faults that are planted to see whether the histories find them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Promotes without waiting until the relay log is applied.
    NoDrain,
    /// Chooses by what was applied instead of what was received.
    ByApplied,
    /// Points the others at the winner before it has drained.
    EarlyFollow,
    /// Takes a replica that cannot be heard for one that has nothing.
    Deaf,
    /// Records after the step instead of before it.
    LateRecord,
    /// Switches the wait for acknowledgements on before the winner has drained.
    EarlyAcks,
    /// Lets replicas go on receiving while their primary is replaced.
    NoHalt,
    /// Of several routers: all act, whoever leads.
    AllAct,
    /// Servers do as a router says that was replaced as the leader.
    NoTerms,
    /// So they do, and it does not look at its clock either.
    NoLease,
    /// So does the state store.
    Unfenced,
    /// A router says that it has cut a primary off before it does.
    LateCut,
    /// A router whose lease is over is taken for dead.
    NoExpiredRouters,
    /// A new leader does not ask what its predecessor recorded.
    NoResume,
}

pub struct Router {
    /// No two lives in a history have one number; 0 before the first.
    pub life: u32,
    pub up: bool,
    pub stalled_until_us: u64,
    pub machine: Failover,
    pub open: BTreeSet<AskId>,
    /// The primary that clients are sent to, and the number of the connections to each server.
    pub primary: Option<usize>,
    pub paused: bool,
    pub terms: Vec<u32>,
    pub in_flight: BTreeSet<(usize, Txn)>,
    /// So much was acknowledged to clients of this router's life, if it knows.
    pub acknowledged: Option<usize>,
    pub said: usize,
    pub wake_us: u64,
    pub part: Part,
    policy: Policy,
    orders: u64,
    script: Script,
}

pub fn id(server: usize) -> ServerId {
    ServerId(server as u32 + 1)
}

pub fn index(server: ServerId) -> usize {
    server.0 as usize - 1
}

impl Router {
    pub fn new(servers: usize, policy: Policy) -> Router {
        Router {
            life: 0,
            up: false,
            stalled_until_us: 0,
            machine: Failover::new(policy.clone(), true),
            open: BTreeSet::new(),
            primary: None,
            paused: false,
            terms: vec![0; servers],
            in_flight: BTreeSet::new(),
            acknowledged: None,
            said: 0,
            wake_us: 0,
            part: Part::default(),
            policy,
            orders: 0,
            script: Script::default(),
        }
    }
}

impl World {
    /// The router that lives this life, if it still does.
    pub fn alive(&self, life: u32) -> Option<usize> {
        let mut routers = self.routers.iter();
        routers.position(|router| router.up && router.life == life)
    }

    pub fn lives(&self, life: u32) -> bool {
        self.alive(life).is_some()
    }

    pub fn is_stalled(&self, r: usize) -> bool {
        self.now_us < self.routers[r].stalled_until_us
    }

    pub fn members(&self) -> Vec<Member> {
        self.members_with(&self.store.statuses)
    }

    pub fn members_with(&self, statuses: &[Status]) -> Vec<Member> {
        let members = statuses.iter().enumerate();
        members
            .map(|(at, status)| Member::new(id(at), &format!("s{at}"), *status))
            .collect()
    }

    pub fn note(&mut self, text: &str) {
        if let Some(log) = &mut self.log {
            log.push_str(&format!("{:>9} {text}\n", moment(self.now_us)));
        }
    }

    /// Of several the router's name stands before what concerns it.
    fn note_of(&mut self, r: usize, text: &str) {
        match self.is_several() {
            true => self.note(&format!("R{r} {text}")),
            false => self.note(text),
        }
    }

    /// Gives the machine an event and carries out what it wants.
    pub fn tell_machine(&mut self, r: usize, event: Event) {
        if !self.routers[r].up {
            return;
        }
        if self.log.is_some() {
            let text = self.routers[r].script.event(&event);
            self.note_of(r, &text);
        }
        let actions = self.routers[r].machine.step(self.now_us, event);
        for action in actions {
            if let Some(log) = &mut self.log {
                let text = self.routers[r].script.action(&action);
                log.push_str(&format!("          -> {text}\n"));
            }
            self.carry_out(r, action);
        }
    }

    fn carry_out(&mut self, r: usize, action: Action) {
        let life = self.routers[r].life;
        match action {
            Action::Ask {
                ask,
                what,
                within_us,
            } => self.carry_out_ask(r, ask, what, within_us),
            Action::Publish { primary, .. } => {
                self.acts(r, "publishes");
                self.routers[r].primary = primary.map(index);
                self.routers[r].paused = false;
            }
            Action::Rejoin { server } => {
                let server = index(server);
                self.after(30_000, Happening::Rejoin { life, server });
            }
            Action::Wake { at_us } => {
                self.routers[r].wake_us = at_us;
                self.at(at_us, Happening::Wake { life, at_us });
            }
            Action::Vote { lost } => {
                if let Some(id) = self.routers[r].part.id {
                    self.request(r, Request::Vote { id, lost });
                }
            }
            Action::Tell { .. } | Action::Reply { .. } => {}
        }
    }

    /// Only a leader acts.
    fn acts(&mut self, r: usize, what: &str) {
        if self.is_several() && self.routers[r].part.leads.is_none() {
            self.ledger
                .violation(format!("R{r} {what}, but does not lead"));
        }
    }

    fn carry_out_ask(&mut self, r: usize, ask: AskId, what: Ask, within_us: u64) {
        let life = self.routers[r].life;
        self.routers[r].open.insert(ask);
        if !matches!(what, Ask::Confirm { .. }) {
            self.acts(r, "asks for something");
        }
        match &what {
            Ask::Record(record) => return self.store_record(r, ask, record.clone(), within_us),
            Ask::Cut { server } => {
                match self.is_several() {
                    true => self.cut_off_all(r, Some(index(*server))),
                    false => self.cut_off(r, index(*server)),
                }
                let us = self.chance.between(50, 2_000);
                let answer = Ok(Answer::Done);
                return self.after(us, Happening::Answer { life, ask, answer });
            }
            Ask::Pause { .. } => self.routers[r].paused = true,
            _ => {}
        }
        let changes = !matches!(what, Ask::Confirm { .. });
        let late = changes && !self.may_act(r);
        if late {
            let answer = Err(Failed {
                fault: Fault::Said,
                text: "the lease is over".to_owned(),
            });
            return self.after(10, Happening::Answer { life, ask, answer });
        }
        if changes {
            self.pause(r, what.server());
        }
        let until_us = self.now_us + within_us;
        let silent = Err(Failed {
            fault: Fault::Silent,
            text: "no answer in time".to_owned(),
        });
        let over = Happening::Answer {
            life,
            ask,
            answer: silent,
        };
        self.at(until_us, over);
        let step = StepAt {
            router: r,
            life,
            number: self.routers[r].part.leads.unwrap_or(0),
            lease_us: self.routers[r].part.until_us,
            ask,
            what,
            until_us,
            boot: None,
            held: false,
        };
        let trip = self.trip_us();
        self.after(trip, Happening::Arrive { step });
    }

    /// Between a router's last look at its lease and what it sends then.
    fn pause(&mut self, r: usize, server: Option<ServerId>) {
        self.steps += 1;
        let due = |pause: &mut Pause| pause.step == self.steps && !self.calm;
        let Some(pause) = self.plan.pause.take_if(due) else {
            return;
        };
        self.note_of(r, &format!("# {pause:?}"));
        self.stall(r, pause.for_us);
        let Some(server) = server.map(index).filter(|_| pause.apart) else {
            return;
        };
        for other in (0..self.routers.len()).filter(|other| *other != r) {
            let place = self.router_place(other);
            let for_us = pause.for_us;
            self.strike(Nemesis::Cut {
                from: place,
                to: server,
                both: true,
                for_us,
            });
        }
    }

    fn store_record(&mut self, r: usize, ask: AskId, record: Record, within_us: u64) {
        let life = self.routers[r].life;
        if self.is_several() {
            let number = self.routers[r].part.leads.unwrap_or(0);
            let what = Request::Record {
                number,
                ask,
                record,
            };
            self.pause(r, None);
            self.request(r, what);
            let answer = Err(Failed {
                fault: Fault::Late,
                text: "the state store does not answer".to_owned(),
            });
            return self.after(within_us, Happening::Answer { life, ask, answer });
        }
        let us = match self.planted {
            Some(Planted::LateRecord) => {
                let answer = Ok(Answer::Done);
                self.after(10, Happening::Answer { life, ask, answer });
                400_000
            }
            _ => self.chance.between(200, 4_000),
        };
        let fails = self.planted.is_none() && self.chance.permille(5);
        let stored = match fails {
            true => None,
            false => Some(record),
        };
        self.after(us, Happening::Stored { life, ask, stored });
    }

    /// The router's own state store has taken a record, or not.
    pub fn stored(&mut self, life: u32, ask: AskId, stored: Option<Record>) {
        if !self.lives(life) {
            return;
        }
        let number = self.store.record.as_ref().map_or(0, |record| record.number);
        let answer = match stored {
            Some(record) if record.number < number => Ok(Answer::Done),
            Some(record) => {
                self.store.take(record);
                Ok(Answer::Done)
            }
            None => Err(Failed {
                fault: Fault::Said,
                text: "the disk is full".to_owned(),
            }),
        };
        self.after(20, Happening::Answer { life, ask, answer });
    }

    /// The store of several answers.
    pub fn answer_record(&mut self, r: usize, ask: AskId, done: bool) {
        let answer = match done {
            true => Ok(Answer::Done),
            false => Err(Failed {
                fault: Fault::Said,
                text: "another router leads".to_owned(),
            }),
        };
        self.answer(self.routers[r].life, ask, answer);
    }

    /// Sessions lose their connections to this server and wait.
    pub fn cut_off(&mut self, r: usize, server: usize) {
        let router = &mut self.routers[r];
        router.terms[server] += 1;
        router.in_flight.retain(|(at, _)| *at != server);
        if router.primary == Some(server) {
            router.primary = None;
        }
    }

    pub fn answer(&mut self, life: u32, ask: AskId, answer: Result<Answer, Failed>) {
        if let Some(r) = self.alive(life)
            && self.routers[r].open.remove(&ask)
        {
            self.say_acknowledged(r);
            self.tell_machine(r, Event::Done { ask, answer });
        }
    }

    fn say_acknowledged(&mut self, r: usize) {
        if let Some(acknowledged) = self.routers[r].acknowledged
            && acknowledged > self.routers[r].said
        {
            self.routers[r].said = acknowledged;
            let event = Event::Acknowledged {
                router: RouterId::OWN,
                position: position(acknowledged),
                cut: 0,
            };
            self.tell_machine(r, event);
        }
    }

    /// A new router takes up what the store holds.
    pub fn start_router(&mut self, r: usize) {
        if self.routers[r].up {
            return;
        }
        self.lives += 1;
        let (first, several) = (self.lives == 1, self.is_several());
        let router = &mut self.routers[r];
        router.life = self.lives;
        router.up = true;
        router.machine = match several {
            true => Failover::among_peers(router.policy.clone(), true),
            false => Failover::new(router.policy.clone(), true),
        };
        router.script = Script::default();
        router.part = Part::default();
        router.open.clear();
        router.paused = false;
        router.said = 0;
        let life = router.life;
        self.after(HEARTBEAT_US, Happening::Heartbeat { life });
        if several {
            // Nobody is served before it is known who leads.
            router_waits(&mut self.routers[r], self.plan.direct);
            return self.tend(r);
        }
        // Only the first one has seen everything from the beginning.
        self.routers[r].acknowledged = (first && !self.plan.direct).then_some(0);
        let statuses = &self.store.statuses;
        let primary = statuses.iter().position(|s| *s == Status::Primary);
        let stored = self.store.record.clone();
        let settled = stored
            .as_ref()
            .is_none_or(|record| matches!(record.step, Step::Over { .. } | Step::Switching { .. }));
        self.routers[r].primary = primary.filter(|_| settled);
        let members = self.members();
        self.tell_machine(r, Event::Members(members));
        if stored.is_some() {
            self.tell_machine(r, Event::Resume(stored));
        }
        self.sweep(r);
    }

    /// Who does not follow the primary is brought back: lost ones, and those whose router died
    /// before it could do it.
    pub fn sweep(&mut self, r: usize) {
        let life = self.routers[r].life;
        for server in 0..self.servers.len() {
            self.after(60_000, Happening::Rejoin { life, server });
        }
    }

    pub fn stop_router(&mut self, r: usize) {
        let router = &mut self.routers[r];
        router.up = false;
        router.in_flight.clear();
        for term in &mut router.terms {
            *term += 1;
        }
    }

    pub fn promote(&mut self, r: usize, server: usize) {
        self.routers[r].orders += 1;
        let what = machines::failover::Order::Promote {
            to: Some(id(server)),
        };
        let order = self.routers[r].orders;
        self.tell_machine(r, Event::Order { order, what });
    }

    /// The youngest reign.
    pub fn reign(&self) -> u32 {
        self.reigns
    }

    pub fn new_reign(&mut self) -> u32 {
        self.reigns += 1;
        self.reigns
    }

    /// One round of heartbeats.
    pub fn heartbeat(&mut self, life: u32) {
        let Some(r) = self.alive(life) else { return };
        self.after(HEARTBEAT_US, Happening::Heartbeat { life });
        self.tend(r);
        self.say_acknowledged(r);
        let changing = self.routers[r].machine.is_changing();
        let primary = self.routers[r].machine.primary().map(index);
        let mut silent = false;
        for server in 0..self.servers.len() {
            if changing || primary == Some(server) {
                silent |= self.heartbeat_one(r, server);
            }
        }
        if silent || self.chance.pick(4) == 0 {
            self.ask_replicas(r, silent);
        }
    }

    /// One heartbeat of one server; true when it will get no answer.
    fn heartbeat_one(&mut self, r: usize, server: usize) -> bool {
        let life = self.routers[r].life;
        let (place, state) = (self.router_place(r), self.servers[server].state);
        let read_only = self.servers[server].read_only;
        let server_id = id(server);
        let trip = self.trip_us();
        let reached = self.both_reach(server, place);
        let (us, event) = match state {
            State::Running if reached => (
                trip,
                Event::Heartbeat {
                    server: server_id,
                    read_only,
                },
            ),
            State::Down if reached => {
                let fault = Fault::Refused;
                (
                    trip,
                    Event::Failed {
                        server: server_id,
                        fault,
                    },
                )
            }
            _ => {
                let fault = Fault::Silent;
                (
                    HEARTBEAT_WITHIN_US,
                    Event::Failed {
                        server: server_id,
                        fault,
                    },
                )
            }
        };
        let silent = us == HEARTBEAT_WITHIN_US;
        self.after(us, Happening::Heard { life, event });
        silent
    }

    /// What the replicas see of their primary.
    fn ask_replicas(&mut self, r: usize, doubt: bool) {
        let life = self.routers[r].life;
        let place = self.router_place(r);
        for replica in 0..self.servers.len() {
            let Some(source) = self.servers[replica].source else {
                continue;
            };
            let believed = match self.is_several() {
                true => self.routers[r].machine.primary().map(index),
                false => self.routers[r].primary,
            };
            if believed != Some(source) || self.servers[replica].diverged {
                continue;
            }
            let heartbeats = self.servers[source].state == State::Running
                && self.reaches(source, replica)
                && self.servers[replica].receives;
            if self.servers[replica].state != State::Running || !self.both_reach(replica, place) {
                continue;
            }
            if heartbeats {
                self.servers[replica].heard_us = self.now_us;
            } else if self.is_several() && doubt {
                let replica = id(replica);
                let trip = self.trip_us();
                let event = Event::Disconnected { replica };
                self.after(trip, Happening::Heard { life, event });
            }
            let event = Event::View {
                replica: id(replica),
                heard_us: self.servers[replica].heard_us,
            };
            let trip = self.trip_us();
            self.after(trip, Happening::Heard { life, event });
        }
    }
}

/// A router of several that has just started knows nothing yet.
fn router_waits(router: &mut Router, direct: bool) {
    router.primary = None;
    router.acknowledged = (!direct).then_some(0);
}
