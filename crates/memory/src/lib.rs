//! What clients make the process keep in memory, and the ceiling over all of it.
//!
//! Job: one [`Budget`] per process counts the bytes that are kept for clients, and refuses what would pass
//! its limit. Who keeps bytes owns a [`Reservation`], which grows and shrinks with them.
//!
//! Invariants: what is reserved never passes the limit by a reservation that was granted, and a limit that
//! is lowered takes nothing away; a reservation gives back what it has when it is dropped; a refused one
//! has what it had before. The first [`STEP_BYTES`] of each reservation are free, so a client with
//! ordinary statements touches nothing that others share.
//!
//! Must not know: who the clients are, their protocols, what an error looks like.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Reservations are multiples of this, and what is not larger needs none.
pub const STEP_BYTES: usize = 16 << 10;

/// What bytes are kept for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Commands that have come in part, or wait to be carried out.
    Packets,
    /// The prepared statements of a session.
    Prepared,
    /// Open transactions, so that they can be done again.
    Replay,
    /// Rows that are fetched for a statement and not passed on at once.
    Results,
    /// What memcached clients send.
    Values,
    /// Bodies of HTTP requests.
    Bodies,
}

/// Refusals by purpose: the counter's name, what it counts.
const REFUSED: [(&str, &str); 6] = [
    (
        "memory_refused_packets",
        "Commands that were refused because memory_bytes_max was reached.",
    ),
    (
        "memory_refused_prepared",
        "Prepared statements that were refused because memory_bytes_max was reached.",
    ),
    (
        "memory_refused_replay",
        "Transactions that cannot be done again because memory_bytes_max was reached.",
    ),
    (
        "memory_refused_results",
        "Statements whose rows had to be kept and were refused because memory_bytes_max was reached.",
    ),
    (
        "memory_refused_values",
        "Requests of memcached clients that were refused because memory_bytes_max was reached.",
    ),
    (
        "memory_refused_bodies",
        "HTTP requests whose body was refused because memory_bytes_max was reached.",
    ),
];

/// The budget has no more: the reservation is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The bytes that the process keeps for all its clients.
#[derive(Debug)]
pub struct Budget {
    limit: AtomicUsize,
    reserved: AtomicUsize,
    refused: [AtomicU64; REFUSED.len()],
}

impl Budget {
    /// A budget of so many bytes, none of them reserved.
    pub fn new(limit: usize) -> Budget {
        Budget {
            limit: AtomicUsize::new(limit),
            reserved: AtomicUsize::new(0),
            refused: Default::default(),
        }
    }

    /// Reservations may add up to so much from now on. What is reserved already stays.
    pub fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Relaxed);
    }

    /// The bytes that are reserved now.
    pub fn reserved(&self) -> usize {
        self.reserved.load(Relaxed)
    }

    /// Names, help and values of its counters, in a fixed order.
    pub fn counters(&self) -> Vec<(&'static str, &'static str, u64)> {
        let reserved = (
            "memory_reserved_now",
            "Bytes that are kept for clients and count towards memory_bytes_max now.",
            self.reserved() as u64,
        );
        let refused = REFUSED.iter().zip(&self.refused);
        let refused = refused.map(|(&(name, help), count)| (name, help, count.load(Relaxed)));
        std::iter::once(reserved).chain(refused).collect()
    }

    fn take(&self, bytes: usize) -> bool {
        let limit = self.limit.load(Relaxed);
        let more = |now: usize| now.checked_add(bytes).filter(|then| *then <= limit);
        self.reserved.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    fn give(&self, bytes: usize) {
        self.reserved.fetch_sub(bytes, Relaxed);
    }
}

/// Bytes of a budget that somebody has; given back when it is dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<Budget>,
    purpose: Purpose,
    bytes: usize,
}

impl Reservation {
    /// A reservation of nothing yet.
    pub fn new(budget: &Arc<Budget>, purpose: Purpose) -> Reservation {
        Reservation {
            budget: budget.clone(),
            purpose,
            bytes: 0,
        }
    }

    /// Another one of the same budget, of nothing yet.
    pub fn another(&self, purpose: Purpose) -> Reservation {
        Reservation::new(&self.budget, purpose)
    }

    /// Makes it what holding `bytes` needs, be that more or less than before.
    ///
    /// # Errors
    /// The budget has not so much more.
    pub fn cover(&mut self, bytes: usize) -> Result<(), Full> {
        if self.cover_if_free(bytes) {
            return Ok(());
        }
        self.budget.refused[self.purpose as usize].fetch_add(1, Relaxed);
        Err(Full)
    }

    /// The same where nothing is refused without it: false then, and it is not counted.
    pub fn cover_if_free(&mut self, bytes: usize) -> bool {
        let needed = counted(bytes);
        if needed > self.bytes {
            if !self.budget.take(needed - self.bytes) {
                return false;
            }
            self.bytes = needed;
        } else {
            self.shrink(bytes);
        }
        true
    }

    /// Gives back what holding `bytes` does not need. It never grows.
    pub fn shrink(&mut self, bytes: usize) {
        let needed = counted(bytes);
        if needed < self.bytes {
            self.budget.give(self.bytes - needed);
            self.bytes = needed;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

/// What is reserved for so many bytes.
fn counted(bytes: usize) -> usize {
    match bytes <= STEP_BYTES {
        true => 0,
        false => bytes.checked_next_multiple_of(STEP_BYTES).unwrap_or(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(steps: usize) -> Arc<Budget> {
        Arc::new(Budget::new(steps * STEP_BYTES))
    }

    fn refused(budget: &Budget) -> u64 {
        budget.refused[Purpose::Packets as usize].load(Relaxed)
    }

    #[test]
    fn what_is_small_is_free() {
        let budget = budget(0);
        let mut reservation = Reservation::new(&budget, Purpose::Packets);
        assert_eq!(reservation.cover(STEP_BYTES), Ok(()));
        assert_eq!(budget.reserved(), 0);
        assert_eq!(reservation.cover(STEP_BYTES + 1), Err(Full));
        assert_eq!((budget.reserved(), refused(&budget)), (0, 1));
    }

    #[test]
    fn a_refused_reservation_has_what_it_had() {
        let budget = budget(5);
        let mut one = Reservation::new(&budget, Purpose::Packets);
        let mut other = Reservation::new(&budget, Purpose::Packets);
        assert_eq!(one.cover(3 * STEP_BYTES), Ok(()));
        assert_eq!(other.cover(2 * STEP_BYTES - 1), Ok(()));
        assert_eq!(budget.reserved(), 5 * STEP_BYTES);
        assert_eq!(one.cover(3 * STEP_BYTES + 1), Err(Full));
        assert_eq!(one.cover(usize::MAX), Err(Full));
        assert_eq!(budget.reserved(), 5 * STEP_BYTES);
        drop(other);
        assert_eq!(one.cover(4 * STEP_BYTES), Ok(()));
        one.shrink(STEP_BYTES);
        assert_eq!(budget.reserved(), 0);
        one.shrink(9 * STEP_BYTES);
        assert_eq!(budget.reserved(), 0, "it never grows by that");
    }

    #[test]
    fn a_lowered_limit_takes_nothing_away() {
        let budget = budget(4);
        let mut reservation = Reservation::new(&budget, Purpose::Packets);
        assert_eq!(reservation.cover(4 * STEP_BYTES), Ok(()));
        budget.set_limit(STEP_BYTES);
        assert_eq!(budget.reserved(), 4 * STEP_BYTES);
        assert_eq!(
            reservation.cover(3 * STEP_BYTES),
            Ok(()),
            "less is no growth"
        );
        assert_eq!(reservation.cover(4 * STEP_BYTES), Err(Full));
        drop(reservation);
        assert_eq!(budget.reserved(), 0);
    }

    #[test]
    fn many_threads_never_pass_the_limit() {
        let budget = budget(8);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..1000 {
                        let mut reservation = Reservation::new(&budget, Purpose::Packets);
                        let granted = reservation.cover((2 + round % 4) * STEP_BYTES).is_ok();
                        assert!(budget.reserved() <= 8 * STEP_BYTES);
                        assert!(!granted || budget.reserved() >= 2 * STEP_BYTES);
                    }
                });
            }
        });
        assert_eq!(budget.reserved(), 0);
    }
}
