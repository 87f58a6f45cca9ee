//! How a SELECT over several groups is answered: what they are sent, and what becomes of it.
//!
//! Must not know: how an answer is found; [`crate::tiers`] does that.

mod division;
mod estimate;
pub(crate) mod reduced;
mod renamed;

use std::sync::Arc;

use farm::sharding::Sharding;
use sqltext::Mode;

use crate::merge::{self, Aggregate, Comparison, Having, Key, List};
use crate::place::Tables;

pub use division::{Division, Goes};
pub use estimate::{Estimate, Source};
pub use reduced::{Passed, Reduced, Reduction};

/// How much of a SELECT the shards do by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// One group answers it as it is written.
    One,
    /// Every shard runs the whole statement; the rows are merged here.
    Push,
    /// Rows of each table come from the shards; the statement runs over them on the scratch server.
    Gather,
    /// The same, of a text that is not read: whole tables.
    Pull,
}

/// How a SELECT is answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub tier: Tier,
    /// What runs on the groups.
    pub fragments: Vec<Fragment>,
    pub finish: Finish,
    /// It takes locks (FOR UPDATE, …): primaries only, and in the session's transaction.
    pub locks: bool,
    /// It asks for the time: all servers need the same `timestamp`.
    pub clock: bool,
    /// Why no better tier will do; for people.
    pub reasons: Vec<String>,
    /// Tables that each group gets before its fragments run there.
    pub sending: Option<Box<Sending>>,
    /// The way to take where the merge finds a list too long.
    pub otherwise: Option<Box<Answer>>,
}

/// Tables that are put on the groups of an answer before its fragments run there, whole or each group's part of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Sending {
    /// What their rows are fetched with. No group's rows of one depend on those of another.
    pub fragments: Vec<Fragment>,
    /// What takes the rows up on each group, for each fragment.
    pub tables: Vec<Part>,
    /// How the rows of each are divided among the groups; `None`: each group gets all of them.
    pub divided: Vec<Option<Division>>,
    /// Which of the fragments of `instead` fetches the same rows, for each fragment.
    pub places: Vec<usize>,
    /// What each fragment is expected to give.
    pub expected: Vec<Estimate>,
    /// If a group would get more bytes of rows, those that are divided taken for even, the statement is answered
    /// otherwise.
    pub bytes_max: u64,
    /// How it is answered then, and wherever else the tables cannot be sent.
    pub instead: Box<Answer>,
}

/// Rows, and their bytes as they come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    pub rows: u64,
    pub bytes: u64,
}

/// A statement of one's own on some groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    pub text: String,
    /// One row set each; together they are all that there is.
    pub groups: Vec<Arc<str>>,
    /// Any one of `groups` has all of it: a global table.
    pub any: bool,
}

/// What becomes of the rows of the fragments.
#[derive(Clone, Debug, PartialEq)]
pub enum Finish {
    /// There is one fragment; its row sets are merged.
    Merge(Merging),
    Scratch(Scratch),
}

/// A merge, of which the number of columns is known with the first definitions only.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Merging {
    /// So many columns at the end are not for the client. The others keep the names, types and
    /// decimals that the shards give them.
    pub hidden: usize,
    /// The order in which each shard sends its rows and in which they are wanted.
    pub order: Vec<Order>,
    /// Rows of equal `order` become one: how, for each column, the hidden ones included. Empty when
    /// rows stay as they are.
    pub aggregates: Vec<Aggregate>,
    /// What the lists among them are.
    pub lists: Vec<List>,
    /// What groups must meet.
    pub having: Vec<Having>,
    /// Their order in the end, when it is not `order`.
    pub sort: Vec<Key>,
    pub offset: u64,
    pub limit: Option<u64>,
}

/// A column by which rows are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    pub by: By,
    pub comparison: Comparison,
    pub descending: bool,
}

/// Where a column stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Among those that the client sees.
    Shown(usize),
    /// Among the hidden ones behind them.
    Hidden(usize),
}

impl By {
    /// Its place in a row of which the client sees so many columns.
    pub fn place(self, shown: usize) -> usize {
        match self {
            By::Shown(at) => at,
            By::Hidden(at) => shown + at,
        }
    }
}

impl Merging {
    /// The merge of rows of so many columns, hidden ones included; `None` when there cannot be so many.
    pub fn plan(&self, columns: usize) -> Option<merge::Plan> {
        let visible = columns.checked_sub(self.hidden)?;
        if !self.aggregates.is_empty() && self.aggregates.len() != columns {
            return None;
        }
        let key = |order: &Order| Key {
            column: order.by.place(visible),
            comparison: order.comparison,
            descending: order.descending,
        };
        Some(merge::Plan {
            order: self.order.iter().map(key).collect(),
            aggregates: self.aggregates.clone(),
            lists: self.lists.clone(),
            having: self.having.clone(),
            sort: self.sort.clone(),
            offset: self.offset,
            limit: self.limit,
            visible,
        })
    }
}

/// What runs on the scratch server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scratch {
    /// One for each fragment, in their order.
    pub tables: Vec<Part>,
    /// The statement, with these tables in place of those that it named.
    pub text: String,
    /// User variables that it reads, without `@`.
    pub variables: Vec<String>,
    /// In which order the fragments are best fetched.
    pub order: Vec<usize>,
    /// What leaves rows out of each fragment, once others have been fetched.
    pub reduced: Vec<Reduced>,
}

impl Scratch {
    /// The same with tables that take rows twice.
    pub fn loosened(&self) -> Scratch {
        let mut loosened = self.clone();
        for part in &mut loosened.tables {
            if let Some(loose) = part.loose.take() {
                part.create = loose;
            }
        }
        loosened
    }
}

/// A temporary table that holds the rows of one fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// As the text names it, in quotes where needed.
    pub name: String,
    /// What its rows are inserted into: its name, and its columns where some are invisible.
    pub into: String,
    /// How its rows are read from a file; `None` where INSERT is the only way.
    pub load: Option<Load>,
    /// CREATE TEMPORARY TABLE; CREATE TABLE where a temporary one would not do.
    pub create: String,
    /// The same without unique keys, where `create` has some: for rows that are equal in them though
    /// their table's definition says that they are not.
    pub loose: Option<String>,
    /// Keys that are not unique can be left to be made when all rows are there.
    pub sorts_keys: bool,
    /// Takes it away, if it is there.
    pub drop: String,
    /// It ends with its connection.
    pub is_temporary: bool,
    /// The columns of the fragment, in order.
    pub columns: Vec<Written>,
}

/// How a scratch table reads its rows from the client's file: a line each, of fields that
/// [`crate::put_field`] writes. What the file says wrongly, the server makes warnings of, and it leaves out
/// rows that are there already; so the number of rows and warnings must be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// LOAD DATA LOCAL, for the `sql_mode` that INSERTs have.
    pub text: String,
    /// Empties the variables that it leaves behind, where it has some.
    pub forget: Option<String>,
}

/// How a column's value, as it came in the text protocol, is written into an INSERT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// As it is: a number.
    Plain,
    /// Between quotes, escaped: dates, JSON, bytes.
    Quoted,
    /// Bytes in this character set: `_utf8mb4'…'`, escaped.
    Text(String),
    /// Seconds since 1970, of a TIMESTAMP: `FROM_UNIXTIME(…)` with the time zone `+00:00`; zero is
    /// `'0000-00-00 00:00:00'`.
    Seconds,
    /// `x'…'`.
    Hex,
}

/// Why a SELECT cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// It does what is not known over several groups; with the cure.
    Unknown(String),
    /// A shard that it needs is disabled: its number.
    Disabled(u32),
}

/// What the answer depends on besides the text.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    pub sharding: &'a Sharding,
    /// The farm's first group.
    pub home: &'a Arc<str>,
    /// The session's; empty when it has none.
    pub database: &'a str,
    pub mode: &'a Mode,
    /// What the names of scratch tables begin with: no other session of any router has it.
    pub scratch: &'a str,
    /// What is read is changed afterwards.
    pub changing: Option<Changing<'a>>,
}

/// What a write reads first.
#[derive(Clone, Copy, Debug)]
pub struct Changing<'a> {
    /// What the outermost query calls the tables whose rows will change.
    pub targets: &'a [String],
    /// The other rows are locked, too, against changes.
    pub shares: bool,
}

impl<'a> Asked<'a> {
    pub(crate) fn tables(&self) -> Tables<'a> {
        Tables {
            sharding: self.sharding,
            home: self.home,
        }
    }
}
