//! How many clients there are, of all doors: for the limit, and to know when drained doors are empty.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
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
    /// Counts a client; false when there are `max` already. Who enters must leave, or be seated.
    pub fn enter(&self, max: usize) -> bool {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let room = *now < max;
        *now += usize::from(room);
        room
    }

    /// A client is gone.
    pub fn leave(&self) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        *now -= 1;
        if *now == 0 {
            self.empty.notify_all();
        }
    }

    /// The place of a client that has entered.
    pub fn seat(self: &Arc<Clients>) -> Seat {
        Seat(self.clone())
    }

    /// How many there are.
    pub fn now(&self) -> usize {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody is left; false when `limit` is over first.
    pub fn wait_empty(&self, limit: Duration) -> bool {
        let now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.empty.wait_timeout_while(now, limit, |now| *now > 0);
        *waited.unwrap_or_else(PoisonError::into_inner).0 == 0
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_and_a_seat_frees_its_place() {
        let clients = Arc::new(Clients::default());
        assert!(clients.enter(1));
        assert!(!clients.enter(1));
        let seat = clients.seat();
        assert!(!clients.wait_empty(Duration::ZERO));
        drop(seat);
        assert!(clients.wait_empty(Duration::ZERO));
        assert!(clients.enter(1));
    }
}
