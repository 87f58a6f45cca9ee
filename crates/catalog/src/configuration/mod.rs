//! The farm's configuration as a history: one document, whose versions are kept.
//!
//! Keys: `/config/current` names the version that counts; `/config/version/NNNNNNNNNN` is one version.
//! A version is never changed; going back makes a new one. Settings, rules and users are the
//! operator's text; groups are taken from the records.

mod difference;
mod document;
pub mod groups;
mod pointer;

use meta::{Store, Transaction};
use serde::{Deserialize, Serialize};

pub use difference::{count, unified};
pub use document::{GroupPart, Groups, ServerPart, WEIGHT_MAX, Wrong};

use crate::error::Error;
use crate::event::when;
use crate::record::Records;

/// Where the versions are.
pub const VERSION: &str = "/config/version/";

/// Of the versions so many are kept.
const VERSIONS_MAX: u64 = 1000;

/// The layout of versions and documents that this program writes. A later one may say more, which
/// must not be taken for less.
pub const FORMAT: u32 = 1;

/// The longest document; with what is around it, it has to fit into one request to etcd.
pub const DOCUMENT_BYTES_MAX: usize = 256 << 10;

/// One version as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Version {
    pub format: u32,
    /// The release that wrote it.
    pub heddle: String,
    pub version: u64,
    /// Milliseconds since 1970, UTC.
    pub at_ms: u64,
    pub by: String,
    pub comment: String,
    /// Settings, rules and users as TOML.
    pub text: String,
    pub groups: Groups,
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
    pub fn heading(&self) -> String {
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
pub struct Author {
    pub by: String,
    pub comment: String,
}

/// A version's key.
pub fn version_key(version: u64) -> String {
    format!("{VERSION}{version:010}")
}

/// Reads one version; `None` where there is none. Version 0 is the empty document.
pub async fn load(store: &dyn Store, version: u64) -> Result<Option<Version>, Error> {
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
pub async fn history(store: &dyn Store) -> Result<Vec<Version>, Error> {
    let listing = store.scan(VERSION).await?;
    let read = |entry: &meta::Entry| Version::read(&entry.key, &entry.value);
    Ok(listing
        .entries
        .iter()
        .filter_map(|entry| read(entry).ok())
        .collect())
}

/// Wrong lines as text for people, one per line.
pub fn listed(mut wrong: Vec<Wrong>) -> String {
    wrong.sort();
    let line = |(line, what): &Wrong| match line {
        0 => what.clone(),
        line => format!("line {line}: {what}"),
    };
    wrong.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A change with the next version of the document.
pub fn with_version(records: &Records, transaction: Transaction, next: &Version) -> Transaction {
    let json = serde_json::to_string(next).expect("versions hold nothing that JSON cannot say");
    let transaction = records
        .move_version(transaction, next.version)
        .put(&version_key(next.version), &json);
    match next.version.checked_sub(VERSIONS_MAX) {
        Some(old @ 1..) => transaction.delete(&version_key(old)),
        _ => transaction,
    }
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
