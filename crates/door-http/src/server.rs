//! Listening, routing, shutting down.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::{get, post};
use control::Control;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::connection::{Bounded, CONNECTIONS_MAX};
use crate::guard::{self, Guard};
use crate::metrics::Metrics;
use crate::rows::Rows;
use crate::{answer, commands, condition, page, peers, rows};

/// How long running requests may take after the shutdown began.
const DRAIN: Duration = Duration::from_secs(3);

/// What the door is told at its start.
#[derive(Clone, Debug)]
pub struct Settings {
    pub listen: SocketAddr,
    /// A socket that listens already, to be used in place of `listen`.
    pub listener: Option<Arc<std::net::TcpListener>>,
    /// The bearer token that changes need; with an empty one nothing can be changed here.
    pub token: String,
    /// Host names, besides `localhost` and IP addresses, by which clients may call this door.
    pub hosts: Vec<String>,
    /// Longest request body.
    pub body_bytes_max: usize,
}

impl Settings {
    /// The defaults.
    pub fn new(listen: SocketAddr, token: &str) -> Settings {
        Settings {
            listen,
            listener: None,
            token: token.to_owned(),
            hosts: Vec::new(),
            body_bytes_max: 1 << 20,
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
}

/// What every request may look at.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) control: Arc<Control>,
    pub(crate) sql_serves: Arc<AtomicBool>,
    pub(crate) metrics: Arc<[Arc<dyn Metrics>]>,
    pub(crate) rows: Arc<dyn Rows>,
}

/// The HTTP door, bound but not yet serving. A copy can serve on the same socket when the first has
/// ended; the socket is closed with the last of them.
#[derive(Clone)]
pub struct Door {
    listener: Arc<std::net::TcpListener>,
    address: SocketAddr,
    router: Router,
}

impl Door {
    /// Binds the address. `sql_serves` is true while the SQL door takes clients; it is all that this
    /// door knows of the other.
    pub async fn bind(
        settings: Settings,
        control: Arc<Control>,
        sql_serves: Arc<AtomicBool>,
        metrics: Vec<Arc<dyn Metrics>>,
        rows: Arc<dyn Rows>,
    ) -> Result<Door, Error> {
        let failed = |source| Error::Listen {
            address: settings.listen,
            source,
        };
        let listener = match settings.listener {
            Some(listener) => listener,
            None => {
                let bound = TcpListener::bind(settings.listen).await.map_err(failed)?;
                Arc::new(bound.into_std().map_err(failed)?)
            }
        };
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let secret = control.secret();
        let shared = Shared {
            control,
            sql_serves,
            metrics: metrics.into(),
            rows,
        };
        let guard = Guard::new(&settings.token, secret, &settings.hosts);
        Ok(Door {
            listener,
            address,
            router: router(shared, guard, settings.body_bytes_max),
        })
    }

    /// Where it listens; the port is the real one when the settings said 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The listening socket, to be given to another process.
    pub fn listener(&self) -> Arc<std::net::TcpListener> {
        Arc::clone(&self.listener)
    }

    /// Serves until `shutdown` is ready, then gives running requests a few seconds to end. Idle
    /// connections are closed at once.
    pub async fn serve(self, shutdown: impl Future<Output = ()> + Send + 'static) {
        let (ending, mut ended) = watch::channel(false);
        let shutdown = async move {
            shutdown.await;
            ending.send_replace(true);
        };
        let listener = match self.listener.try_clone().and_then(TcpListener::from_std) {
            Ok(listener) => Bounded::new(listener, CONNECTIONS_MAX),
            Err(error) => {
                return tracing::error!("the HTTP door cannot serve: {error}; raise LimitNOFILE");
            }
        };
        let serving = axum::serve(listener, self.router).with_graceful_shutdown(shutdown);
        let overdue = async {
            // The sender is dropped only after it sent.
            let _ = ended.changed().await;
            tokio::time::sleep(DRAIN).await;
        };
        tokio::select! {
            result = serving => {
                if let Err(error) = result {
                    tracing::error!("the HTTP door ended: {error}");
                }
            }
            () = overdue => tracing::warn!("HTTP requests did not end in time and were cut"),
        }
    }
}

fn router(shared: Shared, guard: Guard, body_bytes_max: usize) -> Router {
    Router::new()
        .route("/", get(page::show))
        .route("/healthz", get(condition::healthz))
        .route("/readyz", get(condition::readyz))
        .route("/metrics", get(condition::metrics))
        .route("/v1/farm", get(condition::snapshot))
        .route(
            "/v1/{group}/{command}",
            get(commands::read).post(commands::call),
        )
        .route(
            "/v1/rows/{container}/{key}",
            get(rows::get).put(rows::put).delete(rows::delete),
        )
        .route(peers::PATH, post(peers::answer))
        .fallback(answer::not_found)
        .method_not_allowed_fallback(answer::wrong_method)
        .layer(DefaultBodyLimit::max(body_bytes_max))
        .layer(middleware::from_fn_with_state(guard, guard::check))
        .with_state(shared)
}
