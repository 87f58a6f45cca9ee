//! Whom a replica follows, whether it does, and what it leaves out.

use enginesql::words::START;

use crate::checks::{At, other_than, wants, wants_now};
use crate::facts::SourceFacts;
use crate::finding::Found;

/// Whether a server is meant to follow its group's primary.
fn follows(at: &At<'_>) -> bool {
    at.server.is_replica() && !at.group.galera
}

pub(crate) fn unconfigured(at: &At<'_>) -> Option<Found> {
    (follows(at) && at.server.sources.is_empty())
        .then(|| Found::new("it has no replication configured"))
}

pub(crate) fn broken(at: &At<'_>) -> Option<Found> {
    let errors = |source: &SourceFacts| {
        let each = [&source.receive_error, &source.apply_error];
        each.map(String::clone)
            .into_iter()
            .filter(|it| !it.is_empty())
    };
    let said: Vec<String> = at.server.sources.iter().flat_map(errors).collect();
    let stands = |source: &SourceFacts| source.receives != "Yes" || source.applies != "Yes";
    let stands = at.server.sources.iter().any(stands);
    (follows(at) && stands && !said.is_empty()).then(|| Found::new(said.join("; ")))
}

pub(crate) fn stopped(at: &At<'_>) -> Option<Found> {
    let is_still = |source: &&SourceFacts| {
        let well = source.receive_error.is_empty() && source.apply_error.is_empty();
        well && (source.receives != "Yes" || source.applies != "Yes")
    };
    let still = at.server.sources.iter().find(is_still)?;
    let start = START.of(&at.server.parsed_version()?);
    follows(at).then(|| {
        Found::new(format!(
            "the receiver says {}, the applier says {}",
            still.receives, still.applies
        ))
        .cure(start)
        .statement(start)
    })
}

pub(crate) fn by_position(at: &At<'_>) -> Option<Found> {
    let odd = at.server.sources.iter().find(|it| !it.by_gtid)?;
    Some(Found::new(format!(
        "it follows {} by file and offset",
        odd.address()
    )))
}

/// A replica may know its primary by another name of the same machine, so only the port is compared where both are
/// names or loopback.
pub(crate) fn other_source(at: &At<'_>) -> Option<Found> {
    let primary = at.group.primary().filter(|_| follows(at))?;
    let source = at.server.sources.first()?;
    if source.address() == primary.address {
        return None;
    }
    let members = at.group.servers.iter().map(|it| it.address.as_str());
    let port = primary.address.rsplit_once(':').map(|(_, port)| port);
    let same_port = port == Some(&*source.port.to_string());
    let is_member = members.clone().any(|it| it == source.address());
    (is_member || !same_port).then(|| {
        Found::new(format!(
            "it follows {}, and the primary is {}",
            source.address(),
            primary.address
        ))
    })
}

pub(crate) fn several_sources(at: &At<'_>) -> Option<Found> {
    let sources = &at.server.sources;
    (sources.len() > 1).then(|| {
        let names: Vec<String> = sources.iter().map(SourceFacts::address).collect();
        Found::new(format!("it follows {}", names.join(" and ")))
    })
}

pub(crate) fn primary_follows(at: &At<'_>) -> Option<Found> {
    if !at.server.is_primary() || at.group.galera {
        return None;
    }
    let source = at.server.sources.first()?;
    Some(Found::new(format!(
        "the primary follows {}",
        source.address()
    )))
}

pub(crate) fn filters(at: &At<'_>) -> Option<Found> {
    let each = at.server.sources.iter().flat_map(|it| &it.filters);
    let all: Vec<&str> = each.map(String::as_str).collect();
    (!all.is_empty()).then(|| Found::new(all.join(", ")))
}

pub(crate) fn delayed(at: &At<'_>) -> Option<Found> {
    let delayed = at.server.sources.iter().find(|it| it.delay_s > 0)?;
    Some(Found::new(format!(
        "it is kept {} s behind",
        delayed.delay_s
    )))
}

pub(crate) fn lags(at: &At<'_>) -> Option<Found> {
    let (lag, max) = (at.server.lag_ms?, at.farm.number("max_lag_ms")?);
    (follows(at) && lag > max)
        .then(|| Found::new(format!("it is {lag} ms behind, and max_lag_ms is {max}")))
}

pub(crate) fn skips_errors(at: &At<'_>) -> Option<Found> {
    let names = ["replica_skip_errors", "slave_skip_errors"];
    let (name, value) = other_than(at, &names, &["OFF", ""])?;
    Some(Found::new(format!("{name} is {value}")))
}

pub(crate) fn idempotent(at: &At<'_>) -> Option<Found> {
    wants_now(at, &["replica_exec_mode", "slave_exec_mode"], &["STRICT"])
}

fn workers(at: &At<'_>) -> Option<(&'static str, u64)> {
    let names = [
        "replica_parallel_workers",
        "slave_parallel_threads",
        "slave_parallel_workers",
    ];
    let (name, _) = at.server.named(&names)?;
    Some((name, at.server.number(&[name])?))
}

/// Whether several threads apply at a time. MySQL counts one thread as a worker, MariaDB does not.
pub(crate) fn applies_in_parallel(at: &At<'_>) -> bool {
    workers(at).is_some_and(|(_, count)| count > u64::from(at.is_mysql()))
}

pub(crate) fn single_applier(at: &At<'_>) -> Option<Found> {
    let (name, count) = workers(at).filter(|_| !applies_in_parallel(at))?;
    follows(at).then(|| Found::new(format!("{name} is {count}")))
}

pub(crate) fn commit_order(at: &At<'_>) -> Option<Found> {
    let names = [
        "replica_preserve_commit_order",
        "slave_preserve_commit_order",
    ];
    wants(at, &names, &["ON", "1"]).filter(|_| applies_in_parallel(at))
}

/// A primary that tracks by commits alone tells its replicas to wait for what was committed in between.
pub(crate) fn dependency_tracking(at: &At<'_>) -> Option<Found> {
    let name = ["binlog_transaction_dependency_tracking"];
    wants_now(at, &name, &["WRITESET", "WRITESET_SESSION"]).filter(|_| applies_in_parallel(at))
}

/// `optimistic` and `conservative` keep the order of commits; the others do not, or apply one by one.
pub(crate) fn parallel_mode(at: &At<'_>) -> Option<Found> {
    let wanted = ["optimistic", "conservative", "aggressive"];
    wants(at, &["slave_parallel_mode"], &wanted).filter(|_| applies_in_parallel(at))
}
