//! The farm's configuration as a history: one document, whose versions are kept, and which is in force
//! on every router of the farm.
//!
//! Keys: `/config/current` names the version that counts; `/config/version/NNNNNNNNNN` is one version.
//! A version is never changed; going back makes a new one. Settings, rules and users are the
//! operator's text; groups are taken from the records, which commands change too: each such command
//! makes a version in its own transaction, so that the history tells of all of them.

mod document;

use std::sync::Arc;

use catalog::configuration::{
    Author, Version, Wrong, groups, listed, load, version_key, with_version,
};
use catalog::{CommandError, Error, Event, Records};
pub use document::{Documents, Draft, NoDocuments, ShownSetting};
use meta::{Outcome, Transaction};

use crate::context::Context;
use crate::context::State;
use crate::context::drivers::Told;
use crate::context::editing::TRIES;

/// The document that the farm has, as this router sees it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Current {
    pub(crate) version: Arc<Version>,
    /// Why it is not in force here: a newer Heddle wrote it, or it is damaged.
    pub(crate) refused: Option<String>,
    /// What could not even be read; it is not asked for again.
    unreadable: Option<u64>,
}

impl Current {
    /// The version that counts is not known here at all.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.unreadable.is_some()
    }
}

impl Context {
    /// The document that counts.
    pub(crate) fn configuration(&self) -> Current {
        self.state().configuration.clone()
    }

    /// Puts this router's own settings in force anew, which have changed, under the document.
    ///
    /// # Errors
    /// The document does not go with them; everything stays as it was.
    pub fn reconfigure(&self) -> Result<(), String> {
        let version = Arc::clone(&self.state().configuration.version);
        self.put_in_force(&version)?;
        self.configured();
        Ok(())
    }

    /// Reads the version that the records name, if it is another one than we have. An error is
    /// told once.
    pub(crate) async fn newer_version(&self, records: &Records) -> Option<Result<Version, Error>> {
        let wanted = records.version();
        {
            let current = &self.state().configuration;
            if wanted == current.version.version && current.unreadable.is_none() {
                return None;
            }
            if current.unreadable == Some(wanted) {
                return None;
            }
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
    pub(crate) fn take_version(
        &self,
        state: &mut State,
        version: Result<Version, Error>,
    ) -> Option<Event> {
        let wanted = state.records.version();
        let version = match version {
            Ok(version) if version.version == wanted => version,
            // Another reading is about it.
            Ok(_) => return None,
            Err(error) => {
                let why = error.to_string();
                state.configuration.refused = Some(why.clone());
                state.configuration.unreadable = Some(wanted);
                return Some(Event::now("config_refused", "", why));
            }
        };
        let before = Arc::clone(&state.configuration.version);
        let was_refused = state.configuration.refused.is_some();
        let refused = match before.text == version.text && !was_refused {
            true => None,
            false => self.put_in_force(&version).err(),
        };
        let event = match &refused {
            Some(why) => Some(Event::now("config_refused", "", why.clone())),
            None if before.text == version.text => None,
            None => {
                let text = format!(
                    "version {} is in force, {}",
                    version.version,
                    version.heading()
                );
                Some(Event::now("config_changed", "", text))
            }
        };
        state.configuration = Current {
            version: Arc::new(version),
            refused,
            unreadable: None,
        };
        event
    }

    /// Puts a document's settings, rules and users in force on this router.
    pub(crate) fn put_in_force(&self, version: &Version) -> Result<(), String> {
        let mut settings = crate::Settings::clone(&self.settings());
        let documents = Arc::clone(&settings.documents);
        let applied = documents.apply(version.version, &version.text, &mut settings);
        applied.map_err(|wrong| refusal(version, wrong))?;
        self.set_settings(settings);
        Ok(())
    }

    /// Has everybody look at what is in force now.
    pub(crate) fn configured(&self) {
        self.sessions.turned();
        self.probe_now();
        self.drivers.tell_all(|| Told::Members);
    }

    /// Writes what a command of an operator changes. Where the document shows it, a version of the
    /// document goes into the same transaction.
    pub(crate) async fn commit_as(
        &self,
        author: &Author,
        transaction: Transaction,
    ) -> Result<(), CommandError> {
        self.commit_version(author, transaction, None)
            .await
            .map(drop)
    }

    /// The same with another text, made from the version `from`. Gives the version that was written;
    /// `None` when the document stays as it is.
    pub(crate) async fn commit_version(
        &self,
        author: &Author,
        transaction: Transaction,
        text: Option<(&str, u64)>,
    ) -> Result<Option<u64>, CommandError> {
        for _ in 0..TRIES {
            let (records, current) = {
                let state = self.state();
                (state.records.clone(), state.configuration.clone())
            };
            let now = &current.version;
            if let Some((_, from)) = text
                && from != records.version()
            {
                return Err(self.meanwhile(from).await);
            }
            let groups = groups::of(&records.after(&transaction)?);
            let wanted = text.map_or(now.text.as_str(), |(text, _)| text);
            let changed = wanted != now.text || groups != groups::of(&records);
            // What cannot be read here cannot be continued either.
            let versioned = changed && current.unreadable.is_none();
            let next = versioned.then(|| Version {
                version: records.version() + 1,
                at_ms: Event::now("", "", String::new()).at_ms,
                by: author.by.clone(),
                comment: author.comment.clone(),
                text: wanted.to_owned(),
                groups,
                ..Version::default()
            });
            let whole = match &next {
                Some(next) => with_version(&records, transaction.clone(), next),
                None => transaction.clone(),
            };
            if whole.changes.is_empty() {
                return Ok(None);
            }
            let outcome = self
                .store()
                .commit(self.leadership.by_right(whole)?)
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

fn refusal(version: &Version, wrong: Vec<Wrong>) -> String {
    let ours = env!("CARGO_PKG_VERSION");
    let whose = match version.heddle == ours {
        true => String::new(),
        false => format!(
            ", which Heddle {} wrote (this is {ours}: use one release, or take out what it lacks \
             there)",
            version.heddle
        ),
    };
    format!(
        "version {} of the farm's configuration cannot be followed here{whose}: {}",
        version.version,
        listed(wrong).replace('\n', "; ")
    )
}
