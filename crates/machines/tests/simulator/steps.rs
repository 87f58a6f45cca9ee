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
    pub fn arrive(&mut self, life: u32, mut step: StepAt) {
        let Some(server) = step.what.server().map(index) else {
            return;
        };
        let first = step.boot.is_none();
        let router = self.router_place();
        if let Ask::Fence { .. } = step.what
            && self.plan.fence
        {
            // The hook needs neither the server nor the network.
            self.kill(server, 300_000);
            return self.reply(life, &step, 15_000, Ok(Answer::Done));
        }
        if first && !self.reaches(router, server) {
            return;
        }
        match self.servers[server].state {
            State::Down => return self.fails(life, &step, Fault::Refused, "connection refused"),
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
            return self.fails(life, &step, Fault::Reset, "the connection broke");
        }
        // A router that died, or whose time is over, is not there to look again.
        if !first && (life != self.router.life || self.now_us > step.until_us) {
            return;
        }
        match self.take_effect(server, &step.what, first) {
            Look::Done => self.reply(life, &step, 0, Ok(Answer::Done)),
            Look::Heard => {
                let heard = self.heard(server);
                self.reply(life, &step, 0, Ok(Answer::Heard(heard)));
            }
            Look::NotYet if self.now_us + LOOK_AGAIN_US >= step.until_us => {
                self.fails(life, &step, Fault::Late, "not done in time");
            }
            Look::NotYet => self.after(LOOK_AGAIN_US, Happening::Arrive { life, step }),
        }
    }

    fn take_effect(&mut self, at: usize, what: &Ask, first: bool) -> Look {
        let planted = self.router.planted;
        match what {
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
                    let reign = self.new_reign();
                    let server = &mut self.servers[at];
                    server.reign = reign;
                    server.read_only = false;
                    server.ruled = true;
                    server.finished = server.log.len();
                }
                Look::Done
            }
            Ask::Follow { primary, .. } => self.follow(at, index(*primary), first),
            Ask::Pause { .. } => match self.router.in_flight.is_empty() {
                true => Look::Done,
                false => Look::NotYet,
            },
            Ask::Cut { .. } | Ask::Record(_) => Look::Done,
        }
    }

    fn reach(&mut self, at: usize, sequence: usize) -> Look {
        let reign = self.reign();
        let drains = !self.servers[at].receives && !self.servers[at].relay.is_empty();
        match self.router.planted.filter(|_| drains) {
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
        let by_applied = self.router.planted == Some(Planted::ByApplied);
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

    fn reply(&mut self, life: u32, step: &StepAt, us: u64, answer: Result<Answer, Failed>) {
        let server = step.what.server().map(index);
        let router = self.router_place();
        // The hook's answer comes by another way than the server's.
        let comes = match (&step.what, server) {
            (Ask::Fence { .. }, _) => true,
            (_, Some(server)) => self.reaches(server, router),
            _ => true,
        };
        if !comes || life != self.router.life {
            return;
        }
        let us = us + self.trip_us();
        let ask = step.ask;
        let answer = match answer {
            Ok(Answer::Heard(_)) if matches!(step.what, Ask::Fence { .. }) => Ok(Answer::Done),
            other => other,
        };
        self.after(us, Happening::Answer { life, ask, answer });
    }

    fn fails(&mut self, life: u32, step: &StepAt, fault: Fault, text: &str) {
        let deaf = self.router.planted == Some(Planted::Deaf);
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
        self.reply(life, step, 0, answer);
    }

    /// kill -9; started again after a while.
    pub fn kill(&mut self, at: usize, for_us: u64) {
        if self.servers[at].state == State::Down {
            return;
        }
        self.servers[at].kill();
        self.router.in_flight.retain(|(server, _)| *server != at);
        self.parked.retain(|(server, _)| *server != at);
        let boot = self.servers[at].boot;
        self.after(for_us, Happening::Restart { server: at, boot });
        let life = self.router.life;
        let router = self.router_place();
        if self.router.up && self.reaches(at, router) {
            let us = self.chance.between(500, 30_000);
            let event = Event::Failed {
                server: super::router::id(at),
                fault: Fault::Reset,
            };
            self.after(us, Happening::Heard { life, event });
        }
    }

    /// What the rejoin of a lost server does: cut what it has beyond the primary, or copy the primary.
    pub fn rejoin(&mut self, life: u32, at: usize) {
        if life != self.router.life || !self.router.up {
            return;
        }
        let router = self.router_place();
        let again = Happening::Rejoin { life, server: at };
        let changing = self.router.machine.is_changing();
        let primary = self
            .router
            .machine
            .primary()
            .map(index)
            .filter(|_| !changing);
        let Some(primary) = primary.filter(|p| self.router.primary == Some(*p)) else {
            return self.after(50_000, again);
        };
        if primary == at {
            return;
        }
        let follows = self.servers[at].source == Some(primary)
            && self.servers[at].receives
            && !self.servers[at].diverged;
        let faulty = self.router.statuses[at] == Status::Faulty;
        if follows && !faulty {
            return;
        }
        let ready = self.servers[at].state == State::Running
            && self.both_reach(at, router)
            && self.servers[primary].state == State::Running
            && !self.servers[primary].read_only
            && self.both_reach(at, primary);
        if !ready {
            return self.after(50_000, again);
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
        self.after(200, Happening::Fetch { replica: at });
        self.router.statuses[at] = Status::Replica;
        let members = self.router.members();
        self.tell_machine(Event::Members(members));
    }
}
