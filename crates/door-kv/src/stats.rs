//! The answers to `stats`.

use std::time::{SystemTime, UNIX_EPOCH};

use memcache_wire::{Words, reply};

use crate::counts;
use crate::intake::Exchange;

/// Clients read three numbers from it.
pub(crate) const VERSION_LINE: &str = concat!("VERSION 1.6.39 heddle ", env!("CARGO_PKG_VERSION"));

/// The whole reply.
pub(crate) fn answer(exchange: &mut Exchange, mut words: Words<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    match words.next() {
        None => general(exchange, &mut out),
        Some(b"settings") => settings(exchange, &mut out),
        Some(b"conns") => connections(exchange, &mut out),
        Some(b"containers") => container(exchange, &mut out),
        // Of items in memory there are none.
        Some(b"items" | b"slabs") => {}
        Some(b"sizes") => reply::stat(&mut out, "sizes_status", "disabled"),
        Some(b"reset") => {
            // The counters are metrics too, and those never fall.
            reply::client_error(&mut out, "stats reset not allowed");
            return out;
        }
        Some(b"detail") => {
            reply::client_error(&mut out, "stats detail not allowed");
            return out;
        }
        Some(b"cachedump") => {
            reply::client_error(&mut out, "stats cachedump not allowed");
            return out;
        }
        Some(_) => {
            reply::line(&mut out, "ERROR");
            return out;
        }
    }
    reply::line(&mut out, reply::END);
    out
}

fn general(exchange: &Exchange, out: &mut Vec<u8>) {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_s = now_s.map_or(0, |since| since.as_secs());
    let mut stat = |name: &str, value: u64| reply::stat(out, name, &value.to_string());
    stat("pid", u64::from(std::process::id()));
    stat("uptime", exchange.house.opened.elapsed().as_secs());
    stat("time", now_s);
    reply::stat(out, "version", VERSION_LINE.trim_start_matches("VERSION "));
    let mut stat = |name: &str, value: u64| reply::stat(out, name, &value.to_string());
    stat("pointer_size", u64::from(usize::BITS));
    let max = exchange.house.shared.live.load().settings.clients_max;
    stat("max_connections", max as u64);
    stat("threads", exchange.house.counts.len() as u64);
    for (name, _, value) in counts::sum(&exchange.house.counts) {
        stat(name, value);
    }
}

fn settings(exchange: &Exchange, out: &mut Vec<u8>) {
    let settings = &exchange.house.settings;
    let yes = |on: bool| if on { "yes" } else { "no" };
    let max = exchange.house.shared.live.load().settings.clients_max;
    reply::stat(out, "maxconns", &max.to_string());
    reply::stat(out, "num_threads", &exchange.house.counts.len().to_string());
    reply::stat(out, "item_size_max", &settings.value_bytes_max.to_string());
    reply::stat(out, "auth_enabled_ascii", yes(settings.auth));
    reply::stat(out, "cas_enabled", "yes");
    reply::stat(out, "flush_enabled", "yes");
    reply::stat(out, "dump_enabled", "no");
    reply::stat(out, "binding_protocol", "ascii");
    reply::stat(out, "container_delimiter", &settings.delimiter);
    reply::stat(out, "container_sticky", yes(settings.sticky));
}

fn connections(exchange: &Exchange, out: &mut Vec<u8>) {
    let now = counts::sum(&exchange.house.counts);
    let now = now.iter().find(|(name, ..)| *name == "curr_connections");
    let now = now.map_or(0, |(_, _, value)| *value);
    reply::stat(out, "connections", &now.to_string());
}

/// The container that counts where none is named.
fn container(exchange: &mut Exchange, out: &mut Vec<u8>) {
    let Ok(store) = exchange.here() else { return };
    let declared = store.declared();
    reply::stat(out, "name", &declared.name);
    reply::stat(
        out,
        "table",
        &format!("{}.{}", declared.database, declared.table),
    );
    reply::stat(out, "key", &declared.key);
    reply::stat(out, "values", &declared.values.join(","));
    reply::stat(
        out,
        "value_bytes_max",
        &declared.value_bytes_max.to_string(),
    );
    reply::stat(out, "flush", if declared.flush { "yes" } else { "no" });
}
