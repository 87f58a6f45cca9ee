//! The farm's configuration as a history: one document, whose versions are kept, and which is in force
//! on every router of the farm.
//!
//! Keys: `/config/current` names the version that counts; `/config/version/NNNNNNNNNN` is one version.
//! A version is never changed; going back makes a new one. Settings, rules and users are the
//! operator's text; groups are taken from the records, which commands change too: each such command
//! makes a version in its own transaction, so that the history tells of all of them.

mod difference;
mod document;
pub(crate) mod groups;
mod pointer;

use std::sync::Arc;

use meta::{Outcome, Store, Transaction};
use serde::{Deserialize, Serialize};

pub(crate) use difference::{count, unified};
pub use document::{
    Documents, Draft, GroupPart, Groups, NoDocuments, ServerPart, ShownSetting, WEIGHT_MAX, Wrong,
};

use crate::commands::CommandError;
use crate::context::Context;
use crate::context::State;
use crate::context::editing::TRIES;
use crate::error::Error;
use crate::events::{Event, when};
use crate::record::Records;

/// Where the versions are.
pub(crate) const VERSION: &str = "/config/version/";

/// Of the versions so many are kept.
const VERSIONS_MAX: u64 = 1000;

/// The layout of versions and documents that this program writes. A later one may say more, which
/// must not be taken for less.
pub const FORMAT: u32 = 1;

/// The longest document; with what is around it, it has to fit into one request to etcd.
pub(crate) const DOCUMENT_BYTES_MAX: usize = 256 << 10;

/// One version as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Version {
    pub(crate) format: u32,
    /// The release that wrote it.
    pub(crate) heddle: String,
    pub(crate) version: u64,
    /// Milliseconds since 1970, UTC.
    pub(crate) at_ms: u64,
    pub(crate) by: String,
    pub(crate) comment: String,
    /// Settings, rules and users as TOML.
    pub(crate) text: String,
    pub(crate) groups: Groups,
}

/// What every version has, whatever its format.
#[derive(Deserialize)]
struct Head {
    format: u32,
    #[serde(default)]
    heddle: String,
}

/// Before anybody wrote one: an empty document.
impl Default for Version {
    fn default() -> Version {
        Version {
            format: FORMAT,
            heddle: env!("CARGO_PKG_VERSION").to_owned(),
            version: 0,
            at_ms: 0,
            by: String::new(),
            comment: String::new(),
            text: String::new(),
            groups: Groups::new(),
        }
    }
}

impl Version {
    /// `version 7 of 2026-…, by root@localhost: why`.
    pub(crate) fn heading(&self) -> String {
        if self.version == 0 {
            return "nothing was written yet".to_owned();
        }
        let comment = match self.comment.as_str() {
            "" => String::new(),
            comment => format!(": {comment}"),
        };
        format!("of {}, by {}{comment}", when(self.at_ms), self.by)
    }

    fn read(key: &str, value: &str) -> Result<Version, Error> {
        let wrong = |error: serde_json::Error| Error::Record {
            key: key.to_owned(),
            reason: error.to_string(),
        };
        let head: Head = serde_json::from_str(value).map_err(wrong)?;
        if head.format > FORMAT {
            return Err(Error::Newer {
                key: key.to_owned(),
                heddle: head.heddle,
                format: head.format,
            });
        }
        serde_json::from_str(value).map_err(wrong)
    }
}

/// Who changes something, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Author {
    pub(crate) by: String,
    pub(crate) comment: String,
}

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

/// A version's key.
pub(crate) fn version_key(version: u64) -> String {
    format!("{VERSION}{version:010}")
}

/// Reads one version; `None` where there is none. Version 0 is the empty document.
pub(crate) async fn load(store: &dyn Store, version: u64) -> Result<Option<Version>, Error> {
    if version == 0 {
        return Ok(Some(Version::default()));
    }
    let key = version_key(version);
    let entry = store.get(&key).await?;
    entry
        .map(|entry| Version::read(&key, &entry.value))
        .transpose()
}

/// All versions that are kept and can be read, the oldest first.
pub(crate) async fn history(store: &dyn Store) -> Result<Vec<Version>, Error> {
    let listing = store.scan(VERSION).await?;
    let read = |entry: &meta::Entry| Version::read(&entry.key, &entry.value);
    Ok(listing
        .entries
        .iter()
        .filter_map(|entry| read(entry).ok())
        .collect())
}

/// Wrong lines as text for people, one per line.
pub(crate) fn listed(mut wrong: Vec<Wrong>) -> String {
    wrong.sort();
    let line = |(line, what): &Wrong| match line {
        0 => what.clone(),
        line => format!("line {line}: {what}"),
    };
    wrong.iter().map(line).collect::<Vec<_>>().join("\n")
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
        let groups: Vec<String> = self.state().drivers.keys().cloned().collect();
        for group in groups {
            self.tell_driver(&group, crate::failover::Told::Members);
        }
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

fn with_version(records: &Records, transaction: Transaction, next: &Version) -> Transaction {
    let json = serde_json::to_string(next).expect("versions hold nothing that JSON cannot say");
    let transaction = records
        .move_version(transaction, next.version)
        .put(&version_key(next.version), &json);
    match next.version.checked_sub(VERSIONS_MAX) {
        Some(old @ 1..) => transaction.delete(&version_key(old)),
        _ => transaction,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_of_a_newer_heddle_is_refused_by_its_format() {
        let own = serde_json::to_string(&Version::default()).expect("JSON");
        assert_eq!(
            Version::read("k", &own).expect("readable"),
            Version::default()
        );
        let newer = r#"{"format": 2, "heddle": "9.1.0", "layers": []}"#;
        let error = Version::read("/config/version/0000000007", newer).expect_err("newer");
        let text = error.to_string();
        assert!(
            text.contains("Heddle 9.1.0") && text.contains("format 2"),
            "{text}"
        );
        let error = Version::read("k", "{").expect_err("damaged").to_string();
        assert!(error.contains("at k"), "{error}");
    }

    #[test]
    fn wrong_lines_are_listed_in_order() {
        let wrong = vec![
            (7, "b".to_owned()),
            (0, "a".to_owned()),
            (2, "c".to_owned()),
        ];
        assert_eq!(listed(wrong), "a\nline 2: c\nline 7: b");
    }
}
