//! A farm that exists in memory only: servers, network, clients and a router with the real machine,
//! all driven by one seed. Time jumps from happening to happening.

pub mod chance;
pub mod check;
pub mod peers;
pub mod router;
pub mod servers;
pub mod steps;
pub mod store;
pub mod world;

use machines::failover::{Event, Policy};

use chance::{Chance, Nemesis, Plan};
use router::{Planted, Router};
use servers::State;
use world::{Happening, World};

/// Until when all must be well again after the last fault was mended.
const WELL_WITHIN_US: u64 = 20_000_000;

/// How a history ended.
pub struct Outcome {
    pub violations: Vec<String>,
    /// What happened, in the form of the golden scenarios; empty without `trace`.
    pub log: String,
    pub happenings: u64,
}

/// What kind of history a seed makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Farm {
    OneRouter,
    Routers,
    /// Several routers, and the replica that has everything is the one that the leader cannot hear.
    NarrowMiss,
}

/// Plays the history of a seed.
pub fn play(seed: u64, farm: Farm, planted: Option<Planted>, trace: bool) -> Outcome {
    let mut chance = Chance::new(seed);
    let plan = match farm {
        Farm::OneRouter => Plan::of(&mut chance),
        Farm::Routers => Plan::of_several(&mut chance),
        Farm::NarrowMiss => Plan::of_a_narrow_miss(&mut chance),
    };
    let policy = Policy {
        fence: plan.fence,
        veto_max_us: Some(plan.veto_max_us),
        step_within_us: 1_000_000,
        ..Policy::default()
    };
    let router = |_| Router::new(plan.servers, policy.clone());
    let routers: Vec<Router> = (0..plan.routers).map(router).collect();
    let mut world = World::new(chance, plan, routers);
    world.planted = planted;
    world.log = trace.then(String::new);
    for router in 0..world.routers.len() {
        world.stop_router(router);
        world.start_router(router);
    }
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
        let text = world.state();
        world.ledger.violation(text);
    }
    let primary = world.routers[0].primary;
    world.ledger.judge(&world.servers, primary);
    Outcome {
        violations: world.ledger.violations,
        log: world.log.unwrap_or_default(),
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
            Happening::RouterStarts { router } => self.start_router(router),
            Happening::Write { client } => self.client_writes(client),
            Happening::Told {
                client,
                txn,
                server,
                sequence,
                term,
            } => self.told(client, txn, server, sequence, term),
            Happening::Heartbeat { life } => self.heartbeat(life),
            Happening::Heard { life, event } => self.machine_hears(life, event),
            Happening::Wake { life, at_us } => {
                let router = self.alive(life);
                if router.is_some_and(|r| self.routers[r].wake_us == at_us) {
                    self.machine_hears(life, Event::Tick);
                }
            }
            Happening::Arrive { step } => self.arrive(step),
            Happening::Answer { life, ask, answer } => match self.alive(life) {
                Some(r) if self.is_stalled(r) => {
                    let at_us = self.routers[r].stalled_until_us;
                    self.at(at_us, Happening::Answer { life, ask, answer });
                }
                _ => self.answer(life, ask, answer),
            },
            Happening::Stored { life, ask, stored } => self.stored(life, ask, stored),
            Happening::Rejoin { life, server } => self.rejoin(life, server),
            Happening::Calm => self.grow_calm(),
            Happening::Watch { life } => self.watch(life),
            Happening::Request(request) => self.requested(request),
            Happening::Response {
                life,
                sent_us,
                response,
            } => self.responded(life, sent_us, response),
            Happening::LeaseEnds { id } => self.lease_ends(id),
            Happening::StoreUp => self.store.down = self.store.down.saturating_sub(1),
            Happening::LateCut { life, number, old } => self.cut_late(life, number, old),
            _ => {}
        }
    }

    fn machine_hears(&mut self, life: u32, event: Event) {
        let Some(r) = self.alive(life) else { return };
        if self.is_stalled(r) {
            let at_us = self.routers[r].stalled_until_us;
            return self.at(at_us, Happening::Heard { life, event });
        }
        self.tell_machine(r, event);
    }

    pub fn strike(&mut self, nemesis: Nemesis) {
        self.note(&format!("# {nemesis:?}"));
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
                let (from, to) = (self.place(from), self.place(to));
                self.cut[from][to] += 1;
                if both {
                    self.cut[to][from] += 1;
                }
                self.after(for_us, Happening::Mend { from, to, both });
            }
            Nemesis::RouterDies { router, for_us } => {
                let router = self.whom(router);
                self.stop_router(router);
                self.after(for_us, Happening::RouterStarts { router });
            }
            Nemesis::RouterStalls { router, for_us } => {
                let router = self.whom(router);
                self.stall(router, for_us);
            }
            Nemesis::StoreDown { for_us } => {
                self.store.down += 1;
                self.after(for_us, Happening::StoreUp);
            }
            Nemesis::Promote { server } => {
                let router = self.whom(self.routers.len());
                self.promote(router, server);
            }
            Nemesis::Lag { server, apply_us } => self.servers[server].apply_us = apply_us,
        }
    }

    /// Behind the last place stands the leader's.
    fn place(&self, place: usize) -> usize {
        match place > self.store_place() {
            true => self.router_place(self.whom(self.routers.len())),
            false => place,
        }
    }

    pub fn stall(&mut self, router: usize, us: u64) {
        let until_us = self.now_us + us;
        self.routers[router].stalled_until_us = until_us;
        let life = self.routers[router].life;
        let event = Event::Stalled { us };
        self.at(until_us, Happening::Heard { life, event });
    }

    /// What is not well, for people.
    fn state(&self) -> String {
        let mut text = "not well again".to_owned();
        for (at, server) in self.servers.iter().enumerate() {
            text.push_str(&format!(
                "\ns{at}: {:?}, read-only {}, follows {:?}, receives {}, diverged {}, waits {}, log {}, relay {}, {:?}",
                server.state,
                server.read_only,
                server.source,
                server.receives,
                server.diverged,
                server.waits,
                server.log.len(),
                server.relay.len(),
                self.store.statuses[at],
            ));
        }
        for (at, router) in self.routers.iter().enumerate() {
            text.push_str(&format!(
                "\nR{at}: up {}, primary {:?}, paused {}, changing {:?}, {:?}",
                router.up,
                router.primary,
                router.paused,
                router.machine.cause(),
                router.part,
            ));
        }
        text
    }

    /// A router by its number; one more than there are is the leader.
    fn whom(&self, router: usize) -> usize {
        let leads = |router: &Router| router.up && router.part.leads.is_some();
        match self.routers.get(router) {
            Some(_) => router,
            None => self.routers.iter().position(leads).unwrap_or(0),
        }
    }

    fn client_writes(&mut self, client: usize) {
        let us = self.chance.between(2_000, 15_000);
        self.after(us, Happening::Write { client });
        if client >= self.clients() {
            let server = self.chance.pick(self.servers.len());
            let txn = self.ledger.new_txn();
            self.write(server, client, txn, None);
            return;
        }
        let r = self.router_of(client);
        let router = &self.routers[r];
        if !router.up || router.paused || self.is_stalled(r) {
            return;
        }
        if let Some(server) = router.primary
            && self.both_reach(server, self.router_place(r))
        {
            let term = router.terms[server];
            let txn = self.ledger.new_txn();
            if self.write(server, client, txn, Some(term)) {
                self.routers[r].in_flight.insert((server, txn));
            }
        }
    }

    fn told(&mut self, client: usize, txn: u32, server: usize, sequence: usize, term: Option<u32>) {
        let r = self.router_of(client);
        let again = Happening::Told {
            client,
            txn,
            server,
            sequence,
            term,
        };
        match term {
            None => self.ledger.told(txn, self.now_us),
            Some(_) if !self.reaches(server, self.router_place(r)) => self.after(10_000, again),
            Some(_) if self.is_several() && self.is_stalled(r) => {
                let at_us = self.routers[r].stalled_until_us;
                self.at(at_us, again);
            }
            Some(term) if self.routers[r].up && self.routers[r].terms[server] == term => {
                self.routers[r].in_flight.remove(&(server, txn));
                self.ledger.told(txn, self.now_us);
                if let Some(known) = &mut self.routers[r].acknowledged {
                    *known = sequence.max(*known);
                }
            }
            Some(_) => {}
        }
    }

    /// Everything is mended; now all must become well.
    fn grow_calm(&mut self) {
        self.note("# all is mended");
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
        self.store.down = 0;
        for router in 0..self.routers.len() {
            self.after(50_000, Happening::RouterStarts { router });
            self.sweep(router);
        }
    }

    /// One primary that acknowledges, and everybody follows it; all routers know.
    fn is_well(&self) -> bool {
        let Some(primary) = self.routers[0].primary.filter(|_| self.calm) else {
            return false;
        };
        let follow = self.servers.iter().enumerate().all(|(at, server)| {
            let follows = server.source == Some(primary) && server.receives && !server.diverged;
            server.state == State::Running && (at == primary || follows)
        });
        let know = self.routers.iter().all(|router| {
            let same = router.primary == Some(primary) && router.up && !router.paused;
            same && !router.machine.is_changing()
                && (!self.is_several() || router.part.id.is_some())
        });
        follow && know && self.ledger.told_since(self.plan.calm_us + 100_000) > 0
    }
}
