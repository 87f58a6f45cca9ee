//! The router that `up` and `serve` share: control plane and doors, their start and their end.
//!
//! Order of the start: the state store and the farm in it; the HTTP address, so that a port in use is
//! known early; the control plane's loops; at last the SQL door, when there is something to serve.
//! Order of the end: readiness is withdrawn and the SQL door drained, while the control plane still
//! tells the sessions who is primary; then HTTP and the control plane.

use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use control::{Control, Credentials, Event, Fence, Peer, Roster};
use door_sql::Door;
use farm::{Published, Snapshot};
use routing::rules::Rulebook;
use session::{Live, Transport};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};

use crate::data_plane::{self, DataPlane};
use crate::failure::Failure;
use crate::outside::{self, FenceCommand};
use crate::rules::{Source, received};
use crate::settings::Settings;
use crate::stamp::Stamp;
use crate::store;
use crate::tls::{self, Files};

/// Control plane and addresses of one router.
pub struct Router {
    pub control: Arc<Control>,
    pub published: Arc<Published>,
    pub http_address: SocketAddr,
    data_plane: Arc<DataPlane>,
    settings: Settings,
    transport: Arc<Transport>,
    tls: Option<Files>,
    rules: Arc<Rulebook>,
    /// Where the rules stand, and the files as they were read.
    rules_source: (Source, Stamp),
    sql_serves: Arc<AtomicBool>,
    /// For `event_command`; taken by `run_with`.
    events: Mutex<Option<mpsc::Receiver<Event>>>,
}

impl Router {
    /// Opens the state store in `state` and binds the HTTP address; serves nothing yet. Servers are
    /// fenced by `fence`, else by the `fence_command` of the settings.
    ///
    /// # Errors
    /// The store cannot be opened or read, or the address is in use.
    pub async fn open(
        settings: Settings,
        state: &Path,
        token: String,
        fence: Option<Arc<dyn Fence>>,
    ) -> Result<(Router, door_http::Door), Failure> {
        std::fs::create_dir_all(state).map_err(|error| {
            Failure::new(format!(
                "cannot make the state directory {}: {error}",
                state.display()
            ))
        })?;
        let source = Source::of(&settings);
        let rules_source = (source.clone(), source.stamp());
        let rules = Arc::new(Rulebook::default());
        rules.publish(source.read().map_err(Failure::new)?);
        let files = Files::find(&settings, state)?;
        let presented = files.as_ref().map(Files::load).transpose()?;
        let servers = tls::terms(&settings)?;
        let transport = Transport::new(settings.tls_clients.0, presented, servers);
        let transport = Arc::new(transport);
        let store = store::open(&settings, state).await?;
        let published = Arc::new(Published::from_pointee(Snapshot::empty("", Instant::now())));
        let data_plane = Arc::new(DataPlane::default());
        let mut told = control_settings(&settings, &rules);
        let (listener, events) = outside::queue();
        told.listener = Some(Arc::new(listener));
        told.peers = Arc::new(door_http::HttpPeers);
        told.fences = fence.is_some() || !settings.fence_command.is_empty();
        told.fence = fence.unwrap_or_else(|| fence_command(&settings));
        told.membership = store::membership(&settings)?;
        let control = Control::open(
            store,
            Arc::clone(&published),
            Arc::clone(&data_plane) as Arc<dyn control::Sessions>,
            told,
        )
        .await?;
        store::remember(&settings, state, &published.load().farm_id)?;
        let sql_serves = Arc::new(AtomicBool::new(false));
        let mut http = door_http::Settings::new(settings.http_listen, &token);
        http.hosts.clone_from(&settings.http_hosts);
        let serves = Arc::clone(&sql_serves);
        let metrics = vec![Arc::clone(&data_plane) as Arc<dyn door_http::Metrics>];
        let door = door_http::Door::bind(http, Arc::clone(&control), serves, metrics).await?;
        let http_address = door.address();
        introduce(&control, &settings, http_address);
        Ok((
            Router {
                control,
                published,
                http_address,
                data_plane,
                settings,
                transport,
                tls: files,
                rules,
                rules_source,
                sql_serves,
                events: Mutex::new(Some(events)),
            },
            door,
        ))
    }

    /// Runs the control plane and the HTTP door for as long as `life` lasts, and gives its result.
    pub async fn run_with<T>(&self, http: door_http::Door, life: impl Future<Output = T>) -> T {
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
        let http = http.serve(until_stopped(stopped.clone()));
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
        let read_rules = source.follow(stamp, Arc::clone(&self.rules), Arc::clone(&self.control));
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
        let (result, (), (), (), (), ()) = tokio::join!(life, control, http, follow, reread, told);
        result
    }

    /// Opens the SQL door.
    ///
    /// # Errors
    /// The address is in use, or the kernel lacks what the data plane needs.
    pub fn open_sql_door(&self) -> Result<Door, Failure> {
        let commander = self.control.commander();
        let published = Arc::clone(&self.published);
        let transport = Arc::clone(&self.transport);
        let rules = Arc::clone(&self.rules);
        let in_force = data_plane::in_force(&self.settings);
        let live = Arc::new(Live::new(in_force.settings, in_force.preferences));
        let settings = &self.settings;
        let options = data_plane::options(settings, published, transport, rules, live, commander);
        let door = door_sql::start(options).map_err(|error| {
            let listen = self.settings.sql_listen;
            Failure::new(format!("cannot serve SQL on {listen}: {error}; choose another address (--sql), or another --io"))
        })?;
        self.data_plane.set(&door, &self.rules);
        self.sql_serves.store(true, Ordering::Release);
        Ok(door)
    }

    /// Takes no more clients and lets those that are there finish.
    ///
    /// # Errors
    /// A thread of the data plane panicked.
    pub async fn drain(&self, door: Door) -> Result<(), Failure> {
        self.sql_serves.store(false, Ordering::Release);
        let deadline = Duration::from_secs(self.settings.drain_s);
        blocking(move || door.drain(deadline)).await
    }
}

/// A router without others knows itself; one of several has been told by the store who it is.
fn introduce(control: &Control, settings: &Settings, http: SocketAddr) {
    if !control.roster().own.id.is_empty() {
        return;
    }
    let http = http.to_string();
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
    told.probe_interval_ms = settings.probe_interval_ms;
    told.peer_timeout_ms = settings.peer_timeout_ms;
    told.probe_timeout_ms = settings.probe_timeout_ms;
    told.heartbeat_interval_ms = settings.heartbeat_interval_ms;
    told.position_interval_ms = settings.position_interval_ms;
    told.probe_failures = u32::try_from(settings.probe_failures).unwrap_or(u32::MAX);
    told.accounts_interval_ms = settings.accounts_interval_ms;
    told.last_replica_wait_ms = settings.last_replica_wait_ms;
    told.step_timeout_ms = settings.step_timeout_ms;
    told.rejoin_by_clone = settings.rejoin_by_clone.0;
    let errant = settings.errant_dir.0.clone();
    told.errant_dir = errant.unwrap_or_else(|| settings.state_dir.join("errant"));
    told.tool_dirs = settings.binlog_tool_dir.0.iter().cloned().collect();
    told.detections = u32::try_from(settings.detections).unwrap_or(u32::MAX);
    told.detection_interval_ms = settings.detection_interval_ms;
    told.detection_timeout_ms = settings.detection_timeout_ms;
    told.write_timeout_ms = settings.write_timeout_ms;
    told.failover_interval_ms = settings.failover_interval_ms;
    told.lossy_promotion_after_ms = settings.lossy_promotion_after_ms;
    told.notifications = u32::try_from(settings.notifications).unwrap_or(u32::MAX);
    told.notification_clients = u32::try_from(settings.notification_clients).unwrap_or(u32::MAX);
    told.notification_interval_ms = settings.notification_interval_ms;
    told.switchover_drain_ms = settings.switchover_drain_ms;
    told.relaxed_replicas = settings.relaxed_replicas.0;
    told.fence_timeout_ms = settings.fence_timeout_ms;
    told.rules = Arc::clone(rules);
    told
}

/// Binds each address and lets it go: a port in use is told before anything is started.
///
/// # Errors
/// The first address that cannot be had.
pub fn addresses_are_free(settings: &Settings) -> Result<(), Failure> {
    let addresses = [
        ("SQL", "--sql", settings.sql_listen),
        ("HTTP", "--http", settings.http_listen),
    ];
    for (door, flag, address) in addresses {
        TcpListener::bind(address).map_err(|error| {
            Failure::new(format!(
                "cannot listen for {door} on {address}: {error}; end the program that uses it, or \
                 choose another address ({flag} ADDR)"
            ))
        })?;
    }
    Ok(())
}

/// The control plane's runtime.
///
/// # Errors
/// The process is out of file descriptors.
pub fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot start the control plane: {error}")))
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

/// The signals that end a router in order: Ctrl-C, `kill`, and, of one that has no settings file to
/// read anew, a terminal that went away.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Option<Signal>,
}

impl Signals {
    /// From here on these signals wait to be asked for.
    ///
    /// # Errors
    /// The kernel refuses, which it does not do.
    pub fn install(hangup_ends: bool) -> Result<Signals, Failure> {
        let on = |kind| {
            signal(kind).map_err(|error| Failure::new(format!("cannot wait for signals: {error}")))
        };
        Ok(Signals {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            // Asked for in any case: from then on it does not end the process by itself.
            hangup: Some(on(SignalKind::hangup())?).filter(|_| hangup_ends),
        })
    }

    /// Waits for one of them. Cancellation-safe: a signal is not lost when this future is dropped.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = received(&mut self.hangup) => {}
        }
    }
}
