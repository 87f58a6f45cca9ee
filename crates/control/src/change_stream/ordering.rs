//! One order over all groups for one stream: whose turn it is, and what of transactions over several groups waits for it.
//!
//! The decisions are those of [`machines::order`]. Beside them stand the branches, until they have ended: whoever
//! tells a transaction tells what other groups' logs have of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use changes::{BranchStep, Ended, Gtid, Logged, Parts, Token, Xid};
use engine::decisions::Decision;
use farm::dist_txn::{Branch, GlobalId, farm_number};
use farm::{Position, Snapshot};
use machines::order::{Next, Order, Turn};
use tokio::sync::watch;

use super::clock::Clock;

/// Whoever waits for less does not say so.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) struct Ordering {
    state: Mutex<State>,
    /// Something was passed over or told, or a log has something next.
    news: watch::Sender<()>,
    clock: Arc<Clock>,
}

struct State {
    order: Order<GlobalId>,
    branches: BTreeMap<(GlobalId, String), BranchParts>,
    /// Decided transactions that were told: the group that decided, and what had been told of it before.
    decided: BTreeMap<GlobalId, (String, Position)>,
    /// By group what was told of it since its snapshot was looked at, where it has one that is not complete.
    notes: HashMap<String, Vec<Parts>>,
    moved_at: Instant,
}

/// What a branch did.
#[derive(Clone)]
pub(super) struct BranchParts {
    /// The transaction that prepared it.
    pub(super) gtid: Gtid,
    pub(super) logged: Logged,
    pub(super) parts: Parts,
}

impl Ordering {
    /// For the groups of a stream; those that the token has go on there.
    pub(super) fn new(token: &Token, groups: &BTreeSet<String>, clock: &Arc<Clock>) -> Ordering {
        let places = token.places.iter();
        let places = places.filter_map(|place| Some((place.group.clone(), place.clock?)));
        let places: Vec<_> = places.collect();
        let mut order = match places.is_empty() {
            true => Order::begin(groups.iter().map(String::as_str)),
            false => Order::resume(places),
        };
        groups.iter().for_each(|group| order.join(group));
        Ordering {
            state: Mutex::new(State {
                order,
                branches: BTreeMap::new(),
                decided: BTreeMap::new(),
                notes: HashMap::new(),
                moved_at: Instant::now(),
            }),
            news: watch::Sender::new(()),
            clock: Arc::clone(clock),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes whoever waits for his turn.
    pub(super) fn news(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    pub(super) fn join(&self, group: &str) {
        self.state().order.join(group);
        self.news.send_replace(());
    }

    pub(super) fn leave(&self, group: &str) {
        self.state().order.leave(group);
        self.news.send_replace(());
    }

    /// The number of the group's logical clock, for a token; `None` before the group is told.
    pub(super) fn place(&self, group: &str) -> Option<u64> {
        self.state().order.place(group)
    }

    /// What the group's primary shows as decided when the reading begins.
    pub(super) fn know(&self, group: &str, decided: Vec<Decision>, farm: &Snapshot) {
        let mut state = self.state();
        for decision in decided {
            let groups = groups_of(&decision.groups, group, farm);
            state.order.early(group, decision.id.of_heddle(), groups);
        }
    }

    /// Has the clock raised, if that is what is missing.
    pub(super) fn want(&self) {
        let wish = self.state().order.wish();
        if let Some(wish) = wish {
            self.clock.want(wish);
        }
    }

    /// What was told before, or comes before the beginning.
    pub(super) fn replay(&self, group: &str, ended: &Ended, before: &Position, farm: &Snapshot) {
        let next = self.next_of(group, ended, farm);
        let mut state = self.state();
        if let Next::Decided(id, _) = &next {
            let told = (group.to_owned(), before.clone());
            state.decided.insert(*id, told);
        }
        let ends = ended_branch(&next);
        state.order.replay(group, next);
        state.forget(group, ends);
    }

    /// All of the group that was told has been replayed.
    pub(super) fn ready(&self, group: &str) {
        let mut state = self.state();
        state.order.ready(group);
        state.forget_decided();
        drop(state);
        self.news.send_replace(());
    }

    /// The group's log has this next.
    pub(super) fn arrive(&self, group: &str, ended: &Ended, farm: &Snapshot) -> Next<GlobalId> {
        let next = self.next_of(group, ended, farm);
        self.state().order.arrive(group, next.clone());
        self.news.send_replace(());
        next
    }

    /// The log is read once more.
    pub(super) fn withdraw(&self, group: &str) {
        self.state().order.withdraw(group);
    }

    pub(super) fn turn(&self, group: &str) -> Option<Turn> {
        self.state().order.turn(group)
    }

    /// It was passed over or told; `before` is what had been told of the group.
    pub(super) fn pass(&self, group: &str, what: &Next<GlobalId>, before: &Position) {
        let mut state = self.state();
        state.order.pass(group);
        if let Next::Decided(id, _) = what {
            let told = (group.to_owned(), before.clone());
            state.decided.insert(*id, told);
        }
        state.forget(group, ended_branch(what));
        if matches!(what, Next::Tick(_) | Next::Ended(..) | Next::Decided(..)) {
            state.forget_decided();
        }
        if !matches!(what, Next::Tick(_) | Next::Silent) {
            state.moved_at = Instant::now();
        }
        drop(state);
        self.news.send_replace(());
    }

    /// What a branch did that is prepared in the log of this group.
    pub(super) fn branch(&self, id: &GlobalId, group: &str) -> Option<BranchParts> {
        let state = self.state();
        state.branches.get(&(*id, group.to_owned())).cloned()
    }

    /// Where a reading of the group begins that finds every decision whose branches have not ended.
    pub(super) fn oldest(&self, group: &str, position: &Position) -> Option<Position> {
        let state = self.state();
        let mut before = state.decided.values().filter(|it| it.0 == group);
        let first = before.next()?.1.meet(position);
        Some(before.fold(first, |oldest, (_, next)| oldest.meet(next)))
    }

    /// The groups that hold up everything, if they have for a while.
    pub(super) fn late(&self) -> Vec<String> {
        let state = self.state();
        if state.moved_at.elapsed() < PATIENCE {
            return Vec::new();
        }
        let groups = state.order.waits_for();
        groups.into_iter().map(str::to_owned).collect()
    }

    /// Keeps what is told of the group by others from here on, for its snapshot, or does not any more.
    pub(super) fn take_notes(&self, group: &str, is_wanted: bool) -> Vec<Parts> {
        let mut state = self.state();
        let taken = state.notes.remove(group).unwrap_or_default();
        if is_wanted {
            state.notes.insert(group.to_owned(), Vec::new());
        }
        taken
    }

    /// A branch of the group is told.
    pub(super) fn note(&self, group: &str, parts: &Parts) {
        if let Some(notes) = self.state().notes.get_mut(group) {
            notes.push(parts.clone());
        }
    }

    /// Branches of the group that were told, and that its server may not show yet.
    pub(super) fn told_branches(&self, group: &str) -> Vec<Parts> {
        let state = self.state();
        let own = state.branches.iter().filter(|((id, of), _)| {
            of == group && state.order.is_behind(id) && state.order.is_prepared(group, id)
        });
        own.map(|(_, branch)| branch.parts.clone()).collect()
    }

    /// What an ended transaction is for the order. A branch's deeds are kept.
    fn next_of(&self, group: &str, ended: &Ended, farm: &Snapshot) -> Next<GlobalId> {
        if let Some(number) = ended.own.clock {
            return Next::Tick(number);
        }
        let of_farm = farm_number(&farm.farm_id);
        let own = |xid: &Xid| {
            let format = u64::from(xid.format as u32);
            let branch = Branch::read(format, &xid.transaction, &xid.branch)?;
            (branch.id.farm == of_farm).then_some(branch.id.of_heddle())
        };
        match &ended.branch {
            Some(BranchStep::Prepared(xid, parts)) => {
                let Some(id) = own(xid) else {
                    return Next::Silent;
                };
                let branch = BranchParts {
                    gtid: ended.gtid.clone(),
                    logged: ended.logged,
                    parts: parts.clone(),
                };
                let name = (id, group.to_owned());
                self.state().branches.insert(name, branch);
                return Next::Prepared(id);
            }
            Some(BranchStep::RolledBack(xid)) => {
                return own(xid).map_or(Next::Silent, Next::RolledBack);
            }
            None => {}
        }
        if let Some(decision) = &ended.own.decision
            && decision.id.farm == of_farm
        {
            let groups = groups_of(&decision.branches, group, farm);
            return Next::Decided(decision.id.of_heddle(), groups);
        }
        if let Some(id) = ended.xid.as_ref().and_then(own) {
            let by = name_of(id.coordinator, farm);
            return Next::Ended(id, by.unwrap_or_default());
        }
        match ended.own.has_others {
            true => Next::Whole,
            false => Next::Silent,
        }
    }
}

impl State {
    /// Forgets what a branch did that has ended.
    fn forget(&mut self, group: &str, id: Option<GlobalId>) {
        if let Some(id) = id {
            self.branches.remove(&(id, group.to_owned()));
        }
    }

    /// Forgets decisions all of whose branches have ended.
    fn forget_decided(&mut self) {
        let order = &self.order;
        self.decided.retain(|id, _| order.is_behind(id));
    }
}

/// The name of a group by its number.
fn name_of(number: u32, farm: &Snapshot) -> Option<String> {
    let mut groups = farm.groups.iter().filter(|_| number > 0);
    let found = groups.find(|it| it.number == number);
    found.map(|it| it.name.to_string())
}

/// The names of the groups of branches, without the one that decided.
fn groups_of(numbers: &[u32], but: &str, farm: &Snapshot) -> BTreeSet<String> {
    let names = numbers.iter().filter_map(|it| name_of(*it, farm));
    names.filter(|it| it != but).collect()
}

fn ended_branch(next: &Next<GlobalId>) -> Option<GlobalId> {
    match next {
        Next::Ended(id, _) | Next::RolledBack(id) => Some(*id),
        _ => None,
    }
}
