//! What survives a crash of a server or of its machine.

use crate::checks::{At, wants, wants_now};
use crate::finding::Found;

/// Replicas may flush seldom where the farm makes them strict before they are promoted.
fn may_be_relaxed(at: &At<'_>) -> bool {
    at.farm.is_on("relaxed_replicas") && at.server.is_replica()
}

pub(crate) fn sync_binlog(at: &At<'_>) -> Option<Found> {
    wants_now(at, &["sync_binlog"], &["1"]).filter(|_| !may_be_relaxed(at))
}

pub(crate) fn flush_log_at_commit(at: &At<'_>) -> Option<Found> {
    let names = ["innodb_flush_log_at_trx_commit"];
    // MariaDB has 3 for one more flush.
    wants_now(at, &names, &["1", "3"]).filter(|_| !may_be_relaxed(at))
}

pub(crate) fn doublewrite(at: &At<'_>) -> Option<Found> {
    let (name, value) = at.server.named(&["innodb_doublewrite"])?;
    let is_off = matches!(value, "OFF" | "0" | "DETECT_ONLY");
    is_off.then(|| Found::new(format!("{name} is {value}")))
}

pub(crate) fn relay_log_recovery(at: &At<'_>) -> Option<Found> {
    wants(at, &["relay_log_recovery"], &["ON", "1"])
}

pub(crate) fn relay_log_info(at: &At<'_>) -> Option<Found> {
    wants(at, &["relay_log_info_repository"], &["TABLE"])
}

pub(crate) fn init_rpl_role(at: &At<'_>) -> Option<Found> {
    wants(at, &["init_rpl_role"], &["SLAVE"])
}

/// What the configuration of a server says that was set since its start cannot be asked for.
pub(crate) fn starts_writable(at: &At<'_>) -> Option<Found> {
    const BY_HAND: [&str; 3] = ["SQL", "DYNAMIC", ""];
    let origin = at
        .server
        .origins
        .get("read_only")
        .map_or("", String::as_str);
    if BY_HAND.contains(&origin) || at.server.is_on(&["read_only"]) != Some(false) {
        return None;
    }
    Some(Found::new(format!(
        "read_only is OFF since its start (by {origin})"
    )))
}

pub(crate) fn replica_writable(at: &At<'_>) -> Option<Found> {
    if !at.server.is_replica() {
        return None;
    }
    let (name, value) = at.server.named(&["read_only"])?;
    if at.server.is_on(&[name]) == Some(true) {
        return None;
    }
    // Not persisted: a promotion takes it back.
    let sql = "SET GLOBAL read_only = ON";
    let found = Found::new(format!("{name} is {value}"));
    Some(found.cure(sql).statement(sql))
}

pub(crate) fn super_writable(at: &At<'_>) -> Option<Found> {
    if !at.server.is_replica() || at.server.is_on(&["super_read_only"]) != Some(false) {
        return None;
    }
    let sql = "SET GLOBAL super_read_only = ON";
    let found = Found::new("super_read_only is OFF");
    Some(found.cure(sql).statement(sql))
}

pub(crate) fn primary_read_only(at: &At<'_>) -> Option<Found> {
    let off = !at.server.is_primary() || at.server.is_on(&["read_only"]) != Some(true);
    (!off).then(|| Found::new("read_only is ON on the primary"))
}

/// A server on storage that cannot be written; one that may never lead takes no harm.
pub(crate) fn engine_read_only(at: &At<'_>) -> Option<Found> {
    let is_so = at.server.is_on(&["innodb_read_only"]) == Some(true) && !at.server.never_primary;
    is_so.then(|| Found::new("innodb_read_only is ON"))
}
