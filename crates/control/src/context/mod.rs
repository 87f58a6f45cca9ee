//! What all parts of the control plane share: the state store, the settings, the state, the events and the clock.
//!
//! Job: one change of the farm is written by [`Context::commit`], read back and published; whoever acts asks
//! here what the farm is now.
//!
//! Invariants: the state store is written before the snapshot says so. Lock order: `changing` (held over a whole
//! command that changes the farm), then `state`, then `events`. `state` and `events` are never held over an await.
//!
//! Must not know: servers' connections, other routers, and what any part does with what it reads here.

pub(crate) mod acks;
mod document;
pub(crate) mod drivers;
pub(crate) mod editing;
pub(crate) mod failovers;
pub(crate) mod picture;
pub(crate) mod records;
pub(crate) mod seen;
pub(crate) mod standing;
pub(crate) mod supervision;
pub(crate) mod trail;
pub(crate) mod winners;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwap;
use farm::{Accounts, Container, Containers, Interest, Published, Snapshot};
use meta::{Outcome, Store, Transaction};
use rowcache::ReadState;
use tokio::sync::Notify;

use crate::configuration::current::Current;
use crate::context::drivers::{Drivers, Told};
use crate::context::failovers::Failovers;
use crate::context::seen::Seen;
use crate::context::trail::Trail;
use crate::context::winners::Winners;
use crate::leadership::Leadership;
use crate::leadership::lead::Lead;
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::sharding::layout::Layout;
use crate::sharding::wanted::{WantedTables, Which};
use catalog::command::CommandError;
use catalog::event::{Event, Ring};
use catalog::record::Records;
use picture::{Facts, Sight};
use standing::Standing;

/// What the loops and commands share.
pub(crate) struct State {
    pub(crate) records: Records,
    pub(crate) seen: HashMap<u32, Seen>,
    pub(crate) standing: Standing,
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

impl Tally {
    /// Counts a change of primary.
    pub(crate) fn count_failover(&self, cause: &'static str) {
        *lock(&self.failovers).entry(cause).or_default() += 1;
    }

    /// Changes of primary by cause.
    pub(crate) fn failovers(&self) -> Vec<(&'static str, u64)> {
        let failovers = lock(&self.failovers);
        failovers
            .iter()
            .map(|(&cause, &count)| (cause, count))
            .collect()
    }
}

/// What the parts of the control plane share.
pub(crate) struct Context {
    /// Replaced whole; see [`Context::settings`].
    settings: ArcSwap<Settings>,
    pub(crate) sessions: Arc<dyn Sessions>,
    /// Held over a command that changes the farm, so that they run one at a time.
    pub(crate) changing: tokio::sync::Mutex<()>,
    /// The clock: moments are counted from here.
    pub(crate) started: Instant,
    pub(crate) interest: Arc<Interest>,
    /// What reads ask for beside the snapshot.
    pub(crate) reads: Arc<ReadState>,
    store: Arc<dyn Store>,
    published: Arc<Published>,
    state: Mutex<State>,
    trail: Mutex<Trail>,
    events: Mutex<Ring>,
    pub(crate) tally: Tally,
    /// Where the groups' failover drivers are told what happens.
    pub(crate) drivers: Drivers,
    /// Who is about to lead a group.
    pub(crate) winners: Winners,
    /// What the steps of the last changes of primary took.
    pub(crate) failovers: Failovers,
    /// The set of servers, or where one is, may have changed.
    pub(crate) servers_changed: Notify,
    /// The snapshot was replaced; one task waits for it.
    pub(crate) snapshot_changed: Notify,
    /// Who leads the farm, as far as this router knows; gives the right to act for the farm.
    pub(crate) leadership: Leadership,
    /// The tables that have to be read anew.
    pub(crate) tables: WantedTables,
}

impl Context {
    /// A context of these records, whose settings are not those of the farm's document yet.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        published: Arc<Published>,
        sessions: Arc<dyn Sessions>,
        settings: Settings,
        records: Records,
        leadership: Leadership,
    ) -> Context {
        let reads = Arc::new(ReadState::default());
        reads.early.allow(settings.observation.early_writes_ms);
        Context {
            settings: ArcSwap::from_pointee(settings),
            sessions,
            changing: tokio::sync::Mutex::new(()),
            started: Instant::now(),
            interest: Arc::default(),
            reads,
            store,
            published,
            state: Mutex::new(State {
                records,
                seen: HashMap::new(),
                standing: Standing::default(),
                accounts: Arc::default(),
                plugin: Vec::new(),
                configuration: Current::default(),
                layout: Layout::default(),
            }),
            trail: Mutex::default(),
            events: Mutex::new(Ring::default()),
            tally: Tally::default(),
            drivers: Drivers::default(),
            winners: Winners::default(),
            failovers: Failovers::default(),
            servers_changed: Notify::new(),
            snapshot_changed: Notify::new(),
            leadership,
            tables: WantedTables::default(),
        }
    }

    /// The farm with the newest GTID positions, which alone do not make a new snapshot.
    pub fn snapshot(&self) -> Snapshot {
        self.picture(&lock(&self.state), self.published.load().epoch)
    }

    /// The last events, oldest first.
    pub fn events(&self) -> Vec<Event> {
        lock(&self.events).list()
    }

    /// Events by kind.
    pub(crate) fn event_counts(&self) -> Vec<(&'static str, u64)> {
        lock(&self.events).counts()
    }

    /// Probes every server now instead of at its next turn: for callers that just saw one fail or
    /// come back.
    pub fn probe_now(&self) {
        for seen in lock(&self.state).seen.values() {
            seen.wake.notify_one();
        }
    }

    /// What the control plane goes by now. The farm's configuration may replace it at any time, so
    /// whoever loops asks anew in each round.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    pub(crate) fn set_settings(&self, settings: Settings) {
        self.reads.early.allow(settings.observation.early_writes_ms);
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
    ///
    /// # Errors
    /// The leadership is over, or another change was first: then nothing was written. The store does not answer:
    /// then it is not known.
    pub(crate) async fn commit(
        &self,
        lead: &Lead,
        transaction: Transaction,
    ) -> Result<(), CommandError> {
        let outcome = self
            .store
            .commit(self.leadership.fenced(lead, transaction)?)
            .await?;
        self.reload().await?;
        match outcome {
            Outcome::Applied(_) => Ok(()),
            Outcome::Stale => Err(CommandError::Stale),
        }
    }

    /// Takes over what the store says.
    pub(crate) async fn reload(&self) -> Result<(), CommandError> {
        let mut records = Records::read(&*self.store)
            .await
            .map_err(|error| CommandError::Internal(error.to_string()))?;
        let version = self.newer_version(&records).await;
        let mut state = lock(&self.state);
        // A reading that began earlier may end later.
        if records.revision < state.records.revision {
            return Ok(());
        }
        state.standing.keep_ahead(&mut records);
        let happened = records.events_since(&state.records);
        state.seen.retain(|id, _| records.servers.contains_key(id));
        state.records = records;
        if let Some(which) = state.lay_out_tables() {
            self.tables.want(which);
        }
        let configured = version.and_then(|version| self.take_version(&mut state, version));
        drop(state);
        happened.into_iter().for_each(|event| self.happened(event));
        if let Some(event) = configured {
            self.happened(event);
            self.configured();
        }
        self.servers_changed.notify_one();
        self.publish();
        self.drivers.tell_all(|| Told::Members);
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
            self.show(new);
        }
    }

    fn show(&self, new: Snapshot) {
        self.published.store(Arc::new(new));
        self.snapshot_changed.notify_one();
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

    /// Replaces the snapshot if more than GTID positions of one group changed, by what the servers say or by how the
    /// group stands. Its cost is that group's, not the farm's; what the records say is published whole.
    pub(crate) fn publish_group(&self, group: &str) {
        let state = lock(&self.state);
        let old = self.published.load();
        let now = self.with_facts(&state, |facts| {
            picture::one_group(&state.records, &old, group, facts)
        });
        let Some((at, now)) = now else {
            drop(state);
            return self.publish();
        };
        if !picture::same_group(&old.groups[at], &now) {
            let new = old.with_group(at, Arc::new(now));
            new.turnover.note(&old, &new);
            self.show(new);
        }
    }

    /// The same of this server's group.
    pub(crate) fn publish_server(&self, id: u32) {
        let group = lock(&self.state)
            .records
            .servers
            .get(&id)
            .map(|kept| kept.value.group.clone());
        match group {
            Some(group) => self.publish_group(&group),
            None => self.publish(),
        }
    }

    /// Hands over what is known of servers and groups beside their records.
    fn with_facts<T>(&self, state: &State, work: impl FnOnce(&Facts<'_>) -> T) -> T {
        let wait_ms = self.settings().failover.last_replica_wait_ms;
        let sight = |id: u32| {
            let seen = state.seen.get(&id)?;
            Some(Sight {
                health: state.standing.shown(id, &seen.health),
                fresh: Arc::clone(&seen.fresh),
                term: state.standing.term(id),
            })
        };
        work(&Facts {
            sight: &sight,
            standing: &state.standing,
            acks: &|members| acks::shown_of(members, &state.seen, wait_ms),
        })
    }

    fn picture(&self, state: &State, epoch: u64) -> Snapshot {
        let (accounts, started) = (&state.accounts, self.started);
        let shown = self.with_facts(state, |facts| {
            picture::snapshot(&state.records, facts, accounts, epoch, started)
        });
        Snapshot {
            interest: Arc::clone(&self.interest),
            sharding: state.layout.sharding(),
            containers: state.containers(),
            ..shown
        }
    }

    /// The state store.
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Microseconds since the origin of the farm's snapshots.
    pub(crate) fn now_us(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Tells the driver of a server's group.
    pub(crate) fn tell_of(&self, id: u32, event: machines::failover::Event) {
        let group = {
            let state = self.state();
            let record = state.records.servers.get(&id);
            record.map(|kept| kept.value.group.clone())
        };
        if let Some(group) = group {
            self.drivers.tell(&group, Told::Event(event));
        }
    }
}

impl State {
    /// Puts together where tables are; gives those that have to be read anew.
    pub(crate) fn lay_out_tables(&mut self) -> Option<Which> {
        self.layout.follow(&self.records)
    }
}

/// Takes a lock whose data stays whole even if a holder panicked: each step leaves it valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
