//! The statement that runs, or ran last: what rules want of it, what is kept of its reply, what became
//! of it.
//!
//! Must not know: connections and transactions; they outlive a statement.

use crate::execution::choice::Chosen;
use crate::execution::point::Point;
use crate::execution::profile::Profile;
use crate::execution::ruled::Ruled;

/// What is known of the statement under way.
#[derive(Default)]
pub(crate) struct StatementRun {
    /// Its number in this session; names the statement whose diagnostics a connection still has.
    pub number: u64,
    /// Its reply, where it may be kept in the cache.
    pub recording: Option<Vec<u8>>,
    /// The row that it is of, where the row cache may vouch for it.
    pub point: Option<Box<Point>>,
    /// What rules want of it.
    pub ruled: Option<Box<Ruled>>,
    /// The shard that the client has chosen, for this and the next ones.
    pub chosen: Option<Box<Chosen>>,
    /// What became of the last one.
    pub profile: Profile,
}
