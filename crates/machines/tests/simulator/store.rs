//! The state store of a history with several routers: what etcd does for them. It has a place of its
//! own in the network; leases end by its clock; whoever watches it hears of every change in order.

use std::collections::BTreeMap;

use farm::{ServerId, Status};
use machines::failover::{AskId, Record, RouterId, Step};

use super::router::{Planted, id};
use super::world::{Happening, World};

/// For so long a router's keys stay without a sign of it.
pub const LEASE_US: u64 = 2_000_000;

/// A router as it registered: which process it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pub router: usize,
    pub life: u32,
}

/// What changed.
#[derive(Clone, Debug)]
pub enum News {
    Came {
        id: RouterId,
        process: Process,
    },
    /// Its keys are gone: with its lease, or because it resigned or was seen to be dead.
    Gone {
        id: RouterId,
        surely: bool,
    },
    Leads(Option<(u64, RouterId)>),
    Recorded(Record, Vec<Status>),
    Statuses(Vec<Status>),
    Voted {
        id: RouterId,
        lost: Option<ServerId>,
    },
    HasCut {
        id: RouterId,
        number: u64,
        acknowledged: usize,
    },
}

/// What a router wants of the store.
#[derive(Clone, Debug)]
pub enum Request {
    Register,
    Keep {
        id: RouterId,
    },
    Campaign {
        id: RouterId,
    },
    /// What its predecessor recorded.
    TakeUp {
        number: u64,
    },
    Record {
        number: u64,
        ask: AskId,
        record: Record,
    },
    Vote {
        id: RouterId,
        lost: Option<ServerId>,
    },
    HasCut {
        id: RouterId,
        number: u64,
        acknowledged: usize,
    },
    /// Its process was seen to be gone.
    Bury {
        id: RouterId,
    },
}

/// What the store says.
#[derive(Clone, Debug)]
pub enum Response {
    Registered {
        id: RouterId,
        peers: Vec<(RouterId, Process)>,
        leader: Option<(u64, RouterId)>,
        votes: BTreeMap<RouterId, ServerId>,
        statuses: Vec<Status>,
        record: Option<Record>,
        /// So much of the news is in this.
        news: usize,
    },
    Kept {
        id: RouterId,
        there: bool,
    },
    TakeUp {
        number: u64,
        statuses: Vec<Status>,
        record: Option<Record>,
    },
    Recorded {
        ask: AskId,
        done: bool,
    },
}

/// A request on its way.
#[derive(Clone, Debug)]
pub struct RequestAt {
    pub router: usize,
    pub life: u32,
    pub sent_us: u64,
    pub what: Request,
    /// The router stood still before it was sent.
    pub held: bool,
}

#[derive(Debug)]
pub struct Store {
    /// So many outages are under way.
    pub down: u32,
    revision: u64,
    pub record: Option<Record>,
    pub statuses: Vec<Status>,
    registered: BTreeMap<RouterId, (Process, u64)>,
    pub leader: Option<(u64, RouterId)>,
    votes: BTreeMap<RouterId, ServerId>,
    pub news: Vec<News>,
}

impl Store {
    pub fn new(servers: usize) -> Store {
        let mut statuses = vec![Status::Replica; servers];
        statuses[0] = Status::Primary;
        Store {
            down: 0,
            revision: 0,
            record: None,
            statuses,
            registered: BTreeMap::new(),
            leader: None,
            votes: BTreeMap::new(),
            news: Vec::new(),
        }
    }

    /// The servers' standing goes with the end of a change.
    pub fn take(&mut self, record: Record) {
        if let Step::Over { primary } = &record.step {
            for (at, status) in self.statuses.iter_mut().enumerate() {
                *status = match *status {
                    _ if *primary == Some(id(at)) => Status::Primary,
                    _ if record.lost.contains(&id(at)) => Status::Faulty,
                    Status::Primary => Status::Replica,
                    other => other,
                };
            }
        }
        self.record = Some(record);
    }

    pub fn is_registered(&self, id: RouterId) -> bool {
        self.registered.contains_key(&id)
    }
}

impl World {
    pub fn store_place(&self) -> usize {
        self.servers.len() + self.routers.len()
    }

    pub fn reaches_store(&self, router: usize) -> bool {
        self.store.down == 0 && self.both_reach(self.router_place(router), self.store_place())
    }

    /// Something changed: whoever watches hears of it.
    pub fn spread(&mut self, news: News) {
        self.store.revision += 1;
        self.store.news.push(news);
        for router in 0..self.routers.len() {
            let life = self.routers[router].life;
            let us = self.trip_us();
            self.after(us, Happening::Watch { life });
        }
    }

    pub fn request(&mut self, router: usize, what: Request) {
        let request = RequestAt {
            router,
            life: self.routers[router].life,
            sent_us: self.now_us,
            what,
            held: false,
        };
        let us = self.trip_us();
        self.after(us, Happening::Request(request));
    }

    /// A request reaches the store.
    pub fn requested(&mut self, mut request: RequestAt) {
        let router = request.router;
        if !request.held && self.is_stalled(router) && self.chance.permille(500) {
            request.held = true;
            let at_us = self.routers[router].stalled_until_us + 50;
            return self.at(at_us, Happening::Request(request));
        }
        if !self.reaches_store(router) || (request.held && !self.lives(request.life)) {
            return;
        }
        let process = Process {
            router,
            life: request.life,
        };
        // What etcd writes is on the disks of most of its members first.
        let us = self.chance.between(500, 8_000);
        let response = match request.what {
            Request::Register => Some(self.register(process)),
            Request::Keep { id } => Some(self.keep(id)),
            Request::Campaign { id } => {
                self.campaign(id);
                None
            }
            Request::TakeUp { number } => Some(Response::TakeUp {
                number,
                statuses: self.store.statuses.clone(),
                record: self.store.record.clone(),
            }),
            Request::Record {
                number,
                ask,
                record,
            } => Some(self.take_record(number, ask, record)),
            Request::Vote { id, lost } => {
                self.take_vote(id, lost);
                None
            }
            Request::HasCut {
                id,
                number,
                acknowledged,
            } => {
                if self.store.is_registered(id) {
                    self.spread(News::HasCut {
                        id,
                        number,
                        acknowledged,
                    });
                }
                None
            }
            Request::Bury { id } => {
                self.forget(id, true);
                None
            }
        };
        if let Some(response) = response {
            let (life, sent_us) = (request.life, request.sent_us);
            let us = us + self.trip_us();
            let happening = Happening::Response {
                life,
                sent_us,
                response,
            };
            self.after(us, happening);
        }
    }

    fn register(&mut self, process: Process) -> Response {
        self.store.revision += 1;
        let id = RouterId(self.store.revision);
        let until_us = self.now_us + LEASE_US;
        let registered = self.store.registered.iter();
        let peers = registered.map(|(id, (process, _))| (*id, *process));
        let peers = peers.collect();
        self.store.registered.insert(id, (process, until_us));
        self.at(until_us, Happening::LeaseEnds { id });
        self.spread(News::Came { id, process });
        Response::Registered {
            id,
            peers,
            leader: self.store.leader,
            votes: self.store.votes.clone(),
            statuses: self.store.statuses.clone(),
            record: self.store.record.clone(),
            news: self.store.news.len(),
        }
    }

    fn keep(&mut self, id: RouterId) -> Response {
        let until_us = self.now_us + LEASE_US;
        let there = match self.store.registered.get_mut(&id) {
            Some((_, ends_us)) => {
                *ends_us = until_us;
                self.at(until_us, Happening::LeaseEnds { id });
                true
            }
            None => false,
        };
        Response::Kept { id, there }
    }

    fn campaign(&mut self, id: RouterId) {
        if self.store.leader.is_none() && self.store.is_registered(id) {
            let number = self.store.revision + 1;
            self.store.leader = Some((number, id));
            self.spread(News::Leads(self.store.leader));
        }
    }

    fn take_vote(&mut self, id: RouterId, lost: Option<ServerId>) {
        if self.store.is_registered(id) {
            match lost {
                Some(lost) => self.store.votes.insert(id, lost),
                None => self.store.votes.remove(&id),
            };
            self.spread(News::Voted { id, lost });
        }
    }

    fn take_record(&mut self, number: u64, ask: AskId, record: Record) -> Response {
        let leads = self.store.leader.is_some_and(|(leads, _)| leads == number);
        let last = self.store.record.as_ref().map_or(0, |last| last.number);
        let refused = !leads && self.planted != Some(Planted::Unfenced);
        let fails = self.planted.is_none() && self.chance.permille(5);
        if refused || fails {
            return Response::Recorded { ask, done: false };
        }
        if record.number >= last || self.planted == Some(Planted::Unfenced) {
            self.store.take(record.clone());
            self.spread(News::Recorded(record, self.store.statuses.clone()));
        }
        Response::Recorded { ask, done: true }
    }

    /// A lease may have ended.
    pub fn lease_ends(&mut self, id: RouterId) {
        let registered = self.store.registered.get(&id);
        let Some((_, ends_us)) = registered else {
            return;
        };
        if self.store.down > 0 {
            // Its clock stands while it has no leader itself.
            return self.after(LEASE_US, Happening::LeaseEnds { id });
        }
        if self.now_us >= *ends_us {
            self.forget(id, false);
        }
    }

    pub fn forget(&mut self, id: RouterId, surely: bool) {
        if self.store.registered.remove(&id).is_none() {
            return;
        }
        self.store.votes.remove(&id);
        if self.store.leader.is_some_and(|(_, leader)| leader == id) {
            self.store.leader = None;
            self.spread(News::Leads(None));
        }
        self.spread(News::Gone { id, surely });
    }

    /// A server's standing, written by the leader of this number.
    pub fn set_status(&mut self, server: usize, status: Status, number: u64) -> bool {
        let leads = self.store.leader.is_some_and(|(leads, _)| leads == number);
        if leads {
            self.store.statuses[server] = status;
            self.spread(News::Statuses(self.store.statuses.clone()));
        }
        leads
    }
}
