//! Routers: their limits, doors, secrets, store and machine, and what differs among them.

use crate::checks::{bytes, tls};
use crate::facts::{DiskFacts, DoorFacts, FarmFacts, RouterFacts};
use crate::finding::{Found, Severity};

/// Files that a router has open beside clients' and servers' connections.
const FILES_RESERVE: u64 = 100;

/// Settings that name a router, its machine and what is near it, so that each router has its own.
const OWN: [&str; 7] = [
    "io",
    "near",
    "router_name",
    "slow_log",
    "threads",
    "fabric_sql_address",
    "log_level",
];

/// So end the names of settings with a router's own files and addresses.
const OWN_ENDINGS: [&str; 7] = [
    "_listen",
    "_file",
    "_dir",
    "_url",
    "_key",
    "_certificate",
    "_ca",
];

pub(crate) fn unreachable(_: &FarmFacts, router: &RouterFacts) -> Vec<Found> {
    one(!router.unreachable.is_empty(), || {
        router.unreachable.clone()
    })
}

fn one(is_so: bool, evidence: impl FnOnce() -> String) -> Vec<Found> {
    is_so.then(|| Found::new(evidence())).into_iter().collect()
}

/// How grave it is that a file system has so little left; `None` while it has enough.
pub(crate) fn low(disk: &DiskFacts) -> Option<Found> {
    const LITTLE_BYTES: u64 = 1 << 30;
    let DiskFacts {
        path,
        free_bytes,
        total_bytes,
    } = disk;
    let severity =
        if *free_bytes < LITTLE_BYTES / 8 || free_bytes.saturating_mul(100) < *total_bytes {
            Severity::Error
        } else if *free_bytes < LITTLE_BYTES || free_bytes.saturating_mul(20) < *total_bytes {
            Severity::Warning
        } else {
            return None;
        };
    let (left, of) = (bytes(*free_bytes), bytes(*total_bytes));
    Some(Found::new(format!("{path} has {left} of {of} left")).grave(severity))
}

pub(crate) fn open_files(farm: &FarmFacts, router: &RouterFacts) -> Vec<Found> {
    let (Some(max), Some(clients), Some(pool)) = (
        router.host.files_max,
        router.number("clients_max"),
        router.number("pool_connections_max"),
    ) else {
        return Vec::new();
    };
    let servers: usize = farm.groups.iter().map(|it| it.servers.len()).sum();
    let needed = clients + pool * servers as u64 + FILES_RESERVE;
    one(max < needed, || {
        format!(
            "{max} files may be open; {clients} clients and {pool} connections to each of {servers} servers \
             take {needed}"
        )
    })
    .into_iter()
    .map(|found| found.cure(format!("LimitNOFILE={needed} in its unit, or `ulimit -n {needed}`")))
    .collect()
}

pub(crate) fn memory(_: &FarmFacts, router: &RouterFacts) -> Vec<Found> {
    let (Some(max), Some(has)) = (router.host.memory_bytes_max, router.host.memory_bytes) else {
        return Vec::new();
    };
    one(max > has / 10 * 9, || {
        format!(
            "clients may take {}, and there are {}",
            bytes(max),
            bytes(has)
        )
    })
}

/// The kernel refuses memory then, however much is free, and a process that is refused memory dies.
pub(crate) fn overcommit(_: &FarmFacts, router: &RouterFacts) -> Vec<Found> {
    one(router.host.overcommit == Some(2), || {
        "vm.overcommit_memory is 2".to_owned()
    })
}

pub(crate) fn state_disk(_: &FarmFacts, router: &RouterFacts) -> Vec<Found> {
    let found = router.host.state_disk.as_ref().and_then(low);
    found.into_iter().collect()
}

/// The first router is the measure.
fn first(farm: &FarmFacts) -> Option<&RouterFacts> {
    farm.routers.first().filter(|it| it.unreachable.is_empty())
}

pub(crate) fn versions_mixed(farm: &FarmFacts, router: &RouterFacts) -> Vec<Found> {
    let Some(other) = first(farm).filter(|_| router.unreachable.is_empty()) else {
        return Vec::new();
    };
    one(router.version != other.version, || {
        let (own, theirs, name) = (&router.version, &other.version, &other.name);
        format!("it runs {own}, and {name} {theirs}")
    })
}

pub(crate) fn settings_differ(farm: &FarmFacts, router: &RouterFacts) -> Vec<Found> {
    let Some(other) = first(farm).filter(|_| !router.settings.is_empty()) else {
        return Vec::new();
    };
    let ends = |name: &str| OWN_ENDINGS.iter().any(|it| name.ends_with(it));
    let is_own = |name: &str| OWN.contains(&name) || ends(name);
    let mut odd = Vec::new();
    for (name, value) in router.settings.iter().filter(|(name, _)| !is_own(name)) {
        if let Some(theirs) = other.settings.get(name).filter(|it| *it != value) {
            let of = &other.name;
            odd.push(format!("{name} is '{value}', and '{theirs}' on {of}"));
        }
    }
    one(!odd.is_empty(), || odd.join("; "))
}

pub(crate) fn needs_restart(_: &FarmFacts, router: &RouterFacts) -> Vec<Found> {
    one(!router.waiting.is_empty(), || {
        let names = router.waiting.join(", ");
        format!("its file has another value since its start: {names}")
    })
}

pub(crate) fn clock_differs(_: &FarmFacts, router: &RouterFacts) -> Vec<Found> {
    const ALLOWED_MS: i64 = 1000;
    let ahead = router.clock_ahead_ms.filter(|it| it.abs() > ALLOWED_MS);
    let found = ahead.map(|ahead| {
        let how = if ahead > 0 { "ahead of" } else { "behind" };
        Found::new(format!(
            "its clock is {} ms {how} this router's",
            ahead.abs()
        ))
    });
    found.into_iter().collect()
}

pub(crate) fn certificates(farm: &FarmFacts, router: &RouterFacts) -> Vec<Found> {
    let Some(now) = tls::now_s(farm) else {
        return Vec::new();
    };
    let each = router.certificates.iter().filter_map(|it| {
        let severity = tls::ends(it.ends_s, now)?;
        let text = match it.ends_s.checked_sub(now) {
            Some(left) if left > 0 => format!("{} ends in {} days", it.what, left / 86_400),
            _ => format!("{} has ended", it.what),
        };
        Some(Found::new(text).grave(severity))
    });
    // The worst is what a router is known by.
    each.max_by_key(|it| it.severity).into_iter().collect()
}

pub(crate) fn secret_files(_: &FarmFacts, router: &RouterFacts) -> Vec<Found> {
    const OTHERS: u32 = 0o007;
    let odd: Vec<_> = router
        .files
        .iter()
        .filter(|it| it.mode & OTHERS != 0)
        .collect();
    let paths: Vec<&str> = odd.iter().map(|it| it.path.as_str()).collect();
    let told = odd.iter().map(|it| {
        let mode = it.mode & 0o7777;
        format!("{} {} has the permissions {mode:o}", it.what, it.path)
    });
    let told: Vec<String> = told.collect();
    one(!odd.is_empty(), || told.join("; "))
        .into_iter()
        .map(|found| found.cure(format!("chmod o= {}", paths.join(" "))))
        .collect()
}

fn doors(router: &RouterFacts, is: impl Fn(&DoorFacts) -> bool) -> Vec<Found> {
    let odd: Vec<String> = router
        .doors
        .iter()
        .filter(|it| it.public && is(it))
        .map(|it| format!("the {} door at {}", it.name, it.address))
        .collect();
    one(!odd.is_empty(), || odd.join(", "))
}

pub(crate) fn public_in_clear(_: &FarmFacts, router: &RouterFacts) -> Vec<Found> {
    doors(router, |door| !door.tls)
}

pub(crate) fn public_clear_allowed(_: &FarmFacts, router: &RouterFacts) -> Vec<Found> {
    doors(router, |door| door.tls && !door.tls_only)
}

pub(crate) fn public_without_login(_: &FarmFacts, router: &RouterFacts) -> Vec<Found> {
    doors(router, |door| !door.authenticates)
}

pub(crate) fn acks_before_commit(_: &FarmFacts, router: &RouterFacts) -> Vec<Found> {
    let on = router.settings.get("kv_ack_before_commit");
    one(on.is_some_and(|value| value == "on"), || {
        let within_ms = router.number("kv_commit_within_ms").unwrap_or_default();
        format!(
            "kv_ack_before_commit is on, and a commit may come {within_ms} ms after its acknowledgement"
        )
    })
}

pub(crate) fn store_silent(_: &FarmFacts, router: &RouterFacts) -> Vec<Found> {
    one(!router.store.error.is_empty(), || {
        router.store.error.clone()
    })
}

pub(crate) fn store_slow(_: &FarmFacts, router: &RouterFacts) -> Vec<Found> {
    let (Some(took), Some(lease)) = (router.store.answered_ms, router.number("router_lease_ms"))
    else {
        return Vec::new();
    };
    one(router.store.etcd && took * 4 > lease, || {
        format!("it answered in {took} ms, and router_lease_ms is {lease}")
    })
}

pub(crate) fn store_in_clear(_: &FarmFacts, router: &RouterFacts) -> Vec<Found> {
    one(router.store.in_clear, || router.store.urls.join(", "))
}

pub(crate) fn store_members(_: &FarmFacts, router: &RouterFacts) -> Vec<Found> {
    let count = router.store.urls.len();
    one(router.store.etcd && count < 3, || {
        format!(
            "it was given {count} members: {}",
            router.store.urls.join(", ")
        )
    })
}

/// Sinks are the farm's: the router that looks tells of them.
pub(crate) fn sinks(farm: &FarmFacts, router: &RouterFacts) -> Vec<Found> {
    if farm.routers.first() != Some(router) {
        return Vec::new();
    }
    let found = farm.sinks.iter().map(|sink| {
        let name = &sink.name;
        match (sink.error.is_empty(), sink.stuck) {
            (true, _) => Found::new(format!("sink {name} has {} dead letters", sink.letters)),
            (false, true) => Found::new(format!("sink {name} is stuck: {}", sink.error)),
            (false, false) => Found::new(format!("sink {name} fails: {}", sink.error)),
        }
    });
    found.collect()
}

/// Consumers are the farm's, too.
pub(crate) fn late_consumers(farm: &FarmFacts, router: &RouterFacts) -> Vec<Found> {
    if farm.routers.first() != Some(router) {
        return Vec::new();
    }
    let found = farm.late_consumers.iter().map(|consumer| {
        let name = &consumer.name;
        match &*consumer.gap {
            "" => Found::new(format!(
                "{name} is so far behind as {} % of what the servers keep of their binlogs",
                consumer.expiry_percent
            )),
            gap => Found::new(format!("{name} lacks what the servers have purged: {gap}")),
        }
    });
    found.collect()
}

pub(crate) fn alone(farm: &FarmFacts, router: &RouterFacts) -> Vec<Found> {
    one(
        farm.routers.len() == 1 && router.unreachable.is_empty(),
        || "no other router lives".to_owned(),
    )
}
