//! What a server says of itself and the record does not know yet: its version after an upgrade, its
//! UUID after it was built anew.
//!
//! Invariant: a server that answers at a member's address and is another one is not taken for the member.

use std::collections::BTreeSet;

use engine::Observation;
use meta::Transaction;

use crate::observe::Probes;
use crate::observe::releases;
use catalog::event::Event;
use catalog::record::ServerRecord;

impl Probes {
    /// Writes a server's new version or UUID into its record. A refused write is tried again with
    /// the next probe.
    pub(crate) async fn adopt(&self, id: u32, observation: &Observation) {
        let Some(lead) = self.context.leadership.lead() else {
            return;
        };
        let (transaction, group) = {
            let state = self.context.state();
            let Some(kept) = state.records.servers.get(&id) else {
                return;
            };
            let Some(adopted) = adopted(&kept.value, observation) else {
                return;
            };
            let transaction = state
                .records
                .change_server(Transaction::new(), id, &adopted);
            (transaction, adopted.group)
        };
        match self.context.commit(&lead, transaction).await {
            Ok(_) => releases::tell_older_replicas(&self.context, &group),
            Err(error) => {
                let detail = format!("cannot record what a server says of itself: {error}");
                self.context
                    .happened(Event::now("store_unwritable", &group, detail));
            }
        }
    }
}

impl Probes {
    /// Why the server that answered is not the member; `None` where it may be the member.
    pub(crate) fn stranger(
        &self,
        id: u32,
        record: &ServerRecord,
        observation: &Observation,
    ) -> Option<String> {
        let state = self.context.state();
        let others = state.records.members(&record.group);
        let others = others.filter(|(other, _)| *other != id);
        let seen = others.filter_map(|(other, _)| state.seen.get(&other)?.observation.as_ref());
        let history = seen.flat_map(|seen| sources(&seen.gtid)).collect();
        stranger(record, observation, &history)
    }
}

/// The server is a stranger if two things hold: its UUID is not the record's, and it has transactions, but none of a server
/// in the group's `history`. A member that was built anew has no transactions at all, or the group's.
fn stranger(
    record: &ServerRecord,
    observation: &Observation,
    history: &BTreeSet<&str>,
) -> Option<String> {
    let uuid = observation.uuid.as_ref()?;
    let own: BTreeSet<&str> = sources(&observation.gtid).collect();
    let is_known = *uuid == record.uuid || own.is_empty() || history.is_empty();
    (!is_known && own.is_disjoint(history)).then(|| {
        format!(
            "its server_uuid is {uuid} and not {}, and it has no transaction of group {}",
            record.uuid, record.group
        )
    })
}

/// The UUIDs of a set of MySQL's GTIDs.
fn sources(gtids: &str) -> impl Iterator<Item = &str> {
    let sets = gtids.split(',').map(str::trim);
    sets.filter_map(|set| Some(set.split_once(':')?.0))
}

/// The record as it should be; `None` when it is right.
fn adopted(record: &ServerRecord, observation: &Observation) -> Option<ServerRecord> {
    let mut adopted = record.clone();
    adopted.version.clone_from(&observation.version);
    if let Some(uuid) = &observation.uuid {
        adopted.uuid.clone_from(uuid);
    }
    (adopted != *record).then_some(adopted)
}

#[cfg(test)]
mod tests {
    use farm::Status;

    use super::*;
    use crate::observe::samples::observation;
    use catalog::record::samples::server;

    #[test]
    fn versions_and_uuids_are_adopted() {
        let record = server("g", 1, Status::Replica);
        let mut observation = observation();
        assert_eq!(observation.version, record.version);
        assert_eq!(adopted(&record, &observation), None);
        observation.version = "11.4.2-MariaDB".to_owned();
        observation.uuid = Some("u".to_owned());
        let new = adopted(&record, &observation).expect("a change");
        let new = (new.version.as_str(), new.uuid.as_str());
        assert_eq!(new, ("11.4.2-MariaDB", "u"));
    }

    #[test]
    fn who_shares_nothing_with_the_group_is_a_stranger() {
        let record = server("g", 1, Status::Replica);
        let history = BTreeSet::from(["a", "b"]);
        let mut observation = observation();
        let mut said = |uuid: Option<&str>, gtids: &str| {
            observation.uuid = uuid.map(str::to_owned);
            gtids.clone_into(&mut observation.gtid);
            stranger(&record, &observation, &history)
        };
        let why = said(Some("c"), "c:1-7").expect("another server");
        assert!(
            why.contains("is c and not") && why.contains("group g"),
            "{why}"
        );
        assert_eq!(said(Some("c"), "b:1-3, c:1-7"), None, "built anew");
        assert_eq!(said(Some("c"), ""), None, "empty");
        assert_eq!(said(Some(&record.uuid), "c:1-7"), None, "the member");
        assert_eq!(said(None, "0-1-7"), None, "MariaDB has no UUID");
        observation.uuid = Some("c".to_owned());
        let nothing = BTreeSet::new();
        assert_eq!(stranger(&record, &observation, &nothing), None);
    }
}
