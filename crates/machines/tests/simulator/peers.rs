//! What a router does that is one of several: it registers and keeps its lease, campaigns, follows the
//! news of the state store, votes, cuts off what another one replaces, and says what its clients were
//! told.

use std::collections::BTreeMap;

use farm::Status;
use machines::failover::{Event, Record, RouterId, Step};

use super::router::{Planted, index};
use super::servers::{State, position};
use super::store::{LEASE_US, News, Process, Request, Response};
use super::world::{Happening, World};

/// A router's part in a farm of several.
#[derive(Debug, Default)]
pub struct Part {
    /// How it is registered, and until when by its own clock.
    pub id: Option<RouterId>,
    pub until_us: u64,
    /// The leadership that it believes to have.
    pub leads: Option<u64>,
    /// The same as its machine was told.
    said: Option<u64>,
    peers: BTreeMap<RouterId, Process>,
    expired_routers: BTreeMap<RouterId, Process>,
    leader: Option<(u64, RouterId)>,
    /// So much of the news was heard.
    heard: usize,
    /// When it asks again.
    register_us: u64,
    keep_us: u64,
    campaign_us: u64,
    /// What was recorded last, as far as it knows.
    record: Option<Record>,
}

impl World {
    pub fn is_several(&self) -> bool {
        self.plan.routers > 1
    }

    /// By its own clock the router's lease holds.
    pub fn may_act(&self, r: usize) -> bool {
        let part = &self.routers[r].part;
        let holds = self.now_us < part.until_us || self.planted == Some(Planted::NoLease);
        !self.is_several() || (part.leads.is_some() && holds)
    }

    /// What is done again and again.
    pub fn tend(&mut self, r: usize) {
        if !self.is_several() || self.is_stalled(r) {
            return;
        }
        let now_us = self.now_us;
        let part = &mut self.routers[r].part;
        if part.leads.is_some() && now_us >= part.until_us && self.planted != Some(Planted::NoLease)
        {
            part.leads = None;
            self.say_leadership(r);
        }
        let part = &mut self.routers[r].part;
        match part.id {
            None if now_us >= part.register_us => {
                part.register_us = now_us + 100_000;
                self.request(r, Request::Register);
            }
            Some(id) if now_us >= part.keep_us => {
                part.keep_us = now_us + LEASE_US / 4;
                self.request(r, Request::Keep { id });
            }
            _ => {}
        }
        let part = &mut self.routers[r].part;
        if let (Some(id), None) = (part.id, part.leader)
            && now_us >= part.campaign_us
        {
            part.campaign_us = now_us + 50_000;
            self.request(r, Request::Campaign { id });
        }
        self.look_at_peers(r);
        self.ask_executed(r);
        let life = self.routers[r].life;
        if self.routers[r].part.heard < self.store.news.len() {
            self.after(300, Happening::Watch { life });
        }
    }

    /// Whose door refuses a connection is gone; so is one that has registered anew.
    fn look_at_peers(&mut self, r: usize) {
        let place = self.router_place(r);
        let gone = |world: &World, process: &Process| {
            let other = world.router_place(process.router);
            !world.lives(process.life) && world.both_reach(place, other)
        };
        let part = &self.routers[r].part;
        let mut dead = part.peers.iter().filter(|(_, process)| gone(self, process));
        if let Some(id) = dead.next().map(|(id, _)| *id)
            && self.chance.permille(300)
        {
            self.request(r, Request::Bury { id });
        }
        let part = &self.routers[r].part;
        let back = |process: &Process| part.peers.values().any(|peer| peer == process);
        let expired_routers = part.expired_routers.iter();
        let settled: Vec<RouterId> = expired_routers
            .filter(|(_, process)| gone(self, process) || back(process))
            .map(|(id, _)| *id)
            .collect();
        if !settled.is_empty() {
            self.routers[r]
                .part
                .expired_routers
                .retain(|id, _| !settled.contains(id));
            self.say_leadership(r);
        }
    }

    /// The leader wants to know what the primary has.
    fn ask_executed(&mut self, r: usize) {
        let router = &self.routers[r];
        let wants = router.machine.wants_executed();
        let Some(primary) = router.machine.primary().filter(|_| wants) else {
            return;
        };
        let (server, life) = (index(primary), router.life);
        let runs = self.servers[server].state == State::Running;
        if self.plan.direct || !runs || !self.both_reach(server, self.router_place(r)) {
            return;
        }
        let asked_us = self.now_us;
        let position = position(self.servers[server].log.len());
        let event = Event::Executed {
            server: primary,
            position,
            asked_us,
        };
        let us = self.trip_us();
        self.after(us, Happening::Heard { life, event });
    }

    pub fn say_leadership(&mut self, r: usize) {
        let part = &self.routers[r].part;
        let expired_routers = match self.planted {
            Some(Planted::NoExpiredRouters) => Vec::new(),
            _ => part.expired_routers.keys().copied().collect(),
        };
        let known = part.leader.map_or(0, |(number, _)| number);
        let event = Event::Leadership {
            leads: part.leads.is_some(),
            number: part.leads.unwrap_or(known),
            peers: part.peers.keys().copied().collect(),
            expired_routers,
        };
        let leads = part.leads;
        let led = std::mem::replace(&mut self.routers[r].part.said, leads);
        if led != leads {
            self.routers[r].open.clear();
        }
        self.tell_machine(r, event);
        if led.is_some() && leads.is_none() {
            self.fall_in(r);
        }
    }

    /// The store answers.
    pub fn responded(&mut self, life: u32, sent_us: u64, response: Response) {
        let Some(r) = self.alive(life) else { return };
        if self.is_stalled(r) {
            let at_us = self.routers[r].stalled_until_us;
            let happening = Happening::Response {
                life,
                sent_us,
                response,
            };
            return self.at(at_us, happening);
        }
        if !self.reaches_store(r) {
            return;
        }
        match response {
            Response::Kept { id, there } => self.kept(r, id, there, sent_us),
            Response::Recorded { ask, done } => self.answer_record(r, ask, done),
            Response::TakeUp {
                number,
                statuses,
                record,
            } => {
                if self.routers[r].part.leads == Some(number) {
                    self.take_up(r, &statuses, record);
                }
            }
            registered @ Response::Registered { .. } => self.registered(r, sent_us, registered),
        }
    }

    fn registered(&mut self, r: usize, sent_us: u64, response: Response) {
        let Response::Registered {
            id,
            peers,
            leader,
            votes,
            statuses,
            record,
            news,
        } = response
        else {
            return;
        };
        let part = &mut self.routers[r].part;
        if part.id.is_some() {
            return;
        }
        part.id = Some(id);
        part.until_us = sent_us + LEASE_US;
        // What was here before and is not now: nobody knows whether it still serves.
        let before = std::mem::take(&mut part.peers);
        part.expired_routers.extend(before);
        part.peers = peers.into_iter().collect();
        part.expired_routers
            .retain(|id, _| !part.peers.contains_key(id));
        part.leader = leader;
        part.heard = news;
        self.tell_members(r, &statuses);
        self.say_leadership(r);
        for (router, lost) in votes {
            let lost = Some(lost);
            self.tell_machine(r, Event::Vote { router, lost });
        }
        self.routers[r].part.record = record;
        self.fall_in(r);
    }

    /// What it serves is what is recorded: what it had begun itself is not.
    fn fall_in(&mut self, r: usize) {
        match self.routers[r].part.record.clone() {
            Some(record) => self.follow_record(r, &record),
            None => {
                self.routers[r].primary = Some(0);
                self.routers[r].paused = false;
            }
        }
    }

    fn kept(&mut self, r: usize, id: RouterId, there: bool, sent_us: u64) {
        let part = &mut self.routers[r].part;
        if part.id != Some(id) {
            return;
        }
        if there {
            part.until_us = part.until_us.max(sent_us + LEASE_US);
            // It thought that its lease was over, but nobody took its place.
            if let Some((number, _)) = part.leader.filter(|(_, leader)| *leader == id)
                && part.leads.is_none()
            {
                part.leads = Some(number);
                self.say_leadership(r);
                self.request(r, Request::TakeUp { number });
            }
        } else {
            part.id = None;
            part.leads = None;
            self.say_leadership(r);
        }
    }

    fn take_up(&mut self, r: usize, statuses: &[Status], record: Option<Record>) {
        self.tell_members(r, statuses);
        let record = match self.planted {
            Some(Planted::NoResume) => None,
            _ => record,
        };
        self.routers[r].part.record.clone_from(&record);
        self.fall_in(r);
        self.tell_machine(r, Event::Resume(record));
        self.sweep(r);
    }

    fn tell_members(&mut self, r: usize, statuses: &[Status]) {
        let members = self.members_with(statuses);
        self.tell_machine(r, Event::Members(members));
    }

    /// The watch brings what happened since.
    pub fn watch(&mut self, life: u32) {
        let Some(r) = self.alive(life) else { return };
        if self.is_stalled(r) {
            let at_us = self.routers[r].stalled_until_us + 100;
            return self.at(at_us, Happening::Watch { life });
        }
        if self.routers[r].part.id.is_none() && self.routers[r].part.heard == 0 {
            return;
        }
        while self.lives(life)
            && self.reaches_store(r)
            && let Some(news) = self.store.news.get(self.routers[r].part.heard).cloned()
        {
            self.routers[r].part.heard += 1;
            self.hear(r, news);
        }
    }

    fn hear(&mut self, r: usize, news: News) {
        let part = &mut self.routers[r].part;
        match news {
            News::Came { id, process } if part.id != Some(id) => {
                part.peers.insert(id, process);
                self.say_leadership(r);
            }
            News::Came { .. } => {}
            News::Gone { id, surely } => {
                if let Some(process) = part.peers.remove(&id)
                    && !surely
                {
                    part.expired_routers.insert(id, process);
                }
                if part.id == Some(id) {
                    part.id = None;
                    part.leads = None;
                }
                self.say_leadership(r);
            }
            News::Leads(leader) => {
                part.leader = leader;
                let everybody = self.planted == Some(Planted::AllAct);
                let mine = leader.filter(|(_, id)| part.id == Some(*id) || everybody);
                part.leads = mine.map(|(number, _)| number);
                let leads = part.leads;
                self.say_leadership(r);
                if let Some(number) = leads {
                    self.request(r, Request::TakeUp { number });
                }
            }
            News::Recorded(record, statuses) => {
                let over = matches!(record.step, Step::Over { .. });
                part.record = Some(record.clone());
                if part.leads.is_none() {
                    self.follow_record(r, &record);
                }
                if over {
                    self.tell_members(r, &statuses);
                }
            }
            News::Statuses(statuses) => self.tell_members(r, &statuses),
            News::Voted { id, lost } if part.id != Some(id) => {
                self.tell_machine(r, Event::Vote { router: id, lost });
            }
            News::HasCut {
                id,
                number,
                acknowledged,
            } if part.id != Some(id) => {
                let event = Event::Acknowledged {
                    router: id,
                    position: position(acknowledged),
                    cut: number,
                };
                self.tell_machine(r, event);
            }
            News::Voted { .. } | News::HasCut { .. } => {}
        }
    }

    /// A change of primary that somebody else carries out.
    fn follow_record(&mut self, r: usize, record: &Record) {
        let old = match record.step {
            Step::Over { primary } => {
                self.routers[r].primary = primary.map(index);
                self.routers[r].paused = false;
                return;
            }
            Step::Clearing { old } => old,
            Step::Turning { old, .. } => old,
            Step::Switching { .. } => {
                self.routers[r].paused = true;
                return self.has_cut(r, record.number);
            }
        };
        let old = old.map(index);
        if self.planted == Some(Planted::LateCut) {
            let (life, number) = (self.routers[r].life, record.number);
            self.after(400_000, Happening::LateCut { life, number, old });
        } else {
            self.cut_off_all(r, old);
        }
        self.has_cut(r, record.number);
    }

    /// A planted fault: what was said before is done now, if it is still wanted.
    pub fn cut_late(&mut self, life: u32, number: u64, old: Option<usize>) {
        let Some(r) = self.alive(life) else { return };
        let record = self.routers[r].part.record.as_ref();
        if record.is_some_and(|record| record.number == number) {
            self.cut_off_all(r, old);
        }
    }

    /// No session acknowledges anything any more before the end of the change.
    pub fn cut_off_all(&mut self, r: usize, old: Option<usize>) {
        let now = self.routers[r].primary;
        for server in [old, now].into_iter().flatten() {
            self.cut_off(r, server);
        }
    }

    fn has_cut(&mut self, r: usize, number: u64) {
        let acknowledged = self.routers[r].acknowledged.unwrap_or(0);
        if let Some(id) = self.routers[r].part.id {
            self.request(
                r,
                Request::HasCut {
                    id,
                    number,
                    acknowledged,
                },
            );
        }
    }
}
