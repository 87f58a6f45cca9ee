//! How the machine's steps take effect on simulated servers, or do not.

use farm::Status;
use machines::failover::{Answer, Ask, Event, Failed, Fault, Heard};

use super::router::{Planted, index};
use super::servers::{State, position, sequence};
use super::world::{BEFORE_US, Happening, StepAt, World};

/// A step that is not done yet is looked at again after so long.
const LOOK_AGAIN_US: u64 = 1_000;

/// What a look at a step brought.
enum Look {
    Done,
    Heard,
    NotYet,
}

impl World {
    /// A step reaches its server, or is looked at again there.
    pub fn arrive(&mut self, mut step: StepAt) {
        let Some(server) = step.what.server().map(index) else {
            return;
        };
        let first = step.boot.is_none();
        if first && !step.held && self.is_several() && self.is_stalled(step.router) {
            step.held = true;
            if self.chance.permille(500) {
                let at_us = self.routers[step.router].stalled_until_us + 50;
                return self.at(at_us, Happening::Arrive { step });
            }
        }
        if step.held && !self.lives(step.life) {
            return;
        }
        let router = self.router_place(step.router);
        if let Ask::Fence { .. } = step.what
            && self.plan.fence
        {
            // The hook needs neither the server nor the network.
            self.kill(server, 300_000);
            return self.reply(&step, 15_000, Ok(Answer::Done));
        }
        if first && !self.reaches(router, server) {
            return;
        }
        match self.servers[server].state {
            State::Down => return self.fails(&step, Fault::Refused, "connection refused"),
            State::Stopped if matches!(step.what, Ask::Confirm { .. }) => return,
            State::Stopped => {
                // What lies in the socket may be carried out when the server goes on.
                if self.chance.permille(500) {
                    self.parked.push((server, step));
                }
                return;
            }
            State::Running => {}
        }
        let boot = *step.boot.get_or_insert(self.servers[server].boot);
        if boot != self.servers[server].boot {
            return self.fails(&step, Fault::Reset, "the connection broke");
        }
        // A router that died, or whose time is over, is not there to look again.
        if !first && (!self.lives(step.life) || self.now_us > step.until_us) {
            return;
        }
        if let Some(why) = self.deposed(server, &step) {
            return self.fails(&step, Fault::Said, &why);
        }
        match self.take_effect(server, &step, first) {
            Look::Done => self.reply(&step, 0, Ok(Answer::Done)),
            Look::Heard => {
                let heard = self.heard(server);
                self.reply(&step, 0, Ok(Answer::Heard(heard)));
            }
            Look::NotYet if self.now_us + LOOK_AGAIN_US >= step.until_us => {
                self.fails(&step, Fault::Late, "not done in time");
            }
            Look::NotYet => self.after(LOOK_AGAIN_US, Happening::Arrive { step }),
        }
    }

    /// Servers do nothing for a leadership that another one followed, and open only for the last one
    /// that they were told of.
    fn deposed(&mut self, at: usize, step: &StepAt) -> Option<String> {
        if !self.is_several() || matches!(self.planted, Some(Planted::NoTerms | Planted::NoLease)) {
            return None;
        }
        let (told, writable) = (self.servers[at].term, !self.servers[at].read_only);
        let refused = match step.what {
            Ask::Confirm { .. } | Ask::Look { .. } | Ask::Reach { .. } | Ask::Pause { .. } => false,
            // The statement says until when it holds.
            Ask::Open { .. } => (told != step.number || self.now_us > step.lease_us) && !writable,
            _ => told > step.number,
        };
        if refused {
            return Some(format!("it was told of leadership {told}"));
        }
        if !matches!(
            step.what,
            Ask::Confirm { .. }
                | Ask::Look { .. }
                | Ask::Reach { .. }
                | Ask::Pause { .. }
                | Ask::Open { .. }
        ) {
            self.servers[at].term = step.number;
        }
        None
    }

    fn take_effect(&mut self, at: usize, step: &StepAt, first: bool) -> Look {
        let planted = self.planted;
        match &step.what {
            Ask::Confirm { .. } => Look::Done,
            Ask::Look { .. } => Look::Heard,
            Ask::Halt { .. } => {
                if planted != Some(Planted::NoHalt) {
                    self.servers[at].receives = false;
                }
                Look::Heard
            }
            Ask::Fence { .. } | Ask::Close { .. } => {
                if !self.servers[at].waiting.is_empty() {
                    return Look::NotYet;
                }
                self.servers[at].read_only = true;
                Look::Heard
            }
            Ask::Reach { position, .. } => self.reach(at, sequence(position)),
            Ask::Lead { .. } => {
                let several = self.servers.len() > 1;
                let server = &mut self.servers[at];
                server.detach();
                server.finished = server.log.len();
                server.waits = several;
                Look::Done
            }
            Ask::Open { .. } => {
                if self.servers[at].read_only {
                    if step.number < self.opened {
                        let text = format!(
                            "s{at} is opened for leadership {}, after {}",
                            step.number, self.opened
                        );
                        self.ledger.violation(text);
                    }
                    self.opened = self.opened.max(step.number);
                    let reign = self.new_reign();
                    let server = &mut self.servers[at];
                    server.reign = reign;
                    server.read_only = false;
                    server.ruled = true;
                    server.finished = server.log.len();
                }
                Look::Done
            }
            Ask::Point { primary, .. } => {
                let reign = self.reign();
                let server = &mut self.servers[at];
                if server.source.is_some() {
                    server.follow(index(*primary), reign);
                    server.receives = false;
                }
                Look::Done
            }
            Ask::Follow { primary, .. } => self.follow(at, index(*primary), first),
            Ask::Pause { .. } => match self.routers[step.router].in_flight.is_empty() {
                true => Look::Done,
                false => Look::NotYet,
            },
            Ask::Cut { .. } | Ask::Record(_) => Look::Done,
        }
    }

    fn reach(&mut self, at: usize, sequence: usize) -> Look {
        let reign = self.reign();
        let drains = !self.servers[at].receives && !self.servers[at].relay.is_empty();
        match self.planted.filter(|_| drains) {
            Some(Planted::NoDrain) => return Look::Done,
            Some(Planted::EarlyAcks) => self.servers[at].waits = true,
            Some(Planted::EarlyFollow) => {
                for other in 0..self.servers.len() {
                    if other != at
                        && !self.servers[other].receives
                        && self.servers[other].state == State::Running
                        && !self.servers[other].ruled
                    {
                        self.servers[other].follow(at, reign);
                        self.after(300, Happening::Fetch { replica: other });
                    }
                }
            }
            _ => {}
        }
        match self.servers[at].log.len() >= sequence {
            true => Look::Done,
            false => Look::NotYet,
        }
    }

    fn follow(&mut self, at: usize, primary: usize, first: bool) -> Look {
        let reign = self.reign();
        let follows = self.servers[at].source == Some(primary) && self.servers[at].receives;
        if first && !follows {
            if !self.servers[at].waiting.is_empty() {
                let text = format!("s{at} is told to follow while commits wait there");
                self.ledger.violation(text);
            }
            self.servers[at].follow(primary, reign);
        }
        let source = &self.servers[primary];
        if source.state == State::Running && self.both_reach(at, primary) {
            self.after(1, Happening::Fetch { replica: at });
            return Look::Done;
        }
        Look::NotYet
    }

    fn heard(&self, at: usize) -> Heard {
        let server = &self.servers[at];
        let by_applied = self.planted == Some(Planted::ByApplied);
        let received = match server.source {
            Some(_) if !by_applied => server.received(),
            Some(_) => server.log.len(),
            None => 0,
        };
        Heard {
            executed: position(server.log.len()),
            received: position(received),
            read_only: server.read_only,
            applies: true,
            up_us: Some(self.now_us + BEFORE_US - server.started_us),
            frozen: false,
        }
    }

    fn reply(&mut self, step: &StepAt, us: u64, answer: Result<Answer, Failed>) {
        let server = step.what.server().map(index);
        let router = self.router_place(step.router);
        // The hook's answer comes by another way than the server's.
        let comes = match (&step.what, server) {
            (Ask::Fence { .. }, _) => true,
            (_, Some(server)) => self.reaches(server, router),
            _ => true,
        };
        if !comes || !self.lives(step.life) {
            return;
        }
        let us = us + self.trip_us();
        let (life, ask) = (step.life, step.ask);
        let answer = match answer {
            Ok(Answer::Heard(_)) if matches!(step.what, Ask::Fence { .. }) => Ok(Answer::Done),
            other => other,
        };
        self.after(us, Happening::Answer { life, ask, answer });
    }

    fn fails(&mut self, step: &StepAt, fault: Fault, text: &str) {
        let deaf = self.planted == Some(Planted::Deaf);
        let answer = match (&step.what, deaf) {
            (Ask::Halt { .. }, true) => Ok(Answer::Heard(Heard {
                executed: position(0),
                received: position(0),
                read_only: true,
                applies: true,
                up_us: None,
                frozen: false,
            })),
            _ => Err(Failed {
                fault,
                text: text.to_owned(),
            }),
        };
        self.reply(step, 0, answer);
    }

    /// kill -9; started again after a while.
    pub fn kill(&mut self, at: usize, for_us: u64) {
        if self.servers[at].state == State::Down {
            return;
        }
        self.servers[at].kill();
        for router in &mut self.routers {
            router.in_flight.retain(|(server, _)| *server != at);
        }
        self.parked.retain(|(server, _)| *server != at);
        let boot = self.servers[at].boot;
        self.after(for_us, Happening::Restart { server: at, boot });
        for router in 0..self.routers.len() {
            if self.routers[router].up && self.reaches(at, self.router_place(router)) {
                let life = self.routers[router].life;
                let us = self.chance.between(500, 30_000);
                let event = Event::Failed {
                    server: super::router::id(at),
                    fault: Fault::Reset,
                };
                self.after(us, Happening::Heard { life, event });
            }
        }
    }

    /// What the rejoin of a lost server does: cut what it has beyond the primary, or copy the primary.
    pub fn rejoin(&mut self, life: u32, at: usize) {
        let Some(r) = self.alive(life) else { return };
        let number = self.routers[r].part.leads.unwrap_or(0);
        if self.is_several() && (!self.may_act(r) || self.servers[at].term > number) {
            return;
        }
        let router = self.router_place(r);
        let again = Happening::Rejoin { life, server: at };
        let changing = self.routers[r].machine.is_changing();
        let primary = self.routers[r]
            .machine
            .primary()
            .map(index)
            .filter(|_| !changing);
        let Some(primary) = primary.filter(|p| self.routers[r].primary == Some(*p)) else {
            return self.after(50_000, again);
        };
        if primary == at {
            return;
        }
        let follows = self.servers[at].source == Some(primary)
            && self.servers[at].receives
            && !self.servers[at].diverged;
        let faulty = self.store.statuses[at] == Status::Faulty;
        if follows && !faulty {
            return;
        }
        let ready = self.servers[at].state == State::Running
            && self.both_reach(at, router)
            && self.servers[primary].state == State::Running
            && !self.servers[primary].read_only
            && self.both_reach(at, primary);
        let stored = !self.is_several() || self.reaches_store(r) && !self.is_stalled(r);
        if !ready || !stored || self.servers[primary].term > number {
            return self.after(50_000, again);
        }
        if self.is_several() && !self.set_status(at, Status::Replica, number) {
            return;
        }
        let source = self.servers[primary].log.clone();
        let reign = self.reign();
        let server = &mut self.servers[at];
        server.waiting.clear();
        server.relay.clear();
        let have = server.log.len();
        if have > source.len() || server.log[..] != source[..have] {
            server.log = source;
        }
        server.finished = server.log.len();
        server.ruled = false;
        server.follow(primary, reign);
        server.term = number;
        self.after(200, Happening::Fetch { replica: at });
        if self.is_several() {
            return;
        }
        self.store.statuses[at] = Status::Replica;
        let members = self.members();
        self.tell_machine(r, Event::Members(members));
    }
}
