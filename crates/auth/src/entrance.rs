//! The way in: who has connected is given places before a byte of it is read, or is told why not.
//!
//! Clients that have not proved who they are have a limit of their own, so that strangers cannot take
//! all places of `clients_max`, nor more memory than so many logins need.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use farm::local::{host_of, is_local};
use farm::{ClientError, error};
use proxy_wire::{Origin, Unfit};

use crate::clients::{Clients, Seat};
use crate::hosts::Hosts;

/// What clients may cost who have not proved who they are.
#[derive(Clone, Copy, Debug)]
pub struct LoginLimits {
    /// The most clients that may be logging in at one time.
    pub clients_max: usize,
    /// The failures in a row after which an address has to wait; 0: it never waits.
    pub failures_max: u32,
    /// The most passwords that may wait for a verifier, over all cores.
    pub queue_max: usize,
}

impl Default for LoginLimits {
    fn default() -> LoginLimits {
        LoginLimits {
            clients_max: 2000,
            failures_max: 100,
            queue_max: 1000,
        }
    }
}

/// What all doors of a router know of those who connect.
#[derive(Debug, Default)]
pub struct Entrance {
    /// All that are connected, those at their login included.
    pub clients: Arc<Clients>,
    /// Those who have not logged in yet.
    pub logins: Arc<Clients>,
    hosts: Hosts,
    clients_refused: AtomicU64,
    logins_turned_away: AtomicU64,
    logins_blocked: AtomicU64,
    proxy_headers: AtomicU64,
    proxy_headers_refused: AtomicU64,
}

/// The places of a client; given up when dropped.
#[derive(Debug)]
pub struct Places {
    login: Option<Seat>,
    _client: Seat,
    _core: Option<OnCore>,
}

/// A client among those that were given to a core.
#[derive(Debug)]
struct OnCore(Arc<AtomicUsize>);

impl Drop for OnCore {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why somebody is not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub error: &'static ClientError,
    details: Vec<String>,
}

impl Refusal {
    fn new(error: &'static ClientError, details: Vec<String>) -> Refusal {
        Refusal { error, details }
    }

    /// What the client is told.
    pub fn text(&self) -> String {
        let details: Vec<&str> = self.details.iter().map(String::as_str).collect();
        self.error.text(&details)
    }
}

impl Places {
    /// The client is given to the core with this count of clients.
    pub fn on_core(self, clients: &Arc<AtomicUsize>) -> Places {
        clients.fetch_add(1, Ordering::Relaxed);
        let core = Some(OnCore(clients.clone()));
        Places {
            _core: core,
            ..self
        }
    }

    /// The client has proved who it is: another one may log in.
    pub fn logged_in(&mut self) {
        self.login = None;
    }
}

impl Entrance {
    /// Places for somebody who has connected from this address, or through a load balancer, which
    /// itself never has to wait. `clients_max` may be connected at once. Who has to prove who it is before
    /// anything else comes by the limits of `logins`.
    ///
    /// # Errors
    /// It may not come in; it is told and its connection closed.
    pub fn let_in(
        &self,
        peer: Option<IpAddr>,
        clients_max: usize,
        logins: Option<&LoginLimits>,
    ) -> Result<Places, Refusal> {
        if let (Some(peer), Some(limits)) = (peer, logins) {
            self.look_at(peer, limits)?;
        }
        let Some(client) = self.clients.enter(clients_max) else {
            count(&self.clients_refused);
            return Err(Refusal::new(&error::TOO_MANY_CONNECTIONS, Vec::new()));
        };
        let login = match logins {
            None => None,
            Some(limits) => {
                let login = self.logins.enter(limits.clients_max);
                Some(login.ok_or_else(|| {
                    count(&self.logins_turned_away);
                    Refusal::new(&error::TOO_MANY_LOGINS, Vec::new())
                })?)
            }
        };
        Ok(Places {
            login,
            _client: client,
            _core: None,
        })
    }

    /// Looks whether clients of this address may log in now.
    ///
    /// # Errors
    /// They have to wait.
    pub fn look_at(&self, peer: IpAddr, limits: &LoginLimits) -> Result<(), Refusal> {
        let wait = match limits.failures_max {
            0 => None,
            _ => self.hosts.wait(peer, Instant::now()),
        };
        let Some((failures, wait)) = wait else {
            return Ok(());
        };
        count(&self.logins_blocked);
        // Rounded up: the address is free when it comes back after so many seconds.
        let seconds = (wait + Duration::from_millis(999)).as_secs();
        let host = host_of(peer);
        let details = vec![host, failures.to_string(), seconds.to_string()];
        Err(Refusal::new(&error::HOST_BLOCKED, details))
    }

    /// Somebody from this address did not prove who it is.
    pub fn failed(&self, peer: IpAddr, limits: &LoginLimits) {
        if let Some(wait) = self.hosts.failed(peer, Instant::now(), limits.failures_max) {
            let wait_s = wait.as_secs();
            tracing::warn!(%peer, wait_s, "logins from this address fail: it has to wait");
        }
    }

    /// Somebody from this address has logged in.
    pub fn succeeded(&self, peer: IpAddr) {
        self.hosts.succeeded(peer);
    }

    /// A load balancer at `peer` has said where its client is, or that it has none. Gives the address
    /// that counts from now on.
    pub fn heard(&self, peer: SocketAddr, origin: Origin) -> SocketAddr {
        count(&self.proxy_headers);
        match origin {
            // A header cannot make its client one of the router's own Unix socket.
            Origin::Client(client) if is_local(client.ip()) => peer,
            Origin::Own => peer,
            Origin::Client(client) => {
                tracing::debug!(balancer = %peer, client = %client, "a PROXY header");
                client
            }
        }
    }

    /// Somebody at `peer` has sent a PROXY header that does not count: why it is refused.
    pub fn misheard(&self, peer: SocketAddr, unfit: Unfit) -> Refusal {
        count(&self.proxy_headers_refused);
        let host = host_of(peer.ip());
        match unfit {
            Unfit::Foreign => {
                tracing::warn!(
                    peer = %peer,
                    "a PROXY header is not accepted from {host}; if a load balancer is there, name it \
                     in proxy_protocol_networks"
                );
                Refusal::new(&error::PROXY_HEADER_REFUSED, vec![host])
            }
            Unfit::Malformed(malformed) => {
                tracing::warn!(peer = %peer, "{malformed}");
                Refusal::new(&error::PROXY_HEADER_BAD, vec![malformed.to_string()])
            }
        }
    }

    /// Names, what they are, and values.
    pub fn counted(&self) -> [(&'static str, &'static str, u64); 6] {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("logins_now", "Clients that have not logged in yet.", self.logins.now() as u64),
            (
                "clients_refused",
                "Clients that were refused because clients_max were connected.",
                value(&self.clients_refused),
            ),
            (
                "logins_turned_away",
                "Clients that were refused because logins_max others were logging in.",
                value(&self.logins_turned_away),
            ),
            (
                "logins_blocked",
                "Clients that were refused because logins from their address had failed too often.",
                value(&self.logins_blocked),
            ),
            (
                "proxy_headers",
                "PROXY headers of load balancers that were taken.",
                value(&self.proxy_headers),
            ),
            (
                "proxy_headers_refused",
                "Clients that were refused because they sent a PROXY header that was wrong, or came from no network of proxy_protocol_networks.",
                value(&self.proxy_headers_refused),
            ),
        ]
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
