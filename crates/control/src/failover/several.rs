//! What a driver does because there are other routers.
//!
//! The leader's machine acts; the others' only form an opinion, which is voted through the store. What
//! the leader records under `/failover/GROUP` they carry out on their own sessions: they cut the old
//! primary off, say what their clients were told, and go on with the new one when it is recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use farm::{Position, ServerId};
use machines::failover::{Event, Failover, Record, RouterId, Step};
use meta::{Change, LeaseId, Transaction};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Driver, kept};
use crate::context::drivers::Told;
use crate::failover::FailoverDrivers;
use crate::leadership::Role;
use crate::leadership::presence::{CutRecord, VoteRecord, cut_key, vote_key};
use catalog::record::json;

/// Before the store is tried again.
const AGAIN: Duration = Duration::from_millis(50);

/// Cores take note of a cut within so long; what a session acknowledges afterwards is told later.
const CORES: Duration = Duration::from_millis(3);

/// While a primary is cut off, what sessions were told is looked at so often.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What a driver knows of the others.
pub(super) struct Others {
    role: Role,
    /// Votes that the machine was told.
    votes: BTreeMap<u8, u32>,
    /// What the peers said they cut, as the machine was told: by peer.
    cuts: BTreeMap<u64, CutRecord>,
    /// The last record in the store, whoever wrote it.
    seen: Option<Record>,
    /// This router's opinion, for the task that votes.
    opinion: watch::Sender<Option<ServerId>>,
    /// The record that this router answers, for the task that says so.
    answers: watch::Sender<Option<u64>>,
    /// Reads what is recorded when a leadership begins.
    reading: JoinSet<(Option<u64>, Option<Record>)>,
    helpers: JoinSet<()>,
    /// A router that is alone has left its work to a successor.
    retired: bool,
}

impl Others {
    pub(super) fn new(failover: &Arc<FailoverDrivers>, group: &str) -> Others {
        let (opinion, opinions) = watch::channel(None);
        let (answers, answered) = watch::channel(None);
        let mut helpers = JoinSet::new();
        if !failover.context.leadership.is_alone() {
            let (failover, group) = (Arc::clone(failover), group.to_owned());
            helpers.spawn(Arc::clone(&failover).vote(group.clone(), opinions));
            helpers.spawn(failover.answer_records(group, answered));
        }
        Others {
            role: Role::default(),
            votes: BTreeMap::new(),
            cuts: BTreeMap::new(),
            seen: None,
            opinion,
            answers,
            reading: JoinSet::new(),
            helpers,
            retired: false,
        }
    }

    /// The machine is told nothing while another process acts in this one's place.
    pub(super) fn is_retired(&self) -> bool {
        self.retired
    }

    /// The number under which this router leads, as the machine was told.
    pub(super) fn leads(&self) -> Option<u64> {
        self.role.leads
    }

    pub(super) fn vote(&self, lost: Option<ServerId>) {
        self.opinion.send_replace(lost);
    }

    /// The next reading of what is recorded; never ready while there is none.
    pub(super) async fn read(&mut self) -> (Option<u64>, Option<Record>) {
        loop {
            match self.reading.join_next().await {
                Some(Ok(read)) => return read,
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        self.helpers.abort_all();
    }
}

impl Driver {
    /// Something changed about who is there, who leads, who votes or who has cut.
    pub(super) fn look_at_leadership(&mut self) {
        if self.failover.context.leadership.is_alone() {
            return self.retire_or_resume();
        }
        let role = self.failover.context.leadership.role();
        if role != self.others.role {
            self.take_role(role);
        }
        self.tell_votes();
        self.tell_cuts();
    }

    /// Of a router that is alone: a successor acts in its place, or does so no more.
    fn retire_or_resume(&mut self) {
        let retired = self.failover.context.leadership.is_retired();
        if retired == std::mem::replace(&mut self.others.retired, retired) {
            return;
        }
        self.give_up_steps();
        // Who waits is told to ask again.
        self.orders.clear();
        if retired {
            self.read_farm_again();
        } else {
            // Nothing is left of what it thought.
            let (policy, active) = (self.failover.policy(&self.group), self.machine.is_active());
            self.machine = Failover::new(policy, active);
            let reading = Arc::clone(&self.failover).read_recorded(self.group.clone(), None);
            self.others.reading.spawn(reading);
        }
    }

    /// Dropped, what is under way closes the connections that it uses.
    fn give_up_steps(&mut self) {
        self.running = JoinSet::new();
        for (_, task) in std::mem::take(&mut self.rejoining) {
            task.abort();
        }
        self.others.reading = JoinSet::new();
        self.failover.context.state().standing.recorded(&self.group);
    }

    fn take_role(&mut self, role: Role) {
        let was = std::mem::replace(&mut self.others.role, role.clone());
        let deposed = was.leads.is_some() && was.leads != role.leads;
        if deposed {
            self.give_up_steps();
        }
        self.tell(Event::Leadership {
            leads: role.leads.is_some(),
            number: role.leads.unwrap_or(0),
            peers: role.peers.iter().map(|(_, id)| RouterId(*id)).collect(),
            expired_routers: role.expired_routers.iter().copied().map(RouterId).collect(),
        });
        if let Some(number) = role.leads.filter(|_| was.leads != role.leads) {
            let number = Some(number);
            let reading = Arc::clone(&self.failover).read_recorded(self.group.clone(), number);
            self.others.reading.spawn(reading);
        }
        if deposed {
            self.read_farm_again();
            // What the store has is the leader's from now on.
            match self.others.seen.clone() {
                Some(record) => self.follow(&record),
                // Nothing was recorded, so nothing is under way.
                None => self.failover.follow_records_of(&self.group),
            }
        }
    }

    /// What a deposed leader published and nobody recorded is void.
    fn read_farm_again(&mut self) {
        let failover = Arc::clone(&self.failover);
        self.rejoins.spawn(async move {
            while failover.context.reload().await.is_err() {
                tokio::time::sleep(AGAIN).await;
            }
        });
    }

    /// This router leads now, and this is what was recorded before.
    pub(super) fn take_up(&mut self, number: Option<u64>, record: Option<Record>) {
        if self.others.role.leads != number || self.others.is_retired() {
            return;
        }
        self.others.answers.send_replace(None);
        self.members_changed();
        if let Some(record) = &record {
            self.rejoin_lost(record);
        }
        self.tell(Event::Resume(record));
    }

    fn tell_votes(&mut self) {
        let votes = self.failover.context.leadership.votes(&self.group);
        let before = std::mem::replace(&mut self.others.votes, votes.clone());
        let peers = self.others.role.peers.clone();
        for (slot, id) in peers {
            let (was, now) = (before.get(&slot), votes.get(&slot));
            if was != now {
                let router = RouterId(id);
                let lost = now.copied().map(ServerId);
                if let Some(server) = lost {
                    self.look_at_replicas_of(server);
                }
                self.tell(Event::Vote { router, lost });
            }
        }
    }

    fn tell_cuts(&mut self) {
        let peers = self.others.role.peers.clone();
        let there: BTreeSet<u64> = peers.iter().map(|(_, id)| *id).collect();
        self.others.cuts.retain(|id, _| there.contains(id));
        for (slot, id) in peers {
            let Some(cut) = self.failover.context.leadership.cut_of(&self.group, slot) else {
                continue;
            };
            if self.others.cuts.get(&id) == Some(&cut) {
                continue;
            }
            self.others.cuts.insert(id, cut.clone());
            let Some(position) = self.failover.position_of(&self.group, &cut) else {
                continue;
            };
            self.tell(Event::Acknowledged {
                router: RouterId(id),
                position,
                cut: cut.number,
            });
        }
    }

    /// The store has this record now. The leader wrote it itself; the others do their part.
    pub(super) fn recorded(&mut self, value: &str) {
        let Some(record) = self.failover.read_record(&self.group, value) else {
            return;
        };
        if self.others.leads().is_none() && self.failover.context.leadership.follows() {
            self.follow(&record);
        }
        self.others.seen = Some(record);
    }

    fn follow(&mut self, record: &Record) {
        let (failover, group) = (&self.failover, &self.group);
        if let Step::Turning { winner, .. } = record.step {
            // The leader recorded it when it had applied everything.
            failover.context.winners.name(group, winner.0);
        }
        match record.step {
            Step::Clearing { old: Some(old) } => failover.cut_once(group, old.0),
            Step::Turning {
                old: Some(old),
                winner,
            } if old != winner => failover.cut_once(group, old.0),
            Step::Clearing { old: None } | Step::Turning { .. } | Step::Switching { .. } => {
                failover.context.pause(group);
            }
            Step::Over { primary } => {
                self.others.answers.send_replace(None);
                return failover.follow_primary_of(group, primary);
            }
        }
        self.others.answers.send_replace(Some(record.number));
    }

    /// What the store has when a router starts that does not lead.
    pub(super) async fn read_as_follower(&mut self) {
        if let Ok(Some(record)) = self.failover.kept_record(&self.group).await {
            // Nothing is under way for a change that is over.
            if !matches!(record.step, Step::Over { .. }) {
                self.follow(&record);
            }
            self.others.seen = Some(record);
        }
    }
}

impl FailoverDrivers {
    /// Tells the drivers what was recorded of changes of primary.
    pub(crate) fn take_failovers(&self, update: &meta::Update) {
        for change in &update.changes {
            if let Change::Put { key, value, .. } = change
                && let Some(group) = key.strip_prefix(kept::FAILOVER)
            {
                self.context
                    .drivers
                    .tell(group, Told::Recorded(value.clone()));
            }
        }
    }

    /// Reads the farm and what is recorded of a change of primary, however long that takes.
    async fn read_recorded(
        self: Arc<Self>,
        group: String,
        number: Option<u64>,
    ) -> (Option<u64>, Option<Record>) {
        loop {
            if self.context.reload().await.is_ok()
                && let Ok(record) = self.recorded_step(&group).await
            {
                return (number, record);
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    fn read_record(&self, group: &str, value: &str) -> Option<Record> {
        let engine = self.engine_of(group)?;
        kept::read_value(value, engine)
    }

    fn position_of(&self, group: &str, cut: &CutRecord) -> Option<Position> {
        let engine = self.engine_of(group)?;
        match &cut.acknowledged {
            None => Some(Position::empty(engine)),
            Some(text) => Position::parse(engine, text),
        }
    }

    /// What clients of this router were told is committed in a group.
    fn acknowledged_in(&self, group: &str) -> Option<Position> {
        let state = self.context.state();
        let members = state.records.members(group);
        let fresh = members.filter_map(|(id, _)| Some(&state.seen.get(&id)?.fresh));
        let told = fresh.filter_map(|fresh| fresh.acknowledged());
        told.reduce(|mut all, one| {
            all.join(&one);
            all
        })
    }

    /// Follows the leader: the primary is cut off, once for each change.
    fn cut_once(&self, group: &str, id: u32) {
        if !self.context.state().standing.is_cut(id) {
            self.context.begin_cut(group, id);
        }
    }

    /// Follows the leader: the change is over, and the farm's records say who leads the group.
    fn follow_primary_of(&self, group: &str, primary: Option<ServerId>) {
        let waits = {
            let state = self.context.state();
            let read_only = |id: ServerId| {
                let seen = state.seen.get(&id.0);
                seen.is_none_or(|seen| seen.health.read_only)
            };
            state.standing.is_paused(group) || primary.is_some_and(read_only)
        };
        if waits && primary.is_some() {
            self.publish_primary(group, primary, None);
            self.context.state().standing.recorded(group);
        }
    }

    /// What a deposed leader began and could not record is undone.
    fn follow_records_of(&self, group: &str) {
        let primary = {
            let state = self.context.state();
            let primary = state.records.primary(group);
            primary.map(|(id, _)| ServerId(id))
        };
        self.follow_primary_of(group, primary);
    }

    /// Writes this router's opinion of a group's primary whenever it changes.
    async fn vote(self: Arc<Self>, group: String, mut opinion: watch::Receiver<Option<ServerId>>) {
        let mut role = self.context.leadership.watch_role();
        let mut written: Option<(u32, LeaseId)> = None;
        loop {
            let leads = role.borrow_and_update().leads.is_some();
            // The leader's own is nobody else's business.
            let lost = opinion.borrow_and_update().filter(|_| !leads);
            let Some((slot, lease)) = self.context.leadership.seat() else {
                if role.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let wanted = lost.map(|server| (server.0, lease));
            // A vote under a lease that is over is gone.
            let done = match wanted {
                _ if wanted == written => Ok(()),
                Some((lost, lease)) => {
                    let vote = json(&VoteRecord { lost });
                    let vote = Transaction::new().put_leased(&vote_key(&group, slot), &vote, lease);
                    self.context.store().commit(vote).await.map(drop)
                }
                None => {
                    let none = Transaction::new().delete(&vote_key(&group, slot));
                    self.context.store().commit(none).await.map(drop)
                }
            };
            let ended = match done {
                Ok(()) => {
                    written = wanted;
                    tokio::select! {
                        changed = opinion.changed() => changed.is_err(),
                        changed = role.changed() => changed.is_err(),
                    }
                }
                Err(_) => {
                    tokio::time::sleep(AGAIN).await;
                    false
                }
            };
            if ended {
                return;
            }
        }
    }

    /// Writes what this router did about a record, and what its clients were told until then.
    async fn answer_records(
        self: Arc<Self>,
        group: String,
        mut record: watch::Receiver<Option<u64>>,
    ) {
        let mut written: Option<(CutRecord, LeaseId)> = None;
        loop {
            let Some(number) = *record.borrow_and_update() else {
                if record.changed().await.is_err() {
                    return;
                }
                tokio::time::sleep(CORES).await;
                continue;
            };
            if let Some((slot, lease)) = self.context.leadership.seat() {
                let told = self.acknowledged_in(&group);
                let acknowledged = told.map(|position| position.to_string());
                let cut = CutRecord {
                    number,
                    acknowledged,
                };
                let wanted = (cut, lease);
                if written.as_ref() != Some(&wanted) {
                    let value = json(&wanted.0);
                    let key = cut_key(&group, slot);
                    let cut = Transaction::new().put_leased(&key, &value, lease);
                    if self.context.store().commit(cut).await.is_ok() {
                        written = Some(wanted);
                    }
                }
            }
            // Another record is answered at once.
            tokio::select! {
                changed = record.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }
}
