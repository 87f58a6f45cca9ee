//! Why a target does not have a batch.

use std::time::Duration;

/// Why a batch is not delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undelivered {
    /// It may go well another time, after this pause at the earliest, where the target named one.
    Later(String, Option<Duration>),
    /// The target does not take these messages, however often they come.
    Refused(String),
}

/// Says that it may go well another time.
pub(crate) fn later(text: impl Into<String>) -> Undelivered {
    Undelivered::Later(text.into(), None)
}
