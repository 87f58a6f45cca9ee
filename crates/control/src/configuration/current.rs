//! The document that the farm has, as one router sees it: which version is in force, and why one is not.
//!
//! Pure: versions come in as they were read, and whoever can put one in force is a parameter.

use std::sync::Arc;

use catalog::configuration::{Author, Groups, Version, Wrong, groups, listed};
use catalog::record::Records;
use catalog::{Error, Event};

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

    /// Whether the version that counts now has to be read.
    pub(crate) fn lacks(&self, wanted: u64) -> bool {
        match self.unreadable {
            Some(unreadable) => unreadable != wanted,
            None => self.version.version != wanted,
        }
    }

    /// Takes over what was read as the version that counts, `wanted`; gives what to tell of it. A version with
    /// another text is put in force, and so is one that comes after a version which was refused.
    pub(crate) fn take(
        &mut self,
        wanted: u64,
        read: Result<Version, Error>,
        put_in_force: impl FnOnce(&Version) -> Result<(), String>,
    ) -> Option<Event> {
        let version = match read {
            Ok(version) if version.version == wanted => version,
            // Another reading is about it.
            Ok(_) => return None,
            Err(error) => {
                let why = error.to_string();
                self.refused = Some(why.clone());
                self.unreadable = Some(wanted);
                return Some(Event::now("config_refused", "", why));
            }
        };
        let is_news = self.version.text != version.text;
        let refused = match is_news || self.refused.is_some() {
            false => None,
            true => put_in_force(&version).err(),
        };
        let event = match &refused {
            Some(why) => Some(Event::now("config_refused", "", why.clone())),
            None if !is_news => None,
            None => {
                let text = format!(
                    "version {} is in force, {}",
                    version.version,
                    version.heading()
                );
                Some(Event::now("config_changed", "", text))
            }
        };
        *self = Current {
            version: Arc::new(version),
            refused,
            unreadable: None,
        };
        event
    }

    /// The version that a change of the farm makes, whose groups are these then; `None` when the document says the
    /// same after it. What cannot be read here cannot be continued either.
    pub(crate) fn next(
        &self,
        records: &Records,
        groups: Groups,
        text: &str,
        author: &Author,
    ) -> Option<Version> {
        let changed = text != self.version.text || groups != groups::of(records);
        let versioned = changed && !self.is_unreadable();
        versioned.then(|| Version {
            version: records.version() + 1,
            at_ms: Event::now("", "", String::new()).at_ms,
            by: author.by.clone(),
            comment: author.comment.clone(),
            text: text.to_owned(),
            groups,
            ..Version::default()
        })
    }
}

/// Why a version cannot be followed, for people.
pub(crate) fn refusal(version: &Version, wrong: Vec<Wrong>) -> String {
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
    use std::cell::Cell;

    use farm::Status;

    use super::*;
    use catalog::record::samples::{records, server};

    fn version(number: u64, text: &str) -> Version {
        Version {
            version: number,
            text: text.to_owned(),
            ..Version::default()
        }
    }

    fn damaged() -> Error {
        Error::Record {
            key: "k".to_owned(),
            reason: "damaged".to_owned(),
        }
    }

    #[test]
    fn a_version_is_put_in_force_once() {
        let mut current = Current::default();
        let times = Cell::new(0);
        let mut take = |wanted, read: Version| {
            let event = current.take(wanted, Ok(read), |_| {
                times.set(times.get() + 1);
                Ok(())
            });
            (event.map(|event| event.kind), times.get())
        };
        assert_eq!(take(1, version(1, "a")), (Some("config_changed"), 1));
        // A command changed a group: the text is the same.
        assert_eq!(take(2, version(2, "a")), (None, 1));
        // A reading that comes late.
        assert_eq!(take(4, version(3, "b")), (None, 1));
        assert_eq!(take(4, version(4, "b")), (Some("config_changed"), 2));
        assert!(!current.lacks(4) && current.lacks(5));
        assert_eq!(current.version.text, "b");
    }

    #[test]
    fn what_was_refused_is_tried_again_with_the_next_version() {
        let mut current = Current::default();
        let refused = current.take(1, Ok(version(1, "a")), |_| Err("why".to_owned()));
        assert_eq!(refused.map(|event| event.kind), Some("config_refused"));
        assert_eq!(current.refused.as_deref(), Some("why"));
        assert!(!current.lacks(1), "it is known, though not in force");
        let event = current.take(2, Ok(version(2, "a")), |_| Ok(()));
        assert!(event.is_none() && current.refused.is_none());
    }

    #[test]
    fn what_cannot_be_read_is_not_read_again_and_not_continued() {
        let records = records("g", &[server("g", 1, Status::Primary)]);
        let author = Author::default();
        let mut current = Current::default();
        let told = current.take(3, Err(damaged()), |_| Ok(()));
        assert_eq!(told.map(|event| event.kind), Some("config_refused"));
        assert!(current.is_unreadable() && !current.lacks(3) && current.lacks(4));
        let next = |current: &Current, text: &str| {
            current.next(&records, groups::of(&records), text, &author)
        };
        assert!(next(&current, "b").is_none());
        current.take(4, Ok(version(4, "a")), |_| Ok(()));
        assert!(next(&current, "a").is_none(), "nothing changes");
        let made = next(&current, "b").expect("another text");
        assert_eq!((made.version, made.text.as_str()), (1, "b"));
        let other = current.next(&records, Groups::new(), "a", &author);
        assert!(other.is_some(), "other groups");
    }
}
