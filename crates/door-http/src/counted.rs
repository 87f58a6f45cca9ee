//! What the door counts of its connections.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::census::Full;
use crate::metrics::{Family, Kind, Sample};

/// What a client was not waited for any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deadline {
    Head = 0,
    Body = 1,
    Idle = 2,
    Write = 3,
}

impl Deadline {
    const NAMES: [&str; 4] = ["header", "body", "idle", "write"];

    /// What the client has not done.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Deadline::Head => "no whole request came within http_header_timeout_s",
            Deadline::Body => "the body did not come within http_body_timeout_s",
            Deadline::Idle => "no other request came within http_idle_timeout_s",
            Deadline::Write => "the client took nothing of its answer for http_write_timeout_s",
        }
    }
}

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    connections: AtomicUsize,
    requests: AtomicU64,
    deadlines: [AtomicU64; 4],
    /// For a limit of the address, and of the door.
    refused: [AtomicU64; 2],
    displaced: AtomicU64,
    peers_refused: AtomicU64,
    /// Taken, and refused.
    proxy_headers: [AtomicU64; 2],
}

impl Counted {
    /// There are so many connections.
    pub(crate) fn connections(&self, count: usize) {
        self.connections.store(count, Relaxed);
    }

    pub(crate) fn request(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    pub(crate) fn overdue(&self, deadline: Deadline) {
        self.deadlines[deadline as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn refused(&self, full: Full) {
        self.refused[full as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn displaced(&self) {
        self.displaced.fetch_add(1, Relaxed);
    }

    /// Somebody began TLS as a router of the farm does, and was none.
    pub(crate) fn peer_refused(&self) {
        self.peers_refused.fetch_add(1, Relaxed);
    }

    pub(crate) fn proxy_header(&self, refused: bool) {
        self.proxy_headers[usize::from(refused)].fetch_add(1, Relaxed);
    }

    /// The values now, of the Fabric door's connections.
    pub(crate) fn families_of_guest(&self) -> Vec<Family> {
        let number = |of: &AtomicU64| of.load(Relaxed) as f64;
        vec![
            Family {
                name: "heddle_fabric_connections",
                help: "Open connections of Fabric's clients.",
                kind: Kind::Gauge,
                samples: vec![Sample::plain(self.connections.load(Relaxed) as f64)],
            },
            Family {
                name: "heddle_fabric_requests_total",
                help: "Requests of Fabric's clients whose head was read.",
                kind: Kind::Counter,
                samples: vec![Sample::plain(number(&self.requests))],
            },
            Family {
                name: "heddle_fabric_refused_total",
                help: "Connections of Fabric's clients that were answered with 503.",
                kind: Kind::Counter,
                samples: vec![Sample::plain(self.refused.iter().map(number).sum())],
            },
        ]
    }

    /// The values now.
    pub(crate) fn families(&self) -> Vec<Family> {
        let number = |of: &AtomicU64| of.load(Relaxed) as f64;
        let by = |label, names: &[&str], counts: &[AtomicU64]| {
            let each = names.iter().zip(counts);
            let sample =
                |(name, count): (&&str, _)| Sample::labelled(&[(label, *name)], number(count));
            each.map(sample).collect()
        };
        let counter = |name, help, samples| Family {
            name,
            help,
            kind: Kind::Counter,
            samples,
        };
        vec![
            Family {
                name: "heddle_http_connections",
                help: "Open HTTP connections.",
                kind: Kind::Gauge,
                samples: vec![Sample::plain(self.connections.load(Relaxed) as f64)],
            },
            counter(
                "heddle_http_requests_total",
                "HTTP requests whose head was read.",
                vec![Sample::plain(number(&self.requests))],
            ),
            counter(
                "heddle_http_refused_total",
                "HTTP connections that were answered with 503, by the limit: of their address, or of the door.",
                by("limit", &["address", "door"], &self.refused),
            ),
            counter(
                "heddle_http_displaced_total",
                "HTTP connections that waited for their client and had to give way to another one.",
                vec![Sample::plain(number(&self.displaced))],
            ),
            counter(
                "heddle_http_peers_refused_total",
                "Connections that began as those of the farm's routers do, and failed: without a certificate of the farm's authority above all.",
                vec![Sample::plain(number(&self.peers_refused))],
            ),
            counter(
                "heddle_http_proxy_headers_total",
                "PROXY headers of HTTP connections, by what became of them: taken or refused.",
                by("result", &["taken", "refused"], &self.proxy_headers),
            ),
            counter(
                "heddle_http_deadlines_total",
                "HTTP connections that were closed for a deadline: header, body, idle or write.",
                by("deadline", &Deadline::NAMES, &self.deadlines),
            ),
        ]
    }
}
