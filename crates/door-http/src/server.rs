//! The door's thread: listening, routing, shutting down.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::{MethodRouter, get, post};
use control::Control;
use farm::Access;
use memory::Budget;
use routing::rules::Network;
use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::body::{self, Room};
use crate::census::Limits;
use crate::change_stream::Streams;
use crate::connection::Patience;
use crate::console::live::Sources;
use crate::console::{Live, assets, live};
use crate::counted::Counted;
use crate::guard::{self, Guard, Older};
use crate::metrics::Metrics;
use crate::rows::Rows;
use crate::serving::{Certificate, Certificates, Demand, Served};
use crate::{answer, change_stream, commands, condition, peers, rows};

/// Clients that may wait in the kernel until they are taken.
const QUEUE: i32 = 1024;

/// What the door is told at its start.
#[derive(Clone)]
pub struct Settings {
    pub listen: SocketAddr,
    /// A socket that listens already, to be used in place of `listen`.
    pub listener: Option<Arc<std::net::TcpListener>>,
    /// The bearer token of those who may ask for everything; with an empty one nobody may.
    pub token: String,
    /// The bearer token of those who may look at the farm; with an empty one there are none.
    pub monitor_token: String,
    /// Everybody may see the console's overview and the metrics.
    pub open_metrics: bool,
    /// Who has a certificate, where TLS is offered, and whether it is demanded.
    pub certificate: Option<Arc<dyn Certificate>>,
    pub tls: Demand,
    /// Host names, besides `localhost` and IP addresses, by which clients may call this door.
    pub hosts: Vec<String>,
    /// Longest request body.
    pub body_bytes_max: usize,
    /// Connections at once, in all and of one address.
    pub connections_max: usize,
    pub address_connections_max: usize,
    /// A request's head must be there so long after it began, or after its connection did.
    pub header_timeout: Duration,
    /// Its body must be there so long after its head.
    pub body_timeout: Duration,
    /// The next request must begin so long after the last answer.
    pub idle_timeout: Duration,
    /// A client that takes nothing of its answer for so long is closed.
    pub write_timeout: Duration,
    /// From where load balancers may say by the PROXY protocol where their clients are.
    pub balancers: Vec<Network>,
    /// What bodies are taken from; by default there is enough.
    pub memory: Arc<Budget>,
    /// Another door's paths, if there are any.
    pub guest: Option<Guest>,
    /// Change streams at once.
    pub change_streams_max: usize,
}

/// Paths of another door, on an address of their own. This door's thread serves them, behind its guard and
/// with its deadlines; a right that a request's token gives stands in an extension of the type [`Access`].
#[derive(Clone)]
pub struct Guest {
    pub listen: SocketAddr,
    /// A socket that listens already, to be used in place of `listen`.
    pub listener: Option<Arc<std::net::TcpListener>>,
    pub paths: Router,
    /// Connections at once, in all and of one address.
    pub connections_max: usize,
}

impl Guest {
    /// Its socket, and where that listens.
    fn bound(&self) -> Result<(Arc<std::net::TcpListener>, SocketAddr), Error> {
        let bound = bound(self.listen, self.listener.as_ref());
        bound.map_err(|source| Error::ListenGuest {
            address: self.listen,
            source,
        })
    }
}

impl Settings {
    /// The defaults.
    pub fn new(listen: SocketAddr, token: &str) -> Settings {
        Settings {
            listen,
            listener: None,
            token: token.to_owned(),
            monitor_token: String::new(),
            open_metrics: false,
            certificate: None,
            tls: Demand::Welcome,
            hosts: Vec::new(),
            body_bytes_max: 1 << 20,
            connections_max: 512,
            address_connections_max: 64,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(30),
            balancers: Vec::new(),
            memory: Arc::new(Budget::new(usize::MAX)),
            guest: None,
            change_streams_max: 8,
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            connections_max: self.connections_max,
            address_connections_max: self.address_connections_max,
        }
    }

    fn patience(&self) -> Patience {
        Patience {
            head: self.header_timeout,
            body: self.body_timeout,
            idle: self.idle_timeout,
            write: self.write_timeout,
        }
    }
}

/// Why the door does not open.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen for HTTP on {address}: {source}; choose another address (--http)")]
    Listen {
        address: SocketAddr,
        source: std::io::Error,
    },
    #[error(
        "cannot listen for Fabric's clients on {address}: {source}; choose another address (fabric_listen, --fabric)"
    )]
    ListenGuest {
        address: SocketAddr,
        source: std::io::Error,
    },
    #[error("cannot start the HTTP door's thread: {0}; raise LimitNOFILE or TasksMax")]
    Thread(#[source] std::io::Error),
}

/// What every request may look at.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) control: Arc<Control>,
    pub(crate) sql_serves: Arc<AtomicBool>,
    pub(crate) counted: Arc<Counted>,
    /// Of the other door's connections, if it has any.
    pub(crate) guests: Option<Arc<Counted>>,
    pub(crate) metrics: Arc<[Arc<dyn Metrics>]>,
    pub(crate) rows: Arc<dyn Rows>,
    pub(crate) streams: Streams,
    pub(crate) live: Live,
}

impl Shared {
    /// What the live picture is made from.
    fn sources(&self) -> Sources {
        Sources {
            control: Arc::clone(&self.control),
            metrics: Arc::clone(&self.metrics),
            sql_serves: Arc::clone(&self.sql_serves),
        }
    }
}

/// The HTTP door on a thread of its own, from [`Door::open`] to [`Door::close`] or its drop. Its thread
/// reads requests, waits for answers of the control plane, and writes them out: nothing of it keeps another
/// thread.
pub struct Door {
    listener: Arc<std::net::TcpListener>,
    address: SocketAddr,
    guest: Option<(Arc<std::net::TcpListener>, SocketAddr)>,
    wish: watch::Sender<Wish>,
    /// The door's own, and those of the change streams and the console, which end with it.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What the door's thread is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Take no requests: nobody is to, or another process does.
    Rest,
    Serve,
    End,
}

impl Door {
    /// Binds the address and starts the thread, which rests until [`Door::serve`]. `sql_serves` is true
    /// while the SQL door takes clients; it is all that this door knows of the other.
    ///
    /// # Errors
    /// The address cannot be had, or the process is out of threads or file descriptors.
    pub fn open(
        settings: Settings,
        control: Arc<Control>,
        sql_serves: Arc<AtomicBool>,
        metrics: Vec<Arc<dyn Metrics>>,
        rows: Arc<dyn Rows>,
    ) -> Result<Door, Error> {
        let (listener, address) =
            bound(settings.listen, settings.listener.as_ref()).map_err(|source| Error::Listen {
                address: settings.listen,
                source,
            })?;
        let guest = settings.guest.as_ref().map(Guest::bound).transpose()?;
        let certificates = Certificates {
            clients: settings.certificate.clone(),
            peers: Arc::new(peers::Shown(Arc::clone(&control))),
        };
        let guard = guard_of(&settings, &control);
        let counted = Arc::<Counted>::default();
        let guests = guest.as_ref().map(|_| Arc::<Counted>::default());
        let (wish, wished) = watch::channel(Wish::Rest);
        let (streams, streaming) = Streams::new(settings.change_streams_max, wished.clone());
        let shared = Shared {
            control,
            counted: Arc::clone(&counted),
            guests: guests.clone(),
            sql_serves,
            metrics: metrics.into(),
            rows,
            streams,
            live: Live::new(wished.clone()),
        };
        let showing = shared.live.clone().run(shared.sources());
        let router = router(shared, guard.clone(), &settings);
        let patience = settings.patience();
        let balancers = settings.balancers.clone();
        let served = Served::new(
            router,
            certificates.clone(),
            counted,
            settings.limits(),
            patience,
        )
        .behind(balancers.clone());
        let of_guest = settings.guest.clone().zip(guests).map(|(guest, counted)| {
            let limits = Limits {
                connections_max: guest.connections_max,
                address_connections_max: guest.connections_max,
            };
            let paths = guarded(guest.paths, guard, &settings);
            Served::new(paths, certificates, counted, limits, patience).behind(balancers)
        });
        let heard = Arc::clone(&listener);
        let of_guest = guest
            .as_ref()
            .map(|(heard, _)| Arc::clone(heard))
            .zip(of_guest);
        let streaming = start("changes", streaming)?;
        let showing = start("console", showing)?;
        let thread = start("http", async move {
            attend(&heard, &served, of_guest, wished).await;
        })?;
        Ok(Door {
            listener,
            address,
            guest,
            wish,
            threads: Mutex::new(vec![thread, streaming, showing]),
        })
    }

    /// Where the other door's paths are.
    pub fn guest_address(&self) -> Option<SocketAddr> {
        self.guest.as_ref().map(|(_, address)| *address)
    }

    /// The other door's listening socket, to be given to another process.
    pub fn guest_listener(&self) -> Option<Arc<std::net::TcpListener>> {
        self.guest
            .as_ref()
            .map(|(listener, _)| Arc::clone(listener))
    }

    /// Where it listens; the port is the real one when the settings said 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The listening socket, to be given to another process.
    pub fn listener(&self) -> Arc<std::net::TcpListener> {
        Arc::clone(&self.listener)
    }

    /// Takes requests from now on, or no more: those that run may end.
    pub fn serve(&self, serves: bool) {
        let wanted = match serves {
            true => Wish::Serve,
            false => Wish::Rest,
        };
        self.wish.send_if_modified(|wish| {
            // The end is the end.
            let news = *wish != Wish::End && *wish != wanted;
            if news {
                *wish = wanted;
            }
            news
        });
    }

    /// Ends the thread: idle connections are closed at once, running requests have a few seconds to end.
    pub async fn close(&self) {
        for thread in self.end() {
            let joined = tokio::task::spawn_blocking(move || thread.join()).await;
            if !matches!(joined, Ok(Ok(()))) {
                tracing::error!(
                    "a thread of the HTTP door panicked; please report it with this log"
                );
            }
        }
    }

    /// Has the threads end, and gives them to who waits for them first.
    fn end(&self) -> Vec<JoinHandle<()>> {
        self.wish.send_replace(Wish::End);
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *threads)
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        for thread in self.end() {
            // What a panic there said stands in the log; a drop has nobody to tell.
            let _ = thread.join();
        }
    }
}

/// What requests are measured by.
fn guard_of(settings: &Settings, control: &Arc<Control>) -> Guard {
    let of_older = Arc::clone(control);
    let older = Older {
        secret: control.secret(),
        may_ask: Arc::new(move || of_older.answers_in_clear()),
    };
    let (token, monitor_token) = (&settings.token, &settings.monitor_token);
    Guard::new(token, monitor_token, older, &settings.hosts).demanding(settings.tls)
}

/// A socket that listens, without blocking: the one that there is, or a new one.
fn bound(
    address: SocketAddr,
    given: Option<&Arc<std::net::TcpListener>>,
) -> std::io::Result<(Arc<std::net::TcpListener>, SocketAddr)> {
    let listener = match given {
        Some(listener) => Arc::clone(listener),
        None => Arc::new(listen(address)?),
    };
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Listens on an address. The standard library's queue is shorter than a burst of clients.
fn listen(address: SocketAddr) -> std::io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // An address whose last connections are not forgotten yet may be had.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(QUEUE)?;
    Ok(socket.into())
}

/// A thread with a runtime of its own, for this.
fn start(
    name: &str,
    life: impl Future<Output = ()> + Send + 'static,
) -> Result<JoinHandle<()>, Error> {
    let (tell, told) = mpsc::channel();
    let thread = std::thread::Builder::new().name(name.to_owned());
    let thread = thread.spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        // Who starts the thread waits for this.
        let _ = tell.send(runtime.as_ref().map(drop).map_err(|error| error.kind()));
        if let Ok(runtime) = runtime {
            runtime.block_on(life);
        }
    });
    let thread = thread.map_err(Error::Thread)?;
    match told.recv() {
        Ok(Err(kind)) => Err(Error::Thread(kind.into())),
        _ => Ok(thread),
    }
}

/// The thread's life.
async fn attend(
    listener: &std::net::TcpListener,
    served: &Served,
    guest: Option<(Arc<std::net::TcpListener>, Served)>,
    mut wish: watch::Receiver<Wish>,
) {
    loop {
        let now = *wish.borrow_and_update();
        match now {
            Wish::End => return,
            Wish::Serve => {
                let of_guest = async {
                    if let Some((listener, served)) = &guest {
                        serve(listener, served, &wish).await;
                    }
                };
                tokio::join!(serve(listener, served, &wish), of_guest);
            }
            Wish::Rest => {
                // An error means that the door is gone; its drop has said so before.
                let _ = wish.changed().await;
            }
        }
    }
}

/// Serves while that is the wish.
async fn serve(listener: &std::net::TcpListener, served: &Served, wish: &watch::Receiver<Wish>) {
    let (tell, over) = watch::channel(false);
    let turned = |mut wish: watch::Receiver<Wish>| async move {
        // An error means that the door is gone: the end as well.
        let _ = wish.wait_for(|&wish| wish != Wish::Serve).await;
    };
    let listener = match listener.try_clone().and_then(TcpListener::from_std) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!("the HTTP door cannot serve: {error}; raise LimitNOFILE");
            return turned(wish.clone()).await;
        }
    };
    let ending = async {
        turned(wish.clone()).await;
        tell.send_replace(true);
    };
    tokio::join!(served.serve(listener, over), ending);
}

/// Every path, and who may ask there. Commands have their rights in their table; a peer has shown a certificate
/// of the farm's authority.
fn router(shared: Shared, guard: Guard, settings: &Settings) -> Router {
    let metrics = match settings.open_metrics {
        true => Access::Public,
        false => Access::Monitor,
    };
    let of = |needed: Access, route: MethodRouter<Shared>| {
        route.layer(middleware::from_fn_with_state(needed, guard::admit))
    };
    let rows = get(rows::get).put(rows::put).delete(rows::delete);
    let paths = Router::new()
        .route("/", of(Access::Public, get(assets::index)))
        .route("/console/{*name}", of(Access::Public, get(assets::file)))
        .route(live::PATH, of(metrics, get(live::get)))
        .route("/healthz", of(Access::Public, get(condition::healthz)))
        .route("/readyz", of(Access::Public, get(condition::readyz)))
        .route("/metrics", of(metrics, get(condition::metrics)))
        .route("/v1/farm", of(Access::Monitor, get(condition::snapshot)))
        .route("/v1/changes", of(Access::Admin, get(change_stream::get)))
        .route(
            "/v1/{group}/{command}",
            get(commands::read).post(commands::call),
        )
        .route("/v1/rows/{container}/{key}", of(Access::Admin, rows))
        .route(peers::PATH, post(peers::answer))
        .fallback(answer::not_found)
        .method_not_allowed_fallback(answer::wrong_method)
        .with_state(shared);
    guarded(paths, guard, settings)
}

/// Paths behind the guard, whose requests have bodies of a bounded length.
fn guarded(paths: Router, guard: Guard, settings: &Settings) -> Router {
    let room = Room {
        memory: Arc::clone(&settings.memory),
        bytes_max: settings.body_bytes_max,
    };
    paths
        .layer(DefaultBodyLimit::max(room.bytes_max))
        .layer(middleware::from_fn_with_state(room, body::take))
        .layer(middleware::from_fn_with_state(guard, guard::check))
}
