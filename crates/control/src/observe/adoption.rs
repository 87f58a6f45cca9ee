//! What a server says of itself and the record does not know yet: its version after an upgrade, its
//! UUID after it was built anew.

use engine::{Observation, Version};
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

/// The record as it should be; `None` when it is right.
fn adopted(record: &ServerRecord, observation: &Observation) -> Option<ServerRecord> {
    let mut adopted = record.clone();
    adopted.version.clone_from(&observation.version);
    if let Some(uuid) = &observation.uuid {
        adopted.uuid.clone_from(uuid);
    }
    if let Some(version) = Version::parse(&observation.version) {
        adopted.engine = version.engine;
    }
    (adopted != *record).then_some(adopted)
}

#[cfg(test)]
mod tests {
    use farm::{Engine, Status};

    use super::*;
    use catalog::record::samples::server;

    #[test]
    fn versions_and_uuids_are_adopted() {
        let record = server("g", 1, Status::Replica);
        let mut observation = Observation {
            version: record.version.clone(),
            uuid: None,
            server_id: 1,
            read_only: true,
            sql_mode: String::new(),
            logins_set_mode: false,
            gtid: String::new(),
            replica: None,
            acks: None,
        };
        assert_eq!(adopted(&record, &observation), None);
        observation.version = "8.4.0".to_owned();
        observation.uuid = Some("u".to_owned());
        let new = adopted(&record, &observation).expect("a change");
        assert_eq!((new.version.as_str(), new.uuid.as_str()), ("8.4.0", "u"));
        assert_eq!(new.engine, Engine::MySql);
    }
}
