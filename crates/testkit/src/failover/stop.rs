//! The end of a round, told to all of its threads; who paces itself wakes up for it.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Raised once, seen by every clone.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<(Mutex<bool>, Condvar)>);

impl Stop {
    /// From now on [`Stop::is_raised`].
    pub fn raise(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }

    pub fn is_raised(&self) -> bool {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rests for so long, or until it is raised; true when it is.
    pub fn rest(&self, pause: Duration) -> bool {
        let raised = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rested = self
            .0
            .1
            .wait_timeout_while(raised, pause, |raised| !*raised);
        *rested.unwrap_or_else(PoisonError::into_inner).0
    }
}
