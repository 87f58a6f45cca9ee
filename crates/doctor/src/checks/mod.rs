//! The checks, by what they look at.

pub(crate) mod accounts;
pub(crate) mod alike;
pub(crate) mod binlog;
pub(crate) mod durability;
pub(crate) mod group;
pub(crate) mod limits;
pub(crate) mod positions;
pub(crate) mod replication;
pub(crate) mod router;
pub(crate) mod schema;
pub(crate) mod semi_sync;
pub(crate) mod server;
pub(crate) mod tls;

use farm::Engine;

use crate::facts::{FarmFacts, GroupFacts, ServerFacts};
use crate::finding::Found;

/// A server that was read, with what it is in.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) farm: &'a FarmFacts,
    pub(crate) group: &'a GroupFacts,
    pub(crate) server: &'a ServerFacts,
}

impl At<'_> {
    pub(crate) fn is_mysql(&self) -> bool {
        self.server.engine() == Engine::MySql
    }
}

/// The server's variable of the first of these names that it has, if its value is none of those wanted.
fn other_than<'a, 'n>(
    at: &At<'a>,
    names: &[&'n str],
    wanted: &[&str],
) -> Option<(&'n str, &'a str)> {
    let (name, value) = at.server.named(names)?;
    let fits = wanted.iter().any(|it| it.eq_ignore_ascii_case(value));
    (!fits).then_some((name, value))
}

/// A finding where a variable has none of the wanted values, the first of which is the one to set in the
/// configuration.
fn wants(at: &At<'_>, names: &[&str], wanted: &[&str]) -> Option<Found> {
    let (name, value) = other_than(at, names, wanted)?;
    let first = wanted.first().copied().unwrap_or_default();
    Some(Found::new(format!("{name} is {value}")).cure(format!(
        "write {name} = {first} into its configuration and restart it"
    )))
}

/// The same for a variable that can be set while the server runs.
fn wants_now(at: &At<'_>, names: &[&str], wanted: &[&str]) -> Option<Found> {
    let (name, value) = other_than(at, names, wanted)?;
    let first = wanted.first().copied().unwrap_or_default();
    Some(set(
        at,
        Found::new(format!("{name} is {value}")),
        name,
        first,
    ))
}

/// The finding with the statement that sets a variable, and keeps it over restarts where the engine can.
fn set(at: &At<'_>, found: Found, name: &str, value: &str) -> Found {
    let shown = match value.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        true => value.to_owned(),
        false => enginesql::quoted(value),
    };
    let (statement, cure) = match at.is_mysql() {
        true => {
            let sql = format!("SET PERSIST {name} = {shown}");
            (sql.clone(), sql)
        }
        false => {
            let sql = format!("SET GLOBAL {name} = {shown}");
            let cure = format!("{sql}, and {name} = {value} in its configuration");
            (sql, cure)
        }
    };
    found.cure(cure).statement(statement)
}

/// Bytes as people read them.
fn bytes(count: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = UNITS.iter().find(|(size, _)| count >= *size);
    unit.map_or_else(
        || format!("{count} bytes"),
        |(size, name)| format!("{} {name}", count / size),
    )
}
