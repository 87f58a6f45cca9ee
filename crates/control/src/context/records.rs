//! Questions about single servers and groups, answered by the records.

use std::sync::Arc;

use farm::Freshness;

use super::Context;
use catalog::command::CommandError;
use catalog::record::ServerRecord;

impl Context {
    pub(crate) fn member(&self, id: u32) -> Result<ServerRecord, CommandError> {
        let state = self.state();
        let kept = state.records.servers.get(&id);
        kept.map(|kept| kept.value.clone())
            .ok_or_else(|| no_member(id))
    }

    pub(crate) fn leader_of(&self, group: &str) -> Result<ServerRecord, CommandError> {
        let state = self.state();
        let primary = state.records.primary(group);
        primary.map(|(_, primary)| primary.clone()).ok_or_else(|| {
            CommandError::Refused(format!(
                "group {group} has no primary; see `group health {group}`"
            ))
        })
    }

    pub(crate) fn record_of(&self, id: u32) -> Option<ServerRecord> {
        let state = self.state();
        state
            .records
            .servers
            .get(&id)
            .map(|kept| kept.value.clone())
    }

    /// UUID and address.
    pub(crate) fn identity_of(&self, id: u32) -> Option<(String, String)> {
        let record = self.record_of(id)?;
        Some((record.uuid.clone(), record.address()))
    }

    /// What this router knows of a server's data.
    pub(crate) fn freshness(&self, id: u32) -> Arc<Freshness> {
        Arc::clone(&self.state().seen.entry(id).or_default().fresh)
    }
}

/// It left the farm while something was done for it.
pub(crate) fn no_member(id: u32) -> CommandError {
    CommandError::Refused(format!("server {id} is no longer a part of the farm"))
}

/// «There is no such group», with what to do.
pub(crate) fn no_group(group: &str) -> String {
    format!("there is no group {group}; `group lookup_groups` lists them, `group create` makes one")
}

/// «There is no such server», with where to look.
pub(crate) fn no_server(server: &str, group: Option<&str>) -> CommandError {
    CommandError::Refused(match group {
        Some(group) => format!(
            "group {group} has no server {server}; `group lookup_servers {group}` lists them"
        ),
        None => {
            format!("no group has a server {server}; `dump servers` lists all, by UUID and address")
        }
    })
}
