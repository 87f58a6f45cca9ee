//! Groups whose servers run different releases: while they are upgraded one after the other, and after a
//! failover to a newer one. An older server may not understand what a newer primary writes.

use farm::Status;

use crate::context::Context;
use catalog::event::Event;
use catalog::record::{Records, ServerRecord};

/// Tells which servers of a group are older than its primary, one event for each.
pub(crate) fn tell_older_replicas(context: &Context, group: &str) {
    let older: Vec<Event> = {
        let state = context.state();
        let pairs = older_than_primary(&state.records, group);
        pairs.into_iter().map(event).collect()
    };
    older.into_iter().for_each(|event| context.happened(event));
}

/// Each server that follows a primary of a newer release, with that primary.
fn older_than_primary<'a>(
    records: &'a Records,
    group: &'a str,
) -> Vec<(&'a ServerRecord, &'a ServerRecord)> {
    let Some((_, primary)) = records.primary(group) else {
        return Vec::new();
    };
    let members = records.members(group).map(|(_, member)| member);
    let older = members
        .filter(|member| member.status != Status::Faulty && member.release() < primary.release());
    older.map(|member| (member, primary)).collect()
}

fn event((member, primary): (&ServerRecord, &ServerRecord)) -> Event {
    let address = member.address();
    let detail = format!(
        "{address} runs {}, older than the {} of the primary {}, whose statements it may not understand; \
         upgrade it",
        member.version,
        primary.version,
        primary.address()
    );
    Event::now("replica_older", &member.group, detail).of(&member.uuid, address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalog::record::samples::{records, server};

    #[test]
    fn who_is_older_than_the_primary() {
        let with = |port, status, version: &str| ServerRecord {
            version: version.to_owned(),
            ..server("g", port, status)
        };
        let records = records(
            "g",
            &[
                with(3307, Status::Primary, "11.4.5-MariaDB"),
                with(3308, Status::Replica, "10.11.6-MariaDB"),
                with(3309, Status::Replica, "11.4.2-MariaDB"),
                with(3310, Status::Spare, "12.0.2-MariaDB"),
                with(3311, Status::Faulty, "10.6.1-MariaDB"),
            ],
        );
        let older = older_than_primary(&records, "g");
        let ports: Vec<u16> = older.iter().map(|(member, _)| member.port).collect();
        assert_eq!(ports, [3308]);
        let told = event(older[0]);
        assert!(
            told.detail
                .contains("runs 10.11.6-MariaDB, older than the 11.4.5-MariaDB")
        );
        assert!(older_than_primary(&records, "h").is_empty());
    }
}
