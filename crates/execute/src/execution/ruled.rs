//! What rules want of the statement under way.

use std::sync::Arc;

use reactor::Task;
use routing::rules::Servers;

/// What a rule wants of the statement that runs.
#[derive(Default)]
pub struct Ruled {
    pub servers: Option<Arc<Servers>>,
    /// A hook has chosen them.
    pub by_hook: bool,
    pub timeout_ms: Option<u64>,
    /// Ends the statement when its time is over; given up with it.
    pub(super) timer: Option<Task<()>>,
}
