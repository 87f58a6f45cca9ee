//! The world of one history: servers, the network between them and the router, clients, time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use machines::failover::{Answer, Ask, AskId, Event, Failed, Record, RouterId};

use super::chance::{Chance, Nemesis, Plan};
use super::check::Ledger;
use super::router::{Planted, Router};
use super::servers::{Server, State, Txn, Waiting};
use super::store::{RequestAt, Response, Store};

/// What happens at a moment.
#[derive(Clone, Debug)]
pub enum Happening {
    /// A replica fetches what its source has.
    Fetch {
        replica: usize,
    },
    /// An acknowledgement arrives.
    Acknowledged {
        server: usize,
        boot: u32,
        sequence: usize,
    },
    /// A replica has applied one more transaction.
    Applied {
        server: usize,
        boot: u32,
    },
    Restart {
        server: usize,
        boot: u32,
    },
    Continue {
        server: usize,
        boot: u32,
    },
    Mend {
        from: usize,
        to: usize,
        both: bool,
    },
    Nemesis(Nemesis),
    RouterStarts {
        router: usize,
    },
    /// A client wants to write.
    Write {
        client: usize,
    },
    /// A client is told that its write is committed.
    Told {
        client: usize,
        txn: Txn,
        server: usize,
        sequence: usize,
        term: Option<u32>,
    },
    Heartbeat {
        life: u32,
    },
    /// Something happened to the router's machine.
    Heard {
        life: u32,
        event: Event,
    },
    /// The machine wanted to be woken.
    Wake {
        life: u32,
        at_us: u64,
    },
    /// A question's step reaches its server, or is looked at again.
    Arrive {
        step: StepAt,
    },
    /// An answer, or its absence, reaches the router.
    Answer {
        life: u32,
        ask: AskId,
        answer: Result<Answer, Failed>,
    },
    /// The state store has taken a record, or could not.
    Stored {
        life: u32,
        ask: AskId,
        stored: Option<Record>,
    },
    /// There is news in the state store of several.
    Watch {
        life: u32,
    },
    Request(RequestAt),
    Response {
        life: u32,
        sent_us: u64,
        response: Response,
    },
    LeaseEnds {
        id: RouterId,
    },
    StoreUp,
    /// A planted fault takes effect.
    LateCut {
        life: u32,
        number: u64,
        old: Option<usize>,
    },
    /// A server that was lost may be brought back.
    Rejoin {
        life: u32,
        server: usize,
    },
    /// Everything is mended from here on.
    Calm,
}

/// A step on its way.
#[derive(Clone, Debug)]
pub struct StepAt {
    /// The router, its life and the leadership that wants it.
    pub router: usize,
    pub life: u32,
    pub number: u64,
    /// Until when its lease surely holds.
    pub lease_us: u64,
    pub ask: AskId,
    pub what: Ask,
    pub until_us: u64,
    /// The server's start at which it arrived.
    pub boot: Option<u32>,
    /// The router stood still before it was sent.
    pub held: bool,
}

pub struct World {
    pub now_us: u64,
    pub chance: Chance,
    pub plan: Plan,
    pub servers: Vec<Server>,
    /// `cut[from][to]`; after the servers come the routers, and the state store is last.
    pub cut: Vec<Vec<u32>>,
    pub routers: Vec<Router>,
    /// The lives that routers had so far.
    pub lives: u32,
    pub store: Store,
    pub planted: Option<Planted>,
    pub reigns: u32,
    /// How many steps leaders have sent.
    pub steps: u32,
    /// The greatest leadership that has opened a server.
    pub opened: u64,
    pub log: Option<String>,
    pub ledger: Ledger,
    pub calm: bool,
    /// Steps that wait in the socket of a stopped server.
    pub parked: Vec<(usize, StepAt)>,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    happenings: std::collections::HashMap<u64, Happening>,
    next: u64,
}

/// The servers ran for so long before the history began.
pub const BEFORE_US: u64 = 60_000_000;

/// Clients that write through the router.
pub const CLIENTS: usize = 2;

impl World {
    pub fn new(mut chance: Chance, plan: Plan, routers: Vec<Router>) -> World {
        let mut servers = vec![Server::primary()];
        servers.extend((1..plan.servers).map(|_| Server::replica(0)));
        for server in &mut servers[1..] {
            if chance.permille(200) {
                server.apply_us = chance.between(1_000, 30_000);
            }
        }
        let places = plan.servers + plan.routers + 1;
        let mut world = World {
            now_us: 0,
            chance,
            servers,
            cut: vec![vec![0; places]; places],
            routers,
            lives: 0,
            store: Store::new(plan.servers),
            planted: None,
            reigns: 1,
            steps: 0,
            opened: 0,
            log: None,
            ledger: Ledger::default(),
            calm: false,
            parked: Vec::new(),
            queue: BinaryHeap::new(),
            happenings: std::collections::HashMap::new(),
            next: 0,
            plan,
        };
        world.servers[0].waits = world.plan.servers > 1;
        for (at_us, nemesis) in world.plan.nemeses.clone() {
            world.at(at_us, Happening::Nemesis(nemesis));
        }
        world.at(world.plan.calm_us, Happening::Calm);
        for client in 0..world.clients() + usize::from(world.plan.direct) {
            world.at(1_000 + client as u64, Happening::Write { client });
        }
        world
    }

    pub fn at(&mut self, at_us: u64, happening: Happening) {
        self.queue
            .push(Reverse((at_us.max(self.now_us), self.next)));
        self.happenings.insert(self.next, happening);
        self.next += 1;
    }

    pub fn after(&mut self, us: u64, happening: Happening) {
        self.at(self.now_us + us, happening);
    }

    /// A trip through the network.
    pub fn trip_us(&mut self) -> u64 {
        match self.chance.pick(50) {
            0 => self.chance.between(1_000, 20_000),
            _ => self.chance.between(50, 500),
        }
    }

    pub fn router_place(&self, router: usize) -> usize {
        self.servers.len() + router
    }

    /// How many clients write through routers, one router after the other.
    pub fn clients(&self) -> usize {
        CLIENTS.max(self.plan.routers)
    }

    pub fn router_of(&self, client: usize) -> usize {
        client % self.plan.routers
    }

    pub fn reaches(&self, from: usize, to: usize) -> bool {
        self.cut[from][to] == 0
    }

    pub fn both_reach(&self, a: usize, b: usize) -> bool {
        self.reaches(a, b) && self.reaches(b, a)
    }

    /// The next thing that happens before this moment.
    pub fn next(&mut self, until_us: u64) -> Option<Happening> {
        let Reverse((at_us, number)) = self.queue.pop()?;
        if at_us > until_us {
            return None;
        }
        self.now_us = at_us;
        self.happenings.remove(&number)
    }

    /// What concerns servers and network alone; the rest comes back.
    pub fn happen(&mut self, happening: Happening) -> Option<Happening> {
        match happening {
            Happening::Fetch { replica } => self.fetch(replica),
            Happening::Acknowledged {
                server,
                boot,
                sequence,
            } => self.acknowledged(server, boot, sequence),
            Happening::Applied { server, boot } => self.applied(server, boot),
            Happening::Restart { server, boot } => self.restart(server, boot),
            Happening::Continue { server, boot } => self.go_on(server, boot),
            Happening::Mend { from, to, both } => self.mend(from, to, both),
            other => return Some(other),
        }
        None
    }

    fn fetch(&mut self, replica: usize) {
        let Some(source) = self.servers[replica].source else {
            return;
        };
        let runs = |server: &Server| server.state == State::Running;
        let follower = &self.servers[replica];
        if !runs(follower) || !follower.receives || !runs(&self.servers[source]) {
            return;
        }
        if !self.both_reach(source, replica) {
            return;
        }
        let log = std::mem::take(&mut self.servers[source].log);
        let now_us = self.now_us;
        let follower = &mut self.servers[replica];
        follower.heard_us = now_us;
        let fits = follower.receive(&log);
        let (sequence, ruled) = (follower.received(), follower.ruled);
        self.servers[source].log = log;
        // A primary that restarted may have less; it takes no writes before that was looked at.
        let restarted = self.servers[source].read_only && self.servers[source].source.is_none();
        let youngest = Some(self.reign());
        let stale = Some(self.servers[replica].followed_under) < youngest;
        if !fits && !ruled && !restarted && !stale {
            let text = format!("s{replica} never took writes, but cannot follow s{source}");
            self.ledger.violation(text);
        }
        if fits {
            let boot = self.servers[source].boot;
            let trip = self.trip_us();
            let happening = Happening::Acknowledged {
                server: source,
                boot,
                sequence,
            };
            self.after(trip, happening);
            self.start_applying(replica);
        }
    }

    pub fn start_applying(&mut self, at: usize) {
        let server = &mut self.servers[at];
        // The appliers of a server that waits for acknowledgements wait too.
        if server.applying
            || server.relay.is_empty()
            || server.waits
            || server.state != State::Running
        {
            return;
        }
        server.applying = true;
        let (us, boot) = (server.apply_us, server.boot);
        self.after(us, Happening::Applied { server: at, boot });
    }

    fn applied(&mut self, at: usize, boot: u32) {
        let server = &mut self.servers[at];
        if server.boot != boot {
            return;
        }
        server.applying = false;
        if server.state == State::Running
            && !server.waits
            && let Some(txn) = server.relay.pop_front()
        {
            server.log.push(txn);
            server.finished = server.log.len();
            self.tell_followers(at);
        }
        self.start_applying(at);
    }

    /// Something new stands in this server's log.
    pub fn tell_followers(&mut self, source: usize) {
        for replica in 0..self.servers.len() {
            if self.servers[replica].source == Some(source) {
                let trip = self.trip_us();
                self.after(trip, Happening::Fetch { replica });
            }
        }
    }

    fn acknowledged(&mut self, at: usize, boot: u32, sequence: usize) {
        let server = &mut self.servers[at];
        if server.boot != boot || server.state != State::Running {
            return;
        }
        let waiting = std::mem::take(&mut server.waiting);
        let (done, wait) = waiting.into_iter().partition(|w| w.sequence <= sequence);
        server.waiting = wait;
        for waiting in done {
            self.commit(at, waiting);
        }
    }

    /// The server tells a client that its write is committed.
    fn commit(&mut self, at: usize, waiting: Waiting) {
        let server = &mut self.servers[at];
        server.finished = server.finished.max(waiting.sequence);
        let reign = server.reign;
        self.ledger.acknowledges(self.now_us, at, reign);
        let trip = self.trip_us();
        let router = self.router_place(self.router_of(waiting.client));
        if waiting.term.is_none() || self.reaches(at, router) {
            let told = Happening::Told {
                client: waiting.client,
                txn: waiting.txn,
                server: at,
                sequence: waiting.sequence,
                term: waiting.term,
            };
            self.after(trip, told);
        }
    }

    /// A write arrives. False when the server refuses it.
    pub fn write(&mut self, at: usize, client: usize, txn: Txn, term: Option<u32>) -> bool {
        let server = &mut self.servers[at];
        if server.state != State::Running || server.read_only {
            return false;
        }
        server.log.push(txn);
        let sequence = server.log.len();
        self.ledger.wrote(&self.servers, at, sequence, txn);
        let server = &mut self.servers[at];
        let waiting = Waiting {
            sequence: server.log.len(),
            txn,
            client,
            term,
        };
        if server.waits {
            server.waiting.push(waiting);
        } else {
            self.commit(at, waiting);
        }
        self.tell_followers(at);
        true
    }

    /// Starts a server's replication where it stands, as a running server does by itself.
    pub fn reconnect(&mut self, at: usize) {
        if self.servers[at].source.is_some() {
            let us = self.chance.between(500, 30_000);
            self.after(us, Happening::Fetch { replica: at });
        }
        for replica in 0..self.servers.len() {
            if self.servers[replica].source == Some(at) {
                let us = self.chance.between(500, 30_000);
                self.after(us, Happening::Fetch { replica });
            }
        }
    }

    fn restart(&mut self, at: usize, boot: u32) {
        if self.servers[at].boot != boot || self.servers[at].state != State::Down {
            return;
        }
        let undone = usize::from(self.is_kept(at) && self.chance.permille(300));
        self.servers[at].start(undone);
        self.servers[at].started_us = self.now_us + BEFORE_US;
        // A replica that starts receives from whom it followed. Were that a primary that was replaced
        // and that no fence reached, the two could acknowledge a write: servers must be started so
        // that they wait (`skip-slave-start`) where there is no sure fence.
        let source = self.servers[at].source;
        if source.is_some_and(|source| source != self.last_opened()) {
            self.servers[at].receives = false;
        }
        self.reconnect(at);
    }

    /// Who was opened last.
    fn last_opened(&self) -> usize {
        let reigns = self.servers.iter().map(|server| server.reign);
        let youngest = reigns.enumerate().max_by_key(|(_, reign)| *reign);
        youngest.map_or(0, |(at, _)| at)
    }

    /// Another server has all that this one finished, and will not lose it: no farm survives the loss
    /// of a commit on both servers that had it.
    fn is_kept(&self, at: usize) -> bool {
        let finished = self.servers[at].finished;
        let dies = |server: usize| {
            let mut nemeses = self.plan.nemeses.iter();
            nemeses.any(|(at_us, nemesis)| {
                *at_us >= self.now_us
                    && matches!(nemesis, Nemesis::Kill { server: other, .. } if *other == server)
            })
        };
        self.servers.iter().enumerate().any(|(other, server)| {
            let lasts = server.state == State::Running && !dies(other);
            let has = match lasts {
                true => server.received(),
                false => server.log.len(),
            };
            other != at && has >= finished
        })
    }

    fn go_on(&mut self, at: usize, boot: u32) {
        if self.servers[at].boot != boot || self.servers[at].state != State::Stopped {
            return;
        }
        self.servers[at].state = State::Running;
        self.servers[at].applying = false;
        self.start_applying(at);
        self.reconnect(at);
        let (mine, others) = std::mem::take(&mut self.parked)
            .into_iter()
            .partition(|(server, _)| *server == at);
        self.parked = others;
        let mine: Vec<(usize, StepAt)> = mine;
        for (_, step) in mine {
            self.after(10, Happening::Arrive { step });
        }
    }

    fn mend(&mut self, from: usize, to: usize, both: bool) {
        let less = |count: &mut u32| *count = count.saturating_sub(1);
        less(&mut self.cut[from][to]);
        if both {
            less(&mut self.cut[to][from]);
        }
        for at in [from, to] {
            if at < self.servers.len() {
                self.reconnect(at);
            }
        }
    }
}
