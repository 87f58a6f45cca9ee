//! Groups by the numbers under which sessions know them.

use std::sync::Arc;

use farm::{Group, Snapshot};

/// The number of a seat that was never left: that of the home group, whichever it is.
pub const HOME: u32 = 0;

/// The group of a seat; `None` when it has left the farm.
pub fn group_of(snapshot: &Snapshot, seat: u32) -> Option<&Arc<Group>> {
    match seat {
        HOME => snapshot.home(),
        number => snapshot.numbered(number),
    }
}
