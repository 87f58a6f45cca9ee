//! GTIDs: whether they are on, whether a replica has what its primary lacks, and gaps.

use farm::{Engine, Position};

use crate::checks::{At, wants, wants_now};
use crate::facts::{FarmFacts, GroupFacts, ServerFacts};
use crate::finding::Found;

pub(crate) fn gtid_mode(at: &At<'_>) -> Option<Found> {
    wants(at, &["gtid_mode"], &["ON"])
}

pub(crate) fn gtid_consistency(at: &At<'_>) -> Option<Found> {
    wants(at, &["enforce_gtid_consistency"], &["ON", "1"])
}

pub(crate) fn gtid_strict(at: &At<'_>) -> Option<Found> {
    wants_now(at, &["gtid_strict_mode"], &["ON", "1"])
}

fn position(server: &ServerFacts) -> Option<Position> {
    Position::parse(server.engine(), &server.gtid)
}

pub(crate) fn errant(at: &At<'_>) -> Option<Found> {
    let errant = &at.server.errant;
    (!errant.is_empty()).then(|| Found::new(format!("only this server has {errant}")))
}

pub(crate) fn gaps(at: &At<'_>) -> Option<Found> {
    let Some(Position::MySql(sources)) = position(at.server) else {
        return None;
    };
    // A replica that applies in parallel without an order has gaps for moments.
    let gapped = sources.iter().find(|(_, intervals)| intervals.len() > 1)?;
    let count = gapped.1.len();
    let set = &at.server.gtid;
    Some(Found::new(format!(
        "what it has executed of one source is in {count} pieces: {set}"
    )))
}

/// Servers of one group that log in different domains.
pub(crate) fn domains(_: &FarmFacts, group: &GroupFacts) -> Vec<Found> {
    let replicates = |it: &&ServerFacts| it.engine() == Engine::MariaDb && !group.galera;
    let Some(primary) = group.primary().filter(replicates) else {
        return Vec::new();
    };
    let Some(domain) = primary.variable(&["gtid_domain_id"]) else {
        return Vec::new();
    };
    let others = group.read().filter_map(|server| {
        let own = server
            .variable(&["gtid_domain_id"])
            .filter(|own| *own != domain)?;
        let text = format!("gtid_domain_id is {own}, and {domain} on the primary");
        Some(Found::new(text).at(&server.address))
    });
    others.collect()
}
