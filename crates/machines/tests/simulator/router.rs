//! The router of a history: the real machine, and a driver that carries its actions out on the
//! simulated servers the way the control plane does on real ones.

use std::collections::BTreeSet;

use farm::{ServerId, Status};
use machines::failover::script::{Script, moment};
use machines::failover::{
    Action, Answer, Ask, AskId, Event, Failed, Failover, Fault, Member, Policy, Record, RouterId,
    Step,
};

use super::servers::{Txn, position};
use super::world::{Happening, StepAt, World};

/// Between two beats.
pub const BEAT_US: u64 = 25_000;
/// For the answer to one.
const BEAT_WITHIN_US: u64 = 100_000;

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
}

pub struct Router {
    pub life: u32,
    pub up: bool,
    pub stalled_until_us: u64,
    pub machine: Failover,
    pub open: BTreeSet<AskId>,
    /// What the state store holds.
    pub stored: Option<Record>,
    pub statuses: Vec<Status>,
    /// The primary that clients are sent to, and the number of the connections to each server.
    pub primary: Option<usize>,
    pub paused: bool,
    pub terms: Vec<u32>,
    pub in_flight: BTreeSet<(usize, Txn)>,
    /// So much was acknowledged to clients of this router's life, if it knows.
    pub acknowledged: Option<usize>,
    pub said: usize,
    pub wake_us: u64,
    pub planted: Option<Planted>,
    policy: Policy,
    reigns: u32,
    orders: u64,
    script: Script,
    pub log: Option<String>,
}

pub fn id(server: usize) -> ServerId {
    ServerId(server as u32 + 1)
}

pub fn index(server: ServerId) -> usize {
    server.0 as usize - 1
}

impl Router {
    pub fn new(servers: usize, policy: Policy, planted: Option<Planted>, trace: bool) -> Router {
        let mut statuses = vec![Status::Replica; servers];
        statuses[0] = Status::Primary;
        Router {
            life: 0,
            up: false,
            stalled_until_us: 0,
            machine: Failover::new(policy.clone(), true),
            open: BTreeSet::new(),
            stored: None,
            statuses,
            primary: None,
            paused: false,
            terms: vec![0; servers],
            in_flight: BTreeSet::new(),
            acknowledged: None,
            said: 0,
            wake_us: 0,
            planted,
            policy,
            reigns: 1,
            orders: 0,
            script: Script::default(),
            log: trace.then(String::new),
        }
    }

    pub fn members(&self) -> Vec<Member> {
        let members = self.statuses.iter().enumerate();
        members
            .map(|(at, status)| Member::new(id(at), &format!("s{at}"), *status))
            .collect()
    }

    pub fn note(&mut self, now_us: u64, text: &str) {
        if let Some(log) = &mut self.log {
            log.push_str(&format!("{:>9} {text}\n", moment(now_us)));
        }
    }
}

impl World {
    /// Gives the machine an event and carries out what it wants.
    pub fn tell_machine(&mut self, event: Event) {
        if !self.router.up {
            return;
        }
        if let Some(log) = &mut self.router.log {
            let text = self.router.script.event(&event);
            log.push_str(&format!("{:>9} {text}\n", moment(self.now_us)));
        }
        let actions = self.router.machine.step(self.now_us, event);
        for action in actions {
            if let Some(log) = &mut self.router.log {
                log.push_str(&format!(
                    "          -> {}\n",
                    self.router.script.action(&action)
                ));
            }
            self.carry_out(action);
        }
    }

    fn carry_out(&mut self, action: Action) {
        let life = self.router.life;
        match action {
            Action::Ask {
                ask,
                what,
                within_us,
            } => self.carry_out_ask(ask, what, within_us),
            Action::Publish { primary, .. } => {
                self.router.primary = primary.map(index);
                self.router.paused = false;
            }
            Action::Rejoin { server } => {
                let server = index(server);
                self.after(30_000, Happening::Rejoin { life, server });
            }
            Action::Wake { at_us } => {
                self.router.wake_us = at_us;
                self.at(at_us, Happening::Wake { life, at_us });
            }
            Action::Tell { .. } | Action::Reply { .. } | Action::Vote { .. } => {}
        }
    }

    fn carry_out_ask(&mut self, ask: AskId, what: Ask, within_us: u64) {
        let life = self.router.life;
        self.router.open.insert(ask);
        match &what {
            Ask::Record(record) => return self.store(ask, record.clone()),
            Ask::Cut { server } => {
                self.cut_off(index(*server));
                let us = self.chance.between(50, 2_000);
                let answer = Ok(Answer::Done);
                return self.after(us, Happening::Answer { life, ask, answer });
            }
            Ask::Pause { .. } => self.router.paused = true,
            _ => {}
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
            ask,
            what,
            until_us,
            boot: None,
        };
        let trip = self.trip_us();
        self.after(trip, Happening::Arrive { life, step });
    }

    fn store(&mut self, ask: AskId, record: Record) {
        let life = self.router.life;
        let us = match self.router.planted {
            Some(Planted::LateRecord) => {
                let answer = Ok(Answer::Done);
                self.after(10, Happening::Answer { life, ask, answer });
                400_000
            }
            _ => self.chance.between(200, 4_000),
        };
        let fails = self.router.planted.is_none() && self.chance.permille(5);
        let stored = match fails {
            true => None,
            false => Some(record),
        };
        self.after(us, Happening::Stored { life, ask, stored });
    }

    /// The state store has taken a record, or not.
    pub fn stored(&mut self, life: u32, ask: AskId, stored: Option<Record>) {
        if life != self.router.life || !self.router.up {
            return;
        }
        let number = self
            .router
            .stored
            .as_ref()
            .map_or(0, |record| record.number);
        let answer = match stored {
            Some(record) if record.number < number => Ok(Answer::Done),
            Some(record) => {
                if let Step::Over { primary } = &record.step {
                    let lost = &record.lost;
                    for (at, status) in self.router.statuses.iter_mut().enumerate() {
                        *status = match *status {
                            _ if *primary == Some(id(at)) => Status::Primary,
                            _ if lost.contains(&id(at)) => Status::Faulty,
                            Status::Primary => Status::Replica,
                            other => other,
                        };
                    }
                }
                self.router.stored = Some(record);
                Ok(Answer::Done)
            }
            None => Err(Failed {
                fault: Fault::Said,
                text: "the disk is full".to_owned(),
            }),
        };
        self.after(20, Happening::Answer { life, ask, answer });
    }

    /// Sessions lose their connections to this server and wait.
    fn cut_off(&mut self, server: usize) {
        self.router.terms[server] += 1;
        self.router.in_flight.retain(|(at, _)| *at != server);
        if self.router.primary == Some(server) {
            self.router.primary = None;
        }
    }

    pub fn answer(&mut self, life: u32, ask: AskId, answer: Result<Answer, Failed>) {
        if life == self.router.life && self.router.up && self.router.open.remove(&ask) {
            self.say_acknowledged();
            self.tell_machine(Event::Done { ask, answer });
        }
    }

    fn say_acknowledged(&mut self) {
        if let Some(acknowledged) = self.router.acknowledged
            && acknowledged > self.router.said
        {
            self.router.said = acknowledged;
            self.tell_machine(Event::Acknowledged {
                router: RouterId::OWN,
                position: position(acknowledged),
                cut: 0,
            });
        }
    }

    /// A new router takes up what the store holds.
    pub fn start_router(&mut self) {
        let router = &mut self.router;
        if router.up {
            return;
        }
        router.up = true;
        router.machine = Failover::new(router.policy.clone(), true);
        router.script = Script::default();
        router.open.clear();
        router.paused = false;
        router.said = 0;
        // Only the first one has seen everything from the beginning.
        router.acknowledged = (router.life == 1 && !self.plan.direct).then_some(0);
        let primary = router.statuses.iter().position(|s| *s == Status::Primary);
        let settled = router
            .stored
            .as_ref()
            .is_none_or(|record| matches!(record.step, Step::Over { .. } | Step::Switching { .. }));
        router.primary = primary.filter(|_| settled);
        let (members, stored) = (router.members(), router.stored.clone());
        let life = router.life;
        self.tell_machine(Event::Members(members));
        if let Some(record) = stored {
            self.tell_machine(Event::Resume(Some(record)));
        }
        self.after(BEAT_US, Happening::Beat { life });
        self.sweep();
    }

    /// Who does not follow the primary is brought back: lost ones, and those whose router died
    /// before it could do it.
    pub fn sweep(&mut self) {
        let life = self.router.life;
        for server in 0..self.servers.len() {
            self.after(60_000, Happening::Rejoin { life, server });
        }
    }

    pub fn stop_router(&mut self) {
        self.router.up = false;
        self.router.life += 1;
        self.router.in_flight.clear();
        for term in &mut self.router.terms {
            *term += 1;
        }
    }

    pub fn promote(&mut self, server: usize) {
        self.router.orders += 1;
        let what = machines::failover::Order::Promote {
            to: Some(id(server)),
        };
        let order = self.router.orders;
        self.tell_machine(Event::Order { order, what });
    }

    /// The youngest reign.
    pub fn reign(&self) -> u32 {
        self.router.reigns
    }

    pub fn new_reign(&mut self) -> u32 {
        self.router.reigns += 1;
        self.router.reigns
    }

    /// One round of beats.
    pub fn beat(&mut self, life: u32) {
        if life != self.router.life || !self.router.up {
            return;
        }
        self.after(BEAT_US, Happening::Beat { life });
        self.say_acknowledged();
        let changing = self.router.machine.is_changing();
        let primary = self.router.machine.primary().map(index);
        let mut silent = false;
        for server in 0..self.servers.len() {
            if changing || primary == Some(server) {
                silent |= self.beat_one(life, server);
            }
        }
        if silent || self.chance.pick(4) == 0 {
            self.ask_replicas(life);
        }
    }

    /// One beat of one server; true when it will get no answer.
    fn beat_one(&mut self, life: u32, server: usize) -> bool {
        use super::servers::State;
        let (place, state) = (self.router_place(), self.servers[server].state);
        let read_only = self.servers[server].read_only;
        let server_id = id(server);
        let trip = self.trip_us();
        let reached = self.both_reach(server, place);
        let (us, event) = match state {
            State::Running if reached => (
                trip,
                Event::Beat {
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
                    BEAT_WITHIN_US,
                    Event::Failed {
                        server: server_id,
                        fault,
                    },
                )
            }
        };
        let silent = us == BEAT_WITHIN_US;
        self.after(us, Happening::Heard { life, event });
        silent
    }

    /// What the replicas see of their primary.
    fn ask_replicas(&mut self, life: u32) {
        use super::servers::State;
        let place = self.router_place();
        for replica in 0..self.servers.len() {
            let Some(source) = self.servers[replica].source else {
                continue;
            };
            if self.router.primary != Some(source) || self.servers[replica].diverged {
                continue;
            }
            let beats = self.servers[source].state == State::Running
                && self.reaches(source, replica)
                && self.servers[replica].receives;
            if self.servers[replica].state != State::Running || !self.both_reach(replica, place) {
                continue;
            }
            if beats {
                self.servers[replica].heard_us = self.now_us;
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
