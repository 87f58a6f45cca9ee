//! How much a step of an answer is expected to give.
//!
//! Must not know: where sizes come from.

use std::fmt;

/// How a size is known, the surest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A share of a table's rows that nobody has counted.
    Guessed,
    /// Servers' statistics, of a table or by EXPLAIN of the fetch.
    Statistics,
    /// A fetch of the same shape gave so much.
    Learned,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Guessed => "guessed",
            Source::Statistics => "statistics",
            Source::Learned => "learned",
        })
    }
}

/// How much a step is expected to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    pub rows: u64,
    /// Of the rows; `None` where nobody knows how long they are.
    pub bytes: Option<u64>,
    pub source: Source,
}
