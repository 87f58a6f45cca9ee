//! Limits of servers against what routers ask of them.

use crate::checks::{At, bytes, set};
use crate::finding::Found;

/// Connections that a server should have beside the routers' pools: probes, jobs, people.
const RESERVE: u64 = 20;

fn routers(at: &At<'_>) -> u64 {
    at.farm.routers.len().max(1) as u64
}

pub(crate) fn connections(at: &At<'_>) -> Option<Found> {
    let (max, pool) = (
        at.server.number(&["max_connections"])?,
        at.farm.number("pool_connections_max")?,
    );
    let needed = pool * routers(at) + RESERVE;
    (max < needed).then(|| {
        let evidence = format!(
            "max_connections is {max}; {} routers open up to {pool} connections each, and {RESERVE} are \
             for everything else",
            routers(at)
        );
        set(at, Found::new(evidence), "max_connections", &needed.to_string())
    })
}

pub(crate) fn wait_timeout(at: &At<'_>) -> Option<Found> {
    let (timeout, idle) = (
        at.server.number(&["wait_timeout"])?,
        at.farm.number("pool_idle_s")?,
    );
    (timeout <= idle).then(|| {
        let evidence = format!("wait_timeout is {timeout} s, and pool_idle_s is {idle} s");
        set(at, Found::new(evidence), "wait_timeout", "28800")
    })
}

pub(crate) fn prepared_statements(at: &At<'_>) -> Option<Found> {
    let (max, kept) = (
        at.server.number(&["max_prepared_stmt_count"])?,
        at.farm.number("server_statements_max")?,
    );
    let needed = kept * routers(at);
    (max < needed).then(|| {
        let evidence = format!(
            "max_prepared_stmt_count is {max}; {} routers keep up to {kept} statements each",
            routers(at)
        );
        let found = Found::new(evidence);
        set(at, found, "max_prepared_stmt_count", &needed.to_string())
    })
}

pub(crate) fn packet(at: &At<'_>) -> Option<Found> {
    let (own, most) = (
        at.server.number(&["max_allowed_packet"])?,
        at.farm.number("packet_bytes_max")?,
    );
    (own < most).then(|| {
        let evidence = format!(
            "max_allowed_packet is {}, and packet_bytes_max {}",
            bytes(own),
            bytes(most)
        );
        set(
            at,
            Found::new(evidence),
            "max_allowed_packet",
            &most.to_string(),
        )
    })
}
