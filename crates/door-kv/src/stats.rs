//! The answers to `stats`.

use std::time::{SystemTime, UNIX_EPOCH};

use memcache_wire::{Words, reply};

use crate::counts;
use crate::intake::Desk;

/// Clients read three numbers from it.
pub(crate) const VERSION_LINE: &str = concat!("VERSION 1.6.39 heddle ", env!("CARGO_PKG_VERSION"));

/// The whole reply.
pub(crate) fn answer(desk: &mut Desk, mut words: Words<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    match words.next() {
        None => general(desk, &mut out),
        Some(b"settings") => settings(desk, &mut out),
        Some(b"conns") => connections(desk, &mut out),
        Some(b"containers") => container(desk, &mut out),
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

fn general(desk: &Desk, out: &mut Vec<u8>) {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_s = now_s.map_or(0, |since| since.as_secs());
    let mut stat = |name: &str, value: u64| reply::stat(out, name, &value.to_string());
    stat("pid", u64::from(std::process::id()));
    stat("uptime", desk.house.opened.elapsed().as_secs());
    stat("time", now_s);
    reply::stat(out, "version", VERSION_LINE.trim_start_matches("VERSION "));
    let mut stat = |name: &str, value: u64| reply::stat(out, name, &value.to_string());
    stat("pointer_size", u64::from(usize::BITS));
    let max = desk.house.shared.live.load().settings.clients_max;
    stat("max_connections", max as u64);
    stat("threads", desk.house.counts.len() as u64);
    for (name, _, value) in counts::sum(&desk.house.counts) {
        stat(name, value);
    }
}

fn settings(desk: &Desk, out: &mut Vec<u8>) {
    let settings = &desk.house.settings;
    let yes = |on: bool| if on { "yes" } else { "no" };
    let max = desk.house.shared.live.load().settings.clients_max;
    reply::stat(out, "maxconns", &max.to_string());
    reply::stat(out, "num_threads", &desk.house.counts.len().to_string());
    reply::stat(out, "item_size_max", &settings.value_bytes_max.to_string());
    reply::stat(out, "auth_enabled_ascii", yes(settings.auth));
    reply::stat(out, "cas_enabled", "yes");
    reply::stat(out, "flush_enabled", "yes");
    reply::stat(out, "dump_enabled", "no");
    reply::stat(out, "binding_protocol", "ascii");
    reply::stat(out, "container_delimiter", &settings.delimiter);
    reply::stat(out, "container_sticky", yes(settings.sticky));
}

fn connections(desk: &Desk, out: &mut Vec<u8>) {
    let now = counts::sum(&desk.house.counts);
    let now = now.iter().find(|(name, ..)| *name == "curr_connections");
    let now = now.map_or(0, |(_, _, value)| *value);
    reply::stat(out, "connections", &now.to_string());
}

/// The container that counts where none is named.
fn container(desk: &mut Desk, out: &mut Vec<u8>) {
    let Ok(store) = desk.here() else { return };
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
