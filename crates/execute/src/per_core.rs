//! What the sessions of one core share: the farm's snapshot, pools, buffers, counters; and what all cores share, with
//! what sessions ask of the control plane ([`operator`], [`keeper`], [`peers`]).

pub mod accounts;
pub mod answers;
pub mod farm_seen;
pub mod handle;
pub mod id_blocks;
pub mod keeper;
pub(crate) mod kill;
pub mod message;
pub mod operator;
pub mod peers;
pub mod plans;
pub mod registry;
pub mod view;

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use auth::account_places::AccountPlaces;
use auth::changes::Changes;
use auth::entitled::alike_of;
use auth::entrance::{Entrance, Places, Refusal};
use auth::locks::Locks;
use auth::rsa_key::RsaKey;
use auth::secrets::{BackendCredential, Secrets};
use auth::verifiers::VerifierQueue;
use backend::{Defaults, Entitlement, Pools, Text, Texts};
use farm::{Accounts, Engine, Published, Server, ServerId, Snapshot};
use faults::Chore;
use mysql_wire::relay::BUFFER_BYTES;
use reactor::Dealer;
use routing::Balance;
use routing::rules::Rulebook;
use rowcache::ReadState;
use rustc_hash::{FxHashMap, FxHashSet};
use sqltext::Scan;
use statistics::{Digests, Measured};

use crate::client::stall::watch;
use crate::client::transport::Transport;
use crate::connections::hold::Waiting;
use crate::connections::parked::reclaim;
use crate::consistency::acks;
use crate::consistency::required_waits::RequiredWaits;
use crate::consistency::write_tags::WriteTags;
use crate::counters::Counters;
use crate::counters::farm_statistics::{of_farm, publish_openings};
use crate::door_clients::DoorClients;
use crate::execution::cache::Cache;
use crate::execution::exec::spare_replies::SpareReplies;
use crate::execution::hook::Decisions;
use crate::execution::mirror::Mirrors;
use crate::own_account;
use crate::per_core::answers::Answers;
use crate::per_core::farm_seen::{FarmSeen, Glance};
use crate::per_core::handle::{Handle, Line};
use crate::per_core::id_blocks::Blocks;
use crate::per_core::message::Message;
use crate::per_core::operator::Operator;
use crate::per_core::peers::Peers;
use crate::per_core::plans::Plans;
use crate::per_core::registry::Registry;
use crate::scratch::{Beginnings, SCRATCH, Scratch};
use crate::settings::{Live, Settings};
use crate::transaction::claimed_ids::ClaimedIds;
use crate::transaction::replay_log::SpareLogs;

/// What all cores share.
pub struct Shared {
    pub published: Arc<Published>,
    /// What reads ask for beside the snapshot; the control plane feeds it.
    pub reads: Arc<ReadState>,
    pub rules: Arc<Rulebook>,
    /// What an operator may change at any time.
    pub live: Arc<Live>,
    pub transport: Arc<Transport>,
    pub registry: Registry,
    /// Who may come in, and how many there are.
    pub entrance: Entrance,
    pub operator: Arc<dyn Operator>,
    /// The farm's other routers.
    pub peers: Arc<dyn Peers>,
    /// Where SELECTs run whose rows come from several groups.
    pub scratch: Arc<Scratch>,
    pub login_work: LoginWork,
    pub secrets: Secrets,
    /// Accounts for which wrong passwords came.
    pub locks: Locks,
    pub backend_credentials: Vec<BackendCredential>,
    pub account_places: Arc<AccountPlaces>,
    /// What clients did to that which logins take over from servers.
    pub defaults: Arc<Defaults>,
    /// What clients did to accounts.
    pub changes: Changes,
    /// When transactions that were done again last claimed AUTO_INCREMENT values.
    pub claimed_ids: ClaimedIds,
    /// One for each core.
    pub counters: Vec<Arc<Counters>>,
    /// What statements took, and where the slow ones go.
    pub measured: Arc<Measured>,
}

/// What takes a login milliseconds.
pub struct LoginWork {
    pub rsa_key: RsaKey,
    /// The work is done there.
    pub verifiers: Arc<VerifierQueue>,
}

impl Shared {
    /// Places for somebody who has connected from this address, or through a load balancer, by the settings
    /// in force; `logs_in` says that it has to prove who it is.
    ///
    /// # Errors
    /// It may not come in; it is told and its connection closed.
    pub fn let_in(&self, peer: Option<IpAddr>, logs_in: bool) -> Result<Places, Refusal> {
        let settings = self.live.load().settings;
        let logins = logs_in.then_some(&settings.logins);
        self.entrance.let_in(peer, settings.clients_max, logins)
    }

    /// The counters of all cores added up, those of the way in, and what is read off the farm.
    pub fn counters_sum(&self) -> Vec<(&'static str, &'static str, u64)> {
        let mut sum: Vec<(&'static str, &'static str, u64)> = Vec::new();
        for counters in &self.counters {
            for (at, (name, help, value)) in counters.list().into_iter().enumerate() {
                match sum.get_mut(at) {
                    Some(entry) => entry.2 += value,
                    None => sum.push((name, help, value)),
                }
            }
        }
        sum.extend(self.entrance.counted());
        sum.extend(self.live.memory().counters());
        sum.extend(of_farm(&self.published.load()));
        sum.push((
            "tasks_panicked",
            "Tasks of cores that panicked; what was said is in the log.",
            reactor::panics(),
        ));
        sum
    }
}

/// One core. Everything in it is used by that core's thread only.
pub struct Core {
    pub(crate) me: Weak<Core>,
    pub index: usize,
    pub shared: Arc<Shared>,
    pub dealer: Dealer<Message>,
    farm_seen: FarmSeen,
    in_force: SettingsNow,
    pub counters: Arc<Counters>,
    pub pools: Rc<Pools>,
    /// The names of its server connections in their logs.
    pub(crate) write_tags: WriteTags,
    pub balance: RefCell<Balance>,
    pub handles: RefCell<FxHashMap<u32, Rc<Handle>>>,
    /// The names of statements' shapes, and what was counted of each.
    pub digests: Digests,
    buffers: RefCell<Vec<Vec<u8>>>,
    pub now_s: Cell<u64>,
    pub stage: Cell<Drain>,
    /// A session has ended whose connections may not outlive it.
    pub(crate) closing: Cell<bool>,
    /// What another door keeps here.
    guest: OnceCell<Rc<dyn Any>>,
    /// Clients of other doors.
    pub door_clients: DoorClients,
    /// What it keeps of statements, whoever sent them.
    pub statements: StatementsKnown,
    /// Who waits on it.
    pub waits: Waits,
}

/// The settings that a core goes by.
struct SettingsNow {
    /// This core's copy of what is in force, and its version.
    settings: Cell<Settings>,
    version: Cell<u32>,
    /// The accounts by which the pools were last reviewed.
    reviewed: RefCell<Arc<Accounts>>,
}

/// What a core keeps of statements, whoever sent them.
pub struct StatementsKnown {
    pub scan: RefCell<Scan>,
    pub cache: Cache,
    /// Where statements on sharded tables go.
    pub plans: Plans,
    /// How those were answered that are for several groups.
    pub answers: Answers,
    /// Ids for rows of tables on many groups.
    pub ids: Blocks,
    /// What the scratch server's sessions begin with.
    pub beginnings: RefCell<Option<Beginnings>>,
    /// Copies of statements for second servers.
    pub(crate) mirrors: Mirrors,
    /// What rules' hooks have decided.
    pub decisions: Decisions,
    /// Shapes of statements that looked like reads and were refused by a replica.
    pub writers: RefCell<FxHashSet<u128>>,
    texts: RefCell<Texts>,
    /// Room for the logs of open transactions.
    pub(crate) logs: SpareLogs,
    /// Room for what replies say.
    pub(crate) replies: SpareReplies,
}

impl StatementsKnown {
    fn new() -> StatementsKnown {
        StatementsKnown {
            scan: RefCell::new(Scan::new()),
            cache: Cache::default(),
            plans: Plans::default(),
            answers: Answers::default(),
            ids: Blocks::default(),
            beginnings: RefCell::default(),
            mirrors: Mirrors::default(),
            decisions: Decisions::default(),
            writers: RefCell::default(),
            texts: RefCell::default(),
            logs: SpareLogs::default(),
            replies: SpareReplies::default(),
        }
    }
}

/// Who waits on a core, and for what.
#[derive(Default)]
pub struct Waits {
    /// Who has put a connection aside.
    pub line: Line,
    /// Commits whose OK waits for a replica.
    pub acks: acks::Held,
    /// Replicas that are asked whether they have what reads need.
    pub(crate) required_waits: RequiredWaits,
    /// Who waits for a primary.
    pub waiting: Waiting,
}

/// Buffers kept for the next statements; more are freed.
const BUFFERS_MAX: usize = 64;

/// Statements that are known not to be reads; beyond this many the set starts anew.
const WRITERS_MAX: usize = 10_000;

/// Seconds. A client that sent nothing for longer is not about to send something.
const QUIET_S: u64 = 1;

/// How far the end of the router has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Drain {
    Not,
    /// Sessions end when their clients ask or are quiet.
    Asks,
    /// Its time is running out: sessions end right behind an answer.
    Hurries,
    /// Its time is over: whoever waits for its client ends, whatever it holds.
    Closes,
}

impl Core {
    /// The core's things, empty.
    pub fn new(index: usize, shared: Arc<Shared>, dealer: Dealer<Message>) -> Rc<Core> {
        // Read before what it is the version of: at worst that is taken over twice.
        let version = shared.live.version();
        let in_force = shared.live.load();
        let settings = in_force.settings;
        let balance = Balance::new(in_force.preferences.clone(), index as u64 + 1);
        let (measured, cores) = (shared.measured.clone(), shared.counters.len());
        let digests = Digests::new(measured, index, cores, in_force.counting, now());
        let core = Rc::new_cyclic(|me| Core {
            me: me.clone(),
            index,
            dealer,
            farm_seen: FarmSeen::new(&shared.published),
            in_force: SettingsNow {
                settings: Cell::new(settings),
                version: Cell::new(version),
                reviewed: RefCell::default(),
            },
            counters: shared.counters[index].clone(),
            pools: Pools::new(
                settings.pool.share(index, shared.counters.len()),
                shared.transport.servers.clone(),
                shared.defaults.clone(),
            ),
            shared,
            write_tags: WriteTags::new(),
            statements: StatementsKnown::new(),
            waits: Waits::default(),
            balance: RefCell::new(balance),
            handles: RefCell::default(),
            digests,
            buffers: RefCell::default(),
            now_s: Cell::new(0),
            stage: Cell::new(Drain::Not),
            closing: Cell::new(false),
            guest: OnceCell::new(),
            door_clients: DoorClients::default(),
        });
        let weak = Rc::downgrade(&core);
        core.pools.when_dry(move |server| {
            if let Some(core) = weak.upgrade() {
                reclaim::reclaim(&core, server);
            }
        });
        core
    }

    /// The farm as it is now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.shared.published.load_full()
    }

    /// The same for a look at it: at no cost that cores share. Not to be kept over an await.
    #[inline]
    pub fn glance(&self) -> Glance {
        self.farm_seen.look()
    }

    /// What the key-value engine keeps on this core: made when it is wanted first. It must not hold
    /// the core. `None` where something of another type is kept.
    pub fn guest<T: Any>(&self, make: impl FnOnce() -> T) -> Option<Rc<T>> {
        let guest = self.guest.get_or_init(|| Rc::new(make()));
        Rc::clone(guest).downcast().ok()
    }

    /// What is in force for what began last. Not to be kept over an await: take the one value that is
    /// needed.
    #[inline]
    pub fn settings(&self) -> Settings {
        self.in_force.settings.get()
    }

    /// Looks whether an operator changed what is in force, and gives its version: where a command,
    /// a login or a tick begins, and nothing of the core is borrowed.
    #[inline]
    pub fn heed_settings(&self) -> u32 {
        let version = self.shared.live.version();
        if version != self.in_force.version.get() {
            self.configure(version);
        }
        version
    }

    /// Takes over what an operator changed.
    #[cold]
    fn configure(&self, version: u32) {
        let in_force = self.shared.live.load();
        self.in_force.version.set(version);
        self.in_force.settings.set(in_force.settings);
        let cores = self.shared.counters.len();
        self.pools.set_limits(in_force.settings.pool.share(self.index, cores));
        self.digests.obey(in_force.counting, cores);
        let mut balance = self.balance.borrow_mut();
        balance.set_preferences(in_force.preferences.clone());
    }

    /// Now, by the clock of the farm's snapshots, in microseconds.
    pub fn now_us(&self) -> u64 {
        self.at_us(Instant::now())
    }

    /// The same of this moment.
    pub(crate) fn at_us(&self, moment: Instant) -> u64 {
        let since = moment.saturating_duration_since(self.glance().origin);
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }

    /// A prepared statement's text, shared with all who prepare the same.
    pub fn text(&self, bytes: &[u8]) -> Rc<Text> {
        self.statements.texts.borrow_mut().share(bytes)
    }

    /// An empty buffer of [`BUFFER_BYTES`] for one statement's replies.
    pub fn take_buffer(&self) -> Vec<u8> {
        self.buffers.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
    }

    /// Takes a buffer back.
    pub fn give_buffer(&self, mut buffer: Vec<u8>) {
        let mut buffers = self.buffers.borrow_mut();
        if buffer.capacity() == BUFFER_BYTES && buffers.len() < BUFFERS_MAX {
            buffer.clear();
            buffers.push(buffer);
        }
    }

    /// Takes note of the accounts: where they changed, connections that could not be had any more
    /// serve only the sessions that have them, and passwords that are wrong now are overwritten.
    #[inline]
    pub fn heed(&self, accounts: &Arc<Accounts>) {
        if !Arc::ptr_eq(&self.in_force.reviewed.borrow(), accounts) {
            self.review(accounts);
        }
    }

    #[cold]
    fn review(&self, accounts: &Arc<Accounts>) {
        let before = self.in_force.reviewed.replace(accounts.clone());
        if before.databases != accounts.databases {
            self.shared.defaults.database_changed();
        }
        self.shared.secrets.review(accounts);
        self.shared.locks.review(accounts);
        self.statements.cache.clear();
        let find =
            |entitlement: &Entitlement| accounts.exactly(&entitlement.user, &entitlement.host);
        // Who logs in by a name of the configuration's is looked at as the account's clients are.
        let alike = |entitlement: &Entitlement| {
            let now = |account| alike_of(accounts, &entitlement.user, account);
            own_account::is_own(entitlement)
                || find(entitlement).is_none_or(|account| now(account) == entitlement.alike)
        };
        let valid = |entitlement: &Entitlement| {
            if own_account::is_own(entitlement) {
                return true;
            }
            find(entitlement).is_some_and(|account| {
                !account.locked
                    && !account.expired
                    && !entitlement.expired
                    && account.ways.contains(&entitlement.way)
                    && account.privileges == entitlement.privileges
            })
        };
        self.pools.review(valid, alike);
    }

    /// After a session ended: closes connections that only it could use.
    pub fn close_unneeded(&self) {
        if self.closing.replace(false) {
            self.pools.close_unneeded();
        }
    }

    /// The engine that clients believe to speak to: the home group's.
    pub fn home_engine(&self) -> Engine {
        let snapshot = self.glance();
        let primary = snapshot.home().and_then(|group| group.primary());
        primary.map_or(Engine::MariaDb, |server| server.engine)
    }

    /// Remembers that statements of this shape write.
    pub(crate) fn learn_writer(&self, shape: u128) {
        let mut writers = self.statements.writers.borrow_mut();
        if writers.len() >= WRITERS_MAX {
            writers.clear();
        }
        writers.insert(shape);
    }

    /// Once a second: idle connections, idle clients, connections parked, gauges.
    pub fn tick(self: &Rc<Self>, now_s: u64) {
        Chore::CoreTick.pass();
        self.now_s.set(now_s);
        self.heed_settings();
        let snapshot = self.glance();
        self.heed(&snapshot.accounts);
        self.follow(&snapshot);
        let alive = |id: ServerId| {
            let server = snapshot.server(id);
            id == SCRATCH || server.is_some_and(|s: &Arc<Server>| s.health.alive)
        };
        self.pools.tick(now_s, alive);
        let idle_s = self.settings().idle_timeout_s;
        for handle in self.handles.borrow().values() {
            let idle_s = match (handle.idle.wait_timeout_s.get(), handle.idle.login_timeout_s.get())
            {
                (0, 0) => idle_s,
                (0, login_s) => idle_s.min(login_s),
                (own_s, _) => own_s,
            };
            if handle.idle.waits_for_client.get() && handle.idle.active_s.get() + idle_s < now_s {
                handle.idle.timed_out.set(true);
                handle.killed.set(true);
                handle.end_receive();
            }
            watch::end_stalled(self, handle);
            reclaim::tick_parked(self, handle, now_s);
        }
        if self.is_draining() {
            self.end_quiet();
        }
        watch::end_abandoned(self);
        reclaim::tidy_line(self);
        self.publish_gauges();
    }

    fn publish_gauges(&self) {
        use std::sync::atomic::Ordering::Relaxed;
        let usage = self.pools.usage();
        let counters = &self.counters;
        counters.pool_in_use.store(usage.in_use as u64, Relaxed);
        counters.pool_idle.store(usage.idle as u64, Relaxed);
        counters.pool_waiting.store(usage.waiting as u64, Relaxed);
        counters.pool_opened.store(usage.opened.opened(), Relaxed);
        counters.connections_cut.store(usage.ended, Relaxed);
        counters.variables_refused.store(usage.variables_refused, Relaxed);
        publish_openings(counters, &usage.opened);
        let (digests, digest_bytes, evicted) = self.digests.sizes();
        counters.digests_now.store(digests as u64, Relaxed);
        counters.digest_bytes_now.store(digest_bytes as u64, Relaxed);
        counters.digests_evicted.store(evicted, Relaxed);
        counters.cache_bytes_now.store(self.statements.cache.bytes() as u64, Relaxed);
        let handles = self.handles.borrow();
        let holds = || handles.values().filter_map(|handle| handle.kept.holds.get());
        let pinned = holds().filter(|hold| !hold.pins.is_empty()).count();
        let open = holds().filter(|hold| hold.pins.is_empty()).count();
        counters.sessions_now.store(handles.len() as u64, Relaxed);
        counters.sessions_pinned_now.store(pinned as u64, Relaxed);
        counters.transactions_now.store(open as u64, Relaxed);
        let streams = handles.values().filter(|handle| handle.streams.get());
        counters.binlog_streams_now.store(streams.count() as u64, Relaxed);
    }

    /// Ends every session in time: one that reads a binlog at once, one that keeps a connection after
    /// its transaction, the others when their client checks whether it may go on (a pool does that
    /// when it hands the connection out) or has been quiet for a while. A client that sends a
    /// statement in the moment in which its session ends would see that statement fail. Called again,
    /// it waits for no client any more, only for what runs and what is held; the third time for
    /// nothing but statements.
    pub fn drain(&self) {
        self.stage.set(match self.stage.get() {
            Drain::Not => Drain::Asks,
            Drain::Asks => Drain::Hurries,
            Drain::Hurries | Drain::Closes => Drain::Closes,
        });
        self.waits.waiting.interrupt_all();
        self.end_quiet();
    }

    /// The router ends, and its sessions with it.
    pub fn is_draining(&self) -> bool {
        self.stage.get() > Drain::Not
    }

    /// A drain waits for no client any more.
    pub(crate) fn hurries(&self) -> bool {
        self.stage.get() >= Drain::Hurries
    }

    /// Ends the sessions that a drain need not wait for.
    fn end_quiet(&self) {
        let quiet = |handle: &Handle| {
            self.stage.get() >= Drain::Hurries
                || handle.idle.active_s.get() + QUIET_S < self.now_s.get()
        };
        for handle in self.handles.borrow().values() {
            let free = self.stage.get() == Drain::Closes || handle.kept.holds.get().is_none();
            let idle = handle.idle.waits_for_client.get() && free;
            if (idle && quiet(handle)) || handle.streams.get() {
                handle.killed.set(true);
                handle.end_receive();
            }
        }
        let quiet_since_s = match self.stage.get() >= Drain::Hurries {
            true => u64::MAX,
            false => self.now_s.get().saturating_sub(QUIET_S),
        };
        self.door_clients.end_quiet(quiet_since_s);
    }

    /// How many sessions the core has.
    pub fn sessions(&self) -> usize {
        self.handles.borrow().len()
    }
}

/// This moment, and the same in milliseconds since 1970.
fn now() -> (Instant, u64) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (Instant::now(), u64::try_from(since.as_millis()).unwrap_or(0))
}
