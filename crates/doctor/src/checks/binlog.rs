//! The binary log: whether there is one, what is in it, and how long it stays.

use crate::checks::{At, bytes, set, wants, wants_now};
use crate::finding::Found;

pub(crate) fn log_bin(at: &At<'_>) -> Option<Found> {
    wants(at, &["log_bin"], &["ON", "1"])
}

pub(crate) fn log_replica_updates(at: &At<'_>) -> Option<Found> {
    wants(
        at,
        &["log_replica_updates", "log_slave_updates"],
        &["ON", "1"],
    )
}

pub(crate) fn binlog_format(at: &At<'_>) -> Option<Found> {
    wants_now(at, &["binlog_format"], &["ROW"])
}

pub(crate) fn binlog_row_image(at: &At<'_>) -> Option<Found> {
    wants_now(at, &["binlog_row_image"], &["FULL"])
}

pub(crate) fn binlog_statements(at: &At<'_>) -> Option<Found> {
    let names = ["binlog_annotate_row_events", "binlog_rows_query_log_events"];
    wants_now(at, &names, &["ON", "1"])
}

pub(crate) fn replicate_annotations(at: &At<'_>) -> Option<Found> {
    wants(at, &["replicate_annotate_row_events"], &["ON", "1"])
}

pub(crate) fn binlog_filters(at: &At<'_>) -> Option<Found> {
    let filters = &at.server.binlog.filters;
    (!filters.is_empty()).then(|| Found::new(filters.join(", ")))
}

/// Seconds after which the server removes a log; `None` for never, and where nobody knows.
fn expiry_s(at: &At<'_>) -> Option<u64> {
    let seconds = at
        .server
        .number(&["binlog_expire_logs_seconds"])
        .unwrap_or(0);
    let days = at.server.number(&["expire_logs_days"]).unwrap_or(0);
    // The greater one counts where both are there.
    Some(seconds.max(days * 86_400)).filter(|it| *it > 0)
}

pub(crate) fn binlog_expires_early(at: &At<'_>) -> Option<Found> {
    const LEAST_S: u64 = 86_400;
    let expiry = expiry_s(at)?;
    let lags = at.group.replicas().filter_map(|it| it.lag_ms);
    let delays = at.group.replicas().flat_map(|it| &it.sources);
    let slowest_s = lags.map(|ms| ms / 1000).chain(delays.map(|it| it.delay_s));
    let least = LEAST_S.max(slowest_s.max().unwrap_or(0).saturating_mul(2));
    if expiry >= least {
        return None;
    }
    let found = Found::new(format!("logs are removed after {expiry} s"));
    let name = "binlog_expire_logs_seconds";
    match at.server.variables.contains_key(name) {
        true => Some(set(at, found, name, &least.to_string())),
        false => Some(set(
            at,
            found,
            "expire_logs_days",
            &least.div_ceil(86_400).to_string(),
        )),
    }
}

pub(crate) fn binlog_never_expires(at: &At<'_>) -> Option<Found> {
    let known = ["binlog_expire_logs_seconds", "expire_logs_days"];
    let known = at.server.variable(&known).is_some();
    let purges = at.server.is_on(&["binlog_expire_logs_auto_purge"]) != Some(false);
    let limited = at.server.number(&["max_binlog_total_size"]).unwrap_or(0) > 0;
    let has_log = at.server.is_on(&["log_bin"]) == Some(true);
    let never = expiry_s(at).is_none() || !purges;
    (known && has_log && never && !limited).then(|| {
        let log = &at.server.binlog;
        let size = bytes(log.bytes);
        Found::new(format!(
            "logs are never removed: {} files of {size} together",
            log.files
        ))
    })
}

/// Logs that fill what is left of the disk before they expire.
pub(crate) fn binlog_fills_disk(at: &At<'_>) -> Option<Found> {
    let (disk, log) = (at.server.disk.as_ref()?, &at.server.binlog);
    (log.bytes > disk.free_bytes).then(|| {
        Found::new(format!(
            "its logs take {}, and {} has {} left",
            bytes(log.bytes),
            disk.path,
            bytes(disk.free_bytes)
        ))
    })
}
