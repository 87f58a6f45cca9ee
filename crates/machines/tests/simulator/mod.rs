//! A farm that exists in memory only: servers, network, clients and a router with the real machine,
//! all driven by one seed. Time jumps from happening to happening.

pub mod chance;
pub mod check;
pub mod router;
pub mod servers;
pub mod steps;
pub mod world;

use machines::failover::{Event, Policy};

use chance::{Chance, Nemesis, Plan};
use router::{Planted, Router};
use servers::State;
use world::{CLIENTS, Happening, World};

/// Until when all must be well again after the last fault was mended.
const WELL_WITHIN_US: u64 = 20_000_000;

/// How a history ended.
pub struct Outcome {
    pub violations: Vec<String>,
    /// What happened, in the form of the golden scenarios; empty without `trace`.
    pub log: String,
    pub happenings: u64,
}

/// Plays the history of a seed.
pub fn play(seed: u64, planted: Option<Planted>, trace: bool) -> Outcome {
    let mut chance = Chance::new(seed);
    let plan = Plan::of(&mut chance);
    let policy = Policy {
        fence: plan.fence,
        veto_max_us: Some(plan.veto_max_us),
        step_within_us: 1_000_000,
        ..Policy::default()
    };
    let router = Router::new(plan.servers, policy, planted, trace);
    let mut world = World::new(chance, plan, router);
    world.stop_router();
    world.start_router();
    let until_us = world.plan.calm_us + WELL_WITHIN_US;
    let mut happenings = 0;
    while let Some(happening) = world.next(until_us) {
        happenings += 1;
        world.happens(happening);
        if world.is_well() || !world.ledger.violations.is_empty() {
            break;
        }
    }
    if !world.is_well() && world.ledger.violations.is_empty() {
        let states: Vec<String> = world.servers.iter().map(|s| format!("{s:?}")).collect();
        let text = format!("not well again: {}", states.join("\n"));
        world.ledger.violation(text);
    }
    let primary = world.router.primary;
    world.ledger.judge(&world.servers, primary);
    Outcome {
        violations: world.ledger.violations,
        log: world.router.log.unwrap_or_default(),
        happenings,
    }
}

impl World {
    fn happens(&mut self, happening: Happening) {
        let Some(happening) = self.happen(happening) else {
            return;
        };
        match happening {
            Happening::Nemesis(nemesis) => self.strike(nemesis),
            Happening::RouterStarts => self.start_router(),
            Happening::Write { client } => self.client_writes(client),
            Happening::Told {
                client,
                txn,
                server,
                sequence,
                term,
            } => self.told(client, txn, server, sequence, term),
            Happening::Beat { life } => self.beat(life),
            Happening::Heard { life, event } => self.machine_hears(life, event),
            Happening::Wake { life, at_us } if self.router.wake_us == at_us => {
                self.machine_hears(life, Event::Tick);
            }
            Happening::Arrive { life, step } => self.arrive(life, step),
            Happening::Answer { life, ask, answer } => {
                if self.now_us < self.router.stalled_until_us {
                    let at_us = self.router.stalled_until_us;
                    return self.at(at_us, Happening::Answer { life, ask, answer });
                }
                self.answer(life, ask, answer);
            }
            Happening::Stored { life, ask, stored } => self.stored(life, ask, stored),
            Happening::Rejoin { life, server } => self.rejoin(life, server),
            Happening::Calm => self.grow_calm(),
            _ => {}
        }
    }

    fn machine_hears(&mut self, life: u32, event: Event) {
        if self.now_us < self.router.stalled_until_us {
            let at_us = self.router.stalled_until_us;
            return self.at(at_us, Happening::Heard { life, event });
        }
        if life == self.router.life {
            self.tell_machine(event);
        }
    }

    fn strike(&mut self, nemesis: Nemesis) {
        self.router.note(self.now_us, &format!("# {nemesis:?}"));
        match nemesis {
            Nemesis::Kill { server, for_us } => self.kill(server, for_us),
            Nemesis::Stop { server, for_us } => {
                if self.servers[server].state == State::Running {
                    self.servers[server].state = State::Stopped;
                    let boot = self.servers[server].boot;
                    self.after(for_us, Happening::Continue { server, boot });
                }
            }
            Nemesis::Cut {
                from,
                to,
                both,
                for_us,
            } => {
                self.cut[from][to] += 1;
                if both {
                    self.cut[to][from] += 1;
                }
                self.after(for_us, Happening::Mend { from, to, both });
            }
            Nemesis::RouterDies { for_us } => {
                self.stop_router();
                self.after(for_us, Happening::RouterStarts);
            }
            Nemesis::RouterStalls { for_us } => {
                self.router.stalled_until_us = self.now_us + for_us;
                let (life, us) = (self.router.life, for_us);
                let event = Event::Stalled { us };
                self.at(
                    self.router.stalled_until_us,
                    Happening::Heard { life, event },
                );
            }
            Nemesis::Promote { server } => self.promote(server),
            Nemesis::Lag { server, apply_us } => self.servers[server].apply_us = apply_us,
        }
    }

    fn client_writes(&mut self, client: usize) {
        let us = self.chance.between(2_000, 15_000);
        self.after(us, Happening::Write { client });
        if client >= CLIENTS {
            let server = self.chance.pick(self.servers.len());
            let txn = self.ledger.new_txn();
            self.write(server, client, txn, None);
            return;
        }
        let router = self.router_place();
        let stalled = self.now_us < self.router.stalled_until_us;
        if !self.router.up || self.router.paused || stalled {
            return;
        }
        if let Some(server) = self.router.primary
            && self.both_reach(server, router)
        {
            let (txn, term) = (self.ledger.new_txn(), self.router.terms[server]);
            if self.write(server, client, txn, Some(term)) {
                self.router.in_flight.insert((server, txn));
            }
        }
    }

    fn told(&mut self, client: usize, txn: u32, server: usize, sequence: usize, term: Option<u32>) {
        match term {
            None => self.ledger.told(txn, self.now_us),
            Some(_) if !self.reaches(server, self.router_place()) => {
                let told = Happening::Told {
                    client,
                    txn,
                    server,
                    sequence,
                    term,
                };
                self.after(10_000, told);
            }
            Some(term) if self.router.up && self.router.terms[server] == term => {
                self.router.in_flight.remove(&(server, txn));
                self.ledger.told(txn, self.now_us);
                if let Some(known) = &mut self.router.acknowledged {
                    *known = sequence.max(*known);
                }
            }
            Some(_) => {}
        }
    }

    /// Everything is mended; now all must become well.
    fn grow_calm(&mut self) {
        self.router.note(self.now_us, "# all is mended");
        self.calm = true;
        for row in &mut self.cut {
            row.fill(0);
        }
        for server in 0..self.servers.len() {
            self.servers[server].apply_us = 200;
            let boot = self.servers[server].boot;
            match self.servers[server].state {
                State::Down => self.after(20_000, Happening::Restart { server, boot }),
                State::Stopped => self.after(20_000, Happening::Continue { server, boot }),
                State::Running => self.reconnect(server),
            }
        }
        self.after(50_000, Happening::RouterStarts);
        self.sweep();
    }

    /// One primary that acknowledges, and everybody follows it.
    fn is_well(&self) -> bool {
        let Some(primary) = self.router.primary.filter(|_| self.calm) else {
            return false;
        };
        self.servers.iter().enumerate().all(|(at, server)| {
            let follows = server.source == Some(primary) && server.receives && !server.diverged;
            server.state == State::Running && (at == primary || follows)
        }) && !self.router.machine.is_changing()
            && !self.router.paused
            && self.ledger.told_since(self.plan.calm_us + 100_000) > 0
    }
}
