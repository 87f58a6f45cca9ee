//! What has to be the same on all servers of a group, since a replica may be the next primary.

use crate::checks::{At, bytes, set};
use crate::facts::{FarmFacts, GroupFacts, ServerFacts};
use crate::finding::Found;

/// What the others are compared with: the primary, else the first server that was read.
fn model(group: &GroupFacts) -> Option<&ServerFacts> {
    let primary = group.primary().filter(|it| it.was_read());
    primary.or_else(|| group.read().next())
}

/// The servers whose variable has another value than the model's.
pub(crate) fn differs(group: &GroupFacts, names: &[&str]) -> Vec<Found> {
    let Some(model) = model(group) else {
        return Vec::new();
    };
    let Some(wanted) = model.variable(names) else {
        return Vec::new();
    };
    let others = group.read().filter_map(|server| {
        let (name, value) = server.named(names).filter(|(_, value)| *value != wanted)?;
        let evidence = format!("{name} is '{value}', and '{wanted}' on {}", model.address);
        let cure = format!("write {name} = {wanted} into its configuration, or change the others'");
        Some(Found::new(evidence).at(&server.address).cure(cure))
    });
    others.collect()
}

/// Servers that take smaller packets than another one of the group.
pub(crate) fn packets(farm: &FarmFacts, group: &GroupFacts) -> Vec<Found> {
    let names = ["max_allowed_packet"];
    let Some(most) = group.read().filter_map(|it| it.number(&names)).max() else {
        return Vec::new();
    };
    let smaller = group.read().filter_map(|server| {
        let own = server.number(&names).filter(|own| *own < most)?;
        let evidence = format!("max_allowed_packet is {own}, and {most} elsewhere in the group");
        let at = At {
            farm,
            group,
            server,
        };
        let found = Found::new(evidence).at(&server.address);
        Some(set(&at, found, "max_allowed_packet", &most.to_string()))
    });
    smaller.collect()
}

/// A server with less memory for pages than the primary's is slow once it leads.
pub(crate) fn buffer_pools(_: &FarmFacts, group: &GroupFacts) -> Vec<Found> {
    let names = ["innodb_buffer_pool_size"];
    let primary = group.primary().and_then(|it| it.number(&names));
    let Some(of_primary) = primary else {
        return Vec::new();
    };
    let smaller = group.read().filter_map(|server| {
        let own = server.number(&names).filter(|own| own * 2 <= of_primary)?;
        let text = format!(
            "{} of buffer pool, and {} on the primary",
            bytes(own),
            bytes(of_primary)
        );
        Some(Found::new(text).at(&server.address))
    });
    smaller.collect()
}
