//! The router that `up` and `serve` share: control plane and doors, their start and their end.
//!
//! Order of the start: the state store and the farm in it; the HTTP address, so that a port in use is
//! known early; the control plane's loops; at last the SQL door, when there is something to serve.
//! Sockets that were taken over from another process are served when the farm is known.
//! Order of the end: readiness and the leadership are withdrawn and the SQL door drained, while the control plane still
//! tells the sessions who is primary; then HTTP and the control plane.

use std::future::Future;
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use catalog::Event;
use control::{Backup, Control, Credentials, Fence, Peer, Roster};
use farm::{Published, Snapshot};
use routing::rules::Rulebook;
use session::{Scratch, Transport};
use tokio::runtime::Runtime;
use tokio::signal::unix::Signal;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::configuration::Configuration;
use crate::configuration::rules::Source;
use crate::configuration::stamp::Stamp;
use crate::data_plane::{self, DataPlane, count};
use crate::diagnosis::ThisRouter;
use crate::doors::fabric;
use crate::doors::listeners::{self, Listeners};
use crate::doors::tls::{self, Files};
use crate::doors::{self, Doors};
use crate::failure::Failure;
use crate::flight;
use crate::host::outside::{self, FenceCommand};
use crate::host::signals::Signals;
use crate::settings::Settings;
use crate::store;
use crate::store::state_dir;
use crate::traces::Traces;
use crate::up::Tokens;

/// A start waits so long for a farm that does not answer.
pub const FARM_WAIT_MAX: Duration = Duration::from_secs(10);

/// In the state directory: transactions that were given up.
const ERRANT: &str = "errant";

/// For the files of sinks, below the state directory.
const SINKS: &str = "sinks";

/// Between two looks at it.
const FARM_LOOK: Duration = Duration::from_millis(5);

/// Control plane and addresses of one router.
pub struct Router {
    pub control: Arc<Control>,
    pub published: Arc<Published>,
    /// On a thread of its own.
    pub http: door_http::Door,
    data_plane: Arc<DataPlane>,
    settings: Settings,
    transport: Arc<Transport>,
    tls: Option<Files>,
    store: Arc<dyn meta::Store>,
    /// What carries out the calls of Fabric's clients.
    fabric: Option<Arc<door_fabric::Door>>,
    /// Those of SQL, of memcached and of Fabric's MySQL clients; taken by `open_doors`.
    given: Mutex<Option<Listeners>>,
    /// The last client id of the process before, which may still have clients.
    last_id: u32,
    /// What is in force.
    configuration: Arc<Configuration>,
    /// Where the rules stand, and the files as they were read.
    rules_source: (Source, Stamp),
    /// The signal to read them again; taken by `run_with`.
    hangup: Mutex<Option<Signal>>,
    sql_serves: Arc<AtomicBool>,
    /// Where SELECTs run whose rows come from several groups.
    pub scratch: Arc<Scratch>,
    /// For `event_command`; taken by `run_with`.
    events: Mutex<Option<mpsc::Receiver<Event>>>,
    traces: Traces,
}

impl Router {
    /// Opens the state store in `state` and binds the HTTP address unless there is a listener for it;
    /// serves nothing yet, HTTP until its door is told to. Servers are fenced by `means`, else by the `fence_command` of the settings.
    ///
    /// # Errors
    /// The store cannot be opened or read, or the address is in use.
    pub async fn open(
        settings: Settings,
        state: &Path,
        tokens: Tokens,
        means: Option<Means>,
        mut listeners: Listeners,
    ) -> Result<Router, Failure> {
        state_dir::prepare(state)?;
        state_dir::mend(&state.join(ERRANT))?;
        let scratch = Arc::new(Scratch::default());
        scratch.set(settings.scratch_server().map_err(Failure::new)?);
        let source = Source::of(&settings);
        let rules_source = (source.clone(), source.stamp());
        // Whoever finds a door open may send the signal.
        let hangup = Mutex::new(source.hangup());
        let rules = source.read().map_err(Failure::new)?;
        let configuration = Arc::new(Configuration::new(settings.clone(), rules));
        let files = Files::find(&settings, state)?;
        let transport = tls::transport(&settings, files.as_ref())?;
        let store = store::open(&settings, state).await?;
        let published = Arc::new(Published::from_pointee(Snapshot::empty("", Instant::now())));
        let data_plane = Arc::new(DataPlane::default());
        let mut told = control_settings(&settings, &configuration.rules);
        told.documents = Arc::clone(&configuration) as Arc<dyn control::Documents>;
        let (listener, events) = outside::queue();
        told.listener = Some(Arc::new(listener));
        told.peers.transport = Arc::new(door_http::HttpPeers);
        reach_servers(&settings, means, &mut told);
        told.membership = store::membership(&settings)?;
        if let Some(membership) = &mut told.membership {
            membership.replaces = !listeners.are_shared;
        }
        let sessions = Arc::clone(&data_plane) as Arc<dyn control::Sessions>;
        let (kept, shown) = (Arc::clone(&store), Arc::clone(&published));
        let control = Control::open(kept, shown, sessions, told).await?;
        store::remember(&settings, state, &published.load().farm_id)?;
        let sql_serves = Arc::new(AtomicBool::new(false));
        let mut http = http_settings(&settings, tokens, listeners.http.take());
        (http.certificate, http.tls) = tls::over_http(&settings, &transport);
        http.memory = Arc::clone(configuration.live.memory());
        let fabric = fabric::door(&settings, &published, &control, &data_plane)?;
        http.guest = fabric::guest(&settings, fabric.as_ref(), listeners.fabric.take())?;
        let (serves, asked) = (Arc::clone(&sql_serves), Arc::clone(&control));
        let traces = Traces::of(&settings)?;
        let (metrics, rows) = data_plane::shown(&data_plane, traces.metrics());
        let http = door_http::Door::open(http, asked, serves, metrics, rows)?;
        introduce(&control, &http, &settings, state, &files, &configuration);
        data_plane.record(&settings, state);
        Ok(Router {
            control,
            published,
            http,
            data_plane,
            settings,
            transport,
            tls: files,
            store,
            fabric,
            last_id: listeners.last_id,
            given: Mutex::new(Some(listeners)),
            configuration,
            rules_source,
            hangup,
            sql_serves,
            scratch,
            events: Mutex::new(Some(events)),
            traces,
        })
    }

    /// Runs the control plane for as long as `life` lasts, and gives its result. Ends the HTTP door with it.
    pub async fn run_with<T>(&self, life: impl Future<Output = T>) -> T {
        let (stop, stopped) = watch::channel(false);
        let until_stopped = |mut stopped: watch::Receiver<bool>| async move {
            // An error means that the sender is gone: the end as well.
            let _ = stopped.wait_for(|&stopped| stopped).await;
        };
        let life = async {
            let result = life.await;
            let _ = stop.send(true);
            result
        };
        let control = Arc::clone(&self.control).run(until_stopped(stopped.clone()));
        let http = async {
            until_stopped(stopped.clone()).await;
            self.http.close().await;
        };
        let follow = async {
            let Some(files) = self.tls.clone() else {
                return;
            };
            let transport = Arc::clone(&self.transport);
            tokio::select! {
                () = files.follow(transport) => {}
                () = until_stopped(stopped.clone()) => {}
            }
        };
        let (source, stamp) = self.rules_source.clone();
        let hangup = self.hangup.lock().ok().and_then(|mut hangup| hangup.take());
        let read_rules = source.follow(
            stamp,
            hangup,
            Arc::clone(&self.configuration),
            Arc::clone(&self.control),
        );
        let reread = async {
            tokio::select! {
                () = read_rules => {}
                () = until_stopped(stopped.clone()) => {}
            }
        };
        let events = self.events.lock().ok().and_then(|mut events| events.take());
        let command = self.settings.event_command.clone();
        let told = async {
            let Some(events) = events else { return };
            tokio::select! {
                () = outside::tell(command, events) => {}
                () = until_stopped(stopped.clone()) => {}
            }
        };
        // Tasks of their own: what wakes these has nothing else of the router looked at.
        let mut beside = JoinSet::new();
        beside.spawn(data_plane::attend(Arc::clone(&self.data_plane)));
        beside.spawn(data_plane::spare_memory::give_back());
        let published = Arc::clone(&self.published);
        beside.spawn(flight::watch(published, Arc::clone(&self.data_plane)));
        let sinks = deliver(Arc::clone(self.control.sinks()), stopped.clone());
        let traces = self.traces.export(until_stopped(stopped.clone()));
        let (result, (), (), (), (), (), (), ()) =
            tokio::join!(life, control, http, follow, reread, told, sinks, traces);
        beside.shutdown().await;
        self.data_plane.end_flight();
        result
    }

    /// Opens the SQL door.
    ///
    /// # Errors
    /// The address is in use, or the kernel lacks what the data plane needs.
    pub fn open_doors(&self) -> Result<Doors, Failure> {
        let published = Arc::clone(&self.published);
        let transport = Arc::clone(&self.transport);
        let rules = Arc::clone(&self.configuration.rules);
        let listen = &self.settings.sql_listen;
        let failed = |error| {
            Failure::new(format!(
                "cannot serve SQL on {listen}: {error}; choose another address (--sql), or another --io"
            ))
        };
        let given = self.given.lock().ok().and_then(|mut given| given.take());
        let given = given.unwrap_or_default();
        let listeners = listeners::open(given.sql, listen, &self.settings).map_err(failed)?;
        let live = Arc::clone(&self.configuration.live);
        let settings = &self.settings;
        let mut options = data_plane::options(
            settings,
            listeners,
            published,
            transport,
            rules,
            live,
            &self.control,
        );
        options.scratch = Arc::clone(&self.scratch);
        options.slow_log = data_plane::slow_log::start(settings)?;
        options.traces = self.traces.queue.clone();
        let door = door_sql::start(options).map_err(failed)?;
        door.shared().registry.begin_after(self.last_id);
        if let Some(flight) = self.data_plane.flight() {
            flight.begin_cores(&door.dealer());
        }
        let mut doors = Doors::open(settings, door, given.kv)?;
        match fabric::mysql(settings, self.fabric.as_ref(), given.fabric_mysql) {
            Ok(fabric) => doors.fabric = fabric,
            Err(failure) => {
                doors.drain(Duration::ZERO);
                return Err(failure);
            }
        }
        let own = doors::own(settings);
        self.data_plane.set(&doors, &self.configuration.rules, own);
        self.sql_serves.store(true, Ordering::Release);
        Ok(doors)
    }

    /// Waits until the servers have been asked how they are, so that clients need not wait for it:
    /// every active group has a primary that takes writes, and the accounts are known. Gives up after
    /// [`FARM_WAIT_MAX`], since a farm may be without a primary.
    pub async fn knows_farm(&self) {
        let known = || {
            let snapshot = self.published.load();
            let takes_writes = |group: &Arc<farm::Group>| {
                let primary = group.primary();
                primary.is_some_and(|server| server.serves_writes())
            };
            let mut active = snapshot.groups.iter().filter(|group| group.active);
            snapshot.groups.is_empty()
                || (active.all(takes_writes) && !snapshot.accounts.is_empty())
        };
        let waited = tokio::time::timeout(FARM_WAIT_MAX, async {
            while !known() {
                tokio::time::sleep(FARM_LOOK).await;
            }
        });
        if waited.await.is_err() {
            tracing::warn!("the farm has no primary that answers; clients wait for one");
        }
    }

    /// Takes no more clients and lets those that are there finish. Before, `/readyz` says so for
    /// `drain_ready_ms` to those who send clients here, unless a signal says that it is enough.
    ///
    /// # Errors
    /// A thread of the data plane panicked.
    pub async fn drain(&self, doors: Doors, signals: &mut Signals) -> Result<(), Failure> {
        self.sql_serves.store(false, Ordering::Release);
        // Where there are others, one of them leads from now on; one that is alone acts to its end.
        if let Err(error) = self.control.resign().await {
            // The lease runs out then.
            tracing::warn!("the leadership was not given up: {error}");
        }
        let announced = Duration::from_millis(self.settings.drain_ready_ms);
        if !announced.is_zero() {
            tokio::select! {
                () = tokio::time::sleep(announced) => {}
                () = signals.end() => {}
            }
        }
        self.drain_at_once(doors).await
    }

    /// Lets those finish that are there, where no more come.
    ///
    /// # Errors
    /// A thread of the data plane panicked.
    pub async fn drain_at_once(&self, doors: Doors) -> Result<(), Failure> {
        self.sql_serves.store(false, Ordering::Release);
        let deadline = Duration::from_secs(self.settings.drain_s);
        let data_plane = Arc::clone(&self.data_plane);
        let drain = move || {
            // The cores end with their sessions, and with them what they have counted.
            data_plane.keep_minute();
            doors.drain(deadline)
        };
        blocking(drain).await
    }

    /// Whether the farm's state is in a file, which one process has at a time.
    pub fn lends(&self) -> bool {
        self.store.embedded().is_some()
    }

    /// Acts for the farm no more: another process takes this one's place. The clients that are here are
    /// served on by what is known, and by what is told to [`Router::learn`].
    pub async fn step_down(&self) {
        if let Err(error) = self.control.retire().await {
            // The lease runs out then.
            tracing::warn!("the leadership was not given up: {error}");
        }
    }

    /// Lets another process have the file of the state store.
    ///
    /// # Errors
    /// It cannot be read for the last time.
    pub async fn lend(&self) -> Result<(), meta::Error> {
        match self.store.embedded() {
            Some(file) => file.lend().await,
            None => Ok(()),
        }
    }

    /// What the process that has the file tells of it.
    pub fn learn(&self, told: meta::Listing) {
        if let Some(file) = self.store.embedded() {
            file.learn(told);
        }
    }

    /// Acts for the farm again, after the other process has ended.
    ///
    /// # Errors
    /// It still has the file.
    pub async fn reclaim(&self) -> Result<(), meta::Error> {
        if let Some(file) = self.store.embedded() {
            file.reclaim().await?;
        }
        self.control.resume();
        Ok(())
    }

    /// The whole store but the history of the configuration, whenever something has changed after
    /// `after`.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn news(&self, after: u64) -> Result<meta::Listing, meta::Error> {
        let mut told = self.store.scan("/").await?;
        while told.revision <= after {
            let mut watch = self.store.watch("/", told.revision).await?;
            match watch.next().await {
                Ok(_) | Err(meta::Error::Gap) => told = self.store.scan("/").await?,
                Err(error) => return Err(error),
            }
        }
        told.entries
            .retain(|entry| !entry.key.starts_with("/config/version/"));
        Ok(told)
    }

    /// Has the sessions look at a farm that has changed.
    pub fn turned(&self) {
        control::Sessions::turned(&*self.data_plane);
    }

    /// What the settings say.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

/// Delivers the changes of sinks until the end, on a thread of its own: many rows delay nothing of the control plane.
async fn deliver(sinks: Arc<control::Sinks>, mut stopped: watch::Receiver<bool>) {
    let until_stopped = async move {
        // An error means that the sender is gone: the end as well.
        let _ = stopped.wait_for(|&stopped| stopped).await;
    };
    let life = move || runtime().map(|it| it.block_on(sinks.run(until_stopped)));
    if let Err(failure) | Ok(Err(failure)) = blocking(life).await {
        tracing::error!("sinks are not served: {}", failure.text);
    }
}

/// A router without others knows itself; one of several has been told by the store who it is.
fn introduce(
    control: &Control,
    http: &door_http::Door,
    settings: &Settings,
    state: &Path,
    tls: &Option<Files>,
    configuration: &Arc<Configuration>,
) {
    let router = ThisRouter::of(settings, state, tls, configuration);
    control.know(Arc::new(router));
    if !control.roster().own.id.is_empty() {
        return;
    }
    let http = http.address().to_string();
    let name = Some(settings.router_name.clone()).filter(|name| !name.is_empty());
    control.set_roster(Roster {
        own: Peer {
            name: name.unwrap_or_else(|| http.clone()),
            http,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Peer::default()
        },
        ..Roster::default()
    });
}

fn http_settings(
    settings: &Settings,
    tokens: Tokens,
    listener: Option<TcpListener>,
) -> door_http::Settings {
    let mut http = door_http::Settings::new(settings.http_listen, &tokens.admin);
    http.monitor_token = tokens.monitor;
    http.open_metrics = settings.metrics_public.0;
    http.hosts.clone_from(&settings.http_hosts);
    http.body_bytes_max = count(settings.http_body_bytes_max);
    http.connections_max = count(settings.http_connections_max);
    http.address_connections_max = count(settings.http_address_connections_max);
    http.header_timeout = Duration::from_secs(settings.http_header_timeout_s);
    http.body_timeout = Duration::from_secs(settings.http_body_timeout_s);
    http.idle_timeout = Duration::from_secs(settings.http_idle_timeout_s);
    http.write_timeout = Duration::from_secs(settings.http_write_timeout_s);
    http.balancers
        .clone_from(&settings.proxy_protocol_networks.0);
    http.change_streams_max = count(settings.change_streams_max);
    http.listener = listener.map(Arc::new);
    http
}

/// What a router that started the servers itself can do with their processes and files.
pub struct Means {
    pub fence: Arc<dyn Fence>,
    pub backup: Arc<dyn Backup>,
}

fn reach_servers(settings: &Settings, means: Option<Means>, told: &mut control::Settings) {
    told.failover.fences = means.is_some() || !settings.fence_command.is_empty();
    told.failover.fence = fence_command(settings);
    if let Some(Means { fence, backup }) = means {
        told.failover.fence = fence;
        told.provision.backup = backup;
    }
}

fn fence_command(settings: &Settings) -> Arc<dyn Fence> {
    Arc::new(FenceCommand {
        command: settings.fence_command.clone(),
        limit: Duration::from_millis(settings.fence_timeout_ms),
    })
}

fn control_settings(settings: &Settings, rules: &Arc<Rulebook>) -> control::Settings {
    let credentials = Credentials {
        user: settings.admin_user.clone(),
        password: settings.admin_password.clone(),
        replication_user: settings.replication_user.clone(),
        replication_password: settings.replication_password.clone(),
        tls: tls::link(settings),
    };
    let mut told = control::Settings::new(credentials);
    let errant = settings.errant_dir.0.clone();
    told.provision.errant_dir = errant.unwrap_or_else(|| settings.state_dir.join(ERRANT));
    let sinks = settings.sink_files_dir.0.clone();
    told.sink_files_dir = sinks.unwrap_or_else(|| settings.state_dir.join(SINKS));
    told.provision.tool_dirs = settings.binlog_tool_dir.0.iter().cloned().collect();
    told.observation.proxy = settings.proxy_protocol_servers.0;
    told.failover.relaxed_replicas = settings.relaxed_replicas.0;
    told.rules = Arc::clone(rules);
    told.nodes = fabric::nodes(settings);
    tell_control(settings, &mut told);
    told
}

/// Tells the control plane what may change while it runs.
pub fn tell_control(settings: &Settings, told: &mut control::Settings) {
    let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    told.step_timeout_ms = settings.step_timeout_ms;
    told.subscription_binlogs_h = settings.subscription_binlogs_h;
    told.measures_tables = settings.broadcast_bytes_max > 0;
    let observation = &mut told.observation;
    observation.probe_interval_ms = settings.probe_interval_ms;
    observation.probe_timeout_ms = settings.probe_timeout_ms;
    observation.probe_failures = small(settings.probe_failures);
    observation.heartbeat_interval_ms = settings.heartbeat_interval_ms;
    observation.position_interval_ms = settings.position_interval_ms;
    observation.accounts_interval_ms = settings.accounts_interval_ms;
    observation.early_writes_ms = match settings.kv_ack_before_commit.0 {
        true => settings.kv_commit_within_ms,
        false => 0,
    };
    told.detection = control::DetectionSettings {
        detections: small(settings.detections),
        detection_interval_ms: settings.detection_interval_ms,
        detection_timeout_ms: settings.detection_timeout_ms,
    };
    let failover = &mut told.failover;
    failover.last_replica_wait_ms = settings.last_replica_wait_ms;
    failover.switchover_drain_ms = settings.switchover_drain_ms;
    failover.failover_interval_ms = settings.failover_interval_ms;
    failover.lossy_promotion_after_ms = settings.lossy_promotion_after_ms;
    failover.write_timeout_ms = settings.write_timeout_ms;
    failover.notifications = small(settings.notifications);
    failover.notification_clients = small(settings.notification_clients);
    failover.notification_interval_ms = settings.notification_interval_ms;
    told.provision.rejoin_by_clone = settings.rejoin_by_clone.0;
    told.provision.clone_mib_per_s_max = settings.clone_mib_per_s_max;
    told.txn_recovery = control::TxnRecoverySettings {
        crossing_interval_ms: settings.crossing_interval_ms,
        crossing_grace_ms: settings.crossing_grace_ms,
        decisions_kept_ms: settings.decisions_kept_ms,
    };
    let peers = &mut told.peers;
    peers.peer_timeout_ms = settings.peer_timeout_ms;
    peers.peers_in_clear = settings.peers_in_clear.0;
    peers.client_exchange_ms = settings.client_exchange_ms;
}

/// The control plane's runtime.
///
/// # Errors
/// The process is out of file descriptors.
pub fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            Failure::new(format!(
                "cannot start a runtime: {error}; raise LimitNOFILE"
            ))
        })
}

/// Runs what blocks on a thread of its own.
///
/// # Errors
/// It panicked.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let joined = tokio::task::spawn_blocking(work).await;
    joined
        .map_err(|_| Failure::new("a thread of Heddle panicked; please report it with its output"))
}
