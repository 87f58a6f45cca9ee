//! Containers: tables as the key-value door shows them.
//!
//! A container is a declaration. Whether its table and columns are there, and of which types they
//! are, is found out where it is used.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The container that a client has before it names another.
pub const DEFAULT: &str = "default";

/// The largest value unless a container says otherwise: memcached's own limit.
pub const VALUE_BYTES_MAX: u32 = 1 << 20;

/// Which texts mean the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyForm {
    /// Integers, of which each has one text.
    Integer,
    /// Those of the same bytes, but for blanks at the end.
    Bytes,
    /// The collation says; no two rows have the same key by it.
    Collated,
}

/// A key without the blanks at its end, which most collations take for the same.
pub fn trimmed(key: &[u8]) -> &[u8] {
    let blanks = key.iter().rev().take_while(|byte| **byte == b' ').count();
    &key[..key.len() - blanks]
}

/// A table as keys and values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    pub name: String,
    pub database: String,
    pub table: String,
    /// The column of the key, which alone makes a unique index.
    pub key: String,
    /// The columns of the value, at least one.
    pub values: Vec<String>,
    /// What is between the parts of a value of several columns.
    #[serde(default = "separator")]
    pub separator: String,
    /// Parts of a value may contain the separator: a backslash takes the meaning of the byte behind it.
    #[serde(default)]
    pub escape: bool,
    /// Integer columns for what memcached keeps beside a value; `None` where nothing is kept.
    #[serde(default)]
    pub flags: Option<String>,
    #[serde(default)]
    pub cas: Option<String>,
    /// Seconds since 1970; 0 for never.
    #[serde(default)]
    pub expiry: Option<String>,
    /// `flush_all` may delete its rows.
    #[serde(default)]
    pub flush: bool,
    /// The level of its reads; `None` for the farm's.
    #[serde(default)]
    pub consistency: Option<String>,
    /// So many bytes of its rows a router remembers, per group; 0 for none.
    #[serde(default)]
    pub cache_bytes: u64,
    /// So many writes may share one commit, all but the last of which may be acknowledged before it; up to 1
    /// none is.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub w_batch_size: u32,
    /// Values are not larger.
    #[serde(default = "value_bytes_max")]
    pub value_bytes_max: u32,
    /// What is between its name and a key; `None` for what the door says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delimiter: Option<String>,
    /// What memcached's commands may do with it.
    #[serde(default, skip_serializing_if = "Policies::is_default")]
    pub policies: Policies,
}

/// What one kind of memcached's commands does with a container, in the words of MySQL's plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Policy {
    /// It is about the table's rows: `innodb_only` and `caching`.
    #[default]
    Table,
    /// It would be about the memory of one server alone: `cache_only`.
    Memory,
    Disabled,
}

/// The policies of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policies {
    pub get: Policy,
    pub set: Policy,
    pub delete: Policy,
}

impl Policies {
    fn is_default(&self) -> bool {
        *self == Policies::default()
    }
}

fn separator() -> String {
    "|".to_owned()
}

fn one() -> u32 {
    1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_one(number: &u32) -> bool {
    *number == 1
}

fn value_bytes_max() -> u32 {
    VALUE_BYTES_MAX
}

impl Container {
    /// A container of this name on nothing yet.
    pub fn new(name: &str, database: &str, table: &str, key: &str, values: &[&str]) -> Container {
        Container {
            name: name.to_owned(),
            database: database.to_owned(),
            table: table.to_owned(),
            key: key.to_owned(),
            values: values.iter().map(|&value| value.to_owned()).collect(),
            separator: separator(),
            escape: false,
            flags: None,
            cas: None,
            expiry: None,
            flush: false,
            consistency: None,
            cache_bytes: 0,
            w_batch_size: 1,
            value_bytes_max: VALUE_BYTES_MAX,
            delimiter: None,
            policies: Policies::default(),
        }
    }
}

/// All containers of a farm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Containers {
    by_name: HashMap<String, Arc<Container>>,
    first: Option<String>,
}

impl Containers {
    /// These; where two have one name the first counts.
    pub fn new(containers: impl IntoIterator<Item = Container>) -> Containers {
        let mut all = Containers::default();
        for container in containers {
            all.by_name
                .entry(container.name.clone())
                .or_insert_with(|| Arc::new(container));
        }
        all.first = all.by_name.keys().min().cloned();
        all
    }

    /// The container of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Container>> {
        self.by_name.get(name)
    }

    /// The one called `default`, else the first by name.
    pub fn default_one(&self) -> Option<&Arc<Container>> {
        self.get(DEFAULT).or_else(|| self.get(self.first.as_ref()?))
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Container>> {
        self.by_name.values()
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_names_no_container_gets_the_default_or_the_first() {
        let named = |name: &str| Container::new(name, "d", "t", "k", &["v"]);
        let all = Containers::new([named("b"), named("a")]);
        assert_eq!(all.default_one().map(|one| &*one.name), Some("a"));
        let all = Containers::new([named("a"), named("default")]);
        assert_eq!(all.default_one().map(|one| &*one.name), Some("default"));
        assert!(Containers::default().default_one().is_none());
    }
}
