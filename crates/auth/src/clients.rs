//! How many clients there are, of all doors: for their limits, and to know when drained doors are empty.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The count. Its lock is taken when a client comes and when one goes.
#[derive(Debug, Default)]
pub struct Clients {
    count: Mutex<Count>,
    empty: Condvar,
}

#[derive(Debug, Default)]
struct Count {
    now: usize,
    /// The number of threads that wait until no client is left. A client that leaves wakes them. Where none waits, it
    /// makes no system call.
    waiting: usize,
}

/// One client's place; dropped, it is free.
#[derive(Debug)]
pub struct Seat(Arc<Clients>);

impl Clients {
    /// A place for one more client; `None` when there are `max` already.
    pub fn enter(self: &Arc<Clients>, max: usize) -> Option<Seat> {
        let mut count = self.lock();
        if count.now >= max {
            return None;
        }
        count.now += 1;
        Some(Seat(self.clone()))
    }

    /// How many there are.
    pub fn now(&self) -> usize {
        self.lock().now
    }

    /// Waits until nobody is left; false when `limit` is over first.
    pub fn wait_empty(&self, limit: Duration) -> bool {
        let mut count = self.lock();
        count.waiting += 1;
        let waited = self.empty.wait_timeout_while(count, limit, |count| count.now > 0);
        let mut count = waited.unwrap_or_else(PoisonError::into_inner).0;
        count.waiting -= 1;
        count.now == 0
    }

    fn lock(&self) -> MutexGuard<'_, Count> {
        // Every change is one number, so a panic cannot leave it half done.
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut count = self.0.lock();
        count.now -= 1;
        if count.now == 0 && count.waiting > 0 {
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

    #[test]
    fn who_waits_is_told_when_the_last_one_goes() {
        let clients = Arc::new(Clients::default());
        let seats: Vec<_> = (0..3).map(|_| clients.enter(3).expect("there is room")).collect();
        let waiter = clients.clone();
        let waits = std::thread::spawn(move || waiter.wait_empty(Duration::from_secs(60)));
        drop(seats);
        assert!(waits.join().expect("it ends"), "nobody is left");
        assert_eq!(clients.lock().waiting, 0);
    }
}
