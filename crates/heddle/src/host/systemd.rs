//! What systemd is told: readiness, the end, signs of life, sockets to keep over a restart.
//!
//! Nothing of this happens unless NOTIFY_SOCKET names a socket; a word that cannot be delivered is
//! not said again.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use crate::doors::listeners::OWN;
use crate::handover::line::send_with;

/// The way to systemd, if there is one.
#[derive(Debug, Default)]
pub struct Systemd {
    socket: Option<UnixDatagram>,
    /// Without a sign of life within so long the process is killed.
    pub watchdog: Option<Duration>,
}

impl Systemd {
    /// As the environment says.
    pub fn of_environment() -> Systemd {
        let variable = |name| std::env::var(name).ok();
        let Some(path) = variable("NOTIFY_SOCKET") else {
            return Systemd::default();
        };
        let address = match path.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name),
            None => SocketAddr::from_pathname(&path),
        };
        let connected = address.and_then(|address| {
            let socket = UnixDatagram::unbound()?;
            socket.connect_addr(&address)?;
            Ok(socket)
        });
        let socket = connected
            .inspect_err(|error| tracing::warn!("NOTIFY_SOCKET {path} is not to be had: {error}"))
            .ok();
        let is_ours = variable("WATCHDOG_PID")
            .is_none_or(|process| process == std::process::id().to_string());
        let limit_us = variable("WATCHDOG_USEC").and_then(|text| text.parse().ok());
        Systemd {
            socket,
            watchdog: limit_us
                .filter(|&limit_us| is_ours && limit_us > 0)
                .map(Duration::from_micros),
        }
    }

    /// Clients are served; `status` is what `systemctl status` shows.
    pub fn ready(&self, status: &str) {
        let process = std::process::id();
        self.tell(&format!("READY=1\nMAINPID={process}\nSTATUS={status}"));
    }

    /// The end has begun.
    pub fn stopping(&self, status: &str) {
        self.tell(&format!("STOPPING=1\nSTATUS={status}"));
    }

    /// This process lives.
    pub fn alive(&self) {
        self.tell("WATCHDOG=1");
    }

    /// Keeps the doors' sockets for the next process, so that nobody is refused between two.
    pub fn keep(&self, door: &str, socket: BorrowedFd<'_>) {
        let Some(systemd) = &self.socket else { return };
        self.tell(&format!("FDSTOREREMOVE=1\nFDNAME={OWN}{door}"));
        let text = format!("FDSTORE=1\nFDNAME={OWN}{door}");
        if let Err(error) = send_with(systemd.as_fd(), text.as_bytes(), &[socket]) {
            tracing::warn!("systemd does not keep the socket of {door}: {error}");
        }
    }

    fn tell(&self, text: &str) {
        if let Some(socket) = &self.socket
            && let Err(error) = socket.send(text.as_bytes())
        {
            tracing::debug!("systemd was not told {text:?}: {error}");
        }
    }
}
