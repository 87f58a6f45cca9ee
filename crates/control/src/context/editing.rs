//! Changes of one server's record.
//!
//! A record may change while a command talks to servers: a failover makes another server the primary.
//! An edit is therefore a function of the newest record, never a record that was read before a wait, and
//! it is made again when another change was written first. The records are locked while it runs: it must not
//! ask for them.

use meta::Transaction;

use crate::context::Context;
use crate::context::records::no_member;
use crate::leadership::lead::Lead;
use catalog::command::CommandError;
use catalog::configuration::Author;
use catalog::record::ServerRecord;

/// Other changes of the same record may be written first so often.
pub(crate) const TRIES: u32 = 5;

impl Context {
    /// Edits a server's record on the router's own account. An edit that changes nothing writes nothing;
    /// one that gives an error ends the change with it.
    pub(crate) async fn edit_server(
        &self,
        lead: &Lead,
        id: u32,
        edit: impl Fn(&mut ServerRecord) -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        for _ in 0..TRIES {
            let Some(transaction) = self.edited(id, &edit)? else {
                return Ok(());
            };
            match self.commit(lead, transaction).await {
                Err(CommandError::Stale) => {}
                other => return other,
            }
        }
        Err(CommandError::Stale)
    }

    /// The same for an operator's command, which is carried out again when another change was first. The
    /// configuration's history has it.
    pub(crate) async fn edit_server_as(
        &self,
        lead: &Lead,
        author: &Author,
        id: u32,
        edit: impl Fn(&mut ServerRecord) -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        match self.edited(id, &edit)? {
            None => Ok(()),
            Some(transaction) => self.commit_as(lead, author, transaction).await,
        }
    }

    fn edited(
        &self,
        id: u32,
        edit: &impl Fn(&mut ServerRecord) -> Result<(), CommandError>,
    ) -> Result<Option<Transaction>, CommandError> {
        // The record and the revision that the transaction compares are of one reading.
        let state = self.state();
        let Some(kept) = state.records.servers.get(&id) else {
            return Err(no_member(id));
        };
        let mut changed = kept.value.clone();
        edit(&mut changed)?;
        if changed == kept.value {
            return Ok(None);
        }
        let begun = Transaction::new();
        Ok(Some(state.records.change_server(begun, id, &changed)))
    }
}
