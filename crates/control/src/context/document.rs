//! The farm's document as this router follows it, and as commands write it.
//!
//! Invariant: a change that the document shows makes a version of it in the same transaction.

use std::sync::Arc;

use meta::{Outcome, Transaction};

use crate::configuration::current::{Current, refusal};
use crate::context::drivers::Told;
use crate::context::editing::TRIES;
use crate::context::{Context, State};
use crate::leadership::lead::Lead;
use crate::settings::Settings;
use catalog::configuration::{Author, Version, groups, load, version_key, with_version};
use catalog::record::Records;
use catalog::{CommandError, Error, Event};

impl Context {
    /// The document that counts.
    pub(crate) fn configuration(&self) -> Current {
        self.state().configuration.clone()
    }

    /// Puts this router's own settings in force anew, which have changed, under the document.
    ///
    /// # Errors
    /// The document does not go with them; everything stays as it was.
    pub(crate) fn reconfigure(&self) -> Result<(), String> {
        let version = Arc::clone(&self.state().configuration.version);
        self.put_in_force(&version)?;
        self.configured();
        Ok(())
    }

    /// Reads the version that the records name, if it is another one than we have. An error is
    /// told once.
    pub(super) async fn newer_version(&self, records: &Records) -> Option<Result<Version, Error>> {
        let wanted = records.version();
        if !self.state().configuration.lacks(wanted) {
            return None;
        }
        let missing = || Error::Record {
            key: version_key(wanted),
            reason: "it is missing".to_owned(),
        };
        match load(self.store(), wanted).await {
            // Out of reach is not unreadable: the next reading asks again.
            Err(Error::Store(_)) => None,
            Ok(version) => Some(version.ok_or_else(missing)),
            Err(error) => Some(Err(error)),
        }
    }

    /// At the start: a router that cannot follow the farm's configuration does not start.
    pub(crate) async fn begin_with_version(&self) -> Result<(), Error> {
        let records = self.state().records.clone();
        let version = match self.newer_version(&records).await {
            Some(version) => version?,
            None if records.version() == 0 => Version::default(),
            // The store did not answer the second time.
            None => load(self.store(), records.version())
                .await?
                .unwrap_or_default(),
        };
        self.put_in_force(&version).map_err(Error::Configuration)?;
        self.state().configuration.version = Arc::new(version);
        Ok(())
    }

    /// Takes over a version that was read; gives what to tell of it. The caller holds the state, so
    /// that versions follow each other in order.
    pub(super) fn take_version(
        &self,
        state: &mut State,
        read: Result<Version, Error>,
    ) -> Option<Event> {
        let wanted = state.records.version();
        state
            .configuration
            .take(wanted, read, |version| self.put_in_force(version))
    }

    /// Puts a document's settings, rules and users in force on this router.
    fn put_in_force(&self, version: &Version) -> Result<(), String> {
        let mut settings = Settings::clone(&self.settings());
        let documents = Arc::clone(&settings.documents);
        let applied = documents.apply(version.version, &version.text, &mut settings);
        applied.map_err(|wrong| refusal(version, wrong))?;
        self.set_settings(settings);
        Ok(())
    }

    /// Has everybody look at what is in force now.
    pub(super) fn configured(&self) {
        self.sessions.turned();
        self.probe_now();
        self.drivers.tell_all(|| Told::Members);
    }

    /// Writes what a command of an operator changes. Where the document shows it, a version of the
    /// document goes into the same transaction.
    pub(crate) async fn commit_as(
        &self,
        lead: &Lead,
        author: &Author,
        transaction: Transaction,
    ) -> Result<(), CommandError> {
        self.commit_version(lead, author, transaction, None)
            .await
            .map(drop)
    }

    /// The same with another text, made from the version `from`. Gives the version that was written;
    /// `None` when the document stays as it is.
    pub(crate) async fn commit_version(
        &self,
        lead: &Lead,
        author: &Author,
        transaction: Transaction,
        text: Option<(&str, u64)>,
    ) -> Result<Option<u64>, CommandError> {
        for _ in 0..TRIES {
            let (records, current) = {
                let state = self.state();
                (state.records.clone(), state.configuration.clone())
            };
            if let Some((_, from)) = text
                && from != records.version()
            {
                return Err(self.meanwhile(from).await);
            }
            let groups = groups::of(&records.after(&transaction)?);
            let wanted = text.map_or(current.version.text.as_str(), |(text, _)| text);
            let next = current.next(&records, groups, wanted, author);
            let whole = match &next {
                Some(next) => with_version(&records, transaction.clone(), next),
                None => transaction.clone(),
            };
            if whole.changes.is_empty() {
                return Ok(None);
            }
            let outcome = self
                .store()
                .commit(self.leadership.fenced(lead, whole)?)
                .await?;
            self.reload().await?;
            if let Outcome::Applied(_) = outcome {
                return Ok(next.map(|next| next.version));
            }
            let moved = self.state().records.version() != records.version();
            if !moved || next.is_none() {
                break;
            }
        }
        Err(CommandError::Stale)
    }

    /// What to tell who was slower.
    async fn meanwhile(&self, from: u64) -> CommandError {
        let version = self.state().records.version();
        let found = load(self.store(), version).await.ok().flatten();
        let by = found.map_or_else(String::new, |found| format!(" by {}", found.by));
        CommandError::Refused(format!(
            "version {version} was written meanwhile{by}, and yours was made from version {from}; \
             look at `config diff {from} {version}`, and make yours from version {version}"
        ))
    }
}
