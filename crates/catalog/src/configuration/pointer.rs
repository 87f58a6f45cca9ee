//! Which version counts, and how the records will be: what a new version is made of.

use meta::{Change, Transaction};

use crate::error::Error;
use crate::record::{CONFIGURATION, GROUP, Records, SERVER, json};

impl Records {
    /// The version of the configuration that counts; 0 before there is one.
    pub fn version(&self) -> u64 {
        self.configuration.as_ref().map_or(0, |kept| kept.value)
    }

    /// Has another version of the configuration count, unless somebody moved it meanwhile.
    pub fn move_version(&self, transaction: Transaction, version: u64) -> Transaction {
        let guarded = match &self.configuration {
            None => transaction.when_absent(CONFIGURATION),
            Some(kept) => transaction.when_revision(CONFIGURATION, kept.revision),
        };
        guarded.put(CONFIGURATION, &json(&version))
    }

    /// The groups and servers as they are once a transaction is applied.
    pub fn after(&self, transaction: &Transaction) -> Result<Records, Error> {
        let mut records = self.clone();
        for change in &transaction.changes {
            let key = change.key();
            match change {
                Change::Put { value, .. } => records.take(&meta::Entry {
                    key: key.to_owned(),
                    value: value.clone(),
                    revision: self.revision,
                    lease: None,
                })?,
                Change::Delete { .. } => {
                    if let Some(name) = key.strip_prefix(GROUP) {
                        records.groups.remove(name);
                    }
                    let id = key.strip_prefix(SERVER).and_then(|id| id.parse().ok());
                    id.and_then(|id: u32| records.servers.remove(&id));
                }
            }
        }
        Ok(records)
    }
}
