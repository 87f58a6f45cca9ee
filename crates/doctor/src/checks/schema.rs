//! Tables, triggers and events that replication, failover or shards cannot handle.

use crate::checks::accounts::decides;
use crate::checks::{At, replication, set, wants_now};
use crate::facts::{FarmFacts, Names};
use crate::finding::Found;

const NAMED_MAX: usize = 5;

pub(crate) fn keyless(at: &At<'_>) -> Option<Found> {
    let tables = &at.server.schema.keyless;
    (decides(at) && !tables.is_empty()).then(|| Found::new(tables.text()))
}

/// InnoDB reads a table without a key in the order in which its rows came, which parallel threads change.
pub(crate) fn keyless_order(at: &At<'_>) -> Option<Found> {
    let tables = &at.server.schema.keyless;
    let is_so = replication::applies_in_parallel(at) && !tables.is_empty();
    (is_so && at.server.is_replica()).then(|| Found::new(tables.text()))
}

fn tables_of(at: &At<'_>, is: impl Fn(&str) -> bool) -> Option<Found> {
    let tables = at.server.schema.other_engines.iter();
    let odd: Vec<String> = tables
        .filter(|it| is(&it.engine))
        .map(|it| format!("{} ({})", it.table, it.engine))
        .collect();
    let names = Names {
        first: odd.iter().take(NAMED_MAX).cloned().collect(),
        count: odd.len() as u64,
    };
    (decides(at) && !odd.is_empty()).then(|| Found::new(names.text()))
}

pub(crate) fn memory_tables(at: &At<'_>) -> Option<Found> {
    tables_of(at, |engine| engine == "MEMORY")
}

pub(crate) fn other_engines(at: &At<'_>) -> Option<Found> {
    tables_of(at, |engine| engine != "MEMORY")
}

pub(crate) fn default_engine(at: &At<'_>) -> Option<Found> {
    wants_now(at, &["default_storage_engine"], &["InnoDB"])
}

pub(crate) fn events_double(at: &At<'_>) -> Option<Found> {
    let events = &at.server.schema.enabled_events;
    let runs = at.server.variable(&["event_scheduler"]) == Some("ON");
    if !at.server.is_replica() || !runs || events.is_empty() {
        return None;
    }
    let word = if at.is_mysql() { "REPLICA" } else { "SLAVE" };
    let alter = |name: &String| format!("ALTER EVENT {name} DISABLE ON {word}");
    let cure: Vec<String> = events.first.iter().map(alter).collect();
    Some(
        Found::new(events.text()).cure(format!("SET SESSION sql_log_bin = 0; {}", cure.join("; "))),
    )
}

pub(crate) fn events_idle(at: &At<'_>) -> Option<Found> {
    let events = &at.server.schema.enabled_events;
    let stands = at
        .server
        .variable(&["event_scheduler"])
        .filter(|it| *it != "ON")?;
    (at.server.is_primary() && !events.is_empty()).then(|| {
        let text = format!("event_scheduler is {stands}; enabled: {}", events.text());
        set(at, Found::new(text), "event_scheduler", "ON")
    })
}

pub(crate) fn triggers_double(at: &At<'_>) -> Option<Found> {
    wants_now(at, &["slave_run_triggers_for_rbr"], &["NO"])
        .filter(|_| !at.server.schema.triggers.is_empty())
}

pub(crate) fn function_creators(at: &At<'_>) -> Option<Found> {
    let needed = !at.farm.sharded.is_empty() && !at.server.schema.triggers.is_empty();
    wants_now(at, &["log_bin_trust_function_creators"], &["ON", "1"])
        .filter(|_| needed && at.server.is_primary())
}

/// Where a table's rows are.
#[derive(PartialEq, Eq)]
enum Place<'a> {
    Map(&'a str),
    Everywhere,
    Home,
}

fn place<'a>(farm: &'a FarmFacts, table: &str) -> Place<'a> {
    match farm.sharded.get(table).map(String::as_str) {
        None => Place::Home,
        Some("") => Place::Everywhere,
        Some(map) => Place::Map(map),
    }
}

pub(crate) fn foreign_keys(at: &At<'_>) -> Option<Found> {
    let keys = at.server.schema.foreign_keys.iter();
    let parts = |table: &str, references: &str| {
        let (own, other) = (place(at.farm, table), place(at.farm, references));
        own != other && other != Place::Everywhere
    };
    let odd: Vec<String> = keys
        .filter(|key| parts(&key.table, &key.references))
        .map(|key| format!("{} of {} to {}", key.name, key.table, key.references))
        .collect();
    let names = Names {
        first: odd.iter().take(NAMED_MAX).cloned().collect(),
        count: odd.len() as u64,
    };
    (decides(at) && !odd.is_empty()).then(|| Found::new(names.text()))
}
