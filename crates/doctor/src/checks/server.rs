//! Whether a server can be examined, what release it has, and whether Heddle's account may do its work there.

use crate::checks::At;
use crate::facts::{FarmFacts, GroupFacts};
use crate::finding::{Found, Severity};

pub(crate) fn reach(_: &FarmFacts, group: &GroupFacts) -> Vec<Found> {
    let silent = group.servers.iter().filter(|it| !it.unreachable.is_empty());
    silent
        .map(|it| Found::new(it.unreachable.as_str()).at(&it.address))
        .collect()
}

pub(crate) fn privileges(_: &FarmFacts, group: &GroupFacts) -> Vec<Found> {
    let mut found = Vec::new();
    for server in &group.servers {
        for lack in &server.lacks {
            let severity = match (lack.essential, lack.used) {
                (true, _) => Severity::Error,
                (false, true) => Severity::Warning,
                (false, false) => Severity::Info,
            };
            found.push(
                Found::new(lack.text.as_str())
                    .at(&server.address)
                    .grave(severity)
                    .breaks(lack.feature.as_str())
                    .cure(lack.cure.as_str()),
            );
        }
    }
    found
}

pub(crate) fn engine_version(at: &At<'_>) -> Option<Found> {
    let objection = at.server.parsed_version()?.objection()?;
    Some(Found::new(objection))
}

/// MySQL 8.0.30 is the first whose prepared transactions survive every crash.
pub(crate) fn unsafe_xa(at: &At<'_>) -> Option<Found> {
    let version = at.server.parsed_version().filter(|_| at.is_mysql())?;
    let several = at
        .farm
        .groups
        .iter()
        .filter(|it| !it.name.is_empty())
        .count()
        > 1;
    (several && version.number < 80_030)
        .then(|| Found::new(format!("its version is {}", at.server.version)))
}

/// The router's clock is compared, so a difference that all servers have is the router's.
pub(crate) fn clock_differs(at: &At<'_>) -> Option<Found> {
    const ALLOWED_MS: i64 = 1000;
    let ahead = at
        .server
        .clock_ahead_ms
        .filter(|it| it.abs() > ALLOWED_MS)?;
    let how = if ahead > 0 { "ahead of" } else { "behind" };
    Some(Found::new(format!(
        "its clock is {} ms {how} the router's",
        ahead.abs()
    )))
}

pub(crate) fn time_zone_tables(at: &At<'_>) -> Option<Found> {
    let empty = at.server.time_zones? == 0 && super::accounts::decides(at);
    empty.then(|| Found::new("mysql.time_zone_name is empty"))
}

pub(crate) fn low_disk(at: &At<'_>) -> Option<Found> {
    super::router::low(at.server.disk.as_ref()?)
}

pub(crate) fn local_infile(at: &At<'_>) -> Option<Found> {
    super::wants_now(at, &["local_infile"], &["OFF", "0"])
}

pub(crate) fn faulty(at: &At<'_>) -> Option<Found> {
    (at.server.status? == farm::Status::Faulty).then(|| Found::new("its status is FAULTY"))
}
