//! An SQL door in this process, in front of real servers.
//!
//! Job: a [`Door`] with the farm that a test describes, servers that a test binary shares ([`stage`], [`staging`]), and
//! what stands for the control plane where a test has none ([`admin`], [`barriers`], [`fate`]).
//!
//! Invariants: a door ends with its handle; shared servers end with the test's process.
//!
//! Must not know: `heddle up`, failover.

pub mod admin;
pub(crate) mod barriers;
pub mod fate;
pub mod rules;
pub mod stage;
pub mod staging;
pub(crate) mod two;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ::farm::dist_txn::{Branch, GlobalId, Place, RouterLife, Verdict};
use ::farm::{
    Account, Accounts, AuthPlugin, Fate, Group, LostWrite, Mode, Published, ServerId, Snapshot,
    Status, samples,
};
use mysql_wire::auth;
use reactor::{Address, Io, Listener};
use routing::rules::Rulebook;
use session::{
    Allowed, BackendCredential, BarriersHeld, Ceilings, Consistency, Counting, DistTxnTerms, Fault,
    Gathering, InForce, Keeper, Limits, Live, NoPeers, Operator, Peers, Preferences, Reads, Reply,
    Sealed, Settings, Settled, Transport,
};
use statistics::TraceQueue;

use crate::client::{Client, Failure, Login};
use crate::door::admin::{FARM_ID, decision_key, with_link};
use crate::servers::server::Server;

/// Long enough for what a test lets finish; a drain that takes longer hangs.
const DRAIN: Duration = Duration::from_secs(10);

/// What a test may want different.
pub struct Tuning {
    pub io: Io,
    /// Cores of the data plane: 1, so that sessions share their pools.
    pub threads: usize,
    pub settings: Settings,
    /// How clients reach the door: without TLS by default.
    pub transport: Arc<Transport>,
    /// One for each server; all 1 by default.
    pub weights: Vec<f64>,
    /// Beside `root` without a password.
    pub accounts: Vec<Account>,
    /// The accounts are those of the primary, read whenever the door asks; `accounts` is unused.
    pub live_accounts: bool,
    pub backend_credentials: Vec<BackendCredential>,
    pub preferences: Preferences,
    /// What is counted of statements.
    pub counting: Counting,
    pub rules: Arc<Rulebook>,
    /// What became of writes whose answers were lost; unknown by default.
    pub fates: Option<Arc<Fates>>,
    /// The farm's other routers; there are none by default.
    pub peers: Arc<dyn Peers>,
    /// Clients come by this Unix socket, too.
    pub socket: Option<PathBuf>,
    /// Who takes traced statements; nobody by default.
    pub traces: Option<TraceQueue>,
}

/// Says what became of a write.
pub type Fates = dyn Fn(LostWrite) -> Fate + Send + Sync;

impl Default for Tuning {
    fn default() -> Self {
        Tuning {
            io: Io::Auto,
            threads: 1,
            settings: Settings {
                clients_max: 1000,
                pool: Limits {
                    connections_max: 64,
                    statements_max: 200,
                    idle_s: 60,
                    wait_ms: 10_000,
                    connect_ms: 5000,
                },
                logins: Default::default(),
                handshake_timeout_s: 10,
                idle_timeout_s: 28_800,
                client_read_timeout_s: 30,
                client_write_timeout_s: 60,
                statement_timeout_ms: 0,
                // Most tests want to see the error.
                failover_wait_ms: 0,
                failover_waiters_max: 0,
                memory: Ceilings {
                    process: usize::MAX,
                    account: usize::MAX,
                },
                packet_bytes_max: 64 << 20,
                statements_max: 16_382,
                statements_bytes_max: 128 << 20,
                user_connections_max: 0,
                remember_passwords: true,
                // Servers that do not replicate know nothing of each other.
                reads: Reads::default(),
                marks: true,
                replay_bytes_max: 1 << 20,
                cache_bytes_max: 1 << 20,
                dist_txns: DistTxnTerms::default(),
                gathering: Gathering::default(),
                consistency: Consistency {
                    max_lag_ms: session::UNBOUNDED_MS,
                    monotonic: false,
                    ..Consistency::default()
                },
            },
            transport: Arc::new(Transport::plain()),
            weights: Vec::new(),
            accounts: Vec::new(),
            live_accounts: false,
            backend_credentials: Vec::new(),
            preferences: Preferences::default(),
            counting: Counting::default(),
            rules: Arc::default(),
            fates: None,
            peers: Arc::new(NoPeers),
            socket: None,
            traces: None,
        }
    }
}

/// Those of a door: a free port of loopback, and the Unix socket that a test wants.
fn listeners(socket: Option<&Path>) -> Vec<Listener> {
    let port = Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
    let socket = socket.map(|path| Address::Socket(path.to_owned()));
    let listen = |address| reactor::listen(&address, 0o777).expect("an address that is free");
    [port].into_iter().chain(socket).map(listen).collect()
}

/// An account with `mysql_native_password`, as the servers would have it.
pub fn account(user: &str, host: &str, password: &str) -> Account {
    let stage2 = auth::native_stage2(&auth::native_stage1(password.as_bytes()));
    Account {
        user: user.into(),
        host: host.into(),
        ways: vec![AuthPlugin::Native((!password.is_empty()).then_some(stage2))],
        locked: false,
        expired: false,
        tls: ::farm::TlsDemand::None,
        connections_max: 0,
        locking: None,
        admin: false,
        privileges: 0,
        rights: 0,
    }
}

/// A running door; drained when dropped.
pub struct Door {
    inner: Option<door_sql::Door>,
    address: SocketAddr,
    shared: Arc<session::Shared>,
    live: Arc<Live>,
    published: Arc<Published>,
    suspects: Suspects,
}

/// What sessions have said of servers.
type Suspects = Arc<Mutex<Vec<(ServerId, Fault)>>>;

impl Door {
    /// A door on a farm that never changes by itself: the first server is the primary, the others
    /// are replicas, all are alive.
    ///
    /// # Panics
    /// When the door does not open.
    pub fn start(servers: &[&Server], tune: impl FnOnce(&mut Tuning)) -> Door {
        let mut tuning = Tuning::default();
        tune(&mut tuning);
        let members = servers.iter().enumerate().map(|(i, server)| {
            let weight = tuning.weights.get(i).copied().unwrap_or(1.0);
            member(i, server, weight)
        });
        let group = samples::group("g1", members.collect());
        let root = Account {
            admin: true,
            ..account("root", "localhost", "")
        };
        let mut snapshot = Snapshot::empty(FARM_ID, Instant::now());
        snapshot.epoch = 1;
        snapshot.groups = vec![Arc::new(group)];
        tuning.accounts.push(root);
        snapshot.accounts = Arc::new(match tuning.live_accounts {
            true => accounts_of(servers[0].address()),
            false => Accounts::new(tuning.accounts),
        });
        let published = Arc::new(Published::from_pointee(snapshot));
        let suspects = Suspects::default();
        let live = Arc::new(Live::new(InForce {
            settings: tuning.settings,
            preferences: tuning.preferences,
            counting: tuning.counting,
            farm_tables: true,
        }));
        let inner = door_sql::start(door_sql::Options {
            listeners: listeners(tuning.socket.as_deref()),
            threads: tuning.threads,
            io: tuning.io,
            live: live.clone(),
            transport: tuning.transport,
            backend_credentials: tuning.backend_credentials,
            published: published.clone(),
            reads: Arc::default(),
            rules: tuning.rules,
            operator: Arc::new(NoCommands {
                published: published.clone(),
                primary: (tuning.live_accounts).then(|| servers[0].address()),
                reading: Arc::default(),
                fates: tuning.fates,
                suspects: suspects.clone(),
            }),
            peers: tuning.peers,
            scratch: Arc::default(),
            slow_log: None,
            traces: tuning.traces,
        })
        .expect("the door opens");
        Door {
            address: inner.tcp().expect("it listens on loopback"),
            shared: inner.shared(),
            inner: Some(inner),
            live,
            published,
            suspects,
        }
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Deals work to the door's cores.
    pub fn dealer(&self) -> reactor::Dealer<session::Message> {
        self.inner
            .as_ref()
            .expect("it runs until it is drained")
            .dealer()
    }

    /// A new connection as `root`.
    ///
    /// # Panics
    /// When the door refuses it.
    #[track_caller]
    pub fn client(&self) -> Client {
        Client::connect(self.address, "root", "").expect("root has no password")
    }

    /// A new connection in this database.
    ///
    /// # Panics
    /// When the door refuses it.
    #[track_caller]
    pub fn client_in(&self, database: &str) -> Client {
        let login = Login {
            database: Some(database),
            ..Login::default()
        };
        self.login(&login).expect("root may use the database")
    }

    /// A new connection with this login.
    pub fn login(&self, login: &Login<'_>) -> Result<Client, Failure> {
        Client::login(self.address, login)
    }

    /// A counter of `HEDDLE STATUS`. Gauges are up to a second old.
    ///
    /// # Panics
    /// When there is no such counter.
    pub fn counter(&self, name: &str) -> u64 {
        let all = self.shared.counters_sum();
        let found = all.iter().find(|(counter, ..)| *counter == name);
        found.map(|found| found.2).expect("a counter of this name")
    }

    /// What statements took.
    pub fn measured(&self) -> &statistics::Measured {
        &self.shared.measured
    }

    /// Puts other settings in force while the door serves.
    pub fn tune(&self, change: impl FnOnce(&mut InForce)) {
        let mut in_force = InForce::clone(&self.live.load());
        change(&mut in_force);
        self.live.publish(in_force);
        self.turned();
    }

    /// Publishes the farm with one server changed; `index` as in [`Door::start`].
    pub fn change(&self, index: usize, change: impl FnOnce(&mut ::farm::Server)) {
        self.regroup(|group| change(Arc::make_mut(&mut group.servers[index])));
    }

    /// Publishes the farm with its group changed.
    pub fn regroup(&self, change: impl FnOnce(&mut Group)) {
        let mut snapshot = Snapshot::clone(&self.published.load());
        let mut group = Group::clone(&snapshot.groups[0]);
        change(&mut group);
        snapshot.groups[0] = Arc::new(group);
        snapshot.epoch += 1;
        self.published.store(Arc::new(snapshot));
    }

    /// Publishes the farm changed in any way.
    pub fn publish(&self, change: impl FnOnce(&mut Snapshot)) {
        let mut snapshot = Snapshot::clone(&self.published.load());
        change(&mut snapshot);
        snapshot.epoch += 1;
        self.published.store(Arc::new(snapshot));
        self.turned();
    }

    /// Gives each server a group of its own, g1 and so on, whose primary it is.
    pub fn spread(&self) {
        self.publish(|snapshot| {
            let whole = Group::clone(&snapshot.groups[0]);
            let servers = whole.servers.iter().enumerate();
            let groups = servers.map(|(at, server)| {
                let mut server = ::farm::Server::clone(server);
                let name: Arc<str> = format!("g{}", at + 1).into();
                (server.group, server.status) = (name.clone(), Status::Primary);
                (server.mode, server.health.read_only) = (Mode::ReadWrite, false);
                Arc::new(Group {
                    name,
                    number: at as u32 + 1,
                    servers: vec![Arc::new(server)],
                    ..whole.clone()
                })
            });
            snapshot.groups = groups.collect();
        });
    }

    /// Lists and ends its sessions from outside.
    ///
    /// # Panics
    /// When the door is closed.
    pub fn killer(&self) -> door_sql::Killer {
        self.inner.as_ref().expect("the door is open").killer()
    }

    /// Has every core look at what is published.
    pub fn turned(&self) {
        self.killer().turned();
    }

    /// Publishes that a server is not alive, and cuts its connections.
    pub fn cut(&self, index: usize) {
        self.change(index, |server| {
            server.term += 1;
            server.health.alive = false;
        });
        self.turned();
    }

    /// Publishes that the group's primary is being exchanged, or that this is over.
    pub fn pause(&self, paused: bool) {
        self.regroup(|group| group.paused = paused);
        self.turned();
    }

    /// Publishes another primary: the one before is a replica, and its connections are cut.
    pub fn promote(&self, index: usize) {
        self.regroup(|group| {
            for (at, server) in group.servers.iter_mut().enumerate() {
                let server = Arc::make_mut(server);
                let was = server.status == Status::Primary;
                (server.status, server.mode) = match at == index {
                    true => (Status::Primary, Mode::ReadWrite),
                    false => (Status::Replica, Mode::ReadOnly),
                };
                server.health.read_only = at != index;
                server.term += u32::from(was && at != index);
            }
            group.paused = false;
        });
        self.turned();
    }

    /// The servers that sessions have found failing, in this order.
    pub fn suspects(&self) -> Vec<(ServerId, Fault)> {
        let suspects = self.suspects.lock();
        suspects.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until nobody is connected and no server connection is in use.
    ///
    /// # Panics
    /// When that does not come: something leaked.
    #[track_caller]
    pub fn wait_unused(&self) {
        crate::wait_until(DRAIN, "no session and no connection in use", || {
            // Exact counters first: a gauge may be a second old.
            self.counter("sessions_opened") == self.counter("sessions_closed")
                && self.counter("sessions_now") == 0
                && self.counter("pool_in_use") == 0
                && self.counter("pool_waiting") == 0
        });
    }

    /// Drains the door. Blocks, at most for `limit`.
    pub fn drain(mut self, limit: Duration) {
        if let Some(inner) = self.inner.take() {
            inner.drain(limit);
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            // The data plane's runtime aborts the process when a panicking thread wakes a task, and
            // a failed test is one.
            let _ = std::thread::spawn(move || inner.drain(Duration::ZERO)).join();
        }
    }
}

fn member(index: usize, server: &Server, weight: f64) -> ::farm::Server {
    let status = match index {
        0 => Status::Primary,
        _ => Status::Replica,
    };
    ::farm::Server {
        uuid: format!("uuid-{index}").into(),
        name: format!("server-{index}").into(),
        host: "127.0.0.1".into(),
        port: server.address().port(),
        weight,
        engine: server.engine(),
        version: server.version().into(),
        ..samples::server(index as u32 + 1, "g1", status)
    }
}

/// A farm without a control plane.
struct NoCommands {
    published: Arc<Published>,
    /// Where accounts are read.
    primary: Option<SocketAddr>,
    /// Held while the accounts are read and published.
    reading: Arc<Mutex<()>>,
    fates: Option<Arc<Fates>>,
    suspects: Suspects,
}

/// Transactions over several groups that got a name in this process.
static NAMED: AtomicU32 = AtomicU32::new(0);

/// Nobody recovers what sessions leave behind: tests of that use a whole farm.
impl Keeper for NoCommands {
    fn name(&self, farm: u64, coordinator: u32, at: Place) -> GlobalId {
        GlobalId {
            farm,
            coordinator,
            at_ms: 0,
            router: RouterLife {
                slot: 0,
                started_ms: 0,
            },
            sequence: NAMED.fetch_add(1, Ordering::Relaxed),
            at,
        }
    }

    fn seal(&self, id: GlobalId) -> Sealed {
        decision_key().seal(id)
    }

    fn undertake(&self, _id: GlobalId) {}

    fn leave(&self, _id: GlobalId, _verdict: Option<Verdict>, _left: Vec<(String, Branch)>) {}

    fn is_in_doubt(&self, _id: &GlobalId, _group: &str) -> bool {
        false
    }

    fn settle(&self, _id: GlobalId, _limit_ms: u64, reply: Settled) {
        reply(None);
    }

    fn let_decide(&self, _group: u32, _account: [String; 2], reply: Allowed) {
        reply(Err("no control plane here".to_owned()));
    }

    fn hold(&self, _limit_ms: u64, reply: BarriersHeld) {
        let snapshot = self.published.load_full();
        std::thread::spawn(move || crate::door::barriers::hold(&snapshot, reply));
    }
}

impl Operator for NoCommands {
    fn submit(&self, _words: Vec<String>, _by: &str, _access: ::farm::Access, reply: Reply) {
        reply(Err("no commands here".to_owned()));
    }

    fn read_accounts(&self, done: Box<dyn FnOnce() + Send>) {
        let Some(primary) = self.primary else {
            return done();
        };
        let (published, reading) = (self.published.clone(), self.reading.clone());
        std::thread::spawn(move || {
            // One after the other: what was read first must not be published last.
            let _turn = reading.lock().unwrap_or_else(PoisonError::into_inner);
            let mut snapshot = Snapshot::clone(&published.load());
            snapshot.accounts = Arc::new(accounts_of(primary));
            published.store(Arc::new(snapshot));
            done();
        });
    }

    fn suspect(&self, server: ServerId, fault: Fault) {
        let suspects = self.suspects.lock();
        let mut suspects = suspects.unwrap_or_else(PoisonError::into_inner);
        suspects.push((server, fault));
    }

    fn resolve(&self, lost: LostWrite, reply: Box<dyn FnOnce(Fate) + Send>) {
        let Some(fates) = self.fates.clone() else {
            return reply(Fate::Unknown("no control plane here".to_owned()));
        };
        std::thread::spawn(move || reply(fates(lost)));
    }
}

/// The accounts of a server, read as the control plane reads them.
fn accounts_of(server: SocketAddr) -> Accounts {
    with_link(server, async |mut link| {
        engine::accounts(&mut link, 10_000)
            .await
            .expect("root may read accounts")
    })
}
