//! Whether an acknowledged commit is on a second server.

use crate::checks::{At, set, wants_now};
use crate::finding::Found;

const REPLICA: [&str; 2] = [
    "rpl_semi_sync_replica_enabled",
    "rpl_semi_sync_slave_enabled",
];
const PRIMARY: [&str; 2] = [
    "rpl_semi_sync_source_enabled",
    "rpl_semi_sync_master_enabled",
];
const WAIT_POINT: [&str; 2] = [
    "rpl_semi_sync_source_wait_point",
    "rpl_semi_sync_master_wait_point",
];
const CLIENTS: [&str; 2] = [
    "rpl_semi_sync_source_clients",
    "rpl_semi_sync_master_clients",
];
const STATUS: [&str; 2] = ["rpl_semi_sync_source_status", "rpl_semi_sync_master_status"];

pub(crate) fn missing(at: &At<'_>) -> Option<Found> {
    let has = |names: &[&str]| at.server.variable(names).is_some();
    let lacks = match (has(&PRIMARY), has(&REPLICA)) {
        (true, true) => return None,
        (false, false) => "the plugins of semi-sync are not installed",
        (false, true) => "the plugin of semi-sync for primaries is not installed",
        (true, false) => "the plugin of semi-sync for replicas is not installed",
    };
    Some(Found::new(lacks))
}

pub(crate) fn replica_off(at: &At<'_>) -> Option<Found> {
    if !at.server.is_replica() || at.server.is_on(&REPLICA)? {
        return None;
    }
    let (name, value) = at.server.named(&REPLICA)?;
    let found = set(at, Found::new(format!("{name} is {value}")), name, "ON");
    let cure = found.cure.clone().unwrap_or_default();
    Some(found.cure(format!("{cure}; then stop and start its receiver")))
}

pub(crate) fn primary_off(at: &At<'_>) -> Option<Found> {
    let needed = at.server.is_primary() && at.group.replicas().next().is_some();
    let (name, value) = at.server.named(&PRIMARY).filter(|_| needed)?;
    let is_on = at.server.is_on(&[name]) == Some(true);
    (!is_on).then(|| Found::new(format!("{name} is {value}")))
}

pub(crate) fn wait_point(at: &At<'_>) -> Option<Found> {
    wants_now(at, &WAIT_POINT, &["AFTER_SYNC"])
}

/// The primary commits and nobody acknowledges.
pub(crate) fn unacknowledged(at: &At<'_>) -> Option<Found> {
    let needed = at.server.is_primary() && at.group.replicas().next().is_some();
    if !needed || at.server.is_on(&PRIMARY) != Some(true) {
        return None;
    }
    let clients = at.server.counter(&CLIENTS)?;
    let status = at.server.counter(&STATUS).unwrap_or("ON");
    (clients == "0" || status == "OFF").then(|| {
        Found::new(format!(
            "{clients} replicas acknowledge, and semi-sync's status is {status}"
        ))
    })
}
