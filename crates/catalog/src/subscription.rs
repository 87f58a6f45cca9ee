//! Durable subscriptions to the change stream, as the state store keeps them: `/subscription/NAME` is what somebody
//! wants, `/acknowledged/NAME` up to where he has it. The second is written often, so it is none of the farm's
//! [`Records`](crate::Records), which every router reads anew at each change.

use meta::Store;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::Error;

pub const SUBSCRIPTION: &str = "/subscription/";
pub const ACKNOWLEDGED: &str = "/acknowledged/";

/// Longest name.
const NAME_BYTES_MAX: usize = 64;

/// What a subscription is about. Empty lists stand for all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SubscriptionRecord {
    pub groups: Vec<String>,
    pub databases: Vec<String>,
    /// `TABLE` or `DATABASE.TABLE`.
    pub tables: Vec<String>,
    /// `insert`, `update`, `delete`.
    pub kinds: Vec<String>,
    /// Source tags.
    pub sources: Vec<String>,
    pub columns: Vec<String>,
    /// A range of primary keys.
    pub key_from: Option<String>,
    pub key_to: Option<String>,
    /// It began with the rows that were there.
    pub snapshot: bool,
    /// In one order over all groups.
    pub in_order: bool,
    /// `debezium`, or empty for the stream's own form.
    pub types: String,
    /// Of Debezium's form: the prefix of topics (empty: the default), schemas, and tombstones.
    pub prefix: String,
    pub schema: bool,
    pub tombstones: bool,
    pub created_ms: u64,
}

/// Up to where a subscription's consumer has what it was told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AcknowledgedRecord {
    /// A token of the change stream.
    pub token: String,
    pub at_ms: u64,
}

/// True for what may be the name of a subscription.
pub fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_plain)
}

/// A record with the revision that wrote it; `None` when there is none.
///
/// # Errors
/// The store cannot be read, or holds something else.
pub async fn read<T: DeserializeOwned>(
    store: &dyn Store,
    prefix: &str,
    name: &str,
) -> Result<Option<(T, u64)>, Error> {
    let Some(entry) = store.get(&format!("{prefix}{name}")).await? else {
        return Ok(None);
    };
    Ok(Some((parsed(&entry)?, entry.revision)))
}

/// All records of a kind, by name.
///
/// # Errors
/// The store cannot be read, or holds something else.
pub async fn all<T: DeserializeOwned>(
    store: &dyn Store,
    prefix: &str,
) -> Result<Vec<(String, T)>, Error> {
    let all = all_kept(store, prefix).await?;
    let named = all.into_iter().map(|(name, record, _)| (name, record));
    Ok(named.collect())
}

/// The same, each with the revision that wrote it.
///
/// # Errors
/// As above.
pub async fn all_kept<T: DeserializeOwned>(
    store: &dyn Store,
    prefix: &str,
) -> Result<Vec<(String, T, u64)>, Error> {
    let entries = store.scan(prefix).await?.entries;
    let named = entries.iter().map(|entry| {
        let name = entry.key.strip_prefix(prefix).unwrap_or_default();
        Ok((name.to_owned(), parsed(entry)?, entry.revision))
    });
    named.collect()
}

fn parsed<T: DeserializeOwned>(entry: &meta::Entry) -> Result<T, Error> {
    serde_json::from_str(&entry.value).map_err(|error| Error::Record {
        key: entry.key.clone(),
        reason: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        assert!(is_name("search-index.1") && is_name(&"a".repeat(64)));
        for wrong in ["", "a/b", "a b", "\u{f6}"] {
            assert!(!is_name(wrong), "{wrong}");
        }
        assert!(!is_name(&"a".repeat(65)));
    }
}
