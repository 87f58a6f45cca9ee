//! The keys of a scratch table: without them a join would try all pairs, and without unique ones a
//! server thinks for long about the order of many tables.
//!
//! A key is unique here only where rows cannot come twice: the table comes from one server, or the key
//! has the shard key in it, so that equal rows would be on one group. Rows that are there twice all the
//! same, against their definition, are taken without unique keys ([`crate::Part::loose`]).

use std::collections::HashSet;

use farm::sharding::TableSchema;
use sqltext::ticked;

use crate::columns::{can_be_key, key_bytes};

/// A scratch table has so many keys at most.
const KEYS_MAX: usize = 16;

/// The columns of a key have so many bytes together at most.
const BYTES_MAX: usize = 760;

pub(super) struct Keys<'a> {
    pub schema: &'a TableSchema,
    /// The places of the columns that the scratch table has.
    pub columns: &'a [usize],
    /// Columns that the statement compares with others, in lower case.
    pub joined: &'a HashSet<String>,
    /// The primary key is wanted, whatever is joined: MySQL looks at it to see which columns depend on
    /// those of a group.
    pub primary: bool,
}

/// A unique key: its word, and the places of its columns.
pub(super) type Unique<'a> = (&'static str, &'a [u16]);

impl Keys<'_> {
    /// The unique keys that can be kept, the primary one first. `key`: the shard key, which must be in
    /// them.
    pub(super) fn unique(&self, key: Option<&str>) -> Vec<Unique<'_>> {
        let primary = Some(&self.schema.primary).filter(|_| !self.primary);
        let primary = primary.map(|it| ("PRIMARY KEY", &it[..]));
        let others = self.schema.unique.iter().map(|it| ("UNIQUE KEY", &it[..]));
        let kept = |(_, columns): &Unique<'_>| {
            let key = key.is_none_or(|key| {
                let mut names = columns.iter().map(|at| self.name(usize::from(*at)));
                names.any(|it| it.eq_ignore_ascii_case(key))
            });
            let joined = columns.iter().any(|at| self.is_joined(usize::from(*at)));
            let of = |at: &u16| key_bytes(&self.schema.columns[usize::from(*at)]);
            let bytes: usize = columns.iter().map(of).sum();
            key && joined && bytes <= BYTES_MAX && self.can_be_key(columns)
        };
        primary.into_iter().chain(others).filter(kept).collect()
    }

    /// How the keys are declared, with these unique ones.
    pub(super) fn with(&self, unique: &[Unique<'_>]) -> Vec<String> {
        let mut made = Vec::new();
        if self.primary && self.can_be_key(&self.schema.primary) {
            made.push(self.declared("PRIMARY KEY", &self.schema.primary));
        }
        made.extend(
            unique
                .iter()
                .map(|(word, columns)| self.declared(word, columns)),
        );
        let led = |at: usize| unique.iter().any(|(_, key)| usize::from(key[0]) == at);
        let single = self.columns.iter().filter(|at| {
            self.is_joined(**at) && can_be_key(&self.schema.columns[**at]) && !led(**at)
        });
        made.extend(single.map(|at| format!("KEY ({})", ticked(self.name(*at)))));
        made.truncate(KEYS_MAX);
        made
    }

    fn name(&self, at: usize) -> &str {
        &self.schema.columns[at].name
    }

    fn is_joined(&self, at: usize) -> bool {
        self.joined.contains(&self.name(at).to_lowercase())
    }

    /// All columns are there, and can be in a key.
    fn can_be_key(&self, columns: &[u16]) -> bool {
        let mut places = columns.iter().map(|at| usize::from(*at));
        !columns.is_empty()
            && places.all(|at| self.columns.contains(&at) && can_be_key(&self.schema.columns[at]))
    }

    fn declared(&self, word: &str, columns: &[u16]) -> String {
        let names = columns.iter().map(|at| ticked(self.name(usize::from(*at))));
        format!("{word} ({})", names.collect::<Vec<_>>().join(", "))
    }
}
