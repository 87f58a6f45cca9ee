//! The loop of recovery: who has prepared branches, which of them are due, and their tasks.

use super::TxnRecovery;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Prepared, decisions};
use farm::dist_txn::{Branch, GlobalId, Verdict, farm_number};
use farm::{Group, GroupKind, ServerId};
use faults::Chore;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, Id, JoinSet};

use super::judge::Found;
use super::{DistTxns, Order, Shown, State, lock, note, now_ms};
use crate::links::warm::WarmLinks;
use crate::pace;
use catalog::event::Event;

/// How soon it is looked, once the farm has changed, whether a group has another primary.
pub(super) const LOOK_WITHIN: Duration = Duration::from_millis(50);

/// A look waits for primaries for so many times as long as a probe may take: one to be let in, one for the answer.
const PROBES: u32 = 2;

/// Transactions that are ended at once; others wait for their turn.
const CASES_MAX: usize = 32;

/// Branches of one transaction that wait to be taken up.
const BRANCHES_MAX: usize = 64;

/// Rows are swept once in so many looks.
const SWEEP_EVERY: u64 = 5;

/// A transaction that is being ended.
struct Running {
    found: mpsc::Sender<Found>,
    task: AbortHandle,
}

/// What the loop knows.
#[derive(Default)]
struct Round {
    /// When each branch was seen first, and how often since.
    seen: HashMap<Branch, (Instant, u32)>,
    running: HashMap<GlobalId, Running>,
    by_task: HashMap<Id, GlobalId>,
    waiting: VecDeque<Order>,
    tasks: JoinSet<Option<Verdict>>,
    /// Ended since the last telling: committed, and rolled back.
    ended: [u64; 2],
    /// What was told of each group whose primary does not list its branches.
    told: BTreeMap<String, String>,
    /// Primaries that have the tables.
    made: HashSet<(u32, ServerId)>,
    looks: u64,
    /// Questions that are under way: by group the server that is asked for its branches.
    asking: HashMap<String, ServerId>,
    asked: JoinSet<(String, ServerId, Result<Prepared, engine::Error>)>,
    /// The sweep that is under way.
    sweeping: JoinSet<()>,
}

impl TxnRecovery {
    /// Ends what nobody else ends, for as long as the control plane runs.
    pub(crate) async fn recover_dist_txns(self: Arc<Self>) {
        let mut orders = self.dist_txns.queue.lock().await;
        let mut round = Round::default();
        let mut primaries = Vec::new();
        let mut next = Instant::now();
        loop {
            let now = self.primaries();
            if now != primaries || Instant::now() >= next {
                primaries = now;
                next = Instant::now()
                    + Duration::from_millis(
                        self.context.settings().txn_recovery.crossing_interval_ms,
                    );
                self.look_round(&mut round).await;
            }
            self.start_waiting(&mut round);
            tokio::select! {
                Some(order) = orders.recv() => round.waiting.push_back(order),
                Some(ended) = round.tasks.join_next_with_id() => {
                    let (task, verdict) = match ended {
                        Ok((task, verdict)) => (task, verdict),
                        // Aborted by force, or it panicked: the next look finds what is left.
                        Err(error) => (error.id(), None),
                    };
                    self.count(&mut round, task, verdict);
                }
                () = self.farm_changed() => {}
                () = tokio::time::sleep_until(next.into()) => {}
            }
        }
    }

    /// Ends a moment after another snapshot was published: a change of primary has other things to do first.
    async fn farm_changed(&self) {
        self.context.snapshot_changed.notified().await;
        pace::next_look(self.context.started, LOOK_WITHIN).await;
    }

    /// Each group's primary that takes writes.
    fn primaries(&self) -> Vec<(u32, ServerId, u32)> {
        let snapshot = self.context.snapshot_now();
        let groups = snapshot.groups.iter();
        let place = |group: &Arc<Group>| {
            let (_, id) = self.writable(|it| it.number == group.number)?;
            Some((group.number, id, group.server(id)?.term))
        };
        groups.filter_map(place).collect()
    }

    /// Asks all primaries at once for their branches, and takes up what is due. A primary that does not say soon is heard
    /// in a later look, without being asked anew.
    async fn look_round(self: &Arc<Self>, round: &mut Round) {
        Chore::Recovery.pass();
        let (mut silent, mut fresh) = self.ask_all(round);
        self.make_tables(round).await;
        let mut lists: Vec<(String, Prepared)> = Vec::new();
        let probe_ms = self.context.settings().observation.probe_timeout_ms;
        let soon = tokio::time::Instant::now() + Duration::from_millis(probe_ms) * PROBES;
        loop {
            let answer = match round.asked.try_join_next() {
                None if fresh.is_empty() => None,
                None => {
                    let next = tokio::time::timeout_at(soon, round.asked.join_next()).await;
                    next.ok().flatten()
                }
                answered => answered,
            };
            let Some(answer) = answer else { break };
            let Ok((group, server, answer)) = answer else {
                // It panicked, nobody knows for which group.
                round.asking.clear();
                continue;
            };
            // Another primary has been asked since.
            if round.asking.get(&group) != Some(&server) {
                continue;
            }
            round.asking.remove(&group);
            fresh.remove(&group);
            match answer {
                Ok(list) => {
                    round.told.remove(&group);
                    lists.push((group, list));
                }
                Err(error) => {
                    self.tell_silent(round, &group, &error);
                    silent.insert(group);
                }
            }
        }
        silent.extend(round.asking.keys().cloned());
        let held = self.held(&lists).await;
        self.sort(round, &lists, &silent, &held);
        round.looks += 1;
        // It may wait for replicas, and nothing here waits for it.
        let _ = round.sweeping.try_join_next();
        if round.looks.is_multiple_of(SWEEP_EVERY) && round.sweeping.is_empty() {
            let recovery = Arc::clone(self);
            round.sweeping.spawn(async move { recovery.sweep().await });
        }
    }

    /// Asks each primary that is not being asked already. Gives the groups that have none, and those that are asked now.
    fn ask_all(self: &Arc<Self>, round: &mut Round) -> (HashSet<String>, HashSet<String>) {
        let (mut silent, mut fresh) = (HashSet::new(), HashSet::new());
        for group in &self.context.snapshot_now().groups {
            // A cluster has no XA; it can only decide.
            if group.kind != GroupKind::Replication {
                continue;
            }
            let name = group.name.to_string();
            let Some((_, server)) = self.writable(|it| it.number == group.number) else {
                round.asking.remove(&name);
                silent.insert(name);
                continue;
            };
            if round.asking.insert(name.clone(), server) != Some(server) {
                fresh.insert(name.clone());
                let recovery = Arc::clone(self);
                round.asked.spawn(async move {
                    let timeout_ms = recovery.context.settings().step_timeout_ms;
                    let links = &recovery.dist_txns.looks;
                    let answer = recovery.list_at(server, links, timeout_ms).await;
                    (name, server, answer)
                });
            }
        }
        (silent, fresh)
    }

    /// What a group's primary lists; `None` where there is none that takes writes.
    pub(super) async fn list_group(&self, name: &str) -> Result<Option<Prepared>, engine::Error> {
        let Some((_, server)) = self.writable(|group| *group.name == *name) else {
            return Ok(None);
        };
        let timeout_ms = self.context.settings().observation.probe_timeout_ms;
        let listed = self.list_at(server, &self.dist_txns.links[0], timeout_ms);
        listed.await.map(Some)
    }

    async fn list_at(
        &self,
        server: ServerId,
        links: &WarmLinks,
        timeout_ms: u64,
    ) -> Result<Prepared, engine::Error> {
        let farm = farm_number(&self.context.snapshot_now().farm_id);
        let mut link = self.links.lend_within(links, server.0, timeout_ms).await?;
        let answer = engine::prepared(&mut link, farm, timeout_ms).await;
        link.keep(answer)
    }

    /// Sees to it that each group can decide, once there are several.
    async fn make_tables(self: &Arc<Self>, round: &mut Round) {
        let primaries = self.primaries();
        if self.context.snapshot_now().groups.len() < 2 {
            return;
        }
        for (number, server, _) in primaries {
            if round.made.contains(&(number, server)) {
                continue;
            }
            let Ok(mut link) = self.lend(server).await else {
                continue;
            };
            let farm = farm_number(&self.context.snapshot_now().farm_id);
            let (key, timeout_ms) = (
                self.dist_txns.key(),
                self.context.settings().step_timeout_ms,
            );
            let answer = decisions::make(&mut link, farm, key, timeout_ms).await;
            if link.keep(answer).is_ok() {
                round.made.insert((number, server));
            }
        }
    }

    fn tell_silent(&self, round: &mut Round, group: &str, error: &engine::Error) {
        let text = error.to_string();
        // A server that does not answer is told of by others.
        if error.number().is_none() || round.told.get(group) == Some(&text) {
            return;
        }
        let detail = format!("the prepared transactions of group {group} cannot be listed: {text}");
        self.context
            .happened(Event::now("transactions_unlisted", group, detail));
        round.told.insert(group.to_owned(), text);
    }

    /// Shows what is in doubt, and queues what is due.
    fn sort(
        &self,
        round: &mut Round,
        lists: &[(String, Prepared)],
        silent: &HashSet<String>,
        held: &HashSet<GlobalId>,
    ) {
        let now = Instant::now();
        let listed: HashSet<Branch> = lists
            .iter()
            .flat_map(|(_, list)| list.ours.iter().copied())
            .collect();
        round.seen.retain(|branch, _| listed.contains(branch));
        let mut due: BTreeMap<GlobalId, Vec<(String, Branch)>> = BTreeMap::new();
        for (group, list) in lists {
            for branch in &list.ours {
                let seen = round.seen.entry(*branch).or_insert((now, 0));
                seen.1 = match self.dist_txns.is_undertaken(&branch.id) {
                    true => 0,
                    false => seen.1 + 1,
                };
                self.dist_txns.show(group, *branch);
                if held.contains(&branch.id) {
                    // When its client has decided, its router has the first turn.
                    *seen = (now, 0);
                    continue;
                }
                if self.is_due(branch, now.duration_since(seen.0), seen.1) {
                    let found = due.entry(branch.id).or_default();
                    found.push((group.clone(), *branch));
                }
            }
        }
        // What its router ended is in doubt no more.
        self.dist_txns.shown().retain(|id, shown| {
            shown.branches.retain(|branch, group| {
                listed.contains(branch) || silent.contains(group) || round.running.contains_key(id)
            });
            !shown.branches.is_empty()
        });
        let orders = due.into_iter().map(|(id, branches)| Order {
            id,
            verdict: None,
            by_force: false,
            branches,
        });
        let waits = |order: &Order| round.waiting.iter().any(|it| it.id == order.id);
        let fresh: Vec<Order> = orders.filter(|order| !waits(order)).collect();
        round.waiting.extend(fresh);
    }

    /// Whether a listed branch is nobody's any more.
    fn is_due(&self, branch: &Branch, seen_for: Duration, looks: u32) -> bool {
        let (router, own) = (branch.id.router, self.dist_txns.life());
        if self.dist_txns.is_undertaken(&branch.id) {
            // It was named before the router had its slot.
            return false;
        }
        if router == own {
            // At the first look after it was left it may have ended behind the list.
            return looks > 1;
        }
        if router.slot == own.slot && router.started_ms < own.started_ms {
            return true;
        }
        seen_for >= Duration::from_millis(self.context.settings().txn_recovery.crossing_grace_ms)
    }

    fn start_waiting(self: &Arc<Self>, round: &mut Round) {
        let mut later = VecDeque::new();
        while let Some(order) = round.waiting.pop_front() {
            if order.by_force
                && let Some(running) = round.running.remove(&order.id)
            {
                running.task.abort();
            }
            if let Some(running) = round.running.get(&order.id) {
                for (group, branch) in order.branches {
                    // What a full queue does not take is found again.
                    let _ = running.found.try_send(Found { group, branch });
                }
                continue;
            }
            if round.running.len() >= CASES_MAX {
                later.push_back(order);
                continue;
            }
            self.start(round, order);
        }
        round.waiting = later;
    }

    fn start(self: &Arc<Self>, round: &mut Round, order: Order) {
        let (sender, found) = mpsc::channel(BRANCHES_MAX);
        for (group, branch) in order.branches {
            self.dist_txns.show(&group, branch);
            let _ = sender.try_send(Found { group, branch });
        }
        note(self, &order.id, |shown| {
            shown.state = State::Recovering;
            shown.verdict = order.verdict;
        });
        let work = Arc::clone(self).judge(order.id, order.verdict, found);
        let task = round.tasks.spawn(work);
        round.by_task.insert(task.id(), order.id);
        let running = Running {
            found: sender,
            task,
        };
        round.running.insert(order.id, running);
    }

    /// A task has ended.
    fn count(&self, round: &mut Round, task: Id, verdict: Option<Verdict>) {
        let Some(id) = round.by_task.remove(&task) else {
            return;
        };
        // One that was given up by force has a successor.
        if round
            .running
            .get(&id)
            .is_some_and(|it| it.task.id() == task)
        {
            round.running.remove(&id);
        }
        let Some(verdict) = verdict else { return };
        self.dist_txns.shown().remove(&id);
        tracing::info!(%id, verdict = verdict.name(), "a transaction over several groups was ended");
        let (at, counter) = match verdict {
            Verdict::Commit => (0, &self.dist_txns.committed),
            Verdict::Abort => (1, &self.dist_txns.rolled_back),
        };
        counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        round.ended[at] += 1;
        if round.running.is_empty() && round.waiting.is_empty() {
            let [committed, rolled_back] = std::mem::take(&mut round.ended);
            let detail = format!(
                "transactions over several groups that nobody ended: {committed} committed, \
                 {rolled_back} rolled back"
            );
            self.context
                .happened(Event::now("transactions_recovered", "", detail));
        }
    }
}

impl DistTxns {
    /// Shows a branch that stands prepared, or may.
    pub(super) fn show(&self, group: &str, branch: Branch) {
        let mut shown = lock(&self.shown);
        let shown = shown.entry(branch.id).or_insert_with(|| Shown {
            branches: BTreeMap::new(),
            state: State::Watched,
            verdict: None,
            since_ms: now_ms(),
            waits_for: String::new(),
        });
        shown.branches.insert(branch, group.to_owned());
    }
}
