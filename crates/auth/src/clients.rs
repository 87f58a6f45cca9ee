//! How many clients there are, of all doors: for their limits, and to know when drained doors are empty.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The count. Its lock is taken when a client comes and when one goes.
#[derive(Debug, Default)]
pub struct Clients {
    now: Mutex<usize>,
    empty: Condvar,
}

/// One client's place; dropped, it is free.
#[derive(Debug)]
pub struct Seat(Arc<Clients>);

impl Clients {
    /// A place for one more client; `None` when there are `max` already.
    pub fn enter(self: &Arc<Clients>, max: usize) -> Option<Seat> {
        let mut now = self.lock();
        if *now >= max {
            return None;
        }
        *now += 1;
        Some(Seat(self.clone()))
    }

    /// How many there are.
    pub fn now(&self) -> usize {
        *self.lock()
    }

    /// Waits until nobody is left; false when `limit` is over first.
    pub fn wait_empty(&self, limit: Duration) -> bool {
        let now = self.lock();
        let waited = self.empty.wait_timeout_while(now, limit, |now| *now > 0);
        *waited.unwrap_or_else(PoisonError::into_inner).0 == 0
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        // Every change is one number, so a panic cannot leave it half done.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut now = self.0.lock();
        *now -= 1;
        if *now == 0 {
            self.0.empty.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_and_a_seat_frees_its_place() {
        let clients = Arc::new(Clients::default());
        let seat = clients.enter(1);
        assert!(seat.is_some() && clients.enter(1).is_none());
        assert!(!clients.wait_empty(Duration::ZERO));
        drop(seat);
        assert!(clients.wait_empty(Duration::ZERO));
        assert!(clients.enter(1).is_some());
    }
}
