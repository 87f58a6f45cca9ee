//! Whether a group can lose a server, and whether its servers go together.

use std::collections::BTreeMap;

use crate::facts::{FarmFacts, GroupFacts, ServerFacts};
use crate::finding::Found;

pub(crate) fn empty(_: &FarmFacts, group: &GroupFacts) -> Vec<Found> {
    let is_empty = group.servers.is_empty();
    found(is_empty, || "it has no server".to_owned())
}

fn found(is_so: bool, evidence: impl FnOnce() -> String) -> Vec<Found> {
    is_so.then(|| Found::new(evidence())).into_iter().collect()
}

fn members(group: &GroupFacts) -> impl Iterator<Item = &ServerFacts> {
    group.servers.iter().filter(|it| it.status.is_some())
}

fn addresses<'a>(servers: impl Iterator<Item = &'a ServerFacts>) -> String {
    let names: Vec<&str> = servers.map(|it| it.address.as_str()).collect();
    names.join(", ")
}

pub(crate) fn overfull(_: &FarmFacts, group: &GroupFacts) -> Vec<Found> {
    let of = |(map, (own, even)): (&String, &(u32, u32))| {
        Found::new(format!(
            "shard map {map} gives it {own} % of the keys, where an even part would be {even} %"
        ))
    };
    group.overfull.iter().map(of).collect()
}

pub(crate) fn no_primary(_: &FarmFacts, group: &GroupFacts) -> Vec<Found> {
    let is_so = !group.media && members(group).next().is_some() && group.primary().is_none();
    found(is_so, || {
        format!("none of {} is its primary", addresses(members(group)))
    })
}

pub(crate) fn single(_: &FarmFacts, group: &GroupFacts) -> Vec<Found> {
    let is_so = members(group).count() == 1;
    found(is_so, || {
        format!("{} is its only server", addresses(members(group)))
    })
}

pub(crate) fn pair(_: &FarmFacts, group: &GroupFacts) -> Vec<Found> {
    let able = members(group).filter(|it| it.is_primary() || it.is_replica());
    let is_so = !group.galera && members(group).count() > 1 && able.count() == 2;
    found(is_so, || {
        format!("its servers are {}", addresses(members(group)))
    })
}

/// Galera decides by majorities.
pub(crate) fn no_majority(_: &FarmFacts, group: &GroupFacts) -> Vec<Found> {
    let count = members(group).count();
    let nodes = group.primary().is_some();
    let is_so = group.galera && nodes && count > 1 && count.is_multiple_of(2);
    found(is_so, || format!("the cluster has {count} nodes"))
}

pub(crate) fn no_candidate(_: &FarmFacts, group: &GroupFacts) -> Vec<Found> {
    let others = members(group).filter(|it| !it.is_primary()).count();
    let mut able = group.replicas().filter(|it| !it.never_primary);
    let is_so = !group.galera && others > 0 && group.primary().is_some() && able.next().is_none();
    found(is_so, || {
        "each other server is faulty, or may never be the primary".to_owned()
    })
}

pub(crate) fn inactive(_: &FarmFacts, group: &GroupFacts) -> Vec<Found> {
    let is_so = !group.active && !group.media && members(group).count() > 1;
    found(is_so, || "failovers are off".to_owned())
}

pub(crate) fn versions_mixed(_: &FarmFacts, group: &GroupFacts) -> Vec<Found> {
    let each = group
        .read()
        .map(|it| format!("{} {}", it.address, it.version));
    let mut versions: Vec<&str> = group.read().map(|it| it.version.as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    found(versions.len() > 1, || each.collect::<Vec<_>>().join(", "))
}

pub(crate) fn older_than_primary(_: &FarmFacts, group: &GroupFacts) -> Vec<Found> {
    let Some(primary) = group.primary().and_then(ServerFacts::parsed_version) else {
        return Vec::new();
    };
    let older = group.read().filter_map(|server| {
        let own = server.parsed_version()?;
        (own.engine == primary.engine && own.release() < primary.release()).then(|| {
            let text = format!("it runs {own}, and the primary {primary}");
            Found::new(text).at(&server.address)
        })
    });
    older.collect()
}

pub(crate) fn engines_mixed(_: &FarmFacts, group: &GroupFacts) -> Vec<Found> {
    let Some(primary) = group.primary().filter(|it| it.was_read()) else {
        return Vec::new();
    };
    let others = group.read().filter(|it| it.engine() != primary.engine());
    let each = others.map(|it| {
        let (own, other) = (it.engine().name(), primary.engine().name());
        Found::new(format!("it runs {own}, and the primary {other}")).at(&it.address)
    });
    each.collect()
}

/// The servers that have a value which another one has, too.
fn twins(group: &GroupFacts, name: &str) -> Vec<Found> {
    let mut by_value: BTreeMap<&str, Vec<&ServerFacts>> = BTreeMap::new();
    for server in group.read() {
        if let Some(value) = server.variable(&[name]) {
            by_value.entry(value).or_default().push(server);
        }
    }
    let twins = by_value
        .into_iter()
        .filter(|(_, servers)| servers.len() > 1);
    let each = twins.flat_map(|(value, servers)| {
        let all = addresses(servers.iter().copied());
        let told = servers.into_iter().skip(1);
        told.map(move |it| Found::new(format!("{name} is {value} on {all}")).at(&it.address))
    });
    each.collect()
}

pub(crate) fn server_ids(_: &FarmFacts, group: &GroupFacts) -> Vec<Found> {
    if group.galera {
        // The nodes of a cluster may share one.
        return Vec::new();
    }
    let mut all = twins(group, "server_id");
    let zero = group
        .read()
        .filter(|it| it.number(&["server_id"]) == Some(0));
    all.extend(zero.map(|it| Found::new("server_id is 0").at(&it.address)));
    all
}

pub(crate) fn server_uuids(_: &FarmFacts, group: &GroupFacts) -> Vec<Found> {
    twins(group, "server_uuid")
}
