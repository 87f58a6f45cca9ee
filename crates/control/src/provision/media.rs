//! Groups on read-only storage: who may join one.
//!
//! Nothing is set on such a server, nothing is written there, and it follows nobody. A group records which servers
//! have the data set, and the probes say which of them serve.

use engine::{Link, Observation};
use farm::Status;

use crate::leadership::lead::Lead;
use crate::provision::Provision;
use crate::provision::admission::{Admitted, Newcomer, record};
use catalog::command::CommandError;
use catalog::identity;
use catalog::record::{Records, ServerRecord};

impl Provision {
    /// Adds a server of the group's data set.
    pub(crate) async fn admit_media(
        &self,
        lead: &Lead,
        records: &Records,
        newcomer: &Newcomer,
        link: &mut Link,
    ) -> Result<Admitted, CommandError> {
        let seen = engine::probe(link, false, newcomer.timeout_ms).await?;
        let version = link.version().clone();
        let objection = version.objection().map(|it| it.to_string());
        if let Some(why) = objection.or_else(|| misfit(&seen)) {
            return Err(CommandError::Refused(format!(
                "server {} cannot join group {}, which is on read-only storage: {why}",
                newcomer.address(),
                newcomer.group
            )));
        }
        let key = self.probes.pin_of(link, version.engine);
        let mut record = ServerRecord {
            never_primary: true,
            ..record(newcomer, &version, &seen, Status::Replica, key)?
        };
        // A copy of a data directory has the UUID of the server that it was made of.
        if records.find(&record.uuid).is_some() {
            let own = identity::uuid();
            record.uuid = own.map_err(|error| CommandError::Internal(error.to_string()))?;
        }
        let (id, transaction) = records.add_server(&record);
        self.probes.answered(id, seen);
        self.context
            .commit_as(lead, &newcomer.author, transaction)
            .await?;
        Ok(Admitted::Member(record.uuid))
    }
}

/// Why a server is none of such a group.
fn misfit(seen: &Observation) -> Option<String> {
    if !seen.read_only {
        return Some(
            "it takes writes; start it with read_only = ON (and innodb_read_only = ON, event_scheduler = OFF, \
             skip_log_bin)"
                .to_owned(),
        );
    }
    let replica = seen.replica.as_ref()?;
    Some(format!(
        "it follows {}:{}, so its data change",
        replica.primary_host, replica.primary_port
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::samples::observation;

    #[test]
    fn what_can_change_is_not_on_read_only_storage() {
        let fixed = observation();
        assert_eq!(misfit(&fixed), None);
        let writable = Observation {
            read_only: false,
            ..fixed
        };
        assert!(misfit(&writable).is_some_and(|why| why.contains("read_only = ON")));
    }
}
