//! The control plane itself: its state, its loops, its shutdown.
//!
//! Tasks, all owned by [`Control::run`]: one probe loop per server, one pulse per group with a
//! follower per replica, one reader of the binlog of each group of which rows are remembered, the accounts loop, the store's watch, the restorer, the rejoiner,
//! the recovery of transactions over groups with a task for each, one task per job, and one short task per command that runs.
//!
//! Lock order: `changing` (held over a whole command that changes the farm), then `state`, then
//! `events`. `state` and `events` are never held over an await.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwap;
use farm::rowcache::RowCache;
use farm::{
    Accounts, Container, Containers, Interest, Published, Snapshot, Status, TableClocks,
    WritesByClient,
};
use meta::{Outcome, Store, Transaction};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

use crate::admin::WarmLinks;
use crate::aside::Aside;
use crate::commander::{Commander, Queues, Request};
use crate::commands::{Arguments, Call, CommandError, DoneBy, Table};
use crate::configuration::Current;
use crate::crossing::Crossings;
use crate::editing::TRIES;
use crate::error::Error;
use crate::events::{Event, Ring};
use crate::failover::{Told, shown_acks, with_status};
use crate::jobs::{Job, Jobs, State as JobState};
use crate::office::Office;
use crate::peers::Roster;
use crate::picture::Sight;
use crate::probes::Seen;
use crate::record::Records;
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::sharding::Layout;
use crate::sharding::catalog::Tables;
use crate::standing::Standing;
use crate::supervision::Queue;
use crate::trail::Trail;
use crate::{identity, peers, picture};

/// Counters since the start, for metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Events by kind.
    pub events: Vec<(&'static str, u64)>,
    pub commands: u64,
    pub commands_failed: u64,
    pub probes: u64,
    pub probes_failed: u64,
    /// Changes of primary by cause.
    pub failovers: Vec<(&'static str, u64)>,
    /// How long clients waited in the last one, in microseconds.
    pub last_pause_us: u64,
    /// Transactions over several groups that were ended for a router: committed, and rolled back.
    pub recovered: [u64; 2],
    /// Those with prepared branches at the last look, whoever ends them.
    pub in_doubt: usize,
    /// Decisions of nobody that were removed.
    pub foreign_decisions: u64,
}

/// The counters as they are counted.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) commands: AtomicU64,
    pub(crate) commands_failed: AtomicU64,
    pub(crate) probes: AtomicU64,
    pub(crate) probes_failed: AtomicU64,
    pub(crate) failovers: Mutex<BTreeMap<&'static str, u64>>,
    pub(crate) last_pause_us: AtomicU64,
}

/// What the loops and commands share.
pub(crate) struct State {
    pub(crate) records: Records,
    pub(crate) seen: HashMap<u32, Seen>,
    pub(crate) standing: Standing,
    /// Where each group's failover machine hears.
    pub(crate) drivers: HashMap<String, mpsc::Sender<Told>>,
    accounts: Arc<Accounts>,
    /// Those that stand in the servers' own tables. Declared ones of the same name count.
    plugin: Vec<Container>,
    pub(crate) configuration: Current,
    pub(crate) layout: Layout,
}

impl State {
    /// All containers, wherever they are declared.
    pub(crate) fn containers(&self) -> Arc<Containers> {
        if self.plugin.is_empty() {
            return Arc::clone(&self.records.containers);
        }
        let declared = self.records.containers.iter().map(|one| (**one).clone());
        Arc::new(Containers::new(declared.chain(self.plugin.iter().cloned())))
    }
}

/// The control plane of one router.
pub struct Control {
    /// Replaced whole; see [`Control::settings`].
    settings: ArcSwap<Settings>,
    pub(crate) sessions: Arc<dyn Sessions>,
    pub(crate) tally: Tally,
    /// Held over a command that changes the farm, so that they run one at a time.
    pub(crate) changing: tokio::sync::Mutex<()>,
    pub(crate) started: Instant,
    pub(crate) interest: Arc<Interest>,
    pub(crate) rows: Arc<RowCache>,
    pub(crate) writes: Arc<WritesByClient>,
    pub(crate) clocks: Arc<TableClocks>,
    pub(crate) warm: WarmLinks,
    pub(crate) aside: Aside,
    pub(crate) crossings: Arc<Crossings>,
    pub(crate) tables: Tables,
    store: Arc<dyn Store>,
    published: Arc<Published>,
    state: Mutex<State>,
    events: Mutex<Ring>,
    /// The set of servers, or where one is, may have changed.
    servers_changed: Notify,
    commander: Commander,
    pub(crate) jobs: Jobs,
    /// Taken by `run`.
    queues: Mutex<Option<Queues>>,
    trail: Mutex<Trail>,
    /// Who leads the farm, as far as this router knows.
    pub(crate) office: Office,
    /// Which routers live and who leads, for who asks them.
    pub(crate) roster: watch::Sender<Arc<Roster>>,
    /// What the store says that this router holds of permits; held over each change of it.
    pub(crate) permits_written: tokio::sync::Mutex<crate::permits::Written>,
    pub(crate) ways: peers::Ways,
    pub(crate) mistaken: crate::mistaken::Mistaken,
    pub(crate) privileges: crate::privileges::Privileges,
}

impl Control {
    /// Reads the farm from the store (making its id in an empty store) and publishes it.
    pub async fn open(
        store: Arc<dyn Store>,
        published: Arc<Published>,
        sessions: Arc<dyn Sessions>,
        settings: Settings,
    ) -> Result<Arc<Control>, Error> {
        let records = Records::load(&*store, &identity::fresh()?).await?;
        let (commander, queues) = Commander::new(settings.membership.is_some());
        let crossings = commander.crossings();
        crossings.keep_key(records.secret.reveal(), &records.farm_id);
        let alone = settings.membership.is_none();
        let control = Control {
            office: Office::new(identity::uuid()?, alone),
            settings: ArcSwap::from_pointee(settings),
            sessions,
            tally: Tally::default(),
            changing: tokio::sync::Mutex::new(()),
            started: Instant::now(),
            interest: Arc::default(),
            rows: Arc::default(),
            writes: Arc::default(),
            clocks: Arc::default(),
            warm: WarmLinks::default(),
            aside: Aside::default(),
            crossings: Arc::clone(commander.crossings()),
            tables: Tables::default(),
            store,
            published,
            state: Mutex::new(State {
                records,
                seen: HashMap::new(),
                standing: Standing::default(),
                drivers: HashMap::new(),
                accounts: Arc::default(),
                plugin: Vec::new(),
                configuration: Current::default(),
                layout: Layout::default(),
            }),
            events: Mutex::new(Ring::default()),
            servers_changed: Notify::new(),
            commander,
            jobs: Jobs::new(),
            queues: Mutex::new(Some(queues)),
            trail: Mutex::default(),
            roster: watch::Sender::default(),
            permits_written: tokio::sync::Mutex::default(),
            ways: peers::Ways::default(),
            mistaken: Default::default(),
            privileges: Default::default(),
        };
        control.state().lay_out();
        // Who cannot follow the configuration must not be taken for a router of the farm.
        control.begin_with_version().await?;
        control.join_the_others().await?;
        control.publish();
        Ok(Arc::new(control))
    }

    /// Runs all loops and serves the commanders until `shutdown` is ready. Commands that run then are
    /// finished, those that wait are refused; when it returns, every task of the control plane has
    /// ended.
    ///
    /// # Panics
    /// When called a second time.
    pub async fn run(self: Arc<Self>, shutdown: impl Future<Output = ()>) {
        let queues = lock(&self.queues).take();
        let Queues {
            mut calls,
            askers,
            lost,
            mut suspects,
        } = queues.expect("the control plane is run once");
        let mut jobs_waiting = self.jobs.waiting().expect("the control plane is run once");
        let mut loops = JoinSet::new();
        let mut jobs = JoinSet::new();
        let mut commands = JoinSet::new();
        let mut probes: HashMap<u32, AbortHandle> = HashMap::new();
        let mut pulses: HashMap<String, AbortHandle> = HashMap::new();
        self.start_loops(&mut loops);
        let askers: Queue<_> = Arc::new(tokio::sync::Mutex::new(askers));
        let begin = move |control: Arc<Control>| control.refresh_accounts(Arc::clone(&askers));
        loops.spawn(Arc::clone(&self).keep_running("refresh_accounts", String::new(), begin));
        let lost: Queue<_> = Arc::new(tokio::sync::Mutex::new(lost));
        let begin = move |control: Arc<Control>| control.settle_lost(Arc::clone(&lost));
        loops.spawn(Arc::clone(&self).keep_running("settle_lost", String::new(), begin));
        tokio::pin!(shutdown);
        loop {
            self.watch_servers(&mut loops, &mut probes);
            self.watch_groups(&mut loops, &mut pulses);
            tokio::select! {
                () = &mut shutdown => break,
                () = self.servers_changed.notified() => {}
                Some(request) = calls.recv() => {
                    commands.spawn(Arc::clone(&self).serve_once(request));
                }
                Some(job) = jobs_waiting.recv() => {
                    jobs.spawn(Arc::clone(&self).carry_out_once(job));
                }
                Some(_) = jobs.join_next() => {}
                Some((server, sign)) = suspects.recv() => self.doubt(server.0, sign),
                // Ended commands are taken out as they end; a probe's end is noticed above.
                Some(_) = commands.join_next() => {}
            }
        }
        calls.close();
        loops.shutdown().await;
        self.say_farewell().await;
        self.end_jobs(jobs, jobs_waiting).await;
        while commands.join_next().await.is_some() {}
        while let Some(request) = calls.recv().await {
            request.refuse("the router is shutting down; try another one");
        }
    }

    pub(crate) async fn serve(self: Arc<Self>, request: Request) {
        match request {
            Request::Command(call, reply) => reply(self.execute_once(call).await),
            Request::Read(call, reply) => self.read_for(call, reply).await,
            Request::Sessions(reply) => reply(self.sessions_elsewhere().await),
            Request::Kill(kill, reply) => reply(self.kill_elsewhere(&kill).await),
            Request::Permit(account, limit, reply) => reply(self.permit(&account, limit).await),
            Request::Crossing(asked) => self.answer_session(asked).await,
            Request::Ids(wanted, reply) => reply(self.take_ids(&wanted).await),
        }
    }

    /// Aborts what runs, so that the commands that wait for it end.
    async fn end_jobs(
        &self,
        mut running: JoinSet<()>,
        mut waiting: mpsc::UnboundedReceiver<Arc<Job>>,
    ) {
        waiting.close();
        while let Some(job) = waiting.recv().await {
            job.end(JobState::Aborted);
        }
        for job in self.jobs.list() {
            job.abort();
        }
        while running.join_next().await.is_some() {}
    }

    /// Carries one command out. Commands that change the farm wait for each other.
    pub async fn execute(&self, call: Call) -> Result<Table, CommandError> {
        self.tally.commands.fetch_add(1, Relaxed);
        let answer = self.execute_uncounted(&call).await;
        if let Err(error) = &answer {
            self.tally.commands_failed.fetch_add(1, Relaxed);
            tracing::debug!(command = %format_args!("{} {}", call.group, call.command), "{error}");
        }
        answer
    }

    async fn execute_uncounted(&self, call: &Call) -> Result<Table, CommandError> {
        if call.from_peer && call.group == peers::sessions::GROUP {
            return self.answer_peer(call).await;
        }
        call.check()?;
        let spec = call.spec()?;
        let arguments = Arguments::resolve(spec, call)?;
        if spec.done_by == DoneBy::Every && !call.from_peer {
            return self.over_farm(spec.verb, &arguments, call).await;
        }
        if spec.done_by == DoneBy::Leader
            && let Some(answer) = self.have_leader(call).await
        {
            return answer;
        }
        let _one_at_a_time = match spec.changes && !spec.verb.takes_turns() {
            true => Some(self.changing.lock().await),
            false => None,
        };
        for _ in 1..TRIES {
            // The farm itself changes records, too. The command reads and checks them anew.
            match self.dispatch(spec.verb, &arguments).await {
                Err(CommandError::Stale) => {}
                other => return other,
            }
        }
        self.dispatch(spec.verb, &arguments).await
    }

    /// A handle for other threads.
    pub fn commander(&self) -> Commander {
        self.commander.clone()
    }

    /// The farm with the newest GTID positions, which alone do not make a new snapshot.
    pub fn snapshot(&self) -> Snapshot {
        self.picture(&lock(&self.state), self.published.load().epoch)
    }

    /// The last events, oldest first.
    pub fn events(&self) -> Vec<Event> {
        lock(&self.events).list()
    }

    /// What was counted since the start.
    pub fn counters(&self) -> Counters {
        Counters {
            events: lock(&self.events).counts(),
            commands: self.tally.commands.load(Relaxed),
            commands_failed: self.tally.commands_failed.load(Relaxed),
            probes: self.tally.probes.load(Relaxed),
            probes_failed: self.tally.probes_failed.load(Relaxed),
            failovers: lock(&self.tally.failovers)
                .iter()
                .map(|(&cause, &count)| (cause, count))
                .collect(),
            last_pause_us: self.tally.last_pause_us.load(Relaxed),
            recovered: self.crossings.ended(),
            in_doubt: self.crossings.shown().len(),
            foreign_decisions: self.crossings.foreign(),
        }
    }

    /// Probes every server now instead of at its next turn: for callers that just saw one fail or
    /// come back.
    pub fn probe_now(&self) {
        for seen in lock(&self.state).seen.values() {
            seen.wake.notify_one();
        }
    }

    /// Remembers what happened to the router's own configuration.
    pub fn note(&self, kind: &'static str, detail: String) {
        self.happened(Event::now(kind, "", detail));
    }

    /// Counts a change of primary.
    pub(crate) fn count_failover(&self, cause: &'static str) {
        *lock(&self.tally.failovers).entry(cause).or_default() += 1;
    }

    /// What the control plane goes by now. The farm's configuration may replace it at any time, so
    /// whoever loops asks anew in each round.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    pub(crate) fn set_settings(&self, settings: Settings) {
        self.settings.store(Arc::new(settings));
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Where primaries were.
    pub(crate) fn trail(&self) -> MutexGuard<'_, Trail> {
        lock(&self.trail)
    }

    /// The farm as it was last published.
    pub(crate) fn snapshot_now(&self) -> Arc<Snapshot> {
        self.published.load_full()
    }

    pub(crate) fn happened(&self, event: Event) {
        if let Some(listener) = &self.settings().listener {
            listener.happened(&event);
        }
        lock(&self.events).push(event);
    }

    /// Writes a change of the farm, then reads the farm again and publishes it.
    pub(crate) async fn commit(&self, transaction: Transaction) -> Result<(), CommandError> {
        let outcome = self.store.commit(self.by_right(transaction)?).await?;
        self.reload().await?;
        match outcome {
            Outcome::Applied(_) => Ok(()),
            Outcome::Stale => Err(CommandError::Stale),
        }
    }

    /// Takes over what the store says.
    pub(crate) async fn reload(&self) -> Result<(), CommandError> {
        let records = Records::read(&*self.store)
            .await
            .map_err(|error| CommandError::Internal(error.to_string()))?;
        let version = self.newer_version(&records).await;
        let mut state = lock(&self.state);
        // A reading that began earlier may end later.
        if records.revision < state.records.revision {
            return Ok(());
        }
        let happened = records.events_since(&state.records);
        state.seen.retain(|id, _| records.servers.contains_key(id));
        self.privileges
            .retain(|id| records.servers.contains_key(&id));
        state.records = records;
        state.keep_ahead();
        if let Some(which) = state.lay_out() {
            self.tables.want(which);
        }
        let configured = version.and_then(|version| self.take_version(&mut state, version));
        let groups: Vec<String> = state.drivers.keys().cloned().collect();
        drop(state);
        happened.into_iter().for_each(|event| self.happened(event));
        if let Some(event) = configured {
            self.happened(event);
            self.configured();
        }
        self.servers_changed.notify_one();
        self.publish();
        for group in groups {
            self.tell_driver(&group, Told::Members);
        }
        Ok(())
    }

    /// Replaces the snapshot if more than GTID positions changed.
    pub(crate) fn publish(&self) {
        // Under the lock, so that epochs and pictures are in the same order.
        let state = lock(&self.state);
        let old = self.published.load();
        let mut new = self.picture(&state, old.epoch + 1);
        if old.epoch == 0 || !picture::same_but_gtids(&old, &new) {
            new.turnover = Arc::clone(&old.turnover);
            new.turnover.note(&old, &new);
            self.published.store(Arc::new(new));
        }
    }

    /// Takes over what stands in the servers' own tables, and publishes it if it differs.
    pub(crate) fn set_accounts(&self, accounts: Accounts, plugin: Vec<Container>) {
        let mut state = lock(&self.state);
        if *state.accounts == accounts && state.plugin == plugin {
            return;
        }
        state.accounts = Arc::new(accounts);
        state.plugin = plugin;
        drop(state);
        self.publish();
    }

    fn picture(&self, state: &State, epoch: u64) -> Snapshot {
        let sights = state.seen.iter().map(|(&id, seen)| {
            let sight = Sight {
                health: state.standing.shown(id, &seen.health),
                fresh: Arc::clone(&seen.fresh),
                term: state.standing.term(id),
            };
            (id, sight)
        });
        let sights: HashMap<u32, Sight> = sights.collect();
        let wait_ms = self.settings().last_replica_wait_ms;
        let acks = |group: &str| shown_acks(state, group, wait_ms);
        Snapshot {
            interest: Arc::clone(&self.interest),
            rows: Arc::clone(&self.rows),
            writes: Arc::clone(&self.writes),
            clocks: Arc::clone(&self.clocks),
            sharding: state.layout.sharding(),
            containers: state.containers(),
            ..picture::snapshot(
                &state.records,
                &sights,
                &state.standing,
                acks,
                &state.accounts,
                epoch,
                self.started,
            )
        }
    }

    /// The state store.
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }
}

impl State {
    /// A change of primary that is published stays so, though the store does not have it yet.
    fn keep_ahead(&mut self) {
        for (group, leader) in self.standing.ahead() {
            let members = self.records.servers.iter_mut();
            for (&id, kept) in members.filter(|(_, kept)| kept.value.group == group) {
                let status = match kept.value.status {
                    _ if leader == Some(id) => Status::Primary,
                    Status::Primary => Status::Replica,
                    other => other,
                };
                kept.value = with_status(&kept.value, status);
            }
        }
    }
}

/// Takes a lock whose data stays whole even if a holder panicked: each step leaves it valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
